//! `nacre osd`: reads an OSD's settings, makes its store or runs it.

use crate::byte_size::ByteSize;
use crate::conf_writer::{keyring_with, random_bytes};
use crate::daemon::{Settings, note_flags};
use crate::state_file::write_durably;
use crate::{cli, machine, new_keys};
use anyhow::{Context, Result, anyhow, bail};
use auth::ServerPolicies;
use client::{DaemonLogin, MonHost, parse_mon_host};
use devices::{NewStore, StorePaths};
use osd::{Credentials, OsdConfig, OsdLogin, Stop};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use types::{Fsid, OsdId};
use wire::EntityAddrVec;

/// The file in the data directory that holds the store. A block device may stand in its place, as a link. Devices of
/// their own for log and metadata stand beside it, as links, under names that [`StorePaths::beside`] knows.
pub const STORE_FILE: &str = "block";

/// Runs `nacre osd`, or only its `--mkfs`. The exit status of an OSD that an operator had stop (`ceph osd stop`):
/// whoever looks after it does not start it again.
pub const STOPPED_BY_OPERATOR: u8 = 4;

/// Returns the exit status.
pub fn run(options: &cli::Osd) -> Result<u8> {
    let settings = Settings::read("osd", &options.id.to_string(), &options.daemon)?;
    let config = config(&settings, OsdId(options.id as i32))?;
    let login = DaemonLogin::from_file(&settings.conf, &settings.who)?;
    if options.daemon.mkfs {
        if login.is_some() {
            make_key(&settings)?;
        }
        let devices = StorePaths {
            main: config.devices.main.clone(),
            wal: options.wal_device.clone().or(config.devices.wal),
            metadata: options.metadata_device.clone().or(config.devices.metadata),
        };
        return mkfs(&settings, options, &OsdConfig { devices, ..config }).map(|()| 0);
    }
    let store = &config.devices.main;
    if std::fs::symlink_metadata(store).is_err_and(|e| e.kind() == std::io::ErrorKind::NotFound) {
        let (id, data) = (options.id, settings.data()?);
        bail!("osd.{id} has no store in {} yet: `nacre osd --id {id} --mkfs` makes one", data.display());
    }
    check_reach(options, &config, login.as_ref())?;
    serve(match login {
        Some(login) => OsdConfig { login: Some(credentials(&settings, config.id, login)?), ..config },
        None => config,
    })
}

/// Checks that the OSD does not serve other machines where somebody need prove nothing, unless that is wanted.
fn check_reach(options: &cli::Osd, config: &OsdConfig, login: Option<&DaemonLogin>) -> Result<()> {
    let addrs = [config.public_bind.ip(), config.cluster_bind.ip()];
    if !options.daemon.insecure && ServerPolicies::are_open(login.map(|login| &login.accept), addrs.into_iter()) {
        bail!(
            "osd.{} would let anybody on the network read and change all data: 'auth cluster required' and 'auth service \
             required' do not ask everybody for proofs, and it listens on {} and {}; set both to cephx, or add --insecure \
             if that is wanted",
            options.id,
            addrs[0],
            addrs[1]
        );
    }
    Ok(())
}

/// The keyring in the OSD's folder.
fn keyring(settings: &Settings<'_>) -> Result<PathBuf> {
    Ok(settings.data()?.join("keyring"))
}

/// Makes the OSD's key, unless options lead to one or it has one from before. The monitors have to be told of it.
fn make_key(settings: &Settings<'_>) -> Result<()> {
    let path = keyring(settings)?;
    if client::daemon_key(&settings.conf, &settings.who, &path.display().to_string()).is_ok() {
        return Ok(());
    }
    let data = settings.data()?;
    std::fs::create_dir_all(&data).with_context(|| format!("cannot create {}", data.display()))?;
    let text = keyring_with(&settings.who.to_string(), new_keys::OF_OSD)?;
    write_durably(&path, text.as_bytes(), 0o600)
}

/// The means by which the OSD proves itself.
fn credentials(settings: &Settings<'_>, id: OsdId, login: DaemonLogin) -> Result<Credentials> {
    let key = client::daemon_key(&settings.conf, &settings.who, &keyring(settings)?.display().to_string())?;
    Ok(Credentials::new(id, OsdLogin { accept: login.accept, connect: login.connect, key }))
}

/// Memory of this machine, or of the container that this process runs in.
fn machine_memory_bytes() -> u64 {
    let info = rustix::system::sysinfo();
    let machine = info.totalram * u64::from(info.mem_unit);
    let limit = std::fs::read_to_string("/sys/fs/cgroup/memory.max").ok();
    limit.and_then(|text| text.trim().parse().ok()).map_or(machine, |limit| machine.min(limit))
}

