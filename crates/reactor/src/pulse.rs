//! Watching a reactor from another thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Shows if a loop moves. Cheap to clone; any thread may read it.
///
/// A loop is stuck if two readings, taken further apart than any handler may run, are equal and busy. An idle loop
/// waits, and is not busy.
#[derive(Clone, Debug, Default)]
pub struct Pulse(Arc<AtomicU64>);

/// One reading of a [`Pulse`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PulseReading {
    /// Turns begun so far.
    pub turns: u64,
    /// Handlers are being called; otherwise the loop waits, or does not run.
    pub busy: bool,
}

impl Pulse {
    pub fn read(&self) -> PulseReading {
        let value = self.0.load(Ordering::Relaxed);
        PulseReading { turns: value.div_ceil(2), busy: value % 2 == 1 }
    }

    /// Only the loop's thread writes, so a load and a store are enough.
    fn advance(&self) {
        self.0.store(self.0.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    pub(crate) fn turn_begins(&self) {
        self.advance();
        debug_assert!(self.read().busy);
    }

    pub(crate) fn turn_ends(&self) {
        self.advance();
        debug_assert!(!self.read().busy);
    }
}
