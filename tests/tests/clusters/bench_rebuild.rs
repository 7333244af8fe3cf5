//! `nacre bench rebuild`: OSDs are lost and come back empty, and the cluster is as it was.

use crate::bench::{result_in, text};
use cluster_tests::{TestCluster, binary, clients_are_here, run, wait_until};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(400);
/// A small rebuild.
const SMALL: &str = "--object-size 256KiB --pgs 16 --before 1 --depth 4 --limit 300 --yes";

fn rebuild(cluster: &TestCluster, flags: &str) -> Command {
    let mut command = Command::new(binary());
    let at = format!("c={}", cluster.dir().display());
    // A run without `--out` makes its folder where it is started.
    command.current_dir(cluster.dir());
    command.args(["bench", "rebuild"]).args(flags.split_whitespace()).args(["--cluster", &at]);
    command
}

fn pools(cluster: &TestCluster) -> String {
    cluster.nacre(&["pool", "ls"], LIMIT).ok().lines().filter(|name| name.contains("bench")).collect()
}

/// The identity of an OSD's store, as the monitors know it.
fn store_of(cluster: &TestCluster, osd: u64) -> String {
    let dump = cluster.ceph_json(&["osd", "dump"]);
    let osd = dump["osds"].as_array().into_iter().flatten().find(|entry| entry["osd"] == osd);
    osd.and_then(|osd| osd["uuid"].as_str()).unwrap_or_else(|| panic!("{dump}")).to_owned()
}

fn flags(cluster: &TestCluster) -> String {
    cluster.ceph_json(&["osd", "dump"])["flags"].as_str().unwrap_or_default().to_owned()
}

/// Every OSD is up with whole groups, flags are as they were, and nothing is left.
fn check_left(cluster: &TestCluster, osds: u32, flags_before: &str) {
    (0..osds).for_each(|osd| cluster.wait_until_up(osd, true, LIMIT));
    cluster.wait_until_clean(LIMIT);
    assert_eq!((pools(cluster), flags(cluster)), (String::new(), flags_before.to_owned()));
}

fn check_rebuilds(result: &Value, lost: &Value) {
    assert_eq!(result["end"], "complete", "{}", result["end"]);
    let rebuilds = result["rebuilds"].as_array().expect("rebuilds");
    let loads: Vec<&Value> = rebuilds.iter().map(|rebuild| &rebuild["with_load"]).collect();
    assert_eq!(loads, [false, true]);
    for rebuild in rebuilds {
        let course = rebuild["course"].as_array().expect("a course");
        let degraded = |point: &Value| point["degraded"].as_u64().expect("a count");
        assert!(course.iter().map(degraded).max() > Some(0), "copies were missing: {rebuild}");
        assert_eq!(degraded(course.last().expect("points")), 0);
        let seconds = |name: &str| rebuild[name].as_f64().expect("seconds");
        assert!(seconds("rebuild_s") > 0.0 && seconds("down_s") > 0.0 && rebuild["partial"].is_null(), "{rebuild}");
        assert!(rebuild["lost_bytes"].as_u64() > Some(50 << 20), "what had to be restored: {rebuild}");
        assert!(rebuild["figures"]["machine_user_cores"].is_f64(), "{rebuild}");
        assert_eq!(&rebuild["osds"], lost);
    }
    let rows = result["rows"].as_array().expect("rows");
    let named: Vec<_> =
        rows.iter().map(|row| (row["workload"].as_str().unwrap(), row["group"].as_str().unwrap())).collect();
    let loaded = "rebuild-under-load";
    assert_eq!(named, [("before", "readers"), ("before", "writers"), (loaded, "readers"), (loaded, "writers")]);
    for row in rows {
        assert_eq!((&row["mismatches"], &row["partial"]), (&0.into(), &Value::Null), "{row}");
        assert!(row["operations"].as_u64() > Some(0), "{row}");
    }
}

