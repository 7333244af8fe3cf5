//! State of a group on its way to serving.

use crate::agreement::found_copies::Doubt;
use crate::agreement::log_holders::LogHolders;
use crate::agreement::ways_back::GoingBack;
use crate::messages::peering::MemberState;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use types::{EVersion, Epoch, ObjectId, OsdId};
use wire::nacre::mon::PgHistory;

/// The primary's place on the way to serving.
#[derive(Debug, Default)]
pub(crate) enum Phase {
    /// This OSD is not the primary.
    #[default]
    Follower,
    /// Waits for a map that this OSD has not seen: what was under way with a member is lost (`interruption`).
    AwaitingMap {
        newer_than: Epoch,
    },
    /// Waits for the monitors' record and for what members have.
    Gathering {
        waiting: BTreeSet<OsdId>,
    },
    /// Waits for the log of the member that has the longest.
    GettingLog {
        from: OsdId,
        /// In an erasure-coded group: those whose logs tell where the group's ends.
        holders: LogHolders,
    },
    /// Members bring their logs to the authoritative one.
    Starting {
        waiting: BTreeSet<OsdId>,
    },
    /// The monitors record that the group becomes active.
    Recording,
    /// Too few members have the log, or have the objects of updates that perhaps no client was answered for. The group
    /// waits for more members that have them.
    Peered,
    Active,
    /// Recorded as one that serves, but answers nobody: it is about to be merged with another group.
    Premerge,
    /// Members have the log, and the group waits for an acting set with OSDs that served before.
    AwaitingActing,
    /// Waits for another acting set to stand in.
    Remapping,
    /// The members that served last are down.
    Down,
    /// The members that served last are here and have not what they should have.
    Incomplete,
}

/// The primary's step on the way to serving, as far as operators tell steps apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PeeringStep {
    /// Learns who has what.
    Asks,
    /// Gets the log that holds.
    GetsLog,
    /// Members bring their logs to that one.
    Starts,
    /// The monitors record that the group is to serve.
    Records,
    /// Other OSDs are to act.
    AwaitsOthers,
    Down,
    Incomplete,
    /// Members have the log.
    Done,
}

/// Times until which something holds for an OSD, as this one's clock has it; or for one that is not known.
pub(super) type Spans = BTreeMap<Option<OsdId>, Duration>;

/// One group's way to serving, on its primary; and whom it follows, on other members.
#[derive(Debug, Default)]
pub(crate) struct Peering {
    pub(super) phase: Phase,
    /// States of the other members at the interval's beginning.
    pub(super) told: BTreeMap<OsdId, MemberState>,
    /// Times until which members' promises to other primaries may last, as this OSD's clock has it. Promises that were
    /// made before a member started are to somebody who is not known.
    pub(super) promised: Spans,
    /// The monitors' last word; or, where that may be behind, what all OSDs have.
    pub(super) history: Option<PgHistory>,
    /// The record's `last_epoch_started`, as the monitors said it.
    pub(super) record: Option<Epoch>,
    pub(super) doubt: Doubt,
    /// The primary and interval that this member has joined.
    pub(super) joined: Option<(OsdId, Epoch)>,
    /// Set when this member has the authoritative log of the interval it has joined; the value tells if durably.
    pub(super) started: Option<bool>,
    /// Acting set that is wanted instead, and the record that is, as last asked for.
    pub(super) temp_asked: Option<Vec<OsdId>>,
    pub(super) record_asked: Option<(Vec<OsdId>, bool)>,
    pub(super) retry_at: Duration,
    /// Objects that nobody has, and what they can go back to.
    pub(super) going_back: GoingBack,
    /// Times until which others may read, by what each member that was asked has told that it let them.
    pub(super) shares: BTreeMap<OsdId, Spans>,
    /// Times until which OSDs that served last may still answer reads: the primary, or members that it let read, too.
    pub(super) readers: BTreeMap<OsdId, Duration>,
    /// Members that the record names for a shard of an erasure-coded group and that do not have it: since which epoch
    /// they have been up, and the record's. Outlasts intervals, as those that do not act any more are not asked again.
    pub(super) without: BTreeMap<(OsdId, u8), (Epoch, Epoch)>,
}

impl Peering {
    pub fn is_active(&self) -> bool {
        matches!(self.phase, Phase::Active)
    }

    /// Tells whether members that served last are down, and it takes one of them.
    pub fn is_down(&self) -> bool {
        matches!(self.phase, Phase::Down)
    }

    /// Tells whether members have the log, and the record is still to be asked for.
    pub fn is_peered(&self) -> bool {
        matches!(self.phase, Phase::Peered | Phase::AwaitingActing)
    }

    /// Tells whether the interval has ended, and the next one begins with the next map.
    pub fn awaits_map(&self) -> bool {
        matches!(self.phase, Phase::AwaitingMap { .. })
    }

    /// Returns what a member had at the interval's beginning, if it has told.
    pub fn told(&self, osd: OsdId) -> Option<&MemberState> {
        self.told.get(&osd)
    }

    /// Returns the step that operators are shown, and the members that it waits for.
    pub fn step(&self) -> (PeeringStep, Vec<OsdId>) {
        match &self.phase {
            Phase::Follower | Phase::AwaitingMap { .. } => (PeeringStep::Asks, Vec::new()),
            Phase::Gathering { waiting } => (PeeringStep::Asks, waiting.iter().copied().collect()),
            Phase::GettingLog { from, .. } => (PeeringStep::GetsLog, vec![*from]),
            Phase::Starting { waiting } => (PeeringStep::Starts, waiting.iter().copied().collect()),
            Phase::Recording => (PeeringStep::Records, Vec::new()),
            Phase::AwaitingActing | Phase::Remapping => (PeeringStep::AwaitsOthers, Vec::new()),
            Phase::Down => (PeeringStep::Down, Vec::new()),
            Phase::Incomplete => (PeeringStep::Incomplete, Vec::new()),
            Phase::Peered | Phase::Active | Phase::Premerge => (PeeringStep::Done, Vec::new()),
        }
    }

    /// Returns the record of who served, as far as it is known.
    pub fn history(&self) -> Option<&PgHistory> {
        self.history.as_ref()
    }

    /// Returns the time until which others may answer reads.
    pub fn others_read_until(&self) -> Duration {
        self.readers.values().copied().max().unwrap_or_default()
    }

    /// Returns true if this member takes updates from `osd` in the interval that began at `since`.
    pub fn follows(&self, osd: OsdId, since: Epoch) -> bool {
        self.joined == Some((osd, since))
    }

    /// Returns the epoch since which this member has followed `primary`, if it does.
    pub fn joined_since(&self, primary: OsdId) -> Option<Epoch> {
        self.joined.filter(|(osd, _)| *osd == primary).map(|(_, since)| since)
    }

    /// Returns the version that the object goes back to, while a member is asked for it.
    pub fn former_version(&self, object: &ObjectId) -> Option<EVersion> {
        self.going_back.get(object)?.as_ref().map(|way| way.to)
    }

    /// Forgets what was of one interval.
    pub fn interval_ended(&mut self) {
        *self = Peering { without: std::mem::take(&mut self.without), ..Peering::default() };
    }

    /// Tells whether members have the log, so that objects can be brought to them.
    pub fn may_recover(&self) -> bool {
        self.is_peered() || matches!(self.phase, Phase::Active | Phase::Premerge)
    }
}
