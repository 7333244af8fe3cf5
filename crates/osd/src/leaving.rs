//! An orderly stop, step by step.
//!
//! 1. *Farewell*: the OSD reads no more requests from clients and asks the monitors to mark it down. Work under way
//!    goes on until they have done so, so that clients find the next primary at once.
//! 2. *Settling*: the OSD handles no more messages. Commits under way end, and the store writes a checkpoint.
//!
//! Both steps have a time limit, because somebody waits for the OSD to stop.

use std::time::Duration;

/// The longest wait for the monitors.
const FAREWELL_MAX: Duration = Duration::from_millis(1500);
/// The longest wait for a checkpoint. Without one, the next start replays the log.
const SETTLE_MAX: Duration = Duration::from_secs(5);
/// Interval of turns while settling: each turn moves the checkpoint on by a slice, even if the device reports nothing.
pub(crate) const SETTLE_EVERY: Duration = Duration::from_micros(200);

/// Progress of an orderly stop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Leaving {
    /// The monitors have been told; the OSD waits for them until this time.
    Farewell { until: Duration },
    /// The store comes to rest; the OSD waits for it until this time.
    Settling { until: Duration },
}

impl Leaving {
    /// Begins a stop. Without a session with a monitor there is nobody to wait for.
    pub fn begin(now: Duration, has_monitor: bool) -> Leaving {
        Leaving::Farewell { until: if has_monitor { now + FAREWELL_MAX } else { now } }
    }

    /// Notes that the monitors' map shows this OSD down: there is nothing more to wait for.
    pub fn acknowledged(&mut self) {
        if let Leaving::Farewell { until } = self {
            *until = Duration::ZERO;
        }
    }

    /// Goes on to settling if it is time. Returns true once, when it does so.
    pub fn may_settle(&mut self, now: Duration) -> bool {
        match *self {
            Leaving::Farewell { until } if now >= until => {
                *self = Leaving::Settling { until: now + SETTLE_MAX };
                true
            }
            _ => false,
        }
    }

    pub fn is_settling(&self) -> bool {
        matches!(self, Leaving::Settling { .. })
    }

    /// True if the process may end. `store_is_idle`: the store is at rest.
    pub fn is_over(&self, now: Duration, store_is_idle: bool) -> bool {
        matches!(self, Leaving::Settling { until } if store_is_idle || now >= *until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Duration = Duration::from_secs(100);

    #[test]
    fn the_monitors_are_waited_for_and_then_the_store_each_for_a_bounded_time() {
        let mut leaving = Leaving::begin(START, true);
        assert!(!leaving.may_settle(START + FAREWELL_MAX / 2) && !leaving.is_settling());
        assert!(!leaving.is_over(START + FAREWELL_MAX / 2, true), "the monitors first");
        let late = START + FAREWELL_MAX;
        assert!(leaving.may_settle(late) && leaving.is_settling());
        assert!(!leaving.may_settle(late), "once");
        assert!(!leaving.is_over(late, false) && leaving.is_over(late, true));
        assert!(leaving.is_over(late + SETTLE_MAX, false));
    }

    #[test]
    fn who_is_acknowledged_or_has_no_monitor_settles_at_once() {
        let mut leaving = Leaving::begin(START, true);
        leaving.acknowledged();
        assert!(leaving.may_settle(START));
        leaving.acknowledged();
        assert!(leaving.is_settling());
        assert!(Leaving::begin(START, false).may_settle(START));
    }
}
