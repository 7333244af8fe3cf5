//! `nacre mon` and `nacre osd`: the daemons.

use crate::conf_writer::random_bytes;
use crate::osd_daemon::{admin_socket, bind_address, monitors};
use crate::{cli, descriptors, machine, privileges};
use anyhow::{Context, Result, bail};
use auth::Key;
use auth::keyring::{Keyring, parse_entity};
use client::{ConfFile, DaemonLogin, Who};
use mon::Survivor;
use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};
use std::collections::BTreeMap;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use types::Utime;
use wire::EntityAddrVec;

/// Options that the monitors keep from the start if the file they are made from has them.
const FIRST_OPTIONS: [&str; 4] =
    ["mon_allow_pool_delete", "mon_max_pg_per_osd", "osd_pool_default_pg_num", "osd_pool_default_size"];

/// Asks the kernel to stop this process when its supervisor ends, however it ends.
///
/// Errors: the supervisor has ended already.
pub fn follow_supervisor(supervised_by: Option<u32>) -> Result<()> {
    let Some(pid) = supervised_by else { return Ok(()) };
    set_parent_process_death_signal(Some(Signal::TERM)).context("cannot follow the supervisor")?;
    // The supervisor may have ended before the kernel was asked.
    if getppid() != Pid::from_raw(pid as i32) {
        bail!("the supervisor (process {pid}) has ended");
    }
    Ok(())
}

/// Makes the process what a daemon is: with as many descriptors as it may have, under its user, and tied to its
/// supervisor.
fn begin(options: &cli::Daemon) -> Result<()> {
    descriptors::allow_as_many_as_possible();
    privileges::drop_to(options.setuser.as_deref(), options.setgroup.as_deref())?;
    // The kernel forgets this when a process becomes another user's.
    follow_supervisor(options.supervised_by)
}

/// A daemon's options, from flags and configuration; flags win.
pub struct Settings<'a> {
    pub conf: ConfFile,
    pub who: Who,
    pub flags: &'a cli::Daemon,
}

impl<'a> Settings<'a> {
    pub fn read(kind: &str, id: &str, flags: &'a cli::Daemon) -> Result<Settings<'a>> {
        Ok(Settings { conf: ConfFile::load(&flags.conf)?, who: Who::new(kind, id), flags })
    }

    pub fn data(&self) -> Result<PathBuf> {
        match &self.flags.data {
            Some(path) => Ok(path.clone()),
            None => Ok(self.conf.require(&self.who, &format!("{} data", self.who.kind))?.into()),
        }
    }
}

/// The entities that the cluster begins with: those of the keyring that clients use, if there is one, and those that
/// every cluster has.
fn first_keys(keyring: Option<PathBuf>) -> Result<BTreeMap<String, mon::state::AuthEntry>> {
    let path = keyring.filter(|path| path.exists());
    let text = match &path {
        Some(path) => std::fs::read(path).with_context(|| format!("cannot read the keyring {}", path.display()))?,
        None => Vec::new(),
    };
    let mut entropy = random_bytes::<1024>()?.into_iter();
    let mut fill = |out: &mut [u8]| out.fill_with(|| entropy.next().expect("eight keys have 128 bytes"));
    let keyring = path.as_deref().map(|path| (path, &text[..]));
    Ok(mon::bootstrap::first_entities(keyring, Utime::from(std::time::SystemTime::now()), &mut fill)?)
}

/// The key that the monitors of a cluster share, from the keyring of `--keyring`.
fn monitors_key(options: &cli::Mon) -> Result<Option<Key>> {
    let Some(path) = &options.keyring else { return Ok(None) };
    let text = std::fs::read(path).with_context(|| format!("cannot read the keyring {}", path.display()))?;
    let ring = Keyring::parse(path, &text)?;
    let entry = parse_entity(mon::state::MONITORS).and_then(|monitors| ring.find(&monitors).cloned());
    let Some(entry) = entry else { bail!("{} has no '[{}]'", path.display(), mon::state::MONITORS) };
    Ok(Some(entry.key))
}

pub fn mon(options: &cli::Mon) -> Result<()> {
    begin(&options.daemon)?;
    let settings = Settings::read("mon", &options.id, &options.daemon)?;
    let data = settings.data()?;
    let get = |key: &str| settings.conf.get(&settings.who, key);
    let addr = options.daemon.public_addr.clone().or_else(|| get("public addr"));
    let addr = addr.map(|text| bind_address(&text).context("'public addr'")).transpose()?;
    if options.daemon.mkfs {
        let Some(addr) = addr.filter(|addr| addr.port() != 0) else {
            bail!(
                "mon.{0} needs an address with a port: --public-addr, or 'public addr' in section [mon.{0}]",
                options.id
            );
        };
        let fsid = settings.conf.require(&settings.who, "fsid")?;
        let fsid = fsid.parse().map_err(|_| settings.conf.bad_value("fsid", &fsid, "is not a UUID"))?;
        if options.join {
            return Ok(mon::mkfs_to_join(&data, fsid, &options.id, monitors_key(options)?.as_ref())?);
        }
        let named = |key: &str| get(key).map(|value| ("global".to_owned(), key.to_owned(), value));
        let spec = mon::BootstrapSpec {
            fsid,
            monitors: vec![(options.id.clone(), EntityAddrVec::msgr2(addr, 0))],
            config: FIRST_OPTIONS.into_iter().filter_map(named).collect(),
            auth: first_keys(options.keyring.clone().or_else(|| get("keyring").map(PathBuf::from)))?,
            now: Utime::from(std::time::SystemTime::now()),
        };
        return Ok(mon::mkfs(&data, &spec)?);
    }
    if options.force_sole {
        return force_sole(&data, &options.id, options.yes_i_really_mean_it);
    }
    let bind = addr.filter(|addr| addr.port() != 0).into_iter().collect();
    let peers = monitors(&settings).unwrap_or_default();
    let own = monitor_options(&settings, &options.id);
    let login = DaemonLogin::from_file(&settings.conf, &settings.who)?;
    let mon_options = mon::MonOptions {
        name: options.id.clone(),
        data,
        bind,
        peers,
        metadata: monitor_metadata(),
        auth: login.map(|login| (login.accept, login.connect)),
        insecure: options.daemon.insecure,
        admin_socket: admin_socket(&own),
        settings: own,
        set_log_filter: Some(crate::logging::refine),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let stop = asked_to_stop()?;
        Ok(mon::run(mon_options, stop).await?)
    })
}

