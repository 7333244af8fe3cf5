//! `nacre bench` with agents, and with Ceph's own tools as load, on whole clusters.

use crate::bench::{result_in, text};
use cluster_tests::{Background, Outcome, TestCluster, binary, clients_are_here, run};
use rustix::process::Signal;
use serde_json::Value;
use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(120);
/// Small objects, soon measured.
const SHORT: [&str; 8] = ["--object-size", "64KiB", "--objects", "60", "--pgs", "8", "--replicas", "2"];

fn bench(args: &[&str]) -> Outcome {
    let mut command = Command::new(binary());
    command.arg("bench").args(args);
    run(command, LIMIT)
}

fn in_background(args: &[&str]) -> Background {
    let mut command = Command::new(binary());
    command.arg("bench").args(args);
    Background::start(command)
}

/// An agent, and its address.
fn agent(more: &[&str]) -> (Background, String) {
    let agent = in_background(&[&["agent", "--listen", "127.0.0.1:0"], more].concat());
    let line = agent.says("listens on ", LIMIT);
    let address = line.rsplit(' ').next().unwrap().to_owned();
    (agent, address)
}

#[test]
fn two_agents_carry_the_load_and_a_third_watches() {
    let cluster = TestCluster::start("agents-run", 3);
    let token = cluster.scratch("token");
    fs::write(&token, "a token that nobody guesses\n").unwrap();
    let (agents, addresses): (Vec<Background>, Vec<String>) = [&[][..], &[], &["--watch-only"]]
        .map(|more| agent(&[&["--token-file", text(&token)], more].concat()))
        .into_iter()
        .unzip();
    let (nacre, out, all) = (format!("nacre={}", cluster.dir().display()), cluster.scratch("run"), addresses.join(","));
    let run = ["run", "--cluster", &nacre, "--agents", &all, "--token-file", text(&token)];
    let mixed = ["--mode", "randread=50,randwrite=50", "--io-size", "4KiB", "--instances", "3", "--iterations", "2"];
    let times = ["--warm-up", "0.3", "--seconds", "1.5", "--out", text(&out)];
    let said = bench(&[&run, &SHORT[..], &mixed, &times].concat()).ok();
    assert!(said.contains("| 4KiB-randread-50-randwrite-50 | clients | nacre | 2 |"), "{said}");
    let result = result_in(&out);
    assert_eq!(result["end"], "complete");
    for row in result["rows"].as_array().unwrap() {
        assert_eq!((&row["mismatches"], &row["errors"], &row["measured_s"]), (&0.into(), &0.into(), &1.5.into()));
        assert_eq!((&row["missing"], &row["partial"]), (&Value::Null, &Value::Null));
        let buckets = row["histogram"]["buckets"].as_array().unwrap();
        let operations: u64 = buckets.iter().map(|bucket| bucket[1].as_u64().unwrap()).sum();
        assert!(operations > 30 && row["operations"] == operations, "{row}");
        for name in ["server_cpu_us_per_operation", "machine_cpu_us_per_operation", "client_cores", "osd.2.cores"] {
            assert!(row["figures"][name].as_f64() > Some(0.0), "{name}: {}", row["figures"]);
        }
    }
    // One machine's clocks agree.
    for address in &addresses {
        let fact = |name: &str| result["environment"][format!("agent.{address}.{name}")].as_str().unwrap().to_owned();
        let number = |name: &str| fact(name).parse::<f64>().unwrap();
        assert!(number("time_of_day_offset_us").abs() <= number("time_of_day_uncertainty_us") + 1.0);
        let watches = fact("part") == "watches";
        assert_eq!(watches, *address == addresses[2]);
        let record =
            out.join(format!("telemetry/nacre.4KiB-randread-50-randwrite-50.0.{}.jsonl", address.replace(':', "-")));
        assert!(fs::read_to_string(&record).unwrap().lines().count() >= 2, "{}", record.display());
    }
    assert_eq!(cluster.nacre(&["pool", "ls"], LIMIT).ok(), "");

    // Wrong ones are refused before anything is made.
    let refused = |agents: &str, more: &[&str], words: &str| {
        let never = cluster.scratch("never");
        let said =
            bench(&[&["run", "--cluster", &nacre, "--agents", agents, "--out", text(&never)], more].concat()).failure();
        assert!(said.contains(words), "{said}");
        assert!(!never.exists(), "nothing was measured");
    };
    let with_token = ["--token-file", text(&token)];
    refused(&addresses[0], &[], "--token-file");
    refused(&addresses[..2].join(","), &with_token, "2 agents carry load, and workload");
    refused(&addresses[2], &with_token, "all agents only watch");
    refused("127.0.0.1:1", &[], "agent 127.0.0.1:1 cannot be reached");
    let conf = fs::read_to_string(cluster.conf()).unwrap();
    let mon_port = conf.split("v2:127.0.0.1:").nth(1).or_else(|| conf.split("127.0.0.1:").nth(1)).unwrap();
    let mon_port: String = mon_port.chars().take_while(char::is_ascii_digit).collect();
    refused(&format!("127.0.0.1:{mon_port}"), &[], "is no agent");
    let open = bench(&["agent", "--listen", "0.0.0.0:0"]).failure();
    assert!(open.contains("--token-file"), "{open}");
    // They end in order.
    for mut agent in agents {
        agent.signal(Signal::TERM);
        assert_eq!(agent.exit_code(LIMIT), Some(0));
    }
}

