//! A monitor as a process: making its store, opening it, running it.

use crate::bootstrap::{BootstrapSpec, bootstrap};
use crate::driver::{self, Doors, DriverError, ManagerEndpoint};
use crate::handshakes::Proofs;
use crate::log::{Identity, Loaded, LogError, MemberLog, RedbLog};
use crate::member::{Member, MemberConfig, MemberError, raft_config};
use crate::monitor::Entropy;
use crate::state::{MANAGER_GID, MONITORS, MonState};
use crate::update::Update;
use auth::keyring::{Entry, Keyring, KeyringError, parse_entity};
use auth::{ClientPolicy, Key, ServerPolicies};
use control::Settings;
use raft::{Membership, ServerId, Snapshot, Stored};
use std::collections::BTreeMap;
use std::future::Future;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use stdx::BootClock;
use tokio::net::TcpListener;
use tracing::{error, info};
use types::{EntityName, EntityType, Fsid};
use wire::basic::AuthName;
use wire::msgr::{Config, Messenger, Policy};
use wire::{Decode, DecodeError, Encode, EntityAddrVec, Target};

/// File in the monitor's folder that holds its log.
pub(crate) const STORE: &str = "store.redb";
/// File in the monitor's folder that holds the key that monitors share.
const KEYRING: &str = "keyring";

/// Options of a monitor's process.
#[derive(Clone, Debug)]
pub struct MonOptions {
    /// The monitor's name, as in the monitor map: `a`.
    pub name: String,
    /// Its folder, made by [`mkfs`].
    pub data: PathBuf,
    /// Addresses to listen at; by default those that the cluster knows. A monitor that is to join needs them.
    pub bind: Vec<SocketAddr>,
    /// Addresses of other monitors, for one that is to join.
    pub peers: Vec<EntityAddrVec>,
    /// Facts that `ceph mon metadata` shows.
    pub metadata: BTreeMap<String, String>,
    /// Proofs that it asks for, of those who connect and of other monitors; `None`: nobody proves anything.
    pub auth: Option<(ServerPolicies, ClientPolicy)>,
    /// True if it may listen beyond this machine although somebody need prove nothing.
    pub insecure: bool,
    /// Options that it starts with. [`new_settings`](crate::monitor::own_commands::new_settings) makes them.
    pub settings: Settings,
    /// Where programs on this machine may ask the monitor. `None`: nowhere.
    pub admin_socket: Option<PathBuf>,
    /// Adds a filter of [`control::logs`] to the log filter that the process began with. `None`: the filter stays.
    pub set_log_filter: Option<fn(&str)>,
}