/// Notes the options that a daemon has from its command line.
pub fn note_flags(options: &mut control::Settings, kind: &str, flags: &cli::Daemon) {
    let data = flags.data.as_ref().map(|path| path.display().to_string());
    let named = [
        (format!("{kind}_data"), data.as_ref()),
        ("public_addr".to_owned(), flags.public_addr.as_ref()),
        ("cluster_addr".to_owned(), flags.cluster_addr.as_ref()),
        ("mon_host".to_owned(), flags.mon_host.as_ref()),
    ];
    for (name, text) in named {
        if let Some(text) = text
            && let Err(why) = options.from_command_line(&name, text)
        {
            tracing::debug!("option '{name}' of the command line is not told as '{text}': {why}");
        }
    }
}

/// The options of the monitor `id`: of its `ceph.conf` all but those that monitors take from the cluster alone.
fn monitor_options(settings: &Settings<'_>, id: &str) -> control::Settings {
    let mut own = mon::monitor::own_commands::new_settings(id);
    let is_read = |name: &str| {
        let found = mon::options::find(name);
        let is_level = found.is_some_and(|option| control::logs::names().any(|log| log == option.name));
        let is_of_cluster = found.is_some_and(|option| mon::options::honoured().any(|own| own == option.name));
        is_level || !is_of_cluster
    };
    for name in settings.conf.keys(&settings.who).into_iter().filter(|name| is_read(name)) {
        let text = settings.conf.get(&settings.who, name).unwrap_or_default();
        if let Err(why) = own.from_file(name, &text) {
            tracing::warn!("{}: option '{name}': '{text}' is passed over: {why}", settings.conf.path().display());
        }
    }
    note_flags(&mut own, "mon", settings.flags);
    own
}

/// How long a monitor that is taken for lost may take to answer.
const LOST_ANSWERS: Duration = Duration::from_secs(2);

/// Tells what it means that this monitor becomes the only one, and makes it so if that is `meant`.
fn force_sole(data: &Path, name: &str, meant: bool) -> Result<()> {
    let survivor = Survivor::open(data, name)?;
    for (other, addrs) in survivor.others() {
        if let Some(addr) =
            addrs.msgr2_addr().sockaddr.filter(|addr| TcpStream::connect_timeout(addr, LOST_ANSWERS).is_ok())
        {
            bail!(
                "somebody answers at {addr}, the address of mon.{other}: stop it first if it really is to be given up"
            );
        }
    }
    let (state, fsid) = (survivor.state(), survivor.fsid());
    let others: Vec<String> = survivor.others().map(|(other, _)| format!("mon.{other}")).collect();
    let (others, epoch, goes_on) = (others.join(", "), state.osdmap().epoch, survivor.epoch_after());
    println!(
        "mon.{name} of cluster {fsid} knows {} batches of changes, the last one from {}, and OSD map {epoch}.",
        state.applied, state.stamp
    );
    if !survivor.is_voter() {
        println!("It took no part in decisions, so it may lack much.");
    }
    println!(
        "As the only monitor it goes on from there. What the others decided and it has not heard of is lost, even if clients \
         were told that it was done.\n\
         If the stores of several monitors are left, take the one with the most batches.\n\
         {others} and any copies of this store never get in again; they come back with new stores (--mkfs --join).\n\
         Should they still run somewhere, without this one, there will be two clusters with the same OSDs: make sure that they do not.\n\
         OSD maps go on with epoch {goes_on}.\n\
         Where placement groups served last is asked of the OSDs: start all of them. Until you say `ceph mon confirm-survivor` they remove \
         nothing that the monitor does not know of."
    );
    if !meant {
        bail!("nothing was changed; add --yes-i-really-mean-it to do this");
    }
    let before = survivor.take_over(Utime::from(std::time::SystemTime::now()))?;
    println!("mon.{name} is the only monitor from its next start on. Its store as it was: {}", before.display());
    Ok(())
}

/// Returns the exit status.
pub fn osd(options: &cli::Osd) -> Result<u8> {
    begin(&options.daemon)?;
    crate::osd_daemon::run(options)
}

/// Completes when the process is asked to end, by SIGTERM or Ctrl-C.
fn asked_to_stop() -> Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

/// A monitor's description of itself and its machine.
fn monitor_metadata() -> BTreeMap<String, String> {
    let own = control::version::metadata().map(|(key, value)| (key.to_owned(), value));
    machine::facts().into_iter().chain(own).collect()
}
