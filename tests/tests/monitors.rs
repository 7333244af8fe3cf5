//! Several monitors: any minority of them may die, hang or lose its disk, and clients go on.

use cluster_tests::{TestCluster, clients_are_here, python, run};
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant};

const NAMES: [&str; 3] = ["a", "b", "c"];
/// What a write and a command may wait at most while a monitor is in trouble.
const WRITE_PAUSE_MAX: Duration = Duration::from_secs(5);
const COMMAND_PAUSE_MAX: Duration = Duration::from_secs(10);
/// How long each trouble lasts.
const TROUBLE: Duration = Duration::from_secs(6);

/// A client that writes objects, and when the last of them was acknowledged.
struct Writer {
    child: Child,
    reader: JoinHandle<()>,
    seen: Arc<Mutex<Seen>>,
}

struct Seen {
    sizes: BTreeMap<u64, u64>,
    last: Instant,
    longest: Duration,
}

impl Writer {
    fn start(cluster: &TestCluster, pool: &str) -> Writer {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/python/writer.py");
        let mut command = cluster.command(python(), &[script, pool, "0", "5000"]);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("python3 starts");
        let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let seen = Seen { sizes: BTreeMap::new(), last: Instant::now(), longest: Duration::ZERO };
        let seen = Arc::new(Mutex::new(seen));
        let shared = seen.clone();
        let reader = spawn(move || {
            for line in lines.map_while(Result::ok) {
                let Some((number, size)) = line.split_once(' ') else { panic!("writer says: {line}") };
                let (number, size) = (number.parse().expect("number"), size.parse().expect("size"));
                let mut seen = shared.lock().expect("no panic");
                // The first takes as long as connecting does.
                if !seen.sizes.is_empty() {
                    seen.longest = seen.longest.max(seen.last.elapsed());
                }
                seen.last = Instant::now();
                seen.sizes.insert(number, size);
            }
        });
        Writer { child, reader, seen }
    }

    /// The longest time without an acknowledgement, since this was last asked.
    fn longest_pause(&self) -> Duration {
        let mut seen = self.seen.lock().expect("no panic");
        let now = seen.last.elapsed();
        std::mem::take(&mut seen.longest).max(now)
    }

    /// Ends the client, and compares every object that was acknowledged.
    fn end(mut self, cluster: &TestCluster, pool: &str) {
        self.child.kill().expect("the writer runs");
        let _ = self.child.wait();
        self.reader.join().expect("it read what the writer said");
        let seen = self.seen.lock().expect("no panic");
        let text: String = seen.sizes.iter().map(|(number, size)| format!("{number} {size}\n")).collect();
        let list = cluster.scratch("acknowledged");
        std::fs::write(&list, text).expect("list can be written");
        let check = concat!(env!("CARGO_MANIFEST_DIR"), "/python/check.py");
        let list = list.to_str().expect("plain path");
        let out = run(cluster.command(python(), &[check, pool, list]), Duration::from_secs(300)).ok();
        assert!(out.contains(&format!("{} objects are whole", seen.sizes.len())), "{out}");
        eprintln!("{} writes were acknowledged, and all are there", seen.sizes.len());
    }
}

/// A stream of commands: each sets a value and then asks for it; another answer than the newest value would be a stale one.
struct Commands {
    stop: Arc<AtomicBool>,
    longest: Arc<Mutex<Duration>>,
    thread: JoinHandle<u64>,
}

impl Commands {
    fn start(cluster: &TestCluster) -> Commands {
        let (stop, longest) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Duration::ZERO)));
        let (stopped, max, conf) = (stop.clone(), longest.clone(), cluster.conf());
        let thread = spawn(move || {
            let ceph = |args: &[&str]| {
                let mut command = Command::new("ceph");
                command.args(args).env("CEPH_CONF", &conf);
                let started = Instant::now();
                let out = run(command, Duration::from_secs(60)).ok();
                let mut max = max.lock().expect("no panic");
                *max = (*max).max(started.elapsed());
                out
            };
            let mut count = 0;
            while !stopped.load(Ordering::Relaxed) {
                count += 1;
                let value = count.to_string();
                ceph(&["config-key", "set", "count", &value]);
                assert_eq!(ceph(&["config-key", "get", "count"]).trim(), value, "an answer is out of date");
            }
            count
        });
        Commands { stop, longest, thread }
    }

    fn longest(&self) -> Duration {
        assert!(
            !self.thread.is_finished(),
            "the stream of commands has ended: one failed, or its answer was out of date"
        );
        std::mem::take(&mut *self.longest.lock().expect("no panic"))
    }

    fn end(self) {
        self.stop.store(true, Ordering::Relaxed);
        let count = self.thread.join().expect("no command fails, and no answer is out of date");
        eprintln!("{count} values were set and read");
    }
}

/// Waits until these monitors and no others decide.
#[track_caller]
fn wait_for_quorum(cluster: &TestCluster, names: &[&str]) {
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        let status = cluster.ceph_json(&["quorum_status"]);
        let mut quorum: Vec<String> = serde_json::from_value(status["quorum_names"].clone()).expect("names");
        quorum.sort();
        if quorum == names {
            return;
        }
        assert!(Instant::now() < end, "{quorum:?} decide, not {names:?}");
        sleep(Duration::from_millis(300));
    }
}

