//! Clusters that have fewer OSDs to place data on than pools have copies.

use cluster_tests::{TestCluster, clients_are_here};
use serde_json::Value;
use std::thread::sleep;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(120);
const POOL: &str = "p";

/// Sums over the groups of a pool.
#[derive(Clone, PartialEq, Debug, Default)]
struct Sums {
    groups: usize,
    /// Groups that have all copies, some of them on OSDs that have no place in the map.
    stay: usize,
    objects: u64,
    misplaced: u64,
    degraded: u64,
}

fn sums(cluster: &TestCluster) -> Sums {
    let listed = cluster.ceph_json(&["pg", "ls-by-pool", POOL]);
    let mut sums = Sums::default();
    for group in listed["pg_stats"].as_array().expect("a list of groups") {
        let count = |name: &str| group["stat_sum"][name].as_u64().expect("a count");
        let osds =
            |name: &str| group[name].as_array().expect("a set").iter().filter_map(Value::as_u64).collect::<Vec<_>>();
        let (up, acting) = (osds("up"), osds("acting"));
        let is_short = up.len() == 2 && !up.contains(&0) && acting.len() == 3 && acting.contains(&0);
        sums.groups += 1;
        sums.stay += usize::from(group["state"] == "active+clean+remapped" && is_short);
        sums.objects += count("num_objects");
        sums.misplaced += count("num_objects_misplaced");
        sums.degraded += count("num_objects_degraded");
    }
    sums
}

fn wait_for(what: &str, mut outcome: impl FnMut() -> Result<(), String>) {
    let end = Instant::now() + LIMIT;
    while let Err(why) = outcome() {
        assert!(Instant::now() < end, "{what}: {why}");
        sleep(Duration::from_millis(500));
    }
}

/// Takes one of three OSDs out: pools of three copies keep what it has, as there is nobody else to have it.
fn copies_without_another_place_stay(cluster: &TestCluster) {
    cluster.make_pool(POOL, 8, 3);
    cluster.ceph(&["osd", "pool", "set", POOL, "pg_autoscale_mode", "off"]).ok();
    let made = ["-p", POOL, "bench", "30", "write", "-b", "8192", "-t", "4", "--no-cleanup", "--max-objects", "24"];
    cluster.rados_within(&made, LIMIT).ok();
    cluster.ceph(&["osd", "out", "0"]).ok();
    wait_for("groups are clean, and their former members' copies misplaced", || {
        let sums = sums(cluster);
        let is_told = (sums.groups, sums.stay) == (8, 8)
            && sums.objects >= 24
            && (sums.misplaced, sums.degraded) == (sums.objects, 0);
        if is_told { Ok(()) } else { Err(format!("{sums:?}")) }
    });
    wait_for("the status agrees", || {
        let status = cluster.ceph_json(&["status"]);
        let pgmap = &status["pgmap"];
        let all = ["misplaced_objects", "num_objects"].map(|name| pgmap[name].as_u64());
        let is_told = all[0].is_some() && all[0] == all[1] && pgmap["degraded_objects"].is_null();
        let checks = status["health"]["checks"].as_object().expect("checks");
        let is_well = !checks.keys().any(|code| code.starts_with("PG_") || code.starts_with("OBJECT_"));
        let listed = cluster.ceph_json(&["pg", "ls", "remapped"])["pg_stats"].as_array().map_or(0, Vec::len) as u64;
        let remapped = status["osdmap"]["num_remapped_pgs"].as_u64();
        let are_all = listed >= 8 && remapped == Some(listed);
        if is_told && is_well && are_all { Ok(()) } else { Err(format!("{listed} remapped, {status}")) }
    });
    cluster.wait_until_clean(LIMIT);
    cluster.rados_within(&["-p", POOL, "bench", "30", "seq", "-t", "4"], LIMIT).ok();
    assert!(!cluster.ceph(&["osd", "safe-to-destroy", "0"]).succeeded(), "its copies are wanted");
    let stuck = cluster.ceph_json(&["pg", "dump_stuck", "unclean", "1"]);
    assert_eq!(stuck["stuck_pg_stats"].as_array().map(Vec::len), Some(0), "{stuck}");

    cluster.ceph(&["osd", "in", "0"]).ok();
    wait_for("all is in its place", || {
        let status = cluster.ceph_json(&["status"]);
        let states = status["pgmap"]["pgs_by_state"].as_array().expect("states").clone();
        let is_clean = states.len() == 1 && states[0]["state_name"] == "active+clean";
        let nothing = status["pgmap"]["misplaced_objects"].is_null() && status["osdmap"]["num_remapped_pgs"] == 0;
        if is_clean && nothing { Ok(()) } else { Err(status.to_string()) }
    });
}

#[test]
fn copies_without_another_place_stay_and_groups_are_clean() {
    if !clients_are_here(&["ceph", "rados"]) {
        return;
    }
    let cluster = TestCluster::start("stand-ins", 3);
    copies_without_another_place_stay(&cluster);
    // Splits wait for clean groups, and go on: a pool gets more of them.
    cluster.ceph(&["osd", "out", "0"]).ok();
    wait_for("groups are clean again", || {
        let sums = sums(&cluster);
        if sums.stay == 8 { Ok(()) } else { Err(format!("{sums:?}")) }
    });
    cluster.ceph(&["osd", "pool", "set", POOL, "pg_num", "16"]).ok();
    wait_for("there are more groups, clean as those before", || {
        let sums = sums(&cluster);
        if (sums.groups, sums.stay) == (16, 16) { Ok(()) } else { Err(format!("{sums:?}")) }
    });
    cluster.rados_within(&["-p", POOL, "bench", "30", "seq", "-t", "4"], LIMIT).ok();
}

#[test]
fn a_real_ceph_says_the_same_of_copies_without_another_place() {
    if !clients_are_here(&["ceph-mon", "ceph-osd", "ceph-mgr", "monmaptool", "ceph", "rados"]) {
        return;
    }
    copies_without_another_place_stay(&TestCluster::start_own_ceph("stand-ins-ceph", 3));
}
