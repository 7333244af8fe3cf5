//! `nacre up --osds N --mons N` on a cluster that exists: adds OSDs and monitors, if the numbers are larger than those
//! that the cluster has, whether it runs or not. A cluster that runs can be given fewer monitors, too.
//!
//! To add daemons, the program makes their files, then names them in the state file, then signals the supervisor, if it
//! runs, which starts them. The monitors move data to new OSDs as to any OSD that comes in; new monitors join by
//! themselves. To remove a monitor, the program has the other monitors remove it, then takes it out of the state file
//! and the supervisor, then deletes its folder.

use crate::byte_size::ByteSize;
use crate::cli;
use crate::conf_writer::ceph_conf;
use crate::growth_lock::GrowthLock;
use crate::health::{Health, json_command};
use crate::layout::Layout;
use crate::making::Making;
use crate::new_keys;
use crate::preflight;
use crate::process::{LOOK_AGAIN, daemon_pid, supervisor_pid};
use crate::report::{Event, Report};
use crate::state_file::{ClusterState, Engine, Found, look, mon_id, require, write_durably};
use crate::up::{agrees, connect_briefly};
use anyhow::{Context, Result, bail};
use auth::KeyKind;
use client::Cluster;
use rustix::process::kill_process;
use serde_json::json;
use std::path::Path;
use std::time::{Duration, Instant};

/// New OSDs have to be up, and new monitors to decide, by then.
const UP_WITHIN: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(200);
/// Interval of looks for the end of a daemon. It is shorter than the time after which the supervisor starts a daemon
/// again.
const END_POLL: Duration = Duration::from_millis(50);
/// Time within which a monitor that was removed has to end.
const REMOVED_WITHIN: Duration = Duration::from_secs(30);

/// How many daemons a cluster is to have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wanted {
    pub osds: u32,
    pub mons: u32,
}

impl Wanted {
    /// The numbers of daemons that the flags ask for, of a cluster that is there.
    pub fn of(options: &cli::Up, state: &ClusterState) -> Wanted {
        Wanted { osds: options.osds.unwrap_or(state.osds), mons: options.mons.unwrap_or(state.mons) }
    }
}

/// Tells if the cluster in `layout`'s directory runs, and the flags ask for other numbers of daemons than it has.
pub fn is_asked_of_running(layout: &Layout, options: &cli::Up) -> Result<bool> {
    if options.osds.or(options.mons).is_none() || supervisor_pid(layout).is_none() {
        return Ok(false);
    }
    let Found::Cluster(state) = look(layout)? else { return Ok(false) };
    Ok(Wanted::of(options, &state) != Wanted { osds: state.osds, mons: state.mons })
}

/// Makes the files of OSDs and monitors up to the numbers that are `wanted`, and has the state file tell of them.
/// `state` was read with the lock held. Gives the new state. Smaller numbers change nothing.
///
/// Errors: nothing has changed.
pub async fn add(
    layout: &Layout,
    lock: &GrowthLock,
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
    let new_mons = (state.mons..mons).map(|index| format!("mon.{}", mon_id(index)));
    let daemons: Vec<_> = new_mons.chain((state.osds..osds).map(|id| format!("osd.{id}"))).collect();
    let grown = ClusterState { osds, mons, ..state.clone() };
    let mut making = Making::begin(layout, lock, &grown, &daemons)?;
    preflight::ports_are_free(state.bind, (state.mons..mons).map(|index| state.mon_port(index)))?;
    write_durably(&layout.conf(), ceph_conf(layout, &grown).as_bytes(), 0o644)?;
    let made = async {
        for (index, daemon) in daemons.iter().enumerate() {
            report.send(Event::Step(format!("creating {daemon} ({} of {})", index + 1, daemons.len())))?;
            making.make(daemon, program).await?;
        }
        making.place()?;
        if grown.has_keys() {
            let osds: Vec<String> = daemons.iter().filter(|daemon| daemon.starts_with("osd.")).cloned().collect();
            new_keys::keep(layout, &osds)?;
        }
        grown.save(layout)
    };
    if let Err(error) = made.await {
        if matches!(look(layout), Ok(Found::Cluster(saved)) if saved == grown) {
            state.save(layout).context("cleaning up")?;
        }
        write_durably(&layout.conf(), ceph_conf(layout, state).as_bytes(), 0o644).context("cleaning up")?;
        return Err(error);
    }
    making.keep();
    Ok(grown)
}

/// Refuses OSDs that the monitors would not take.
async fn may_be_added(layout: &Layout, osds: std::ops::Range<u32>, have_keys: bool) -> Result<()> {
    let cluster = connect_briefly(layout).await?;
    are_unknown(&cluster, osds).await?;
    if have_keys { keys_are_allowed(&cluster).await } else { Ok(()) }
}

