//! Debian's `ceph` with its modules loaded once, since a start of Python takes longer than most commands
//! (`tests/python/ceph_program.py`).

use crate::command::{Outcome, python};
use crate::processes;
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Longest time in which its modules are loaded.
const START_LIMIT: Duration = Duration::from_secs(120);

/// A process that carries out commands of `ceph`, each in a process of its own; dropped, it ends.
pub struct CephProgram {
    process: Child,
    /// The folder of its socket, and of what commands say.
    folder: PathBuf,
    commands: AtomicU32,
}

impl CephProgram {
    /// Starts it with a folder that it may have for itself.
    pub fn start(folder: PathBuf) -> CephProgram {
        fs::create_dir_all(&folder).expect("a folder can be made");
        let socket = folder.join("socket");
        let _ = fs::remove_file(&socket);
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/python/ceph_program.py");
        let mut command = Command::new(python());
        command.arg(script).arg(&socket).stdin(Stdio::piped());
        let mut process = command.spawn().unwrap_or_else(|e| panic!("{command:?} cannot be started: {e}"));
        let end = Instant::now() + START_LIMIT;
        while !socket.exists() {
            let status = process.try_wait().expect("a child can be waited for");
            assert!(status.is_none(), "{command:?} has ended: {status:?}");
            assert!(Instant::now() < end, "{command:?} does not listen within {START_LIMIT:?}");
            thread::sleep(Duration::from_millis(5));
        }
        CephProgram { process, folder, commands: AtomicU32::new(0) }
    }

    /// As [`crate::run`] of `ceph ARGS` on the cluster of `conf`.
    #[track_caller]
    pub fn run(&self, args: &[&str], conf: &Path, limit: Duration) -> Outcome {
        let line = format!("CEPH_CONF={conf:?} ceph {args:?}");
        let number = self.commands.fetch_add(1, Ordering::Relaxed);
        let [stdout, stderr] = ["stdout", "stderr"].map(|name| self.folder.join(format!("{name}.{number}")));
        let request = serde_json::json!({ "args": args, "conf": conf, "stdout": stdout, "stderr": stderr });
        let socket = self.folder.join("socket");
        let mut connection = UnixStream::connect(&socket).unwrap_or_else(|e| panic!("{line}: {socket:?}: {e}"));
        writeln!(connection, "{request}").unwrap_or_else(|e| panic!("{line}: {e}"));
        connection.set_read_timeout(Some(limit)).expect("a limit");
        let mut answers = BufReader::new(connection);
        let mut number_after = |word: &str| -> Option<i32> {
            let mut answer = String::new();
            let end = answers.read_line(&mut answer).err();
            let number = answer.strip_prefix(word).and_then(|rest| rest.trim().parse().ok());
            assert!(number.is_some() || end.is_some(), "{line}: '{answer}' instead of '{word}'");
            number
        };
        let pid = number_after("pid ").unwrap_or_else(|| panic!("{line} does not begin within {limit:?}"));
        let status = number_after("status ");
        let said = [&stdout, &stderr].map(|path| {
            let bytes = fs::read(path).unwrap_or_default();
            let _ = fs::remove_file(path);
            String::from_utf8_lossy(&bytes).into_owned()
        });
        let [stdout, stderr] = said;
        let Some(status) = status else {
            let circumstances = processes::circumstances(pid.cast_unsigned());
            let _ = Pid::from_raw(pid).map(|pid| kill_process(pid, Signal::KILL));
            panic!("{line} still runs after {limit:?}\n{stdout}\n{stderr}\n{circumstances}");
        };
        Outcome { line, code: (status >= 0).then_some(status), stdout, stderr }
    }
}

impl Drop for CephProgram {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
