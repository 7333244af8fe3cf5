//! Notices that this machine stood still though the clock that leases are measured by did not count it.
//!
//! `CLOCK_BOOTTIME` counts a machine's sleep, but of a virtual machine that its host paused it may count nothing. Then
//! wall-clock time, once it is right again, is ahead of it by as much.

use std::time::Duration;
use types::Utime;

/// A wall clock that runs a tenth faster, as one that is being set right does, gains no more between two looks, of
/// which there is one per second at least. Other OSDs keep their promises longer than this.
const GAIN_MAX: Duration = Duration::from_millis(100);

/// The wall clock beside the loop's.
#[derive(Debug, Default)]
pub(crate) struct ClockWatch {
    last: Option<(Duration, Duration)>,
}

impl ClockWatch {
    /// A look at both clocks. By how much wall-clock time has gone on more since the last one, if that is more than
    /// clocks do by themselves: somebody has set it, or this machine stood still.
    pub fn look(&mut self, clock: Duration, wall: Utime) -> Option<Duration> {
        let wall = wall.to_unix();
        let (clock_before, wall_before) = self.last.replace((clock, wall))?;
        let gain = wall.checked_sub(wall_before)?.checked_sub(clock.saturating_sub(clock_before))?;
        (gain > GAIN_MAX).then_some(gain)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_wall_clock_that_jumps_ahead_tells_of_a_pause() {
        let mut watch = ClockWatch::default();
        let mut look = |clock_ms: u64, wall_ms: u64| {
            let wall = Utime::from_unix(Duration::from_millis(1_000_000 + wall_ms));
            watch.look(Duration::from_millis(clock_ms), wall).map(|gain| gain.as_millis())
        };
        assert_eq!(look(0, 0), None, "nothing to compare with");
        assert_eq!(look(1000, 1000), None);
        assert_eq!(look(61_000, 61_000), None, "both have counted a minute's sleep");
        assert_eq!(look(62_000, 62_090), None, "it runs faster than it should");
        assert_eq!(look(62_001, 122_091), Some(60_000), "a minute that only one has counted");
        assert_eq!(look(63_001, 100_000), None, "it was set back");
        assert_eq!(look(63_500, 100_499), None);
    }
}
