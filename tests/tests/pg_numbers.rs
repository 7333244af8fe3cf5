//! Pools get more placement groups while clients write and daemons die.

use cluster_tests::{TestCluster, clients_are_here};
use rustix::process::Signal;
use std::thread::sleep;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(120);

/// `rados bench` writes for 20 s; every write must succeed.
#[track_caller]
fn bench(cluster: &TestCluster, pool: &str) {
    let options = ["-p", pool, "bench", "20", "write", "-b", "16384", "-t", "8", "--no-cleanup"];
    let out = cluster.rados_within(&options, LIMIT).ok();
    let made = out.lines().find(|line| line.starts_with("Total writes made")).unwrap_or_default();
    eprintln!("{pool}: {made}");
}

#[track_caller]
fn number(cluster: &TestCluster, pool: &str, var: &str) -> u64 {
    cluster.ceph_json(&["osd", "pool", "get", pool, var])[var].as_u64().expect("a number")
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
    std::thread::scope(|scope| {
        let benches = ["p", "e"].map(|pool| scope.spawn(|| bench(&cluster, pool)));
        sleep(Duration::from_secs(2));
        for pool in ["p", "e"] {
            cluster.ceph(&["osd", "pool", "set", pool, "pg_num", "64"]).ok();
        }
        sleep(Duration::from_secs(6));
        cluster.signal("osd.1", Signal::KILL);
        benches.into_iter().for_each(|bench| bench.join().expect("every write succeeds"));
    });
    let begun = Instant::now();
    for (pool, var) in [("p", "pg_num"), ("p", "pgp_num"), ("e", "pg_num")] {
        while number(&cluster, pool, var) < 64 {
            let now = number(&cluster, pool, var);
            assert!(begun.elapsed() < 2 * LIMIT, "{var} of pool {pool} stays at {now}");
            sleep(Duration::from_secs(1));
        }
    }
    cluster.wait_until_clean(LIMIT);
    eprintln!("64 groups, clean, {:.1} s after the last write", begun.elapsed().as_secs_f64());
    for pool in ["p", "e"] {
        let out = cluster.rados_within(&["-p", pool, "bench", "60", "seq", "-t", "8"], LIMIT).ok();
        assert!(!out.contains("does not match") && !out.contains("is not correct"), "{pool}: {out}");
        let groups = cluster.ceph_json(&["pg", "ls-by-pool", pool]);
        let groups = groups["pg_stats"].as_array().or(groups.as_array()).map_or(0, Vec::len);
        assert_eq!(groups, 64, "{pool}");
        cluster.rados(&["-p", pool, "cleanup"]).ok();
        assert_eq!(cluster.rados(&["-p", pool, "ls"]).ok(), "", "{pool}");
    }
    let fewer = cluster.ceph(&["osd", "pool", "set", "p", "pg_num", "32"]).failure();
    assert!(fewer.contains("merging placement groups is not supported yet"), "{fewer}");
}
