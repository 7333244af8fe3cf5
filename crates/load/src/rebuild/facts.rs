//! A rebuild as the monitors tell it: decisions from their answers, without a connection.

use std::collections::BTreeSet;

use bench::plan::Redundancy;
use bench::rebuild::RebuildPoint;
use serde_json::Value;

use super::RebuildError;
use crate::pools::{Space, groups};

/// OSDs to lose.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Lost {
    Osds(Vec<u32>),
    /// All OSDs below a host of the CRUSH tree.
    Host(String),
}

/// The largest share of the raw capacity that may be filled, in percent: single OSDs are fuller than the mean, and none
/// may be full before the rebuild is over.
pub const FILL_PERCENT_MAX: f64 = 75.0;

/// The state of the cluster, from `status`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Status {
    /// Every group is active and clean.
    pub clean: bool,
    /// States of groups in words.
    pub states: String,
    pub osds: u64,
    pub up: u64,
    pub joined: u64,
    pub degraded: u64,
    pub misplaced: u64,
    pub recovered_bytes_per_s: u64,
}

impl Status {
    pub fn of(status: &Value) -> Status {
        let (clean, states) = groups(status);
        // Ceph once had the counts of OSDs one level deeper.
        let osds = |name: &str| {
            let counts = &status["osdmap"];
            let counts = if counts["osdmap"].is_object() { &counts["osdmap"] } else { counts };
            counts[name].as_u64().unwrap_or(0)
        };
        let of_groups = |name: &str| status["pgmap"][name].as_u64().unwrap_or(0);
        Status {
            clean,
            states,
            osds: osds("num_osds"),
            up: osds("num_up_osds"),
            joined: osds("num_in_osds"),
            degraded: of_groups("degraded_objects"),
            misplaced: of_groups("misplaced_objects"),
            recovered_bytes_per_s: of_groups("recovering_bytes_per_sec"),
        }
    }

    /// True if no copy is missing, and every OSD serves.
    pub fn is_whole(&self) -> bool {
        self.clean && self.degraded == 0 && self.osds > 0 && self.up == self.osds && self.joined == self.osds
    }

    /// True if groups miss members, `lost` OSDs being down.
    pub fn shows_loss(&self, lost: usize) -> bool {
        !self.clean && self.up + lost as u64 <= self.osds
    }

    pub fn point(&self, at_s: f64) -> RebuildPoint {
        let Status { degraded, misplaced, recovered_bytes_per_s, .. } = *self;
        RebuildPoint { at_s, degraded, misplaced, recovered_bytes_per_s }
    }
}

/// The OSDs of `lost`, in order.
///
/// Errors: there is no such OSD or host, or the host has none.
pub(super) fn osds_of(lost: &Lost, osd_tree: &Value) -> Result<Vec<u32>, RebuildError> {
    let nodes = || osd_tree["nodes"].as_array().into_iter().flatten();
    let is_osd = |node: &&Value| node["type"] == "osd";
    let id = |node: &Value| node["id"].as_u64().and_then(|id| u32::try_from(id).ok());
    let known: BTreeSet<u32> = nodes().filter(is_osd).filter_map(id).collect();
    let found: BTreeSet<u32> = match lost {
        Lost::Osds(osds) => osds.iter().copied().collect(),
        Lost::Host(name) => {
            let host = nodes().find(|node| node["type"] == "host" && node["name"] == name.as_str());
            let host = host.ok_or_else(|| {
                let names: Vec<&str> =
                    nodes().filter(|node| node["type"] == "host").filter_map(|node| node["name"].as_str()).collect();
                RebuildError::Lost(format!("there is no host '{name}'; there are {}", names.join(", ")))
            })?;
            let children = host["children"].as_array().into_iter().flatten();
            children.filter_map(|child| child.as_u64().and_then(|id| u32::try_from(id).ok())).collect()
        }
    };
    if let Some(unknown) = found.iter().find(|osd| !known.contains(osd)) {
        return Err(RebuildError::Lost(format!("there is no osd.{unknown}")));
    }
    if found.is_empty() {
        return Err(RebuildError::Lost("that host has no OSDs".into()));
    }
    Ok(found.into_iter().collect())
}

