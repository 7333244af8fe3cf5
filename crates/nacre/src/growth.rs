//! More OSDs and monitors for a cluster that is there, running or not: `nacre up --osds N --mons N` with larger numbers than it
//! has. One that runs can get fewer monitors, too.
//!
//! The new daemons' files are made, then the state file tells of them; a supervisor that runs is told by a signal and starts
//! them. What becomes of data is the monitors' business, as with any OSD that comes in; monitors join by themselves. Fewer: the
//! other monitors remove one, then the state file and the supervisor do not know it any more, then its folder goes.

use crate::byte_size::ByteSize;
use crate::cli;
use crate::conf_writer::ceph_conf;
use crate::creation;
use crate::health::{Health, json_command};
use crate::layout::Layout;
use crate::preflight;
use crate::process::{daemon_pid, supervisor_pid};
use crate::report::{Event, Report};
use crate::state_file::{ClusterState, Engine, Found, look, mon_id, write_durably};
use crate::up::{agrees, connect_briefly};
use anyhow::{Context, Result, bail};
use rustix::fs::{FlockOperation, flock};
use rustix::process::{Signal, kill_process};
use serde_json::json;
use std::fs::File;
use std::path::Path;
use std::time::{Duration, Instant};

/// What a supervisor that runs is told with.
pub const SIGNAL: Signal = Signal::USR1;
/// New OSDs have to be up, and new monitors to decide, by then.
const UP_WITHIN: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(200);
/// Less than what passes before a daemon that ended is started again.
const END_POLL: Duration = Duration::from_millis(50);
/// A monitor that was removed has ended by then.
const REMOVED_WITHIN: Duration = Duration::from_secs(30);

/// How many daemons a cluster is to have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wanted {
    pub osds: u32,
    pub mons: u32,
}

impl Wanted {
    /// What the flags ask for, of a cluster that is there.
    pub fn of(options: &cli::Up, state: &ClusterState) -> Wanted {
        Wanted { osds: options.osds.unwrap_or(state.osds), mons: options.mons.unwrap_or(state.mons) }
    }
}

/// The cluster in `layout`'s directory and what it is to have, if it runs and the flags ask for other numbers than it has.
pub fn of_running(layout: &Layout, options: &cli::Up) -> Result<Option<(ClusterState, Wanted)>> {
    if options.osds.or(options.mons).is_none() || supervisor_pid(layout).is_none() {
        return Ok(None);
    }
    let Found::Cluster(state) = look(layout)? else { return Ok(None) };
    let (wanted, has) = (Wanted::of(options, &state), Wanted { osds: state.osds, mons: state.mons });
    Ok((wanted != has).then_some((state, wanted)))
}

/// Makes the files of OSDs and monitors up to the numbers that are `wanted`, and has the state file tell of them. Gives the new
/// state. Smaller numbers change nothing.
///
/// Errors: nothing has changed.
pub async fn add(
    layout: &Layout,
    state: &ClusterState,
    wanted: Wanted,
    program: &Path,
    report: &mut Report,
) -> Result<ClusterState> {
    if state.engine == Engine::Ceph {
        bail!("OSDs and monitors are not added to a cluster of Ceph's daemons; make a new one in another --dir");
    }
    let (osds, mons) = (wanted.osds.max(state.osds), wanted.mons.max(state.mons));
    if osds > state.osds {
        let added = osds - state.osds;
        preflight::osd_size(Some(ByteSize(state.osd_size_bytes)), added, preflight::free_space(layout.dir())?)?;
    }
    preflight::port_range(state.port, mons)?;
    let new_mons: Vec<String> = (state.mons..mons).map(|index| format!("mon.{}", mon_id(index))).collect();
    // Somebody may have added a monitor by hand, so nothing of it is taken away.
    if let Some(folder) = new_mons.iter().map(|mon| layout.dir().join(mon)).find(|folder| folder.exists()) {
        bail!("{} exists already; remove it if nothing in it is needed", folder.display());
    }
    preflight::ports_are_free(state.bind, (state.mons..mons).map(|index| state.mon_port(index)))?;
    let grown = ClusterState { osds, mons, ..state.clone() };
    // Nothing of what an earlier attempt left was ever used.
    let old: Vec<_> = state.outside_files();
    let outside: Vec<_> = grown.outside_files().into_iter().filter(|path| !old.contains(path)).collect();
    let daemons: Vec<_> = new_mons.into_iter().chain((state.osds..osds).map(|id| format!("osd.{id}"))).collect();
    let folders: Vec<_> = daemons.iter().map(|daemon| layout.dir().join(daemon)).collect();
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
    for (index, daemon) in daemons.iter().enumerate() {
        report.send(Event::Step(format!("creating {daemon} ({} of {})", index + 1, daemons.len())))?;
        if let Err(error) = creation::mkfs(layout, daemon, program).await {
            clear().context("cleaning up")?;
            write_durably(&layout.conf(), ceph_conf(layout, state).as_bytes(), 0o644).context("cleaning up")?;
            return Err(error);
        }
    }
    grown.save(layout)?;
    Ok(grown)
}

