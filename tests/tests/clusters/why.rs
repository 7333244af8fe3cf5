//! `nacre why`: where the time of operations went, against what the client saw.

use cluster_tests::{Killed, TestCluster, clients_are_here, wait_until};
use rustix::process::Signal;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::thread::sleep;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(90);
const PAUSE: Duration = Duration::from_secs(1);

#[track_caller]
fn why(cluster: &TestCluster, args: &[&str]) -> Value {
    let out = cluster.nacre(&[&["why", "--json"], args].concat(), LIMIT).ok();
    serde_json::from_str(&out).unwrap_or_else(|e| panic!("{e}: {out}"))
}

/// The operation's hops add up to its time, and members' own times lie within.
#[track_caller]
fn hops_add_up(op: &Value) {
    let hops = op["hops"].as_array().unwrap_or_else(|| panic!("an operation, not {op:#}"));
    let sum: u64 = hops.iter().map(|hop| hop[1].as_u64().unwrap()).sum();
    assert_eq!(Some(sum), op["total_us"].as_u64(), "{op:#}");
    for member in op["members"].as_array().unwrap() {
        let of = |name: &str| member[name].as_u64().unwrap();
        let own = of("receive_us") + of("queue_us") + of("write_us") + of("flush_us");
        assert!(own <= of("acked_us") && of("acked_us") <= sum, "{op:#}");
    }
}

fn hop(op: &Value, name: &str) -> u64 {
    let hops = op["hops"].as_array().unwrap();
    hops.iter().find(|hop| hop[0] == name).map_or(0, |hop| hop[1].as_u64().unwrap())
}

/// True for a line on a second of `rados bench`, by whose end some objects were written.
fn tells_of_writes(line: &str) -> bool {
    let words: Vec<Option<u64>> = line.split_whitespace().map(|word| word.parse().ok()).collect();
    // The second, operations under way, begun and done.
    matches!(words[..], [Some(_), Some(_), Some(_), Some(done), ..] if done > 0)
}

#[test]
fn the_slowest_replica_and_the_largest_hop_are_named() {
    if !clients_are_here(&["ceph", "rados"]) {
        return;
    }
    let cluster = TestCluster::start("why", 3);
    // Enough groups that OSDs 0 and 2 each lead some: which ones follows from the order in which the OSDs came. The OSD
    // that is stopped leads none. Otherwise it may lead the groups of all operations that the benchmark waits for, and
    // no other OSD has a slow one.
    cluster.make_pool("p", 32, 3);
    cluster.ceph(&["osd", "primary-affinity", "osd.1", "0"]).ok();
    wait_until("osd.1 leads no group", LIMIT, || {
        let led = cluster.ceph_json(&["pg", "ls-by-primary", "1"]);
        led["pg_stats"].as_array().or(led.as_array()).is_some_and(Vec::is_empty)
    });
    assert_eq!(why(&cluster, &["--pool", "p"])["operations"]["writes"]["breakdown"], Value::Null);
    let options = ["-p", "p", "bench", "4", "write", "-b", "4096", "-t", "4", "--no-cleanup", "--run-name", "why"];
    let mut bench = cluster.command("timeout", &[&["90", "rados"][..], &options].concat());
    let mut bench = Killed(bench.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("rados runs"));
    let lines = BufReader::new(bench.0.stdout.take().expect("asked for a pipe")).lines();
    let mut lines = lines.map(|line| line.expect("text"));
    lines.find(|line| tells_of_writes(line)).expect("objects are written");
    cluster.signal("osd.1", Signal::STOP);
    sleep(PAUSE);
    cluster.signal("osd.1", Signal::CONT);
    let rest: Vec<String> = lines.collect();
    assert!(bench.0.wait().expect("it ends").success(), "{rest:#?}");
    let line = rest.iter().find_map(|line| line.strip_prefix("Max latency(s):")).expect("rados bench tells");
    let max_us = line.trim().parse::<f64>().unwrap() * 1e6;

    let page = why(&cluster, &["--pool", "p"]);
    assert_eq!((&page["engine"], page["osds"].as_array().map(Vec::len)), (&Value::from("nacre"), Some(3)));
    let writes = &page["operations"]["writes"];
    let slowest = &writes["slowest"];
    hops_add_up(slowest);
    assert_eq!(slowest["last_member"], 1, "{slowest:#}");
    let total_us = slowest["total_us"].as_u64().unwrap() as f64;
    assert!(
        total_us >= 0.8 * PAUSE.as_micros() as f64 && total_us <= max_us + 1000.0,
        "{max_us} at the client: {slowest:#}"
    );
    assert!(hop(slowest, "replicas") as f64 >= 0.8 * total_us, "{slowest:#}");
    let breakdown = &writes["breakdown"];
    assert!(breakdown["ops"].as_u64().unwrap() >= 20, "{breakdown:#}");
    let shares: f64 = breakdown["rows"].as_array().unwrap().iter().map(|row| row["share"].as_f64().unwrap()).sum();
    assert!((shares - 1.0).abs() < 0.001, "{breakdown:#}");
    assert!(writes["verdict"].as_str().unwrap().starts_with("most time goes into"), "{writes:#}");
    let median = &writes["median"];
    hops_add_up(median);
    assert_eq!(median["members"].as_array().map(Vec::len), Some(2), "both others were asked: {median:#}");
    let primary = slowest["osd"].to_string();
    let text = cluster.nacre(&["why", "--slowest", "--osd", &primary], LIMIT).ok();
    assert!(text.contains("last to have it: osd.1"), "{text}");

    cluster.rados_within(&["-p", "p", "bench", "3", "rand", "-t", "4", "--run-name", "why"], LIMIT).ok();
    let page = why(&cluster, &["--osd", "0", "--median"]);
    hops_add_up(&page["operations"]["reads"]["median"]);
    assert_eq!(page["operations"]["reads"]["median"]["osd"], 0);
    let refused = cluster.nacre(&["why", "--pool", "nothing"], LIMIT).failure();
    assert!(refused.contains("there is no pool 'nothing'"), "{refused}");

    // The operations are told in Ceph's shapes.
    let tell = |command: &str| cluster.ceph_json(&["tell", "osd.0", command]);
    let historic = tell("dump_historic_ops");
    assert_eq!((&historic["size"], &historic["duration"]), (&Value::from(20), &Value::from(600)));
    let op = &historic["ops"][0];
    let events: Vec<&str> =
        op["type_data"]["events"].as_array().unwrap().iter().map(|event| event["event"].as_str().unwrap()).collect();
    assert_eq!((events.first(), events.last()), (Some(&"initiated"), Some(&"done")));
    assert!(op["description"].as_str().unwrap().starts_with("osd_op(client."), "{op:#}");
    assert!(op["type_data"]["client_info"]["tid"].as_u64().is_some() && op["duration"].as_f64().is_some(), "{op:#}");
    let by_duration = tell("dump_historic_ops_by_duration");
    let durations: Vec<f64> =
        by_duration["ops"].as_array().unwrap().iter().map(|op| op["duration"].as_f64().unwrap()).collect();
    assert!(durations.is_sorted_by(|a, b| a >= b) && !durations.is_empty(), "{durations:?}");
    assert_eq!(tell("dump_historic_slow_ops")["Ops"], serde_json::json!([]), "nothing took ten seconds");
    assert_eq!(tell("dump_ops_in_flight")["num_ops"], 0);
    assert_eq!(tell("dump_blocked_ops")["num_blocked_ops"], 0);
}

