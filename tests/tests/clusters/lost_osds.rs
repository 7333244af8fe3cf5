//! OSDs that do not come back: groups stay steady without them, say whom they wait for, and go on on the operator's
//! word.

use cluster_tests::{Background, TestCluster, binary, clients_are_here, wait_until};
use rustix::process::Signal;
use std::fs;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(90);

fn epoch(cluster: &TestCluster) -> u64 {
    cluster.ceph_json(&["osd", "stat"])["epoch"].as_u64().expect("an epoch")
}

#[test]
fn an_osd_that_dies_while_it_is_filled_leaves_a_steady_map() {
    if !clients_are_here(&["ceph", "rados"]) {
        return;
    }
    let cluster = TestCluster::start("steady", 4);
    cluster.make_pool("p", 32, 3);
    cluster.rados(&["-p", "p", "bench", "4", "write", "-b", "262144", "-t", "8", "--no-cleanup"]).ok();
    cluster.grow(5);
    cluster.signal("osd.4", Signal::KILL);
    cluster.wait_until_up(4, false, LIMIT);
    // Groups agree who serves without it, and stay with that.
    sleep(Duration::from_secs(8));
    let before = epoch(&cluster);
    sleep(Duration::from_secs(8));
    let maps = epoch(&cluster) - before;
    assert!(maps < 16, "{maps} maps in 8 s");
    let dump = cluster.ceph_json(&["pg", "dump", "pgs_brief"]);
    let groups = dump["pg_stats"].as_array().or(dump.as_array()).expect("groups");
    let serve = |group: &serde_json::Value| group["state"].as_str().is_some_and(|state| state.contains("active"));
    assert!(groups.iter().all(serve), "{dump:#}");
    cluster.rados(&["-p", "p", "bench", "2", "seq", "-t", "8"]).ok();
    cluster.down();
}

#[test]
fn groups_wait_for_who_served_last_until_the_operator_gives_it_up() {
    if !clients_are_here(&["ceph", "rados"]) {
        return;
    }
    let cluster = TestCluster::start("lost", 2);
    cluster.make_pool("p", 4, 2);
    cluster.ceph(&["osd", "pool", "set", "p", "min_size", "1"]).ok();
    let file = cluster.scratch("content");
    let file = file.to_str().expect("plain path");
    let put = |name: &str, content: &str| {
        fs::write(file, content).expect("scratch can be written");
        cluster.rados(&["-p", "p", "put", name, file]).ok();
    };
    let names: Vec<String> = (0..16).map(|n| format!("o{n}")).collect();
    names.iter().for_each(|name| put(name, "before"));
    cluster.signal("osd.0", Signal::KILL);
    cluster.wait_until_up(0, false, LIMIT);
    names[8..].iter().for_each(|name| put(name, "after"));
    cluster.signal("osd.1", Signal::KILL);
    cluster.wait_until_up(1, false, LIMIT);

    let mut command = Command::new(binary());
    command.args(["osd", "--id", "0", "--conf"]).arg(cluster.conf());
    let mut by_hand = Background::start(command);
    cluster.wait_until_up(0, true, LIMIT);
    let dump = || cluster.ceph_json(&["pg", "dump", "pgs_brief"]);
    let all_are = |word: &str| {
        let dump = dump();
        let groups = dump["pg_stats"].as_array().or(dump.as_array()).cloned().unwrap_or_default();
        let is = |group: &serde_json::Value| {
            group["state"].as_str().is_some_and(|state| state.split('+').any(|s| s == word))
        };
        groups.len() == 4 && groups.iter().all(is)
    };
    wait_until("all groups are down", LIMIT, || all_are("down"));
    // The OSDs that they wait for are named, by the group and by the monitors.
    let pgid = dump()["pg_stats"][0]["pgid"].as_str().expect("a group").to_owned();
    for words in [["pg", &pgid, "query"], ["tell", &pgid, "query"]] {
        let answer = cluster.ceph_json(&words);
        let blocked = &answer["recovery_state"][1]["peering_blocked_by"];
        assert_eq!(blocked[0]["osd"], 1, "{answer:#}");
    }
    let blocked = cluster.ceph_json(&["osd", "blocked-by"]);
    let infos = &blocked["osd_blocked_by"]["osd_blocked_by_infos"];
    assert_eq!((&infos[0]["id"], &infos[0]["num_blocked"]), (&1.into(), &4.into()), "{blocked:#}");

    cluster.ceph(&["osd", "lost", "1", "--yes-i-really-mean-it"]).ok();
    wait_until("all groups serve", LIMIT, || all_are("active"));
    // Objects that only the lost OSD had are gone, and nothing else is.
    let got = cluster.scratch("got");
    for name in &names {
        cluster.rados(&["-p", "p", "get", name, got.to_str().expect("plain path")]).ok();
        assert_eq!(fs::read_to_string(&got).expect("just got"), "before", "{name}");
    }
    by_hand.signal(Signal::TERM);
    assert_eq!(by_hand.exit_code(LIMIT), Some(0));
}
