//! Updates that are as large as Ceph takes them, with the memory that `nacre up` gives an OSD.

use cluster_tests::{TestCluster, clients_are_here, python, run};
use rustix::process::Signal;
use std::time::Duration;

const OSDS: u32 = 3;

fn script(cluster: &TestCluster, what: &str) -> String {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/python/large_updates.py");
    run(cluster.command(python(), &[script, what, "large", "small"]), Duration::from_secs(700)).ok()
}

/// They are acknowledged, other pools are served meanwhile, no OSD ends for them, all copies are the same, and an OSD
/// that was away gets them whole.
#[test]
fn are_on_all_members_and_end_nobody() {
    if !clients_are_here(&["ceph", "rados", "python3-rados"]) {
        return;
    }
    let cluster = TestCluster::start("large-updates", OSDS);
    cluster.make_pool("large", 8, 3);
    cluster.make_pool("small", 8, 3);
    let pids = cluster.pids();
    let said = script(&cluster, "write");
    assert!(said.matches("acknowledged").count() == 4 && said.contains("small writes"), "{said}");
    assert_eq!(cluster.pids(), pids, "daemons have ended");
    cluster.wait_until_clean(Duration::from_secs(60));
    cluster.deep_scrub_all(Duration::from_secs(120));
    assert!(script(&cluster, "check").contains("\n0 wrong\n"));

    // The updates once more, while one OSD is away.
    cluster.signal("osd.0", Signal::STOP);
    cluster.wait_until_up(0, false, Duration::from_secs(60));
    script(&cluster, "write");
    cluster.signal("osd.0", Signal::CONT);
    cluster.wait_until_up(0, true, Duration::from_secs(60));
    cluster.wait_until_clean(Duration::from_secs(120));
    cluster.deep_scrub_all(Duration::from_secs(120));
    let health = cluster.ceph_json(&["health"]);
    assert!(!health.to_string().contains("DAMAGED"), "{health}");
    assert!(script(&cluster, "check").contains("\n0 wrong\n"));
}
