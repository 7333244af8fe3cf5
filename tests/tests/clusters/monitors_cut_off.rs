//! Three monitors on hosts of their own, each of which is cut off in turn while clients go on.

use cluster_tests::{
    Commands, Host, Killed, Switch, TestCluster, Writer, binary, clients_are_here, hosts_can_be_made, python, run,
    wait_for_quorum,
};
use std::fs;
use std::io::{BufRead, BufReader, Lines, Write};
use std::path::PathBuf;
use std::process::{ChildStdout, Command, Stdio};
use std::thread::{sleep, spawn};
use std::time::{Duration, Instant};

const NAMES: [&str; 3] = ["b", "c", "d"];
/// The longest wait of a write and a command while a monitor is cut off.
const WRITE_PAUSE_MAX: Duration = Duration::from_secs(5);
const COMMAND_PAUSE_MAX: Duration = Duration::from_secs(10);
/// How long each one is cut off: longer than whoever is silent counts as there.
const CUT: Duration = Duration::from_secs(12);
const PORT: u16 = 3300;

/// A monitor on a host. Its process is dropped, and so killed, before its host is removed.
struct Monitor {
    process: Killed,
    host: Host,
}

/// `ceph.conf` of the cluster with these monitors instead of those that it names.
fn conf_with(text: &str, monitors: &[(&str, &Host)]) -> String {
    let hosts: Vec<String> = monitors.iter().map(|(_, host)| format!("[v2:{}:{PORT}/0]", host.address())).collect();
    let named = text.lines().filter(|line| !line.starts_with("mon initial members"));
    let lines = named.map(|line| match line.starts_with("mon host") {
        true => format!("mon host = {}\n", hosts.join(",")),
        false => format!("{line}\n"),
    });
    let sections =
        monitors.iter().map(|(name, host)| format!("[mon.{name}]\npublic addr = {}:{PORT}\n", host.address()));
    lines.chain(sections).collect()
}

/// Makes the store of a monitor that joins, and starts it on a host.
fn join(keyring: &str, conf: &PathBuf, log: &PathBuf, name: &str, host: Host) -> Monitor {
    let nacre = |more: &[&str]| {
        let mut command = host.command(binary());
        command.args(["mon", "--id", name, "--conf"]).arg(conf).args(more);
        command
    };
    run(nacre(&["--mkfs", "--join", "--keyring", keyring]), Duration::from_secs(20)).ok();
    let log = fs::File::create(log).expect("a log can be made");
    let mut command: Command = nacre(&[]);
    command.stdin(Stdio::null()).stdout(log.try_clone().expect("a file")).stderr(log);
    let process = command.spawn().expect("the monitor starts");
    Monitor { process: Killed(process), host }
}

