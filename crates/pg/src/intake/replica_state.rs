//! Reads that a member has, and its share of the lease that allows them.

use std::collections::BTreeMap;
use std::time::Duration;
use types::EVersion;

/// A member's knowledge of its right to answer reads in the interval that it has joined. It is not the primary.
#[derive(Debug, Default)]
pub(super) struct ReplicaReads {
    /// Time until which it may answer reads.
    pub(super) until: Duration,
    pub(super) asked_at: Option<Duration>,
    /// Time when a client wanted to read last.
    pub(super) wanted_at: Option<Duration>,
    /// All members have all updates up to here durably.
    pub(super) committed: EVersion,
    /// Reads that wait for lookups, by number, each with the newest update that was here when it began.
    pub(super) running: BTreeMap<u64, EVersion>,
}

impl ReplicaReads {
    /// Forgets the share, as another interval has been joined.
    pub fn forget_share(&mut self) {
        (self.until, self.asked_at, self.committed) = (Duration::ZERO, None, EVersion::ZERO);
        self.wanted_at = None;
    }

    /// Ends the share, as the clock may have stood still: it may be over, and so may one that is on its way.
    pub fn end_share(&mut self) {
        (self.until, self.asked_at) = (Duration::ZERO, None);
    }

    pub fn all_have(&mut self, committed: EVersion) {
        self.committed = self.committed.max(committed);
    }
}
