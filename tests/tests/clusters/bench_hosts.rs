//! `nacre bench` with agents on hosts of their own: network namespaces, one of them with another time of day, joined to
//! the coordinator's by cables that can be cut.

use crate::bench::{result_in, text};
use cluster_tests::{Background, Host, TestCluster, binary, hosts_can_be_made, run};
use rustix::process::Signal;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(120);
/// How far the second host's time of day is ahead.
const AHEAD_S: f64 = 90.0;

fn bench(args: &[&str]) -> Command {
    let mut command = Command::new(binary());
    command.arg("bench").args(args);
    command
}

/// A library that sets the time of day forward for a program it is loaded into. Namespaces have no time of day of their
/// own: they shift the clocks that count from the start of the machine only.
fn clock_that_is_ahead(cluster: &TestCluster) -> PathBuf {
    let (source, library) = (cluster.scratch("ahead.c"), cluster.scratch("ahead.so"));
    let code = format!(
        "#define _GNU_SOURCE\n#include <sys/syscall.h>\n#include <time.h>\n#include <unistd.h>\n\
         int clock_gettime(clockid_t clock, struct timespec *time) {{\n\
           int result = syscall(SYS_clock_gettime, clock, time);\n\
           if (result == 0 && clock == CLOCK_REALTIME) time->tv_sec += {AHEAD_S};\n\
           return result;\n}}\n"
    );
    fs::write(&source, code).unwrap();
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-O1", "-o"]).args([&library, &source]);
    run(compiler, LIMIT).ok();
    library
}

/// Hosts, the cluster, and what runs on them. In the order in which they are to end.
struct Stage {
    token: PathBuf,
    library: PathBuf,
    cluster: TestCluster,
    hosts: [Host; 2],
}

impl Stage {
    fn new() -> Stage {
        let hosts = [0, 1].map(Host::start);
        // All hosts reach the tests' end of the first one's cable.
        let cluster = TestCluster::start_at("agents-hosts", 3, hosts[0].gateway());
        let token = cluster.scratch("token");
        fs::write(&token, "a token that nobody guesses\n").unwrap();
        Stage { token, library: clock_that_is_ahead(&cluster), cluster, hosts }
    }

    /// An agent on a host, and its address.
    fn agent(&self, host: usize) -> (Background, String) {
        let address = format!("{}:7480", self.hosts[host].address());
        let mut command = self.hosts[host].command(binary());
        if host == 1 {
            command.env("LD_PRELOAD", &self.library);
        }
        command.args(["bench", "agent", "--listen", &address, "--token-file", text(&self.token)]);
        let agent = Background::start(command);
        agent.says("listens on ", LIMIT);
        (agent, address)
    }

    /// The coordinator's command; its result goes into the folder.
    fn coordinator(&self, agents: &str, out: &Path, more: &[&str]) -> Command {
        let nacre = format!("nacre={}", self.cluster.dir().display());
        let whom = ["run", "--cluster", &nacre, "--agents", agents, "--token-file", text(&self.token)];
        let small = ["--object-size", "64KiB", "--objects", "60", "--pgs", "8", "--instances", "2", "--out", text(out)];
        bench(&[&whom[..], &small, more].concat())
    }

    fn pools(&self) -> String {
        self.cluster.nacre(&["pool", "ls"], LIMIT).ok()
    }
}

