//! Processes that run beside a test.

use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// A process that is killed when this is dropped, also by a test that fails: one that is left holds the pipe that tests
/// write to.
pub struct Killed(pub Child);

impl Drop for Killed {
    fn drop(&mut self) {
        // Both fail harmlessly if it has ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A process in the background, and what it says on standard error; dropped, it is killed.
pub struct Background {
    child: Killed,
    lines: Receiver<String>,
}

impl Background {
    #[track_caller]
    pub fn start(mut command: Command) -> Background {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|e| panic!("{command:?} cannot be started: {e}"));
        let (tell, lines) = channel();
        let errors = BufReader::new(child.stderr.take().expect("asked for a pipe"));
        // Its output must find a reader.
        std::thread::spawn(move || errors.lines().map_while(Result::ok).for_each(|line| drop(tell.send(line))));
        Background { child: Killed(child), lines }
    }

    /// The first line from now on that holds `words`.
    #[track_caller]
    pub fn says(&self, words: &str, limit: Duration) -> String {
        let end = Instant::now() + limit;
        let mut said = Vec::new();
        loop {
            match self.lines.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(line) if line.contains(words) => return line,
                Ok(line) => said.push(line),
                Err(error) => panic!("it never said '{words}': {error}: {said:#?}"),
            }
        }
    }

    /// All lines that it has written and nobody has asked for.
    pub fn rest(&self) -> Vec<String> {
        self.lines.try_iter().collect()
    }

    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.child.0.id()).expect("a process id")).expect("not zero");
        kill_process(pid, signal).expect("it runs");
    }

    pub fn id(&self) -> u32 {
        self.child.0.id()
    }

    pub fn is_running(&mut self) -> bool {
        self.child.0.try_wait().expect("child can be waited for").is_none()
    }

    /// Waits for its end. `None`: ended by a signal.
    #[track_caller]
    pub fn exit_code(&mut self, limit: Duration) -> Option<i32> {
        let end = Instant::now() + limit;
        while Instant::now() < end {
            if let Some(status) = self.child.0.try_wait().expect("child can be waited for") {
                return status.code();
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("still runs after {limit:?}");
    }
}