/// Refuses numbers of OSDs that the monitors know: somebody added them by hand, wherever their stores lie.
async fn are_unknown(cluster: &Cluster, osds: std::ops::Range<u32>) -> Result<()> {
    let dump = json_command(cluster, json!({"prefix": "osd dump"})).await?;
    let known = dump["osds"].as_array().context("the monitors do not name the OSDs")?;
    let known = known.iter().filter_map(|osd| osd["osd"].as_u64()).find(|id| osds.contains(&(*id as u32)));
    match known {
        Some(id) => bail!("the cluster has an osd.{id} that was added by hand; add others by hand, too"),
        None => Ok(()),
    }
}

/// Refuses new OSDs whose keys, of kind `aes`, the monitors would not take.
async fn keys_are_allowed(cluster: &Cluster) -> Result<()> {
    let asked = json!({"prefix": "config get", "who": "mon", "key": "auth_allowed_ciphers"}).to_string();
    let reply = cluster.mon_command(&asked, Default::default()).await?;
    // Monitors of earlier software do not know the option, and take all kinds.
    if reply.result != 0 {
        return Ok(());
    }
    let kinds = KeyKind::list(String::from_utf8_lossy(&reply.output).trim());
    if !kinds.context("the monitors' 'auth_allowed_ciphers' cannot be read")?.contains(&KeyKind::Aes) {
        bail!(
            "new OSDs get keys of kind 'aes', which 'auth_allowed_ciphers' does not allow; allow them \
             ('ceph config set mon auth_allowed_ciphers aes,aes256k'), and replace their keys afterwards"
        );
    }
    Ok(())
}