#[test]
fn a_lost_osd_of_nacre_is_rebuilt_without_and_with_clients() {
    if !clients_are_here(&["ceph"]) {
        return;
    }
    let cluster = TestCluster::start("rebuild", 4);
    let (store, before) = (store_of(&cluster, 1), flags(&cluster));
    let refused = |flags: &str, words: &str| {
        let said = run(rebuild(&cluster, flags), LIMIT).failure();
        assert!(said.contains(words), "{said}");
    };
    refused("--osd 1 --fill 6", "--yes");
    refused("--osd 9 --fill 6 --yes", "there is no osd.9");
    refused("--osd 0,1,2 --fill 6 --pgs 8 --yes", "clients would have to wait without these OSDs");
    refused("--osd 1 --fill 90 --yes", "at most 75");
    assert_eq!((store_of(&cluster, 1), pools(&cluster)), (store.clone(), String::new()), "nothing was done");
    let out = cluster.scratch("run");
    let said = run(rebuild(&cluster, &format!("--osd 1 {SMALL} --fill 6 --out {}", text(&out))), LIMIT).ok();
    assert!(said.contains("| rebuild-under-load | c | osd.1 | with clients |"), "{said}");
    check_rebuilds(&result_in(&out), &serde_json::json!([1]));
    assert!(fs::read_to_string(out.join("report.html")).unwrap().contains("Missing copies during rebuilds"));
    assert_ne!(store_of(&cluster, 1), store, "another store");
    check_left(&cluster, 4, &before);
    // A host of the CRUSH tree is all of its OSDs.
    let tree = cluster.ceph_json(&["osd", "tree"]);
    let host = tree["nodes"].as_array().unwrap().iter().find(|node| node["type"] == "host").expect("a host");
    let (host, lost) = (host["name"].as_str().unwrap(), host["children"].clone());
    let out = cluster.scratch("host");
    run(rebuild(&cluster, &format!("--host {host} {SMALL} --fill 6 --load without --out {}", text(&out))), LIMIT).ok();
    let result = result_in(&out);
    assert_eq!((&result["rebuilds"][0]["host"], &result["rebuilds"][0]["osds"]), (&host.into(), &lost));
    check_left(&cluster, 4, &before);
}

#[test]
fn an_interrupt_leaves_no_osd_behind() {
    if !clients_are_here(&["ceph"]) {
        return;
    }
    let cluster = TestCluster::start_supervised("rebuild-interrupt", 4);
    let before = flags(&cluster);
    let is_there = |name: &str| match name {
        "filling" => !pools(&cluster).is_empty(),
        _ => cluster.ceph_json(&["osd", "stat"])["num_up_osds"] == 3,
    };
    for name in ["filling", "stopped"] {
        let out = cluster.scratch(name);
        let mut command = rebuild(&cluster, &format!("--osd 2 {SMALL} --fill 6 --out {}", text(&out)));
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        wait_until(name, LIMIT, || is_there(name));
        let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
        kill_process(pid, Signal::INT).unwrap();
        let end = Instant::now() + LIMIT;
        let status = loop {
            match child.try_wait().unwrap() {
                Some(status) => break status,
                None => assert!(Instant::now() < end, "{name}: it does not end"),
            }
            std::thread::sleep(Duration::from_millis(50));
        };
        assert_eq!((status.code(), &result_in(&out)["end"]), (Some(130), &"interrupted".into()), "{name}");
        check_left(&cluster, 4, &before);
    }
}

#[test]
fn a_lost_osd_of_a_real_ceph_is_rebuilt() {
    if !clients_are_here(&["ceph-mon", "ceph-osd", "ceph-mgr", "monmaptool", "ceph"]) {
        return;
    }
    let cluster = TestCluster::start_own_ceph("rebuild-ceph", 4);
    let (store, before) = (store_of(&cluster, 1), flags(&cluster));
    // A store of its own begins with a seventh of these small devices in use.
    let out = cluster.scratch("run");
    run(rebuild(&cluster, &format!("--osd 1 {SMALL} --fill 20 --out {}", text(&out))), LIMIT).ok();
    check_rebuilds(&result_in(&out), &serde_json::json!([1]));
    assert_ne!(store_of(&cluster, 1), store, "another store");
    check_left(&cluster, 4, &before);
}
