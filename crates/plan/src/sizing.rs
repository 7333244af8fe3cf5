//! Sizes of a cluster.

use serde::Serialize;

use crate::catalogue::{Catalogue, Drive, Media, Operation};
use crate::performance::{Cluster, LINK_SHARE, Performance, SMALL_GB, mixed, performance};
use crate::protection::Protection;
use crate::rebuild::{Rebuild, rebuild};

/// Placement groups of an OSD that a pool aims at.
pub const PGS_PER_OSD: f64 = 100.0;
/// Largest busy share of processors.
pub const CPU_SHARE: f64 = 0.85;
/// Processors come in multiples of this.
const CORES_STEP: f64 = 8.0;
/// Memory of an OSD, in GB, as Ceph's default target has it.
const DRAM_PER_OSD_GB: u32 = 4;
/// Sizes of memory that servers have, in GB.
const DRAM_GB: [u32; 10] = [64, 96, 128, 192, 256, 384, 512, 768, 1024, 2048];
/// Speeds of links, in Gb/s.
const LINKS_GBIT: [f64; 7] = [10.0, 25.0, 40.0, 50.0, 100.0, 200.0, 400.0];
/// Share of the raw capacity above which OSDs take no more.
pub const FULL: f64 = 0.95;
/// Servers from which five monitors are better than three.
const FIVE_MONITORS: u32 = 20;

/// The software of the daemons.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Engine {
    Ceph,
    Nacre,
}

/// The clients' operations.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Workload {
    /// Objects of 256 KiB and more; percentage of reads.
    Large { read_percent: f64 },
    /// 4 KiB at random places; percentage of reads.
    Small { read_percent: f64 },
}

/// A question to the planner.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Request {
    pub usable_tb: f64,
    /// Servers that may fail with no byte lost.
    pub failures: u32,
    pub workload: Workload,
    /// Name of a drive of the catalogue.
    pub drive: String,
    /// Absent: one that suits failures and workload.
    pub protection: Option<Protection>,
    pub engine: Engine,
    /// Share of the raw capacity that is used, 0 to 1.
    pub fill: f64,
    /// Absent: as many as capacity and protection need.
    pub servers: Option<u32>,
    /// Absent: as many as the catalogue says.
    pub drives_per_server: Option<u32>,
    /// Speed of each of a server's two links, in Gb/s. Absent: one that suits.
    pub link_gbit_per_s: Option<f64>,
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Plan {
    pub engine: Engine,
    pub protection: Protection,
    pub drive: String,
    pub servers: u32,
    pub monitors: u32,
    pub drives_per_server: u32,
    pub drives: u32,
    pub osds_per_drive: u32,
    pub osds: u32,
    pub pg_count: u32,
    pub raw_tb: f64,
    /// Capacity of the drives for users, were they filled to the last byte.
    pub usable_at_full_tb: f64,
    pub usable_tb: f64,
    /// Share of the raw capacity that is used, now, and after the loss of a server whose data went to the others;
    /// absent if no server is left to take it.
    pub fill: f64,
    pub fill_after_loss: Option<f64>,
    pub read: Option<Performance>,
    pub write: Option<Performance>,
    /// The mix of the workload, in the unit of its parts.
    pub mixed_rate: Option<f64>,
    /// Processors of a server.
    pub cores_per_server: Option<u32>,
    pub dram_per_server_gb: u32,
    /// Traffic of a server at the predicted rates, each way, in GB/s, and the speed of links that carry it, in Gb/s.
    pub client_gb_per_s: Option<f64>,
    pub storage_gb_per_s: Option<f64>,
    pub client_link_gbit_per_s: Option<f64>,
    pub storage_link_gbit_per_s: Option<f64>,
    pub rebuild: Option<Rebuild>,
    /// Of all drives.
    pub drives_watts: Option<f64>,
    /// Of all servers with OSDs.
    pub rack_units: Option<f64>,
    /// Figures that rest on no measurement of such a cluster.
    pub extrapolated: Vec<String>,
}

