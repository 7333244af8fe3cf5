//! Objects on their way from a member that has them to one that lacks them, while the group serves.
//!
//! The primary first pulls what it lacks itself, then pushes what others lack, and has members that are behind
//! backfilled (`backfill`). A few objects are on their way at a time, those that a client waits for first. Operations
//! on an object wait while the primary lacks it, updates also while a serving member does or while it is being sent to
//! one.

use crate::agreement::members::Standing;
use crate::coded::protection::Protection;
use crate::context::{Context, OnCommit, Waiter};
use crate::group::effects::Effect;
use crate::group::lookup::{NoAnswer, ready};
use crate::group::missing::{found_step, missing_step};
use crate::group::object_info::{OBJECT_INFO_ATTR, ObjectInfo};
use crate::group::pg::Pg;
use crate::healing::object_reading::{ObjectReading, Unsound};
use crate::healing::pulls::Pull;
use crate::healing::push_queue::{Has, PushQueue};
use crate::healing::receiving::piece_steps;
use crate::healing::work::Work;
use crate::messages::healing::{PgPull, PgPush, PgPushAck};
use mutant::Mutant;
use std::collections::BTreeMap;
use store::{LookupId, ReadError, Transaction};
use types::{EVersion, Epoch, ObjectId, OsdId};
use wire::{Decode, Rope};

impl Pg {
    /// Has objects go where they are missing, once this input is handled.
    pub(crate) fn recover(&self, cx: &mut Context<'_>) {
        cx.cause(self.core.id, Effect::Recover);
    }

    /// As primary of a group that is peered: has objects go where they are missing.
    pub(crate) fn heal(&mut self, cx: &mut Context<'_>) {
        if !self.peering.may_recover() {
            return;
        }
        self.fetch_unreadable(cx);
        self.plan_healing(cx);
        self.release_found(cx);
        if self.healing.does(Work::Recovery) && !self.is_too_full(cx, cx.whoami, Work::Recovery) {
            self.pull_missing(cx);
        }
        let members: Vec<_> = self.members.iter().collect();
        for (osd, standing) in members {
            match standing {
                Standing::Behind if self.is_too_full(cx, osd, Work::Backfill) => {}
                Standing::Behind if self.healing.does(Work::Backfill) => self.start_over_member(cx, osd),
                _ => self.push_on(cx, osd),
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
                let queue = self.pushes.entry(osd).or_insert_with(|| PushQueue::new(since));
                missing.into_iter().for_each(|object| queue.want(object));
            }
        }
    }

    /// Tries again to read objects that could not be read: an OSD that may have them has come.
    pub(crate) fn try_unreadable_again(&mut self, cx: &mut Context<'_>) {
        self.unreadable.clear();
        self.pulls.tried.clear();
        self.recover(cx);
        let (from, until) = self.core.range();
        cx.cause(self.core.id, Effect::RunObjects { from, until });
    }

    /// Returns true if the object is here, so that it can be sent.
    pub(crate) fn is_readable(&self, object: &ObjectId) -> bool {
        !self.core.missing.contains_key(object) && !self.unreadable.contains_key(object)
    }

    /// Returns true if something that is missing here is on its way, or can be had.
    pub(crate) fn can_pull_any(&self) -> bool {
        let can = |(object, version): (&ObjectId, &EVersion)| self.source_of(object, *version).is_some();
        !self.pulls.in_flight.is_empty() || self.core.missing.iter().any(can)
    }

    /// Returns true if another member should have this version of an object.
    pub(crate) fn is_elsewhere(&self, object: &ObjectId, version: EVersion) -> bool {
        self.peering.may_recover() && self.source_of(object, version).is_some()
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
        if self.unreadable.is_empty() || !self.core.protection().is_whole_on_each() {
            return;
        }
        let known = self.unreadable.iter().filter_map(|(object, version)| Some((object.clone(), (*version)?)));
        let elsewhere = known.filter(|(object, version)| self.is_elsewhere(object, *version));
        for (object, version) in elsewhere.collect::<Vec<_>>() {
            self.is_damaged_here(cx, &object, version);
        }
    }

