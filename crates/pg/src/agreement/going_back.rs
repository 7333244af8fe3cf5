//! Objects that go back to what they were before updates that nobody was answered for.
//!
//! The authoritative log may end with updates that only some members had. Where nobody who is there can read what such
//! an update made, and it is certain that no client was answered for it, the object goes back, before the group serves:
//! an update of its own gives the former state a new version, and makes the requests in between void, so that they are
//! carried out if they come again.
//!
//! Certain it is of updates that a member that the record names did not have itself: clients are answered only when all
//! such members have an update. What a member's log got from others, in intervals that were not recorded, does not
//! count ([`crate::group::info::PgInfo::had_itself`]).

use crate::agreement::machine::Agreement;
use crate::agreement::members::Standing;
use crate::agreement::progress::Progress;
use crate::agreement::ways_back::Way;
use crate::context::{Context, OnCommit, Waiter};
use crate::group::effects::Effect;
use crate::group::log::{LogEntry, LogKind};
use crate::group::lookup::{NoAnswer, ready};
use crate::group::missing::missing_step;
use crate::group::object_info::ObjectInfo;
use mutant::Mutant;
use std::collections::BTreeSet;
use store::Transaction;
use types::{EVersion, Epoch, ObjectId, OsdId};

impl Progress<'_> {
    /// Returns the newest update for which a client may have been answered, as OSDs that served last tell. `None`:
    /// nobody can tell.
    fn answered_until(self, whoami: OsdId) -> Option<EVersion> {
        let history = self.state.history.as_ref()?;
        let recorded = history.last_epoch_started;
        let had = |osd: &OsdId| {
            let told = || self.state.told.get(osd)?.info.as_ref();
            let info = if *osd == whoami { Some(&self.core.info) } else { told() };
            let info = info.filter(|info| info.complete && info.last_epoch_started >= recorded)?;
            Some(if mutant::is(Mutant::AnsweredGoBack) { info.rolled_forward } else { info.had_itself(recorded) })
        };
        history.members.iter().filter_map(had).min().filter(|_| recorded != Epoch(0))
    }

    /// Returns true if it is certain that no client was answered for the object's newest update.
    pub(super) fn is_unanswered(self, whoami: OsdId, object: &ObjectId) -> bool {
        let newest = self.core.log.newest_of(object).map(|entry| entry.version);
        newest.is_some_and(|newest| self.answered_until(whoami).is_some_and(|answered| answered < newest))
    }
}

