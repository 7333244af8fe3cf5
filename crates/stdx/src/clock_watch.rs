//! Notices that this machine stood still although the clock that measures leases did not count that time.
//!
//! `CLOCK_BOOTTIME` counts a machine's sleep. If a host pauses a virtual machine, that clock may count nothing of the
//! pause. The wall clock, once it is set right, is then ahead by the length of the pause.

use std::time::Duration;

/// The wall clock beside the clock that measures leases.
#[derive(Debug)]
pub struct ClockWatch {
    gain_max: Duration,
    last: Option<(Duration, Duration)>,
}

impl ClockWatch {
    /// `gain_max`: the largest gain of the wall clock between two looks that counts as normal. A wall clock that is
    /// being set right runs at most a tenth faster.
    pub fn new(gain_max: Duration) -> ClockWatch {
        ClockWatch { gain_max, last: None }
    }

    /// Looks at both clocks; `wall` is the time since 1970. Returns the time by which the wall clock has advanced more
    /// than the other clock since the last look, if clocks do not differ by that much on their own: then somebody has
    /// set the wall clock, or this machine stood still.
    pub fn look(&mut self, clock: Duration, wall: Duration) -> Option<Duration> {
        let (clock_before, wall_before) = self.last.replace((clock, wall))?;
        let gain = wall.checked_sub(wall_before)?.checked_sub(clock.saturating_sub(clock_before))?;
        (gain > self.gain_max).then_some(gain)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_wall_clock_that_jumps_ahead_tells_of_a_pause() {
        let mut watch = ClockWatch::new(Duration::from_millis(100));
        let mut look = |clock_ms: u64, wall_ms: u64| {
            let wall = Duration::from_millis(1_000_000 + wall_ms);
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
