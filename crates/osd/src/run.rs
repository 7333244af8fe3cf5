//! Runs an OSD from start to end on the calling thread.

use crate::connection_shares::ConnectionShares;
use crate::failure::Failure;
use crate::heartbeat::HeartbeatThread;
use crate::shards::Others;
use crate::shards::thread::WorkerThread;
use crate::store_holder::once_free;
use crate::{MEMORY_BYTES_MIN, Osd, OsdConfig};
use anyhow::Context;
use control::{AdminSocket, Question};
use devices::Division;
use reactor::{Reactor, Waker};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use stdx::BootClock;

/// Handle by which other threads stop an OSD, learn whether its store is open, and learn why it ended.
#[derive(Clone)]
pub struct Stop {
    wanted: Arc<AtomicBool>,
    open: Arc<AtomicBool>,
    failure: Arc<Mutex<Option<String>>>,
    by_operator: Arc<AtomicBool>,
    waker: Waker,
    /// Questions of the admin socket. Each client of the socket has one at a time.
    questions: Arc<Mutex<Vec<Question>>>,
}

impl Stop {
    pub fn new() -> std::io::Result<Stop> {
        Ok(Stop {
            wanted: Arc::default(),
            open: Arc::default(),
            failure: Arc::default(),
            by_operator: Arc::default(),
            waker: Waker::new()?,
            questions: Arc::default(),
        })
    }

    /// Asks the OSD to stop in good order. The OSD tells the monitors first.
    pub fn stop(&self) {
        self.wanted.store(true, Ordering::Release);
        self.waker.wake();
    }

    /// Wakes the OSD's loop to look at facts that others have told it.
    pub(crate) fn wake(&self) {
        self.waker.wake();
    }

    /// Hands a question of the admin socket to the OSD's loop.
    fn ask(&self, question: Question) {
        self.questions.lock().expect("nobody panics while holding it").push(question);
        self.waker.wake();
    }

    /// Takes the questions that have come by the admin socket.
    pub(crate) fn take_questions(&self) -> Vec<Question> {
        std::mem::take(&mut *self.questions.lock().expect("nobody panics while holding it"))
    }

    pub(crate) fn is_wanted(&self) -> bool {
        self.wanted.load(Ordering::Acquire)
    }

    /// Notes that the store is open. Before that, a turn may take long: one turn makes the whole map of free space.
    pub(crate) fn opened(&self) {
        self.open.store(true, Ordering::Release);
    }

    pub(crate) fn is_open(&self) -> bool {
        self.open.load(Ordering::Acquire)
    }

    /// A line for people that tells why the OSD ended by itself, if it did.
    pub fn failure(&self) -> Option<String> {
        self.failure.lock().expect("nobody panics while holding it").clone()
    }

    /// True if the OSD ended because an operator had it stop (`ceph osd stop`). It must then not be started again at
    /// once.
    pub fn is_by_operator(&self) -> bool {
        self.by_operator.load(Ordering::Acquire)
    }

    pub(crate) fn stopped_by_operator(&self) {
        self.by_operator.store(true, Ordering::Release);
    }

    pub(crate) fn failed(&self, why: &Failure) {
        *self.failure.lock().expect("nobody panics while holding it") = Some(why.to_string());
    }
}

/// Runs an OSD until it is stopped.
///
/// Errors: a device that cannot be used; an address that cannot be bound; a failure that the OSD must not survive, such
/// as a failed flush. A store that a killed process still has is waited for. If the OSD's loop is stuck for half a
/// minute, the process ends (see [`crate::heartbeat`]).
pub fn run(config: OsdConfig, stop: Stop) -> anyhow::Result<()> {
    let id = config.id;
    let main = config.devices.main.display();
    let division = Division::read(&config.devices).with_context(|| format!("{id} cannot start: {main}"))?;
    let shards = division.shards();
    let config = of_each_shard(config, shards)?;
    let connections = ConnectionShares::of_process();
    let reactor_config = reactor::Config {
        connections_max: connections.all,
        waker: Some(stop.waker.clone()),
        pool_bytes_max: config.memory().spare_bytes,
        started: Some(BootClock::start()),
        ..reactor::Config::default()
    };
    let mut reactor = Reactor::new(reactor_config.clone()).context("cannot make the event loop")?;
    // The first shard locks the devices before other shards open them.
    let paths = &config.devices;
    let osd = || Osd::of_shards(reactor.io(), config.clone(), stop.clone(), division);
    let osd = once_free(id, paths, &stop, osd).with_context(|| format!("{id} cannot start"))?;
    let Some(mut osd) = osd else { return Ok(()) };
    osd.limit_connections(reactor.io(), connections);
    let worker = |shard| WorkerThread::start(shard, &config, division, &reactor_config, &stop.waker);
    let worker = |shard| once_free(id, paths, &stop, || worker(shard));
    let workers: Option<Vec<WorkerThread>> =
        (1..shards).map(worker).collect::<Result<_, _>>().with_context(|| format!("{id} cannot start its shards"))?;
    let Some(workers) = workers else { return Ok(()) };
    let pulses = std::iter::once(reactor.pulse()).chain(workers.iter().map(|worker| worker.pulse.clone())).collect();
    let heartbeats = HeartbeatThread::start(&config, pulses, stop.clone(), connections);
    let heartbeats = heartbeats.with_context(|| format!("{id} cannot answer heartbeats"))?;
    osd.set_others(Others::new(workers));
    osd.set_heartbeats(heartbeats.board().clone(), heartbeats.addrs().clone());
    let admin_socket = config.admin_socket.as_deref().and_then(|path| open_admin_socket(path, &stop));
    reactor.run(&mut osd)?;
    drop((admin_socket, osd, heartbeats));
    match stop.failure() {
        Some(reason) => Err(anyhow::anyhow!(reason)),
        None => Ok(()),
    }
}

/// Opens the admin socket. An OSD goes on without one, as a Ceph's does.
fn open_admin_socket(path: &Path, stop: &Stop) -> Option<AdminSocket> {
    let asked = stop.clone();
    let opened = AdminSocket::open(path, move |question| asked.ask(question));
    opened.inspect_err(|e| tracing::error!("no admin socket at {}: {e}", path.display())).ok()
}

/// One shard's part of the OSD's resources.
///
/// Errors: too little memory for so many shards.
fn of_each_shard(config: OsdConfig, shards: usize) -> anyhow::Result<OsdConfig> {
    let memory_bytes = config.memory_bytes / shards as u64;
    if shards > 1 && memory_bytes < MEMORY_BYTES_MIN {
        let (id, all, least) = (config.id, config.memory_bytes, MEMORY_BYTES_MIN * shards as u64);
        anyhow::bail!("{id} has {shards} shards: {all} bytes of memory are too few, it needs {least} at least");
    }
    let kept_ops_per_second = config.kept_ops_per_second.div_ceil(shards as u32);
    Ok(OsdConfig { memory_bytes, kept_ops_per_second, ..config })
}
