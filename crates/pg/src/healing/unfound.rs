//! Objects that nobody who is there can supply as they should be; and what operators see of a group, and may decide.

use crate::agreement::members::Standing;
use crate::context::Context;
use crate::group::pg::Pg;
use osdmap::OsdMap;
use std::collections::{BTreeMap, BTreeSet};
use types::{EVersion, Epoch, ObjectId, OsdId, PgId};

/// State of a group, as its primary tells it to operators.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PgView {
    pub pgid: PgId,
    /// Bits of [`wire::nacre::mon::pg_state`].
    pub state: u64,
    pub epoch: Epoch,
    pub interval_since: Epoch,
    pub up: Vec<OsdId>,
    pub acting: Vec<OsdId>,
    pub last_update: EVersion,
    pub log_tail: EVersion,
    pub last_epoch_started: Epoch,
    pub objects: u64,
    pub bytes: u64,
    pub missing: u64,
    pub degraded: u64,
    pub misplaced: u64,
    pub unfound: Vec<(ObjectId, EVersion)>,
    pub members: Vec<MemberView>,
    /// OSDs that are down and without which the group cannot serve.
    pub blocked_by: Vec<OsdId>,
}

/// The primary's knowledge of another member.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MemberView {
    pub osd: OsdId,
    /// True if the member has the whole log, and no client is answered without it.
    pub serves: bool,
    pub missing: u64,
    /// Set while the member is backfilled: objects before this one have been compared.
    pub backfill: Option<ObjectId>,
}

/// Why nothing is given up.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum GiveUpError {
    #[error("this OSD is not the primary of the group")]
    NotPrimary,
    #[error("the group does not serve, so nothing can be given up")]
    NotActive,
    #[error("the group has no unfound objects")]
    NothingUnfound,
}

impl Pg {
    /// Returns the objects that nobody who is there can supply, each in the version that is wanted.
    pub(crate) fn unfound(&self) -> impl Iterator<Item = (&ObjectId, EVersion)> {
        let own = self.core.missing.keys().chain(self.unreadable.keys());
        let objects: BTreeSet<&ObjectId> = own.chain(self.lacked_by_many()).collect();
        let unfound = objects.into_iter().filter(|object| self.peering.may_recover() && self.is_unfound(object));
        unfound.filter_map(|object| Some((object, self.wanted_version(object)?)))
    }

    /// Returns the objects of an erasure-coded group of which perhaps so many members lack their shard that the others'
    /// are too few.
    fn lacked_by_many(&self) -> impl Iterator<Item = &ObjectId> {
        let mut lacking: BTreeMap<&ObjectId, usize> = BTreeMap::new();
        if !self.core.protection().is_whole_on_each() {
            let spare = self.serving_copies().saturating_sub(self.core.protection().needed());
            self.members.all_missing().for_each(|object| *lacking.entry(object).or_default() += 1);
            lacking.retain(|_, members| *members > spare);
        }
        lacking.into_keys()
    }

    /// Returns true if nobody who is there, this primary included, can supply the object as it should be.
    pub(crate) fn is_unfound(&self, object: &ObjectId) -> bool {
        if self.pulls.source_in_flight(object).is_some() {
            return false;
        }
        if mutant::is(mutant::Mutant::UnfoundByOwnOnly) {
            return self.core.missing.get(object).is_some_and(|version| self.source_of(object, *version).is_none());
        }
        match self.core.missing.get(object) {
            _ if self.unreadable.contains_key(object) => true,
            Some(version) => self.source_of(object, *version).is_none(),
            None => self.members.wanted(object).is_some() && !self.can_decode(object, None),
        }
    }

    /// Returns the version in which members, or this primary, lack the object, as far as it is known.
    pub(crate) fn wanted_version(&self, object: &ObjectId) -> Option<EVersion> {
        let unreadable = || self.unreadable.get(object).copied().flatten();
        self.core.missing.get(object).copied().or_else(unreadable).or_else(|| self.members.wanted(object))
    }

    pub(crate) fn unfound_count(&self) -> u64 {
        self.unfound().count() as u64
    }