/// The reason why there is no plan.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum RequestError {
    #[error("{field} {value} is not within {low} to {high}")]
    Range { field: &'static str, value: f64, low: f64, high: f64 },
    #[error("no drive is called {name:?}; the catalogue has {known}")]
    Drive { name: String, known: String },
    #[error("{protection} survives the failure of {tolerates} servers, not of {failures}")]
    Failures { protection: Protection, tolerates: u32, failures: u32 },
    #[error("{protection} needs {needed} servers, and {servers} are given")]
    Servers { protection: Protection, needed: u32, servers: u32 },
    #[error(
        "{servers} servers of {per_server} drives hold {held_tb:.1} TB at this fill, and {usable_tb:.1} TB are asked for"
    )]
    Capacity { servers: u32, per_server: u32, held_tb: f64, usable_tb: f64 },
    #[error("no common protection survives the failure of {0} servers; name one")]
    NoProtection(u32),
    #[error("the cluster would have more than {0} drives")]
    TooLarge(u32),
}

/// More drives than any cluster has.
const DRIVES_MAX: u32 = 100_000;

impl Request {
    fn check(&self) -> Result<(), RequestError> {
        let (Workload::Large { read_percent } | Workload::Small { read_percent }) = self.workload;
        let fields = [
            ("usable TB", Some(self.usable_tb), 0.001, 1e6),
            ("failures", Some(f64::from(self.failures)), 0.0, 8.0),
            ("percentage of reads", Some(read_percent), 0.0, 100.0),
            ("fill", Some(self.fill), 0.05, FULL),
            ("servers", self.servers.map(f64::from), 1.0, 10_000.0),
            ("drives per server", self.drives_per_server.map(f64::from), 1.0, 1000.0),
            ("link Gb/s", self.link_gbit_per_s, 0.1, 10_000.0),
        ];
        for (field, value, low, high) in fields {
            if let Some(value) = value.filter(|value| !(low..=high).contains(value)) {
                return Err(RequestError::Range { field, value, low, high });
            }
        }
        Ok(())
    }

    /// The protection that is asked for, or one that suits: copies for small operations, a code for large ones.
    fn protection(&self) -> Result<Protection, RequestError> {
        let failures = self.failures;
        if let Some(protection) = self.protection {
            let tolerates = protection.failures();
            return match tolerates >= failures {
                true => Ok(protection),
                false => Err(RequestError::Failures { protection, tolerates, failures }),
            };
        }
        let small = matches!(self.workload, Workload::Small { .. });
        Protection::COMMON
            .into_iter()
            .filter(|one| one.failures() >= failures.max(1) && one.is_erasure() != small)
            .min_by_key(|one| (one.failures(), one.members()))
            .ok_or(RequestError::NoProtection(failures))
    }
}

