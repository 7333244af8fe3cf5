//! Versions of updates within a placement group.

use crate::Epoch;
use std::fmt;

/// Version of one update of a placement group: the epoch in which its primary was chosen, then a counter that never
/// goes back within the group. Ordered by epoch, then counter.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct EVersion {
    pub epoch: Epoch,
    pub version: u64,
}

impl EVersion {
    pub const ZERO: EVersion = EVersion { epoch: Epoch(0), version: 0 };

    pub const fn new(epoch: u32, version: u64) -> EVersion {
        EVersion { epoch: Epoch(epoch), version }
    }
}

impl fmt::Display for EVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}'{}", self.epoch.0, self.version)
    }
}
