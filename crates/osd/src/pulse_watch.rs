//! Watches from outside that an OSD's loop moves.
//!
//! A loop that is stuck in a handler answers nobody, but its process lives, its sockets accept and its pid file is
//! right: nobody would restart it. Therefore the heartbeats' thread looks at the loop's pulse. It warns first, then
//! stops answering other OSDs, and ends the process when there is no hope left. The supervisor starts the process
//! again, and the new one replays everything that was acknowledged.

use reactor::PulseReading;
use std::time::Duration;

/// Time in one turn after which there is a warning. On a machine that works no turn takes so long.
const WARN_AFTER: Duration = Duration::from_secs(5);
/// Time in one turn after which the process is ended.
pub(crate) const GIVE_UP_AFTER: Duration = Duration::from_secs(30);
const _: () = assert!(
    WARN_AFTER.as_millis() < GIVE_UP_AFTER.as_millis(),
    "the log tells of a loop that is stuck before its process ends"
);
/// The most time between two looks that counts. If more has passed, the watcher did not run either: the process was
/// stopped or starved, or the machine slept, and the loop is not to blame.
pub(crate) const COUNTED_MAX: Duration = Duration::from_secs(2);

/// Result of a look.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    Moves,
    /// The loop has been in the same turn for this long. The caller reports it; this comes once per [`WARN_AFTER`].
    Stuck(Duration),
    /// The loop has been in the same turn for so long that there is no hope.
    Dead(Duration),
}

/// Judges a loop by looks at its pulse.
#[derive(Debug, Default)]
pub(crate) struct PulseWatch {
    last: Option<(Duration, PulseReading)>,
    stuck_for: Duration,
    told_at: Duration,
}

impl PulseWatch {
    /// Time for which the loop has been in one turn, as far as the looks tell; zero if it moves.
    pub fn stuck_for(&self) -> Duration {
        self.stuck_for
    }

    /// Looks at the pulse at time `now`.
    pub fn look(&mut self, now: Duration, reading: PulseReading) -> Verdict {
        let stuck = self.last.filter(|(_, last)| reading.busy && *last == reading);
        self.last = Some((now, reading));
        let Some((before, _)) = stuck else {
            (self.stuck_for, self.told_at) = (Duration::ZERO, Duration::ZERO);
            return Verdict::Moves;
        };
        self.stuck_for += now.saturating_sub(before).min(COUNTED_MAX);
        if self.stuck_for >= GIVE_UP_AFTER {
            Verdict::Dead(self.stuck_for)
        } else if self.stuck_for >= self.told_at + WARN_AFTER {
            self.told_at = self.stuck_for;
            Verdict::Stuck(self.stuck_for)
        } else {
            Verdict::Moves
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn busy(turns: u64) -> PulseReading {
        PulseReading { turns, busy: true }
    }

    /// Verdicts of looks a second apart, in seconds: 0 for a loop that moves, negative for one that is given up.
    fn verdicts(readings: impl IntoIterator<Item = PulseReading>) -> Vec<i64> {
        let mut watch = PulseWatch::default();
        let mut now = Duration::ZERO;
        let mut look = |reading| {
            now += SECOND;
            match watch.look(now, reading) {
                Verdict::Moves => 0,
                Verdict::Stuck(time) => time.as_secs() as i64,
                Verdict::Dead(time) => -(time.as_secs() as i64),
            }
        };
        readings.into_iter().map(&mut look).collect()
    }

    #[test]
    fn a_loop_that_moves_or_waits_is_well() {
        assert!(verdicts((0..100).map(busy)).iter().all(|v| *v == 0));
        let idle = PulseReading { turns: 7, busy: false };
        assert!(verdicts([idle; 100]).iter().all(|v| *v == 0));
    }

    #[test]
    fn one_long_turn_is_told_now_and_then_and_given_up_at_last() {
        let verdicts = verdicts([busy(7); 32]);
        let told: Vec<i64> = verdicts.iter().copied().filter(|v| *v != 0).collect();
        assert_eq!(told, [5, 10, 15, 20, 25, -30, -31]);
    }

    #[test]
    fn every_new_turn_counts_from_the_start() {
        let readings = (0..20).flat_map(|turn| [busy(turn); 5]);
        assert!(verdicts(readings).iter().all(|v| *v == 0), "four seconds each");
    }

    #[test]
    fn time_in_which_the_watcher_did_not_run_does_not_count() {
        let mut watch = PulseWatch::default();
        let mut now = SECOND;
        assert_eq!(watch.look(now, busy(7)), Verdict::Moves);
        now += 600 * SECOND;
        assert_eq!(watch.look(now, busy(7)), Verdict::Moves);
        for _ in 0..2 {
            now += SECOND;
            assert_eq!(watch.look(now, busy(7)), Verdict::Moves);
        }
        assert_eq!(watch.look(now + SECOND, busy(7)), Verdict::Stuck(5 * SECOND));
    }
}
