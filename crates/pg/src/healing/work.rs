//! The work that a group has to heal, and how far it may.

use types::OsdId;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Work {
    /// Objects that logs tell to be missing.
    Recovery,
    /// Members that are compared object by object.
    Backfill,
}

/// Work that an operator wants done before other groups', until there is nothing to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Forced {
    pub(super) recovery: bool,
    pub(super) backfill: bool,
}

/// Work of a primary, and the slots for it.
#[derive(Debug, Default)]
pub(crate) struct Turn {
    pub(super) work: Option<Work>,
    pub(super) priority: u64,
    /// Members whose slots are needed, in order.
    pub(super) targets: Vec<OsdId>,
    /// True if this OSD's own slot is there.
    pub(super) local: bool,
    /// Count of the members that have given their slots.
    pub(super) granted: usize,
}

/// Work that waits: for room on OSDs, for metadata that can be read, or for the operator.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Blocked {
    pub recovery: bool,
    pub backfill: bool,
    /// Objects of this group, or of a member, cannot be listed.
    pub unlisted: bool,
    /// Work that flags of the map (`norecover`, `nobackfill`, `norebalance`) hold back.
    pub held: Option<Work>,
}

impl Turn {
    /// Tells whether it is this group's turn, and for this.
    pub fn does(&self, work: Work) -> bool {
        self.may_work() && self.work == Some(work)
    }

    pub fn work(&self) -> Option<Work> {
        self.work
    }

    pub fn may_work(&self) -> bool {
        self.work.is_some() && self.local && self.granted == self.targets.len()
    }
}
