//! Reads that any member of a placement group may answer ("balanced" and "localized" ones), by librados.

use cluster_tests::{Background, TestCluster, clients_are_here, python};
use rustix::process::Signal;
use std::time::Duration;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/python/balanced_reads.py");
const OSDS: u32 = 3;

/// How many reads came to OSDs that did not lead, and how many these answered themselves.
fn replica_reads(cluster: &TestCluster) -> (u64, u64) {
    let sum = |name| (0..OSDS).map(|osd| cluster.counted(osd, name)).sum();
    (sum("replica_read"), sum("replica_read_served"))
}

/// While objects are written all the time, also while an OSD dies, no read goes back, and members do answer.
#[test]
fn no_read_goes_back_whoever_answers() {
    if !clients_are_here(&["ceph", "rados", "python3-rados"]) {
        return;
    }
    let cluster = TestCluster::start_supervised("balanced", OSDS);
    cluster.make_pool("p", 8, 3);
    let mut reading = Background::start(cluster.command(python(), &[SCRIPT, "p", "12"]));
    assert_eq!(reading.exit_code(Duration::from_secs(120)), Some(0));
    let (asked, served) = replica_reads(&cluster);
    assert!(asked > 100 && served > 20, "{served} of {asked} were answered");
    let mut reading = Background::start(cluster.command(python(), &[SCRIPT, "p", "12"]));
    std::thread::sleep(Duration::from_secs(4));
    cluster.signal("osd.1", Signal::KILL);
    assert_eq!(reading.exit_code(Duration::from_secs(120)), Some(0));
    cluster.wait_until_clean(Duration::from_secs(120));
}

/// The script's promises are Ceph's, too.
#[test]
fn a_real_ceph_keeps_the_same_promises() {
    if !clients_are_here(&["ceph", "ceph-osd", "rados", "python3-rados"]) {
        return;
    }
    let cluster = TestCluster::start_ceph("balanced-ceph", OSDS);
    cluster.make_pool("p", 8, 3);
    let mut reading = Background::start(cluster.command(python(), &[SCRIPT, "p", "8"]));
    assert_eq!(reading.exit_code(Duration::from_secs(120)), Some(0));
}
