//! Throughput and processors of a cluster, from clusters that were measured.

use serde::Serialize;

use crate::catalogue::{Catalogue, Drive, Known, Measured, Operation};
use crate::protection::Protection;

/// Share of a link's speed that is payload: 96 Gb/s were measured on 100 GbE.
pub const LINK_SHARE: f64 = 0.96;
/// Bytes that drives write for each byte of copies and shards: metadata and logs. Drives of the cluster with the drive
/// 7450 wrote 1.18 to 1.27 times as much.
pub const WRITE_AMPLIFICATION: f64 = 1.2;
/// Part of the throughput of copies that an erasure code reaches when it reads.
const CODED_READ: f64 = 0.85;
/// Cost of a byte between OSDs of an erasure code, where one of copies costs 1: the parity is computed, too. From the
/// optimal points 2x 32, 3x 16 and 4+2 21 GB/s: 2x and 3x cost the same for each byte sent, 4+2 costs 1.22 times that.
const CODED_WRITE: f64 = 1.22;
/// Size of a small operation, in GB.
pub const SMALL_GB: f64 = 4096e-9;

/// A cluster whose performance is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Cluster<'a> {
    pub drive: &'a Drive,
    pub drives: u32,
    pub servers: u32,
    pub protection: Protection,
    /// Speed of the links of a server with clients, and of those with other servers; absent if they are to be chosen.
    pub client_gbit_per_s: Option<f64>,
    pub storage_gbit_per_s: Option<f64>,
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Performance {
    /// GB/s of clients for large operations, operations per second for small ones.
    pub rate: f64,
    /// Processors of each server that are busy at this rate; absent if the known cluster does not tell.
    pub cores_per_server: Option<f64>,
    /// The first resource that is short.
    pub bound: &'static str,
    /// The known cluster that this comes from.
    pub known: String,
    /// Steps that no measurement stands for.
    pub extrapolated: Vec<String>,
}

/// Cost of an operation under `protection`; only ratios count. `None` if it is not known.
fn cost(protection: Protection, operation: Operation) -> Option<f64> {
    Some(match (operation, protection) {
        (Operation::LargeWrite, Protection::Copies(1)) => 0.5,
        (Operation::LargeWrite, Protection::Copies(_)) => protection.storage_bytes_per_written(),
        (Operation::LargeWrite, Protection::Erasure { .. }) => protection.storage_bytes_per_written() * CODED_WRITE,
        (Operation::LargeRead, Protection::Copies(_)) => 1.0,
        (Operation::LargeRead, Protection::Erasure { .. }) => 1.0 / CODED_READ,
        (Operation::SmallRead, Protection::Copies(_)) => 1.0,
        (Operation::SmallWrite, Protection::Copies(copies)) => f64::from(copies),
        // Nobody published small operations on erasure codes.
        (Operation::SmallRead | Operation::SmallWrite, Protection::Erasure { .. }) => return None,
    })
}

/// Predicts one kind of operation. `None` if no known cluster has such drives and such operations.
///
/// The rate of the known cluster is scaled by the number of drives and by the cost of the protection, and limited by
/// what drives and links can carry.
pub fn performance(catalogue: &Catalogue, cluster: &Cluster<'_>, operation: Operation) -> Option<Performance> {
    let (known, measured) = nearest(catalogue, cluster, operation)?;
    let mut extrapolated = Vec::new();
    let mut note = |text: String| extrapolated.push(text);
    let from = cost(measured.protection, operation)?;
    let to = cost(cluster.protection, operation)?;
    if measured.protection != cluster.protection {
        note(format!("{operation:?} with {} is converted from {}", cluster.protection, measured.protection));
    }
    if known.drive != cluster.drive.name {
        note(format!("{operation:?} on {} is taken from drives {}", cluster.drive.name, known.drive));
    }
    let growth = f64::from(cluster.drives) / f64::from(known.drives);
    if !(0.25..=4.0).contains(&growth) {
        note(format!("{operation:?} is scaled from {} to {} drives", known.drives, cluster.drives));
    }
    let by_software = measured.rate * growth * from / to;
    let drives = f64::from(cluster.drives);
    let raw = cluster.protection.raw_per_usable() * WRITE_AMPLIFICATION;
    let unit_gb = if operation.is_large() { 1.0 } else { SMALL_GB };
    let by_drives = match operation.is_read() {
        true => cluster.drive.read_gb_per_s.map(|rate| rate * drives / unit_gb),
        false => cluster.drive.write_gb_per_s.map(|rate| rate * drives / raw / unit_gb),
    };
    let servers = f64::from(cluster.servers);
    let link = |gbit: Option<f64>| gbit.map(|gbit| gbit / 8.0 * LINK_SHARE * servers / unit_gb);
    let between = match operation.is_read() {
        true => cluster.protection.storage_bytes_per_read(),
        false => cluster.protection.storage_bytes_per_written(),
    };
    let by_storage = link(cluster.storage_gbit_per_s).filter(|_| between > 0.0).map(|rate| rate / between);
    let bounds = [
        (Some(by_software), "OSDs"),
        (by_drives, "drives"),
        (link(cluster.client_gbit_per_s), "client network"),
        (by_storage, "storage network"),
    ];
    let bounds = bounds.into_iter().filter_map(|(rate, name)| Some((rate?, name)));
    let (rate, bound) = bounds.min_by(|a, b| a.0.total_cmp(&b.0))?;
    let cores_per_server = measured.cores_per_server.map(|cores| {
        let of_one = cores * f64::from(known.servers) / measured.cores_at.unwrap_or(measured.rate) * to / from;
        of_one * rate / servers
    });
    Some(Performance { rate, cores_per_server, bound, known: known.name.clone(), extrapolated })
}

/// The measurement that is most like what is asked for. Entries that stand later in the catalogue, a user's own among
/// them, are preferred to earlier ones that are as like.
fn nearest<'a>(
    catalogue: &'a Catalogue,
    cluster: &Cluster<'_>,
    operation: Operation,
) -> Option<(&'a Known, &'a Measured)> {
    let known = catalogue.clusters.iter().rev().filter(|known| known.media == cluster.drive.media);
    let measured = known.flat_map(|known| known.measured.iter().map(move |measured| (known, measured)));
    measured
        .filter(|(_, measured)| measured.operation == operation && cost(measured.protection, operation).is_some())
        .min_by_key(|(known, measured)| {
            let same_kind = measured.protection.is_erasure() == cluster.protection.is_erasure();
            let exact = measured.protection == cluster.protection;
            (measured.network_bound, known.drive != cluster.drive.name, !exact, !same_kind)
        })
}

/// The rate of a mix, of which `read_percent` are reads: each kind takes its share of the time.
pub fn mixed(read: f64, write: f64, read_percent: f64) -> f64 {
    let share = read_percent / 100.0;
    1.0 / (share / read + (1.0 - share) / write)
}
