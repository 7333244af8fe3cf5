//! Several monitors: any minority of them may die, hang or lose its disk, and clients go on.

use cluster_tests::{
    Commands, TestCluster, Writer, clients_are_here, is_whole_suite, run, wait_for_quorum, wait_until,
};
use rustix::process::Signal;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

const NAMES: [&str; 3] = ["a", "b", "c"];
const LIMIT: Duration = Duration::from_secs(60);
/// The longest wait of a write and a command while a monitor is in trouble.
const WRITE_PAUSE_MAX: Duration = Duration::from_secs(5);
const COMMAND_PAUSE_MAX: Duration = Duration::from_secs(10);
/// How long each trouble lasts.
const TROUBLE: Duration = Duration::from_secs(6);

#[track_caller]
fn make_to_join(cluster: &TestCluster, name: &str, more: &[&str]) {
    let conf = cluster.conf();
    let mut command = Command::new(cluster_tests::binary());
    command.args(["mon", "--id", name, "--conf"]).arg(conf).args(["--mkfs", "--join", "--keyring"]);
    command.arg(cluster.monitors_keyring()).args(more);
    run(command, LIMIT).ok();
}

/// Each monitor in turn (outside the whole suite: the one that leads) is killed, hangs, and loses its disk, while a
/// client writes and another one gives commands.
#[test]
fn clients_go_on_while_each_monitor_is_in_trouble() {
    if !clients_are_here(&["ceph", "rados", "python3-rados"]) {
        return;
    }
    let cluster = TestCluster::start_monitors("monitors", 3, 3);
    cluster.make_pool("p", 16, 3);
    wait_for_quorum(&cluster, &NAMES);
    let (writer, commands) = (Writer::start(&cluster, "p"), Commands::start(&cluster));
    sleep(Duration::from_secs(3));
    let (write, command) = (writer.longest_pause(), commands.longest());
    eprintln!(
        "without trouble: {:.2} s without a write, {:.2} s for a command",
        write.as_secs_f32(),
        command.as_secs_f32()
    );
    let mut worst = (Duration::ZERO, Duration::ZERO);
    let leader = cluster.ceph_json(&["quorum_status"])["quorum_leader_name"].as_str().expect("a name").to_owned();
    let troubled: &[&str] = if is_whole_suite() { &NAMES } else { &[&leader] };
    for name in troubled {
        for trouble in ["kill -9", "SIGSTOP", "wiped disk"] {
            let daemon = format!("mon.{name}");
            let leads = cluster.ceph_json(&["quorum_status"])["quorum_leader_name"] == *name;
            writer.longest_pause();
            commands.longest();
            match trouble {
                "kill -9" => cluster.signal(&daemon, Signal::KILL),
                "SIGSTOP" => cluster.signal(&daemon, Signal::STOP),
                _ => cluster.lose_disk(&daemon),
            }
            sleep(TROUBLE);
            match trouble {
                "SIGSTOP" => {
                    wait_until("the monitor is said to be down", LIMIT, || {
                        let health = cluster.ceph(&["health", "detail"]).ok();
                        let says = ["1/3 mons down", "MON_DOWN", &format!("mon.{name} (rank ")];
                        says.iter().all(|words| health.contains(words))
                    });
                    cluster.signal(&daemon, Signal::CONT);
                }
                "wiped disk" => make_to_join(&cluster, name, &[]),
                _ => {}
            }
            wait_for_quorum(&cluster, &NAMES);
            let (write, command) = (writer.longest_pause(), commands.longest());
            let role = if leads { "leader" } else { "peon" };
            let (w, c) = (write.as_secs_f32(), command.as_secs_f32());
            eprintln!("mon.{name} ({role}), {trouble}: {w:.2} s without a write, {c:.2} s for a command");
            worst = (worst.0.max(write), worst.1.max(command));
        }
    }
    commands.end();
    writer.end(&cluster, "p");
    // A machine that is slow without trouble may be as slow a few times over in it.
    assert!(worst.0 <= WRITE_PAUSE_MAX + 4 * write, "{:?} without a write, and {write:?} without trouble", worst.0);
    assert!(worst.1 <= COMMAND_PAUSE_MAX + 4 * command, "{:?} for a command, and {command:?} without trouble", worst.1);
    wait_until("no monitor is missed", LIMIT, || !cluster.ceph(&["health"]).ok().contains("MON_DOWN"));
}

