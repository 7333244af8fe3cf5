//! A member whose log does not meet the others', or that is new, is brought to what the others have, object by object.
//!
//! The member takes the present log and every update from then on. The primary walks over all objects in their order,
//! with the list of what the member has beside its own, and sends what differs in its version. From time to time it
//! tells the member how far it has come; the member keeps that cursor durably. In a later interval the walk goes on
//! from there if the log still meets: what the member missed of objects before the cursor is *missing* there like
//! anywhere else.
//!
//! Updates of objects that the walk has passed reach the member whole; of the others it gets the log entry only, as the
//! walk finds them later.

use crate::agreement::members::Standing;
use crate::context::{Context, OnCommit, Waiter};
use crate::group::lookup::NoAnswer;
use crate::healing::healer::Healer;
use crate::healing::push_queue::{Has, PushQueue};
use crate::healing::sending::Step;
use crate::healing::walks::{Backfill, Listed, Scan, whole_objects};
use crate::messages::healing::PgPush;
use crate::messages::healing::{PgBackfilled, PgObjects, PgScan};
use crate::messages::peering::PgLogEntries;
use crate::messages::scrub::ScrubBad;
use mutant::Mutant;
use std::time::Duration;
use store::{LookupId, Transaction};
use types::{ObjectId, OsdId};

/// Time in which a member tells which objects it has. It looks up some hundred of them at most.
const SCAN_TIME: Duration = Duration::from_secs(60);
/// Time for which a member is left that cannot be compared. Its OSD, or this one, has to be repaired.
const LIST_AGAIN_AFTER: Duration = Duration::from_secs(300);

