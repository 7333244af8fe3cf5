//! Questions about a group on its way to serving.

use super::phase::{Peering, Phase};
use crate::agreement::members::{Members, Standing};
use crate::context::Context;
use crate::group::core::Core;
use crate::healing::whereabouts::Whereabouts;
use mutant::Mutant;
use types::OsdId;
use wire::basic::{NO_SHARD, PgShard};
use wire::nacre::mon::{PgHistory, pg_state};

/// Questions that need their answers at once: who serves, whether reads may be answered, and whom the group waits for.
/// They change nothing of the group.
#[derive(Clone, Copy)]
pub(crate) struct Progress<'a> {
    pub(super) state: &'a Peering,
    pub(super) core: &'a Core,
    pub(super) members: &'a Members,
    pub(super) whereabouts: Whereabouts<'a>,
}

impl<'a> Progress<'a> {
    pub fn new(whereabouts: Whereabouts<'a>) -> Progress<'a> {
        let Whereabouts { core, members, peering, .. } = whereabouts;
        Progress { state: peering, core, members, whereabouts }
    }

    /// Returns true if this member has the authoritative log durably, in the interval that it has joined.
    pub(crate) fn has_started(self) -> bool {
        let joined = self
            .state
            .joined
            .is_some_and(|(osd, since)| self.core.interval.primary == Some(osd) && self.core.interval.since == since);
        joined && self.state.started == Some(true)
    }

    /// Returns the primary that served last, if it is known.
    pub(super) fn lease_holder(self) -> Option<OsdId> {
        self.state.history.as_ref()?.members.first().copied()
    }

    /// Returns true if the group does not serve, and will not before something befalls an OSD or an object comes:
    /// operations wait with their clients. Operations of a group on its way to serving wait here.
    pub(crate) fn turns_clients_away(self, cx: &Context<'_>) -> bool {
        match self.state.phase {
            Phase::Down | Phase::Incomplete | Phase::Premerge => true,
            Phase::Peered => cx.now >= self.state.others_read_until(),
            Phase::Gathering { .. } => !self.waits_in_doubt(cx.map).is_empty(),
            _ => false,
        }
    }

    /// Returns true if the monitors are asked to let an OSD act that does not act now.
    pub(crate) fn asks_for_others(self) -> bool {
        let asked = self.state.temp_asked.as_deref().unwrap_or_default();
        asked.iter().any(|osd| osd.is_some() && !self.core.interval.acting.contains(osd))
    }

    /// Returns the members that have the whole log, this primary first.
    pub(super) fn serving(self, whoami: OsdId) -> Vec<OsdId> {
        let serves = |osd: &OsdId| self.members.standing(*osd) == Some(Standing::Serving);
        std::iter::once(whoami).chain(self.core.others(whoami).into_iter().filter(serves)).collect()
    }

    /// Returns true if the monitors have recorded, in this interval, that the member serves.
    pub(crate) fn is_recorded(self, osd: OsdId) -> bool {
        let current = |history: &&PgHistory| history.last_epoch_started == self.core.interval.since;
        self.state.history.iter().filter(current).any(|history| history.members.contains(&osd))
    }

    /// Returns true if the member (this primary too) has the log and all objects durably.
    pub(super) fn lacks_nothing(self, osd: OsdId, whoami: OsdId) -> bool {
        match osd == whoami {
            true => self.whereabouts.has_all_durably(),
            false => self.members.lacks_nothing(osd),
        }
    }

    /// Returns the members of a group that is not clean, this primary too, that have the log and all objects durably.
    /// They are in the order of the acting set. Nobody is known to before the group has peered.
    pub(crate) fn complete(self, whoami: OsdId) -> Vec<PgShard> {
        if !self.state.may_recover() || self.state_bits(whoami) & pg_state::CLEAN != 0 {
            return Vec::new();
        }
        let interval = &self.core.interval;
        let shard_of = |osd: OsdId| interval.shard_of(osd).and_then(|shard| i8::try_from(shard).ok());
        let members = interval.acting.iter().copied().filter(|osd| osd.is_some());
        let complete = members.filter(|osd| self.lacks_nothing(*osd, whoami));
        complete.map(|osd| PgShard { osd, shard: shard_of(osd).unwrap_or(NO_SHARD) }).collect()
    }

    /// Returns true if reads may be answered: every serving member has promised that nobody else serves.
    pub(crate) fn may_read(self, cx: &mut Context<'_>) -> bool {
        let mut holds = true;
        if mutant::is(Mutant::ReadsWithoutLease) {
            return true;
        }
        for (osd, standing) in self.members.iter() {
            if standing == Standing::Serving {
                holds &= cx.shared.leases.holds(osd, cx.now);
            }
        }
        if !holds {
            cx.shared.leases.waiting.insert(self.core.id);
        }
        holds
    }

    /// Returns the bits of the group's state that tell of its way to serving and of its healing, as Ceph names them.
    pub(crate) fn state_bits(self, whoami: OsdId) -> u64 {
        let undersized = match self.state.may_recover() {
            true => self.whereabouts.serving_copies() < usize::from(self.core.interval.shape.size),
            false => !self.core.interval.is_full(),
        };
        let mut bits = match self.state.phase {
            Phase::Follower => 0,
            Phase::AwaitingMap { .. }
            | Phase::Gathering { .. }
            | Phase::GettingLog { .. }
            | Phase::Starting { .. }
            | Phase::Recording => pg_state::PEERING,
            Phase::Remapping | Phase::AwaitingActing => pg_state::PEERING | pg_state::REMAPPED,
            Phase::Peered => pg_state::PEERED,
            Phase::Active => pg_state::ACTIVE,
            Phase::Premerge => pg_state::PEERED | pg_state::PREMERGE,
            Phase::Down => pg_state::DOWN,
            Phase::Incomplete => pg_state::INCOMPLETE,
        };
        let members = self.core.interval.acting.iter();
        let lack_objects = !members.clone().all(|osd| self.lacks_nothing(*osd, whoami));
        let is_recorded = members.clone().all(|osd| self.is_recorded(*osd));
        if self.state.may_recover() {
            bits |= self.whereabouts.healing_bits();
            if self.whereabouts.degraded_and_misplaced().0 > 0 {
                bits |= pg_state::DEGRADED;
            }
        }
        let interval = &self.core.interval;
        if interval.acting != interval.up && !interval.up.is_empty() {
            bits |= pg_state::REMAPPED;
        }
        // Shards in another order than the map's have nowhere to go, nor have members for whom the map has no
        // successor, so that such groups are clean as well.
        if interval.is_where_wanted() && self.state.is_active() && !undersized && !lack_objects && is_recorded {
            bits |= pg_state::CLEAN;
        }
        if undersized {
            bits |= pg_state::UNDERSIZED | pg_state::DEGRADED;
        }
        bits
    }
}