#[test]
fn agents_on_other_hosts_carry_the_load_and_are_missed_when_they_are_gone() {
    if !hosts_can_be_made() {
        return;
    }
    let stage = Stage::new();
    let ((_kept, first), (ahead, second)) = (stage.agent(0), stage.agent(1));
    let both = format!("{first},{second}");

    // Together, though one believes that it is later than it is.
    let out = stage.cluster.scratch("together");
    let mixed = ["--mode", "randread=50,randwrite=50", "--io-size", "4KiB", "--warm-up", "0.3", "--seconds", "2"];
    run(stage.coordinator(&both, &out, &[&mixed[..], &["--iterations", "2"]].concat()), LIMIT).ok();
    let result = result_in(&out);
    assert_eq!(result["end"], "complete");
    for row in result["rows"].as_array().unwrap() {
        assert_eq!((&row["mismatches"], &row["errors"], &row["measured_s"]), (&0.into(), &0.into(), &2.0.into()));
        assert_eq!((&row["missing"], &row["partial"]), (&Value::Null, &Value::Null));
        assert!(row["operations"].as_u64() > Some(30), "{row}");
    }
    let offset_s = |address: &str, name: &str| {
        let fact = &result["environment"][format!("agent.{address}.{name}")];
        fact.as_str().unwrap_or_else(|| panic!("no {name}: {result}")).parse::<f64>().unwrap() / 1e6
    };
    for (address, expected) in [(&first, 0.0), (&second, AHEAD_S)] {
        let (offset, sure) =
            (offset_s(address, "time_of_day_offset_us"), offset_s(address, "time_of_day_uncertainty_us"));
        assert!((offset - expected).abs() <= sure + 0.001, "{address}: {offset} s, give or take {sure}");
        assert!(sure < 0.5, "{sure}");
    }

    ahead.says("no longer serves", LIMIT);

    // A cable that is cut says nothing: the agent is missed after some seconds of silence, and stops when it finds out.
    let out = stage.cluster.scratch("cut");
    let long = ["--warm-up", "0", "--seconds", "100"];
    let mut run = Background::start(stage.coordinator(&both, &out, &long));
    run.says("measuring", LIMIT);
    std::thread::sleep(Duration::from_secs(1));
    let at = Instant::now();
    stage.hosts[1].cut();
    lost(&mut run, &out, &second);
    assert!(at.elapsed() < Duration::from_secs(60), "{:?}", at.elapsed());
    assert_eq!(stage.pools(), "", "what the lost one worked on is removed");
    stage.hosts[1].mend();
    ahead.says("no longer serves", LIMIT);

    // The agent that left serves again, and is killed at it.
    let out = stage.cluster.scratch("killed");
    let mut run = Background::start(stage.coordinator(&both, &out, &long));
    run.says("measuring", LIMIT);
    std::thread::sleep(Duration::from_secs(1));
    let at = Instant::now();
    ahead.signal(Signal::KILL);
    lost(&mut run, &out, &second);
    assert!(at.elapsed() < Duration::from_secs(40), "{:?}", at.elapsed());
    assert_eq!(stage.pools(), "");

    // A host that cannot be reached is named before anything is made, also if nothing says so but silence.
    for cut in [false, true] {
        if cut {
            // At its own end, so that the way there stays known here: nobody beyond may answer in its place.
            let mut down = stage.hosts[1].command("ip");
            down.args(["link", "set", "eth0", "down"]);
            cluster_tests::run(down, LIMIT).ok();
        }
        let (out, at) = (stage.cluster.scratch("never"), Instant::now());
        let said = cluster_tests::run(stage.coordinator(&both, &out, &long), LIMIT).failure();
        assert!(said.contains(&format!("agent {second} cannot be reached")), "{said}");
        assert!(at.elapsed() < Duration::from_secs(30), "{:?}", at.elapsed());
        assert!(!out.exists(), "nothing was measured");
        assert_eq!(stage.pools(), "");
    }
}

/// The run ends because an agent was lost, and the other's work is there.
#[track_caller]
fn lost(run: &mut Background, out: &Path, agent: &str) {
    assert_eq!(run.exit_code(LIMIT), Some(1));
    let result = result_in(out);
    let reason = result["end"]["failed"].as_str().unwrap();
    assert!(reason.contains(&format!("agent {agent} was lost")), "{reason}");
    let row = &result["rows"][0];
    assert_eq!((&row["missing"], &row["partial"]), (&Value::from(vec![agent.to_owned()]), &true.into()));
    assert!(row["operations"].as_u64() > Some(0), "what the other did is there: {row}");
}