/// An agent that is gone is named soon, and the others' work is kept and cleaned up.
#[test]
fn a_lost_agent_is_named_and_nothing_is_left() {
    let cluster = TestCluster::start("agents-lost", 3);
    cluster.nacre(&["pool", "create", "mine"], LIMIT).ok();
    let (nacre, (kept, first)) = (format!("nacre={}", cluster.dir().display()), agent(&[]));
    // Killed it is seen at once, stopped after some seconds of silence. Its objects are removed then, for which a busy
    // machine needs a while. The load would take 100 s.
    for (signal, within) in [(Signal::KILL, 50), (Signal::STOP, 80)] {
        let (lost, second) = agent(&[]);
        let (out, all) = (cluster.scratch(&format!("run-{within}")), format!("{first},{second}"));
        let args = ["run", "--cluster", &nacre, "--agents", &all, "--pool", "mine", "--out", text(&out)];
        let small =
            ["--object-size", "64KiB", "--objects", "60", "--instances", "2", "--warm-up", "0", "--seconds", "100"];
        let mut run = in_background(&[&args[..], &small].concat());
        run.says("measuring", LIMIT);
        kept.says("serves", LIMIT);
        std::thread::sleep(Duration::from_secs(1));
        let at = Instant::now();
        lost.signal(signal);
        assert_eq!(run.exit_code(LIMIT), Some(1));
        assert!(at.elapsed() < Duration::from_secs(within), "{:?}", at.elapsed());
        let result = result_in(&out);
        let reason = result["end"]["failed"].as_str().unwrap();
        assert!(reason.contains(&format!("agent {second} was lost")), "{reason}");
        assert!(reason.contains("its share of the load is missing"), "{reason}");
        let row = &result["rows"][0];
        assert_eq!((&row["missing"], &row["partial"]), (&Value::from(vec![second.clone()]), &true.into()));
        assert!(row["operations"].as_u64() > Some(0), "what the other did is there: {row}");
        let report = fs::read_to_string(out.join("report.md")).unwrap();
        assert!(report.contains(&format!("the share of agent {second} is missing")), "{report}");
        kept.says("no longer serves", LIMIT);
        assert_eq!(cluster.nacre(&["ls", "mine"], LIMIT).ok(), "", "objects of the lost one are removed too");
    }
    // A coordinator that is gone leaves an agent idle, ready for the next.
    let (out, args) = (cluster.scratch("after"), ["run", "--cluster", &nacre, "--agents", &first, "--pool", "mine"]);
    let small = ["--object-size", "64KiB", "--objects", "60", "--warm-up", "0"];
    let dying =
        in_background(&[&args[..], &small, &["--seconds", "100", "--out", text(&cluster.scratch("dying"))]].concat());
    dying.says("measuring", LIMIT);
    drop(dying);
    kept.says("no longer serves", LIMIT);
    bench(&[&args[..], &small, &["--seconds", "1", "--out", text(&out)]].concat()).ok();
    assert_eq!(result_in(&out)["end"], "complete");
}

