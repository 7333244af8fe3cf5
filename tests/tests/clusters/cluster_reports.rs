//! `nacre report` on clusters that run, with a short load of its own and without.

use cluster_tests::{TestCluster, binary, clients_are_here, run};
use serde_json::Value;
use std::process::Command;
use std::time::Duration;

/// Three loads of a second each; a busy machine takes ten times as long for what is around them.
const LIMIT: Duration = Duration::from_secs(300);

/// Calls `nacre report` for a cluster. Returns what it prints.
fn report(cluster: &TestCluster, args: &[&str]) -> String {
    let conf = cluster.conf().display().to_string();
    let mut command = Command::new(binary());
    command.args([&["report", "--conf", &conf], args].concat());
    run(command, LIMIT).ok()
}

fn json(cluster: &TestCluster, args: &[&str]) -> Value {
    serde_json::from_str(&report(cluster, &[args, &["--json"]].concat())).expect("JSON")
}

/// Pools of a cluster, but that which a Ceph's manager makes for itself.
fn pools(cluster: &TestCluster) -> String {
    let all = cluster.nacre(&["pool", "ls"], LIMIT).ok();
    all.lines().filter(|name| *name != "device_health_metrics").collect()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().unwrap_or_else(|| panic!("no list: {value}"))
}

/// Without a load nothing is measured; with one, all three loads are. Neither leaves anything.
#[track_caller]
fn tells_what_it_measures(cluster: &TestCluster) {
    let before = pools(cluster);
    let asked = json(cluster, &[]);
    assert_eq!(asked["format"], "nacre-survey");
    assert_eq!(list(&asked["cluster"]["osds"]).len(), 3, "{asked}");
    assert_eq!(list(&asked["measured"]), [Value::Null; 0]);
    let loaded = json(cluster, &["--load", "1"]);
    assert_eq!(loaded["cluster"]["fsid"], asked["cluster"]["fsid"]);
    let measured = list(&loaded["measured"]);
    let names: Vec<_> = measured.iter().map(|one| one["workload"].as_str().unwrap_or_default()).collect();
    assert_eq!(names, ["write-4m", "write-4k", "read-4k"]);
    for one in measured {
        let figure = |name: &str| one[name].as_f64().unwrap_or(0.0);
        assert!(figure("operations_per_s") > 0.0 && figure("bytes_per_s") > 0.0, "{one}");
        assert!(figure("p99_us") >= figure("mean_us") / 10.0 && figure("mean_us") > 0.0, "{one}");
        assert_eq!(one["writes"], one["workload"] != "read-4k", "{one}");
    }
    let kinds: Vec<_> = list(&loaded["time"]).iter().map(|part| part["name"].as_str().unwrap_or_default()).collect();
    assert!(kinds.contains(&"writes"), "where the time of writes goes: {loaded}");
    for part in list(&loaded["time"]) {
        let shares = list(&part["breakdown"]["rows"]).iter().filter_map(|row| row["share"].as_f64());
        let sum: f64 = shares.sum();
        assert!((0.5..1.01).contains(&sum), "{sum} of the time of {}", part["name"]);
    }
    assert!(list(&loaded["advice"]).len() <= 3, "{loaded}");
    assert_eq!(pools(cluster), before);
    let page = cluster.scratch("report.html");
    report(cluster, &["--html", page.to_str().expect("a plain path")]);
    let page = std::fs::read_to_string(page).expect("a page");
    assert!(page.len() < 1_500_000 && page.contains(asked["cluster"]["fsid"].as_str().expect("a name")));
}

#[test]
fn a_cluster_that_runs_is_reported_on() {
    tells_what_it_measures(&TestCluster::start("reported", 3));
}

#[test]
fn a_ceph_that_runs_is_reported_on() {
    if !clients_are_here(&["ceph-mon", "ceph-osd", "ceph-mgr", "monmaptool", "ceph"]) {
        return;
    }
    tells_what_it_measures(&TestCluster::start_ceph("reported-ceph", 3));
}
