//! `nacre bench` on whole clusters: that it measures, that it cleans up, and what it says when it cannot.

use cluster_tests::{Outcome, TestCluster, binary, clients_are_here, run};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(120);
/// Small objects, soon measured.
const SHORT: &str = "--object-size 64KiB --objects 60 --pgs 8 --warm-up 0.3 --seconds 1.5";
/// Flags of a run without an end of its own.
const OPEN_ENDED: &str = "--object-size 64KiB --pgs 8 --warm-up 0";

/// `nacre bench` with flags that have no spaces in them, then others.
fn command(flags: &[&str], paths: &[&str]) -> Command {
    let mut command = Command::new(binary());
    command.arg("bench").args(flags.iter().flat_map(|words| words.split_whitespace())).args(paths);
    command
}

fn bench(flags: &[&str], paths: &[&str]) -> Outcome {
    run(command(flags, paths), LIMIT)
}

fn at(name: &str, path: &Path) -> String {
    format!("{name}={}", path.display())
}

pub(crate) fn text(path: &Path) -> &str {
    path.to_str().expect("plain path")
}

pub(crate) fn result_in(folder: &Path) -> Value {
    let path = folder.join("result.json");
    let text = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    serde_json::from_str(&text).expect("a result is JSON")
}

fn pools(cluster: &TestCluster) -> String {
    cluster.nacre(&["pool", "ls"], LIMIT).ok()
}

/// A run in the background, past its first line that begins with `line`.
pub(crate) fn start(flags: &[&str], paths: &[&str], line: &str) -> Child {
    let mut command = command(flags, paths);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("nacre starts");
    let mut said = Vec::new();
    let mut lines = BufReader::new(child.stderr.take().expect("asked for a pipe")).lines();
    for next in lines.by_ref() {
        let next = next.expect("text");
        if next.contains(line) {
            // Its later output must find a reader.
            std::thread::spawn(move || lines.for_each(drop));
            return child;
        }
        said.push(next);
    }
    let status = child.wait();
    panic!("it never said '{line}', and ended with {status:?}: {said:#?}");
}