/// Reasons why a monitor does not run.
#[derive(Debug, thiserror::Error)]
pub enum MonError {
    #[error(transparent)]
    Log(#[from] LogError),
    #[error(transparent)]
    Driver(#[from] DriverError),
    #[error(transparent)]
    Member(#[from] MemberError),
    #[error("a cluster is made with one monitor, not {given}; others join it")]
    FirstIsOne { given: usize },
    #[error("cannot make the monitor's folder {path}")]
    Folder { path: String, source: std::io::Error },
    #[error("the monitor's store is damaged: {what} does not decode")]
    Decode { what: String, source: DecodeError },
    #[error("{path} holds the store of a monitor that is not called '{name}' but '{known}'")]
    UnknownName { name: String, path: String, known: String },
    #[error("mon.{name} has no msgr v2 address")]
    NoAddress { name: String },
    #[error(
        "mon.{name} would let anybody on the network read and change all data: 'auth cluster required' and 'auth service required' \
         do not ask everybody for proofs, and it listens on {}; set both to cephx, or add --insecure if that is wanted",
        shown(.addrs)
    )]
    Open { name: String, addrs: Vec<SocketAddr> },
    #[error("cannot listen on {addr}")]
    Listen { addr: SocketAddr, source: std::io::Error },
    #[error("cannot write the monitor's keyring {path}")]
    WriteKeyring { path: String, source: std::io::Error },
    #[error("cannot read the monitor's keyring {path}")]
    ReadKeyring { path: String, source: std::io::Error },
    #[error(transparent)]
    Keyring(#[from] KeyringError),
    #[error(
        "mon.{name} has no key: {path} has no '[mon.]', and its store knows none either; write the key of the other monitors there \
         (`ceph auth get mon.`)"
    )]
    NoKey { name: String, path: String },
    #[error("no random numbers from the system")]
    Random(#[source] std::io::Error),
}

fn shown(addrs: &[SocketAddr]) -> String {
    addrs.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// Makes the folder and the store of a cluster's first monitor.
///
/// Errors: [`LogError::Exists`] if there is a store already; it is left alone. Killed half-way, it leaves no store.
pub fn mkfs(data: &Path, spec: &BootstrapSpec) -> Result<(), MonError> {
    let [(name, _)] = &spec.monitors[..] else { return Err(MonError::FirstIsOne { given: spec.monitors.len() }) };
    let server = new_server().map_err(MonError::Random)?;
    let identity = Identity { fsid: spec.fsid, name: name.clone(), server };
    make_folder(data)?;
    if let Some(entry) = spec.auth.get(MONITORS) {
        write_keyring(data, &entry.key, None)?;
    }
    make_store(data, &identity, &founded(spec, &[server]))
}

/// Makes the folder and the store of a monitor that is to join a cluster: a new one, or one whose store was lost.
/// `key`: the one that its monitors share, for clusters where they prove themselves.
///
/// Errors: as [`mkfs`].
pub fn mkfs_to_join(data: &Path, fsid: Fsid, name: &str, key: Option<&Key>) -> Result<(), MonError> {
    let identity = Identity { fsid, name: name.to_owned(), server: new_server().map_err(MonError::Random)? };
    make_folder(data)?;
    if let Some(key) = key {
        write_keyring(data, key, None)?;
    }
    make_store(data, &identity, &Stored::default())
}

/// Returns the content of the disk of each first member of a new cluster. `servers`: their numbers, as many as the spec
/// has monitors.
pub fn founded(spec: &BootstrapSpec, servers: &[ServerId]) -> Stored {
    let mut batch = bootstrap(spec);
    for ((name, addrs), server) in spec.monitors.iter().zip(servers) {
        let update = Update::MonServer { name: name.clone(), server: server.0, addrs: addrs.clone() };
        batch.updates.push(update);
    }
    let mut state = MonState::default();
    state.apply(1, &batch);
    let membership = Membership::of_voters(servers.iter().copied());
    Stored::first(Snapshot::first(membership, state.to_vec(Target::PACIFIC).into()))
}

/// Returns a number that no store has had.
pub(crate) fn new_server() -> std::io::Result<ServerId> {
    let bytes = system_entropy()?();
    // 0 stands for none.
    Ok(ServerId(u64::from_le_bytes(bytes[..8].try_into().expect("8 of 32 bytes")).max(1)))
}

/// Makes the monitor's folder, if no store is in it.
fn make_folder(data: &Path) -> Result<(), MonError> {
    let path = data.join(STORE);
    if path.exists() {
        return Err(LogError::Exists { path: path.display().to_string() }.into());
    }
    std::fs::create_dir_all(data).map_err(|source| MonError::Folder { path: data.display().to_string(), source })
}

/// Writes the keyring with the key that monitors share, and the one that is to take its place. Nobody but the owner may
/// read it.
fn write_keyring(data: &Path, key: &Key, pending: Option<&Key>) -> Result<(), MonError> {
    let path = data.join(KEYRING);
    let caps = [("mon".to_owned(), "allow *".to_owned())].into();
    let text = Entry { key: key.clone(), pending_key: pending.cloned(), caps }.to_text(MONITORS);
    let write = || -> std::io::Result<()> {
        let unfinished = data.join(format!("{KEYRING}.new"));
        match std::fs::remove_file(&unfinished) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(e),
            _ => {}
        }
        let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&unfinished)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&unfinished, &path)
    };
    write().map_err(|source| MonError::WriteKeyring { path: path.display().to_string(), source })
}