/// The reason why clients could not go on without `osds`: a group that would have fewer members than its pool's
/// `min_size`. `None` if all could.
pub(super) fn stops_serving(osds: &[u32], pg_dump: &Value, osd_dump: &Value) -> Option<String> {
    let pools = || osd_dump["pools"].as_array().into_iter().flatten();
    // Ceph's answer is an object, and was a list once.
    let stats = pg_dump["pg_stats"].as_array().or(pg_dump.as_array());
    stats.into_iter().flatten().find_map(|group| {
        let name = group["pgid"].as_str()?;
        let number: u64 = name.split('.').next()?.parse().ok()?;
        let pool = pools().find(|pool| pool["pool"].as_u64() == Some(number))?;
        let min_size = pool["min_size"].as_u64()?;
        let acting = group["acting"].as_array()?;
        let is_left = |osd: &&Value| {
            osd.as_u64().is_some_and(|osd| u32::try_from(osd).is_ok_and(|osd| !osds.contains(&osd) && osd < NO_OSD))
        };
        let left = acting.iter().filter(is_left).count() as u64;
        let pool = pool["pool_name"].as_str().unwrap_or(name);
        (left < min_size).then(|| {
            format!(
                "group {name} of pool '{pool}' would have {left} of {} members left, and serves with {min_size} only",
                acting.len()
            )
        })
    })
}

/// An erasure-coded group's place without an OSD.
const NO_OSD: u32 = i32::MAX as u32;

/// The epochs in which `osds` came up last, from `osd dump`; `None` for one that is down.
pub(super) fn boots(osds: &[u32], osd_dump: &Value) -> Vec<Option<u64>> {
    let entries = osd_dump["osds"].as_array();
    let boot = |osd: &u32| {
        let entry = entries?.iter().find(|entry| entry["osd"].as_u64() == Some(u64::from(*osd)))?;
        (entry["up"] == 1).then(|| entry["up_from"].as_u64())?
    };
    osds.iter().map(boot).collect()
}

/// True if all OSDs came up after what [`boots`] told before. The monitors may not have noticed yet that an OSD
/// stopped.
pub(super) fn came_back(before: &[Option<u64>], now: &[Option<u64>]) -> bool {
    before.len() == now.len() && before.iter().zip(now).all(|(before, now)| now.is_some() && now > before)
}

/// Bytes in use on `osds`, from `osd df`; `None` if one of them is not told.
pub(super) fn used_on(osds: &[u32], osd_df: &Value) -> Option<u64> {
    let nodes = osd_df["nodes"].as_array()?;
    let used = |osd: &u32| {
        let node = nodes.iter().find(|node| node["id"].as_u64() == Some(u64::from(*osd)))?;
        Some(node["kb_used"].as_u64()? * 1024)
    };
    osds.iter().map(used).sum()
}

/// Objects that fill the cluster up to `percent` of its raw capacity.
///
/// Errors: there is that much already, or the share is not one that can be filled.
pub(super) fn objects_to_fill(
    space: Space,
    percent: f64,
    redundancy: Redundancy,
    object_bytes: u64,
) -> Result<u64, RebuildError> {
    if !(percent > 0.0 && percent <= FILL_PERCENT_MAX) {
        return Err(RebuildError::Fill(format!(
            "{percent} % is not above 0 and at most {FILL_PERCENT_MAX:.0} %: single OSDs are fuller than the mean"
        )));
    }
    let wanted = space.total as f64 * percent / 100.0 - space.used as f64;
    let objects = (wanted / raw_per_usable(redundancy) / object_bytes as f64).floor();
    if objects < 1.0 {
        let used = space.used as f64 / space.total.max(1) as f64 * 100.0;
        return Err(RebuildError::Fill(format!(
            "{used:.1} % of the cluster are in use already, and {percent} % are asked for"
        )));
    }
    Ok(objects as u64)
}