impl Healer<'_> {
    /// As primary: begins to backfill the member, from this cursor on.
    pub(crate) fn begin_backfill(&mut self, osd: OsdId, from: Option<ObjectId>) {
        let from = from.unwrap_or_else(|| self.core.range().0);
        tracing::info!(pg = %self.core.id, %osd, %from, "is backfilled");
        let mut queue = PushQueue::new(self.core.interval.since);
        queue.queue = self.members.missing(osd).map(|object| (object.clone(), Has::Unknown)).collect();
        queue.backfill = Some(Backfill::from(from));
        self.state.pushes.insert(osd, queue);
    }

    /// Has a member that is behind take the present log, and backfills it from the beginning.
    pub(crate) fn start_over_member(&mut self, cx: &mut Context<'_>, osd: OsdId) {
        self.members.set_standing(osd, Standing::Backfilling);
        let dups = self.core.log.dups().entries().collect();
        let message = PgLogEntries { start_over: true, dups, ..self.core.entries_for(self.core.log.tail()) };
        cx.send_osd(osd, message);
        self.begin_backfill(osd, None);
        if mutant::is(Mutant::BackfillSkipped)
            && let Some(backfill) = self.state.pushes.get_mut(&osd).and_then(|queue| queue.backfill.as_mut())
        {
            backfill.compared = ObjectId::max();
        }
        self.send_soon(cx, osd);
    }

    /// Takes objects that nobody has out of a member's queue, so that they keep nothing else waiting. The member, which
    /// is backfilled, notes each durably as missing, before it is told that it has been brought everything. Once such
    /// an object is found it is sent like any other that a member lacks.
    fn pass_unfound(&mut self, cx: &mut Context<'_>, to: OsdId) {
        let pg = self.core.pg_interval();
        let waiting = self.state.pushes.get(&to).into_iter().flat_map(|queue| &queue.queue);
        let unfound = waiting.filter(|(object, _)| self.whereabouts().is_unfound(object));
        let unfound = unfound
            .filter_map(|(object, has)| Some((object.clone(), *has, self.whereabouts().wanted_version(object)?)));
        for (object, has, version) in unfound.collect::<Vec<_>>() {
            self.state.pushes.get_mut(&to).expect("just seen").take(&object);
            if has == Has::Version(version) {
                // The object has been found, with that member. In an erasure-coded pool this shard may be enough to
                // compute it.
                if !self.core.protection().is_whole_on_each() {
                    self.state.unreadable.remove(&object);
                }
                self.goes_on_soon(cx);
                continue;
            }
            tracing::warn!(pg = %self.core.id, osd = %to, %object, %version, "is not brought to a member: nobody has it");
            self.members.lost(to, object.clone(), version);
            cx.send_osd(to, ScrubBad { pg, object, version: Some(version) });
        }
    }

    /// Has a member that is backfilled get the object instead of this change of it, if the walk has passed the object.
    pub(crate) fn copy_later(&mut self, osd: OsdId, object: &ObjectId) {
        if let Some(queue) = self.state.pushes.get_mut(&osd)
            && queue.backfill.as_ref().is_some_and(|backfill| *object < backfill.compared)
        {
            queue.want(object.clone());
        }
    }

    /// Goes one step on with a member that is backfilled, to which all that was queued has been sent.
    pub(super) fn backfill_step(&mut self, cx: &mut Context<'_>, to: OsdId) -> Result<Step, NoAnswer> {
        let pg = self.core.pg_interval();
        let (_, range_end) = self.core.range();
        let head = self.core.log.head();
        self.pass_unfound(cx, to);
        // An object that comes here soon can be neither compared nor sent yet.
        let waits = self.whereabouts().can_pull_any() || self.whereabouts().waits_for_unreadable();
        let queue = self.state.pushes.get_mut(&to).expect("caller has seen it");
        let Some(backfill) = queue.backfill.as_mut().filter(|_| queue.queue.is_empty() && !waits) else {
            return Ok(Step::Rests);
        };
        if backfill.has_compared_all() {
            if backfill.announced.is_none() && queue.unacked.is_empty() {
                backfill.announced = Some(head);
                let push = PgPush { end_of_all: true, version: head, ..PgPush::empty(pg, ObjectId::max()) };
                cx.send_osd(to, push);
            }
            return Ok(Step::Rests);
        }
        // An object on its way may be sent back for want of room.
        let first = queue.unacked.keys().next().map(ObjectId::before_all_states);
        let before = first.as_ref().unwrap_or(&backfill.compared).min(&backfill.compared);
        if backfill.told < *before {
            // Comes behind all that was sent, and becomes durable behind it.
            backfill.told = before.clone();
            cx.send_osd(to, PgBackfilled { pg, before: before.clone() });
        }
        let Some(listed) = &mut backfill.listed else {
            if backfill.asked.is_none() {
                backfill.asked = Some(cx.now);
                cx.send_osd(to, PgScan { pg, from: backfill.compared.clone() });
            }
            return Ok(Step::Rests);
        };
        let until = listed.end.as_ref().unwrap_or(&range_end);
        let (ours, end) = whole_objects(cx, (&backfill.compared, until), cx.limits.backfill_objects)?;
        // At this moment it is decided which objects are compared: what is created before `compared` from now on
        // reaches the member as an update.
        let compared = end.or_else(|| listed.end.clone());
        // Objects that are missing here, as nobody has them, are not listed here.
        let unlisted = compared.as_ref().unwrap_or(&range_end);
        let unlisted = self.core.missing.range(..unlisted).map(|(object, _)| object);
        let unlisted =
            unlisted.skip_while(|object| **object < backfill.compared).cloned().map(|object| (object, Has::Nothing));
        let later = compared.as_ref().map(|compared| listed.objects.split_off(compared)).unwrap_or_default();
        let mut theirs = std::mem::replace(&mut listed.objects, later);
        queue.queue.extend(ours.into_iter().map(|object| (object, Has::Nothing)).chain(unlisted));
        if mutant::is(Mutant::ExtrasKept) {
            theirs.retain(|object, _| queue.queue.contains_key(object));
        }
        queue.queue.extend(theirs.into_iter().map(|(object, version)| {
            let has = version.map_or(Has::Unknown, Has::Version);
            (object, has)
        }));
        if compared == listed.end {
            (backfill.listed, backfill.asked) = (None, None);
        }
        backfill.compared = compared.unwrap_or_else(ObjectId::max);
        if mutant::is(Mutant::CursorAhead) {
            cx.send_osd(to, PgBackfilled { pg, before: backfill.compared.clone() });
        }
        Ok(Step::Goes)
    }

    /// Leaves a member for a while whose objects cannot be compared, as they cannot be listed here or there. Others
    /// have their turn meanwhile.
    pub(super) fn list_later(&mut self, cx: &mut Context<'_>, osd: OsdId) {
        self.state.unlisted_until.insert(osd, cx.now + LIST_AGAIN_AFTER);
        self.recover(cx);
    }

    /// Leaves members for a while that have not told for long which objects they have: those whose metadata is damaged
    /// say nothing.
    pub(super) fn give_up_silent_scans(&mut self, cx: &mut Context<'_>) {
        let now = cx.now;
        let is_silent = |backfill: &Backfill| backfill.asked.is_some_and(|asked| asked + SCAN_TIME <= now);
        let silent = self.state.pushes.iter_mut().filter_map(|(osd, queue)| {
            let backfill = queue.backfill.as_mut().filter(|backfill| backfill.listed.is_none())?;
            is_silent(backfill).then(|| backfill.asked = None).map(|()| *osd)
        });
        for osd in silent.collect::<Vec<_>>() {
            tracing::error!(pg = %self.core.id, %osd, "cannot be backfilled: it does not tell which objects it has");
            self.list_later(cx, osd);
        }
    }

    /// Takes the objects that a member has told it has.
    pub(crate) fn scanned(&mut self, cx: &mut Context<'_>, from: OsdId, message: PgObjects) {
        let queue = self.state.pushes.get_mut(&from).filter(|queue| queue.since == message.pg.since);
        let Some(backfill) = queue.and_then(|queue| queue.backfill.as_mut()) else { return };
        if backfill.asked.is_none() || backfill.listed.is_some() || backfill.compared != message.from {
            return;
        }
        let end = message.end.filter(|end| *end > message.from);
        backfill.listed = Some(Listed { objects: message.objects.into_iter().collect(), end });
        self.send_soon(cx, from);
    }

    // ---- as member ----

    /// Lists what is here, as the primary wants to know.
    pub(crate) fn scan_wanted(&mut self, cx: &mut Context<'_>, from: OsdId, message: PgScan) {
        if !self.peering.follows(from, message.pg.since) {
            return;
        }
        self.state.scan = Some(Scan {
            primary: from,
            pg: message.pg,
            from: message.from,
            names: None,
            end: None,
            objects: Vec::new(),
            waits_for: None,
        });
        self.scan_on(cx);
    }

    pub(crate) fn scan_lookup_done(&mut self, cx: &mut Context<'_>, id: LookupId) {
        if let Some(scan) = self.state.scan.as_mut().filter(|scan| scan.waits_for == Some(id)) {
            scan.waits_for = None;
            self.scan_on(cx);
        }
    }

    fn scan_on(&mut self, cx: &mut Context<'_>) {
        let (_, range_end) = self.core.range();
        while let Some(scan) = &mut self.state.scan {
            match scan.step(cx, &range_end) {
                Ok(true) => {}
                Ok(false) => {
                    let Scan { primary, pg, from, objects, end, .. } = self.state.scan.take().expect("just seen");
                    cx.send_osd(primary, PgObjects { pg, from, objects, end });
                }
                Err(NoAnswer::Pending(id)) => {
                    scan.waits_for = Some(id);
                    return cx.wait(id, Waiter::Scan { pgid: self.core.id });
                }
                Err(NoAnswer::Damaged(damage)) => {
                    // Objects that are here cannot be told from objects that are not: no basis for a copy.
                    tracing::error!(pg = %self.core.id, "cannot list what is here, so it cannot be backfilled: {damage}");
                    self.state.scan = None;
                }
            }
        }
    }

    /// Takes the primary's word of how far this member is like the others.
    pub(crate) fn backfilled(&mut self, cx: &mut Context<'_>, from: OsdId, message: PgBackfilled) {
        if self.peering.follows(from, message.pg.since) && !self.core.info.complete {
            self.core.info.last_backfill = Some(message.before);
            let steps = vec![self.core.info.step()];
            cx.submit_or_stop(Transaction { pg: self.core.id, steps }, OnCommit::Nothing);
        }
    }
}
