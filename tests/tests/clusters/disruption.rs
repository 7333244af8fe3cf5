//! Daemons that die, pause and are told to leave while a client writes.

use cluster_tests::{Pattern, TestCluster, assert_same_bytes, clients_are_here};
use rustix::process::Signal;
use std::thread::sleep;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(180);

/// `rados bench` writes for 8 s while `disturb` is done; every write must succeed, and every byte be there afterwards.
#[track_caller]
fn bench_during(cluster: &TestCluster, what: &str, disturb: impl FnOnce(&TestCluster)) {
    let started = Instant::now();
    let options = ["-p", "p", "bench", "8", "write", "-b", "65536", "-t", "8", "--no-cleanup", "--run-name", what];
    std::thread::scope(|scope| {
        let bench = scope.spawn(|| cluster.rados_within(&options, LIMIT).ok());
        sleep(Duration::from_secs(2));
        disturb(cluster);
        let out = bench.join().unwrap_or_else(|_| panic!("{what}: the benchmark fails"));
        let made = out.lines().find(|line| line.starts_with("Total writes made")).unwrap_or_default().to_owned();
        eprintln!("{what}: {made}, {:.1} s", started.elapsed().as_secs_f64());
    });
    cluster.wait_until_clean(LIMIT);
    let out = cluster.rados_within(&["-p", "p", "bench", "30", "seq", "-t", "8", "--run-name", what], LIMIT).ok();
    assert!(!out.contains("does not match") && !out.contains("is not correct"), "{what}: {out}");
    cluster.rados(&["-p", "p", "cleanup", "--run-name", what]).ok();
    assert_eq!(cluster.rados(&["-p", "p", "ls"]).ok(), "", "after {what}");
    eprintln!("{what}: whole and clean after {:.1} s", started.elapsed().as_secs_f64());
}

#[test]
fn clients_write_on_while_daemons_die() {
    if !clients_are_here(&["ceph", "rados"]) {
        return;
    }
    let cluster = TestCluster::start_supervised("disruption", 4);
    cluster.make_pool("p", 16, 3);
    bench_during(&cluster, "an-osd-is-killed", |cluster| cluster.signal("osd.1", Signal::KILL));
    bench_during(&cluster, "the-monitor-is-killed", |cluster| cluster.signal("mon.a", Signal::KILL));
    bench_during(&cluster, "two-osds-are-killed", |cluster| {
        cluster.signal("osd.0", Signal::KILL);
        cluster.signal("osd.3", Signal::KILL);
    });
}

#[test]
fn clients_write_on_while_osds_pause_and_are_called_down() {
    if !clients_are_here(&["ceph", "rados"]) {
        return;
    }
    let cluster = TestCluster::start_supervised("pauses", 4);
    cluster.make_pool("p", 16, 3);
    bench_during(&cluster, "an-osd-pauses", |cluster| {
        cluster.signal("osd.2", Signal::STOP);
        sleep(Duration::from_secs(4));
        cluster.signal("osd.2", Signal::CONT);
    });
    bench_during(&cluster, "an-osd-is-called-down", |cluster| {
        cluster.ceph(&["osd", "down", "0"]).ok();
    });
}

/// How many copies of placement groups an OSD holds.
fn groups_on(cluster: &TestCluster, osd: u64) -> usize {
    let dump = cluster.ceph_json(&["pg", "dump", "pgs_brief"]);
    let groups = dump["pg_stats"].as_array().or(dump.as_array()).cloned().unwrap_or_default();
    assert!(!groups.is_empty(), "{dump}");
    groups
        .iter()
        .filter(|group| group["acting"].as_array().into_iter().flatten().any(|id| id.as_u64() == Some(osd)))
        .count()
}

