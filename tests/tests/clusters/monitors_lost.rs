//! A majority of the monitors' disks is lost: the one that is left brings the cluster back, and others join.

use cluster_tests::{Outcome, TestCluster, clients_are_here, run, wait_for_quorum, wait_until};
use rustix::process::Signal;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

const NAMES: [&str; 3] = ["a", "b", "c"];

fn mon(cluster: &TestCluster, name: &str, more: &[&str]) -> Outcome {
    let mut command = Command::new(cluster_tests::binary());
    command.args(["mon", "--id", name, "--conf"]).arg(cluster.conf()).args(more);
    run(command, Duration::from_secs(60))
}

fn folder(cluster: &TestCluster, name: &str) -> PathBuf {
    cluster.dir().join(format!("mon.{name}"))
}

fn copy(from: &Path, to: &Path) {
    let _ = fs::remove_dir_all(to);
    fs::create_dir_all(to).expect("a folder can be made");
    for entry in fs::read_dir(from).expect("a monitor's folder").flatten() {
        fs::copy(entry.path(), to.join(entry.file_name())).expect("a file can be copied");
    }
}

/// Puts an object that has its own name in it.
fn put(cluster: &TestCluster, object: &str) {
    let path = cluster.scratch(object);
    fs::write(&path, object).expect("a file");
    cluster.rados(&["-p", "p", "put", object, &path.display().to_string()]).ok();
}

#[track_caller]
fn assert_objects(cluster: &TestCluster, objects: &[&str]) {
    for object in objects {
        let path = cluster.scratch("got");
        cluster.rados(&["-p", "p", "get", object, &path.display().to_string()]).ok();
        assert_eq!(fs::read_to_string(path).expect("it was written"), *object);
    }
}

fn up(cluster: &TestCluster) {
    cluster.nacre(&["up", "--detach"], Duration::from_secs(180)).ok();
}

/// The survivor was away while the others decided more: OSDs have maps that it has never seen.
#[test]
fn one_monitor_that_is_left_brings_the_cluster_back() {
    if !clients_are_here(&["ceph", "rados"]) {
        return;
    }
    let cluster = TestCluster::start_monitors("monitors-lost", 3, 3);
    wait_for_quorum(&cluster, &NAMES);
    cluster.make_pool("p", 16, 3);
    cluster.ceph(&["config-key", "set", "early", "yes"]).ok();
    put(&cluster, "one");
    cluster.wait_until_clean(Duration::from_secs(60));
    cluster.down();
    let (old_a, old_b) = (cluster.scratch("old-a"), cluster.scratch("old-b"));
    copy(&folder(&cluster, "a"), &old_a);
    copy(&folder(&cluster, "b"), &old_b);
    up(&cluster);
    wait_for_quorum(&cluster, &NAMES);
    cluster.ceph(&["config-key", "set", "late", "yes"]).ok();
    for change in ["out", "in"] {
        cluster.ceph(&["osd", change, "1"]).ok();
    }
    put(&cluster, "two");
    cluster.wait_until_clean(Duration::from_secs(60));
    let epoch = cluster.ceph_json(&["osd", "dump"])["epoch"].as_u64().expect("a number");

    // While it runs, nothing is done.
    let flags = ["--force-sole", "--yes-i-really-mean-it"];
    let in_use = mon(&cluster, "b", &flags).failure();
    assert!(in_use.contains("cannot open"), "{in_use}");
    cluster.down();
    ["a", "c"].into_iter().for_each(|name| fs::remove_dir_all(folder(&cluster, name)).expect("a folder to lose"));
    copy(&old_b, &folder(&cluster, "b"));
    // Without confirmation the command only tells what it would do.
    let told = mon(&cluster, "b", &flags[..1]);
    let (said, refusal) = (told.stdout.clone(), told.failure());
    assert!(said.contains("As the only monitor") && said.contains("mon.a, mon.c"), "{said}");
    assert!(refusal.contains("nothing was changed"), "{refusal}");
    // Nor is it done while another one listens.
    let conf = fs::read_to_string(cluster.conf()).expect("its ceph.conf");
    let section = conf.split("[mon.c]").nth(1).expect("a section of mon.c");
    let addr = section.lines().find_map(|line| line.strip_prefix("public addr")).expect("its address");
    let addr = addr.trim_start_matches([' ', '=']).trim_start_matches("v2:").trim();
    let listener = std::net::TcpListener::bind(addr).unwrap_or_else(|e| panic!("{addr}: {e}"));
    let answers = mon(&cluster, "b", &flags).failure();
    assert!(answers.contains("the address of mon.c"), "{answers}");
    drop(listener);
    let done = mon(&cluster, "b", &flags).ok();
    assert!(done.contains("mon.b is the only monitor from its next start on"), "{done}");
    let again = mon(&cluster, "b", &flags).failure();
    assert!(again.contains("is the only monitor already"), "{again}");

    up(&cluster);
    wait_for_quorum(&cluster, &["b"]);
    let after = cluster.ceph_json(&["osd", "dump"])["epoch"].as_u64().expect("a number");
    assert!(after > epoch + 1000, "epoch {after}, OSDs had {epoch}");
    cluster.wait_until_clean(Duration::from_secs(60));
    assert_eq!(cluster.ceph_json(&["osd", "stat"])["num_up_osds"], 3);
    assert_eq!(cluster.ceph(&["config-key", "get", "early"]).ok().trim(), "yes");
    assert!(!cluster.ceph(&["config-key", "get", "late"]).succeeded(), "what it has not heard of is lost");
    assert_objects(&cluster, &["one", "two"]);
    put(&cluster, "three");
    assert!(cluster.ceph(&["log", "last", "100"]).ok().contains("without mon.a, mon.c"));

    // One that turns up with what it had finds no way in, with a new store it does.
    copy(&old_a, &folder(&cluster, "a"));
    // It is started again the later the more often it has ended.
    let log = cluster.dir().join("log/mon.a.log");
    wait_until("mon.a learns that it has another history", Duration::from_secs(120), || {
        fs::read_to_string(&log).expect("its log").contains("another history")
    });
    wait_for_quorum(&cluster, &["b"]);
    cluster.lose_disk("mon.a");
    for name in ["a", "c"] {
        let keyring = cluster.monitors_keyring().display().to_string();
        mon(&cluster, name, &["--mkfs", "--join", "--keyring", &keyring]).ok();
    }
    wait_for_quorum(&cluster, &NAMES);
    cluster.signal("mon.b", Signal::KILL);
    cluster.ceph(&["config-key", "set", "last", "yes"]).ok();
    put(&cluster, "four");
    wait_for_quorum(&cluster, &NAMES);
    assert_objects(&cluster, &["one", "two", "three", "four"]);
}