/// Sizes the cluster that `request` asks for.
///
/// Errors: [`RequestError`], which names the value at fault.
pub fn plan(catalogue: &Catalogue, request: &Request) -> Result<Plan, RequestError> {
    request.check()?;
    let drive = catalogue.drive(&request.drive).ok_or_else(|| RequestError::Drive {
        name: request.drive.clone(),
        known: catalogue.drives.iter().map(|drive| drive.name.as_str()).collect::<Vec<_>>().join(", "),
    })?;
    let protection = request.protection()?;
    let (servers, per_server) = servers(request, drive, protection)?;
    let drives = servers * per_server;
    let raw_tb = f64::from(drives) * drive.capacity_tb;
    let fill = request.usable_tb * protection.raw_per_usable() / raw_tb;
    let fill_after_loss = (servers > protection.members()).then(|| fill * f64::from(servers) / f64::from(servers - 1));
    let osds_per_drive = match request.engine {
        Engine::Ceph => drive.osds,
        // An OSD of Nacre has a thread for each of its shards.
        Engine::Nacre => 1,
    };
    let osds = drives * osds_per_drive;
    let cluster = Cluster {
        drive,
        drives,
        servers,
        protection,
        client_gbit_per_s: request.link_gbit_per_s,
        storage_gbit_per_s: request.link_gbit_per_s,
    };
    let (reads, writes, unit_gb, read_percent) = match request.workload {
        Workload::Large { read_percent } => (Operation::LargeRead, Operation::LargeWrite, 1.0, read_percent),
        Workload::Small { read_percent } => (Operation::SmallRead, Operation::SmallWrite, SMALL_GB, read_percent),
    };
    let read = performance(catalogue, &cluster, reads);
    let write = performance(catalogue, &cluster, writes);
    let traffic = traffic(protection, servers, unit_gb, read.as_ref(), write.as_ref());
    let busy = [&read, &write].into_iter().flatten().filter_map(|one| one.cores_per_server).reduce(f64::max);
    let cores = busy.map(|cores| {
        let steps = (cores / CPU_SHARE / CORES_STEP - 1e-9).ceil().max(1.0);
        (steps * CORES_STEP) as u32
    });
    let rebuild = rebuild(catalogue, drive, drives, per_server, protection.failures(), fill);
    let mut plan = Plan {
        engine: request.engine,
        protection,
        drive: drive.name.clone(),
        servers,
        monitors: if servers < FIVE_MONITORS { 3 } else { 5 },
        drives_per_server: per_server,
        drives,
        osds_per_drive,
        osds,
        pg_count: pg_count(osds, protection),
        raw_tb,
        usable_at_full_tb: raw_tb / protection.raw_per_usable(),
        usable_tb: request.usable_tb,
        fill,
        fill_after_loss,
        mixed_rate: read.as_ref().zip(write.as_ref()).map(|(read, write)| mixed(read.rate, write.rate, read_percent)),
        cores_per_server: cores,
        dram_per_server_gb: dram(per_server * osds_per_drive),
        client_gb_per_s: traffic.map(|(client, _)| client),
        storage_gb_per_s: traffic.map(|(_, storage)| storage),
        client_link_gbit_per_s: traffic.and_then(|(client, _)| link(client)),
        storage_link_gbit_per_s: traffic.and_then(|(_, storage)| link(storage)),
        drives_watts: drive.watts.map(|watts| watts * f64::from(drives)),
        rack_units: drive.rack_units.map(|units| units * f64::from(servers)),
        extrapolated: Vec::new(),
        read,
        write,
        rebuild,
    };
    plan.extrapolated = extrapolated(&plan, drive, request);
    Ok(plan)
}

/// Plans for all common protections that survive as many failures, cheapest in raw capacity first. Those that cannot be
/// built as asked for are left out.
pub fn alternatives(catalogue: &Catalogue, request: &Request) -> Vec<Plan> {
    let mut schemes: Vec<Protection> = Protection::COMMON.into();
    schemes.extend(request.protection.filter(|one| !Protection::COMMON.contains(one)));
    schemes.sort_by(|a, b| a.raw_per_usable().total_cmp(&b.raw_per_usable()));
    let with = |protection| Request { protection: Some(protection), ..request.clone() };
    schemes.into_iter().filter_map(|protection| plan(catalogue, &with(protection)).ok()).collect()
}

/// Servers, and drives of each.
fn servers(request: &Request, drive: &Drive, protection: Protection) -> Result<(u32, u32), RequestError> {
    let needed = protection.members();
    if let Some(servers) = request.servers.filter(|servers| *servers < needed) {
        return Err(RequestError::Servers { protection, needed, servers });
    }
    let raw_tb = request.usable_tb * protection.raw_per_usable() / request.fill;
    // A sum that is whole but for rounding is whole.
    let drives = (raw_tb / drive.capacity_tb - 1e-9).ceil().max(1.0);
    if drives > f64::from(DRIVES_MAX) {
        return Err(RequestError::TooLarge(DRIVES_MAX));
    }
    let drives = drives as u32;
    let most = request.drives_per_server.unwrap_or(drive.per_server);
    let servers = request.servers.unwrap_or_else(|| needed.max(drives.div_ceil(most)));
    let per_server = request.drives_per_server.unwrap_or_else(|| drives.div_ceil(servers).max(1));
    if per_server > most || servers * per_server < drives {
        let per_server = per_server.min(most);
        let held_tb = f64::from(servers * per_server) * drive.capacity_tb * request.fill / protection.raw_per_usable();
        return Err(RequestError::Capacity { servers, per_server, held_tb, usable_tb: request.usable_tb });
    }
    Ok((servers, per_server))
}

