//! `nacre down`: stops the cluster of a directory.

use crate::cli;
use crate::layout::Layout;
use crate::process::{daemon_pid, signal, supervisor_pid, wait_until_gone};
use crate::state_file;
use anyhow::{Result, bail};
use rustix::process::Signal;
use std::time::Duration;

/// Time for a daemon to stop in order, before it is killed.
const STOP_TIMEOUT: Duration = Duration::from_secs(20);
/// A supervisor stops OSDs, then monitors, each in at most as long as that.
const SUPERVISOR_TIMEOUT: Duration = Duration::from_secs(45);
const KILL_TIMEOUT: Duration = Duration::from_secs(5);

/// Stops whatever runs: by asking the supervisor, else the OSDs and then the others; what does not stop is killed.
/// Doing it twice is no error.
pub fn run(options: &cli::Down) -> Result<()> {
    let layout = Layout::new(&options.dir.dir)?;
    let state = state_file::require(&layout)?;
    let daemons = state.daemons();
    let running = || daemons.iter().filter(|daemon| daemon_pid(&layout, daemon).is_some()).collect::<Vec<_>>();
    if supervisor_pid(&layout).is_none() && running().is_empty() {
        eprintln!("nothing runs in {}", layout.dir().display());
        return Ok(());
    }
    if let Some(pid) = supervisor_pid(&layout) {
        eprintln!("stopping the cluster in {}", layout.dir().display());
        signal(pid, Signal::TERM)?;
        if !wait_until_gone(SUPERVISOR_TIMEOUT, || supervisor_pid(&layout).is_some()) {
            eprintln!("the supervisor (process {}) does not stop; killing it", pid.as_raw_nonzero());
            signal(pid, Signal::KILL)?;
            wait_until_gone(KILL_TIMEOUT, || supervisor_pid(&layout).is_some());
        }
    }
    for kind in ["osd.", "mgr.", "mon."] {
        let of_kind = || running().into_iter().filter(|daemon| daemon.starts_with(kind)).collect::<Vec<_>>();
        for step in [Signal::TERM, Signal::KILL] {
            let left = of_kind();
            if left.is_empty() {
                break;
            }
            let (word, timeout) =
                if step == Signal::TERM { ("stopping", STOP_TIMEOUT) } else { ("killing", KILL_TIMEOUT) };
            for daemon in left {
                eprintln!("{word} {daemon}");
                if let Some(pid) = daemon_pid(&layout, daemon) {
                    signal(pid, step)?;
                }
            }
            wait_until_gone(timeout, || !of_kind().is_empty());
        }
        if let Some(daemon) = of_kind().first() {
            bail!("{daemon} does not even end when killed; is its disk stuck? see {}", layout.log(daemon).display());
        }
    }
    for daemon in &daemons {
        let _ = std::fs::remove_file(layout.pid_file(daemon));
    }
    eprintln!("stopped; the data stays, 'nacre up --dir {}' starts it again", layout.dir().display());
    Ok(())
}