/// Tells if an OSD is up, by the map.
fn is_up(cluster: &TestCluster, osd: u64) -> bool {
    let tree = cluster.ceph_json(&["osd", "dump"]);
    let osds = tree["osds"].as_array().expect("a list").clone();
    osds.iter().any(|known| known["osd"] == osd && known["up"] == 1)
}

/// The survivor knows that groups served on OSDs that died later and come back now; what was written since only others
/// have.
#[test]
fn what_was_written_where_the_survivor_does_not_know_of_is_there() {
    if !clients_are_here(&["ceph", "rados"]) {
        return;
    }
    let cluster = TestCluster::start_monitors("monitors-lost-moved", 4, 3);
    wait_for_quorum(&cluster, &NAMES);
    cluster.make_pool("p", 16, 2);
    let objects: Vec<String> = (0..24).map(|number| format!("object{number}")).collect();
    let write = |text: &str| {
        let path = cluster.scratch("text");
        fs::write(&path, text).expect("a file");
        for object in &objects {
            cluster.rados(&["-p", "p", "put", object, &path.display().to_string()]).ok();
        }
    };
    write("first");
    cluster.wait_until_clean(Duration::from_secs(60));
    cluster.down();
    let old_b = cluster.scratch("old-b");
    copy(&folder(&cluster, "b"), &old_b);
    up(&cluster);
    wait_for_quorum(&cluster, &NAMES);
    cluster.wait_until_clean(Duration::from_secs(60));
    // One after the other dies, and the others heal.
    for (osd, text) in [(0, "second"), (1, "third")] {
        cluster.signal(&format!("osd.{osd}"), Signal::STOP);
        cluster.ceph(&["osd", "out", &osd.to_string()]).ok();
        for _ in 0..100 {
            if !is_up(&cluster, osd) {
                break;
            }
            sleep(Duration::from_millis(500));
        }
        cluster.wait_until_clean(Duration::from_secs(60));
        write(text);
    }
    cluster.make_pool("late", 8, 2);
    cluster.kill_all();
    ["a", "c"].into_iter().for_each(|name| fs::remove_dir_all(folder(&cluster, name)).expect("a folder to lose"));
    copy(&old_b, &folder(&cluster, "b"));
    mon(&cluster, "b", &["--force-sole", "--yes-i-really-mean-it"]).ok();
    up(&cluster);
    wait_for_quorum(&cluster, &["b"]);
    cluster.wait_until_clean(Duration::from_secs(90));
    for object in &objects {
        let path = cluster.scratch("got");
        cluster.rados(&["-p", "p", "get", object, &path.display().to_string()]).ok();
        assert_eq!(fs::read_to_string(path).expect("it was written"), "third", "{object}");
    }
    // Until the operator says so, nothing is taken away, nor are numbers given that may have been given.
    assert!(cluster.ceph(&["health", "detail"]).ok().contains("MON_SURVIVOR_UNCONFIRMED"));
    let refused = cluster.ceph(&["osd", "pool", "create", "new"]).failure();
    assert!(refused.contains("until it is confirmed"), "{refused}");
    let refused = cluster.ceph(&["mon", "confirm-survivor"]).failure();
    assert!(refused.contains("0 placement groups have not been made whole"), "{refused}");
    cluster.ceph(&["mon", "confirm-survivor", "--yes-i-really-mean-it"]).ok();
    assert!(!cluster.ceph(&["health", "detail"]).ok().contains("MON_SURVIVOR_UNCONFIRMED"));
    cluster.make_pool("new", 8, 2);
    write("fourth");
    cluster.wait_until_clean(Duration::from_secs(60));
}
