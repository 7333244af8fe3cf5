//! Methods of object classes, called as clients call them.

use cluster_tests::{TestCluster, assert_same_lines, clients_are_here, python, recorded_of_ceph, said_by_ceph};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(180);

/// Whatever is called, and with whatever input, is answered as by a real Ceph, and leaves the same behind.
#[test]
fn methods_do_what_cephs_do() {
    if !clients_are_here(&["ceph", "python3-rados"]) {
        return;
    }
    let run = |cluster: TestCluster| {
        cluster.ceph(&["osd", "pool", "create", "p", "8"]).ok();
        cluster.wait_until_clean(LIMIT);
        calls(&cluster)
    };
    let ours = run(TestCluster::start("classes", 3));
    let cephs = said_by_ceph("classes", || run(TestCluster::start_ceph("classes-ceph", 3)));
    assert!(ours.lines().count() > 1000, "{ours}");
    assert_same_lines(&ours, &cephs, "left Nacre, right Ceph");
}

/// On an erasure-coded pool methods do what they do on a replicated one of a Ceph.
#[test]
fn methods_do_on_an_erasure_coded_pool_what_cephs_do() {
    if !clients_are_here(&["ceph", "python3-rados"]) {
        return;
    }
    let cluster = TestCluster::start("classes-coded", 3);
    cluster.make_coded_pool("p", 8, 2, 1);
    let (ours, cephs) = (calls(&cluster), recorded_of_ceph("classes"));
    assert_same_lines(&ours, &cephs, "left Nacre, right Ceph");
}

/// Calls methods in the pool `p`, and gives the answers.
fn calls(cluster: &TestCluster) -> String {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/python/class_calls.py");
    cluster_tests::run(cluster.command(python(), &[script, "p"]), LIMIT).ok()
}
