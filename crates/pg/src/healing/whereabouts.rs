//! Where the objects of a group are, as far as this OSD knows.

use super::state::Healing;
use crate::agreement::members::{Members, Standing};
use crate::agreement::phase::Peering;
use crate::coded::old_shards::OldShards;
use crate::context::Context;
use crate::group::core::Core;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use types::{EVersion, ObjectId, OsdId};

/// Stands for the version in which an object is wanted of which nothing tells it: its metadata cannot be read where it
/// is, and no log names the object.
pub(crate) const UNKNOWN_VERSION: EVersion = EVersion::ZERO;

/// Questions that need their answers at once: who has an object, who lacks it, and whether it can be had. They change
/// nothing.
#[derive(Clone, Copy)]
pub(crate) struct Whereabouts<'a> {
    pub(super) state: &'a Healing,
    pub(crate) core: &'a Core,
    pub(crate) members: &'a Members,
    pub(crate) old_shards: &'a OldShards,
    pub(crate) peering: &'a Peering,
}

impl<'a> Whereabouts<'a> {
    pub fn new(
        state: &'a Healing,
        core: &'a Core,
        members: &'a Members,
        old_shards: &'a OldShards,
        peering: &'a Peering,
    ) -> Whereabouts<'a> {
        Whereabouts { state, core, members, old_shards, peering }
    }

    // ---- here ----

    /// Returns true if the object is here, so that it can be sent.
    pub fn is_readable(self, object: &ObjectId) -> bool {
        !self.core.missing.contains_key(object) && !self.state.unreadable.contains_key(object)
    }

    /// Returns true if the object has come from elsewhere and is not durable here yet.
    pub fn is_settling(self, object: &ObjectId) -> bool {
        self.state.pulls.is_settling(object)
    }

    /// Returns true if this primary lacks nothing, and has all durably.
    pub fn has_all_durably(self) -> bool {
        self.core.missing.is_empty() && self.state.pulls.are_durable()
    }

    /// Gives the objects that this primary has by its log, and not durably, or cannot read.
    pub fn not_for_sure(self) -> impl Iterator<Item = &'a ObjectId> {
        self.state.pulls.settling().chain(self.state.unreadable.keys())
    }

    /// Returns the OSD from which the object is on its way to this primary.
    pub fn source_in_flight(self, object: &ObjectId) -> Option<OsdId> {
        self.state.pulls.source_in_flight(object)
    }

    /// Returns the objects that are on their way to this primary, and from where.
    pub fn on_the_way_here(self) -> impl Iterator<Item = (&'a ObjectId, OsdId)> {
        self.state.pulls.in_flight.iter().map(|(object, pull)| (object, pull.source))
    }

    // ---- on others ----

    /// Returns the objects that are on their way to a member.
    pub fn on_the_way_to(self, osd: OsdId) -> impl Iterator<Item = &'a ObjectId> {
        let queue = self.state.pushes.get(&osd);
        let reading = queue.and_then(|queue| queue.reading.as_ref()).map(|reading| &reading.object);
        queue.into_iter().flat_map(|queue| queue.unacked.keys()).chain(reading)
    }

    /// Returns true if a member that is backfilled has the object as it is now.
    pub fn is_copied(self, osd: OsdId, object: &ObjectId) -> bool {
        self.state.pushes.get(&osd).is_some_and(|queue| {
            let backfill = queue.backfill.as_ref();
            let is_compared = backfill.is_some_and(|backfill| *object < backfill.compared);
            is_compared && !queue.queue.contains_key(object) && !self.members.lacks(osd, object)
        })
    }

    /// Returns the place up to which a member that is backfilled has been compared.
    pub fn backfilled_to(self, osd: OsdId) -> Option<&'a ObjectId> {
        Some(&self.state.pushes.get(&osd)?.backfill.as_ref()?.compared)
    }

    /// Returns true if an OSD had no room when it was sent something last.
    pub fn had_no_room(self, osd: OsdId, now: Duration) -> bool {
        self.state.sent_back.holds(osd, now)
    }

    /// Returns a member that should have what is missing here, and was not asked in vain before.
    pub fn source_of(self, object: &ObjectId, version: EVersion) -> Option<OsdId> {
        let tried = |osd: &OsdId| self.state.pulls.tried.get(object).is_some_and(|tried| tried.contains(osd));
        if !self.core.protection().is_whole_on_each() {
            // The primary computes its own shard, of others' ones.
            let whoami = self.core.interval.primary.filter(|osd| !tried(osd));
            return whoami.filter(|osd| self.can_decode(object, Some(*osd)));
        }
        let has = |(osd, standing): &(OsdId, Standing)| match standing {
            Standing::Serving => !self.members.lacking(object).contains(osd),
            // Its state of the object may be older, and nothing would tell.
            Standing::Behind if version == UNKNOWN_VERSION => false,
            // The member's log says little, but what it sends tells its version.
            Standing::Behind => self.peering.told(*osd).is_some_and(|told| {
                let info = told.info.as_ref().filter(|info| info.covers(object));
                info.is_some_and(|info| info.last_update >= version) && !told.missing.contains_key(object)
            }),
            Standing::Backfilling | Standing::Backfilled(_) => self.is_copied(*osd, object),
        };
        let mut sources: Vec<_> = self.members.iter().filter(|(osd, _)| !tried(osd)).filter(has).collect();
        sources.sort_by_key(|(_, standing)| *standing != Standing::Serving);
        sources.first().map(|(osd, _)| *osd)
    }

    /// Returns true if something that is missing here is on its way, or can be had.
    pub fn can_pull_any(self) -> bool {
        let can = |(object, version): (&ObjectId, &EVersion)| self.source_of(object, *version).is_some();
        !self.state.pulls.in_flight.is_empty() || self.core.missing.iter().any(can)
    }

    /// Returns true if another member should have this version of an object.
    pub fn is_elsewhere(self, object: &ObjectId, version: EVersion) -> bool {
        self.peering.may_recover() && self.source_of(object, version).is_some()
    }

    /// Returns true if one more failure would end service, or lose data that only one member has.
    pub fn is_at_risk(self) -> bool {
        let serving = self.serving_copies();
        // At the number that it takes to read, one more failure loses data.
        let last = self.core.protection().needed();
        serving < usize::from(self.core.interval.shape.min_size) || serving == last && self.core.interval.shape.size > 1
    }

    // ---- nowhere ----

    /// Returns the objects that nobody who is there can supply, each in the version that is wanted.
    pub fn unfound(self) -> impl Iterator<Item = (&'a ObjectId, EVersion)> {
        let own = self.core.missing.keys().chain(self.state.unreadable.keys());
        let objects: BTreeSet<&ObjectId> = own.chain(self.lacked_by_many()).collect();
        let unfound = objects.into_iter().filter(move |object| self.peering.may_recover() && self.is_unfound(object));
        unfound.filter_map(move |object| Some((object, self.wanted_version(object)?)))
    }

    pub fn unfound_count(self) -> u64 {
        self.unfound().count() as u64
    }

    /// Returns the objects of an erasure-coded group of which perhaps so many members lack their shard that the others'
    /// are too few.
    fn lacked_by_many(self) -> impl Iterator<Item = &'a ObjectId> {
        let mut lacking: BTreeMap<&ObjectId, usize> = BTreeMap::new();
        if !self.core.protection().is_whole_on_each() {
            let spare = self.serving_copies().saturating_sub(self.core.protection().needed());
            self.members.all_missing().for_each(|object| *lacking.entry(object).or_default() += 1);
            lacking.retain(|_, members| *members > spare);
        }
        lacking.into_keys()
    }

    /// Returns true if nobody who is there, this primary included, can supply the object as it should be.
    pub fn is_unfound(self, object: &ObjectId) -> bool {
        if self.source_in_flight(object).is_some() {
            return false;
        }
        if mutant::is(mutant::Mutant::UnfoundByOwnOnly) {
            return self.core.missing.get(object).is_some_and(|version| self.source_of(object, *version).is_none());
        }
        match self.core.missing.get(object) {
            // A member that serves, and does not lack it, has it as it should be, whichever version that is.
            _ if self.state.unreadable.get(object) == Some(&Some(UNKNOWN_VERSION)) => {
                self.source_of(object, UNKNOWN_VERSION).is_none()
            }
            _ if self.state.unreadable.contains_key(object) => true,
            Some(version) => self.source_of(object, *version).is_none(),
            None => self.members.wanted(object).is_some() && !self.can_decode(object, None),
        }
    }

    /// Returns true if there is an object that cannot be read here, and that others have: as long as it does not come
    /// here, no member can be compared or sent it.
    pub fn waits_for_unreadable(self) -> bool {
        self.state.unreadable.iter().any(|(object, version)| version.is_none() || !self.is_unfound(object))
    }

    /// Returns the version in which members, or this primary, lack the object, as far as it is known.
    pub fn wanted_version(self, object: &ObjectId) -> Option<EVersion> {
        let unreadable = || self.state.unreadable.get(object).copied().flatten();
        self.core.missing.get(object).copied().or_else(unreadable).or_else(|| self.members.wanted(object))
    }

    /// Lets clients send again what they hold back for want of objects that are there, or can be had.
    pub fn release_found(self, cx: &mut Context<'_>) {
        let id = self.core.id.base();
        if cx.shared.backoffs.any_for_objects(id) {
            cx.shared.backoffs.release_objects(id, cx.map.epoch, |lacks| !self.is_unfound(lacks));
        }
    }
}
