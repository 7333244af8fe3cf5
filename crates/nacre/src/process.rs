//! Processes of a cluster: who runs, by pid files that are believed only after a look at the process itself.

use crate::ceph_engine;
use crate::layout::Layout;
use anyhow::{Context, Result};
use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

/// The signal that tells a supervisor to look again which daemons it is to run.
pub const LOOK_AGAIN: Signal = Signal::USR1;

/// The arguments that make this program the daemon `name` (`mon.a`, `osd.3`).
pub fn daemon_args(layout: &Layout, name: &str) -> Vec<String> {
    let (kind, id) = name.split_once('.').expect("daemon names have a dot");
    let conf = layout.conf().display().to_string();
    vec![kind.into(), "--id".into(), id.into(), "--conf".into(), conf]
}

/// Tells if a process with this command line is the daemon `name` of this cluster, of either engine.
fn is_daemon(layout: &Layout, name: &str, command_line: &[&[u8]]) -> bool {
    let Some((program, args)) = command_line.split_first() else { return false };
    // Options may follow ours.
    let matches = |expected: &[String]| {
        args.len() >= expected.len() && expected.iter().zip(args).all(|(a, b)| a.as_bytes() == *b)
    };
    let (ceph_program, ceph_args) = ceph_engine::daemon_command(layout, name);
    let is_ceph = program.rsplit(|byte| *byte == b'/').next() == Some(ceph_program.as_bytes());
    if is_ceph { matches(&ceph_args) } else { matches(&daemon_args(layout, name)) }
}

/// The process id of daemon `name`, if it runs and is the one of this cluster.
pub fn daemon_pid(layout: &Layout, name: &str) -> Option<Pid> {
    let pid = read_pid(&layout.pid_file(name))?;
    let command_line = std::fs::read(format!("/proc/{}/cmdline", pid.as_raw_nonzero())).ok()?;
    let words: Vec<&[u8]> = command_line.split(|b| *b == 0).collect();
    // The number may have gone to another process since.
    (is_daemon(layout, name, &words) && !is_zombie(pid)).then_some(pid)
}

fn read_pid(path: &Path) -> Option<Pid> {
    Pid::from_raw(std::fs::read_to_string(path).ok()?.trim().parse().ok()?)
}

/// A process that has ended and whose parent has not noticed yet still has its number.
fn is_zombie(pid: Pid) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap_or_default();
    stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with(['Z', 'X']))
}

/// Sends `signal`; a process that is gone already is fine.
pub fn signal(pid: Pid, signal: Signal) -> Result<()> {
    match kill_process(pid, signal) {
        Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
        Err(e) => Err(e).with_context(|| format!("cannot signal process {}", pid.as_raw_nonzero())),
    }
}