fn wipe(cluster: &TestCluster, name: &str) {
    let folder = cluster.dir().join(format!("mon.{name}"));
    cluster.signal(&format!("mon.{name}"), Signal::KILL);
    // The process is gone before its files are.
    sleep(Duration::from_millis(100));
    std::fs::remove_dir_all(&folder).expect("the monitor's folder can be removed");
}

#[track_caller]
fn make_to_join(cluster: &TestCluster, name: &str, more: &[&str]) {
    let conf = cluster.conf();
    let mut command = Command::new(cluster_tests::binary());
    command.args(["mon", "--id", name, "--conf"]).arg(conf).args(["--mkfs", "--join"]).args(more);
    run(command, Duration::from_secs(20)).ok();
}

/// Each monitor in turn is killed, hangs, and loses its disk, while a client writes and another one gives commands.
#[test]
fn clients_go_on_while_each_monitor_is_in_trouble() {
    if !clients_are_here(&["ceph", "rados", "python3-rados"]) {
        return;
    }
    let cluster = TestCluster::start_monitors("monitors", 3, 3);
    cluster.make_pool("p", 16, 3);
    wait_for_quorum(&cluster, &NAMES);
    let (writer, commands) = (Writer::start(&cluster, "p"), Commands::start(&cluster));
    sleep(Duration::from_secs(3));
    let (write, command) = (writer.longest_pause(), commands.longest());
    eprintln!(
        "without trouble: {:.2} s without a write, {:.2} s for a command",
        write.as_secs_f32(),
        command.as_secs_f32()
    );
    let mut worst = (Duration::ZERO, Duration::ZERO);
    for name in NAMES {
        for trouble in ["kill -9", "SIGSTOP", "wiped disk"] {
            let daemon = format!("mon.{name}");
            let leads = cluster.ceph_json(&["quorum_status"])["quorum_leader_name"] == name;
            writer.longest_pause();
            commands.longest();
            match trouble {
                "kill -9" => cluster.signal(&daemon, Signal::KILL),
                "SIGSTOP" => cluster.signal(&daemon, Signal::STOP),
                _ => wipe(&cluster, name),
            }
            sleep(TROUBLE);
            match trouble {
                "SIGSTOP" => {
                    let health = cluster.ceph(&["health", "detail"]).ok();
                    assert!(health.contains("1/3 mons down") && health.contains("MON_DOWN"), "{health}");
                    assert!(health.contains(&format!("mon.{name} (rank ")), "{health}");
                    cluster.signal(&daemon, Signal::CONT);
                }
                "wiped disk" => make_to_join(&cluster, name, &[]),
                _ => {}
            }
            wait_for_quorum(&cluster, &NAMES);
            let (write, command) = (writer.longest_pause(), commands.longest());
            let role = if leads { "leader" } else { "peon" };
            let (w, c) = (write.as_secs_f32(), command.as_secs_f32());
            eprintln!("mon.{name} ({role}), {trouble}: {w:.2} s without a write, {c:.2} s for a command");
            worst = (worst.0.max(write), worst.1.max(command));
        }
    }
    commands.end();
    writer.end(&cluster, "p");
    assert!(worst.0 <= WRITE_PAUSE_MAX, "{:?} without a write", worst.0);
    assert!(worst.1 <= COMMAND_PAUSE_MAX, "{:?} for a command", worst.1);
    assert!(!cluster.ceph(&["health"]).ok().contains("MON_DOWN"));
}

/// Monitors come and go while the cluster runs; one that was removed stays out until its store is made anew.
#[test]
fn monitors_are_added_and_removed() {
    if !clients_are_here(&["ceph"]) {
        return;
    }
    let cluster = TestCluster::start_monitors("membership", 1, 3);
    wait_for_quorum(&cluster, &NAMES);
    let removed = cluster.ceph(&["mon", "rm", "b"]).ok();
    assert!(removed.is_empty() || removed.contains("mon.b"), "{removed}");
    wait_for_quorum(&cluster, &["a", "c"]);
    sleep(Duration::from_secs(3));
    let map = cluster.ceph_json(&["mon", "dump"]);
    let names: Vec<_> = map["mons"].as_array().expect("monitors").iter().map(|mon| mon["name"].clone()).collect();
    assert_eq!(names, ["a", "c"], "the one that was removed stays out, though it is started again and again");
    let log = std::fs::read_to_string(cluster.dir().join("log/mon.b.log")).expect("its log is there");
    assert!(log.contains("was removed"), "{log}");
    assert!(cluster.ceph(&["mon", "rm", "nobody"]).succeeded(), "as in Ceph, this is no error");
    // The one that leads can be removed, too.
    let leader = cluster.ceph_json(&["quorum_status"])["quorum_leader_name"].as_str().expect("a name").to_owned();
    let other = if leader == "a" { "c" } else { "a" };
    cluster.ceph(&["mon", "rm", &leader]).ok();
    wait_for_quorum(&cluster, &[other]);
    let refused = cluster.ceph(&["mon", "rm", other]);
    assert!(!refused.succeeded(), "the last one stays");
    // With new stores they come back.
    for name in ["b", &leader] {
        std::fs::remove_dir_all(cluster.dir().join(format!("mon.{name}"))).expect("the folder can be removed");
        make_to_join(&cluster, name, &[]);
    }
    wait_for_quorum(&cluster, &NAMES);
    assert!(cluster.ceph(&["-s"]).ok().contains("3 daemons, quorum"));
}