    fn is_damaged_here(&mut self, cx: &mut Context<'_>, object: &ObjectId, version: EVersion) {
        if self.core.missing.insert(object.clone(), version).is_none() {
            tracing::warn!(pg = %self.core.id, %object, %version, "is damaged here and is fetched from another member");
            let steps = vec![missing_step(object, version)];
            cx.submit_or_stop(Transaction { pg: self.core.id, steps }, OnCommit::Nothing);
            self.reread_if_unfound(cx, object);
        }
        self.unreadable.remove(object);
        // A receiver is not sent one part of the former object and one of the new.
        for queue in self.pushes.values_mut() {
            if queue.reading.as_ref().is_some_and(|reading| reading.object == *object) {
                (queue.reading, queue.waits_for) = (None, None);
                queue.want(object.clone());
            }
        }
    }

    /// Returns true if an operation on the object may start, as far as the object is where it must be. If it is not, it
    /// is brought there first.
    pub(crate) fn is_where_needed(&mut self, cx: &mut Context<'_>, object: &ObjectId, may_write: bool) -> bool {
        if self.unreadable.contains_key(object) {
            return false;
        }
        let reads_old = !may_write && mutant::is(Mutant::ReadsMissing);
        if let Some(version) = self.core.missing.get(object).copied().filter(|_| !reads_old) {
            if self.pulls.in_flight.contains_key(object) {
                self.hurry_pull(cx, object);
            } else if let Some(source) = self.source_of(object, version) {
                self.pull(cx, source, vec![object.clone()], true);
            }
            return false;
        }
        if !self.can_decode(object, None) {
            return false;
        }
        if may_write && self.pulls.is_settling(object) && !mutant::is(Mutant::PulledNotDurable) {
            return false;
        }
        if !may_write || self.pushes.is_empty() && self.members.missing_count() == 0 {
            return true;
        }
        if mutant::is(Mutant::WritesWhileLacking) {
            return true;
        }
        let lacking = self.members.lacking(object);
        let since = self.core.interval.since;
        for osd in &lacking {
            let queue = self.pushes.entry(*osd).or_insert_with(|| PushQueue::new(since));
            queue.want(object.clone());
            queue.hurry(object);
            self.push_on(cx, *osd);
        }
        // A reading of the object that has begun for a member does not go on at recovery's pace either.
        let held = self.pushes.iter().filter(|(_, queue)| queue.reads(object)).map(|(osd, _)| *osd);
        for osd in held.collect::<Vec<_>>() {
            self.pushes.get_mut(&osd).expect("just seen").reading_is_urgent = true;
            self.push_on(cx, osd);
        }
        lacking.is_empty() && !self.pushes.values().any(|queue| queue.is_on_its_way(object))
    }

    // ---- what the primary lacks ----

    /// Returns a member that should have what is missing here, and was not asked in vain before.
    pub(crate) fn source_of(&self, object: &ObjectId, version: EVersion) -> Option<OsdId> {
        let tried = |osd: &OsdId| self.pulls.tried.get(object).is_some_and(|tried| tried.contains(osd));
        if !self.core.protection().is_whole_on_each() {
            // The primary computes its own shard, of others' ones.
            let whoami = self.core.interval.primary.filter(|osd| !tried(osd));
            return whoami.filter(|osd| self.can_decode(object, Some(*osd)));
        }
        let has = |(osd, standing): &(OsdId, Standing)| match standing {
            Standing::Serving => !self.members.lacking(object).contains(osd),
            // The member's log says little, but what it sends tells its version.
            Standing::Behind => self.peering.told.get(osd).is_some_and(|told| {
                let info = told.info.as_ref().filter(|info| info.covers(object));
                info.is_some_and(|info| info.last_update >= version) && !told.missing.contains_key(object)
            }),
            Standing::Backfilling | Standing::Backfilled(_) => self.is_copied(*osd, object),
        };
        let mut sources: Vec<_> = self.members.iter().filter(|(osd, _)| !tried(osd)).filter(has).collect();
        sources.sort_by_key(|(_, standing)| *standing != Standing::Serving);
        sources.first().map(|(osd, _)| *osd)
    }