/// Where the monitors are.
pub fn monitors(settings: &Settings<'_>) -> Result<Vec<EntityAddrVec>> {
    let monitors = match &settings.flags.mon_host {
        Some(text) => parse_mon_host(text).map_err(|e| anyhow!("--mon-host: {e}"))?,
        None => {
            let text = settings.conf.require(&settings.who, "mon host")?;
            parse_mon_host(&text).map_err(|e| settings.conf.bad_value("mon host", &text, e.to_string()))?
        }
    };
    monitors.iter().map(monitor_addrs).collect()
}

fn config(settings: &Settings<'_>, id: OsdId) -> Result<OsdConfig> {
    let get = |key: &str| settings.conf.get(&settings.who, key);
    let fsid = settings.conf.require(&settings.who, "fsid")?;
    let flags = settings.flags;
    let address = |flag: &Option<String>, key: &str| -> Result<SocketAddr> {
        let text = flag.clone().or_else(|| get(key)).unwrap_or_else(|| "127.0.0.1".to_owned());
        bind_address(&text).with_context(|| format!("'{key}'"))
    };
    let advertise =
        |key: &str| get(key).map(|text| bind_address(&text).with_context(|| format!("'{key}'"))).transpose();
    let public_bind = address(&flags.public_addr, "public addr")?;
    let memory = get("osd memory target").map(|text| byte_size(&text, "osd memory target")).transpose()?;
    if let Some(bytes) = memory.filter(|bytes| *bytes < osd::MEMORY_BYTES_MIN) {
        bail!("'osd memory target' is {bytes} bytes; an OSD needs {} (64Mi) at least", osd::MEMORY_BYTES_MIN);
    }
    let scrub_period =
        get("osd scrub min interval").map(|text| seconds(&text, "osd scrub min interval")).transpose()?;
    let check_period =
        get("osd deep scrub interval").map(|text| seconds(&text, "osd deep scrub interval")).transpose()?;
    let kept_ops = get("osd op samples per second").map(|text| {
        text.parse::<u32>().with_context(|| format!("'osd op samples per second' is {text:?}, not a number"))
    });
    let kept_ops = kept_ops.transpose()?;
    let devices = devices(settings)?;
    let options = options(settings, id);
    Ok(OsdConfig {
        id,
        fsid: fsid.parse().map_err(|e| anyhow!("'fsid': {e}"))?,
        machine: machine(&devices),
        devices,
        public_bind,
        // One network serves both unless told otherwise.
        cluster_bind: match (&flags.cluster_addr, get("cluster addr")) {
            (None, None) => SocketAddr::new(public_bind.ip(), 0),
            (flag, _) => address(flag, "cluster addr")?,
        },
        public_advertise: advertise("public advertise addr")?,
        cluster_advertise: advertise("cluster advertise addr")?,
        monitors: monitors(settings)?,
        location: location(&get("crush location").unwrap_or_default())?,
        device_class: get("osd device class").unwrap_or_else(|| "ssd".to_owned()),
        memory_bytes: memory.unwrap_or_else(|| osd::default_memory_bytes(machine_memory_bytes())),
        check_period: check_period.unwrap_or(osd::CHECK_PERIOD),
        scrub_period: scrub_period.unwrap_or(osd::LIGHT_SCRUB_PERIOD),
        unix_zero: SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default(),
        kept_ops_per_second: kept_ops.unwrap_or(osd::KEPT_OPS_PER_SECOND),
        features: wire::nacre::mon::osd_features::ALL,
        login: None,
        admin_socket: admin_socket(&options),
        settings: options,
        set_log_filter: Some(crate::logging::refine),
    })
}

/// The OSD's options, with those of its `ceph.conf`.
fn options(settings: &Settings<'_>, id: OsdId) -> osd::Settings {
    let mut options = osd::new_settings(id);
    let memory = osd::default_memory_bytes(machine_memory_bytes());
    options.set_default("osd_memory_target", memory.to_string());
    for name in settings.conf.keys(&settings.who) {
        let text = settings.conf.get(&settings.who, name).unwrap_or_default();
        if let Err(why) = options.from_file(name, &text) {
            tracing::warn!("{}: option '{name}': '{text}' is passed over: {why}", settings.conf.path().display());
        }
    }
    note_flags(&mut options, "osd", settings.flags);
    options
}

/// The path of a daemon's admin socket; an empty option means none.
pub fn admin_socket(options: &osd::Settings) -> Option<PathBuf> {
    let path = options.find("admin_socket").map(|option| options.get(option)).unwrap_or_default();
    (!path.is_empty()).then(|| PathBuf::from(path))
}

