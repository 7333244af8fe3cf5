//! `nacre bench` with plans: the shipped ones at laptop scale, one of the Ceph Benchmarking Tool, wrong ones, and one
//! during which an OSD dies; and outputs of Ceph's own tools that become runs.

use crate::bench::{result_in, text};
use cluster_tests::{Background, Outcome, TestCluster, binary, clients_are_here, run};
use rustix::process::Signal;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(120);
/// A plan has up to eighteen workloads; each takes twelve seconds, or twenty on a busy machine.
const PLAN_LIMIT: Duration = Duration::from_secs(600);
/// Little data, soon measured.
const SHORT: [&str; 6] = ["--warm-up", "0", "--seconds", "4", "--data", "8MiB"];
/// Thirty-two objects of 4 MiB at once, three times or in shards, take a very busy machine eight seconds.
const LARGE: [&str; 2] = ["--seconds", "10"];
/// The list of pools of a cluster that has none.
const NO_POOLS: &str = "";

fn bench(args: &[&str], limit: Duration) -> Outcome {
    let mut command = Command::new(binary());
    command.arg("bench").args(args);
    run(command, limit)
}

fn at(cluster: &TestCluster) -> String {
    format!("c={}", cluster.dir().display())
}

/// Pools of a cluster, but that which a Ceph's manager makes for itself.
fn pools(cluster: &TestCluster) -> String {
    let all = cluster.nacre(&["pool", "ls"], LIMIT).ok();
    all.lines().filter(|name| *name != "device_health_metrics").collect()
}

/// Workloads that the plan's stop rule leaves out, by the rates of its sweeps. Names of a sweep differ in the number of
/// clients alone, as in `write-r3-4x8`, and stand in the order of their load.
fn behind_high_water(result: &Value) -> BTreeSet<String> {
    let Some(gain) = result["plan"]["stop_gain_percent"].as_f64() else { return BTreeSet::new() };
    let rows = result["rows"].as_array().expect("rows");
    let rate = |name: &str| {
        let row = rows.iter().find(|row| row["workload"] == name)?;
        Some(row["operations"].as_f64()? / row["measured_s"].as_f64()?)
    };
    let workloads = result["plan"]["workloads"].as_array().expect("workloads");
    let names = workloads.iter().filter_map(|workload| workload["name"].as_str());
    let mut sweeps: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for name in names {
        sweeps.entry(name.rsplit_once('-').expect("sweep, pool and load").0).or_default().push(name);
    }
    let mut left_out = BTreeSet::new();
    for names in sweeps.values() {
        let rates: Vec<f64> = names.iter().map_while(|name| rate(name)).collect();
        let ends = rates.windows(2).position(|pair| pair[1] < pair[0] * (1.0 + gain / 100.0));
        if let Some(ends) = ends {
            left_out.extend(names[ends + 2..].iter().map(|name| (*name).to_owned()));
        }
    }
    left_out
}

/// A run is whole: each workload of its plan has a row for each group and iteration, all reads were right.
#[track_caller]
fn check_whole(out: &Path) -> Value {
    let result = result_in(out);
    assert_eq!(result["end"], "complete", "{}", result["end"]);
    let list = |value: &Value| value.as_array().cloned().unwrap_or_else(|| panic!("no list: {value}"));
    let name = |value: &Value| value.as_str().unwrap_or_else(|| panic!("no text: {value}")).to_owned();
    let iterations = result["plan"]["iterations"].as_u64().expect("a number");
    let mut wanted = BTreeSet::new();
    let left_out = behind_high_water(&result);
    for workload in list(&result["plan"]["workloads"]) {
        if left_out.contains(&name(&workload["name"])) {
            continue;
        }
        for group in list(&workload["groups"]) {
            wanted.extend((0..iterations).map(|number| (name(&workload["name"]), name(&group["name"]), number)));
        }
    }
    let rows = list(&result["rows"]);
    let found: BTreeSet<_> = rows
        .iter()
        .map(|row| (name(&row["workload"]), name(&row["group"]), row["iteration"].as_u64().unwrap_or(0)))
        .collect();
    assert_eq!(found, wanted);
    assert_eq!(rows.len(), wanted.len(), "no row is there twice");
    for row in &rows {
        assert_eq!(
            (&row["mismatches"], &row["errors"], &row["partial"]),
            (&0.into(), &0.into(), &Value::Null),
            "{row}"
        );
        assert!(row["operations"].as_u64() > Some(0), "{row}");
    }
    let page = fs::metadata(out.join("report.html")).expect("a page").len();
    assert!((10_000..1_500_000).contains(&page), "the page has {page} bytes");
    result
}

