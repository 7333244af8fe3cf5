//! The walk over objects that snapshots preserve, and its updates.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;
use store::LookupId;
use types::{ObjectId, SnapId};
use wire::basic::IntervalSet;

/// An object's part in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Trim {
    /// The object has more that is to go.
    pub more: bool,
}

/// A group's part in it, as primary.
#[derive(Debug, Default)]
pub(crate) struct SnapTrim {
    /// Removed snapshots of which nothing is left in the group.
    pub(super) done: IntervalSet,
    pub(super) run: Option<TrimRun>,
    /// Time before which what the last run could not remove is not tried again.
    pub(super) not_before: Duration,
    /// True if other groups of this OSD have their turn.
    pub(super) waits: bool,
    /// Objects and clones that were listed, of all there are in the group or of those that were made for a snapshot.
    pub(super) listed: u64,
}

/// Snapshots that are done with together.
#[derive(Debug)]
pub(super) struct TrimRun {
    pub(super) snaps: IntervalSet,
    /// The place that is listed next. `None`: all is.
    pub(super) place: Option<Place>,
    /// Objects that have clones, by their present states.
    pub(super) objects: VecDeque<ObjectId>,
    pub(super) in_flight: BTreeSet<ObjectId>,
    pub(super) waits_for: Option<LookupId>,
    /// Something is damaged, or the store has refused a change: the snapshots are not done with.
    pub(super) has_failed: bool,
}

/// How far the listing is.
#[derive(Clone, Debug)]
pub(super) struct Place {
    /// Whose clones are listed. `None`: all objects of the group are.
    pub(super) snap: Option<SnapId>,
    /// Objects before this one have been looked at.
    pub(super) cursor: ObjectId,
}

/// Outcome of a look at the next objects.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Page {
    Full,
    Last,
    /// The walk has nothing more to do now.
    Nothing,
}

impl TrimRun {
    /// Returns the next of its snapshots behind `snap`.
    pub(super) fn next_snap(&self, snap: SnapId) -> Option<SnapId> {
        let behind = |(start, len): (u64, u64)| {
            let next = start.max(snap.0 + 1);
            (next < start + len).then_some(SnapId(next))
        };
        self.snaps.runs().find_map(behind)
    }
}

impl SnapTrim {
    /// Forgets the run, as the interval ends.
    pub fn forget(&mut self) {
        *self = SnapTrim::default();
    }

    /// Returns removed snapshots of which nothing is left.
    pub fn done(&self) -> IntervalSet {
        self.done.clone()
    }

    /// Returns how many objects and clones were listed.
    #[cfg(test)]
    pub fn listed(&self) -> u64 {
        self.listed
    }

    /// Returns the snapshots of `removed` that are not done with.
    pub fn queued(&self, removed: Option<&IntervalSet>) -> IntervalSet {
        let mut left = removed.cloned().unwrap_or_default();
        left.subtract(&self.done);
        left
    }
}