/// Adds OSDs and monitors to a cluster that runs, or removes monitors, and waits until they are up or gone.
///
/// Errors: it has more OSDs than are asked for, or another flag does not agree with it.
pub async fn change_running(
    layout: &Layout,
    (state, wanted): (ClusterState, Wanted),
    options: &cli::Up,
    report: &mut Report,
) -> Result<()> {
    agrees(&state, options)?;
    let lock = File::create(layout.run_dir().join("growth.lock")).context("cannot take the lock for adding daemons")?;
    flock(&lock, FlockOperation::NonBlockingLockExclusive)
        .context("somebody else is adding daemons to this cluster; try again when that is done")?;
    let program = std::env::current_exe().context("cannot find this program's own file")?;
    let mut grown = state;
    if wanted.osds > grown.osds || wanted.mons > grown.mons {
        grown = add(layout, &grown, wanted, &program, report).await?;
        tell_supervisor(layout)?;
    }
    let started = Instant::now();
    loop {
        let up = async { Health::ask(&connect_briefly(layout).await?).await };
        if let Ok(health) = up.await {
            let decide = grown.mon_ids().filter(|id| health.mons.contains(id)).count();
            if health.osds_up >= grown.osds.into() && decide >= grown.mons as usize {
                break;
            }
            let progress = health.progress(grown.osds);
            report.send(Event::Step(format!("starting: {decide} of {} monitors, {progress}", grown.mons)))?;
        }
        if started.elapsed() > UP_WITHIN {
            bail!(
                "not all of the new daemons are up after {} s; see {}",
                UP_WITHIN.as_secs(),
                layout.log_dir().display()
            );
        }
        tokio::time::sleep(POLL).await;
    }
    while grown.mons > wanted.mons {
        grown = remove_monitor(layout, &grown, report).await?;
    }
    let dir = layout.dir().display();
    let mons = if grown.mons == 1 { "1 monitor decides".to_owned() } else { format!("{} monitors decide", grown.mons) };
    report.send(Event::Ready(format!(
        "{mons}, {} OSDs are up; if some are new, data moves to them now, see 'nacre status --dir {dir}'",
        grown.osds
    )))?;
    Ok(())
}

fn tell_supervisor(layout: &Layout) -> Result<()> {
    let pid = supervisor_pid(layout).context("the cluster was stopped meanwhile; 'nacre up' starts it as it is now")?;
    kill_process(pid, SIGNAL).context("cannot tell the cluster's supervisor")
}

