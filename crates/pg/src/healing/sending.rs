//! Objects on their way to one other OSD: from the primary to a member that lacks them, or from a member to the
//! primary.

use crate::agreement::members::Standing;
use crate::context::{Context, Waiter};
use crate::group::effects::Effect;
use crate::group::lookup::{NoAnswer, ready};
use crate::group::object_info::ObjectInfo;
use crate::healing::healer::Healer;
use crate::healing::object_reading::{ObjectReading, ShardWanted, Unsound};
use crate::healing::push_queue::{Has, PushQueue};
use crate::healing::whereabouts::UNKNOWN_VERSION;
use crate::healing::work::Work;
use crate::messages::healing::{PgPull, PgPush, PgPushAck};
use mutant::Mutant;
use store::{LookupId, ReadError};
use types::{EVersion, ObjectId, OsdId};
use wire::Rope;

/// Outcome of a step.
pub(super) enum Step {
    /// There may be more to send.
    Goes,
    /// Nothing can be sent now.
    Rests,
    /// Bytes of a shard must be gathered first.
    Wants(ShardWanted),
}

impl Healer<'_> {
    /// As member: sends objects that the primary lacks.
    pub(crate) fn pull_wanted(&mut self, cx: &mut Context<'_>, from: OsdId, message: PgPull) {
        if !self.peering.follows(from, message.pg.since) {
            return;
        }
        let since = message.pg.since;
        let queue = self.state.pushes.entry(from).or_insert_with(|| PushQueue::new(since));
        for object in message.objects {
            queue.want(object.clone());
            if message.urgent {
                queue.hurry(&object);
                queue.reading_is_urgent |= queue.reads(&object);
            }
        }
        self.send_soon(cx, from);
    }

    /// Returns the members that objects are sent to.
    pub(super) fn receivers(&self) -> Vec<OsdId> {
        self.state.pushes.keys().copied().collect()
    }

    /// Sends to one member until it has enough to acknowledge, or a lookup must be waited for. Returns the bytes that
    /// must be gathered first, if that is so; [`push_waits`](Healer::push_waits) goes on.
    pub(super) fn push_on(&mut self, cx: &mut Context<'_>, to: OsdId) -> Option<ShardWanted> {
        while let Some(queue) = self.state.pushes.get(&to) {
            let must_wait = queue.reading.is_none() && queue.unacked.len() >= cx.shared.tuning.healing_objects;
            if must_wait || queue.waits_for.is_some() || self.state.sent_back.holds(to, cx.now) {
                return None;
            }
            match self.push_step(cx, to) {
                Ok(Step::Goes) => {}
                Ok(Step::Rests) => return None,
                Ok(Step::Wants(wanted)) => return Some(wanted),
                Err(NoAnswer::Pending(id)) => {
                    self.push_waits(cx, to, id);
                    return None;
                }
                Err(NoAnswer::Damaged(damage)) => self.push_failed(cx, to, &damage.to_string()),
            }
        }
        None
    }

    /// Has pushes to a member wait for a lookup.
    pub(super) fn push_waits(&mut self, cx: &mut Context<'_>, to: OsdId, id: LookupId) {
        let queue = self.state.pushes.get_mut(&to).expect("the caller has seen it");
        queue.waits_for = Some(id);
        cx.wait(id, Waiter::Push { pgid: self.core.id, to });
    }

    /// Returns true if clients' latency allows that something is sent now. An object that a client waits for is always
    /// sent, and so is everything while a further failure would cost data or service.
    fn may_send_now(&mut self, cx: &mut Context<'_>, to: OsdId) -> bool {
        let queue = &self.state.pushes[&to];
        // A piece is urgent also when it must wait for the rest of another object.
        let is_urgent = queue.reading.is_some() && queue.reading_is_urgent || queue.has_urgent();
        if is_urgent || self.core.is_primary(cx.whoami) && self.whereabouts().is_at_risk() {
            return true;
        }
        cx.may_heal_now(self.core.id)
    }

    /// Takes one step: begins an object, sends a piece, or goes on with what is backfilled.
    fn push_step(&mut self, cx: &mut Context<'_>, to: OsdId) -> Result<Step, NoAnswer> {
        let pg = self.core.pg_interval();
        let is_primary = self.core.is_primary(cx.whoami);
        let queue = &self.state.pushes[&to];
        let has_nothing = queue.reading.is_none() && queue.queue.is_empty() && queue.backfill.is_none();
        if has_nothing || !self.may_send_now(cx, to) {
            return Ok(Step::Rests);
        }
        let queue = &self.state.pushes[&to];
        // The receiver's own shard is what it lacks.
        if let Some(wanted) = queue.reading.as_ref().and_then(|reading| reading.wants_shard(Some(to))) {
            return Ok(Step::Wants(wanted));
        }
        let queue = self.state.pushes.get_mut(&to).expect("caller has seen it");
        if let Some(reading) = &mut queue.reading {
            let piece = match reading.next_piece(cx, pg)? {
                Ok(piece) => piece,
                Err(why) => {
                    self.push_is_wrong(cx, to, why);
                    return Ok(Step::Goes);
                }
            };
            if piece.last {
                queue.unacked.insert(reading.object.clone(), piece.size_bytes);
                let read = queue.reading.take().expect("just seen");
                self.coded.forget_proof(&read.object);
            }
            cx.shared.pacing.sent(piece.data.len() as u64, piece.last);
            cx.send_osd(to, piece);
            return Ok(Step::Goes);
        }
        let can = |object: &ObjectId| {
            !is_primary || !self.core.missing.contains_key(object) && !self.state.unreadable.contains_key(object)
        };
        let is_too_full = is_primary && self.state.turn.work().is_some_and(|work| self.is_too_full(cx, to, work));
        let is_turn = !is_primary || self.state.turn.may_work() && !is_too_full;
        let queue = self.state.pushes.get_mut(&to).expect("caller has seen it");
        let Some((object, has)) = queue.next(!is_turn, can) else {
            let is_listed = !self.state.unlisted_until.contains_key(&to);
            let goes_on = self.state.turn.does(Work::Backfill) && !is_too_full && is_listed;
            return if goes_on { self.backfill_step(cx, to) } else { Ok(Step::Rests) };
        };
        let stat = ready(cx.store.stat(object))?;
        let object = object.clone();
        let is_urgent = queue.urgent.contains(&object);
        queue.take(&object);
        let is_known = match (&stat, has) {
            (_, Has::Unknown) => false,
            (None, has) => has == Has::Nothing,
            (Some(stat), has) => ObjectInfo::of(stat).is_ok_and(|info| has == Has::Version(info.version)),
        };
        match stat {
            _ if is_known => {}
            Some(stat) => {
                let reading = ObjectReading::new(object, stat);
                let reading = match self.core.interval.shard_of(to) {
                    Some(shard) => reading.of_shard(shard.into(), cx.limits.piece_bytes),
                    None => reading,
                };
                (queue.reading, queue.reading_is_urgent) = (Some(reading), is_urgent);
            }
            None => {
                queue.unacked.insert(object.clone(), 0);
                cx.send_osd(to, PgPush::absent(pg, object));
            }
        }
        Ok(Step::Goes)
    }

    /// Acts on the last piece of what is sent, which cannot be right.
    fn push_is_wrong(&mut self, cx: &mut Context<'_>, to: OsdId, why: Unsound) {
        let queue = self.state.pushes.get_mut(&to).expect("caller has seen it");
        let reading = queue.reading.take().expect("it is being read");
        let (object, version, digests) = (reading.object.clone(), reading.version(), reading.digests().clone());
        let wrong = version.map(|version| (version, self.coded.wrong_sources(&object, version, &digests)));
        let queue = self.state.pushes.get_mut(&to).expect("just seen");
        let Some((version, wrong)) = wrong.filter(|(_, wrong)| !wrong.is_empty()) else {
            queue.reading = Some(reading);
            return self.push_failed(cx, to, &why.to_string());
        };
        // The shard is computed anew of the others, and that begins when the first of these is known to be bad.
        queue.want(object.clone());
        if !self.sources_are_bad(cx, &object, version, &wrong) {
            self.cannot_be_read(cx, &object, Some(version));
        }
    }

    /// Acts on an object, next to be sent, that cannot be read.
    fn push_failed(&mut self, cx: &mut Context<'_>, to: OsdId, why: &str) {
        let pg = self.core.pg_interval();
        let is_primary = self.core.is_primary(cx.whoami);
        let can = |object: &ObjectId| {
            !is_primary || !self.core.missing.contains_key(object) && !self.state.unreadable.contains_key(object)
        };
        let queue = self.state.pushes.get_mut(&to).expect("caller has seen it");
        let next = || queue.next(false, can).map(|(object, _)| object.clone());
        let Some(object) = queue.reading.as_ref().map(|reading| reading.object.clone()).or_else(next) else {
            tracing::error!(pg = %self.core.id, %to, "cannot be backfilled: objects cannot be listed here: {why}");
            return self.list_later(cx, to);
        };
        tracing::error!(pg = %self.core.id, %to, %object, "cannot be sent to a member that lacks it: {why}");
        let version = queue.reading.take().and_then(|reading| reading.version());
        if is_primary {
            // The receiver gets it once it can be read again.
            queue.want(object.clone());
            let told = || self.members.wanted(&object).or_else(|| Some(self.core.log.newest_of(&object)?.version));
            let version = version.or_else(told);
            let is_whole = self.core.protection().is_whole_on_each();
            match version.filter(|version| is_whole && self.whereabouts().is_elsewhere(&object, *version)) {
                Some(version) => self.object_damaged(cx, &object, version),
                None => {
                    let is_elsewhere = self.whereabouts().is_elsewhere(&object, UNKNOWN_VERSION);
                    // A backfill passes what nobody has, also if nothing tells its version.
                    let _ = is_elsewhere;
                    self.cannot_be_read(cx, &object, version);
                }
            }
        } else {
            // The primary looks for it elsewhere.
            queue.take(&object);
            cx.send_osd(to, PgPush::absent(pg, object));
        }
    }

    /// Goes on with pushes to `to`, whose lookup is done.
    pub(crate) fn push_lookup_done(
        &mut self,
        cx: &mut Context<'_>,
        to: OsdId,
        id: LookupId,
        data: Option<Result<Rope, ReadError>>,
    ) {
        let Some(queue) = self.state.pushes.get_mut(&to) else { return };
        if queue.waits_for != Some(id) {
            return;
        }
        queue.waits_for = None;
        match data {
            None => {}
            Some(Ok(bytes)) => queue.reading.as_mut().expect("data was read for an object").data_came(bytes),
            Some(Err(e)) => self.push_failed(cx, to, &e.to_string()),
        }
        self.send_soon(cx, to);
    }

    /// Notes that a member has an object, or everything.
    pub(crate) fn push_acked(&mut self, cx: &mut Context<'_>, from: OsdId, message: PgPushAck) {
        let Some(queue) = self.state.pushes.get_mut(&from) else { return };
        if queue.since != message.pg.since {
            return;
        }
        let Some(object) = message.object else {
            if let Some(head) = queue.backfill.as_ref().and_then(|backfill| backfill.announced) {
                self.state.pushes.remove(&from);
                self.all_copied(cx, from, head);
            }
            return;
        };
        if !message.stored {
            return self.was_sent_back(cx, from, object);
        }
        if let Some(bytes) = queue.unacked.remove(&object) {
            self.state.recovered.add(bytes);
        }
        if queue.is_done() {
            self.state.pushes.remove(&from);
        }
        self.members.has_now(from, &object);
        if !self.core.protection().is_whole_on_each() {
            // An object that could not be computed may be, with one shard more.
            self.state.unreadable.remove(&object);
        }
        if self.peering.is_active() {
            self.durability.brought(self.core.log.head());
            self.object_is_here(cx, &object);
        }
        if !self.core.is_primary(cx.whoami) {
            return self.send_soon(cx, from);
        }
        let lacks = self.members.missing(from).any(|object| self.whereabouts().is_readable(object));
        match lacks {
            true => self.send_soon(cx, from),
            false => self.recover(cx),
        }
        if self.members.lacks_nothing(from) || self.peering.is_peered() {
            self.members_changed(cx);
        }
    }

    /// Notes that a member that was behind has everything up to `head`, and gets every update since.
    fn all_copied(&mut self, cx: &mut Context<'_>, osd: OsdId, head: EVersion) {
        if !self.peering.is_active() {
            self.durability.need(osd, head);
            return self.member_backfilled(cx, osd);
        }
        if mutant::is(Mutant::NotNeeded) {
            return self.member_backfilled(cx, osd);
        }
        self.durability.need(osd, head);
        let until = match self.core.protection().keeps_undo() && !mutant::is(Mutant::BroughtTooEarly) {
            false => self.durability.committed(),
            // The member has objects whole as updates made them that perhaps not all have, and could not take these
            // back.
            true => self.core.log.head(),
        };
        match self.durability.is_settled_on(osd, until) {
            true => self.member_backfilled(cx, osd),
            false => self.members.set_standing(osd, Standing::Backfilled(until)),
        }
    }

    /// Notes that a member which was brought everything has all durably that clients were answered for since.
    pub(crate) fn member_settled(&mut self, cx: &mut Context<'_>, osd: OsdId) {
        if let Some(Standing::Backfilled(until)) = self.members.standing(osd)
            && self.durability.is_settled_on(osd, until)
        {
            self.member_backfilled(cx, osd);
        }
    }

    /// Lets a member serve, which has everything durably that clients were answered for.
    fn member_backfilled(&mut self, cx: &mut Context<'_>, osd: OsdId) {
        self.members.set_standing(osd, Standing::Serving);
        cx.cause(self.core.id, Effect::MemberServes(osd));
        if !self.core.protection().is_whole_on_each() && self.peering.is_active() {
            // Objects that could not be read without the member's shards can be now.
            self.run_objects(cx);
        }
        self.members_changed(cx);
        self.recover(cx);
    }
}
