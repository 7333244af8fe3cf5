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

use crate::agreement::members::Standing;
use crate::agreement::ways_back::Way;
use crate::context::{Context, OnCommit, Waiter};
use crate::group::log::{LogEntry, LogKind};
use crate::group::lookup::{NoAnswer, ready};
use crate::group::missing::{found_step, missing_step};
use crate::group::object_info::{OBJECT_INFO_ATTR, ObjectInfo};
use crate::group::pg::Pg;
use crate::messages::replication::RepOp;
use crate::ops::after;
use mutant::Mutant;
use std::collections::{BTreeMap, BTreeSet};
use store::{Step, Transaction};
use types::{EVersion, Epoch, ObjectId, OsdId, ReqId};

impl Pg {
    /// Has the object go back, if nobody has what it should be and it can. Returns true if something is on its way to
    /// that end.
    pub(crate) fn goes_back(&mut self, cx: &mut Context<'_>, object: &ObjectId) -> bool {
        if self.whereabouts().source_in_flight(object).is_some() {
            return self.peering.former_version(object).is_some();
        }
        if !self.whereabouts().is_unfound(object) {
            return false;
        }
        if !self.peering.going_back.contains_key(object) {
            let way = self.way_back(cx.whoami, object);
            self.peering.going_back.insert(object.clone(), way);
        }
        let Some(Some(way)) = self.peering.going_back.get(object) else { return false };
        if way.to == EVersion::ZERO {
            return self.go_back(cx, object, None);
        }
        if !way.tried.contains(&cx.whoami) {
            let to = way.to;
            match ready(cx.store.stat(object)) {
                Err(NoAnswer::Pending(id)) => {
                    cx.wait(id, Waiter::GoingBack { pgid: self.core.id });
                    return true;
                }
                Ok(Some(stat)) if ObjectInfo::of(&stat).is_ok_and(|info| info.version == to) => {
                    return self.go_back(cx, object, ObjectInfo::of(&stat).ok());
                }
                Ok(_) | Err(NoAnswer::Damaged(_)) => self.no_way_by(object, cx.whoami),
            }
        }
        let Some(Some(way)) = self.peering.going_back.get(object) else { return false };
        let serves = |(osd, standing): &(OsdId, Standing)| *standing == Standing::Serving && !way.tried.contains(osd);
        let Some((osd, _)) = self.members.iter().find(serves) else {
            tracing::warn!(pg = %self.core.id, %object, to = %way.to, "cannot go back: nobody has what it was");
            self.peering.going_back.insert(object.clone(), None);
            return false;
        };
        self.pull_former(cx, osd, object);
        true
    }

    /// Has the object not go back, as somebody has what it should be after all.
    pub(crate) fn need_not_go_back(&mut self, object: &ObjectId) {
        if self.whereabouts().source_in_flight(object).is_none() {
            self.peering.going_back.remove(object);
        }
    }

    /// Goes on once the former state of the object has come.
    pub(crate) fn former_came(&mut self, cx: &mut Context<'_>, object: &ObjectId) {
        if let Some(Some(way)) = self.peering.going_back.get_mut(object) {
            way.tried.remove(&cx.whoami);
        }
        self.members_changed(cx);
    }

    fn no_way_by(&mut self, object: &ObjectId, osd: OsdId) {
        if let Some(Some(way)) = self.peering.going_back.get_mut(object) {
            way.tried.insert(osd);
        }
    }

    /// Returns the newest update for which a client may have been answered, as OSDs that served last tell. `None`:
    /// nobody can tell.
    fn answered_until(&self, whoami: OsdId) -> Option<EVersion> {
        let history = self.peering.history.as_ref()?;
        let recorded = history.last_epoch_started;
        let had = |osd: &OsdId| {
            let told = || self.peering.told.get(osd)?.info.as_ref();
            let info = if *osd == whoami { Some(&self.core.info) } else { told() };
            let info = info.filter(|info| info.complete && info.last_epoch_started >= recorded)?;
            Some(if mutant::is(Mutant::AnsweredGoBack) { info.rolled_forward } else { info.had_itself(recorded) })
        };
        history.members.iter().filter_map(had).min().filter(|_| recorded != Epoch(0))
    }

    /// Returns true if it is certain that no client was answered for the object's newest update.
    pub(crate) fn is_unanswered(&self, whoami: OsdId, object: &ObjectId) -> bool {
        let newest = self.core.log.newest_of(object).map(|entry| entry.version);
        newest.is_some_and(|newest| self.answered_until(whoami).is_some_and(|answered| answered < newest))
    }

    /// Returns the way back of the object, if it is certain that nobody was answered for what was done to it last.
    fn way_back(&self, whoami: OsdId, object: &ObjectId) -> Option<Way> {
        let answered = self.answered_until(whoami)?;
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
        can.then(|| Way { to: first.prior_version, voids: void[0].version, tried: BTreeSet::new() })
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
        self.healer().pull_former(cx, source, object);
    }

