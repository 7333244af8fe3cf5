//! A cluster that is written full: no OSD stops, deletes make room, and what was stored is there.

use cluster_tests::{Killed, Pattern, TestCluster, assert_same_bytes, clients_are_here};
use std::process::Stdio;
use std::thread::sleep;
use std::time::{Duration, Instant};

const OSDS: u32 = 3;
/// A slow machine needs minutes to write a cluster full.
const LIMIT: Duration = Duration::from_secs(400);

fn alarms(cluster: &TestCluster) -> String {
    cluster.ceph_json(&["health"])["checks"].to_string()
}

fn up_osds(cluster: &TestCluster) -> u64 {
    cluster.ceph_json(&["osd", "stat"])["num_up_osds"].as_u64().expect("a number")
}

fn wait_until(what: &str, cluster: &TestCluster, is: impl Fn(&str) -> bool) {
    let end = Instant::now() + LIMIT;
    loop {
        let alarms = alarms(cluster);
        if is(&alarms) {
            return;
        }
        assert!(Instant::now() < end, "{what}: {alarms}");
        sleep(Duration::from_millis(500));
    }
}

#[test]
fn a_cluster_that_is_written_full_goes_on_once_something_is_deleted() {
    if !clients_are_here(&["ceph", "rados"]) {
        return;
    }
    let cluster = TestCluster::start_small("full", OSDS, "1GiB");
    cluster.make_pool("p", 16, 3);
    let kept = cluster.scratch("kept");
    Pattern::new(3).write(&kept, (5 << 20) + 321);
    cluster.rados(&["-p", "p", "put", "kept", kept.to_str().expect("a path")]).ok();

    // Many large writes at a time, faster than monitors hear of anything; then small ones, into the room of some large
    // ones.
    for (bytes, writers, every) in [("1048576", "48", 8), ("24000", "64", 1)] {
        let args =
            ["-p", "p", "bench", "500", "write", "-b", bytes, "-t", writers, "--no-cleanup", "--run-name", bytes];
        let mut command = cluster.command("rados", &args);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let bench = Killed(command.spawn().expect("rados runs"));
        wait_until("the pool does not become full", &cluster, |alarms| alarms.contains("POOL_FULL"));
        // Operations on their way come to an end, or wait.
        sleep(Duration::from_secs(3));
        assert_eq!(up_osds(&cluster), u64::from(OSDS), "none has stopped");
        drop(bench);
        // Deletes are taken, one at a time and many at once.
        let listed = cluster.rados(&["-p", "p", "ls"]).ok();
        let objects: Vec<&str> = listed.lines().filter(|name| *name != "kept").step_by(every).collect();
        assert!(objects.len() > 50, "{} objects", objects.len());
        for some in objects.chunks(500) {
            let args = [&["-p", "p", "rm"], some, &["--force-full"]].concat();
            cluster.rados_within(&args, LIMIT).ok();
        }
        wait_until("the pool stays full", &cluster, |alarms| !alarms.contains("_FULL"));
        assert_eq!(up_osds(&cluster), u64::from(OSDS));
    }
    cluster.wait_until_clean(LIMIT);
    cluster.rados(&["-p", "p", "put", "more", kept.to_str().expect("a path")]).ok();
    for name in ["kept", "more"] {
        let got = cluster.scratch(name).with_extension("got");
        cluster.rados(&["-p", "p", "get", name, got.to_str().expect("a path")]).ok();
        assert_same_bytes(&kept, &got);
    }
}

#[test]
fn an_osd_that_is_nearly_full_is_not_backfilled() {
    if !clients_are_here(&["ceph", "rados"]) {
        return;
    }
    let cluster = TestCluster::start_small("toofull", 4, "1GiB");
    cluster.make_pool("p", 16, 2);
    let args = ["-p", "p", "bench", "60", "write", "-b", "1048576", "-t", "8", "--no-cleanup", "--max-objects", "200"];
    cluster.rados_within(&args, LIMIT).ok();
    // The bytes that every OSD has by now are too many from here on.
    cluster.ceph(&["osd", "set-nearfull-ratio", "0.03"]).ok();
    cluster.ceph(&["osd", "set-backfillfull-ratio", "0.04"]).ok();
    wait_until("no OSD is shown", &cluster, |alarms| alarms.contains("OSD_BACKFILLFULL"));
    cluster.ceph(&["osd", "out", "0"]).ok();
    wait_until("the state is not shown", &cluster, |alarms| alarms.contains("PG_BACKFILL_FULL"));
    // A group is in other states while it tries again.
    wait_until("no group is in the state", &cluster, |_| {
        cluster.ceph(&["pg", "dump", "pgs_brief"]).ok().contains("backfill_toofull")
    });
    cluster.ceph(&["osd", "set-backfillfull-ratio", "0.9"]).ok();
    cluster.ceph(&["osd", "set-nearfull-ratio", "0.85"]).ok();
    cluster.wait_until_clean(LIMIT);
    wait_until("it stays nearly full", &cluster, |alarms| !alarms.contains("FULL"));
}
