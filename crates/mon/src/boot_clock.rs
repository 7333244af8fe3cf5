//! The clock that a monitor's leases are measured by.

use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// The time since a moment, by a clock that goes on while the machine sleeps (`CLOCK_BOOTTIME`), as [`raft::Raft`]
/// wants it.
#[derive(Clone, Copy, Debug)]
pub struct BootClock {
    since_boot: Duration,
}

impl BootClock {
    /// A clock that shows zero now.
    pub fn start() -> BootClock {
        BootClock { since_boot: since_boot() }
    }

    pub fn elapsed(&self) -> Duration {
        since_boot().saturating_sub(self.since_boot)
    }
}

fn since_boot() -> Duration {
    let clock = if mutant::is(mutant::Mutant::SleepUncounted) { ClockId::Monotonic } else { ClockId::Boottime };
    let time = clock_gettime(clock);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