/// Removes the last monitor of a cluster that runs. Gives the new state. What was cut off half-way is completed by the next try.
///
/// Errors: the monitors refuse it; it does not end.
async fn remove_monitor(layout: &Layout, state: &ClusterState, report: &mut Report) -> Result<ClusterState> {
    let id = mon_id(state.mons - 1);
    let daemon = format!("mon.{id}");
    report.send(Event::Step(format!("removing {daemon}")))?;
    let cluster = connect_briefly(layout).await?;
    let reply = cluster.mon_command(&json!({"prefix": "mon rm", "name": id}).to_string(), Default::default()).await?;
    if let Some(errno) = types::Errno::from_result(reply.result) {
        bail!("{daemon} is not removed: {} ({errno})", reply.status.trim());
    }
    let started = Instant::now();
    let is_member = async || {
        let dump = json_command(&connect_briefly(layout).await?, json!({"prefix": "mon dump"})).await?;
        let mons = dump["mons"].as_array().context("the monitors do not name themselves")?;
        anyhow::Ok(mons.iter().any(|mon| mon["name"] == id.as_str()))
    };
    while is_member().await.unwrap_or(true) {
        if started.elapsed() > REMOVED_WITHIN {
            bail!(
                "{daemon} is still a member after {} s; see {}",
                REMOVED_WITHIN.as_secs(),
                layout.log_dir().display()
            );
        }
        tokio::time::sleep(POLL).await;
    }
    // Until the others have decided that it is gone they may need it, to hand over its leadership and as one of a majority. They
    // tell it then, and it ends; its supervisor starts it again some time later.
    wait_for_end(layout, &daemon, started).await?;
    let smaller = ClusterState { mons: state.mons - 1, ..state.clone() };
    smaller.save(layout)?;
    write_durably(&layout.conf(), ceph_conf(layout, &smaller).as_bytes(), 0o644)?;
    tell_supervisor(layout)?;
    wait_for_end(layout, &daemon, started).await?;
    let folder = layout.dir().join(&daemon);
    std::fs::remove_dir_all(&folder).with_context(|| format!("cannot remove {}", folder.display()))?;
    Ok(smaller)
}

async fn wait_for_end(layout: &Layout, daemon: &str, started: Instant) -> Result<()> {
    while daemon_pid(layout, daemon).is_some() {
        if started.elapsed() > REMOVED_WITHIN {
            bail!("{daemon} still runs after {} s; see {}", REMOVED_WITHIN.as_secs(), layout.log_dir().display());
        }
        tokio::time::sleep(END_POLL).await;
    }
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
        let wanted = Wanted { osds: 4, mons: 2 };
        // `--conf` is the fifth argument; its directory is the cluster's.
        let bad =
            dir.program("mkdir $(dirname $5)/$1.$3; [ $1.$3 != osd.3 ] || { echo 'error: no room' >&2; exit 1; }");
        let error = add(&layout, &state, wanted, &bad, &mut Report::Log).await.unwrap_err();
        assert_eq!(error.to_string(), "osd.3 could not be created: no room");
        assert_eq!(look(&layout).unwrap(), Found::Cluster(state.clone()));
        assert!(!layout.dir().join("osd.2").exists() && !layout.dir().join("mon.b").exists());
        let conf = std::fs::read_to_string(layout.conf()).unwrap();
        assert!(!conf.contains("mon.b"), "{conf}");
        // What a killed attempt left is no hindrance.
        std::fs::create_dir(layout.dir().join("osd.2")).unwrap();
        std::fs::write(dir.path().join("osd.3.wal"), "x").unwrap();
        std::fs::write(dir.path().join("osd.1.wal"), "theirs").unwrap();
        let good = dir.program("mkdir $(dirname $5)/$1.$3");
        let grown = add(&layout, &state, wanted, &good, &mut Report::Log).await.unwrap();
        assert_eq!((grown.osds, grown.mons, look(&layout).unwrap()), (4, 2, Found::Cluster(grown.clone())));
        assert!(layout.dir().join("mon.b").is_dir());
        // A folder that nobody here made is left alone.
        std::fs::create_dir(layout.dir().join("mon.c")).unwrap();
        let more = Wanted { osds: 4, mons: 3 };
        let error = add(&layout, &grown, more, &good, &mut Report::Log).await.unwrap_err();
        assert!(error.to_string().contains("mon.c exists already"), "{error}");
        assert!(layout.dir().join("osd.3").is_dir() && dir.path().join("osd.1.wal").exists());
        assert!(!dir.path().join("osd.3.wal").exists());
        let ceph = ClusterState { engine: Engine::Ceph, ..state };
        let error = add(&layout, &ceph, wanted, &good, &mut Report::Log).await.unwrap_err();
        assert!(error.to_string().contains("Ceph"), "{error}");
    }
}