pub(crate) fn exit_code(mut child: Child, limit: Duration) -> Option<i32> {
    let end = Instant::now() + limit;
    loop {
        if let Some(status) = child.try_wait().expect("child can be waited for") {
            return status.code();
        }
        if Instant::now() >= end {
            child.kill().expect("child can be killed");
            panic!("still runs after {limit:?}");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_cluster_is_measured_and_left_as_it_was() {
    let cluster = TestCluster::start("bench-run", 3);
    let (nacre, out) = (at("nacre", cluster.dir()), cluster.scratch("run"));
    let mixed = "--mode randread=50,randwrite=50 --io-size 4KiB --replicas 2 --instances 3";
    let said = bench(&["run", SHORT, mixed], &["--cluster", &nacre, "--out", text(&out)]).ok();
    assert!(said.contains("| 4KiB-randread-50-randwrite-50 | clients | nacre | 1 |"), "{said}");
    let result = result_in(&out);
    assert_eq!((&result["end"], &result["plan"]["clusters"][0]["engine"]), (&"complete".into(), &"nacre".into()));
    let row = &result["rows"][0];
    assert!(row["operations"].as_u64() > Some(50), "{row}");
    assert_eq!((&row["mismatches"], &row["errors"], &row["measured_s"]), (&0.into(), &0.into(), &1.5.into()));
    let figure = |name: &str| row["figures"][name].as_f64().unwrap_or_else(|| panic!("no {name}: {}", row["figures"]));
    for name in ["server_cpu_us_per_operation", "machine_cpu_us_per_operation", "server_memory_bytes", "osd.2.cores"] {
        assert!(figure(name) > 0.0, "{name}");
    }
    let telemetry_s =
        figure("server_cpu_us_per_operation") * row["operations"].as_f64().unwrap() / 1e6 / figure("server_cores");
    // Of the measured 1.5 s, to the nearest samples, which come late on a busy machine.
    assert!((1.1..3.0).contains(&telemetry_s), "telemetry is of {telemetry_s} s");
    assert!(figure("server_cores") <= figure("machine_user_cores") + figure("machine_system_cores") + 0.5);
    for file in ["plan.json", "result.csv", "report.md", "command.txt", "clusters/nacre/osd-dump.json"] {
        assert!(out.join(file).is_file(), "{file}");
    }
    assert!(fs::read_dir(out.join("telemetry")).unwrap().count() == 1);
    assert_eq!(pools(&cluster), "");
    assert_eq!(bench(&["report"], &[text(&out)]).ok(), said, "the tables can be had again");
    // The folder's own plan repeats the run.
    let again = cluster.scratch("again");
    bench(&["run"], &[text(&out.join("plan.json")), "--out", text(&again)]).ok();
    assert_eq!(result_in(&again)["plan"], result["plan"]);

    // A pool that is there keeps what is in it, and nothing else.
    cluster.nacre(&["pool", "create", "mine"], LIMIT).ok();
    cluster.nacre(&["put", "mine", "kept", text(&out.join("plan.json"))], LIMIT).ok();
    let open =
        "--pool mine --rate 100 --depth 16 --mode read --object-size 16KiB --objects 40 --warm-up 0.2 --seconds 3";
    bench(&["run", open], &["--cluster", &nacre, "--out", text(&cluster.scratch("open"))]).ok();
    let row = &result_in(&cluster.scratch("open"))["rows"][0];
    assert!((240..=360).contains(&row["operations"].as_u64().unwrap()), "100 arrivals a second for 3 s: {row}");
    assert_eq!(cluster.nacre(&["ls", "mine"], LIMIT).ok(), "kept\n");
}

/// A mix on images, whose bytes are checked like those of objects; with a pool of the run's own and with one that is
/// there.
#[test]
fn images_are_measured_and_removed() {
    let cluster = TestCluster::start("bench-images", 3);
    let nacre = at("nacre", cluster.dir());
    cluster.nacre(&["pool", "create", "mine"], LIMIT).ok();
    let mixed = "--tool nacre-rbd --mode randread=50,randwrite=50 --io-size 4KiB --object-size 64KiB --objects 20 --depth 8 --warm-up 0.2 --seconds 1";
    for (pool, out) in [("--replicas 2", "own"), ("--pool mine", "there")] {
        let out = cluster.scratch(out);
        bench(&["run", mixed, pool], &["--cluster", &nacre, "--out", text(&out)]).ok();
        let row = &result_in(&out)["rows"][0];
        assert!(row["operations"].as_u64() > Some(50), "{row}");
        assert_eq!((&row["mismatches"], &row["errors"]), (&0.into(), &0.into()), "{row}");
    }
    let left = cluster.nacre(&["ls", "mine"], LIMIT).ok();
    assert!(left.lines().all(|name| name == "rbd_directory"), "no image is left: {left}");
    let refused = bench(&["run", mixed, "--instances 2"], &["--cluster", &nacre]).failure();
    assert!(refused.contains("several groups"), "{refused}");
}

#[test]
fn what_cannot_be_run_is_refused_with_a_reason() {
    let cluster = TestCluster::start("bench-refuse", 3);
    let nacre = at("nacre", cluster.dir());
    let refused = |args: &[&str], words: &str| {
        let out = cluster.scratch("never");
        let said = bench(&["run"], &[&["--out", text(&out)], args].concat()).failure();
        assert!(said.contains(words), "{said}");
        assert!(!out.exists(), "nothing was measured");
    };
    refused(&["--cluster", &nacre, "--pool", "nope"], "there is no pool 'nope'");
    refused(&["--cluster", "x=/nowhere/ceph.conf"], "/nowhere/ceph.conf");
    refused(&["--cluster", &nacre, "--object-size", "1000"], "object_bytes: 1000 is not within");
    refused(&["--cluster", &nacre, "--objects", "1000000"], "MiB free");
    refused(&["--cluster", &nacre, "--pgs", "12"], "not a power of two");
    let conf = cluster.scratch("dead.conf");
    fs::write(&conf, "[global]\nmon host = 127.0.0.1:1\nclient mount timeout = 2\n").unwrap();
    refused(&["--cluster", &at("dead", &conf)], "cluster dead");
    let plan = cluster.scratch("plan.json");
    fs::write(&plan, r#"{"version": 1, "name": "x", "sede": 1}"#).unwrap();
    refused(&[text(&plan)], "sede: unknown field");
    refused(&[text(&cluster.scratch("missing.json"))], "cannot read the plan");
    let alone = bench(&["compare"], &["--cluster", &nacre]).failure();
    assert!(alone.contains("two clusters"), "{alone}");
    cluster.nacre(&["pool", "create", "nacre-bench"], LIMIT).ok();
    refused(&["--cluster", &nacre], "pool 'nacre-bench' is there already");
    let there = bench(&["run --pool nacre-bench"], &["--cluster", &nacre, "--out", text(cluster.dir())]).failure();
    assert!(there.contains("is there already"), "{there}");
}

#[test]
fn interrupted_it_keeps_what_was_measured_and_cleans_up() {
    let cluster = TestCluster::start("bench-interrupt", 3);
    let (nacre, out) = (at("nacre", cluster.dir()), cluster.scratch("run"));
    let paths = ["--cluster", &nacre, "--out", text(&out)];
    let child = start(&["run --seconds 100", OPEN_ENDED], &paths, "measuring");
    std::thread::sleep(Duration::from_secs(1));
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    kill_process(pid, Signal::INT).unwrap();
    assert_eq!(exit_code(child, LIMIT), Some(130));
    let result = result_in(&out);
    assert_eq!(result["end"], "interrupted");
    let row = &result["rows"][0];
    assert_eq!(row["partial"], true);
    assert!(row["operations"].as_u64() > Some(0) && row["measured_s"].as_f64() < Some(60.0), "{row}");
    assert_eq!(pools(&cluster), "");
}

#[test]
fn osds_that_die_show_as_errors_and_end_nothing() {
    let cluster = TestCluster::start("bench-dying", 3);
    // With a limit on operations what hangs is given up.
    let conf = cluster.dir().join("impatient.conf");
    let text_of = fs::read_to_string(cluster.conf()).unwrap();
    fs::write(&conf, text_of.replacen("[global]\n", "[global]\nrados osd op timeout = 2\n", 1)).unwrap();
    let out = cluster.scratch("run");
    let paths = ["--cluster", &at("nacre", &conf), "--out", text(&out)];
    let child = start(&["run --seconds 8 --replicas 3 --depth 8", OPEN_ENDED], &paths, "measuring");
    std::thread::sleep(Duration::from_secs(1));
    // One is left of three, with which nothing is served.
    cluster.signal("osd.1", Signal::KILL);
    cluster.signal("osd.2", Signal::KILL);
    assert_eq!(exit_code(child, Duration::from_secs(150)), Some(0));
    let result = result_in(&out);
    let row = &result["rows"][0];
    assert_eq!(result["end"], "complete");
    assert!(row["operations"].as_u64() > Some(0) && row["errors"].as_u64() > Some(0), "{row}");
    assert!(row["error_examples"][0].as_str().unwrap().contains("no answer within 2 s"), "{row}");
    assert_eq!(row["figures"]["server_cpu_us_per_operation"], Value::Null, "two are missing from the sum");
}

#[test]
fn nacre_and_a_real_ceph_are_compared() {
    if !clients_are_here(&["ceph-mon", "ceph-osd", "ceph-mgr", "monmaptool", "ceph"]) {
        return;
    }
    let (nacre, ceph) = (TestCluster::start("bench-nacre", 3), TestCluster::start_own_ceph("bench-ceph", 3));
    // Both take equal commands and files.
    let status: Value = serde_json::from_str(&ceph.nacre(&["status", "--json"], LIMIT).ok()).unwrap();
    assert_eq!(status["daemons"].as_array().unwrap().len(), 5, "a monitor, a manager, three OSDs: {status}");
    assert!(status["daemons"].as_array().unwrap().iter().all(|daemon| daemon["pid"].is_u64()), "{status}");
    assert!(ceph.ceph(&["versions"]).ok().contains("ceph version"));
    let out = nacre.scratch("compared");
    let clusters = [at("nacre", nacre.dir()), at("ceph", ceph.dir())];
    let flags = "--mode randread --replicas 3 --iterations 5 --depth 4";
    let paths = ["--cluster", &clusters[0], "--cluster", &clusters[1], "--out", text(&out)];
    let said = bench(&["compare", SHORT, flags], &paths).ok();
    assert!(said.contains("| 64KiB-randread | clients | operations_per_s | nacre | ceph |"), "{said}");
    let result = result_in(&out);
    let engines =
        |key: &str| result["plan"]["clusters"].as_array().unwrap().iter().map(|c| c[key].clone()).collect::<Vec<_>>();
    assert_eq!(engines("engine"), ["nacre", "ceph"]);
    let rows = result["rows"].as_array().unwrap();
    let order: Vec<&str> = rows.iter().map(|row| row["cluster"].as_str().unwrap()).collect();
    assert_eq!(order, ["nacre", "ceph", "ceph", "nacre", "nacre", "ceph", "ceph", "nacre", "nacre", "ceph"]);
    for row in rows {
        assert_eq!((&row["mismatches"], &row["errors"]), (&0.into(), &0.into()));
        assert!(
            row["operations"].as_u64() > Some(0) && row["figures"]["server_cpu_us_per_operation"].is_f64(),
            "{row}"
        );
        for figure in ["cache_hit_percent", "cache_bytes", "onode_cache_hit_percent"] {
            assert!(row["figures"][figure].is_f64(), "{figure}: {row}");
        }
    }
    ceph.down();
    ceph.up();
    assert_eq!(ceph.nacre(&["pool", "ls"], LIMIT).ok().lines().filter(|name| name.contains("bench")).count(), 0);
}

#[test]
fn clients_cost_is_measured_beside_librados() {
    if !clients_are_here(&["rados", "fio"]) {
        return;
    }
    let cluster = TestCluster::start("bench-cost", 3);
    let document = cluster.scratch("document.md");
    fs::write(&document, "before\n<!-- client cost: begin -->\n<!-- client cost: end -->\nbehind\n").unwrap();
    let nacre = at("nacre", cluster.dir());
    let brief = "client-cost --iterations 1 --seconds 1 --replicas 2 --depth 8 --section";
    let wrong = bench(&[brief], &["no such section", "--cluster", &nacre, "--into", text(&document)]).failure();
    assert!(wrong.contains("no such section"), "{wrong}");
    bench(&[brief], &["client cost", "--cluster", &nacre, "--into", text(&document)]).ok();
    let said = fs::read_to_string(&document).unwrap();
    let (ours, fio, rados_bench) = ("nacre bench", "fio, rados engine", "rados bench");
    for (access, programs) in [
        ("read", &[ours, fio, rados_bench][..]),
        ("write", &[ours, fio]),
        ("write, one object", &[ours, rados_bench]),
        ("write, new objects", &[ours, rados_bench]),
    ] {
        for program in [ours, fio, rados_bench] {
            let is_there = said.contains(&format!("| {access} | {program} |"));
            assert_eq!(is_there, programs.contains(&program), "{access} by {program}: {said}");
        }
    }
    let deep = bench(&["client-cost --depth 64 --io-size 1MiB"], &["--cluster", &nacre]).failure();
    assert!(deep.contains("--depth"), "{deep}");
    assert!(said.starts_with("before\n") && said.ends_with("behind\n"), "{said}");
    assert_eq!(pools(&cluster), "", "nothing is left");
}
