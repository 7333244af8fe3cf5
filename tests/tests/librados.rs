//! What programs do through librados, by small checks in `python/api_*.py` that hold for Ceph 16.2.15 as they do here.

use cluster_tests::{TestCluster, clients_are_here, python, run};
use std::time::Duration;

/// Every file of checks, on one cluster, each in a pool that keeps what was left by those before.
#[test]
fn what_librados_promises() {
    if !clients_are_here(&["ceph", "python3-rados"]) {
        return;
    }
    let cluster = TestCluster::start("librados", 3);
    cluster.make_pool("p", 16, 3);
    for checks in ["data", "attributes", "compound", "listing", "async", "cluster"] {
        let script = format!("{}/python/api_{checks}.py", env!("CARGO_MANIFEST_DIR"));
        let out = run(cluster.command(python(), &[&script, "p"]), Duration::from_secs(120));
        eprintln!("{checks}: {}", out.stdout.lines().last().unwrap_or_default());
        assert!(out.ok().ends_with(" 0 failed\n"));
    }
}
