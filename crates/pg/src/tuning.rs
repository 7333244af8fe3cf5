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
    /// Pause behind each object that was sent to where it was missing.
    pub healing_pause: Duration,
    /// Other shards are asked where those that a client waits for are late.
    pub hedged_reads: bool,
    pub scrubs: ScrubTuning,
}

/// Figures of scrubs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ScrubTuning {
    /// Groups of the whole OSD that are scrubbed at a time, as their primary. Zero: no scrub begins, ordered or not.
    pub at_a_time: usize,
    /// False: it is no time at which scrubs begin that nobody has ordered.
    pub in_time: bool,
    /// True: scrubs that nobody has ordered begin though groups heal.
    pub while_healing: bool,
    /// A group that was not scrubbed for this long is scrubbed at any time. Zero: none is.
    pub overdue_after: Duration,
    /// Least pause between two chunks of a group.
    pub pause: Duration,
    /// An object with more omap keys than this, or more bytes in header, keys and values, is one with a large omap.
    pub large_omap_keys: u64,
    pub large_omap_bytes: u64,
}

impl Default for ScrubTuning {
    fn default() -> ScrubTuning {
        let week = Duration::from_secs(7 * 86_400);
        ScrubTuning {
            at_a_time: 1,
            in_time: true,
            while_healing: false,
            overdue_after: week,
            pause: Duration::ZERO,
            large_omap_keys: 200_000,
            large_omap_bytes: 1 << 30,
        }
    }
}

impl Default for Tuning {
    fn default() -> Tuning {
        Tuning {
            healing_groups: 3,
            healing_objects: 16,
            complain_after: COMPLAIN_AFTER,
            healing_pause: Duration::ZERO,
            hedged_reads: true,
            scrubs: ScrubTuning::default(),
        }
    }
}
