//! Clients of groups that cannot serve hold back what they want of them, so that the same OSDs go on serving others.

use cluster_tests::{Background, TestCluster, binary, clients_are_here, python, wait_until};
use rustix::process::Signal;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(120);
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/python/queued.py");
/// Far more than an OSD would keep for clients.
const QUEUED_MIB: &str = "64";

/// Counters of these OSDs, in all.
fn counted(cluster: &TestCluster, osds: &[u32], name: &str) -> u64 {
    osds.iter().map(|osd| cluster.counted(*osd, name)).sum()
}

fn queue_up(cluster: &TestCluster, pool: &str) -> Background {
    let client = Background::start(cluster.command(python(), &[SCRIPT, pool, QUEUED_MIB]));
    client.says("queued", LIMIT);
    client
}

#[test]
fn a_pool_that_waits_for_members_does_not_hold_up_another() {
    if !clients_are_here(&["ceph", "rados", "python3-rados"]) {
        return;
    }
    let cluster = &TestCluster::start("backoffs", 3);
    cluster.make_pool("served", 8, 3);
    cluster.make_pool("stopped", 8, 3);
    cluster.ceph(&["osd", "pool", "set", "stopped", "min_size", "3"]).ok();
    let profile = ["k=2", "m=1", "crush-failure-domain=osd"];
    cluster.ceph(&[&["osd", "erasure-code-profile", "set", "two-and-one"], &profile[..]].concat()).ok();
    cluster.ceph(&["osd", "pool", "create", "coded", "8", "8", "erasure", "two-and-one"]).ok();
    cluster.ceph(&["osd", "pool", "set", "coded", "min_size", "3"]).ok();
    cluster.wait_until_clean(LIMIT);
    let payload = cluster.scratch("payload");
    std::fs::write(&payload, vec![0x5a; 300_000]).expect("scratch can be written");
    let payload = payload.to_str().expect("plain path");

    cluster.signal("osd.2", Signal::KILL);
    cluster.wait_until_up(2, false, LIMIT);
    let mut clients = ["stopped", "coded"].map(|pool| queue_up(cluster, pool));
    wait_until("clients hold back", LIMIT, || counted(cluster, &[0, 1], "backoffs") >= 8);

    // Everybody else is served meanwhile, by the same OSDs.
    let got = cluster.scratch("got");
    for round in 0..20 {
        let name = format!("object{round}");
        cluster.rados_within(&["-p", "served", "put", &name, payload], LIMIT).ok();
        let get = ["-p", "served", "get", &name, got.to_str().expect("plain path")];
        cluster.rados_within(&get, LIMIT).ok();
        assert!(std::fs::read(&got).expect("just got") == vec![0x5a; 300_000], "{name}");
    }
    // A listing of what waits waits, too.
    let mut listing = Background::start(cluster.command("rados", &["-p", "stopped", "ls"]));
    sleep(Duration::from_secs(3));
    assert!(listing.is_running() && clients.iter_mut().all(Background::is_running));
    assert!(counted(cluster, &[0, 1], "backoffs") >= 8);

    let mut back = Command::new(binary());
    back.args(["osd", "--id", "2", "--conf"]).arg(cluster.conf());
    let mut back = Background::start(back);
    for client in &mut clients {
        eprintln!("{}", client.says("answered", LIMIT));
        client.says("right", LIMIT);
        assert_eq!(client.exit_code(LIMIT), Some(0));
    }
    assert_eq!(listing.exit_code(LIMIT), Some(0));
    wait_until("nobody holds back", LIMIT, || counted(cluster, &[0, 1, 2], "backoffs") == 0);
    let begun = ["backoffs_begun", "backoff_dropped_op"].map(|name| counted(cluster, &[0, 1, 2], name));
    eprintln!("backoffs, and operations that were dropped: {begun:?}");
    cluster.wait_until_clean(LIMIT);
    back.signal(Signal::TERM);
    assert_eq!(back.exit_code(LIMIT), Some(0));
}
