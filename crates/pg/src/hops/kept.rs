//! What a shard tells of its operations.

use super::counts::OpCounts;
use super::sample::OpSample;
use super::times::OpTimes;
use crate::Shard;
use std::time::Duration;

/// An operation that is not answered after this time has waited for too long, as Ceph's `osd_op_complaint_time` says.
pub const COMPLAIN_AFTER: Duration = Duration::from_secs(30);

/// How far an operation has come that is not answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OpState {
    /// Its placement group does not serve.
    WaitsForGroup,
    /// Behind others on the same object, or for a lookup.
    Queued,
    /// For members of the group.
    WaitsForMembers,
}

impl Shard {
    /// One in how many operations is chosen to be kept, at present.
    pub fn one_op_kept_in(&self) -> u64 {
        self.recorder.one_in()
    }

    /// Clients' operations that were answered so far.
    pub fn op_counts(&self) -> OpCounts {
        self.recorder.counts()
    }

    /// Operations that were chosen, oldest first: those of the last half minute at least.
    pub fn recent_ops(&self) -> impl DoubleEndedIterator<Item = &OpSample> {
        self.recorder.recent()
    }

    /// The slowest operations of each of the last ten minutes.
    pub fn slowest_ops(&self) -> impl Iterator<Item = &OpSample> {
        self.recorder.slowest()
    }

    /// Operations that groups have and that are not answered, with how far they have come; at most `max`. Those that
    /// wait for memory or for a map are not among them.
    pub fn ops_in_flight(&self, max: usize) -> Vec<(OpSample, OpState)> {
        self.groups().flat_map(|pg| pg.ops_in_flight()).take(max).collect()
    }

    /// How many of them are not answered [`COMPLAIN_AFTER`] they came, and how old the oldest is.
    pub fn slow_ops(&self, now: Duration) -> (u64, Duration) {
        let ages = self.groups().flat_map(|pg| pg.unanswered()).map(|op| now.saturating_sub(op.times.began));
        let slow = ages.filter(|age| *age >= COMPLAIN_AFTER);
        slow.fold((0, Duration::ZERO), |(count, oldest), age| (count + 1, oldest.max(age)))
    }
}

impl OpSample {
    /// How long it has taken, or had by `now` if it is not answered.
    pub fn age_us(&self, now: Duration) -> u64 {
        match self.answered.happened() {
            true => self.total_us().into(),
            false => OpTimes::new(self.began, self.began).stamp(now).0.into(),
        }
    }
}
