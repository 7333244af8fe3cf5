//! Figures that operators may change while an OSD runs.

use crate::hops::COMPLAIN_AFTER;
use std::time::Duration;

/// Figures of one shard, which are the same in all shards of an OSD.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tuning {
    /// Groups of the whole OSD that heal at the same time, on each side: as their primary, and as a member. At least 1.
    pub healing_groups: usize,
    /// Objects of a group that are on their way to one member at a time. At least 1.
    pub healing_objects: usize,
    /// An operation that is not answered after this time has waited for too long.
    pub complain_after: Duration,
}

impl Default for Tuning {
    fn default() -> Tuning {
        Tuning { healing_groups: 3, healing_objects: 16, complain_after: COMPLAIN_AFTER }
    }
}
