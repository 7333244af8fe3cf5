//! Time to rebuild a drive, and the risk of losing data.

use serde::Serialize;

use crate::catalogue::{Catalogue, Drive, Media};

/// Failures of drives per year that are assumed where nothing else is said: 0.5 % of flash drives, 2 % of disks.
const NVME_FAILURES_PER_YEAR: f64 = 0.005;
const HDD_FAILURES_PER_YEAR: f64 = 0.02;
const HOURS_PER_YEAR: f64 = 8766.0;
/// Part of a drive's own throughput that a rebuild takes where none was measured.
const REBUILD_SHARE: f64 = 0.5;

/// Rebuild of one drive.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Rebuild {
    pub hours: f64,
    pub gb_per_s: f64,
    /// Largest probability per year that more failures than are tolerated meet.
    pub loss_per_year: f64,
    pub extrapolated: Option<String>,
}

/// The rebuild of a replaced drive that was filled to `fill` (0 to 1), on a cluster of `drives`, `per_server` each,
/// that tolerates `failures`. `None` if nothing is known of the drive's throughput.
///
/// The rate is the measured one; else that of the only measured drive of the same kind, at most half of what the drive
/// writes by itself.
pub fn rebuild(
    catalogue: &Catalogue,
    drive: &Drive,
    drives: u32,
    per_server: u32,
    failures: u32,
    fill: f64,
) -> Option<Rebuild> {
    let of_other = || {
        let like = catalogue.drives.iter().find(|other| other.media == drive.media && other.rebuild_gb_per_s.is_some());
        let own = drive.write_gb_per_s.map(|rate| rate * REBUILD_SHARE);
        let (rate, words) = match (like.and_then(|other| other.rebuild_gb_per_s), own) {
            (Some(other), Some(own)) if own < other => (own, "half of what the drive writes by itself".to_owned()),
            (Some(other), _) => (other, format!("the rate measured on {}", like.map_or("", |one| &one.name))),
            (None, Some(own)) => (own, "half of what the drive writes by itself".to_owned()),
            (None, None) => return None,
        };
        Some((rate, Some(format!("the rebuild of {} is taken to be {words}", drive.name))))
    };
    let (gb_per_s, extrapolated) = match drive.rebuild_gb_per_s {
        Some(rate) => (rate, None),
        None => of_other()?,
    };
    let hours = drive.capacity_tb * 1000.0 * fill / gb_per_s / 3600.0;
    let loss_per_year = loss_per_year(failures_per_year(drive.media), drives, per_server, failures, hours);
    Some(Rebuild { hours, gb_per_s, loss_per_year, extrapolated })
}

/// Failures of one drive per year that are assumed.
pub fn failures_per_year(media: Media) -> f64 {
    match media {
        Media::Nvme => NVME_FAILURES_PER_YEAR,
        Media::Hdd => HDD_FAILURES_PER_YEAR,
    }
}

/// Largest probability per year of a loss: a first drive fails, and during its rebuild as many more, each on a server
/// of its own, as are one too many. Every such meeting is counted as a loss, which it is where groups are many.
/// Failures of servers and failures that belong together are not counted.
pub fn loss_per_year(per_year: f64, drives: u32, per_server: u32, failures: u32, hours: f64) -> f64 {
    let first = f64::from(drives) * per_year;
    let window = hours / HOURS_PER_YEAR;
    let others: f64 = (1..=failures)
        .map(|failed| {
            let left = drives.saturating_sub(failed.saturating_mul(per_server));
            // Failures within the same window come in any order, so that each later one has a part of it.
            f64::from(left) * per_year * window / f64::from(failed)
        })
        .product();
    (first * others).min(1.0)
}
