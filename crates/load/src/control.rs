//! Phases that the coordinator sets for threads, and counters of threads that it can read at any time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::sync::watch;
use tokio::time::Instant;

/// A phase of the threads' work. Later ones follow earlier ones; some may be left out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    Connect,
    Prefill,
    /// Loads the cluster from this time on.
    Load(Instant),
    /// Ends operations in flight, and begins no more.
    Stop,
    /// Removes the objects.
    Clean,
    /// Ends the threads; objects stay.
    End,
}

impl Phase {
    fn rank(self) -> u8 {
        match self {
            Phase::Connect => 0,
            Phase::Prefill => 1,
            Phase::Load(_) => 2,
            Phase::Stop => 3,
            Phase::Clean => 4,
            Phase::End => 5,
        }
    }

    pub fn has_come(self, at_least: Phase) -> bool {
        self.rank() >= at_least.rank()
    }
}

/// The coordinator's side.
pub struct Director {
    flags: Arc<Flags>,
    phase: watch::Sender<Phase>,
}

/// A thread's side.
#[derive(Clone)]
pub struct Control {
    flags: Arc<Flags>,
    phase: watch::Receiver<Phase>,
}

#[derive(Default)]
struct Flags {
    /// Workers check this before every operation.
    stopped: AtomicBool,
    prepared_bytes: AtomicU64,
}

impl Default for Director {
    fn default() -> Director {
        Director { flags: Arc::default(), phase: watch::channel(Phase::Connect).0 }
    }
}

impl Director {
    pub fn control(&self) -> Control {
        Control { flags: self.flags.clone(), phase: self.phase.subscribe() }
    }

    pub fn go(&self, phase: Phase) {
        if phase.has_come(Phase::Stop) {
            self.flags.stopped.store(true, Ordering::Relaxed);
        }
        self.phase.send_replace(phase);
    }

    /// Bytes that the prefill has written.
    pub fn prepared_bytes(&self) -> u64 {
        self.flags.prepared_bytes.load(Ordering::Relaxed)
    }
}

impl Control {
    pub fn is_stopped(&self) -> bool {
        self.flags.stopped.load(Ordering::Relaxed)
    }

    pub fn add_prepared(&self, bytes: u64) {
        self.flags.prepared_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Waits for [`Phase::Stop`] or a later phase.
    pub async fn stopped(&mut self) {
        self.wait_for(Phase::Stop).await;
    }

    /// Waits for `phase` or a later one; returns the phase that came: [`Phase::End`] if the director is gone.
    pub async fn wait_for(&mut self, phase: Phase) -> Phase {
        match self.phase.wait_for(|now| now.has_come(phase)).await {
            Ok(now) => *now,
            Err(_) => Phase::End,
        }
    }
}