    /// Gives the former state, which is here, a new version. Members get that as a log entry, and lack the object until
    /// it is sent to them.
    fn go_back(&mut self, cx: &mut Context<'_>, object: &ObjectId, former: Option<ObjectInfo>) -> bool {
        let Some(Some(way)) = self.peering.going_back.remove(object) else { return false };
        let Some(newest) = self.core.log.newest_of(object).cloned() else { return false };
        let first = self.core.log.next_version(cx.map.epoch);
        let clones = self.void_clones(object, way.voids);
        let entry = |object: &ObjectId, at: usize, kind, prior_version| LogEntry {
            version: after(first, at),
            kind,
            object: object.clone(),
            prior_version,
            reqid: ReqId::default(),
            user_version: former.as_ref().map_or(newest.user_version, |info| info.user_version),
            mtime: former.as_ref().map_or(newest.mtime, |info| info.mtime),
            result: 0,
            op_results: Vec::new(),
            undo: Default::default(),
            skipped: Default::default(),
            voids: way.voids,
        };
        let others = clones.iter().enumerate();
        let others: Vec<_> = others.map(|(at, (clone, had))| entry(clone, at, LogKind::Delete, *had)).collect();
        let kind = if former.is_some() { LogKind::Modify } else { LogKind::Delete };
        let own = entry(object, others.len(), kind, newest.version);
        let version = own.version;
        tracing::warn!(pg = %self.core.id, %object, from = %newest.version, to = %way.to, %version,
            "goes back: nobody has what it should be, nor was anybody answered for that");
        let mut steps: Vec<Step> = clones.keys().map(|clone| Step::Remove { object: clone.clone() }).collect();
        if former.is_none() {
            steps.push(Step::Remove { object: object.clone() });
        }
        let entries: Vec<LogEntry> = others.iter().chain([&own]).cloned().collect();
        let mut info = self.core.info.clone();
        info.last_update = version;
        info.stats.clones -= clones.len() as i64;
        info.stats.objects -= clones.len() as i64 + i64::from(former.is_none());
        // The size of the lost state is not known.
        self.scrub.set_mark(self.scrub.mark().counted_anew());
        let mut own_steps = steps.clone();
        own_steps.push(self.scrub.mark().step());
        if let Some(former) = former {
            let info = ObjectInfo { version, prior_version: newest.version, ..former };
            let (name, value) = (OBJECT_INFO_ATTR.to_vec(), info.to_bytes());
            own_steps.push(Step::SetAttr { object: object.clone(), name, value });
            if self.core.missing.contains_key(object) {
                own_steps.push(found_step(object));
            }
        }
        let answered = self.core.info.rolled_forward;
        let logged = self.logged_transaction(cx, &entries, &info, own_steps, answered);
        self.core.info = info;
        self.append_logged(entries, (logged.log_tail, logged.forgotten), logged.rolled_forward);
        let then = OnCommit::PrimaryUpdate { since: self.core.interval.since, version };
        cx.submit_or_stop(logged.transaction, then);
        self.core.missing.remove(object);
        let (pg, receiving) = (self.core.pg_interval(), self.members.receiving().collect::<Vec<_>>());
        for (osd, standing) in receiving {
            for clone in clones.keys() {
                self.healer().has_now(osd, clone);
            }
            match kind {
                LogKind::Modify if standing == Standing::Serving || self.whereabouts().is_copied(osd, object) => {
                    self.members.lost(osd, object.clone(), version);
                }
                LogKind::Modify => self.healer().copy_later(osd, object),
                _ => self.healer().has_now(osd, object),
            }
            let (entry, others, info, steps) = (own.clone(), others.clone(), self.core.info.clone(), steps.clone());
            cx.send_osd(osd, RepOp { pg, entry, others, info, committed: answered, steps, hops_wanted: false });
        }
        for object in clones.keys().chain([object]) {
            self.healer().is_made_anew(object);
        }
        true
    }

    /// Returns the object's clones that void updates made, with their versions.
    fn void_clones(&self, object: &ObjectId, from: EVersion) -> BTreeMap<ObjectId, EVersion> {
        let mut clones = BTreeMap::new();
        for entry in self.core.log.entries().filter(|entry| entry.version >= from && entry.object.is_clone()) {
            match entry.kind {
                LogKind::Modify if entry.object.head_of() == *object => {
                    clones.insert(entry.object.clone(), entry.version);
                }
                LogKind::Delete => drop(clones.remove(&entry.object)),
                _ => {}
            }
        }
        clones
    }

    /// Notes that objects go back by an update that has come: what is here of them is not what they are now. Returns
    /// the steps that note it durably.
    pub(crate) fn lacks_what_goes_back(&mut self, entries: &[LogEntry]) -> Vec<Step> {
        let mut steps = Vec::new();
        for entry in entries {
            let LogEntry { kind, voids, object, version, .. } = entry;
            if *voids != EVersion::ZERO && *kind == LogKind::Modify && self.core.info.covers(object) {
                self.core.missing.insert(object.clone(), *version);
                steps.push(missing_step(object, *version));
            }
        }
        steps
    }
}