/// Placement groups of one pool that has all OSDs: the power of two that is nearest, as a ratio, to 100 for each OSD.
pub fn pg_count(osds: u32, protection: Protection) -> u32 {
    let wanted = f64::from(osds) * PGS_PER_OSD / f64::from(protection.members());
    let power = wanted.max(1.0).log2().round().clamp(0.0, 16.0);
    1 << power as u32
}

/// Memory of a server with `osds`.
pub fn dram(osds: u32) -> u32 {
    let wanted = osds.saturating_mul(DRAM_PER_OSD_GB);
    let enough = DRAM_GB.into_iter().find(|size| *size >= wanted);
    enough.unwrap_or_else(|| wanted.next_multiple_of(1024))
}

/// GB/s of a server with clients and with other servers, at the larger of its rates.
fn traffic(
    protection: Protection,
    servers: u32,
    unit_gb: f64,
    read: Option<&Performance>,
    write: Option<&Performance>,
) -> Option<(f64, f64)> {
    let of_server = |one: &Performance| one.rate * unit_gb / f64::from(servers);
    let (read, write) = (read.map(of_server), write.map(of_server));
    if read.is_none() && write.is_none() {
        return None;
    }
    let (read, write) = (read.unwrap_or(0.0), write.unwrap_or(0.0));
    let storage = (read * protection.storage_bytes_per_read()).max(write * protection.storage_bytes_per_written());
    Some((read.max(write), storage))
}

/// The slowest link that carries `gb_per_s`, in Gb/s. `None` if none does.
pub fn link(gb_per_s: f64) -> Option<f64> {
    LINKS_GBIT.into_iter().find(|gbit| gbit / 8.0 * LINK_SHARE >= gb_per_s)
}

/// Everything about a plan that rests on no measurement.
fn extrapolated(plan: &Plan, drive: &Drive, request: &Request) -> Vec<String> {
    let mut notes: Vec<String> = Vec::new();
    if plan.engine == Engine::Nacre {
        notes.push(
            "no cluster of Nacre with such servers was measured: rates and processors are Ceph's. On one machine of two \
             processors Nacre's daemons took between a fifth and a half of Ceph's CPU time for each operation \
             (docs/performance.md)"
                .into(),
        );
    }
    for one in [&plan.read, &plan.write].into_iter().flatten() {
        notes.extend(one.extrapolated.iter().cloned());
    }
    let rates = [("reads", &plan.read), ("writes", &plan.write)];
    for (what, _) in rates.into_iter().filter(|(_, rate)| rate.is_none()) {
        let size = if matches!(request.workload, Workload::Small { .. }) { "small" } else { "large" };
        notes.push(format!("no known cluster tells of {size} {what} with {} on such drives", plan.protection));
    }
    notes.extend(plan.rebuild.as_ref().and_then(|rebuild| rebuild.extrapolated.clone()));
    if drive.media == Media::Hdd {
        notes.push("disks with journals on flash were measured once, in 2016; CPU and rebuild are not known".into());
    }
    if plan.fill_after_loss.is_none() {
        notes.push(format!(
            "{} servers are as many as {} needs: after the loss of one, data stays with less protection until it is back",
            plan.servers, plan.protection
        ));
    } else if plan.fill_after_loss.is_some_and(|fill| fill > FULL) {
        notes.push("after the loss of a server the others cannot take all of its data".into());
    }
    notes
}
