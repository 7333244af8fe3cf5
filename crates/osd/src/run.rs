//! An OSD from start to end on the calling thread.

use crate::heartbeat::HeartbeatThread;
use crate::{Osd, OsdConfig};
use anyhow::Context;
use reactor::{Reactor, Waker};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// What other threads know of an OSD: how to stop it, whether its store is open, and afterwards why it ended.
#[derive(Clone)]
pub struct Stop {
    wanted: Arc<AtomicBool>,
    open: Arc<AtomicBool>,
    failure: Arc<Mutex<Option<String>>>,
    waker: Waker,
}

impl Stop {
    pub fn new() -> std::io::Result<Stop> {
        Ok(Stop { wanted: Arc::default(), open: Arc::default(), failure: Arc::default(), waker: Waker::new()? })
    }

    /// Asks the OSD to stop in good order: the monitors are told first.
    pub fn stop(&self) {
        self.wanted.store(true, Ordering::Release);
        self.waker.wake();
    }

    /// Has the OSD's loop look at what others have told it.
    pub(crate) fn wake(&self) {
        self.waker.wake();
    }

    pub(crate) fn is_wanted(&self) -> bool {
        self.wanted.load(Ordering::Acquire)
    }

    /// The store is open. Before that, a turn may take long: the whole map of free space is made in one.
    pub(crate) fn opened(&self) {
        self.open.store(true, Ordering::Release);
    }

    pub(crate) fn is_open(&self) -> bool {
        self.open.load(Ordering::Acquire)
    }

    /// Why the OSD ended by itself, if it did.
    pub fn failure(&self) -> Option<String> {
        self.failure.lock().expect("nobody panics while holding it").clone()
    }

    pub(crate) fn failed(&self, reason: String) {
        *self.failure.lock().expect("nobody panics while holding it") = Some(reason);
    }
}

/// Runs an OSD until it is stopped.
///
/// Errors: a device that cannot be used, addresses that cannot be bound, or a failure that the OSD must not survive
/// (a flush that failed, say). An OSD whose loop is stuck for half a minute ends the process (see [`crate::heartbeat`]).
pub fn run(config: OsdConfig, stop: Stop) -> anyhow::Result<()> {
    let id = config.id;
    let reactor_config = reactor::Config {
        waker: Some(stop.waker.clone()),
        pool_bytes_max: config.memory().spare_bytes,
        ..reactor::Config::default()
    };
    let mut reactor = Reactor::new(reactor_config).context("cannot make the event loop")?;
    let heartbeats = HeartbeatThread::start(&config, reactor.pulse(), stop.clone());
    let heartbeats = heartbeats.with_context(|| format!("{id} cannot answer heartbeats"))?;
    let mut osd = Osd::new(reactor.io(), config, stop.clone()).with_context(|| format!("{id} cannot start"))?;
    osd.set_heartbeats(heartbeats.board().clone(), heartbeats.addrs().clone());
    reactor.run(&mut osd)?;
    drop((osd, heartbeats));
    match stop.failure() {
        Some(reason) => Err(anyhow::anyhow!(reason)),
        None => Ok(()),
    }
}