/// Returns the keys of the monitor's keyring that monitors share, first the one that it proves. None, if the keyring
/// has none.
fn shared_keys(data: &Path) -> Result<Vec<Key>, MonError> {
    let path = data.join(KEYRING);
    let shown = path.display().to_string();
    let ring = match std::fs::read(&path) {
        Ok(text) => Keyring::parse(&path, &text)?,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Keyring::default(),
        Err(source) => return Err(MonError::ReadKeyring { path: shown, source }),
    };
    let entry = parse_entity(MONITORS).and_then(|monitors| ring.find(&monitors));
    Ok(entry.into_iter().flat_map(Entry::keys).cloned().collect())
}

/// Writes the keys that monitors share to the keyring. A monitor whose keyring cannot be written goes on, and says what
/// is to be done.
fn keep_shared_keys(data: &Path, name: &str, keys: &[Key]) {
    let [key, pending @ ..] = keys else { return };
    match write_keyring(data, key, pending.first()) {
        Ok(()) => info!("mon.{name} has other keys of monitors in its keyring"),
        Err(error) => error!(
            "mon.{name} cannot start again with its present keyring: {error} ({}); write the output of `ceph auth get mon.` there",
            std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default()
        ),
    }
}

fn make_store(data: &Path, identity: &Identity, stored: &Stored) -> Result<(), MonError> {
    let folder_error = |source| MonError::Folder { path: data.display().to_string(), source };
    let path = data.join(STORE);
    // The store has another name until it is complete.
    let unfinished = data.join(format!("{STORE}.new"));
    match std::fs::remove_file(&unfinished) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(folder_error(e)),
        _ => {}
    }
    drop(RedbLog::create(&unfinished, identity, stored)?);
    std::fs::rename(&unfinished, &path).map_err(folder_error)?;
    std::fs::File::open(data).and_then(|dir| dir.sync_all()).map_err(folder_error)
}

/// Returns the state of a log's snapshot; entries behind it are not applied.
fn state_of(loaded: &Loaded) -> Result<MonState, MonError> {
    let Some(snapshot) = &loaded.stored.snapshot else { return Ok(MonState::default()) };
    let what = "its state".to_owned();
    MonState::from_slice(&snapshot.data).map_err(|source| MonError::Decode { what, source })
}

