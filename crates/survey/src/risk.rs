//! Fill, imbalance, rebuild time, loss.

use plan::catalogue::{Catalogue, Media};
use plan::rebuild::{failures_per_year, loss_per_year};
use serde::Serialize;

use crate::Measured;
use crate::cluster::Cluster;

/// Part of what OSDs write at most that a rebuild takes.
const REBUILD_SHARE: f64 = 0.5;

/// Dangers in figures. Shares are 0 to 1.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Risk {
    /// Share of all bytes that are used.
    pub fill: Option<f64>,
    /// The fullest OSD.
    pub fullest_osd: Option<(i64, f64)>,
    /// Fill of the fullest OSD beside the mean of all.
    pub imbalance: Option<f64>,
    /// Fill of the rest once the largest host is gone and its data is made again there, with that host.
    pub fill_without_host: Option<(String, f64)>,
    pub rebuild: Option<Rebuild>,
    /// Fewest failures that any pool with data survives.
    pub failures: Option<u64>,
}

/// The rebuild of the fullest OSD.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Rebuild {
    pub bytes: f64,
    pub bytes_per_s: f64,
    pub hours: f64,
    /// The source of the rate.
    pub assumed: String,
    /// Largest probability per year that a pool loses data.
    pub loss_per_year: f64,
}

impl Risk {
    pub fn of(cluster: &Cluster, measured: &[Measured]) -> Risk {
        let fills = || cluster.osds.iter().filter(|osd| osd.is_in).filter_map(|osd| Some((osd.id, osd.fill()?)));
        let fullest_osd = fills().max_by(|a, b| a.1.total_cmp(&b.1));
        let mean = fills().map(|(_, fill)| fill).sum::<f64>() / fills().count().max(1) as f64;
        let with_data = || cluster.pools.iter().filter(|pool| pool.stored_bytes > 0.0);
        let failures = with_data().map(|pool| pool.protection.failures()).min();
        Risk {
            fill: cluster.fill(),
            fullest_osd,
            imbalance: fullest_osd.filter(|_| mean > 0.0).map(|(_, fill)| fill / mean),
            fill_without_host: without_host(cluster),
            rebuild: rebuild(cluster, measured, failures.unwrap_or(0)),
            failures,
        }
    }
}

/// The largest host, and the fill of the others once they hold its data. `None` if there is one host only.
fn without_host(cluster: &Cluster) -> Option<(String, f64)> {
    let hosts = cluster.hosts();
    let (name, (bytes, _)) = hosts.iter().max_by(|a, b| a.1.0.total_cmp(&b.1.0))?;
    let (all, used) = hosts.values().fold((0.0, 0.0), |sum, host| (sum.0 + host.0, sum.1 + host.1));
    let left = all - bytes;
    (left > 0.0).then(|| ((*name).to_owned(), used / left))
}

/// The rate comes from a load's writes if there was one; else from the only published rebuild of the planner's
/// catalogue.
fn rebuild(cluster: &Cluster, measured: &[Measured], failures: u64) -> Option<Rebuild> {
    let osds: Vec<_> = cluster.osds.iter().filter(|osd| osd.is_in && osd.bytes > 0.0).collect();
    let fullest = osds.iter().max_by(|a, b| a.used_bytes.total_cmp(&b.used_bytes))?;
    let media = if osds.iter().any(|osd| osd.rotates == Some(true)) { Media::Hdd } else { Media::Nvme };
    let written = measured.iter().filter(|one| one.writes).map(|one| one.bytes_per_s * one.copies);
    let written = written.fold(0.0, f64::max);
    let (bytes_per_s, assumed) = if written > 0.0 {
        let words = "half of what the OSDs wrote under the load of this report, as if they were all at work on it";
        (written * REBUILD_SHARE, words.to_owned())
    } else {
        let catalogue = Catalogue::built_in();
        let known = catalogue.drives.iter().find_map(|drive| Some((drive.name.clone(), drive.rebuild_gb_per_s?)))?;
        (known.1 * 1e9, format!("the rate that was published of {} under load, on six servers", known.0))
    };
    let hours = fullest.used_bytes / bytes_per_s / 3600.0;
    let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    let per_host = osds.len().div_ceil(cluster.hosts().len().max(1));
    let failures = u32::try_from(failures).unwrap_or(u32::MAX);
    let loss_per_year = loss_per_year(failures_per_year(media), count(osds.len()), count(per_host), failures, hours);
    Some(Rebuild { bytes: fullest.used_bytes, bytes_per_s, hours, assumed, loss_per_year })
}