/// Monitors come and go while the cluster runs; one that was removed stays out until its store is made anew.
#[test]
fn monitors_are_added_and_removed() {
    if !clients_are_here(&["ceph"]) {
        return;
    }
    let cluster = TestCluster::start_monitors("membership", 1, 3);
    wait_for_quorum(&cluster, &NAMES);
    let removed = cluster.ceph(&["mon", "rm", "b"]).ok();
    assert!(removed.is_empty() || removed.contains("mon.b"), "{removed}");
    wait_for_quorum(&cluster, &["a", "c"]);
    let log = cluster.dir().join("log/mon.b.log");
    wait_until("the one that was removed says so", LIMIT, || {
        std::fs::read_to_string(&log).expect("its log is there").contains("was removed")
    });
    sleep(Duration::from_secs(3));
    let map = cluster.ceph_json(&["mon", "dump"]);
    let names: Vec<_> = map["mons"].as_array().expect("monitors").iter().map(|mon| mon["name"].clone()).collect();
    assert_eq!(names, ["a", "c"], "the one that was removed stays out, though it is started again and again");
    assert!(cluster.ceph(&["mon", "rm", "nobody"]).succeeded(), "as in Ceph, this is no error");
    // The one that leads can be removed, too.
    let leader = cluster.ceph_json(&["quorum_status"])["quorum_leader_name"].as_str().expect("a name").to_owned();
    let other = if leader == "a" { "c" } else { "a" };
    cluster.ceph(&["mon", "rm", &leader]).ok();
    wait_for_quorum(&cluster, &[other]);
    let refused = cluster.ceph(&["mon", "rm", other]);
    assert!(!refused.succeeded(), "the last one stays");
    // With new stores they come back.
    for name in ["b", &leader] {
        std::fs::remove_dir_all(cluster.dir().join(format!("mon.{name}"))).expect("the folder can be removed");
        make_to_join(&cluster, name, &[]);
    }
    wait_for_quorum(&cluster, &NAMES);
    wait_until("all are said to decide", LIMIT, || cluster.ceph(&["-s"]).ok().contains("3 daemons, quorum"));
}

/// `nacre up --mons N` of a cluster that runs.
#[test]
fn up_gives_a_cluster_more_monitors_and_fewer() {
    if !clients_are_here(&["ceph"]) {
        return;
    }
    let cluster = TestCluster::start_monitors("more-monitors", 1, 1);
    wait_for_quorum(&cluster, &["a"]);
    cluster.have_monitors(3);
    wait_for_quorum(&cluster, &NAMES);
    let conf = std::fs::read_to_string(cluster.conf()).expect("its ceph.conf");
    assert!(conf.contains("[mon.c]"), "{conf}");
    // Monitors that came serve the contents from before.
    cluster.signal("mon.a", Signal::KILL);
    cluster.ceph(&["config-key", "set", "colour", "green"]).ok();
    wait_for_quorum(&cluster, &NAMES);
    cluster.have_monitors(2);
    wait_for_quorum(&cluster, &["a", "b"]);
    assert!(!cluster.dir().join("mon.c").exists() && !cluster.dir().join("run/mon.c.pid").exists());
    cluster.have_monitors(1);
    wait_for_quorum(&cluster, &["a"]);
    assert_eq!(cluster.ceph(&["config-key", "get", "colour"]).ok().trim(), "green");
    // The monitor's name comes back with another store, also to a cluster that was stopped.
    cluster.down();
    let refused = cluster.nacre(&["up", "--detach", "--mons", "0"], LIMIT);
    assert!(!refused.succeeded());
    cluster.nacre(&["up", "--detach", "--mons", "3"], Duration::from_secs(180)).ok();
    wait_for_quorum(&cluster, &NAMES);
    assert_eq!(cluster.ceph(&["config-key", "get", "colour"]).ok().trim(), "green");
    cluster.down();
    let refused = cluster.nacre(&["up", "--detach", "--mons", "1"], LIMIT).failure();
    assert!(refused.contains("has 3 monitors"), "{refused}");
}