/// Runs a monitor until `shutdown` completes. Call it on a current-thread tokio runtime.
pub async fn run(options: MonOptions, shutdown: impl Future<Output = ()>) -> Result<(), MonError> {
    let path = options.data.join(STORE);
    let mut log = RedbLog::open(&path)?;
    let loaded = log.load()?;
    let state = state_of(&loaded)?;
    let name = &options.name;
    if loaded.identity.name != *name {
        let (path, known) = (path.display().to_string(), loaded.identity.name);
        return Err(MonError::UnknownName { name: name.clone(), path, known });
    }
    // The cluster knows a member's own address; a monitor that is to join gives its own.
    let known = state.mon_servers.get(name).map(|known| known.addrs.clone());
    let addrs = match (known, options.bind.first()) {
        (Some(addrs), _) => addrs,
        (None, Some(addr)) => EntityAddrVec::msgr2(*addr, 0),
        (None, None) => return Err(MonError::NoAddress { name: name.clone() }),
    };
    let rank = state.monmap.rank(name).map_or(-1, |rank| rank as i64);
    let bind = match (options.bind.is_empty(), addrs.msgr2_addr().sockaddr) {
        (false, _) => options.bind.clone(),
        (true, Some(addr)) => vec![addr],
        (true, None) => return Err(MonError::NoAddress { name: name.clone() }),
    };
    let accept = options.auth.as_ref().map(|(accept, _)| accept);
    if !options.insecure && ServerPolicies::are_open(accept, bind.iter().map(SocketAddr::ip)) {
        return Err(MonError::Open { name: name.clone(), addrs: bind });
    }
    // Clients find it through the manager map, so any port will do.
    let manager_at = SocketAddr::new(bind[0].ip(), 0);
    let listen_error = |source| MonError::Listen { addr: manager_at, source };
    let manager_listener = TcpListener::bind(manager_at).await.map_err(listen_error)?;
    let manager_port = manager_listener.local_addr().map_err(listen_error)?.port();
    let mut listeners = Vec::new();
    for addr in bind {
        let listener = TcpListener::bind(addr).await.map_err(|source| MonError::Listen { addr, source })?;
        listeners.push(listener);
    }
    let mut entropy = system_entropy().map_err(MonError::Random)?;
    let seed = u64::from_le_bytes(entropy()[..8].try_into().expect("8 of 32 bytes"));
    let messenger = Messenger::new(Config { bulk_min_bytes: None, ..Config::mon(rank, name, addrs.clone(), seed) });
    match loaded.stored.snapshot {
        Some(_) => info!("mon.{name} of cluster {} serves at {addrs}, epoch {}", state.fsid, state.osdmap().epoch),
        None => info!("mon.{name} at {addrs} is to join cluster {}", loaded.identity.fsid),
    }
    let manager_ip = addrs.msgr2_addr().sockaddr.map_or(manager_at.ip(), |addr| addr.ip());
    let manager_addrs = EntityAddrVec::msgr2(SocketAddr::new(manager_ip, manager_port), 0);
    let manager_messenger = Messenger::new(Config {
        me: EntityName { kind: EntityType::MGR, num: MANAGER_GID as i64 },
        my_addrs: manager_addrs.clone(),
        accept: [(EntityType::CLIENT, Policy::MON_SERVER)].into(),
        bulk_min_bytes: None,
        ..Config::client(AuthName::new(EntityType::MGR, name.clone()), seed.rotate_left(17))
    });
    let config = MemberConfig {
        addrs,
        peers: options.peers.clone(),
        manager_addrs,
        metadata: options.metadata.clone(),
        seed: seed.rotate_left(31),
        raft: raft_config(),
    };
    let start = BootClock::start();
    let mut member = Member::new(loaded, config, entropy, driver::now(start))?;
    let proofs = match options.auth {
        Some((accept, connect)) => {
            let keys = shared_keys(&options.data)?;
            let Some(key) = member.monitor_mut().set_auth_policy(accept, &keys) else {
                let path = options.data.join(KEYRING).display().to_string();
                return Err(MonError::NoKey { name: name.clone(), path });
            };
            Some(Proofs { connect, key: Some(key), entropy: system_entropy().map_err(MonError::Random)? })
        }
        None => None,
    };
    member.set_settings(options.settings.clone());
    let manager = ManagerEndpoint { messenger: manager_messenger, listener: manager_listener };
    let (admin_socket, set_log_filter) = (options.admin_socket, options.set_log_filter);
    let (data, own_name) = (options.data.clone(), name.clone());
    let keep_shared_keys = Box::new(move |keys: &[Key]| keep_shared_keys(&data, &own_name, keys));
    let doors = Doors { listeners, manager, proofs, admin_socket, set_log_filter, keep_shared_keys };
    driver::run(member, start, messenger, Box::new(log), doors, shutdown).await?;
    info!("mon.{name} has stopped");
    Ok(())
}

/// Returns a source of random bytes from the kernel.
fn system_entropy() -> std::io::Result<Entropy> {
    let mut source = std::fs::File::open("/dev/urandom")?;
    let mut bytes = [0; 32];
    // A failure shows here; later reads of the open device do not fail.
    source.read_exact(&mut bytes)?;
    Ok(Box::new(move || {
        source.read_exact(&mut bytes).expect("the kernel's random device goes on working");
        bytes
    }))
}