/// Bytes of drives for each byte that is stored.
fn raw_per_usable(redundancy: Redundancy) -> f64 {
    match redundancy {
        Redundancy::Replicated { size } => f64::from(size),
        Redundancy::Erasure { k, m } => f64::from(k + m) / f64::from(k),
    }
}

/// True if the monitors' statistics show that `stored` bytes were written since `before`. OSDs tell of their space
/// every few seconds only, and part of the objects' metadata later.
pub(super) fn shows_fill(before: Space, now: Space, redundancy: Redundancy, stored: u64) -> bool {
    let raw = stored as f64 * raw_per_usable(redundancy);
    now.used as f64 >= before.used as f64 + raw * 0.95
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_cluster_is_whole_or_misses_copies() {
        let status = |up: u64, joined: u64, state: &str, degraded: u64| {
            Status::of(&json!({
                "osdmap": {"num_osds": 4, "num_up_osds": up, "num_in_osds": joined},
                "pgmap": {"num_pgs": 8, "pgs_by_state": [{"state_name": state, "count": 8}],
                          "degraded_objects": degraded, "recovering_bytes_per_sec": 7}
            }))
        };
        assert!(status(4, 4, "active+clean", 0).is_whole());
        for (up, joined, state, degraded) in [
            (3, 4, "active+clean", 0),
            (4, 3, "active+clean", 0),
            (4, 4, "active+undersized+degraded", 0),
            (4, 4, "active+clean", 1),
        ] {
            assert!(!status(up, joined, state, degraded).is_whole(), "{up} {joined} {state} {degraded}");
        }
        // The monitors learn of a stop before the groups' statistics do.
        assert!(!status(3, 4, "active+clean", 0).shows_loss(1));
        assert!(!status(4, 4, "active+undersized", 0).shows_loss(1));
        assert!(!status(3, 4, "active+undersized", 0).shows_loss(2));
        assert!(status(3, 4, "active+undersized", 0).shows_loss(1));
        assert!(!Status::of(&json!({})).is_whole());
        let point = status(3, 4, "active+undersized", 5).point(1.5);
        assert_eq!((point.at_s, point.degraded, point.recovered_bytes_per_s), (1.5, 5, 7));
        let deep = json!({"osdmap": {"osdmap": {"num_osds": 2, "num_up_osds": 1}}});
        assert_eq!((Status::of(&deep).osds, Status::of(&deep).up), (2, 1));
    }

    #[test]
    fn osds_and_hosts_are_found_or_refused() {
        let tree = json!({"nodes": [
            {"id": -1, "name": "default", "type": "root", "children": [-2, -3, -4]},
            {"id": -2, "name": "a", "type": "host", "children": [3, 0]},
            {"id": -3, "name": "b", "type": "host", "children": [1]},
            {"id": -4, "name": "c", "type": "host", "children": []},
            {"id": 0, "type": "osd", "name": "osd.0"}, {"id": 1, "type": "osd", "name": "osd.1"},
            {"id": 3, "type": "osd", "name": "osd.3"}]});
        let check = |lost: Lost, want: Result<Vec<u32>, &str>| match (osds_of(&lost, &tree), want) {
            (Ok(got), Ok(want)) => assert_eq!(got, want),
            (Err(error), Err(words)) => assert!(error.to_string().contains(words), "{error}"),
            (got, want) => panic!("{got:?} instead of {want:?}"),
        };
        check(Lost::Osds(vec![3, 1, 3]), Ok(vec![1, 3]));
        check(Lost::Host("a".into()), Ok(vec![0, 3]));
        check(Lost::Osds(vec![2]), Err("there is no osd.2"));
        check(Lost::Host("x".into()), Err("there is no host 'x'; there are a, b, c"));
        check(Lost::Host("c".into()), Err("has no OSDs"));
    }

    #[test]
    fn a_loss_that_clients_would_wait_for_is_refused() {
        let pools = json!({"pools": [{"pool": 1, "pool_name": "three", "min_size": 2},
                                      {"pool": 2, "pool_name": "coded", "min_size": 3}]});
        let dump = json!({"pg_stats": [{"pgid": "1.a", "acting": [0, 1, 2]}, {"pgid": "2.0", "acting": [3, 4, 5, 0]}]});
        assert_eq!(stops_serving(&[1], &dump, &pools), None);
        assert_eq!(stops_serving(&[1, 3], &dump, &pools), None);
        let said = stops_serving(&[1, 2], &dump, &pools).unwrap();
        assert!(said.starts_with("group 1.a of pool 'three' would have 1 of 3 members left"), "{said}");
        assert!(stops_serving(&[3, 4], &dump, &pools).unwrap().contains("'coded'"));
        let list = dump["pg_stats"].clone();
        assert!(stops_serving(&[1, 2], &list, &pools).is_some(), "a list, as it was once");
        let hole = json!({"pg_stats": [{"pgid": "2.0", "acting": [2_147_483_647, 4, 5, 0]}]});
        assert!(stops_serving(&[4], &hole, &pools).is_some(), "a place without an OSD is nobody");
    }

    #[test]
    fn osds_are_back_once_they_came_up_again() {
        let other = json!({"osd": 0, "up": 1, "up_from": 5});
        let dump = |up: u64, from: u64| json!({"osds": [other, {"osd": 2, "up": up, "up_from": from}]});
        let before = boots(&[0, 2], &dump(1, 7));
        assert_eq!(before, [Some(5), Some(7)]);
        let of_two = |up, from| came_back(&before[1..], &boots(&[2], &dump(up, from)));
        assert!(!of_two(1, 7), "nobody has noticed yet that it stopped");
        assert!(!of_two(0, 9) && of_two(1, 9));
        assert!(!came_back(&before, &boots(&[0, 2], &dump(1, 9))), "osd.0 has not stopped");
        assert!(!came_back(&before, &[]) && !came_back(&before, &boots(&[1, 3], &dump(1, 9))));
    }

    #[test]
    fn used_bytes_are_those_of_the_lost() {
        let df = json!({"nodes": [{"id": 0, "kb_used": 5}, {"id": 1, "kb_used": 7}]});
        assert_eq!(used_on(&[0, 1], &df), Some(12 << 10));
        assert_eq!(used_on(&[0, 2], &df), None);
    }

    #[test]
    fn fill_counts_redundancy_and_what_is_there() {
        let space = Space { total: 1 << 30, used: 1 << 28, free: 3 << 28 };
        let fill = |percent, redundancy| objects_to_fill(space, percent, redundancy, 1 << 20);
        assert_eq!(fill(50.0, Redundancy::Replicated { size: 2 }).unwrap(), 128);
        assert_eq!(fill(50.0, Redundancy::Erasure { k: 4, m: 2 }).unwrap(), 170);
        for (percent, words) in [(25.0, "25.0 % of the cluster are in use"), (76.0, "at most 75"), (0.0, "above 0")] {
            let error = fill(percent, Redundancy::Replicated { size: 2 }).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
        assert!(fill(f64::NAN, Redundancy::Replicated { size: 2 }).is_err());
    }

    #[test]
    fn statistics_show_what_was_filled_once_they_are_new() {
        let space = |used: u64| Space { total: 1 << 30, used, free: (1 << 30) - used };
        let shows = |now: u64| shows_fill(space(5 << 20), space(now), Redundancy::Erasure { k: 4, m: 2 }, 100 << 20);
        assert!(!shows(5 << 20) && !shows(147 << 20));
        assert!(shows(148 << 20) && shows(155 << 20));
    }
}