/// The OSD's description of its machine and the drives under its store.
fn machine(devices: &StorePaths) -> BTreeMap<String, String> {
    let paths = [Some(&devices.main), devices.wal.as_ref(), devices.metadata.as_ref()];
    let drives: BTreeSet<String> = paths.into_iter().flatten().filter_map(|path| machine::drive_of(path)).collect();
    let drives = drives.into_iter().collect::<Vec<_>>().join(",");
    let mut facts = machine::facts();
    facts.insert("devices".to_owned(), drives);
    facts
}

/// The store's devices: those beside the data directory's store, or before it is made those that flags or configuration
/// name.
fn devices(settings: &Settings<'_>) -> Result<StorePaths> {
    let main = settings.data()?.join(STORE_FILE);
    if !settings.flags.mkfs {
        return Ok(StorePaths::beside(&main));
    }
    let named = |key: &str| settings.conf.get(&settings.who, key).filter(|path| !path.is_empty()).map(PathBuf::from);
    Ok(StorePaths { main, wal: named("osd wal device"), metadata: named("osd metadata device") })
}

fn byte_size(text: &str, key: &str) -> Result<u64> {
    text.parse::<ByteSize>().map(|size| size.0).map_err(|e| anyhow!("'{key}': {e}"))
}

fn seconds(text: &str, key: &str) -> Result<Duration> {
    let seconds: f64 = text.trim().parse().map_err(|e| anyhow!("'{key}': {e}"))?;
    Duration::try_from_secs_f64(seconds).map_err(|e| anyhow!("'{key}': {e}"))
}

/// A monitor's address; a name is looked up once, here.
fn monitor_addrs(host: &MonHost) -> Result<EntityAddrVec> {
    let addr = match host {
        MonHost::Addr(addr) => *addr,
        MonHost::Name(name, port) => (name.as_str(), *port)
            .to_socket_addrs()
            .with_context(|| format!("'mon host': cannot find the address of {name}"))?
            .next()
            .with_context(|| format!("'mon host': {name} has no address"))?,
    };
    Ok(EntityAddrVec::msgr2(addr, 0))
}

/// An IP, with any free port, or an IP and port.
pub fn bind_address(text: &str) -> Result<SocketAddr> {
    let ip = text.parse::<IpAddr>().map(|ip| SocketAddr::new(ip, 0));
    ip.or_else(|_| text.parse()).map_err(|_| anyhow!("'{text}' is neither an IP address nor IP:PORT"))
}

/// Pairs of bucket type and name: `root=default host=node1`. The host's own name where none is given.
fn location(text: &str) -> Result<BTreeMap<String, String>> {
    let mut location = BTreeMap::new();
    for word in text.split([' ', ',', ';']).filter(|word| !word.is_empty()) {
        let Some((kind, name)) = word.split_once('=').filter(|(kind, name)| !kind.is_empty() && !name.is_empty())
        else {
            bail!("'crush location': '{word}' is not TYPE=NAME; write for example root=default host=node1");
        };
        location.insert(kind.to_owned(), name.to_owned());
    }
    if !location.contains_key("host") {
        let uname = rustix::system::uname();
        let host = uname.nodename().to_string_lossy();
        location.insert("host".to_owned(), host.split('.').next().unwrap_or("host").to_owned());
    }
    location.entry("root".to_owned()).or_insert_with(|| "default".to_owned());
    Ok(location)
}

fn mkfs(settings: &Settings<'_>, options: &cli::Osd, config: &OsdConfig) -> Result<()> {
    let data = settings.data()?;
    let size = match options.size {
        Some(size) => size.0,
        None => byte_size(&settings.conf.require(&settings.who, "osd size")?, "osd size")?,
    };
    std::fs::create_dir_all(&data).with_context(|| format!("cannot create {}", data.display()))?;
    let uuid = Fsid::from_random(random_bytes()?);
    let shards = match (options.shards, settings.conf.get(&settings.who, "osd op num shards")) {
        (Some(shards), _) => shards as usize,
        (None, Some(text)) => {
            devices::parse_shards(&text).map_err(|why| anyhow!("'osd op num shards' is {text:?}: {why}"))?
        }
        (None, None) => 1,
    };
    devices::mkfs(&NewStore {
        osd: config.id,
        fsid: config.fsid,
        uuid,
        paths: config.devices.clone(),
        main_bytes: size,
        shards,
        forced: options.force_format,
    })?;
    sync_directory(&data)
}

/// Makes a new file's name durable.
fn sync_directory(path: &Path) -> Result<()> {
    std::fs::File::open(path).and_then(|dir| dir.sync_all()).with_context(|| format!("cannot sync {}", path.display()))
}