/// A shipped plan runs to its end on a cluster, and leaves nothing there.
#[track_caller]
fn shipped(cluster: &TestCluster, plan: &str, workloads: usize, more: &[&str]) -> Value {
    let (nacre, out) = (at(cluster), cluster.scratch(plan));
    let args = ["run", plan, "--scale", "laptop", "--cluster", &nacre, "--out", text(&out)];
    let times = if more.is_empty() { &SHORT[..] } else { &[&SHORT[..2], &SHORT[4..], more].concat() };
    let said = bench(&[&args[..], times].concat(), PLAN_LIMIT).ok();
    let result = check_whole(&out);
    assert_eq!(result["plan"]["workloads"].as_array().map(Vec::len), Some(workloads), "{said}");
    assert_eq!(result["plan"]["name"], format!("{plan}, laptop"));
    assert_eq!(pools(cluster), NO_POOLS, "{plan}");
    result
}

#[test]
fn the_plan_of_copies_and_codes_runs_at_laptop_scale() {
    shipped(&TestCluster::start("plans-codes", 6), "micron-7450-ec", 18, &LARGE);
}

#[test]
fn the_plan_of_clients_runs_at_laptop_scale() {
    shipped(&TestCluster::start("plans-clients", 6), "dell-dss7000", 12, &LARGE);
}

#[test]
fn the_plan_of_reads_beside_writes_runs_at_laptop_scale() {
    let result = shipped(&TestCluster::start("plans-mixed", 6), "micron-6500-qlc", 15, &[]);
    let rows = result["rows"].as_array().unwrap();
    let side_by_side = rows.iter().filter(|row| row["workload"] == "mixed-random-ec42-2x4").count();
    assert_eq!(side_by_side, 2, "readers and writers");
}

#[test]
fn the_plan_of_images_and_objects_runs_at_laptop_scale() {
    let result = shipped(&TestCluster::start("plans-images", 3), "micron-7300-block", 18, &[]);
    let workloads = result["plan"]["workloads"].as_array().unwrap();
    let images = workloads.iter().filter(|workload| workload["tool"] == "nacre-rbd").count();
    assert_eq!(images, 9, "images, and objects");
}

#[test]
fn the_plan_of_images_runs_at_laptop_scale() {
    shipped(&TestCluster::start("plans-afa", 3), "intel-afa", 12, &["--seconds", "1"]);
}

#[test]
fn a_shipped_plan_runs_on_a_ceph() {
    if !clients_are_here(&["ceph-mon", "ceph-osd", "ceph-mgr", "monmaptool", "ceph"]) {
        return;
    }
    let cluster = TestCluster::start_ceph("plans-ceph", 3);
    // On a busy machine a Ceph's reads after its caches were dropped may take more than a second.
    let result = shipped(&cluster, "intel-afa", 12, &["--seconds", "4"]);
    assert_eq!(result["plan"]["clusters"][0]["engine"], "ceph");
}

