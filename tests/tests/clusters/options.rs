//! Options: what is asked of `ceph config`, and what is done with them.

use cluster_tests::{TestCluster, assert_same_lines, clients_are_here, python, said_by_ceph};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(120);

/// Options are set, refused, asked for, explained, taken from a `ceph.conf` and set back as on a real Ceph.
#[test]
fn options_are_those_of_a_ceph() {
    if !clients_are_here(&["ceph", "python3-rados"]) {
        return;
    }
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/python/config_commands.py");
    let list = concat!(env!("CARGO_MANIFEST_DIR"), "/python/config_commands.txt");
    let run = |cluster: TestCluster| cluster_tests::run(cluster.command(python(), &[script, list]), LIMIT).ok();
    let ours = run(TestCluster::start("options", 3));
    let cephs = said_by_ceph("config_commands", || run(TestCluster::start_ceph("options-ceph", 3)));
    assert!(ours.lines().filter(|line| line.starts_with("> ")).count() > 200, "{ours}");
    assert_same_lines(&ours, &cephs, "left Nacre, right Ceph");
}
