//! Objects on their way from a member that has them to one that lacks them, while the group serves.
//!
//! The primary first pulls what it lacks itself, then pushes what others lack, and has members that are behind
//! backfilled (`backfill`). A few objects are on their way at a time, those that a client waits for first. Operations
//! on an object wait while the primary lacks it, updates also while a serving member does or while it is being sent to
//! one.

use crate::agreement::members::Standing;
use crate::agreement::ways_back::WentBack;
use crate::coded::protection::Protection;
use crate::context::{Context, OnCommit};
use crate::group::effects::Effect;
use crate::group::missing::missing_step;
use crate::healing::healer::Healer;
use crate::healing::pulls::Pull;
use crate::healing::push_queue::PushQueue;
use crate::healing::whereabouts::UNKNOWN_VERSION;
use crate::healing::work::Work;
use crate::messages::healing::PgPull;
use mutant::Mutant;
use std::collections::BTreeMap;
use store::Transaction;
use types::{EVersion, ObjectId, OsdId};

impl Healer<'_> {
    /// As primary of a group that is peered: has objects go where they are missing.
    pub(crate) fn heal(&mut self, cx: &mut Context<'_>) {
        if !self.peering.may_recover() {
            return;
        }
        self.fetch_unreadable(cx);
        self.plan_healing(cx);
        self.whereabouts().release_found(cx);
        if self.state.turn.does(Work::Recovery) && !self.is_too_full(cx, cx.whoami, Work::Recovery) {
            self.pull_missing(cx);
        }
        let members: Vec<_> = self.members.iter().collect();
        for (osd, standing) in members {
            match standing {
                Standing::Behind if self.is_too_full(cx, osd, Work::Backfill) => {}
                Standing::Behind if self.state.turn.does(Work::Backfill) => self.start_over_member(cx, osd),
                _ => self.send_soon(cx, osd),
            }
        }
    }

    /// Queues what members lack, as it is this group's turn.
    pub(crate) fn queue_missing(&mut self) {
        let since = self.core.interval.since;
        let members: Vec<OsdId> = self.members.iter().map(|(osd, _)| osd).collect();
        for osd in members {
            let missing: Vec<ObjectId> = self.members.missing(osd).cloned().collect();
            if !missing.is_empty() {
                let queue = self.state.pushes.entry(osd).or_insert_with(|| PushQueue::new(since));
                missing.into_iter().for_each(|object| queue.want(object));
            }
        }
    }

    /// Tries again to read objects that could not be read: an OSD that may have them has come.
    pub(crate) fn try_unreadable_again(&mut self, cx: &mut Context<'_>) {
        self.state.unreadable.clear();
        self.state.pulls.tried.clear();
        self.recover(cx);
        self.run_objects(cx);
    }

    /// Notes that this OSD's copy of an object which others have cannot be read: the object is missing here from now
    /// on.
    pub(crate) fn object_damaged(&mut self, cx: &mut Context<'_>, object: &ObjectId, version: EVersion) {
        self.is_damaged_here(cx, object, version);
        self.members_changed(cx);
        self.recover(cx);
    }

    /// Fetches objects that could not be read here and that nobody else had, as somebody turns out to have them.
    fn fetch_unreadable(&mut self, cx: &mut Context<'_>) {
        if self.state.unreadable.is_empty() || !self.core.protection().is_whole_on_each() {
            return;
        }
        let known = self.state.unreadable.iter().filter_map(|(object, version)| Some((object.clone(), (*version)?)));
        // A store stops that is to replace an object whose metadata is damaged.
        let known = known.filter(|(_, version)| *version != UNKNOWN_VERSION);
        let elsewhere = known.filter(|(object, version)| self.whereabouts().is_elsewhere(object, *version));
        for (object, version) in elsewhere.collect::<Vec<_>>() {
            self.is_damaged_here(cx, &object, version);
        }
    }

    fn is_damaged_here(&mut self, cx: &mut Context<'_>, object: &ObjectId, version: EVersion) {
        if self.core.missing.insert(object.clone(), version).is_none() {
            cx.shared.bad_copies += 1;
            tracing::warn!(pg = %self.core.id, %object, %version, "is damaged here and is fetched from another member");
            let steps = vec![missing_step(object, version)];
            cx.submit_or_stop(Transaction { pg: self.core.id, steps }, OnCommit::Nothing);
            self.reread_if_unfound(cx, object);
        }
        self.state.unreadable.remove(object);
        // A receiver is not sent one part of the former object and one of the new.
        for queue in self.state.pushes.values_mut() {
            if queue.reading.as_ref().is_some_and(|reading| reading.object == *object) {
                (queue.reading, queue.waits_for) = (None, None);
                queue.want(object.clone());
            }
        }
    }

    /// Returns true if an operation on the object may start, as far as the object is where it must be. If it is not, it
    /// is brought there first.
    pub(crate) fn is_where_needed(&mut self, cx: &mut Context<'_>, object: &ObjectId, may_write: bool) -> bool {
        if self.state.unreadable.contains_key(object) {
            return false;
        }
        let reads_old = !may_write && mutant::is(Mutant::ReadsMissing);
        if let Some(version) = self.core.missing.get(object).copied().filter(|_| !reads_old) {
            if self.state.pulls.in_flight.contains_key(object) {
                self.hurry_pull(cx, object);
            } else if let Some(source) = self.whereabouts().source_of(object, version) {
                self.pull(cx, source, vec![object.clone()], true);
            }
            return false;
        }
        if !self.whereabouts().can_decode(object, None) {
            return false;
        }
        if may_write && self.state.pulls.is_settling(object) && !mutant::is(Mutant::PulledNotDurable) {
            return false;
        }
        if !may_write || self.state.pushes.is_empty() && self.members.missing_count() == 0 {
            return true;
        }
        if mutant::is(Mutant::WritesWhileLacking) {
            return true;
        }
        let lacking = self.members.lacking(object);
        let since = self.core.interval.since;
        for osd in &lacking {
            let queue = self.state.pushes.entry(*osd).or_insert_with(|| PushQueue::new(since));
            queue.want(object.clone());
            queue.hurry(object);
            self.send_soon(cx, *osd);
        }
        // A reading of the object that has begun for a member does not go on at recovery's pace either.
        let held = self.state.pushes.iter().filter(|(_, queue)| queue.reads(object)).map(|(osd, _)| *osd);
        for osd in held.collect::<Vec<_>>() {
            self.state.pushes.get_mut(&osd).expect("just seen").reading_is_urgent = true;
            self.send_soon(cx, osd);
        }
        lacking.is_empty() && !self.state.pushes.values().any(|queue| queue.is_on_its_way(object))
    }

    // ---- what the primary lacks ----

    fn pull_missing(&mut self, cx: &mut Context<'_>) {
        let mut wanted: BTreeMap<OsdId, Vec<ObjectId>> = BTreeMap::new();
        let mut room = cx.shared.tuning.healing_objects.saturating_sub(self.state.pulls.in_flight.len());
        for (object, version) in &self.core.missing {
            if room == 0 {
                break;
            }
            if !self.state.pulls.in_flight.contains_key(object)
                && let Some(source) = self.whereabouts().source_of(object, *version)
            {
                wanted.entry(source).or_default().push(object.clone());
                room -= 1;
            }
        }
        for (source, objects) in wanted {
            self.pull(cx, source, objects, false);
        }
    }

    fn pull(&mut self, cx: &mut Context<'_>, source: OsdId, objects: Vec<ObjectId>, urgent: bool) {
        let pulls = objects.iter().map(|object| (object.clone(), Pull { source, urgent }));
        self.state.pulls.in_flight.extend(pulls);
        match self.core.protection() {
            Protection::Copies => cx.send_osd(source, PgPull { pg: self.core.pg_interval(), objects, urgent }),
            Protection::Shards(_) => {
                objects.into_iter().for_each(|object| cx.cause(self.core.id, Effect::Rebuild(object)));
            }
        }
    }

    /// Tells the source of what is pulled that a client waits for it.
    fn hurry_pull(&mut self, cx: &mut Context<'_>, object: &ObjectId) {
        let source = self.state.pulls.hurry(object);
        match (self.core.protection(), source) {
            (Protection::Copies, Some(source)) => {
                cx.send_osd(
                    source,
                    PgPull { pg: self.core.pg_interval(), objects: vec![object.clone()], urgent: true },
                );
            }
            (Protection::Copies, None) => {}
            (Protection::Shards(_), _) => cx.cause(self.core.id, Effect::HurryRebuild(object.clone())),
        }
    }

    /// Asks a member for what an object was, to which it goes back.
    pub(crate) fn pull_former(&mut self, cx: &mut Context<'_>, source: OsdId, object: &ObjectId) {
        self.state.unreadable.remove(object);
        self.state.pulls.comes_from(object, source);
        cx.send_osd(source, PgPull { pg: self.core.pg_interval(), objects: vec![object.clone()], urgent: true });
    }

    /// Notes that an update has made the object anew, or removed it: nothing of it is to be fetched or read again.
    pub(super) fn is_made_anew(&mut self, object: &ObjectId) {
        self.state.unreadable.remove(object);
        self.state.pulls.forget(object);
    }

    /// Notes that an object has gone back to its former state, which is here: members lack that, and have no clones of
    /// what it was in between.
    pub(crate) fn went_back(&mut self, WentBack { object, version, clones }: &WentBack) {
        for (osd, standing) in self.members.receiving().collect::<Vec<_>>() {
            clones.iter().for_each(|clone| self.has_now(osd, clone));
            match version {
                Some(version) if standing == Standing::Serving || self.whereabouts().is_copied(osd, object) => {
                    self.members.lost(osd, object.clone(), *version);
                }
                Some(_) => self.copy_later(osd, object),
                None => self.has_now(osd, object),
            }
        }
        for object in clones.iter().chain([object]) {
            self.is_made_anew(object);
        }
    }

    /// Notes that the member lacks the object no more, and need not be sent it.
    pub(super) fn has_now(&mut self, osd: OsdId, object: &ObjectId) {
        self.members.has_now(osd, object);
        if let Some(queue) = self.state.pushes.get_mut(&osd) {
            queue.take(object);
        }
    }

    /// Has an object, which came wrong, pulled once more: others are known now by whom it comes right.
    pub(crate) fn pull_anew(&mut self, cx: &mut Context<'_>, object: &ObjectId) {
        self.drop_part(cx, object);
        self.state.pulls.forget(object);
        self.recover(cx);
        self.object_is_here(cx, object);
    }

    /// Notes that a member turned out not to have what the primary lacks.
    pub(crate) fn pull_failed(&mut self, cx: &mut Context<'_>, from: OsdId, object: ObjectId) {
        if self.peering.former_version(&object).is_some() {
            self.state.pulls.forget(&object);
            return self.members_changed(cx);
        }
        tracing::warn!(pg = %self.core.id, %from, %object, "does not have the version that is missing here");
        self.drop_part(cx, &object);
        self.state.pulls.in_flight.remove(&object);
        self.state.pulls.tried.entry(object.clone()).or_default().insert(from);
        let wanted = self.core.missing.get(&object).copied();
        if wanted.is_none_or(|version| self.whereabouts().source_of(&object, version).is_none()) {
            tracing::error!(pg = %self.core.id, %object, "no member has the version that is missing here");
            self.queue_report(cx);
        }
        self.recover(cx);
        if self.peering.is_peered() {
            self.members_changed(cx);
        }
        // Other members are asked, or operations that need the object wait with their clients.
        self.object_is_here(cx, &object);
    }

    /// Notes that an object which was missing here is here, though not durably yet: it can be read, and sent to others.
    pub(super) fn pulled(&mut self, cx: &mut Context<'_>, object: &ObjectId, bytes: u64) {
        self.state.recovered.add(bytes);
        self.state.pulls.forget(object);
        *self.state.pulls.settling.entry(object.clone()).or_default() += 1;
        if self.peering.is_active() {
            self.object_is_here(cx, object);
        }
        match self.core.missing.is_empty() {
            true => {
                cx.cause(self.core.id, Effect::StartOps);
                self.recover(cx);
                self.members_changed(cx);
            }
            false => self.recover(cx),
        }
    }

    /// Notes that an object which was missing here is here durably: others may get another version, and nobody is kept
    /// for having this one.
    pub(super) fn pull_durable(&mut self, cx: &mut Context<'_>, object: &ObjectId) {
        if !self.state.pulls.settled(object) {
            return;
        }
        if self.peering.is_active() {
            self.object_is_here(cx, object);
        }
        let has_all = self.whereabouts().has_all_durably();
        if self.state.pulls.are_durable() {
            // Other members are backfilled from now on, also if what is still missing here is unfound.
            self.recover(cx);
        }
        if has_all || self.peering.is_peered() {
            self.members_changed(cx);
        }
    }
}
