//! Watching objects, also while their primaries come and go, and clients that are locked out.

use cluster_tests::{Background, TestCluster, clients_are_here, python, run};
use rustix::process::Signal;
use std::time::Duration;

/// The checks of `python/api_watch.py`, which hold for Ceph 16.2.15 too, in a pool with copies.
#[test]
fn what_watchers_and_notifiers_are_promised() {
    if !clients_are_here(&["ceph", "rados", "python3-rados"]) {
        return;
    }
    let cluster = TestCluster::start("watch", 3);
    cluster.make_pool("p", 16, 3);
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/python/api_watch.py");
    let out = run(cluster.command(python(), &[script, "p"]), Duration::from_secs(240));
    assert!(out.ok().ends_with(" 0 failed\n"));
    // Checks that change no parts of objects, in an erasure-coded pool.
    cluster.ceph(&["osd", "erasure-code-profile", "set", "coded", "k=2", "m=1", "crush-failure-domain=osd"]).ok();
    cluster.ceph(&["osd", "pool", "create", "coded", "8", "8", "erasure", "coded"]).ok();
    cluster.wait_until_clean(Duration::from_secs(60));
    let some = [
        script,
        "coded",
        "a_note_reaches_every_watcher",
        "a_removed_object_is_watched_no_more",
        "a_killed_watcher_is_removed_in_time",
        "a_notifier_waits_for_who_is_gone",
    ];
    let out = run(cluster.command(python(), &some), Duration::from_secs(120));
    assert!(out.ok().ends_with("4 checks passed, 0 failed\n"));
}

/// A client watches an object whose primary is killed, again and again: notifications go on reaching it.
#[test]
fn watches_outlive_their_primary() {
    if !clients_are_here(&["ceph", "rados", "python3-rados"]) {
        return;
    }
    let cluster = TestCluster::start_supervised("watch-kill", 3);
    cluster.make_pool("p", 8, 3);
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/python/watch_on.py");
    let mut watching = Background::start(cluster.command(python(), &[script, "p", "watched"]));
    watching.says("watches", Duration::from_secs(60));
    for kill in 1..=3 {
        let placed = cluster.ceph_json(&["osd", "map", "p", "watched"]);
        let primary = placed["acting_primary"].as_i64().expect("there is a primary");
        cluster.signal(&format!("osd.{primary}"), Signal::KILL);
        watching.signal(Signal::USR1);
        watching.says(&format!("notified after signal {kill}"), Duration::from_secs(120));
        cluster.wait_until_clean(Duration::from_secs(120));
    }
    watching.signal(Signal::TERM);
    assert_eq!(watching.exit_code(Duration::from_secs(60)), Some(0));
}
