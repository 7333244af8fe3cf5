//! OSDs of several shards.

use cluster_tests::{Outcome, TestCluster, binary, check_benched, clients_are_here, run, write_benched};
use rustix::process::Signal;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(120);
const OSDS: u32 = 4;

#[track_caller]
fn wait_for_groups(cluster: &TestCluster, pool: &str, wanted: u64) {
    for var in ["pg_num", "pgp_num"] {
        cluster.wait_for_pool_number(pool, var, wanted, LIMIT);
    }
}

fn store(cluster: &TestCluster, osd: u32, what: &[&str], more: &[&str]) -> Outcome {
    let dir = cluster.dir().join(format!("osd.{osd}")).display().to_string();
    let mut command = Command::new(binary());
    command.arg("store").args(what).arg(dir).args(more);
    run(command, LIMIT)
}

/// Both parts of every OSD's store hold together, and both have objects.
#[track_caller]
fn stores_are_clean(cluster: &TestCluster) {
    for osd in 0..OSDS {
        let out = store(cluster, osd, &["check"], &["--json"]).ok();
        let report: serde_json::Value = serde_json::from_str(&out).expect("JSON");
        assert_eq!(report["status"], "clean", "osd.{osd}: {report:#}");
        let shards = report["shards"].as_array().expect("a list");
        assert_eq!(shards.len(), 2, "osd.{osd}");
        assert!(shards.iter().all(|shard| shard["objects"].as_u64() > Some(0)), "osd.{osd}: {report:#}");
    }
}

#[test]
fn two_shards_serve_heal_split_merge_stop_and_are_looked_into_as_one_osd() {
    if !clients_are_here(&["ceph", "rados"]) {
        return;
    }
    let cluster = TestCluster::start_shards("shards", OSDS, 2);
    cluster.make_pool("p", 8, 3);
    cluster.ceph(&["osd", "erasure-code-profile", "set", "small", "k=2", "m=1", "crush-failure-domain=osd"]).ok();
    cluster.ceph(&["osd", "pool", "create", "e", "8", "8", "erasure", "small"]).ok();
    cluster.ceph(&["osd", "pool", "application", "enable", "e", "rados"]).ok();
    cluster.ceph(&["config", "set", "mgr", "target_max_misplaced_ratio", "1"]).ok();
    for pool in ["p", "e"] {
        cluster.ceph(&["osd", "pool", "set", pool, "pg_autoscale_mode", "off"]).ok();
    }
    cluster.wait_until_clean(LIMIT);
    let status = cluster.ceph_json(&["tell", "osd.0", "status"]);
    assert_eq!(status["shards"], 2, "{status:#}");

    let written = std::thread::scope(|scope| {
        let benches = ["p", "e"].map(|pool| scope.spawn(|| write_benched(&cluster, pool, 10, 1, 20_000)));
        sleep(Duration::from_secs(2));
        for pool in ["p", "e"] {
            cluster.ceph(&["osd", "pool", "set", pool, "pg_num", "16"]).ok();
        }
        sleep(Duration::from_secs(3));
        cluster.signal("osd.1", Signal::KILL);
        benches.map(|bench| bench.join().expect("every write succeeds"))
    });
    ["p", "e"].iter().for_each(|pool| wait_for_groups(&cluster, pool, 16));
    cluster.wait_until_clean(LIMIT);
    ["p", "e"].iter().zip(written).for_each(|(pool, written)| check_benched(&cluster, pool, written));
    // Groups of either shard are asked for by name.
    for seed in ["0", "1", "2", "3"] {
        let query = cluster.ceph_json(&["pg", &format!("1.{seed}"), "query"]);
        assert_eq!(query["state"], "active+clean", "{query:#}");
    }
    let objects =
        (0..OSDS).map(|osd| cluster.ceph_json(&["tell", &format!("osd.{osd}"), "status"])["objects"].as_u64());
    let objects: u64 = objects.map(|objects| objects.expect("a number")).sum();
    let copies = 3 * (written[0] + written[1]) as u64;
    assert!(objects >= copies, "{objects} objects of {copies} copies: all shards count");

    // Fewer groups than shards could lie on different ones.
    let fewer = cluster.ceph(&["osd", "pool", "set", "p", "pg_num", "1"]).failure();
    assert!(fewer.contains("the number of shards of osd."), "{fewer}");
    for pool in ["p", "e"] {
        cluster.ceph(&["osd", "pool", "set", pool, "pg_num", "4"]).ok();
    }
    ["p", "e"].iter().for_each(|pool| wait_for_groups(&cluster, pool, 4));
    cluster.wait_until_clean(LIMIT);
    ["p", "e"].iter().zip(written).for_each(|(pool, written)| check_benched(&cluster, pool, written));

    cluster.kill_all();
    stores_are_clean(&cluster);
    cluster.up();
    cluster.wait_until_clean(LIMIT);
    cluster.down();
    for osd in 0..OSDS {
        let log = std::fs::read_to_string(cluster.dir().join(format!("log/osd.{osd}.log"))).expect("a log");
        assert!(log.contains("has stopped; the next start has nothing to replay"), "osd.{osd}: {log}");
    }
    stores_are_clean(&cluster);
    let refusal = cluster.nacre(&["up", "--shards", "4"], LIMIT).failure();
    assert!(refusal.contains("2 for each OSD"), "{refusal}");

    // A group goes out of its shard and into it.
    let stream = cluster.scratch("group").display().to_string();
    let whole = store(&cluster, 0, &["export"], &[&stream]).failure();
    assert!(whole.contains("an OSD of 2 shards is exported group by group"), "{whole}");
    let stats = store(&cluster, 0, &["stats"], &["--json"]).ok();
    let stats: serde_json::Value = serde_json::from_str(&stats).expect("JSON");
    for shard in 0..2 {
        let groups = stats["shards"][shard]["pgs"].as_array().expect("a list");
        let group = groups.iter().find(|group| group["objects"].as_u64() > Some(0)).expect("a group with objects");
        let pg = group["pg"].as_str().expect("text");
        let stream = format!("{stream}.{shard}");
        store(&cluster, 0, &["export"], &[&stream, "--pg", pg]).ok();
        let refusal = store(&cluster, 0, &["import"], &[&stream]).failure();
        assert!(refusal.contains(pg), "shard {shard} has it already: {refusal}");
        store(&cluster, 0, &["import"], &[&stream, "--replace"]).ok();
    }
    stores_are_clean(&cluster);
    cluster.up();
    cluster.wait_until_clean(LIMIT);
    ["p", "e"].iter().zip(written).for_each(|(pool, written)| check_benched(&cluster, pool, written));
}
