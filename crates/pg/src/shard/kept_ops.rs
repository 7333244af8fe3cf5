//! Operations that a shard has kept, and those that are not answered.

use super::Shard;
use crate::hops::{OpCounts, OpSample, OpState};
use std::time::Duration;

impl Shard {
    /// Returns one in how many operations is chosen to be kept, at present.
    pub fn one_op_kept_in(&self) -> u64 {
        self.host.shared.recorder.one_in()
    }

    /// Returns the counts of clients' operations that were answered so far.
    pub fn op_counts(&self) -> OpCounts {
        self.host.shared.recorder.counts()
    }

    /// Returns the operations that were chosen, oldest first: those of the last half minute at least.
    pub fn recent_ops(&self) -> impl DoubleEndedIterator<Item = &OpSample> {
        self.host.shared.recorder.recent()
    }

    /// Returns the slowest operations of each of the last ten minutes.
    pub fn slowest_ops(&self) -> impl Iterator<Item = &OpSample> {
        self.host.shared.recorder.slowest()
    }

    /// Returns the operations that groups have and that are not answered, with how far they have come; at most `max`.
    /// Operations that wait for memory or for a map are not among them.
    pub fn ops_in_flight(&self, max: usize) -> Vec<(OpSample, OpState)> {
        self.groups().flat_map(|pg| pg.ops_in_flight()).take(max).collect()
    }

    /// Returns how many operations that are not answered wait for longer than
    /// [`Tuning::complain_after`](crate::Tuning::complain_after), and how old the oldest is.
    pub fn slow_ops(&self, now: Duration) -> (u64, Duration) {
        let ages = self.groups().flat_map(|pg| pg.unanswered()).map(|op| now.saturating_sub(op.times.began));
        let slow = ages.filter(|age| *age >= self.host.shared.tuning.complain_after);
        slow.fold((0, Duration::ZERO), |(count, oldest), age| (count + 1, oldest.max(age)))
    }
}
