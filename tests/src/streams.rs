//! Clients that write and give commands all the time, and how long they had to wait.

use crate::background::Killed;
use crate::cluster::TestCluster;
use crate::command::{python, run};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant};

/// A client that writes objects, and when the last of them was acknowledged.
pub struct Writer {
    child: Killed,
    reader: JoinHandle<()>,
    seen: Arc<Mutex<Seen>>,
}

struct Seen {
    sizes: BTreeMap<u64, u64>,
    last: Instant,
    longest: Duration,
}

impl Writer {
    #[track_caller]
    pub fn start(cluster: &TestCluster, pool: &str) -> Writer {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/python/writer.py");
        let mut command = cluster.command(python(), &[script, pool, "0", "5000"]);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("python3 starts");
        let mut said = BufReader::new(child.stdout.take().expect("piped"));
        let seen = Seen { sizes: BTreeMap::new(), last: Instant::now(), longest: Duration::ZERO };
        let seen = Arc::new(Mutex::new(seen));
        let shared = seen.clone();
        let reader = spawn(move || {
            let mut line = String::new();
            // A line without an end was being written when the writer was killed.
            while said.read_line(&mut line).is_ok() && line.ends_with('\n') {
                let Some((number, size)) = line.trim_end().split_once(' ') else { panic!("writer says: {line}") };
                let (number, size) = (number.parse().expect("number"), size.parse().expect("size"));
                let mut seen = shared.lock().expect("no panic");
                // The first takes as long as connecting does.
                if !seen.sizes.is_empty() {
                    seen.longest = seen.longest.max(seen.last.elapsed());
                }
                seen.last = Instant::now();
                seen.sizes.insert(number, size);
                line.clear();
            }
        });
        Writer { child: Killed(child), reader, seen }
    }

    /// The longest time without an acknowledgement, since this was last asked.
    pub fn longest_pause(&self) -> Duration {
        let mut seen = self.seen.lock().expect("no panic");
        let now = seen.last.elapsed();
        std::mem::take(&mut seen.longest).max(now)
    }

    /// Ends the client, and compares every object that was acknowledged.
    #[track_caller]
    pub fn end(mut self, cluster: &TestCluster, pool: &str) {
        self.child.0.kill().expect("the writer runs");
        let _ = self.child.0.wait();
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

/// A stream of commands: each sets a value and then asks for it; another answer than the newest value would be a stale
/// one.
pub struct Commands {
    stop: Arc<AtomicBool>,
    longest: Arc<Mutex<Duration>>,
    thread: JoinHandle<u64>,
}

impl Commands {
    pub fn start(cluster: &TestCluster) -> Commands {
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

    /// The longest time that a command took, since this was last asked.
    #[track_caller]
    pub fn longest(&self) -> Duration {
        assert!(
            !self.thread.is_finished(),
            "the stream of commands has ended: one failed, or its answer was out of date"
        );
        std::mem::take(&mut *self.longest.lock().expect("no panic"))
    }

    /// Ends the stream. Panics if a command failed, or an answer was out of date.
    #[track_caller]
    pub fn end(self) {
        self.stop.store(true, Ordering::Relaxed);
        let count = self.thread.join().expect("no command fails, and no answer is out of date");
        eprintln!("{count} values were set and read");
    }
}

/// Waits until these monitors and no others decide.
#[track_caller]
pub fn wait_for_quorum(cluster: &TestCluster, names: &[&str]) {
    let end = Instant::now() + Duration::from_secs(120);
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