impl Agreement<'_> {
    /// Takes the object back to its former state, if nobody has its newest state and the former one can be had. Returns
    /// true if a step towards that is under way.
    pub(super) fn goes_back(&mut self, cx: &mut Context<'_>, object: &ObjectId) -> bool {
        if self.whereabouts().source_in_flight(object).is_some() {
            return self.state.former_version(object).is_some();
        }
        if !self.whereabouts().is_unfound(object) {
            return false;
        }
        if !self.state.going_back.contains_key(object) {
            let way = self.way_back(cx.whoami, object);
            self.state.going_back.insert(object.clone(), way);
        }
        let Some(Some(way)) = self.state.going_back.get(object) else { return false };
        if way.to == EVersion::ZERO {
            return self.go_back_to(cx, object, None);
        }
        if !way.tried.contains(&cx.whoami) {
            let to = way.to;
            match ready(cx.store.stat(object)) {
                Err(NoAnswer::Pending(id)) => {
                    cx.wait(id, Waiter::GoingBack { pgid: self.core.id });
                    return true;
                }
                Ok(Some(stat)) if ObjectInfo::of(&stat).is_ok_and(|info| info.version == to) => {
                    return self.go_back_to(cx, object, ObjectInfo::of(&stat).ok());
                }
                Ok(_) | Err(NoAnswer::Damaged(_)) => self.no_way_by(object, cx.whoami),
            }
        }
        let Some(Some(way)) = self.state.going_back.get(object) else { return false };
        let serves = |(osd, standing): &(OsdId, Standing)| *standing == Standing::Serving && !way.tried.contains(osd);
        let Some((osd, _)) = self.members.iter().find(serves) else {
            tracing::warn!(pg = %self.core.id, %object, to = %way.to, "cannot go back: nobody has what it was");
            self.state.going_back.insert(object.clone(), None);
            return false;
        };
        self.pull_former(cx, osd, object);
        true
    }

    /// Gives up taking the object back, because its newest state was found after all.
    pub(super) fn need_not_go_back(&mut self, object: &ObjectId) {
        if self.whereabouts().source_in_flight(object).is_none() {
            self.state.going_back.remove(object);
        }
    }

    /// Goes on once the former state of the object has come.
    pub(crate) fn former_came(&mut self, cx: &mut Context<'_>, object: &ObjectId) {
        if let Some(Some(way)) = self.state.going_back.get_mut(object) {
            way.tried.remove(&cx.whoami);
        }
        self.members_changed(cx);
    }

    fn no_way_by(&mut self, object: &ObjectId, osd: OsdId) {
        if let Some(Some(way)) = self.state.going_back.get_mut(object) {
            way.tried.insert(osd);
        }
    }

    /// Returns the way back of the object, if it is certain that nobody was answered for what was done to it last.
    fn way_back(&self, whoami: OsdId, object: &ObjectId) -> Option<Way> {
        let answered = self.progress().answered_until(whoami)?;
        // Clones of the object come and go with it.
        let void = self.core.log.entries().filter(|entry| entry.version > answered && entry.kind != LogKind::Unchanged);
        let void: Vec<&LogEntry> = void.filter(|entry| entry.object.head_of() == *object).collect();
        let first = void.iter().find(|entry| entry.object == *object)?;
        let newest = void.iter().rev().find(|entry| entry.object == *object)?;
        let wanted = self.core.missing.get(object).is_none_or(|version| *version == newest.version);
        let made: BTreeSet<&ObjectId> =
            void.iter().filter(|entry| entry.prior_version == EVersion::ZERO).map(|entry| &entry.object).collect();
        let clones_are_new = void.iter().all(|entry| entry.object == *object || made.contains(&entry.object));
        let can = newest.kind == LogKind::Modify && wanted && clones_are_new && !object.is_clone();
        // Clones that an update makes come before it in the log.
        can.then(|| Way { to: first.prior_version, voids: void[0].version, tried: BTreeSet::new(), former: None })
    }

    /// Asks a member for what the object was.
    fn pull_former(&mut self, cx: &mut Context<'_>, source: OsdId, object: &ObjectId) {
        self.no_way_by(object, source);
        if !self.core.missing.contains_key(object)
            && let Some(newest) = self.core.log.newest_of(object).map(|entry| entry.version)
        {
            // The unreadable object here is replaced: until all is done this OSD lacks it.
            self.core.missing.insert(object.clone(), newest);
            let steps = vec![missing_step(object, newest)];
            cx.submit_or_stop(Transaction { pg: self.core.id, steps }, OnCommit::Nothing);
        }
        self.cause(cx, Effect::PullFormer { object: object.clone(), source });
    }

    /// Orders the update that takes the object back to its former state, which is here. Returns false if the log no
    /// longer names the object.
    fn go_back_to(&mut self, cx: &mut Context<'_>, object: &ObjectId, former: Option<ObjectInfo>) -> bool {
        let Some(Some(way)) = self.state.going_back.get_mut(object) else { return false };
        if self.core.log.newest_of(object).is_none() {
            self.state.going_back.remove(object);
            return false;
        }
        way.former = former;
        self.cause(cx, Effect::GoBack(object.clone()));
        true
    }

    /// Takes the way of an object that goes back now.
    pub(crate) fn take_way_back(&mut self, object: &ObjectId) -> Option<Way> {
        self.state.going_back.remove(object).flatten()
    }
}