/// A file of the Ceph Benchmarking Tool for a cluster.
fn cbt(cluster: &TestCluster) -> String {
    format!(
        "# Objects on a code, and images on copies.\n\
         cluster:\n  \
           user: 'perf'\n  \
           head: \"perf@head\"\n  \
           clients: [\"c1\", \"c2\"]\n  \
           osds: [\"o1\"]\n  \
           conf_file: '{}'\n  \
           iterations: 1\n  \
           use_existing: True\n  \
           pool_profiles:\n    \
             two: {{pg_size: 8, pgp_size: 8, replication: 2}}\n    \
             coded:\n      \
               pg_size: 8\n      \
               pgp_size: 8\n      \
               replication: 'erasure'\n      \
               erasure_profile: 'ec21'\n  \
           erasure_profiles:\n    \
             ec21: {{erasure_k: 2, erasure_m: 1}}\n\
         benchmarks:\n  \
           radosbench:\n    \
             op_size: [65536, 16384]\n    \
             time: 1\n    \
             concurrent_ops: [2, 8]\n    \
             max_objects: 64\n    \
             pool_profile: coded\n  \
           librbdfio:\n    \
             time: 1\n    \
             ramp: 1\n    \
             vol_size: 16\n    \
             mode: ['randwrite', 'randrw']\n    \
             rwmixread: [70]\n    \
             op_size: [4096]\n    \
             volumes_per_client: [1]\n    \
             iodepth:\n    - 4\n    \
             cmd_path: '/usr/bin/fio'\n    \
             pool_profile: two\n",
        cluster.conf().display()
    )
}

#[test]
fn a_plan_of_the_ceph_benchmarking_tool_runs_to_its_end() {
    let cluster = TestCluster::start("plans-cbt", 3);
    let (file, out) = (cluster.scratch("sweep.yaml"), cluster.scratch("cbt"));
    fs::write(&file, cbt(&cluster)).unwrap();
    // Without a cluster on the command line it is the file's.
    let mut command = Command::new(binary());
    command.args(["bench", "run", text(&file), "--out", text(&out)]);
    let outcome = run(command, PLAN_LIMIT);
    let told = outcome.stderr.lines().find(|line| line.starts_with("of no effect here")).unwrap_or_default().to_owned();
    outcome.ok();
    assert!(told.contains("cluster.user") && told.contains("benchmarks.librbdfio.cmd_path"), "{told}");
    assert!(!told.contains("conf_file"), "{told}");
    let result = check_whole(&out);
    // Two sizes, two depths, written and read; two modes of images, each with a volume for both clients.
    let workloads = result["plan"]["workloads"].as_array().unwrap();
    assert_eq!((workloads.len(), result["rows"].as_array().unwrap().len()), (8 + 2, 8 + 2 * 2));
    assert_eq!(result["plan"]["clusters"][0]["engine"], "nacre", "the cluster tells what it is");
    for row in result["rows"].as_array().unwrap() {
        let size = if row["workload"].as_str().unwrap().starts_with("librbdfio") { 4096 } else { 16384 };
        let (operations, bytes) = (row["operations"].as_u64().unwrap(), row["bytes"].as_u64().unwrap());
        assert!(bytes == operations * size || bytes == operations * size * 4, "{row}");
    }
    assert_eq!(pools(&cluster), NO_POOLS);
    // That file again on a cluster of the command line, shortened and with less data.
    let shorter = cluster.scratch("shorter");
    let less = ["--cluster", &at(&cluster), "--only", "librbdfio-randwrite", "--data", "8MiB", "--warm-up", "0"];
    let again = ["run", text(&file), "--seconds", "0.5", "--out", text(&shorter)];
    bench(&[&again[..], &less].concat(), LIMIT).ok();
    assert_eq!(check_whole(&shorter)["plan"]["workloads"][0]["groups"][0]["objects"], 1);
}

