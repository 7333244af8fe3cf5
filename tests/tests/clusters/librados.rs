//! Operations of programs through librados, by small checks in `python/api_*.py` that hold for Ceph 16.2.15 as they do
//! here.

use cluster_tests::{TestCluster, clients_are_here, python, run};
use std::time::Duration;

/// Every file of checks, on one cluster.
#[test]
fn what_librados_promises() {
    if !clients_are_here(&["ceph", "python3-rados"]) {
        return;
    }
    let cluster = TestCluster::start("librados", 3);
    cluster.make_pool("p", 16, 3);
    let files = [
        "api_data",
        "api_attributes",
        "api_compound",
        "api_listing",
        "api_async",
        "api_cluster",
        "api_copy",
        "api_quota",
        "malformed_commands",
    ];
    for checks in files {
        let script = format!("{}/python/{checks}.py", env!("CARGO_MANIFEST_DIR"));
        let out = run(cluster.command(python(), &[&script, "p"]), Duration::from_secs(120));
        eprintln!("{checks}: {}", out.stdout.lines().last().unwrap_or_default());
        assert!(out.ok().ends_with(" 0 failed\n"));
    }
}
