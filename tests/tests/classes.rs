//! Methods of object classes, called as clients call them.

use cluster_tests::{TestCluster, clients_are_here, python};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(180);

/// Whatever is called, and with whatever input, is answered as by a real Ceph, and leaves the same behind.
#[test]
fn methods_do_what_cephs_do() {
    if !clients_are_here(&["ceph-mon", "ceph-osd", "ceph-mgr", "monmaptool", "ceph", "python3-rados"]) {
        return;
    }
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/python/class_calls.py");
    let said = [TestCluster::start("classes", 3), TestCluster::start_ceph("classes-ceph", 3)].map(|cluster| {
        cluster.ceph(&["osd", "pool", "create", "p", "8"]).ok();
        cluster.wait_until_clean(LIMIT);
        cluster_tests::run(cluster.command(python(), &[script, "p"]), LIMIT).ok()
    });
    assert!(said[0].lines().count() > 1000, "{}", said[0]);
    for (ours, cephs) in said[0].lines().zip(said[1].lines()) {
        assert_eq!(ours, cephs, "left Nacre, right Ceph");
    }
    assert_eq!(said[0], said[1]);
}