#[test]
fn wrong_plans_change_nothing() {
    let cluster = TestCluster::start("plans-wrong", 3);
    let nacre = at(&cluster);
    let refused = |name: &str, content: Option<String>, words: &[&str]| {
        let (file, out) = (cluster.scratch(name), cluster.scratch("never"));
        let path = match &content {
            Some(content) => {
                fs::write(&file, content).unwrap();
                text(&file)
            }
            None => name,
        };
        let outcome = bench(&["run", path, "--scale", "laptop", "--cluster", &nacre, "--out", text(&out)], LIMIT);
        assert_eq!(outcome.code, Some(1), "{name}: {}", outcome.stderr);
        let said = outcome.failure();
        assert!(words.iter().all(|words| said.contains(words)), "{name}: {said}");
        assert!(!out.exists(), "{name}: nothing was measured");
    };
    let good = include_str!("../../../bench/plans/intel-afa.toml");
    let toml = |from: &str, to: &str| {
        assert!(good.contains(from), "{from}");
        Some(good.replacen(from, to, 1))
    };
    refused("intel-afb", None, &["no plan intel-afb", "intel-afa"]);
    refused("field.toml", toml("data_mib", "data_mb"), &["field.toml cannot be run", "unknown field `data_mb`"]);
    refused("pool.toml", toml("pools = [\"r2\"]", "pools = [\"r9\"]"), &["no pool \"r9\""]);
    refused("size.toml", toml("io_bytes = 4096", "io_bytes = 4095"), &["io_bytes"]);
    refused("form.toml", Some("version = 1\n[[sweep]]\nname = \n".into()), &["form.toml cannot be run", "line 3"]);
    refused("form.json", Some("{\"version\": 1,".into()), &["form.json cannot be run"]);
    refused("binary.json", Some("\u{0}\u{1}".into()), &["binary.json cannot be run"]);
    let yaml = |from: &str, to: &str| {
        let good = cbt(&cluster);
        assert!(good.contains(from), "{from}");
        Some(good.replacen(from, to, 1))
    };
    refused("option.yaml", yaml("    ramp: 1\n", "    rate_iops: 9\n"), &["not supported here", "librbdfio.rate_iops"]);
    refused("mode.yaml", yaml("['randwrite', 'randrw']", "['trim']"), &["benchmarks.librbdfio.mode"]);
    refused("profile.yaml", yaml("pool_profile: two", "pool_profile: three"), &["pool_profiles.three"]);
    refused("indent.yaml", yaml("    time: 1\n", "   time: 1\n"), &["line "]);
    refused("tabs.yaml", Some("cluster:\n\tuser: x\n".into()), &["line 2"]);
    // A plan whose cluster is not there, and a cluster that does not answer.
    let lost = yaml(&format!("'{}'", cluster.conf().display()), "'/nowhere/ceph.conf'").unwrap();
    let (file, out) = (cluster.scratch("lost.yaml"), cluster.scratch("never"));
    fs::write(&file, lost).unwrap();
    let said = bench(&["run", text(&file), "--out", text(&out)], LIMIT).failure();
    assert!(said.contains("no cluster's configuration at /nowhere/ceph.conf"), "{said}");
    let conf = cluster.scratch("dead.conf");
    fs::write(&conf, "[global]\nmon host = 127.0.0.1:1\nclient mount timeout = 2\n").unwrap();
    let dead = format!("dead={}", conf.display());
    let said = bench(&["run", "intel-afa", "--scale", "laptop", "--cluster", &dead, "--out", text(&out)], LIMIT);
    assert!(said.failure().contains("cluster dead"));
    assert!(!out.exists());
    assert_eq!(pools(&cluster), NO_POOLS);
}

/// A run of images in the background, past its first measurement, in which osd.1 is then killed.
fn run_with_a_death(cluster: &TestCluster, out: &Path, only: &[&str]) -> Background {
    let mut command = Command::new(binary());
    command.args(["bench", "run", "intel-afa", "--scale", "laptop", "--data", "16MiB", "--warm-up", "0"]);
    command.args(["--seconds", "4", "--cluster", &at(cluster), "--out", text(out)]);
    for words in only {
        command.args(["--only", words]);
    }
    let run = Background::start(command);
    run.says("measuring", LIMIT);
    std::thread::sleep(Duration::from_millis(500));
    cluster.signal("osd.1", Signal::KILL);
    run
}

#[test]
fn a_plan_goes_on_when_an_osd_dies_and_comes_back() {
    let cluster = TestCluster::start_supervised("plans-back", 4);
    let out = cluster.scratch("run");
    let mut run = run_with_a_death(&cluster, &out, &["4k-random"]);
    assert_eq!(run.exit_code(PLAN_LIMIT), Some(0));
    let result = check_whole(&out);
    assert_eq!(result["rows"].as_array().unwrap().len(), 2 * 3 * 2, "two images, three depths, written and read");
    assert_eq!(pools(&cluster), NO_POOLS);
}