/// Of a real Ceph less is known, and nothing is claimed beyond that.
#[test]
fn a_real_ceph_tells_by_its_own_events() {
    if !clients_are_here(&["ceph-mon", "ceph-osd", "ceph-mgr", "monmaptool", "ceph", "rados"]) {
        return;
    }
    let cluster = TestCluster::start_own_ceph("why-ceph", 3);
    cluster.make_pool("p", 8, 2);
    let text = cluster.nacre(&["why", "--pool", "p"], LIMIT).ok();
    assert!(text.contains("these OSDs are Ceph's") && text.contains("keep no such operation"), "{text}");
    let options = ["-p", "p", "bench", "3", "write", "-b", "4096", "-t", "4", "--no-cleanup", "--run-name", "why"];
    cluster.rados_within(&options, LIMIT).ok();
    // Its clocks are read on several threads, and the first events lie before what it calls the beginning.
    let about_its_time = |op: &Value| {
        let sum: u64 = op["hops"].as_array().unwrap().iter().map(|hop| hop[1].as_u64().unwrap()).sum();
        let total = op["total_us"].as_u64().unwrap();
        assert!(total > 0 && sum.abs_diff(total) <= 200 + total / 20, "{sum}: {op:#}");
        assert!(op["object"].as_str().unwrap().starts_with("benchmark_data_"), "{op:#}");
    };
    let page = why(&cluster, &["--pool", "p"]);
    assert_eq!((&page["engine"], &page["silent_osds"]), (&Value::from("ceph"), &serde_json::json!([])));
    let osds: Vec<i64> = page["osds"].as_array().unwrap().iter().map(|osd| osd["osd"].as_i64().unwrap()).collect();
    assert_eq!(osds, [0, 1, 2]);
    let writes = &page["operations"]["writes"];
    assert!(writes["verdict"].as_str().unwrap().starts_with("most time goes into"), "{writes:#}");
    for op in [&writes["median"], &writes["slowest"]] {
        about_its_time(op);
        let has = |name: &str| op["hops"].as_array().unwrap().iter().any(|hop| hop[0] == name);
        assert!(has("op_commit") && has("sub_op_commit_rec"), "{op:#}");
        assert!(op["last_member"].is_i64(), "of two copies the one that was last is known: {op:#}");
    }
    let times = writes["breakdown"]["last_member"]["times"].as_object().unwrap();
    assert_eq!(times.values().map(|n| n.as_u64().unwrap()).sum::<u64>(), writes["breakdown"]["ops"].as_u64().unwrap());
    let primary = writes["slowest"]["osd"].to_string();
    let of_one = why(&cluster, &["--osd", &primary, "--pool", "p"]);
    assert_eq!(of_one["operations"]["writes"]["slowest"]["reqid"], writes["slowest"]["reqid"]);
    let text = cluster.nacre(&["why", "--pool", "p", "--median"], LIMIT).ok();
    assert!(text.contains("sub_op_commit_rec") && !text.contains("the slowest of the writes:"), "{text}");

    // It keeps the twenty slowest of each OSD only, whatever came later.
    assert_eq!(page["breakdown_of"], "slowest");
    assert!(writes["breakdown"]["ops"].as_u64().unwrap() <= 60, "{writes:#}");
}
