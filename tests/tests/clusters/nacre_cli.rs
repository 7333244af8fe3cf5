//! `nacre` itself: a first session with nothing but the binary, and how clusters start, stop and refuse to.

use cluster_tests::{Outcome, Pattern, TestCluster, assert_same_bytes, binary, clients_are_here, run, wait_until};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

const SHORT: Duration = Duration::from_secs(60);
/// For daemons to come and go.
const START: Duration = Duration::from_secs(120);

fn nacre(cluster: &TestCluster, args: &[&str]) -> Outcome {
    cluster.nacre(args, SHORT)
}

fn status(cluster: &TestCluster) -> serde_json::Value {
    let text = nacre(cluster, &["status", "--json"]).stdout;
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("status: {e}: {text}"))
}

fn pid_of(cluster: &TestCluster, name: &str) -> Pid {
    let text = fs::read_to_string(cluster.dir().join(format!("run/{name}.pid"))).expect("pid file");
    Pid::from_raw(text.trim().parse().expect("a number")).expect("not zero")
}

fn text(path: &Path) -> &str {
    path.to_str().expect("plain path")
}

#[test]
fn a_first_session_with_nothing_but_the_binary() {
    let cluster = TestCluster::start("session", 3);
    nacre(&cluster, &["pool", "create", "photos"]).ok();
    assert_eq!(nacre(&cluster, &["pool", "ls"]).ok(), "photos\n");
    assert!(nacre(&cluster, &["pool", "create", "photos"]).failure().contains("already"));

    let (given, got) = (cluster.scratch("given"), cluster.scratch("got"));
    for (name, len) in [("empty", 0), ("one", 1), ("step", 4 << 20), ("more", (9 << 20) + 1)] {
        Pattern::new(len).write(&given, len);
        nacre(&cluster, &["put", "photos", name, text(&given)]).ok();
        nacre(&cluster, &["get", "photos", name, text(&got)]).ok();
        assert_same_bytes(&given, &got);
        let stat = nacre(&cluster, &["stat", "photos", name]).ok();
        assert!(stat.contains(&format!(" {len} bytes")), "{stat}");
    }
    fs::write(&given, "short now").unwrap();
    nacre(&cluster, &["put", "photos", "more", text(&given)]).ok();
    assert_eq!(nacre(&cluster, &["get", "photos", "more", "-"]).ok(), "short now");

    nacre(&cluster, &["put", "-N", "other", "photos", "apart", text(&given)]).ok();
    let lines = |args: &[&str]| {
        let mut lines: Vec<String> = nacre(&cluster, args).ok().lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(lines(&["ls", "photos"]), ["empty", "more", "one", "step"]);
    assert_eq!(lines(&["ls", "photos", "-N", "other"]), ["apart"]);
    assert_eq!(lines(&["ls", "photos", "--all"]), ["\tempty", "\tmore", "\tone", "\tstep", "other\tapart"]);

    nacre(&cluster, &["rm", "photos", "one", "step"]).ok();
    assert_eq!(lines(&["ls", "photos"]), ["empty", "more"]);
    assert!(nacre(&cluster, &["rm", "photos", "one"]).failure().contains("no object 'one'"));
    assert!(nacre(&cluster, &["get", "photos", "one", text(&got)]).failure().contains("nacre ls photos"));
    assert!(nacre(&cluster, &["ls", "videos"]).failure().contains("nacre pool create videos"));

    wait_until("the page tells of everything", START, || {
        let page = nacre(&cluster, &["status"]).ok();
        eprint!("{page}");
        ["HEALTH_OK", "3 of 3 up", "photos"].iter().all(|part| page.contains(part))
    });
    assert!(nacre(&cluster, &["pool", "rm", "photos"]).failure().contains("--yes"));
    nacre(&cluster, &["pool", "rm", "photos", "--yes"]).ok();
    assert_eq!(nacre(&cluster, &["pool", "ls"]).ok(), "");
}

#[test]
fn starting_and_stopping_can_be_said_twice_and_refusals_leave_things_alone() {
    let cluster = TestCluster::start("twice", 2);
    let again = nacre(&cluster, &["up", "--detach"]).failure();
    assert!(again.contains("runs already"), "{again}");
    let state = fs::read(cluster.dir().join("cluster.json")).unwrap();
    nacre(&cluster, &["down"]).ok();
    nacre(&cluster, &["down"]).ok();
    let stopped = nacre(&cluster, &["status"]);
    assert!(!stopped.succeeded() && stopped.stdout.contains("is stopped"), "{stopped:?}");
    assert_eq!(status(&cluster)["running"], false);
    for (flags, part) in [(["--osds", "1"], "has 2 OSDs"), (["--port", "29999"], "on port")] {
        let refused = nacre(&cluster, &[&["up", "--detach"][..], &flags].concat()).failure();
        assert!(refused.contains(part), "{refused}");
    }
    assert_eq!(fs::read(cluster.dir().join("cluster.json")).unwrap(), state);
    cluster.up();

    // A warning that does not go by itself keeps nobody waiting.
    if clients_are_here(&["ceph"]) {
        cluster.ceph(&["osd", "set", "noscrub"]).ok();
        nacre(&cluster, &["down"]).ok();
        let up = nacre(&cluster, &["up", "--detach"]);
        let said = format!("{}{}", up.stdout, up.stderr);
        assert!(
            up.succeeded() && said.contains("HEALTH_WARN after") && said.contains("warning: OSDMAP_FLAGS"),
            "{said}"
        );
    }

    // A port that the first cluster uses, for a second one.
    let port = fs::read_to_string(cluster.conf()).unwrap();
    let port = port.split("v2:127.0.0.1:").nth(1).and_then(|rest| rest.split('/').next()).expect("mon host");
    let other = cluster.scratch("other");
    let mut command = Command::new(binary());
    command.args(["up", "--detach", "--osd-size", "1GiB", "--port", port, "--dir", text(&other)]);
    let refused = run(command, SHORT).failure();
    assert!(refused.contains("in use") && !other.exists(), "{refused}");
}

#[test]
fn what_dies_is_started_again_and_nothing_outlives_its_supervisor() {
    let cluster = TestCluster::start("supervised", 2);
    nacre(&cluster, &["down"]).ok();
    nacre(&cluster, &["up", "--detach"]).ok();
    nacre(&cluster, &["pool", "create", "p", "--size", "2", "--pg-num", "8"]).ok();
    let given = cluster.scratch("given");
    Pattern::new(1).write(&given, 100_000);
    nacre(&cluster, &["put", "p", "o", text(&given)]).ok();
    for daemon in ["osd.1", "mon.a"] {
        let before = pid_of(&cluster, daemon);
        kill_process(before, Signal::KILL).unwrap();
        wait_until("the daemon is back", START, || {
            let answer = status(&cluster);
            let daemons = answer["daemons"].as_array().expect("a list");
            let pid = &daemons.iter().find(|entry| entry["name"] == daemon).expect("a daemon of ours")["pid"];
            let back = pid.as_i64().is_some_and(|pid| pid != i64::from(before.as_raw_nonzero().get()));
            back && answer["health"] == "HEALTH_OK"
        });
    }
    // The supervisor itself, without a chance to say anything.
    kill_process(pid_of(&cluster, "supervisor"), Signal::KILL).unwrap();
    wait_until("its daemons follow", START, || status(&cluster)["running"] == false);
    cluster.up();
    let got = cluster.scratch("got");
    nacre(&cluster, &["get", "p", "o", text(&got)]).ok();
    assert_same_bytes(&given, &got);
}

#[test]
fn a_command_ends_in_silence_when_nobody_reads_it() {
    // The reader is gone before there is anything to read.
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let mut command = Command::new(binary());
    command.args(["sim", "--mutants", "list"]).stdin(Stdio::null()).stdout(writer);
    let outcome = command.output().expect("it runs");
    let status = outcome.status.code().or(outcome.status.signal().map(|signal| 128 + signal));
    assert!(status == Some(141) && outcome.stderr.is_empty(), "as of a program that SIGPIPE ends: {outcome:?}");
}