    /// Notes that an object which members lack cannot be read here, and that nobody else has it. Its operations wait
    /// with their clients, other objects go on without it, and it is looked at again from time to time.
    pub(crate) fn cannot_be_read(&mut self, cx: &mut Context<'_>, object: &ObjectId, version: Option<EVersion>) {
        tracing::error!(pg = %self.core.id, %object, ?version, "nobody has it so that it can be read");
        self.unreadable.insert(object.clone(), version);
        self.reread_later(cx);
        if self.is_active() {
            self.object_is_here(cx, object);
        }
        // In a group that does not serve yet it may have to go back to what it was.
        self.goes_on_soon(cx);
    }

    pub(crate) fn view(&self, whoami: OsdId, map: &OsdMap) -> PgView {
        let (degraded, misplaced) = self.degraded_and_misplaced();
        let members = self.members.iter().map(|(osd, standing)| {
            let backfill = self.pushes.get(&osd).and_then(|queue| queue.backfill.as_ref());
            MemberView {
                osd,
                serves: standing == Standing::Serving,
                missing: self.members.missing(osd).count() as u64,
                backfill: backfill.map(|backfill| backfill.compared.clone()),
            }
        });
        PgView {
            pgid: self.core.id,
            state: self.state_bits(whoami),
            epoch: map.epoch,
            interval_since: self.core.interval.since,
            up: self.core.interval.up.clone(),
            acting: self.core.interval.acting.clone(),
            last_update: self.core.log.head(),
            log_tail: self.core.log.tail(),
            last_epoch_started: self.core.info.last_epoch_started,
            objects: self.core.info.stats.objects.max(0) as u64,
            bytes: self.core.info.stats.bytes.max(0) as u64,
            missing: self.core.missing.len() as u64,
            degraded,
            misplaced,
            unfound: self.unfound().map(|(object, version)| (object.clone(), version)).collect(),
            members: members.collect(),
            blocked_by: self.blocked_by(map),
        }
    }

    /// Gives up what nobody has, on the operator's word, by updates like any others. Returns how many objects and
    /// states of objects that is. They go once what else there is of their objects is here.
    pub(crate) fn give_up_unfound(&mut self, cx: &mut Context<'_>) -> Result<usize, GiveUpError> {
        if !self.is_active() {
            return Err(GiveUpError::NotActive);
        }
        let mut objects: BTreeMap<ObjectId, BTreeMap<ObjectId, EVersion>> = BTreeMap::new();
        for (state, version) in self.unfound() {
            objects.entry(state.head_of()).or_default().insert(state.clone(), version);
        }
        if objects.is_empty() {
            return Err(GiveUpError::NothingUnfound);
        }
        let count = objects.values().map(BTreeMap::len).sum();
        objects.into_iter().for_each(|(object, lost)| self.queue_give_up(cx, object, lost));
        Ok(count)
    }

    /// Notes that these objects are given up by the update that comes now.
    pub(crate) fn is_given_up(&mut self, cx: &mut Context<'_>, lost: &BTreeMap<ObjectId, EVersion>) {
        for (object, version) in lost {
            tracing::warn!(pg = %self.core.id, %object, %version, "is given up: nobody has it");
            let members: Vec<OsdId> = self.members.iter().map(|(osd, _)| osd).collect();
            for osd in members {
                self.members.has_now(osd, object);
                if let Some(queue) = self.pushes.get_mut(&osd) {
                    queue.take(object);
                }
            }
            self.pulls.forget(object);
            self.unreadable.remove(object);
        }
        self.goes_on_soon(cx);
    }

    /// Has recovery go on in the next turn, as other objects are unfound than before. This turn is within the run of an
    /// operation, or of recovery itself.
    pub(crate) fn goes_on_soon(&mut self, cx: &mut Context<'_>) {
        self.unfound_changed = true;
        cx.agenda.wakes.insert((cx.now, self.core.id));
    }

    /// Goes on with what waited for what is unfound now, or has been given up.
    pub(crate) fn go_on_without(&mut self, cx: &mut Context<'_>) {
        if std::mem::take(&mut self.unfound_changed) {
            self.members_changed(cx);
            self.recover(cx);
        }
    }
}