/// Waits until `running` says false or `timeout` is over; true if it said false.
pub fn wait_until_gone(timeout: Duration, mut running: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + timeout;
    while running() {
        if Instant::now() >= deadline {
            return false;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    true
}

/// The lock that a supervisor holds as long as it lives.
pub struct SupervisorLock {
    _file: File,
}

impl SupervisorLock {
    /// Takes the lock; `None` if another supervisor has it. The directory must exist.
    pub fn take(layout: &Layout) -> Result<Option<SupervisorLock>> {
        std::fs::create_dir_all(layout.run_dir())
            .with_context(|| format!("cannot create {}", layout.run_dir().display()))?;
        let path = layout.supervisor_lock();
        let context = || format!("cannot lock {}", path.display());
        let mut options = File::options();
        let mut file = options.read(true).write(true).create(true).truncate(false).open(&path).with_context(context)?;
        // Somebody who only looks ([`supervisor_pid`]) holds the lock for an instant.
        const TRIES: u32 = 10;
        for attempt in 1.. {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => break,
                Err(rustix::io::Errno::WOULDBLOCK) if attempt < TRIES => std::thread::sleep(Duration::from_millis(10)),
                Err(rustix::io::Errno::WOULDBLOCK) => return Ok(None),
                Err(e) => return Err(e).with_context(context),
            }
        }
        file.set_len(0).with_context(context)?;
        writeln!(file, "{}", std::process::id()).with_context(context)?;
        Ok(Some(SupervisorLock { _file: file }))
    }
}

/// A process that was killed lets go of its locks within this time, on a machine that is busy.
const ENDS_WITHIN: Duration = Duration::from_secs(10);

/// The process id of the supervisor of this directory's cluster, if one runs.
///
/// A supervisor that has just been killed holds its lock for a moment longer: the call waits for that.
pub fn supervisor_pid(layout: &Layout) -> Option<Pid> {
    let file = File::open(layout.supervisor_lock()).ok()?;
    let is_held = || flock(&file, FlockOperation::NonBlockingLockShared).is_err();
    if !is_held() {
        return None;
    }
    let pid = read_pid(&layout.supervisor_lock());
    if pid.is_some_and(is_ending) && wait_until_gone(ENDS_WITHIN, is_held) {
        return None;
    }
    pid
}

/// True for a process that has no memory any more: it ends, has ended, or never was.
fn is_ending(pid: Pid) -> bool {
    std::fs::read(format!("/proc/{}/cmdline", pid.as_raw_nonzero())).unwrap_or_default().is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    #[test]
    fn a_pid_file_is_believed_only_if_the_process_is_ours() {
        let dir = Scratch::new();
        let layout = Layout::new(dir.path()).unwrap();
        std::fs::create_dir_all(layout.run_dir()).unwrap();
        assert_eq!(daemon_pid(&layout, "osd.0"), None, "no file");
        std::fs::write(layout.pid_file("osd.0"), format!("{}\n", std::process::id())).unwrap();
        assert_eq!(daemon_pid(&layout, "osd.0"), None, "a process, but another program");
        // A process whose arguments are those of the daemon: `sh` sees them as positional parameters.
        let mut command = std::process::Command::new("/bin/sh");
        let script = dir.path().join("osd");
        std::fs::write(&script, "read line\n").unwrap();
        command.current_dir(dir.path()).args(daemon_args(&layout, "osd.0")).stdin(std::process::Stdio::piped());
        let mut child = command.spawn().unwrap();
        std::fs::write(layout.pid_file("osd.0"), format!("{}\n", child.id())).unwrap();
        let seen = wait_until_gone(Duration::from_secs(30), || daemon_pid(&layout, "osd.0").is_none());
        assert!(seen, "the stand-in is taken for ours");
        assert_eq!(daemon_pid(&layout, "osd.1"), None);
        child.kill().unwrap();
        assert!(
            wait_until_gone(Duration::from_secs(30), || daemon_pid(&layout, "osd.0").is_some()),
            "even as a zombie"
        );
        child.wait().unwrap();
    }

    /// The kernel takes a killed process's memory first and closes its files later.
    #[test]
    fn a_supervisor_that_was_killed_and_still_holds_its_lock_is_waited_for() {
        let dir = Scratch::new();
        let layout = Layout::new(dir.path()).unwrap();
        let lock = SupervisorLock::take(&layout).unwrap().unwrap();
        assert!(supervisor_pid(&layout).is_some(), "this process holds it, and lives");
        let mut ended = std::process::Command::new("/bin/true").spawn().unwrap();
        std::fs::write(layout.supervisor_lock(), format!("{}\n", ended.id())).unwrap();
        let pid = Pid::from_raw(ended.id() as i32).unwrap();
        assert!(wait_until_gone(Duration::from_secs(30), || !is_ending(pid)));
        let holder = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(200));
            drop(lock);
        });
        assert_eq!(supervisor_pid(&layout), None);
        holder.join().unwrap();
        ended.wait().unwrap();
    }

    #[test]
    fn daemons_of_either_engine_are_known_by_their_command_lines() {
        let layout = Layout::new(Path::new("/x")).unwrap();
        let check = |line: &str, ours: bool| {
            let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
            assert_eq!(is_daemon(&layout, "osd.1", &words), ours, "{line}");
        };
        check("nacre osd --id 1 --conf /x/ceph.conf --more", true);
        check("/usr/bin/ceph-osd -f --id 1 --conf /x/ceph.conf", true);
        check("ceph-osd -f --id 2 --conf /x/ceph.conf", false);
        check("ceph-mon -f --id 1 --conf /x/ceph.conf", false);
        check("ceph-osd -f --id 1 --conf /y/ceph.conf", false);
        check("nacre osd --id 1", false);
        check("", false);
    }

    #[test]
    fn one_supervisor_at_a_time() {
        let dir = Scratch::new();
        let layout = Layout::new(dir.path()).unwrap();
        assert_eq!(supervisor_pid(&layout), None);
        let lock = SupervisorLock::take(&layout).unwrap().unwrap();
        assert!(SupervisorLock::take(&layout).unwrap().is_none());
        assert_eq!(supervisor_pid(&layout).map(|pid| pid.as_raw_nonzero().get() as u32), Some(std::process::id()));
        drop(lock);
        // A child that another test has just forked shares the lock until it becomes its program.
        assert!(wait_until_gone(Duration::from_secs(30), || supervisor_pid(&layout).is_some()), "the lock is free");
        assert!(SupervisorLock::take(&layout).unwrap().is_some());
    }
}
