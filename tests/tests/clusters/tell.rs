//! Commands to single daemons: `ceph tell`, and their admin sockets, asked by Debian's own `ceph`.

use cluster_tests::{TestCluster, clients_are_here, is_whole_suite, wait_until};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(90);

/// Questions to an OSD that every Ceph 16.2 answers. The unit tests of `osd` ask all that there are.
const QUESTIONS: &[&str] = &[
    "version",
    "status",
    "config diff",
    "perf dump osd op",
    "dump_ops_in_flight",
    "dump_historic_ops",
    "dump_scrubs",
    "dump_recovery_reservations",
    "objecter_requests",
    "log flush",
];

/// The value of an option that an OSD has in force.
fn option(cluster: &TestCluster, osd: u32, name: &str) -> String {
    let got = cluster.ceph_json(&["tell", &format!("osd.{osd}"), "config", "get", name]);
    got[name].as_str().expect("values are text").to_owned()
}

fn wait_for_option(cluster: &TestCluster, osd: u32, name: &str, wanted: &str) {
    let end = Instant::now() + LIMIT;
    while option(cluster, osd, name) != wanted {
        assert!(Instant::now() < end, "osd.{osd} has {name} = {}, not {wanted}", option(cluster, osd, name));
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn daemons_answer_tell_and_their_admin_sockets() {
    if !clients_are_here(&["ceph", "rados"]) {
        return;
    }
    let cluster = TestCluster::start_supervised("tell", 2);
    cluster.make_pool("p", 4, 2);
    cluster.rados(&["-p", "p", "bench", "1", "write", "-b", "4096", "--no-cleanup"]).ok();
    options_have_their_sources(&cluster);
    questions_are_answered_alike(&cluster);
    work_is_done(&cluster);
    osds_are_measured_and_tuned(&cluster);
    own_copies_are_shown(&cluster);
    large_omaps_are_named(&cluster);
    the_manager_answers(&cluster);
    monitors_answer(&cluster);
    sockets_come_and_go(&cluster);
}

fn options_have_their_sources(cluster: &TestCluster) {
    let tell = |words: &[&str]| cluster.ceph(&[&["tell", "osd.0"], words].concat());
    cluster.ceph(&["config", "set", "osd", "osd_max_backfills", "5"]).ok();
    wait_for_option(cluster, 0, "osd_max_backfills", "5");
    wait_for_option(cluster, 1, "osd_max_backfills", "5");
    let slots = || {
        let dump = cluster.ceph_json(&["tell", "osd.0", "dump_recovery_reservations"]);
        dump["local_reservations"]["max_allowed"].clone()
    };
    assert_eq!(slots(), 5, "the option has its effect");
    let set = cluster.ceph_json(&["tell", "osd.0", "config", "set", "osd_max_backfills", "7"]);
    assert_eq!(set, json!({"success": "osd_max_backfills = '7' "}));
    assert_eq!(slots(), 7);
    let diff = cluster.ceph_json(&["tell", "osd.0", "config", "diff"])["diff"]["osd_max_backfills"].clone();
    assert_eq!(diff, json!({"default": 3, "mon": 5, "override": 7, "final": 7}));
    assert_eq!(option(cluster, 1, "osd_max_backfills"), "5", "only osd.0 was told");
    let shown = |who: &str, name: &str| {
        let all = cluster.ceph_json(&["config", "show", who]);
        all.as_array().expect("a list").iter().find(|option| option["name"] == name).cloned().unwrap_or_default()
    };
    let overrides = json!([{"source": "mon", "value": "5"}]);
    let expected = json!({"name": "osd_max_backfills", "value": "7", "source": "override", "overrides": overrides});
    wait_until("the monitors hear of the option", LIMIT, || shown("osd.0", "osd_max_backfills") == expected);
    assert_eq!(cluster.ceph(&["config", "show", "osd.0", "osd_max_backfills"]).ok().trim(), "7");
    assert_eq!(shown("osd.0", "run_dir")["source"], "file", "of its ceph.conf");
    assert_eq!(shown("mon.a", "run_dir")["source"], "file");
    tell(&["config", "unset", "osd_max_backfills"]).ok();
    assert_eq!(slots(), 5);
    let injected = cluster.ceph(&["tell", "osd.*", "injectargs", "--osd_max_backfills 2 --osd_recovery_max_active 4"]);
    assert!(injected.succeeded(), "{injected:?}");
    for osd in 0..2 {
        let said = format!("osd.{osd}: osd_max_backfills = '2' osd_recovery_max_active = '4' ");
        assert!(injected.stderr.contains(&said), "{injected:?}");
    }
    let refused = tell(&["config", "set", "osd_max_backfills", "many"]).failure();
    assert!(refused.contains("Error EINVAL: error setting 'osd_max_backfills' to 'many': (22)"), "{refused}");
    let refused = tell(&["injectargs", "--no_such_thing 1"]).failure();
    assert!(refused.contains("failed to parse arguments: --no_such_thing,1"), "{refused}");
    cluster.ceph(&["config", "rm", "osd", "osd_max_backfills"]).ok();
    assert_eq!(option(cluster, 0, "osd_max_backfills"), "2", "told by a command, until it ends");
}

/// Structure of an answer: its keys, and the types of its values.
fn structure(value: &Value) -> Value {
    match value {
        Value::Object(fields) => fields.iter().map(|(key, field)| (key.clone(), structure(field))).collect(),
        Value::Array(items) => json!(items.first().map(structure)),
        Value::Number(_) => json!("number"),
        Value::String(_) => json!("text"),
        other => other.clone(),
    }
}

fn questions_are_answered_alike(cluster: &TestCluster) {
    for question in QUESTIONS {
        let words: Vec<&str> = question.split(' ').collect();
        // The OSD may begin or end work of its own between the two.
        wait_until(&format!("{question} is answered alike"), LIMIT, || {
            let told = cluster.ceph_json(&[&["tell", "osd.0"], &words[..]].concat());
            let asked = cluster.ceph_json(&[&["daemon", "osd.0"], &words[..]].concat());
            let is_alike = structure(&told) == structure(&asked);
            if !is_alike {
                eprintln!("{question}: {told}, and {asked}");
            }
            is_alike
        });
    }
    // `ceph` itself lists commands where it tells a daemon, and prints what the socket answers.
    assert!(cluster.ceph(&["tell", "osd.0", "help"]).ok().contains("dump_recovery_reservations"));
    assert!(cluster.ceph_json(&["daemon", "osd.0", "help"])["dump_recovery_reservations"].is_string());
    let dump = cluster.ceph_json(&["daemon", "osd.0", "perf", "dump"]);
    assert!(dump["osd"]["op_w"].as_u64().unwrap() > 0, "{dump}");
    assert!(dump["osd"]["op_w_latency"]["avgtime"].as_f64().unwrap() > 0.0, "{dump}");
    let total: u64 = (0..2)
        .map(|osd| {
            cluster.ceph_json(&["daemon", &format!("osd.{osd}"), "perf", "dump"])["osd"]["numpg"].as_u64().unwrap()
        })
        .sum();
    let pgs = cluster.ceph_json(&["pg", "stat"])["pg_summary"]["num_pgs"].as_u64().unwrap();
    assert_eq!(total, 2 * pgs, "each group has two copies");
    cluster.ceph(&["tell", "osd.0", "perf", "reset", "all"]).ok();
    let dump = cluster.ceph_json(&["tell", "osd.0", "perf", "dump", "osd", "op_w"]);
    assert_eq!(dump, json!({"osd": {"op_w": 0}}));
    let unknown = cluster.ceph(&["tell", "osd.0", "no_such_thing"]).failure();
    assert!(unknown.contains("no valid command found") && unknown.contains("EINVAL"), "{unknown}");
    let unknown = cluster.ceph(&["daemon", "osd.0", "no_such_thing"]).failure();
    assert!(unknown.contains("no valid command found"), "{unknown}");
}

fn work_is_done(cluster: &TestCluster) {
    let begin = Instant::now();
    let took = cluster.ceph_json(&["tell", "osd.0", "compact"])["elapsed_time"].as_f64().unwrap();
    assert!(took > 0.0 && took < begin.elapsed().as_secs_f64(), "{took} s of {:?}", begin.elapsed());
    for words in ["flush_journal", "flush_store_cache", "cache drop", "send_beacon", "get_latest_osdmap"] {
        cluster.ceph(&[&["tell", "osd.0"], &words.split(' ').collect::<Vec<_>>()[..]].concat()).ok();
    }
    // Scripts wait like this until a report has come.
    let number: u64 = cluster.ceph(&["tell", "osd.0", "flush_pg_stats"]).ok().trim().parse().unwrap();
    let end = Instant::now() + LIMIT;
    loop {
        let last: u64 = cluster.ceph(&["osd", "last-stat-seq", "osd.0"]).ok().trim().parse().unwrap();
        if last >= number {
            break;
        }
        assert!(Instant::now() < end, "{last} is before {number}");
    }
    cluster.ceph(&["tell", "osd.1", "cluster_log", "error", "somebody was here"]).ok();
    let end = Instant::now() + LIMIT;
    while !cluster.ceph(&["log", "last", "20"]).ok().contains("somebody was here") {
        assert!(Instant::now() < end, "the line is not in the cluster log");
    }
    let heap = cluster.ceph(&["tell", "osd.0", "heap", "stats"]).failure();
    assert!(heap.contains("ENOTSUP"), "{heap}");
}

fn osds_are_measured_and_tuned(cluster: &TestCluster) {
    let bench = cluster.ceph_json(&["tell", "osd.0", "bench", "1048576", "65536"]);
    assert_eq!((&bench["bytes_written"], &bench["blocksize"]), (&json!(1 << 20), &json!(1 << 16)), "{bench}");
    assert!(bench["iops"].as_f64().unwrap() > 0.0 && bench["bytes_per_sec"].as_f64().unwrap() > 0.0, "{bench}");
    let refused = cluster.ceph(&["tell", "osd.0", "bench", "10737418240", "4096"]).failure();
    assert!(refused.contains("EINVAL") && refused.contains("'osd_bench_small_size_max_iops'"), "{refused}");
    cluster.ceph(&["tell", "osd.0", "injectargs", "--osd_max_scrubs 3 --debug_osd 20"]).ok();
    assert_eq!(cluster.ceph_json(&["daemon", "osd.0", "dump_scrub_reservations"])["osd_max_scrubs"], 3);
    let log = std::fs::read_to_string(cluster.dir().join("log/osd.0.log")).expect("osd.0 has a log");
    assert!(log.contains("osd=trace,pg=trace"), "the log follows the option");
}

fn own_copies_are_shown(cluster: &TestCluster) {
    for key in ["first", "second"] {
        cluster.rados(&["-p", "p", "setomapval", "kept", key, "value"]).ok();
    }
    let osds = cluster.ceph_json(&["osd", "map", "p", "kept"])["acting"].clone();
    for osd in osds.as_array().expect("a list") {
        let target = format!("osd.{osd}");
        wait_until("the omap is read", LIMIT, || {
            let told = cluster.ceph(&["tell", &target, "getomap", "p", "kept"]);
            told.succeeded() && told.stdout.trim() == "header= key=first val=value key=second val=value"
        });
    }
    let refused = cluster.ceph(&["tell", "osd.0", "getomap", "p", "nothing"]).failure();
    assert!(refused.contains("ENOENT") && refused.contains("no such object"), "{refused}");
    let refused = cluster.ceph(&["tell", "osd.0", "getomap", "nopool", "kept"]).failure();
    assert!(refused.contains("there is no pool 'nopool'"), "{refused}");
}

fn large_omaps_are_named(cluster: &TestCluster) {
    let option = "osd_deep_scrub_large_omap_object_key_threshold";
    cluster.ceph(&["config", "set", "osd", option, "1"]).ok();
    wait_for_option(cluster, 0, option, "1");
    wait_for_option(cluster, 1, option, "1");
    let pgid = cluster.ceph_json(&["osd", "map", "p", "kept"])["pgid"].as_str().expect("a group").to_owned();
    cluster.ceph(&["pg", "deep-scrub", &pgid]).ok();
    wait_until("the cluster log names the object", LIMIT, || {
        let told = cluster.ceph(&["log", "last", "100", "warn", "cluster"]).ok();
        let named = told.lines().find(|line| line.contains("cluster [WRN] Large omap object found. Object: "));
        named.is_some_and(|line| {
            let is_whole = line.contains(&format!("({pgid}) Key count: 2 Size (bytes): 21"));
            line.contains(":::kept:head PG: ") && line.contains("osd.") && is_whole
        })
    });
    wait_until("the alarm is raised", LIMIT, || {
        cluster.ceph_json(&["health"])["checks"]["LARGE_OMAP_OBJECTS"]["summary"]["count"] == 1
    });
    cluster.ceph(&["config", "rm", "osd", option]).ok();
    wait_for_option(cluster, 0, option, "200000");
    wait_for_option(cluster, 1, option, "200000");
    cluster.ceph(&["pg", "deep-scrub", &pgid]).ok();
    wait_until("the alarm is over", LIMIT, || {
        cluster.ceph_json(&["health"])["checks"].get("LARGE_OMAP_OBJECTS").is_none()
    });
}

fn the_manager_answers(cluster: &TestCluster) {
    let told = |words: &str| cluster.ceph_json(&[&["tell", "mgr"], &words.split(' ').collect::<Vec<_>>()[..]].concat());
    assert_eq!(told("mgr_status")["initialized"], true);
    assert_eq!(told("mgr_status")["mgrmap_epoch"], cluster.ceph_json(&["mgr", "dump"])["epoch"]);
    assert_eq!(told("perf dump cluster num_osd_up"), json!({"cluster": {"num_osd_up": 2}}));
    assert_eq!(told("config get mon_max_pg_per_osd"), json!({"mon_max_pg_per_osd": "250"}));
    assert_eq!(told("dump_osd_network")["threshold"], 350);
    assert_eq!(told("version")["release"], "pacific");
    let failed = cluster.ceph(&["mgr", "fail"]);
    assert!(failed.succeeded() && failed.stderr.contains("Currently no active mgr"), "{failed:?}");
    cluster.ceph(&["mon", "scrub"]).ok();
    wait_until("the monitors have compared their states", LIMIT, || {
        cluster.ceph(&["log", "last", "50", "debug", "cluster"]).ok().contains("scrub ok on 0")
    });
}

fn monitors_answer(cluster: &TestCluster) {
    for how in ["tell", "daemon"] {
        assert_eq!(cluster.ceph_json(&[how, "mon.a", "mon_status"])["state"], "leader");
        assert!(!cluster.ceph_json(&[how, "mon.a", "sessions"]).as_array().unwrap().is_empty());
        assert_eq!(cluster.ceph_json(&[how, "mon.a", "perf", "dump"])["cluster"]["num_osd_up"], 2);
    }
    let set = cluster.ceph_json(&["tell", "mon.a", "config", "set", "mon_allow_pool_delete", "false"]);
    assert_eq!(set, json!({"success": "mon_allow_pool_delete = 'false' "}));
    let delete = ["osd", "pool", "delete", "p", "p", "--yes-i-really-really-mean-it"];
    let refused = cluster.ceph(&delete).failure();
    assert!(refused.contains("EPERM"), "{refused}");
    let injected = cluster.ceph(&["tell", "mon.*", "injectargs", "--mon_allow_pool_delete=true"]);
    assert!(injected.succeeded() && injected.stderr.contains("mon_allow_pool_delete = 'true'"), "{injected:?}");
    cluster.ceph(&delete).ok();
}

fn sockets_come_and_go(cluster: &TestCluster) {
    let socket = cluster.dir().join("run/ceph-osd.1.asok");
    let mode = std::fs::metadata(&socket).expect("osd.1 has a socket").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    // The OSD is started again, and its socket with it.
    cluster.signal("osd.1", Signal::KILL);
    let get = ["daemon", "osd.1", "config", "get", "osd_max_backfills"];
    wait_until("osd.1 answers anew, without options that a command had set", LIMIT, || {
        let got = cluster.ceph(&get);
        got.succeeded() && serde_json::from_str::<Value>(&got.stdout).is_ok_and(|got| got["osd_max_backfills"] == "3")
    });
    assert_eq!(cluster.ceph_json(&["daemon", "osd.1", "status"])["whoami"], 1);
    cluster.down();
    assert!(!socket.exists() && !cluster.dir().join("run/ceph-mon.a.asok").exists());
}

/// It takes a minute and more until there is a mean of answers over a minute, so this is part of the whole suite alone.
#[test]
fn osds_that_answer_slowly_are_told_by_network() {
    if !is_whole_suite() || !clients_are_here(&["ceph"]) {
        return;
    }
    let cluster = TestCluster::start("pings", 2);
    cluster.ceph(&["config", "set", "global", "mon_warn_on_slow_ping_time", "0.001"]).ok();
    wait_until("answers count as slow", Duration::from_secs(200), || {
        let checks = cluster.ceph_json(&["health", "detail"])["checks"].clone();
        let alarm = &checks["OSD_SLOW_PING_TIME_BACK"];
        let line = alarm["detail"][0]["message"].as_str().unwrap_or_default().to_owned();
        line.starts_with("Slow OSD heartbeats on back from osd.") && line.contains(" msec")
    });
    let dump = cluster.ceph_json(&["pg", "dump", "osds"]);
    let stats = dump.as_array().or(dump["osd_stats"].as_array()).expect("a list of OSDs").clone();
    for stat in &stats {
        let times = &stat["network_ping_times"][0];
        assert_eq!(times["osd"], 1 - stat["osd"].as_i64().expect("a number"), "{stat}");
        assert!(times["interfaces"][0]["average"]["1min"].as_f64().is_some_and(|ms| ms > 0.0), "{stat}");
    }
    let all = cluster.ceph_json(&["tell", "mgr", "dump_osd_network", "0"]);
    assert_eq!(all["entries"].as_array().map(Vec::len), Some(2), "{all}");
    for osd in 0..2 {
        let own = cluster.ceph_json(&["daemon", &format!("osd.{osd}"), "dump_osd_network", "0"]);
        assert_eq!(own["entries"][0]["from osd"], osd, "{own}");
    }
    cluster.ceph(&["config", "rm", "global", "mon_warn_on_slow_ping_time"]).ok();
    wait_until("answers are not slow", LIMIT, || {
        cluster.ceph_json(&["health"])["checks"].get("OSD_SLOW_PING_TIME_BACK").is_none()
    });
}