fn serve(config: OsdConfig) -> Result<u8> {
    let stop = Stop::new().context("cannot make an event descriptor")?;
    let on_signal = stop.clone();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (done, ended) = tokio::sync::oneshot::channel();
    let shard = std::thread::Builder::new().name(format!("osd.{}", config.id.0)).spawn(move || {
        let result = osd::run(config, stop);
        // The main thread, which waits for this, may have ended.
        let _ = done.send(());
        result
    })?;
    runtime.block_on(async {
        use tokio::signal::unix::{SignalKind, signal};
        let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        tokio::pin!(ended);
        loop {
            tokio::select! {
                _ = &mut ended => return Ok::<(), std::io::Error>(()),
                _ = terminate.recv() => on_signal.stop(),
                _ = interrupt.recv() => on_signal.stop(),
            }
        }
    })?;
    shard.join().map_err(|_| anyhow!("the shard has panicked; see the lines above"))??;
    Ok(if on_signal.is_by_operator() { STOPPED_BY_OPERATOR } else { 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_locations_are_read_or_refused() {
        assert_eq!(bind_address("10.0.0.1").unwrap().to_string(), "10.0.0.1:0");
        assert_eq!(bind_address("10.0.0.1:6800").unwrap().to_string(), "10.0.0.1:6800");
        assert!(bind_address("host").is_err());
        let read = location("root=default host=h1 rack=r").unwrap();
        assert_eq!(read["host"], "h1");
        assert_eq!(read.len(), 3);
        assert!(location("").unwrap().contains_key("host"));
        assert!(location("host").is_err() && location("host=").is_err());
    }

    #[test]
    fn an_osd_without_a_store_says_how_to_make_one() {
        use clap::Parser;
        let scratch = crate::scratch::Scratch::new();
        let conf = scratch.path().join("ceph.conf");
        let fsid = "3f0c0000-0000-0000-0000-000000000001";
        let text = format!(
            "[global]\nfsid = {fsid}\nmon host = 127.0.0.1:1\n[osd]\nosd data = {}/osd.$id\n",
            scratch.path().display()
        );
        std::fs::write(&conf, text).unwrap();
        let parsed = cli::Cli::try_parse_from(["nacre", "osd", "--id", "7", "--conf", conf.to_str().unwrap()]);
        let cli::Command::Osd(options) = parsed.unwrap().command else { panic!("not an OSD") };
        let error = run(&options).unwrap_err().to_string();
        let data = scratch.path().join("osd.7");
        let expected = format!("osd.7 has no store in {} yet: `nacre osd --id 7 --mkfs` makes one", data.display());
        assert_eq!(error, expected);
    }

    #[test]
    fn an_osd_that_asks_nobody_for_proofs_is_for_this_machine_alone() {
        use clap::Parser;
        let scratch = crate::scratch::Scratch::new();
        let conf = scratch.path().join("ceph.conf");
        let check = |options: &str, flags: &[&str]| {
            let text = format!(
                "[global]\nfsid = 3f0c0000-0000-0000-0000-000000000001\nmon host = 127.0.0.1:1\n{options}\n\
                 [osd]\nosd data = {}/osd.$id\n",
                scratch.path().display()
            );
            std::fs::write(&conf, text).unwrap();
            let args = ["nacre", "osd", "--id", "7", "--conf", conf.to_str().unwrap()];
            let parsed = cli::Cli::try_parse_from(args.into_iter().chain(flags.iter().copied()));
            let cli::Command::Osd(options) = parsed.unwrap().command else { panic!("not an OSD") };
            let settings = Settings::read("osd", "7", &options.daemon).unwrap();
            let login = DaemonLogin::from_file(&settings.conf, &settings.who).unwrap();
            let checked = check_reach(&options, &config(&settings, OsdId(7)).unwrap(), login.as_ref());
            checked.map_err(|error| error.to_string())
        };
        let part = "add --insecure if that is wanted";
        let half = "auth cluster required = cephx\nauth service required = cephx, none";
        for (options, flags) in [
            ("", &["--public-addr", "192.0.2.1"][..]),
            ("", &["--cluster-addr", "192.0.2.1"]),
            ("public addr = 0.0.0.0", &[]),
            (half, &["--public-addr", "192.0.2.1"]),
        ] {
            let refused = check(options, flags).unwrap_err();
            assert!(refused.contains(part) && refused.contains("osd.7"), "{options} {flags:?}: {refused}");
        }
        for (options, flags) in [
            ("", &[][..]),
            ("public addr = 192.0.2.1", &["--insecure"]),
            ("auth supported = cephx", &["--public-addr", "192.0.2.1"]),
        ] {
            assert_eq!(check(options, flags), Ok(()), "{options} {flags:?}");
        }
    }
}