/// A client whose session is with one monitor.
struct Held {
    child: Killed,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Held {
    fn start(cluster: &TestCluster, conf: &PathBuf) -> Held {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/python/held_session.py");
        let mut command = cluster.command(python(), &[script]);
        command.env("CEPH_CONF", conf).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("python3 starts");
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let said = lines.next().expect("it says something").expect("text");
        assert_eq!(said, "connected");
        Held { child: Killed(child), lines }
    }

    /// How long a command takes that it gives now.
    fn command_takes(mut self) -> Duration {
        self.child.0.stdin.take().expect("piped").write_all(b"go\n").expect("it listens");
        let said = self.lines.next().expect("it says how long").expect("text");
        assert!(self.child.0.wait().expect("it ends").success());
        Duration::from_secs_f64(said.parse().expect("seconds"))
    }
}

#[test]
fn clients_go_on_while_each_monitor_is_cut_off() {
    if !clients_are_here(&["ceph", "rados", "python3-rados"]) || !hosts_can_be_made() {
        return;
    }
    let switch = Switch::start();
    let hosts = [0, 1, 2].map(|number| switch.plug(number));
    let cluster = TestCluster::start_at("cut-off", 3, switch.address());
    cluster.make_pool("p", 16, 3);
    // The monitors on hosts join the one that the cluster began with, which then leaves.
    let text = fs::read_to_string(cluster.conf()).expect("the cluster's ceph.conf");
    let named: Vec<(&str, &Host)> = NAMES.into_iter().zip(&hosts).collect();
    let afterwards = conf_with(&text, &named);
    let joining = cluster.scratch("joining.conf");
    let begins = |line: &&str| line.starts_with("mon host");
    let first = text.lines().find(begins).expect("a monitor's address");
    let told: Vec<String> = afterwards
        .lines()
        .map(|line| if begins(&line) { first } else { line })
        .map(|line| format!("{line}\n"))
        .collect();
    fs::write(&joining, told.concat()).expect("a file can be made");
    let keyring = cluster.monitors_keyring().display().to_string();
    let mut monitors = Vec::new();
    for (name, host) in NAMES.into_iter().zip(hosts) {
        let log = cluster.dir().join(format!("log/mon.{name}.log"));
        monitors.push(join(&keyring, &joining, &log, name, host));
    }
    wait_for_quorum(&cluster, &["a", "b", "c", "d"]);
    cluster.ceph(&["mon", "rm", "a"]).ok();
    fs::write(cluster.conf(), afterwards).expect("ceph.conf can be written");
    wait_for_quorum(&cluster, &NAMES);

    let (writer, commands) = (Writer::start(&cluster, "p"), Commands::start(&cluster));
    sleep(Duration::from_secs(3));
    let say = |what: &str, write: Duration, command: Duration| {
        let (write, command) = (write.as_secs_f32(), command.as_secs_f32());
        eprintln!("{what}: {write:.2} s without a write, {command:.2} s for a command");
    };
    say("undisturbed", writer.longest_pause(), commands.longest());
    let mut worst = (Duration::ZERO, Duration::ZERO);
    for (index, name) in NAMES.into_iter().enumerate() {
        let leads = cluster.ceph_json(&["quorum_status"])["quorum_leader_name"] == name;
        writer.longest_pause();
        commands.longest();
        let held = cluster.scratch("held.conf");
        fs::write(&held, conf_with(&text, &[(name, &monitors[index].host)])).expect("a file can be made");
        let held = Held::start(&cluster, &held);
        monitors[index].host.cut();
        let held = spawn(move || held.command_takes());
        // The map has to change meanwhile, or nobody would miss a monitor.
        let others: Vec<&str> = NAMES.into_iter().filter(|other| *other != name).collect();
        wait_for_quorum(&cluster, &others);
        cluster.ceph(&["osd", "set", "noout"]).ok();
        let end = Instant::now() + CUT;
        while Instant::now() < end {
            cluster.ceph(&["osd", "unset", "noout"]).ok();
            cluster.ceph(&["osd", "set", "noout"]).ok();
            sleep(Duration::from_millis(500));
        }
        let health = cluster.ceph(&["health", "detail"]).ok();
        assert!(health.contains("1/3 mons down") && health.contains(&format!("mon.{name} (rank ")), "{health}");
        assert!(monitors[index].process.0.try_wait().expect("it can be waited for").is_none(), "it goes on alone");
        monitors[index].host.mend();
        wait_for_quorum(&cluster, &NAMES);
        let held = held.join().expect("its command is answered");
        eprintln!("mon.{name}: {:.2} s for a command of a client that was connected to it", held.as_secs_f32());
        let (write, command) = (writer.longest_pause(), commands.longest().max(held));
        say(&format!("mon.{name} ({}) cut off", if leads { "leader" } else { "peon" }), write, command);
        worst = (worst.0.max(write), worst.1.max(command));
    }
    commands.end();
    writer.end(&cluster, "p");
    assert!(worst.0 <= WRITE_PAUSE_MAX, "{:?} without a write", worst.0);
    assert!(worst.1 <= COMMAND_PAUSE_MAX, "{:?} for a command", worst.1);
    cluster.ceph(&["osd", "unset", "noout"]).ok();
    assert!(!cluster.ceph(&["health"]).ok().contains("MON_DOWN"));
}
