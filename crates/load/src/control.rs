//! How the coordinator tells threads what to do next, and what it can see of them at any time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::sync::watch;
use tokio::time::Instant;

/// Orders to threads. Later ones follow earlier ones; some may be left out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    Connect,
    Prefill,
    /// From this time on.
    Load(Instant),
    /// End what is under way, and begin nothing more.
    Stop,
    /// Remove the objects.
    Clean,
    /// Leave everything as it is and end.
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
    /// Workers look at this before every operation.
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

    /// Waits until everything is to be stopped.
    pub async fn stopped(&mut self) {
        self.wait_for(Phase::Stop).await;
    }

    /// Waits for `phase` or a later one; returns what has come. A director that is gone has ended.
    pub async fn wait_for(&mut self, phase: Phase) -> Phase {
        match self.phase.wait_for(|now| now.has_come(phase)).await {
            Ok(now) => *now,
            Err(_) => Phase::End,
        }
    }
}