/// Adds OSDs and monitors to a cluster that runs, or removes monitors, and waits until they are up or gone.
///
/// Errors: it has more OSDs than are asked for, or another flag does not agree with it.
pub async fn change_running(layout: &Layout, options: &cli::Up, report: &mut Report) -> Result<()> {
    let lock = GrowthLock::take(layout)?;
    let state = require(layout)?;
    agrees(&state, options)?;
    let wanted = Wanted::of(options, &state);
    let program = std::env::current_exe().context("cannot find this program's own file")?;
    let mut grown = state;
    if wanted.osds > grown.osds || wanted.mons > grown.mons {
        if wanted.osds > grown.osds {
            let has_keys = grown.cephx || grown.offers_cephx;
            may_be_added(layout, grown.osds..wanted.osds, has_keys).await.context("no OSD is added")?;
        }
        grown = add(layout, &lock, &grown, wanted, &program, report).await?;
        new_keys::import(&connect_briefly(layout).await?, layout).await?;
        tell_supervisor(layout)?;
    }
    let started = Instant::now();
    loop {
        let up = async {
            let cluster = connect_briefly(layout).await?;
            let purged = new_keys::purged(&cluster, &grown).await?.len() as u32;
            anyhow::Ok((Health::ask(&cluster).await?, grown.osds - purged))
        };
        if let Ok((health, osds)) = up.await {
            let decide = grown.mon_ids().filter(|id| health.mons.contains(id)).count();
            if health.osds_up >= osds.into() && decide >= grown.mons as usize {
                break;
            }
            let progress = health.progress(osds);
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
    kill_process(pid, LOOK_AGAIN).context("cannot tell the cluster's supervisor")
}

/// Removes the last monitor of a cluster that runs. Gives the new state. What was cut off half-way is completed by the
/// next try.
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
    // Until the others have decided that it is gone they may need it, to hand over its leadership and as one of a
    // majority. They tell it then, and it ends; its supervisor starts it again some time later.
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

    /// A cluster of two OSDs and a monitor whose OSDs' logs lie beside its directory. No outgoing connection of this
    /// machine is given its ports, and each process of tests has others.
    fn cluster(dir: &Scratch) -> (Layout, ClusterState) {
        let layout = Layout::new(&dir.path().join("cluster")).unwrap();
        std::fs::create_dir_all(layout.run_dir()).unwrap();
        let port = 10_000 + u16::try_from(std::process::id() % 900).unwrap() * 10;
        let state = ClusterState { wal_dir: Some(dir.path().to_owned()), port, ..sample() };
        state.save(&layout).unwrap();
        (layout, state)
    }

    /// Makes the folder that `--data`, the sixth argument, names, and as a real one the log's file and a link to it.
    fn making(dir: &Scratch, failing: &str) -> std::path::PathBuf {
        dir.program(&format!(
            "[ $1.$3 != {failing} ] || {{ echo 'error: no room' >&2; exit 1; }}; mkdir $7 || exit 1; [ $1 = osd ] || exit 0; \
             wal={}/osd.$3.{}.wal; echo made > $wal; ln -s $wal $7/block.wal",
            dir.path().display(),
            sample().fsid
        ))
    }

    fn names(layout: &Layout) -> Vec<String> {
        let names = std::fs::read_dir(layout.dir()).unwrap();
        let mut names: Vec<String> = names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.retain(|name| name.starts_with("osd.") || name.starts_with("mon."));
        names.sort();
        names
    }

    #[tokio::test(flavor = "current_thread")]
    async fn all_or_nothing_is_added() {
        let dir = Scratch::new();
        let (layout, state) = cluster(&dir);
        let lock = GrowthLock::take(&layout).unwrap();
        let wanted = Wanted { osds: 4, mons: 2 };
        let wal = |id: u32| state.outside_file(dir.path(), &format!("osd.{id}"), "wal");
        let bad = making(&dir, "osd.3");
        let error = add(&layout, &lock, &state, wanted, &bad, &mut Report::Log).await.unwrap_err();
        assert_eq!(error.to_string(), "osd.3 could not be created: no room");
        assert_eq!(look(&layout).unwrap(), Found::Cluster(state.clone()));
        assert_eq!(names(&layout), [""; 0]);
        assert!(!wal(2).exists(), "made for what is not there");
        let conf = std::fs::read_to_string(layout.conf()).unwrap();
        assert!(!conf.contains("mon.b"), "{conf}");

        let good = making(&dir, "none");
        let grown = add(&layout, &lock, &state, wanted, &good, &mut Report::Log).await.unwrap();
        assert_eq!((grown.osds, grown.mons, look(&layout).unwrap()), (4, 2, Found::Cluster(grown.clone())));
        assert_eq!(names(&layout), ["mon.b", "osd.2", "osd.3"]);
        assert!(wal(3).exists());
        let ceph = ClusterState { engine: Engine::Ceph, ..state };
        let error = add(&layout, &lock, &ceph, wanted, &good, &mut Report::Log).await.unwrap_err();
        assert!(error.to_string().contains("Ceph"), "{error}");
    }

    /// By hand, or by a program that had a newer state file.
    #[tokio::test(flavor = "current_thread")]
    async fn daemons_that_others_made_are_left_alone() {
        let dir = Scratch::new();
        let (layout, state) = cluster(&dir);
        let lock = GrowthLock::take(&layout).unwrap();
        let good = making(&dir, "none");
        for (daemon, wanted) in [("osd.3", Wanted { osds: 4, mons: 1 }), ("mon.b", Wanted { osds: 2, mons: 2 })] {
            let theirs = layout.dir().join(daemon).join("block");
            std::fs::create_dir(layout.dir().join(daemon)).unwrap();
            std::fs::write(&theirs, "data").unwrap();
            let error = add(&layout, &lock, &state, wanted, &good, &mut Report::Log).await.unwrap_err().to_string();
            assert!(error.contains(&format!("{daemon} exists already")), "{error}");
            assert_eq!(std::fs::read(&theirs).unwrap(), b"data");
            assert_eq!(
                (names(&layout), look(&layout).unwrap()),
                (vec![daemon.to_owned()], Found::Cluster(state.clone()))
            );
            std::fs::remove_dir_all(layout.dir().join(daemon)).unwrap();
        }
        // One that appears while others are made.
        let race = dir
            .program(&format!("mkdir $7; mkdir -p {0}/osd.3 && echo data > {0}/osd.3/block", layout.dir().display()));
        let error =
            add(&layout, &lock, &state, Wanted { osds: 4, mons: 1 }, &race, &mut Report::Log).await.unwrap_err();
        assert!(error.to_string().contains("was made by somebody else"), "{error}");
        assert_eq!(names(&layout), ["osd.3"], "osd.2 is gone again");
        assert_eq!(std::fs::read(layout.dir().join("osd.3/block")).unwrap(), b"data\n");
    }

    #[tokio::test(flavor = "current_thread")]
    async fn what_a_killed_attempt_left_goes_and_nothing_else() {
        let dir = Scratch::new();
        let (layout, state) = cluster(&dir);
        let lock = GrowthLock::take(&layout).unwrap();
        let left = layout.dir().join("osd.2.new-77");
        let (ours, theirs) = (state.outside_file(dir.path(), "osd.2", "wal"), dir.path().join("osd.2.wal"));
        std::fs::create_dir(&left).unwrap();
        [&ours, &theirs].into_iter().for_each(|path| std::fs::write(path, "left").unwrap());
        std::os::unix::fs::symlink(&ours, left.join("block.wal")).unwrap();
        std::os::unix::fs::symlink(&theirs, left.join("block.metadata")).unwrap();
        let good = making(&dir, "none");
        let wanted = Wanted { osds: 3, mons: 1 };
        add(&layout, &lock, &state, wanted, &good, &mut Report::Log).await.unwrap();
        assert_eq!(names(&layout), ["osd.2"]);
        assert_eq!(std::fs::read(&ours).unwrap(), b"made\n", "anew");
        assert_eq!(std::fs::read(&theirs).unwrap(), b"left", "of another cluster, or an older program");
    }

    #[test]
    fn one_at_a_time_adds() {
        let dir = Scratch::new();
        let (layout, _) = cluster(&dir);
        let lock = GrowthLock::take(&layout).unwrap();
        let error = GrowthLock::take(&layout).err().unwrap().to_string();
        assert!(error.contains("somebody else is adding daemons"), "{error}");
        drop(lock);
        GrowthLock::take(&layout).unwrap();
    }
}