#[test]
fn data_follows_changes_of_the_cluster() {
    if !clients_are_here(&["ceph", "rados"]) {
        return;
    }
    let cluster = TestCluster::start("changes", 4);
    cluster.make_pool("p", 16, 2);
    let (given, got) = (cluster.scratch("given"), cluster.scratch("got"));
    let (given_path, got_path) = (given.to_str().unwrap(), got.to_str().unwrap());
    Pattern::new(1).write(&given, (4 << 20) + 1);
    let names: Vec<String> = (0..20).map(|i| format!("object{i}")).collect();
    for name in &names {
        cluster.rados(&["-p", "p", "put", name, given_path]).ok();
    }
    cluster.rados(&["-p", "p", "setxattr", "object0", "k", "v"]).ok();
    cluster.rados(&["-p", "p", "setomapval", "object0", "key", "value"]).ok();
    let settled = |what: &str| {
        let started = Instant::now();
        cluster.wait_until_clean(LIMIT);
        for name in &names {
            cluster.rados(&["-p", "p", "get", name, got_path]).ok();
            assert_same_bytes(&given, &got);
        }
        assert_eq!(cluster.rados(&["-p", "p", "getxattr", "object0", "k"]).ok(), "v", "{what}");
        assert!(cluster.rados(&["-p", "p", "getomapval", "object0", "key"]).ok().contains("value"), "{what}");
        eprintln!("{what}: settled after {:.1} s", started.elapsed().as_secs_f64());
    };
    let ceph = |args: &[&str]| cluster.ceph(args).ok();

    ceph(&["osd", "pool", "set", "p", "size", "3"]);
    settled("size 3");
    let stats = cluster.ceph_json(&["pg", "dump", "pgs_brief"]);
    let groups = stats["pg_stats"].as_array().or(stats.as_array()).expect("a list of groups").clone();
    assert!(groups.iter().all(|group| group["acting"].as_array().is_some_and(|acting| acting.len() == 3)), "{stats}");

    assert!(groups_on(&cluster, 3) > 0);
    ceph(&["osd", "out", "3"]);
    settled("osd.3 out");
    assert_eq!(groups_on(&cluster, 3), 0, "an OSD that is out holds nothing");
    ceph(&["osd", "in", "3"]);
    settled("osd.3 in");
    assert!(groups_on(&cluster, 3) > 0);
    let before = groups_on(&cluster, 2);
    ceph(&["osd", "reweight", "2", "0.2"]);
    settled("osd.2 at a fifth");
    assert!(groups_on(&cluster, 2) < before, "{before} groups before and after");
    ceph(&["osd", "reweight", "2", "1"]);
    let tree = cluster.ceph_json(&["osd", "tree"]);
    let nodes = tree["nodes"].as_array().expect("a list of nodes");
    let weight = nodes.iter().find(|node| node["name"] == "osd.1").expect("osd.1")["crush_weight"].to_string();
    ceph(&["osd", "crush", "reweight", "osd.1", "0"]);
    settled("osd.1 weighs nothing");
    assert_eq!(groups_on(&cluster, 1), 0);
    ceph(&["osd", "crush", "reweight", "osd.1", &weight]);
    settled("osd.1 weighs again");
    ceph(&["osd", "pool", "set", "p", "size", "2"]);
    settled("size 2");

    // Health tells what is set, and is well again without it.
    ceph(&["osd", "set", "noout"]);
    assert!(ceph(&["health", "detail"]).contains("noout"));
    ceph(&["osd", "unset", "noout"]);
    cluster.signal("osd.1", Signal::KILL);
    let end = Instant::now() + Duration::from_secs(40);
    while !ceph(&["health", "detail"]).contains("osd.1 ") {
        assert!(Instant::now() < end, "{}", ceph(&["health", "detail"]));
        sleep(Duration::from_millis(500));
    }
    // Data made while it is away is what it gets when it is back.
    cluster.ceph(&["osd", "out", "1"]).ok();
    settled("osd.1 dead and out");
    cluster.rados(&["-p", "p", "rm", "object19"]).ok();
    cluster.rados(&["-p", "p", "put", "object19", given_path]).ok();
    cluster.down();
    cluster.up();
    ceph(&["osd", "in", "1"]);
    settled("osd.1 back");
    assert!(groups_on(&cluster, 1) > 0);

    ceph(&["config", "set", "mon", "mon_allow_pool_delete", "true"]);
    ceph(&["osd", "pool", "delete", "p", "p", "--yes-i-really-really-mean-it"]);
    assert!(!ceph(&["osd", "lspools"]).contains(" p"));
}
