//! Running counts of operations that were answered.

use std::time::Duration;

/// Operations of one kind.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct OpCount {
    pub ops: u64,
    /// Bytes that came with them, and that were sent with their answers.
    pub in_bytes: u64,
    pub out_bytes: u64,
    /// Time from when they came until their answers were ready, of all together.
    pub took: Duration,
}

/// Clients' operations that this OSD has answered since it started, refusals among them. Requests that were sent again
/// and answered from the log do not count.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct OpCounts {
    pub reads: OpCount,
    /// Operations that may change something.
    pub updates: OpCount,
}

impl OpCount {
    pub(super) fn add(&mut self, in_bytes: u64, out_bytes: u64, took: Duration) {
        *self = self.and(OpCount { ops: 1, in_bytes, out_bytes, took });
    }

    /// Returns the counts of both together.
    #[must_use]
    pub fn and(self, other: OpCount) -> OpCount {
        OpCount {
            ops: self.ops + other.ops,
            in_bytes: self.in_bytes + other.in_bytes,
            out_bytes: self.out_bytes + other.out_bytes,
            took: self.took + other.took,
        }
    }
}

impl OpCounts {
    /// Returns the counts of this shard and of another together.
    #[must_use]
    pub fn and(self, other: OpCounts) -> OpCounts {
        OpCounts { reads: self.reads.and(other.reads), updates: self.updates.and(other.updates) }
    }

    /// Returns the counts of all kinds together.
    pub fn all(&self) -> OpCount {
        self.reads.and(self.updates)
    }
}
