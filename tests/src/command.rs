//! Commands with a bound on their time.

use crate::processes;
use std::io::Read;
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

/// How a command ended.
#[derive(Debug)]
pub struct Outcome {
    pub line: String,
    /// `None`: ended by a signal.
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Outcome {
    pub fn succeeded(&self) -> bool {
        self.code == Some(0)
    }

    /// The output of a command that must have succeeded.
    #[track_caller]
    pub fn ok(self) -> String {
        assert!(self.succeeded(), "{} failed: {:?}\n{}\n{}", self.line, self.code, self.stdout, self.stderr);
        self.stdout
    }

    /// The error text of a command that must have failed.
    #[track_caller]
    pub fn failure(self) -> String {
        assert!(!self.succeeded(), "{} succeeded: {}", self.line, self.stdout);
        self.stderr
    }
}

/// Runs a command to its end, and kills it if that takes longer than `limit`, which is a failure of the test.
#[track_caller]
pub fn run(mut command: Command, limit: Duration) -> Outcome {
    let line = format!("{command:?}");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap_or_else(|e| panic!("{line} cannot be started: {e}"));
    let read = |mut pipe: Box<dyn Read + Send>| {
        thread::spawn(move || {
            let mut bytes = Vec::new();
            let _ = pipe.read_to_end(&mut bytes);
            String::from_utf8_lossy(&bytes).into_owned()
        })
    };
    let stdout = read(Box::new(child.stdout.take().expect("piped")));
    let stderr = read(Box::new(child.stderr.take().expect("piped")));
    let end = Instant::now() + limit;
    let status = loop {
        match child.try_wait().expect("child can be waited for") {
            Some(status) => break status,
            None if Instant::now() >= end => {
                let circumstances = processes::circumstances(child.id());
                let _ = child.kill();
                let _ = child.wait();
                let (stdout, stderr) = (stdout.join().unwrap(), stderr.join().unwrap());
                panic!("{line} still runs after {limit:?}\n{stdout}\n{stderr}\n{circumstances}");
            }
            None => thread::sleep(Duration::from_millis(10)),
        }
    };
    Outcome { line, code: status.code(), stdout: stdout.join().unwrap(), stderr: stderr.join().unwrap() }
}

/// Waits until something is so.
#[track_caller]
pub fn wait_until(what: &str, limit: Duration, mut is: impl FnMut() -> bool) {
    let end = Instant::now() + limit;
    while !is() {
        assert!(Instant::now() < end, "not within {limit:?}: {what}");
        thread::sleep(Duration::from_millis(100));
    }
}

/// Tells if Ceph's clients (programs, or `python3-rados` and `python3-rbd`) are installed. Without them a test says so
/// and ends, unless `NACRE_REQUIRE_ORACLES` is 1.
pub fn clients_are_here(names: &[&str]) -> bool {
    let missing: Vec<_> = names.iter().filter(|name| !is_installed(name)).collect();
    if missing.is_empty() {
        return true;
    }
    let required = std::env::var("NACRE_REQUIRE_ORACLES").is_ok_and(|v| v == "1");
    assert!(!required, "not installed: {missing:?}");
    eprintln!("SKIPPED: not installed: {missing:?}");
    false
}

/// Tells if everything there is runs (`make test-all`), and not only what a change must pass.
pub fn is_whole_suite() -> bool {
    std::env::var("NACRE_SUITE").is_ok_and(|suite| suite == "whole")
}

/// The Python that has Ceph's bindings: Debian's own, if the first one on the path is another.
pub fn python() -> &'static str {
    static FOUND: OnceLock<&str> = OnceLock::new();
    FOUND.get_or_init(|| if has_bindings("python3", "rados") { "python3" } else { "/usr/bin/python3" })
}

fn has_bindings(python: &str, module: &str) -> bool {
    let mut command = Command::new(python);
    command.args(["-c", &format!("import {module}")]).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

fn is_installed(name: &str) -> bool {
    if let Some(module) = name.strip_prefix("python3-") {
        return has_bindings(python(), module);
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(name).is_file())
}
