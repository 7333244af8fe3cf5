//! Clocks that differ.

use std::fmt;
use std::time::Duration;
use types::Utime;

/// Clocks of one cluster may differ by this much before somebody is refused for it.
pub const TOLERANCE: Duration = Duration::from_secs(300);

/// A clock that is clearly wrong: this machine's, or that of the monitor that made a ticket or a secret.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub struct ClockSkew {
    /// How much the clocks differ at least.
    pub by: Duration,
    /// True if this machine's clock is behind.
    pub behind: bool,
    /// The time by this machine's clock.
    pub now: Utime,
}

impl fmt::Display for ClockSkew {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let side = if self.behind { "behind" } else { "ahead of" };
        let seconds = self.by.as_secs();
        write!(
            f,
            "this machine's clock ({}) is at least {seconds} s {side} that of the monitors: set the clocks by NTP",
            self.now
        )
    }
}

impl ClockSkew {
    /// Compares this machine's time to a stamp that a monitor made, which cannot lie in the future.
    pub(crate) fn check_past(now: Utime, stamp: Utime, tolerance: Duration) -> Result<(), ClockSkew> {
        let by = stamp.to_unix().saturating_sub(now.to_unix());
        if by > tolerance { Err(ClockSkew { by, behind: true, now }) } else { Ok(()) }
    }
}

/// `now` and `duration` later; the last stamp there is, if that is later.
pub fn later(now: Utime, duration: Duration) -> Utime {
    let sum = now.to_unix().saturating_add(duration);
    if sum.as_secs() > u64::from(u32::MAX) { Utime { sec: u32::MAX, nsec: 999_999_999 } } else { Utime::from_unix(sum) }
}
