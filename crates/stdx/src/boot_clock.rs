//! A clock that goes on while the machine sleeps.

use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// The time since a moment, by a clock that goes on while the machine sleeps (`CLOCK_BOOTTIME`).
///
/// Leases, which others rely on for some time, are measured by it: those others count on while this machine sleeps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BootClock {
    since_boot: Duration,
}

impl BootClock {
    /// A clock that shows zero now.
    pub fn start() -> BootClock {
        BootClock { since_boot: since_boot() }
    }

    /// The time since [`BootClock::start`], sleep included.
    pub fn elapsed(&self) -> Duration {
        since_boot().saturating_sub(self.since_boot)
    }
}

fn since_boot() -> Duration {
    let clock = if mutant::is(mutant::Mutant::SleepUncounted) { ClockId::Monotonic } else { ClockId::Boottime };
    let time = clock_gettime(clock);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The two clocks differ on a machine that has slept; `CLOCK_MONOTONIC` never shows more.
    #[test]
    fn sleep_counts() {
        let monotonic = clock_gettime(ClockId::Monotonic);
        let (with_sleep, without) = (since_boot(), Duration::new(monotonic.tv_sec as u64, monotonic.tv_nsec as u32));
        assert!(with_sleep >= without, "{with_sleep:?}, {without:?}");
        let clock = BootClock::start();
        std::thread::sleep(Duration::from_millis(20));
        assert!(clock.elapsed() >= Duration::from_millis(20));
    }
}