fn tools(cluster: &TestCluster, name: &str) {
    let at = format!("{name}={}", cluster.dir().display());
    for (tool, mode) in [
        ("rados-bench", "write"),
        ("rados-bench", "randread"),
        ("fio-rados", "randwrite"),
        ("fio-rados", "read"),
        ("fio-rbd", "randwrite"),
        ("fio-rbd", "read"),
    ] {
        let out = cluster.scratch(&format!("{tool}-{mode}"));
        let is_fio = tool != "rados-bench";
        let size = if is_fio { "4KiB" } else { "64KiB" };
        let args = ["run", "--cluster", &at, "--tool", tool, "--mode", mode, "--io-size", size, "--depth", "4"];
        let times = ["--warm-up", "1", "--seconds", "2", "--out", text(&out)];
        let said = bench(&[&args, &SHORT[..], &times].concat()).ok();
        assert!(said.contains(&format!("the load is that of {tool}")), "{said}");
        let result = result_in(&out);
        let row = &result["rows"][0];
        assert_eq!((&result["end"], &row["errors"]), (&"complete".into(), &0.into()));
        let (operations, bytes) = (row["operations"].as_u64().unwrap(), row["bytes"].as_u64().unwrap());
        let size = if is_fio { 4096 } else { 65_536 };
        assert!(operations > 10 && bytes == operations * size, "{row}");
        assert!((1.0..30.0).contains(&row["measured_s"].as_f64().unwrap()), "{row}");
        assert!(row["latency"]["mean_us"].as_f64() > Some(0.0), "{row}");
        assert_eq!(row["latency"]["p99_us"].is_f64(), is_fio, "rados bench tells no percentiles: {row}");
        for figure in ["client_cpu_us_per_operation", "server_cpu_us_per_operation"] {
            assert!(row["figures"][figure].as_f64() > Some(0.0), "{figure}: {}", row["figures"]);
        }
    }
    assert!(!cluster.nacre(&["pool", "ls"], LIMIT).ok().contains("nacre-bench"));
}

#[test]
fn ceph_s_tools_are_load_on_nacre() {
    if !clients_are_here(&["rados", "rbd", "fio"]) {
        return;
    }
    let cluster = TestCluster::start("tools-nacre", 3);
    tools(&cluster, "nacre");
    // In a pool that is there nothing is left behind, also not by a tool that is killed.
    cluster.nacre(&["pool", "create", "mine"], LIMIT).ok();
    let at = format!("nacre={}", cluster.dir().display());
    for (tool, mode) in [("rados-bench", "write"), ("fio-rados", "write"), ("fio-rbd", "randwrite")] {
        let out = cluster.scratch(&format!("interrupted-{tool}"));
        let args = ["run", "--cluster", &at, "--tool", tool, "--mode", mode, "--pool", "mine", "--out", text(&out)];
        let small = ["--object-size", "64KiB", "--objects", "60", "--warm-up", "0", "--seconds", "100"];
        let mut run = in_background(&[&args[..], &small].concat());
        run.says("measuring", LIMIT);
        std::thread::sleep(Duration::from_secs(2));
        run.signal(Signal::INT);
        assert_eq!(run.exit_code(LIMIT), Some(130), "{tool}");
        let left = cluster.nacre(&["ls", "mine"], LIMIT).ok();
        // The pool's records of images in general stay when the last one goes.
        let of_a_run = |name: &&str| !["rbd_directory", "rbd_info", "rbd_trash"].contains(name);
        assert_eq!(left.lines().filter(of_a_run).collect::<Vec<_>>(), Vec::<&str>::new(), "{tool}");
    }
    // A workload that a tool cannot carry, and a tool that is not there.
    let refused = |args: &[&str], words: &str| {
        let never = cluster.scratch("never");
        let said = bench(&[&["run", "--cluster", &at, "--out", text(&never)], args].concat()).failure();
        assert!(said.contains(words), "{said}");
    };
    refused(&["--tool", "rados-bench", "--rate", "5"], "has no open loop");
    refused(&["--tool", "rados-bench", "--mode", "randwrite"], "never at random");
    refused(&["--tool", "dd"], "none of nacre, nacre-rbd, nacre-s3, rados-bench, fio-rados, fio-rbd");
    let mut without = Command::new(binary());
    without.args(["bench", "run", "--cluster", &at, "--tool", "fio-rados"]).env("PATH", "/nowhere");
    let said = run(without, LIMIT).failure();
    assert!(said.contains("apt-get install fio"), "{said}");
}

#[test]
fn ceph_s_tools_are_load_on_ceph() {
    if clients_are_here(&["rados", "rbd", "fio", "ceph-mon", "ceph-osd", "ceph-mgr", "monmaptool", "ceph"]) {
        tools(&TestCluster::start_ceph("tools-ceph", 3), "ceph");
    }
}