/// Rows that were measured while it died are there; a pool that is made without it is never whole, which ends a
/// workload.
#[test]
fn a_plan_ends_when_an_osd_stays_dead() {
    let cluster = TestCluster::start("plans-dead", 4);
    let out = cluster.scratch("run");
    let mut run = run_with_a_death(&cluster, &out, &["4k-random-write-r2-2x4", "4k-random-write-r2-2x16"]);
    assert_eq!(run.exit_code(PLAN_LIMIT), Some(1));
    let result = result_in(&out);
    let reason = result["end"]["failed"].as_str().unwrap_or_else(|| panic!("{}", result["end"]));
    assert!(reason.contains("4k-random-write-r2-2x16") && reason.contains("active+undersized"), "{reason}");
    let rows = result["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 2, "both images of the first workload");
    for row in rows {
        assert_eq!((&row["mismatches"], &row["errors"]), (&0.into(), &0.into()), "{row}");
        assert!(row["operations"].as_u64() > Some(0), "{row}");
        assert_eq!(row["figures"]["server_cpu_us_per_operation"], Value::Null, "one is missing from the sum");
    }
    assert_eq!(pools(&cluster), NO_POOLS);
}

/// The output of a program, kept in a file.
fn kept(cluster: &TestCluster, name: &str, program: &str, args: &[&str]) -> PathBuf {
    let file = cluster.scratch(name);
    let said = run(cluster.command(program, args), LIMIT).ok();
    fs::write(&file, said).unwrap();
    file
}

/// A field of `rados bench`, whose numbers are texts in some versions.
fn number(value: &Value) -> f64 {
    value.as_f64().or_else(|| value.as_str()?.parse().ok()).unwrap_or_else(|| panic!("no number: {value}"))
}

#[test]
fn outputs_of_ceph_s_tools_become_a_run() {
    if !clients_are_here(&["ceph", "rados", "fio"]) {
        return;
    }
    let cluster = TestCluster::start("plans-import", 3);
    cluster.make_pool("p", 8, 2);
    let rados = ["-p", "p", "bench", "2"];
    let writes = ["write", "-b", "65536", "-t", "4", "--no-cleanup"];
    let json = ["--format", "json"];
    let first = kept(&cluster, "first.json", "rados", &[&rados[..], &writes, &json].concat());
    let second = kept(&cluster, "second.txt", "rados", &[&rados[..], &writes].concat());
    let read = kept(&cluster, "read.txt", "rados", &[&rados[..], &["seq", "-t", "4"]].concat());
    let cleaned = kept(&cluster, "cleaned.json", "rados", &[&rados[..], &writes[..5], &json].concat());
    let conf = format!("--conf={}", cluster.conf().display());
    let fio = |name: &str, form: &str, mode: &str| {
        let form = format!("--output-format={form}");
        let args = ["--name=mixed", "--ioengine=rados", "--clientname=admin", "--pool=p", "--bs=4k", "--iodepth=4"];
        let more = ["--size=4m", "--time_based", "--runtime=2", "--rw", mode, &form, &conf];
        kept(&cluster, name, "fio", &[&args[..], &more].concat())
    };
    let mixed = fio("mixed.json", "json", "randrw");
    let whole = fio("whole.json", "json+", "randwrite");
    let out = cluster.scratch("imported");
    let named = |workload: &str, file: &Path| format!("{workload}={}", file.display());
    let outputs = [
        named("write", &first),
        named("write", &second),
        named("cleaned", &cleaned),
        text(&read).to_owned(),
        named("4k", &mixed),
        named("whole", &whole),
    ];
    let outputs: Vec<&str> = outputs.iter().map(String::as_str).collect();
    let args = ["import", "--cluster", "old", "--engine", "nacre", "--out", text(&out)];
    bench(&[&args[..], &outputs].concat(), LIMIT).ok();
    let result = result_in(&out);
    let rows = result["rows"].as_array().unwrap();
    let names: Vec<_> =
        rows.iter().map(|row| (row["workload"].as_str().unwrap(), row["group"].as_str().unwrap())).collect();
    let expected = [
        ("write", "writes"),
        ("write", "writes"),
        ("cleaned", "writes"),
        ("read", "reads"),
        ("4k", "mixed-reads"),
        ("4k", "mixed-writes"),
        ("whole", "mixed-writes"),
    ];
    assert_eq!(names, expected);
    // Rows say what the programs said.
    let parsed = |path: &Path| -> Value {
        // `rados bench` says "hints = 1" before its document.
        let text = fs::read_to_string(path).unwrap();
        serde_json::from_str(&text[text.find('{').expect("a document")..]).unwrap()
    };
    let said = parsed(&first);
    assert_eq!(rows[0]["operations"].as_f64(), Some(number(&said["total_writes_made"])));
    let mean_s = number(&said["average_latency"]);
    assert!((rows[0]["latency"]["mean_us"].as_f64().unwrap() / 1e6 - mean_s).abs() < 1e-6, "{mean_s} s: {}", rows[0]);
    let lines = fs::read_to_string(&second).unwrap();
    let made = lines.lines().find_map(|line| line.strip_prefix("Total writes made:")).unwrap();
    assert_eq!(rows[1]["operations"].to_string(), made.trim());
    let lines = fs::read_to_string(&read).unwrap();
    let made = lines.lines().find_map(|line| line.strip_prefix("Total reads made:")).unwrap();
    assert_eq!(rows[3]["operations"].to_string(), made.trim());
    for (row, file, side) in [(4, &mixed, "read"), (5, &mixed, "write"), (6, &whole, "write")] {
        let side = &parsed(file)["jobs"][0][side];
        assert_eq!((&rows[row]["operations"], &rows[row]["bytes"]), (&side["total_ios"], &side["io_bytes"]));
        let kind = if side["lat_ns"]["percentile"].is_object() { "lat_ns" } else { "clat_ns" };
        let p99_us = side[kind]["percentile"]["99.000000"].as_f64().expect("a percentile") / 1000.0;
        let found = rows[row]["latency"]["p99_us"].as_f64().expect("a percentile");
        assert!((found / p99_us - 1.0).abs() < 0.02, "{found} us instead of {p99_us}");
    }
    assert!(rows[6]["histogram"].is_object() && rows[4]["histogram"].is_null(), "a distribution with json+ only");
    assert!(result["environment"]["4k.imported_from"].as_str().unwrap().starts_with("fio-"), "{result}");
    // Reports take it as any other, alone and beside a run of ours.
    for words in ["mixed-reads", "cleaned", "rados bench"] {
        assert!(fs::read_to_string(out.join("report.html")).unwrap().contains(words), "{words}");
    }
    let ours = cluster.scratch("ours");
    let same = ["--tool", "rados-bench", "--mode", "write", "--object-size", "64KiB", "--depth", "4", "--pgs", "8"];
    let times = ["--warm-up", "0", "--seconds", "1", "--cluster", &at(&cluster), "--out", text(&ours)];
    bench(&[&["run"], &same[..], &times].concat(), LIMIT).ok();
    let beside = bench(&["report", text(&ours), "--against", text(&out), "--text"], LIMIT).ok();
    assert!(beside.contains("ours beside imported"), "{beside}");
    // Other outputs make nothing.
    let never = cluster.scratch("never");
    let refused = |outputs: &[&str], words: &str| {
        let said = bench(&[&["import", "--out", text(&never)], outputs].concat(), LIMIT).failure();
        assert!(said.contains(words) && !never.exists(), "{said}");
    };
    let differs = named("write", &read);
    refused(&[outputs[0], &differs], "not of the same load");
    refused(&[text(&cluster.conf())], "neither the output of rados bench");
    refused(&[text(&cluster.scratch("missing.json"))], "cannot read");
    let cut = cluster.scratch("cut.json");
    let half = fs::read_to_string(&mixed).unwrap();
    fs::write(&cut, &half[..half.len() / 2]).unwrap();
    refused(&[text(&cut)], "fio:");
}