    fn pull_missing(&mut self, cx: &mut Context<'_>) {
        let mut wanted: BTreeMap<OsdId, Vec<ObjectId>> = BTreeMap::new();
        let mut room = cx.shared.tuning.healing_objects.saturating_sub(self.pulls.in_flight.len());
        for (object, version) in &self.core.missing {
            if room == 0 {
                break;
            }
            if !self.pulls.in_flight.contains_key(object)
                && let Some(source) = self.source_of(object, *version)
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
        self.pulls.in_flight.extend(pulls);
        match self.core.protection() {
            Protection::Copies => cx.send_osd(source, PgPull { pg: self.core.pg_interval(), objects, urgent }),
            Protection::Shards(_) => {
                for object in objects {
                    let version = self.core.missing.get(&object).copied().expect("what is pulled is missing");
                    self.rebuild(cx, &object, version);
                }
            }
        }
    }

    /// Tells the source of what is pulled that a client waits for it.
    fn hurry_pull(&mut self, cx: &mut Context<'_>, object: &ObjectId) {
        let source = self.pulls.hurry(object);
        match (self.core.protection(), source) {
            (Protection::Copies, Some(source)) => {
                cx.send_osd(
                    source,
                    PgPull { pg: self.core.pg_interval(), objects: vec![object.clone()], urgent: true },
                );
            }
            (Protection::Copies, None) => {}
            (Protection::Shards(_), _) => self.hurry_rebuild(cx, object),
        }
    }

    /// Notes that a member turned out not to have what the primary lacks.
    pub(crate) fn pull_failed(&mut self, cx: &mut Context<'_>, from: OsdId, object: ObjectId) {
        if self.former_version(&object).is_some() {
            return self.former_is_not_there(cx, &object);
        }
        tracing::warn!(pg = %self.core.id, %from, %object, "does not have the version that is missing here");
        self.drop_part(cx, &object);
        self.pulls.in_flight.remove(&object);
        self.pulls.tried.entry(object.clone()).or_default().insert(from);
        let wanted = self.core.missing.get(&object).copied();
        if wanted.is_none_or(|version| self.source_of(&object, version).is_none()) {
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
    fn pulled(&mut self, cx: &mut Context<'_>, object: &ObjectId, bytes: u64) {
        self.recovered.add(bytes);
        self.pulls.forget(object);
        *self.pulls.settling.entry(object.clone()).or_default() += 1;
        if self.is_active() {
            self.object_is_here(cx, object);
        }
        match self.core.missing.is_empty() {
            true => {
                if self.is_active() {
                    self.start_waiting_ops(cx);
                }
                self.recover(cx);
                self.members_changed(cx);
            }
            false => self.recover(cx),
        }
    }

    /// Notes that an object which was missing here is here durably: others may get another version, and nobody is kept
    /// for having this one.
    fn pull_durable(&mut self, cx: &mut Context<'_>, object: &ObjectId) {
        if !self.pulls.settled(object) {
            return;
        }
        if self.is_active() {
            self.object_is_here(cx, object);
        }
        let has_all = self.core.missing.is_empty() && self.pulls.are_durable();
        if self.pulls.are_durable() {
            // Other members are backfilled from now on, also if what is still missing here is unfound.
            self.recover(cx);
        }
        if has_all || self.peering.is_peered() {
            self.members_changed(cx);
        }
    }

    // ---- what others lack ----

    /// As member: sends objects that the primary lacks.
    pub(crate) fn pull_wanted(&mut self, cx: &mut Context<'_>, from: OsdId, message: PgPull) {
        if !self.follows(from, message.pg.since) {
            return;
        }
        let since = message.pg.since;
        let queue = self.pushes.entry(from).or_insert_with(|| PushQueue::new(since));
        for object in message.objects {
            queue.want(object.clone());
            if message.urgent {
                queue.hurry(&object);
                queue.reading_is_urgent |= queue.reads(&object);
            }
        }
        self.push_on(cx, from);
    }

    /// Sends to one member until it has enough to acknowledge, or a lookup must be waited for.
    pub(crate) fn push_on(&mut self, cx: &mut Context<'_>, to: OsdId) {
        while let Some(queue) = self.pushes.get(&to) {
            let must_wait = queue.reading.is_none() && queue.unacked.len() >= cx.shared.tuning.healing_objects;
            if must_wait || queue.waits_for.is_some() || self.sent_back.holds(to, cx.now) {
                return;
            }
            match self.push_step(cx, to) {
                Ok(true) => {}
                Ok(false) => return,
                Err(NoAnswer::Pending(id)) => {
                    let queue = self.pushes.get_mut(&to).expect("still there");
                    queue.waits_for = Some(id);
                    cx.wait(id, Waiter::Push { pgid: self.core.id, to });
                    return;
                }
                Err(NoAnswer::Damaged(damage)) => self.push_failed(cx, to, &damage.to_string()),
            }
        }
    }

    /// Returns true if clients' latency allows that something is sent now. An object that a client waits for is always
    /// sent, and so is everything while a further failure would cost data or service.
    fn may_send_now(&mut self, cx: &mut Context<'_>, to: OsdId) -> bool {
        let queue = &self.pushes[&to];
        // A piece is urgent also when it must wait for the rest of another object.
        let is_urgent = queue.reading.is_some() && queue.reading_is_urgent || queue.has_urgent();
        if is_urgent || self.core.is_primary(cx.whoami) && self.is_at_risk() {
            return true;
        }
        cx.may_heal_now(self.core.id)
    }

    /// Goes on sending, as clients' latency may allow more by now.
    pub(crate) fn send_on(&mut self, cx: &mut Context<'_>) {
        let receivers: Vec<OsdId> = self.pushes.keys().copied().collect();
        receivers.into_iter().for_each(|osd| self.push_on(cx, osd));
        self.rebuild_held(cx);
    }

    /// Takes one step: begins an object, sends a piece, or goes on with what is backfilled. `Ok(false)`: nothing can be
    /// sent.
    fn push_step(&mut self, cx: &mut Context<'_>, to: OsdId) -> Result<bool, NoAnswer> {
        let pg = self.core.pg_interval();
        let is_primary = self.core.is_primary(cx.whoami);
        let queue = &self.pushes[&to];
        let has_nothing = queue.reading.is_none() && queue.queue.is_empty() && queue.backfill.is_none();
        if has_nothing || !self.may_send_now(cx, to) {
            return Ok(false);
        }
        let queue = self.pushes.get_mut(&to).expect("caller has seen it");
        if let Some((object, version, wanted)) = queue.reading.as_ref().and_then(ObjectReading::wants_shard) {
            // The receiver's own shard is what it lacks.
            return Err(NoAnswer::Pending(self.gather(cx, &object, version, wanted, Some(to))));
        }
        let queue = self.pushes.get_mut(&to).expect("caller has seen it");
        if let Some(reading) = &mut queue.reading {
            let piece = match reading.next_piece(cx, pg)? {
                Ok(piece) => piece,
                Err(why) => {
                    self.push_is_wrong(cx, to, why);
                    return Ok(true);
                }
            };
            if piece.last {
                queue.unacked.insert(reading.object.clone(), piece.size_bytes);
                let read = queue.reading.take().expect("just seen");
                self.forget_proof(&read.object);
            }
            cx.shared.pacing.sent(piece.data.len() as u64, piece.last);
            cx.send_osd(to, piece);
            return Ok(true);
        }
        let can = |object: &ObjectId| {
            !is_primary || !self.core.missing.contains_key(object) && !self.unreadable.contains_key(object)
        };
        let is_too_full = is_primary && self.healing.work().is_some_and(|work| self.is_too_full(cx, to, work));
        let is_turn = !is_primary || self.healing.may_work() && !is_too_full;
        let queue = self.pushes.get_mut(&to).expect("caller has seen it");
        let Some((object, has)) = queue.next(!is_turn, can) else {
            let goes_on = self.healing.does(Work::Backfill) && !is_too_full;
            return if goes_on { self.backfill_step(cx, to) } else { Ok(false) };
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
        Ok(true)
    }

    /// Acts on the last piece of what is sent, which cannot be right.
    fn push_is_wrong(&mut self, cx: &mut Context<'_>, to: OsdId, why: Unsound) {
        let queue = self.pushes.get_mut(&to).expect("caller has seen it");
        let reading = queue.reading.take().expect("it is being read");
        let (object, version, digests) = (reading.object.clone(), reading.version(), reading.digests().clone());
        let wrong = version.map(|version| (version, self.wrong_sources(&object, version, &digests)));
        let queue = self.pushes.get_mut(&to).expect("just seen");
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
            !is_primary || !self.core.missing.contains_key(object) && !self.unreadable.contains_key(object)
        };
        let queue = self.pushes.get_mut(&to).expect("caller has seen it");
        let next = || queue.next(false, can).map(|(object, _)| object.clone());
        let Some(object) = queue.reading.as_ref().map(|reading| reading.object.clone()).or_else(next) else {
            tracing::error!(pg = %self.core.id, %to, "cannot list its objects: {why}");
            return;
        };
        tracing::error!(pg = %self.core.id, %to, %object, "cannot be sent to a member that lacks it: {why}");
        let version = queue.reading.take().and_then(|reading| reading.version());
        if is_primary {
            // The receiver gets it once it can be read again.
            queue.want(object.clone());
            let told = || self.members.wanted(&object).or_else(|| Some(self.newest_of(&object)?.version));
            let version = version.or_else(told);
            let is_whole = self.core.protection().is_whole_on_each();
            match version.filter(|version| is_whole && self.is_elsewhere(&object, *version)) {
                Some(version) => self.object_damaged(cx, &object, version),
                None => self.cannot_be_read(cx, &object, version),
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
        let Some(queue) = self.pushes.get_mut(&to) else { return };
        if queue.waits_for != Some(id) {
            return;
        }
        queue.waits_for = None;
        match data {
            None => {}
            Some(Ok(bytes)) => queue.reading.as_mut().expect("data was read for an object").data_came(bytes),
            Some(Err(e)) => self.push_failed(cx, to, &e.to_string()),
        }
        self.push_on(cx, to);
    }

    /// Takes a piece that has come. The acknowledgement follows when it is durable.
    pub(crate) fn pushed(&mut self, cx: &mut Context<'_>, from: OsdId, push: PgPush) {
        let since = push.pg.since;
        let as_primary = self.core.is_primary(cx.whoami) && since == self.core.interval.since;
        if !as_primary && !self.follows(from, since) {
            return;
        }
        if push.end_of_all {
            if self.core.log.head() < push.version && !mutant::is(Mutant::CompleteWithoutLog) {
                let (head, wanted) = (self.core.log.head(), push.version);
                tracing::error!(pg = %self.core.id, %from, %head, %wanted, "updates are missing");
                return self.session_ended(cx, from);
            }
            // The group does not build on this before the monitors have recorded that this member serves.
            self.core.info.complete = true;
            self.core.info.last_backfill = None;
            self.core.info.last_epoch_started = since;
            let steps = vec![self.core.info.step()];
            let then = OnCommit::Pushed { from, since, object: None };
            return cx.submit_or_stop(Transaction { pg: self.core.id, steps }, then);
        }
        let former = self.former_version(&push.object).filter(|_| as_primary);
        if as_primary {
            if self.pulls.source_in_flight(&push.object) != Some(from) {
                return;
            }
            let is_wanted = || {
                let info = ObjectInfo::from_slice(push.attrs.get(OBJECT_INFO_ATTR)?).ok()?;
                let wanted = former.or(self.core.missing.get(&push.object).copied());
                (wanted == Some(info.version) || mutant::is(Mutant::PullsAnyVersion)).then_some(())
            };
            if push.absent || push.first && is_wanted().is_none() {
                return self.pull_failed(cx, from, push.object);
            }
        }
        let (object, last, size_bytes) = (push.object.clone(), push.last, push.size_bytes);
        if !push.first && self.sent_back.is_refused(&object) {
            return;
        }
        if self.receiving.follows(from, &push).is_err() {
            let (version, piece) = (push.version, push.piece);
            tracing::error!(pg = %self.core.id, %from, %object, %version, piece, "pieces of an object are missing");
            return self.session_ended(cx, from);
        }
        let (version, first) = (push.version, push.first);
        let digested = match self.receiving.with_piece(&push, self.core.id.pool.shard()) {
            Ok(digested) => digested,
            Err(wrong) => return self.refuse_wrong(cx, from, object, wrong),
        };
        if first && last {
            self.drop_part(cx, &object);
        }
        let mut steps = piece_steps(push);
        let growth_bytes = store::growth_bytes(&steps);
        if growth_bytes > 0 && !cx.has_own_room(growth_bytes) {
            return self.send_back(cx, from, object, last);
        }
        self.sent_back.taken(&object);
        self.receiving.taken(from, &object, version, (first, last), digested);
        if !last {
            return cx.submit_or_stop(Transaction { pg: self.core.id, steps }, OnCommit::Nothing);
        }
        let then = OnCommit::Pushed { from, since, object: Some(object.clone()) };
        if former.is_some() {
            cx.submit_or_stop(Transaction { pg: self.core.id, steps }, then);
            return self.former_came(cx, &object);
        }
        if self.core.missing.remove(&object).is_some() {
            steps.push(found_step(&object));
        }
        cx.submit_or_stop(Transaction { pg: self.core.id, steps }, then);
        if as_primary {
            self.pulled(cx, &object, size_bytes);
        }
    }

    /// Acts on a pushed object, or everything, being durable here.
    pub(crate) fn push_durable(&mut self, cx: &mut Context<'_>, from: OsdId, since: Epoch, object: Option<ObjectId>) {
        if since != self.core.interval.since {
            return;
        }
        if let Some(object) = &object {
            self.pull_durable(cx, object);
        }
        // An object that this OSD has computed itself needs no acknowledgement.
        if from != cx.whoami {
            let pg = self.core.pg_interval();
            cx.send_osd(from, PgPushAck { pg, object, stored: true });
        }
    }

    /// Notes that a member has an object, or everything.
    pub(crate) fn push_acked(&mut self, cx: &mut Context<'_>, from: OsdId, message: PgPushAck) {
        let Some(queue) = self.pushes.get_mut(&from) else { return };
        if queue.since != message.pg.since {
            return;
        }
        let Some(object) = message.object else {
            if let Some(head) = queue.backfill.as_ref().and_then(|backfill| backfill.announced) {
                self.pushes.remove(&from);
                self.all_copied(cx, from, head);
            }
            return;
        };
        if !message.stored {
            return self.was_sent_back(cx, from, object);
        }
        if let Some(bytes) = queue.unacked.remove(&object) {
            self.recovered.add(bytes);
        }
        if queue.is_done() {
            self.pushes.remove(&from);
        }
        self.members.has_now(from, &object);
        if !self.core.protection().is_whole_on_each() {
            // An object that could not be computed may be, with one shard more.
            self.unreadable.remove(&object);
        }
        if self.is_active() {
            self.replication.brought(self.core.log.head());
            self.object_is_here(cx, &object);
        }
        if !self.core.is_primary(cx.whoami) {
            return self.push_on(cx, from);
        }
        let lacks = self.members.missing(from).any(|object| self.is_readable(object));
        match lacks {
            true => self.push_on(cx, from),
            false => self.recover(cx),
        }
        if self.members.lacks_nothing(from) || self.peering.is_peered() {
            self.members_changed(cx);
        }
    }

    /// Notes that a member that was behind has everything up to `head`, and gets every update since.
    fn all_copied(&mut self, cx: &mut Context<'_>, osd: OsdId, head: EVersion) {
        if !self.is_active() {
            self.replication.need(osd, head);
            return self.member_backfilled(cx, osd);
        }
        if mutant::is(Mutant::NotNeeded) {
            return self.member_backfilled(cx, osd);
        }
        self.replication.need(osd, head);
        let until = match self.core.protection().keeps_undo() && !mutant::is(Mutant::BroughtTooEarly) {
            false => self.replication.committed(),
            // The member has objects whole as updates made them that perhaps not all have, and could not take these
            // back.
            true => self.core.log.head(),
        };
        match self.replication.is_settled_on(osd, until) {
            true => self.member_backfilled(cx, osd),
            false => self.members.set_standing(osd, Standing::Backfilled(until)),
        }
    }

    /// Lets a member serve, which has everything durably that clients were answered for.
    pub(crate) fn member_backfilled(&mut self, cx: &mut Context<'_>, osd: OsdId) {
        self.members.set_standing(osd, Standing::Serving);
        self.scrub.tell_mark(&self.core, cx, osd);
        if !self.core.protection().is_whole_on_each() && self.is_active() {
            // Objects that could not be read without the member's shards can be now.
            let (from, until) = self.core.range();
            cx.cause(self.core.id, Effect::RunObjects { from, until });
        }
        self.members_changed(cx);
        self.recover(cx);
    }
}
