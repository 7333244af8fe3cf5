//! Pools get more placement groups, and fewer, while clients write and daemons die.

use cluster_tests::{TestCluster, check_benched, clients_are_here, write_benched};
use rustix::process::Signal;
use std::thread::sleep;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(120);

/// Writes for 20 s, 30,000 objects at most. Gives their number.
#[track_caller]
fn bench(cluster: &TestCluster, pool: &str) -> usize {
    write_benched(cluster, pool, 20, 2, 30_000)
}

/// All that was written is listed, once, and reads back; then it is removed.
#[track_caller]
fn check_contents(cluster: &TestCluster, pool: &str, written: usize) {
    check_benched(cluster, pool, written);
    cluster.rados_within(&["-p", pool, "cleanup"], LIMIT).ok();
    assert_eq!(cluster.rados(&["-p", pool, "ls"]).ok(), "", "{pool}");
}

#[track_caller]
fn group_count(cluster: &TestCluster, pool: &str) -> usize {
    let groups = cluster.ceph_json(&["pg", "ls-by-pool", pool]);
    groups["pg_stats"].as_array().or(groups.as_array()).map_or(0, Vec::len)
}

#[test]
fn clients_write_on_while_groups_are_split() {
    if !clients_are_here(&["ceph", "rados"]) {
        return;
    }
    let cluster = TestCluster::start_supervised("pg-numbers", 4);
    cluster.make_pool("p", 8, 3);
    cluster.ceph(&["osd", "erasure-code-profile", "set", "small", "k=2", "m=1", "crush-failure-domain=osd"]).ok();
    cluster.ceph(&["osd", "pool", "create", "e", "8", "8", "erasure", "small"]).ok();
    cluster.ceph(&["osd", "pool", "application", "enable", "e", "rados"]).ok();
    // Half of all copies may be on their way at once: in a small cluster a twentieth takes long.
    cluster.ceph(&["config", "set", "mgr", "target_max_misplaced_ratio", "1"]).ok();
    cluster.wait_until_clean(LIMIT);
    let written = std::thread::scope(|scope| {
        let benches = ["p", "e"].map(|pool| scope.spawn(|| bench(&cluster, pool)));
        sleep(Duration::from_secs(2));
        for pool in ["p", "e"] {
            cluster.ceph(&["osd", "pool", "set", pool, "pg_num", "64"]).ok();
        }
        sleep(Duration::from_secs(6));
        cluster.signal("osd.1", Signal::KILL);
        benches.map(|bench| bench.join().expect("every write succeeds"))
    });
    let begun = Instant::now();
    for (pool, var) in [("p", "pg_num"), ("p", "pgp_num"), ("e", "pg_num"), ("e", "pgp_num")] {
        cluster.wait_for_pool_number(pool, var, 64, LIMIT);
    }
    cluster.wait_until_clean(LIMIT);
    eprintln!("64 groups, clean, {:.1} s after the last write", begun.elapsed().as_secs_f64());
    // Placement may go back while the groups stay.
    cluster.ceph(&["osd", "pool", "set", "e", "pgp_num", "24"]).ok();
    cluster.wait_for_pool_number("e", "pgp_num", 24, LIMIT);
    cluster.wait_until_clean(LIMIT);
    for (pool, written) in ["p", "e"].into_iter().zip(written) {
        assert_eq!(group_count(&cluster, pool), 64, "{pool}");
        check_contents(&cluster, pool, written);
    }
}

#[test]
fn clients_write_on_while_groups_are_merged() {
    if !clients_are_here(&["ceph", "rados"]) {
        return;
    }
    let cluster = TestCluster::start_supervised("pg-merges", 4);
    cluster.make_pool("p", 64, 3);
    cluster.ceph(&["config", "set", "mgr", "target_max_misplaced_ratio", "1"]).ok();
    cluster.wait_until_clean(LIMIT);
    let written = std::thread::scope(|scope| {
        let bench = scope.spawn(|| bench(&cluster, "p"));
        sleep(Duration::from_secs(2));
        cluster.ceph(&["osd", "pool", "set", "p", "pg_num", "8"]).ok();
        sleep(Duration::from_secs(6));
        cluster.signal("osd.1", Signal::KILL);
        bench.join().expect("every write succeeds")
    });
    let begun = Instant::now();
    cluster.wait_for_pool_number("p", "pg_num", 8, LIMIT);
    cluster.wait_until_clean(LIMIT);
    eprintln!("8 groups, clean, {:.1} s after the last write", begun.elapsed().as_secs_f64());
    assert_eq!((group_count(&cluster, "p"), cluster.pool_number("p", "pgp_num")), (8, 8));
    check_contents(&cluster, "p", written);
}

#[test]
fn clients_write_on_while_groups_of_an_erasure_coded_pool_are_merged() {
    if !clients_are_here(&["ceph", "rados"]) {
        return;
    }
    let cluster = TestCluster::start_supervised("pg-merges-coded", 4);
    cluster.ceph(&["osd", "erasure-code-profile", "set", "small", "k=2", "m=1", "crush-failure-domain=osd"]).ok();
    cluster.ceph(&["osd", "pool", "create", "e", "16", "16", "erasure", "small"]).ok();
    cluster.ceph(&["osd", "pool", "application", "enable", "e", "rados"]).ok();
    cluster.ceph(&["config", "set", "mgr", "target_max_misplaced_ratio", "1"]).ok();
    cluster.wait_until_clean(LIMIT);
    let stays: Vec<u8> = (0..3 << 20).map(|n: u32| (n.wrapping_mul(0x9e37_79b9) >> 24) as u8).collect();
    let file = cluster.scratch("stays");
    std::fs::write(&file, &stays).expect("a file");
    cluster.rados(&["-p", "e", "put", "stays", &file.display().to_string()]).ok();
    let written = std::thread::scope(|scope| {
        let bench = scope.spawn(|| bench(&cluster, "e"));
        sleep(Duration::from_secs(2));
        cluster.ceph(&["osd", "pool", "set", "e", "pg_num", "4"]).ok();
        sleep(Duration::from_secs(6));
        cluster.signal("osd.1", Signal::KILL);
        bench.join().expect("every write succeeds")
    });
    let begun = Instant::now();
    while cluster.pool_number("e", "pg_num") > 4 {
        let now = cluster.pool_number("e", "pg_num");
        assert!(begun.elapsed() < 2 * LIMIT, "pg_num of pool e stays at {now}");
        let health = cluster.ceph(&["health", "detail"]).ok();
        assert!(!health.contains("POOL_PG_MERGE_NO_ROOM"), "{health}");
        sleep(Duration::from_secs(1));
    }
    cluster.wait_until_clean(LIMIT);
    eprintln!("4 groups, clean, {:.1} s after the last write", begun.elapsed().as_secs_f64());
    assert_eq!((group_count(&cluster, "e"), cluster.pool_number("e", "pgp_num")), (4, 4));
    let dump = cluster.ceph_json(&["osd", "dump"]);
    assert_eq!(dump["pg_upmap"].as_array().map(Vec::len), Some(0), "nothing is left of the way: {dump:#}");
    let back = cluster.scratch("back");
    cluster.rados(&["-p", "e", "get", "stays", &back.display().to_string()]).ok();
    assert!(std::fs::read(&back).expect("it was read") == stays, "its bytes are others");
    cluster.rados(&["-p", "e", "rm", "stays"]).ok();
    check_contents(&cluster, "e", written);
}
