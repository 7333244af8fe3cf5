//! A monitor as a process: making its store, opening it, running it.

use crate::bootstrap::{BootstrapSpec, bootstrap};
use crate::driver::{self, ManagerEndpoint};
use crate::log::{LogError, MapLog, RedbLog};
use crate::monitor::{Entropy, Monitor};
use crate::state::MonState;
use crate::update::{Batch, Update};
use crate::volatile::MANAGER_GID;
use std::collections::BTreeMap;
use std::future::Future;
use std::io::Read;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use tokio::net::TcpListener;
use tracing::info;
use types::{EntityName, EntityType};
use wire::basic::AuthName;
use wire::msgr::{Config, Messenger, Policy};
use wire::{Decode, DecodeError, Encode, EntityAddrVec, Target};

/// File in the monitor's folder that holds its log.
const STORE: &str = "store.redb";

/// How to run a monitor.
#[derive(Clone, Debug)]
pub struct MonOptions {
    /// The monitor's name, as in the monitor map: `a`.
    pub name: String,
    /// Its folder, made by [`mkfs`].
    pub data: PathBuf,
    /// Where to listen; by default at the addresses of the monitor map.
    pub bind: Vec<SocketAddr>,
    /// What `ceph mon metadata` shows.
    pub metadata: BTreeMap<String, String>,
}

/// Why a monitor does not run.
#[derive(Debug, thiserror::Error)]
pub enum MonError {
    #[error(transparent)]
    Log(#[from] LogError),
    #[error("cannot make the monitor's folder {path}")]
    Folder { path: String, source: std::io::Error },
    #[error("the monitor's store is damaged: {what} does not decode")]
    Decode { what: String, source: DecodeError },
    #[error("{path} holds the store of a monitor that is not called '{name}'; the monitor map has {known}")]
    UnknownName { name: String, path: String, known: String },
    #[error("the monitor map gives mon.{name} no msgr v2 address")]
    NoAddress { name: String },
    #[error("cannot listen on {addr}")]
    Listen { addr: SocketAddr, source: std::io::Error },
    #[error("no random numbers from the system")]
    Random(#[source] std::io::Error),
}

/// Makes the folder and the store of a cluster's first monitor.
///
/// Errors: [`LogError::Exists`] if there is a store already; it is left alone. Killed half-way, it leaves no store.
pub fn mkfs(data: &Path, spec: &BootstrapSpec) -> Result<(), MonError> {
    let folder_error = |source| MonError::Folder { path: data.display().to_string(), source };
    let path = data.join(STORE);
    if path.exists() {
        return Err(LogError::Exists { path: path.display().to_string() }.into());
    }
    std::fs::create_dir_all(data).map_err(folder_error)?;
    // Under another name until it is complete.
    let unfinished = data.join(format!("{STORE}.new"));
    match std::fs::remove_file(&unfinished) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(folder_error(e)),
        _ => {}
    }
    let mut log = RedbLog::create(&unfinished)?;
    log.append(1, &bootstrap(spec).to_vec(Target::PACIFIC))?;
    drop(log);
    std::fs::rename(&unfinished, &path).map_err(folder_error)?;
    std::fs::File::open(data).and_then(|dir| dir.sync_all()).map_err(folder_error)
}

/// The state that a log holds, and the log.
pub fn load(log: &mut impl MapLog) -> Result<MonState, MonError> {
    let loaded = log.load()?;
    let mut state = match &loaded.snapshot {
        Some((index, bytes)) => {
            let decoded = MonState::from_slice(bytes);
            decoded.map_err(|source| MonError::Decode { what: format!("snapshot {index}"), source })?
        }
        None => MonState::default(),
    };
    for (index, bytes) in &loaded.batches {
        let batch = Batch::from_slice(bytes);
        let batch = batch.map_err(|source| MonError::Decode { what: format!("batch {index}"), source })?;
        state.apply(*index, &batch);
    }
    Ok(state)
}

/// Runs a monitor until `shutdown` completes. Call it on a current-thread tokio runtime.
pub async fn run(options: MonOptions, shutdown: impl Future<Output = ()>) -> Result<(), MonError> {
    let path = options.data.join(STORE);
    let mut log = RedbLog::open(&path)?;
    let mut state = load(&mut log)?;
    let name = &options.name;
    let Some(me) = state.monmap.mons.get(name) else {
        let known: Vec<_> = state.monmap.mons.keys().map(|name| format!("'{name}'")).collect();
        let path = path.display().to_string();
        return Err(MonError::UnknownName { name: name.clone(), path, known: known.join(", ") });
    };
    let addrs = me.addrs.clone();
    let rank = state.monmap.rank(name).unwrap_or(0) as i64;
    let bind = match (options.bind.is_empty(), addrs.msgr2_addr().sockaddr) {
        (false, _) => options.bind.clone(),
        (true, Some(addr)) => vec![addr],
        (true, None) => return Err(MonError::NoAddress { name: name.clone() }),
    };
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
    if state.mon_metadata.get(name) != Some(&options.metadata) {
        let update = Update::MonMetadata { name: name.clone(), metadata: Some(options.metadata.clone()) };
        let batch = Batch { stamp: std::time::SystemTime::now().into(), updates: vec![update] };
        let index = state.applied + 1;
        log.append(index, &batch.to_vec(Target::PACIFIC))?;
        state.apply(index, &batch);
    }
    let mut entropy = system_entropy().map_err(MonError::Random)?;
    let seed = u64::from_le_bytes(entropy()[..8].try_into().expect("8 of 32 bytes"));
    let messenger = Messenger::new(Config { bulk_min_bytes: None, ..Config::mon(rank, name, addrs.clone(), seed) });
    info!("mon.{name} of cluster {} serves at {addrs}, epoch {}", state.fsid, state.osdmap().epoch);
    let manager_ip = addrs.msgr2_addr().sockaddr.map_or(manager_at.ip(), |addr| addr.ip());
    let manager_addrs = EntityAddrVec::msgr2(SocketAddr::new(manager_ip, manager_port), 0);
    let manager_messenger = Messenger::new(Config {
        me: EntityName { kind: EntityType::MGR, num: MANAGER_GID as i64 },
        my_addrs: manager_addrs.clone(),
        accept: [(EntityType::CLIENT, Policy::MON_SERVER)].into(),
        bulk_min_bytes: None,
        ..Config::client(AuthName::new(EntityType::MGR, name.clone()), seed.rotate_left(17))
    });
    let mut monitor = Monitor::new(name, state, entropy);
    monitor.set_manager_addrs(manager_addrs);
    let manager = ManagerEndpoint { messenger: manager_messenger, listener: manager_listener };
    driver::run(monitor, messenger, Box::new(log), listeners, manager, shutdown).await?;
    info!("mon.{name} has stopped");
    Ok(())
}

/// Random bytes from the kernel.
fn system_entropy() -> std::io::Result<Entropy> {
    let mut source = std::fs::File::open("/dev/urandom")?;
    let mut bytes = [0; 32];
    // What can fail does so here; later reads of the open device do not.
    source.read_exact(&mut bytes)?;
    Ok(Box::new(move || {
        source.read_exact(&mut bytes).expect("the kernel's random device goes on working");
        bytes
    }))
}
