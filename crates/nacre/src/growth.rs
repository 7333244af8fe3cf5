//! More OSDs for a cluster that is there, running or not: `nacre up --osds N` with a larger N than it has.
//!
//! The new OSDs' files are made, then the state file tells of them; a supervisor that runs is told by a signal and starts them.
//! What becomes of data is the monitors' business, as with any OSD that comes in.

use crate::byte_size::ByteSize;
use crate::cli;
use crate::conf_writer::ceph_conf;
use crate::creation;
use crate::health::Health;
use crate::layout::Layout;
use crate::preflight;
use crate::process::supervisor_pid;
use crate::report::{Event, Report};
use crate::state_file::{ClusterState, Engine, Found, look, write_durably};
use crate::up::{agrees, connect_briefly};
use anyhow::{Context, Result, bail};
use rustix::fs::{FlockOperation, flock};
use rustix::process::{Signal, kill_process};
use std::fs::File;
use std::path::Path;
use std::time::{Duration, Instant};

/// What a supervisor that runs is told with.
pub const SIGNAL: Signal = Signal::USR1;
/// New OSDs have to be up by then.
const UP_WITHIN: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(200);

/// The cluster in `layout`'s directory and how many OSDs it is to have, if it runs and the flags ask for another number than it has.
pub fn of_running(layout: &Layout, options: &cli::Up) -> Result<Option<(ClusterState, u32)>> {
    let Some(osds) = options.osds.filter(|_| supervisor_pid(layout).is_some()) else { return Ok(None) };
    match look(layout)? {
        Found::Cluster(state) if osds != state.osds => Ok(Some((state, osds))),
        _ => Ok(None),
    }
}

/// Makes the files of OSDs up to number `osds`, and has the state file tell of them. Gives the new state.
///
/// Errors: nothing has changed.
pub async fn add_osds(
    layout: &Layout,
    state: &ClusterState,
    osds: u32,
    program: &Path,
    report: &mut Report,
) -> Result<ClusterState> {
    if state.engine == Engine::Ceph {
        bail!("OSDs are not added to a cluster of Ceph's daemons; make a new one in another --dir");
    }
    let added = osds - state.osds;
    preflight::osd_size(Some(ByteSize(state.osd_size_bytes)), added, preflight::free_space(layout.dir())?)?;
    let grown = ClusterState { osds, ..state.clone() };
    // Nothing of what an earlier attempt left was ever used.
    let old: Vec<_> = state.outside_files();
    let outside: Vec<_> = grown.outside_files().into_iter().filter(|path| !old.contains(path)).collect();
    let folders: Vec<_> = (state.osds..osds).map(|id| layout.dir().join(format!("osd.{id}"))).collect();
    let clear = || -> Result<()> {
        for path in &outside {
            if path.symlink_metadata().is_ok() {
                std::fs::remove_file(path).with_context(|| format!("cannot remove {}", path.display()))?;
            }
        }
        for path in folders.iter().filter(|path| path.exists()) {
            std::fs::remove_dir_all(path).with_context(|| format!("cannot remove {}", path.display()))?;
        }
        Ok(())
    };
    clear()?;
    write_durably(&layout.conf(), ceph_conf(layout, &grown).as_bytes(), 0o644)?;
    for id in state.osds..osds {
        report.send(Event::Step(format!("creating osd.{id} ({} of {added})", id - state.osds + 1)))?;
        if let Err(error) = creation::mkfs(layout, &format!("osd.{id}"), program).await {
            clear().context("cleaning up")?;
            return Err(error);
        }
    }
    grown.save(layout)?;
    Ok(grown)
}

/// Adds OSDs to a cluster that runs, and waits until they are up.
///
/// Errors: it has more than are asked for, or another flag does not agree with it.
pub async fn grow_running(
    layout: &Layout,
    (state, osds): (ClusterState, u32),
    options: &cli::Up,
    report: &mut Report,
) -> Result<()> {
    agrees(&state, options)?;
    let lock = File::create(layout.run_dir().join("growth.lock")).context("cannot take the lock for adding OSDs")?;
    flock(&lock, FlockOperation::NonBlockingLockExclusive)
        .context("somebody else is adding OSDs to this cluster; try again when that is done")?;
    let program = std::env::current_exe().context("cannot find this program's own file")?;
    let grown = add_osds(layout, &state, osds, &program, report).await?;
    let pid =
        supervisor_pid(layout).context("the cluster was stopped meanwhile; 'nacre up' starts it with the new OSDs")?;
    kill_process(pid, SIGNAL).context("cannot tell the cluster's supervisor")?;
    let started = Instant::now();
    loop {
        let up = async { Health::ask(&connect_briefly(layout).await?).await };
        if let Ok(health) = up.await {
            if health.osds_up >= grown.osds.into() {
                break;
            }
            report.send(Event::Step(format!("starting: {}", health.progress(grown.osds))))?;
        }
        if started.elapsed() > UP_WITHIN {
            bail!("not all of the new OSDs are up after {} s; see {}", UP_WITHIN.as_secs(), layout.log_dir().display());
        }
        tokio::time::sleep(POLL).await;
    }
    let dir = layout.dir().display();
    report.send(Event::Ready(format!(
        "{} OSDs are up; data moves to the new ones now, see 'nacre status --dir {dir}'",
        grown.osds
    )))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;
    use crate::state_file::tests::sample;

    #[tokio::test(flavor = "current_thread")]
    async fn all_or_nothing_is_added() {
        let dir = Scratch::new();
        let layout = Layout::new(&dir.path().join("cluster")).unwrap();
        std::fs::create_dir_all(layout.run_dir()).unwrap();
        let state = ClusterState { wal_dir: Some(dir.path().to_owned()), ..sample() };
        state.save(&layout).unwrap();
        // `--conf` is the fifth argument; its directory is the cluster's.
        let bad =
            dir.program("mkdir $(dirname $5)/$1.$3; [ $1.$3 != osd.3 ] || { echo 'error: no room' >&2; exit 1; }");
        let error = add_osds(&layout, &state, 4, &bad, &mut Report::Log).await.unwrap_err();
        assert_eq!(error.to_string(), "osd.3 could not be created: no room");
        assert_eq!(look(&layout).unwrap(), Found::Cluster(state.clone()));
        assert!(!layout.dir().join("osd.2").exists());
        // What a killed attempt left is no hindrance.
        std::fs::create_dir(layout.dir().join("osd.2")).unwrap();
        std::fs::write(dir.path().join("osd.3.wal"), "x").unwrap();
        std::fs::write(dir.path().join("osd.1.wal"), "theirs").unwrap();
        let good = dir.program("mkdir $(dirname $5)/$1.$3");
        let grown = add_osds(&layout, &state, 4, &good, &mut Report::Log).await.unwrap();
        assert_eq!((grown.osds, look(&layout).unwrap()), (4, Found::Cluster(grown.clone())));
        assert!(layout.dir().join("osd.3").is_dir() && dir.path().join("osd.1.wal").exists());
        assert!(!dir.path().join("osd.3.wal").exists());
        let ceph = ClusterState { engine: Engine::Ceph, ..state };
        let error = add_osds(&layout, &ceph, 4, &good, &mut Report::Log).await.unwrap_err();
        assert!(error.to_string().contains("Ceph"), "{error}");
    }
}
