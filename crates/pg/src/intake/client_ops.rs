//! Client operations within a group: their order per object, their execution, their answers.
//!
//! Operations on one object start in the order in which they came. Reads of an object run beside each other but not
//! while updates of it are on their way; updates follow each other without waiting, each executed on the state that
//! the one before it leaves.

mod questions;
mod replica_reads;
mod submission;

use crate::coded::wanted::Wanted;
use crate::context::{Context, Waiter};
use crate::copy::Copied;
use crate::group::log::LogEntry;
use crate::group::lookup::NoAnswer;
use crate::group::object_info::ObjectInfo;
use crate::group::pg::Pg;
use crate::hops::{OpTimes, Replicated, WaitReasons};
use crate::intake::backoffs::HeldBack;
use crate::intake::operations::NO_SESSION;
use crate::intake::operations::{ClientOp, LookupProgress};
use crate::intake::replies::fill_results;
use crate::ops::{self, Effects, GiveUp, Limits, ListError, ListFilter, Request, Run};
use crate::scrub::record::Record;
use crate::shard::copying::is_osds;
use crate::updates::room_wait::{Admission, RoomWait};
use crate::updates::trim_run::Trim;
use crate::watch::WatchKey;
use bytes::Bytes;
use cls::Caller;
use mutant::Mutant;
use osdmap::{PgPool, PoolFlags};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;
use store::{LookupId, ReadError};
use types::{EVersion, Epoch, Errno, ObjectId, ReqId, SnapId, Utime};
use wire::basic::{Locator, NO_SHARD, SPgId, SnapContext};
use wire::messages::op_data::FilteredListInput;
use wire::messages::{Op, OpArgs, OpCode, OpFlags, OsdOp, OsdOpReply, Watch};
use wire::{Decode, Rope};

/// A read of what is damaged here waits for so long for others to act who may have it.
const MEMBERS_WAIT: Duration = Duration::from_secs(30);

impl Pg {
    /// Takes a client's operation; this OSD is the primary.
    pub(crate) fn client_op(&mut self, cx: &mut Context<'_>, mut op: ClientOp) {
        op.times.sampled = cx.shared.recorder.chooses(&op.reqid);
        // In erasure-coded pools each shard names objects by a pool of its own.
        op.object.pool = self.core.id.pool;
        if is_osds(op.session) && !self.replace_question(cx, &op) {
            return;
        }
        self.ops.hold(cx, &op);
        match self.is_active() {
            true => self.start_op(cx, op),
            false if self.progress().turns_clients_away(cx) && holds_back(cx, &op) => self.hold_group_back(cx, op),
            false => {
                op.times.waits.add(WaitReasons::INACTIVE);
                self.ops.waiting.push_back(op);
            }
        }
    }

    /// Drops the operations that wait for the group, if it will not serve soon, and asks their clients to keep them.
    /// Operations of clients that cannot be asked stay here. All operations of a session go at once: later ones would
    /// overtake those that come again.
    pub(crate) fn hold_clients_back(&mut self, cx: &mut Context<'_>) {
        if self.ops.waiting.is_empty() || !self.progress().turns_clients_away(cx) {
            return;
        }
        for op in std::mem::take(&mut self.ops.waiting) {
            match holds_back(cx, &op) {
                true => self.hold_group_back(cx, op),
                false => self.ops.waiting.push_back(op),
            }
        }
    }

    fn hold_group_back(&mut self, cx: &mut Context<'_>, op: ClientOp) {
        self.ops.release(cx, &op);
        if is_osds(op.session) {
            return self.ask_later(cx, &op);
        }
        // A client that is gone sends the request again by another session.
        if cx.clients.contains_key(&op.session) {
            let (id, pg_num) = (self.core.id.base(), self.core.interval.shape.pg_num);
            let range = (osdmap::pg_range(id, pg_num).0, osdmap::pg_cursor_end(id, pg_num));
            let object = op.op.object_id().head_of();
            cx.shared.backoffs.hold_group(held_back(cx.map.epoch, &op, &object), range);
        }
    }

    /// Drops operations that need the state `lacks` of an object, if nobody has that state, and asks their clients to
    /// keep them. If it is the present state, all operations on the object go, else those that the first one's client
    /// has sent. Operations of clients that cannot be asked stay here. Returns true if any went.
    fn hold_object_back(&mut self, cx: &mut Context<'_>, object: &ObjectId, lacks: &ObjectId) -> bool {
        if !self.whereabouts().is_unfound(lacks) {
            return false;
        }
        let Some(queue) = self.ops.objects.get_mut(object) else { return false };
        let ops = &self.ops.ops;
        let first = queue.queue.front().map(|number| &ops[number]).filter(|op| holds_back(cx, op));
        let first = first.map(|op| op.session);
        let needs = |op: &ClientOp| holds_back(cx, op) && (lacks == object || first == Some(op.session));
        let (held, kept): (VecDeque<u64>, _) = queue.queue.drain(..).partition(|number| needs(&ops[number]));
        queue.queue = kept;
        for number in &held {
            let op = self.ops.ops.remove(number).expect("queued operations are kept");
            self.ops.queued_requests.remove(&op.reqid);
            self.ops.release(cx, &op);
            if is_osds(op.session) {
                self.ask_later(cx, &op);
            } else if cx.clients.contains_key(&op.session) {
                let object = op.op.object_id().head_of();
                cx.shared.backoffs.hold_object(held_back(cx.map.epoch, &op, &object), lacks.clone());
            }
        }
        !held.is_empty()
    }

    /// Notes that the group's pool is not full any more from this map on.
    pub(crate) fn full_ended(&mut self, epoch: Epoch) {
        self.ops.full_ended(epoch);
    }

    /// Starts operations that waited for the group, if it serves.
    pub(crate) fn start_waiting_ops(&mut self, cx: &mut Context<'_>) {
        if !self.is_active() {
            return;
        }
        for op in std::mem::take(&mut self.ops.waiting) {
            self.start_op(cx, op);
        }
    }

    fn start_op(&mut self, cx: &mut Context<'_>, mut op: ClientOp) {
        if op.is_upkeep() {
            // The new interval's walk finds it again.
            return self.ops.release(cx, &op);
        }
        if let Some(errno) = refusal(&op, cx.limits) {
            return self.answer_error(cx, &op, errno);
        }
        if op.is_group_op() {
            // A listing would lack objects that are missing here, and it must be of the present state.
            if !self.core.missing.is_empty() || !self.progress().may_read(cx) {
                return self.ops.waiting.push_back(op);
            }
            return self.run_group_op(cx, op);
        }
        if op.may_write {
            let known =
                self.core.log.find_request(&op.reqid).filter(|_| !mutant::is(Mutant::ResendApplied)).map(Box::new);
            // An update that the log has trimmed is never taken back. A newer one may have been.
            let before = op.repeated.take().filter(|entry| entry.version <= self.core.log.tail());
            op.repeated = known.or(before);
            // An answer that an update is done, while members lack the object, would promise more than is true.
            if op.repeated.is_some() && self.healer().is_where_needed(cx, &op.object, true) {
                self.answer_repeated(cx, &op);
                return self.ops.release(cx, &op);
            }
            if let Some(number) = self.ops.queued_requests.get(&op.reqid) {
                // The client has lost its session and asks again: answer on the new one. It may have newer maps by now.
                let queued = self.ops.ops.get_mut(number).expect("queued requests are kept");
                (queued.session, queued.tid, queued.op.retry_attempt) = (op.session, op.tid, op.op.retry_attempt);
                queued.op.epoch = queued.op.epoch.max(op.op.epoch);
                return self.ops.release(cx, &op);
            }
        }
        let (object, queued) = (op.object.clone(), op.may_write.then_some(op.reqid));
        let number = self.ops.keep(op);
        if let Some(reqid) = queued {
            self.ops.queued_requests.insert(reqid, number);
        }
        self.ops.objects.entry(object.clone()).or_default().queue.push_back(number);
        self.run_object(cx, &object);
    }

    /// Answers an update that the log knows, or has its answer sent to where the client is now.
    fn answer_repeated(&mut self, cx: &mut Context<'_>, op: &ClientOp) {
        let entry = op.repeated.as_deref().expect("the caller has seen it");
        let version = entry.version;
        let reply = reply_from_log(op, entry, cx);
        let is_early = mutant::is(Mutant::ResendAnsweredEarly);
        if !is_early && self.replication.redirect_answer(version, op.session, op.tid, op.op.retry_attempt) {
            return;
        }
        tracing::debug!(pg = %self.core.id, reqid = %op.reqid, %version, "repeated request answered from the log");
        if entry.result >= 0 {
            self.watches.op_repeated(cx, op, entry.user_version);
        }
        cx.send_client(op.session, op.tid, reply);
    }

    fn answer_error(&mut self, cx: &mut Context<'_>, op: &ClientOp, errno: Errno) {
        let reply = OsdOpReply::to(&op.op, errno.as_result(), cx.map.epoch);
        self.answer(cx, op, reply);
    }

    /// Sends an operation's answer; the operation is over.
    pub(crate) fn answer(&mut self, cx: &mut Context<'_>, op: &ClientOp, reply: OsdOpReply) {
        self.answer_update(cx, op, reply, None);
    }

    /// Sends an operation's answer, with its way to all members if it is an update; the operation is over.
    pub(crate) fn answer_update(
        &mut self,
        cx: &mut Context<'_>,
        op: &ClientOp,
        reply: OsdOpReply,
        way: Option<Replicated<'_>>,
    ) {
        let held_bytes = op.held_bytes();
        self.ops.release(cx, op);
        cx.shared.recorder.answered(cx.now, self.core.id, op, &reply, way);
        if reply.result >= 0 && op.times.started.happened() {
            let took = Duration::from_micros(u64::from(op.times.stamp(cx.now).0 - op.times.started.0));
            cx.shared.pacing.answered(took, held_bytes as u64, op.may_write);
        }
        cx.send_client(op.session, op.tid, reply);
    }

    /// Returns true if operations on the object are not answered yet.
    pub(crate) fn ops_wait_for(&self, object: &ObjectId) -> bool {
        self.ops.objects.get(object).is_some_and(|queue| !queue.queue.is_empty())
    }

    /// Starts what may start on one object.
    pub(crate) fn run_object(&mut self, cx: &mut Context<'_>, object: &ObjectId) {
        while let Some(queue) = self.ops.objects.get_mut(object) {
            let Some(&number) = queue.queue.front() else {
                if queue.is_idle() {
                    self.ops.objects.remove(object);
                }
                return;
            };
            let may_write = self.ops.ops[&number].may_write;
            let must_wait = match may_write {
                true => queue.reads_running > 0,
                false => queue.updates_in_flight > 0 && !mutant::is(Mutant::ReadsBesideUpdates),
            };
            let is_held = may_write && self.scrub.holds(object);
            if queue.front_blocked {
                // The operation that is blocked may wait for what is asked here.
                return self.run_questions(cx, object);
            }
            if must_wait || is_held {
                return;
            }
            let gives_up = self.ops.ops[&number].give_up.is_some();
            if gives_up && !self.rest_is_here(cx, number) {
                return;
            }
            if !gives_up && !self.healer().is_where_needed(cx, object, may_write) {
                match self.hold_object_back(cx, object, object) {
                    true => continue,
                    false => return,
                }
            }
            if !may_write && !self.progress().may_read(cx) {
                return self.wait_to_read(cx, object.clone());
            }
            let mut states = self.ops.ops[&number].progress.at_hand.clone().into_iter();
            if let Some(state) = states.find(|state| !self.healer().is_where_needed(cx, state, may_write)) {
                self.ops.restart(cx, number);
                match self.hold_object_back(cx, object, &state) {
                    true => continue,
                    false => return,
                }
            }
            if !self.take_share(cx, number) {
                return;
            }
            let queue = self.ops.objects.get_mut(object).expect("just seen");
            queue.queue.pop_front();
            match self.run_op(cx, number) {
                Ran::Ended => {}
                Ran::Lacks(state) => {
                    self.ops.objects.get_mut(object).expect("still there").queue.push_front(number);
                    if !self.hold_object_back(cx, object, &state) {
                        return;
                    }
                }
                Ran::Blocked if may_write => {
                    let queue = self.ops.objects.get_mut(object).expect("still there");
                    queue.queue.push_front(number);
                    queue.front_blocked = true;
                    return;
                }
                Ran::HasNoRoom => {
                    let queue = self.ops.objects.get_mut(object).expect("still there");
                    queue.queue.push_front(number);
                    self.ops.wait_for_room.insert(object.clone());
                    return;
                }
                Ran::Blocked => self.ops.objects.get_mut(object).expect("still there").reads_running += 1,
            }
        }
    }

    /// Counts what an operation brings into memory that starts now. Returns false if it must wait for memory.
    fn take_share(&mut self, cx: &mut Context<'_>, number: u64) -> bool {
        let op = &self.ops.ops[&number];
        let share_bytes = op.share_bytes();
        if share_bytes == 0 {
            return true;
        }
        if !cx.shared.held.may_start(op.share(), cx.limits.client_bytes) {
            let object = op.object.clone();
            self.ops.wait_for_memory.insert(object);
            cx.shared.held.wait(self.core.id);
            return false;
        }
        self.ops.take(cx, number, share_bytes);
        true
    }

    /// Starts operations that waited for memory, as some has been given back.
    pub(crate) fn memory_came(&mut self, cx: &mut Context<'_>) {
        for object in std::mem::take(&mut self.ops.wait_for_memory) {
            self.run_object(cx, &object);
        }
    }

    /// Runs one operation; if it ends, it is answered or, if it changes something, submitted.
    fn run_op(&mut self, cx: &mut Context<'_>, number: u64) -> Ran {
        if self.ops.ops[&number].repeated.is_some() {
            let op = self.ops.ops.remove(&number).expect("just seen");
            self.ops.queued_requests.remove(&op.reqid);
            self.answer_repeated(cx, &op);
            self.ops.release(cx, &op);
            return Ran::Ended;
        }
        let op = &self.ops.ops[&number];
        if let Some(errno) = self.lapse(cx, op) {
            let op = self.ops.ops.remove(&number).expect("just seen");
            self.ops.queued_requests.remove(&op.reqid);
            self.answer_error(cx, &op, errno);
            return Ran::Ended;
        }
        let run = loop {
            match self.execute(cx, number) {
                Run::Wants(state) => {
                    let may_write = self.ops.ops[&number].may_write;
                    let is_there = self.healer().is_where_needed(cx, &state, may_write);
                    if !is_there {
                        self.ops.restart(cx, number);
                        return Ran::Lacks(state);
                    }
                    self.ops.ops.get_mut(&number).expect("operation is known").progress.at_hand.push(state);
                }
                run => break run,
            }
        };
        let op = self.ops.ops.get_mut(&number).expect("operation is known");
        match run {
            Run::Wants(_) => unreachable!("the loop ends with something else"),
            Run::Gather { object, version, offset, len } => {
                let id = self.gather(cx, &object, version, Wanted::Object { offset, len }, None);
                let op = self.ops.ops.get_mut(&number).expect("operation is known");
                op.progress.answers.waits_for_data(id);
                op.progress.waits_for = Some(id);
                op.times.blocked(cx.now);
                cx.wait(id, Waiter::ClientOp { pgid: self.core.id, op: number });
                Ran::Blocked
            }
            Run::Copy(source) => {
                let id = cx.shared.coded_reads.next_id();
                op.progress.answers.waits_for_data(id);
                op.progress.waits_for = Some(id);
                op.times.blocked(cx.now);
                cx.wait(id, Waiter::ClientOp { pgid: self.core.id, op: number });
                match cx.map.pools.contains_key(&source.locator.pool) {
                    true => cx.shared.copies.begin(id, *source, cx.now),
                    false => {
                        let nothing = Copied::into_rope(Err(Errno::ENOENT.as_result()));
                        cx.shared.coded_reads.done.push_back((id, Ok(nothing)));
                    }
                }
                Ran::Blocked
            }
            Run::Blocked(id) => {
                op.progress.waits_for = Some(id);
                op.times.blocked(cx.now);
                cx.wait(id, Waiter::ClientOp { pgid: self.core.id, op: number });
                Ran::Blocked
            }
            Run::Done(effects) if op.trim.is_some() && effects.steps.is_empty() => {
                let op = self.ops.ops.remove(&number).expect("operation is known");
                self.ops.release(cx, &op);
                match effects.result {
                    0.. => self.snap_trim.trimmed(&self.core, cx, op.object, Trim::default()),
                    _ => self.snap_trim.failed(&self.core, cx, &op.object),
                }
                Ran::Ended
            }
            Run::Done(effects) if (op.give_up.is_some() || op.record.is_some()) && effects.steps.is_empty() => {
                let op = self.ops.ops.remove(&number).expect("operation is known");
                self.ops.release(cx, &op);
                Ran::Ended
            }
            Run::Done(effects) if op.may_write => {
                self.watches.learn(&op.object, &effects.watchers, |addr| cx.map.is_blocklisted(addr), cx.now);
                let (object, flags) = (op.object.clone(), op.op.flags);
                let mut wait = op.waits_for_room.unwrap_or_else(|| RoomWait::begins(cx.now));
                let (client, epoch) = (op.reqid.name, op.op.epoch);
                let admission = match self.ops.is_turned_away(&object, client, epoch, flags) {
                    true => Admission::Dropped,
                    false => self.updates().admit(cx, &object, flags, &effects, &mut wait),
                };
                if admission == Admission::Later {
                    self.ops.restart(cx, number);
                    self.ops.ops.get_mut(&number).expect("operation is known").waits_for_room = Some(wait);
                    return Ran::HasNoRoom;
                }
                let mut op = self.ops.ops.remove(&number).expect("operation is known");
                op.times.executed(cx.now);
                self.ops.queued_requests.remove(&op.reqid);
                match admission {
                    Admission::Now(growth_bytes) => {
                        if let Some(give_up) = op.give_up.take() {
                            self.healer().is_given_up(cx, &give_up.lost);
                        }
                        self.ops.objects.entry(op.object.clone()).or_default().updates_in_flight += 1;
                        self.submit(cx, op, effects, growth_bytes);
                    }
                    Admission::Refused(errno) => self.answer_error(cx, &op, errno),
                    Admission::Dropped | Admission::Later => {
                        self.ops.turned_away.entry((op.object.clone(), client)).or_default();
                        self.ops.release(cx, &op);
                    }
                }
                Ran::Ended
            }
            Run::Done(mut effects) => {
                self.watches.learn(&op.object, &effects.watchers, |addr| cx.map.is_blocklisted(addr), cx.now);
                let mut op = self.ops.ops.remove(&number).expect("operation is known");
                if op.session == NO_SESSION {
                    self.watches.object_seen(cx, &op.object, &effects);
                    self.ops.release(cx, &op);
                    return Ran::Ended;
                }
                op.times.executed(cx.now);
                let watch = std::mem::take(&mut effects.watch);
                if !watch.is_empty() && effects.result >= 0 {
                    self.watches.op_done(cx, &op, watch, effects.user_version);
                }
                self.answer_read(cx, op, effects);
                Ran::Ended
            }
        }
    }

    /// Returns why an operation is not carried out any more, though it was to be when it came.
    fn lapse(&self, cx: &Context<'_>, op: &ClientOp) -> Option<Errno> {
        if op.is_upkeep() {
            return None;
        }
        if op.session == NO_SESSION {
            return self.watches.is_needless(op, cx.now).then_some(Errno::ECANCELED);
        }
        // The operation's client may have been locked out while it waited.
        cx.map.is_blocklisted(&op.caller.addr).then_some(Errno::EBLOCKLISTED)
    }

    fn execute(&mut self, cx: &mut Context<'_>, number: u64) -> Run {
        let snaps = self.snaps_of(cx, number);
        let removed_snaps = cx.map.removed_snaps_queue.get(&self.core.id.pool.base());
        let op = &self.ops.ops[&number];
        let connected = self.watches.connected(&op.object, op.reqid.name, op.session);
        let layout = self.core.protection().stripes();
        let pool = cx.map.pools.get(&self.core.id.pool.base());
        let may_overwrite = layout.is_none() || pool.is_some_and(|p| p.flags.contains(PoolFlags::EC_OVERWRITES));
        let notify_id = self.watches.next_notify_id(cx.map.epoch);
        let op = self.ops.ops.get_mut(&number).expect("operation is known");
        op.times.run(cx.now);
        let progress = &mut op.progress;
        let request = Request {
            object: &op.object,
            ops: &op.op.ops,
            reqid: op.reqid,
            caller: op.caller,
            now: Utime::from_unix(cx.unix_zero + cx.now),
            mtime: op.op.mtime,
            may_write: op.may_write,
            return_vec: op.op.flags.has(OpFlags::RETURNVEC),
            next_version: self.core.log.next_version(cx.map.epoch),
            last_user_version: self.core.info.last_user_version,
            layout,
            may_overwrite,
            connected: &connected,
            notify_id,
            snap: op.op.snap,
            snaps: &snaps,
            order_snaps: op.op.flags.has(OpFlags::ORDERSNAP),
            removed_snaps,
            at_hand: &progress.at_hand,
        };
        if let Some(give_up) = &mut op.give_up {
            return ops::give_up(cx.store, &request, give_up);
        }
        if let Some(record) = &op.record {
            return ops::record(cx.store, &request, &mut progress.answers, record);
        }
        match (&mut op.trim, removed_snaps) {
            (None, _) => {
                let run = ops::execute(cx.store, &request, &mut progress.answers, cx.limits);
                let beside_input = match &run {
                    Run::Done(effects) => effects.steps_bytes.saturating_sub(op.op.input_bytes()),
                    _ => 0,
                };
                let bytes = op.progress.answers.bytes() + beside_input;
                let more = bytes.saturating_sub(op.taken_bytes);
                self.ops.take(cx, number, more);
                run
            }
            (Some(_), None) => Run::Done(Effects::default()),
            (Some(trim), Some(removed)) => {
                let (run, more) = ops::trim(cx.store, &request, &mut progress.answers, removed);
                trim.more = more;
                run
            }
        }
    }

    /// Returns the snapshots that an update must preserve: the client's, or those of the whole pool.
    fn snaps_of(&self, cx: &Context<'_>, number: u64) -> SnapContext {
        let op = &self.ops.ops[&number];
        if !op.may_write || op.session == NO_SESSION {
            return SnapContext::default();
        }
        match self.pool_with_snaps(cx).filter(|_| !op.op.flags.has(OpFlags::ENFORCE_SNAPC)) {
            Some(pool) => SnapContext { seq: pool.snap_seq, snaps: pool.snaps.keys().rev().copied().collect() },
            None => {
                let removed = cx.map.removed_snaps_queue.get(&self.core.id.pool.base());
                let is_there = |snap: &SnapId| !removed.is_some_and(|removed| removed.contains(snap.0));
                let snaps = op.op.snaps.iter().copied().filter(is_there).collect();
                SnapContext { seq: op.op.snap_seq, snaps }
            }
        }
    }

    /// Returns the group's pool, if snapshots are taken of it as a whole.
    fn pool_with_snaps<'a>(&self, cx: &Context<'a>) -> Option<&'a PgPool> {
        cx.map.pools.get(&self.core.id.pool.base()).filter(|pool| pool.flags.contains(PoolFlags::POOL_SNAPS))
    }

    /// Makes an operation on an object that no client asks for.
    pub(crate) fn own_op(&self, cx: &Context<'_>, object: &ObjectId, reqid: ReqId, ops: Vec<Op>) -> ClientOp {
        let pgid = SPgId { pg: self.core.id, shard: NO_SHARD };
        let name = Bytes::copy_from_slice(&object.name);
        let request = OsdOp::new(pgid, object.hash, cx.map.epoch, Locator::pool(self.core.id.pool), name, ops);
        let op = ClientOp::new(NO_SESSION, 0, reqid, request, OpTimes::new(cx.now, cx.now));
        ClientOp { object: object.clone(), ..op }
    }

    /// Records digests of an object by an update, which is replicated like any other.
    pub(crate) fn record(&mut self, cx: &mut Context<'_>, object: &ObjectId, record: Record) {
        let op = self.own_op(cx, object, ReqId::default(), Vec::new());
        self.queue_own(cx, op.recording(record));
    }

    /// Looks at a watched object, for who watches it.
    pub(crate) fn look_at_watched(&mut self, cx: &mut Context<'_>, object: &ObjectId) {
        let op = self.own_op(cx, object, ReqId::default(), vec![Op::stat()]);
        self.queue_own(cx, op);
    }

    /// Looks for watchers that have been silent for too long.
    pub(crate) fn watch_tick(&mut self, cx: &mut Context<'_>) {
        if self.is_active() && !self.watches.is_empty() {
            let ops = &self.ops;
            self.watches.tick(cx, self.core.id, |object, cookie, client| ops.removes_watch(object, cookie, client));
        }
    }

    /// Ends a watch, as an update like any other.
    pub(crate) fn remove_watch(&mut self, cx: &mut Context<'_>, object: &ObjectId, (cookie, client): WatchKey) {
        let unwatch = Op::watch(cookie, Watch::UNWATCH, 0);
        // Number 0 is no request that the log remembers; the other number tells those that wait apart.
        let reqid = ReqId { name: client, tid: 0, inc: self.watches.next_removal() };
        let caller = Caller { name: client, addr: Default::default() };
        let op = self.own_op(cx, object, reqid, vec![unwatch]).called_by(caller);
        self.client_op(cx, op);
    }

    /// Queues the update that removes states of an object which no snapshot needs any more.
    pub(crate) fn queue_trim(&mut self, cx: &mut Context<'_>, object: ObjectId) {
        let op = self.own_op(cx, &object, ReqId::default(), Vec::new());
        let op = ClientOp { trim: Some(Trim::default()), may_write: true, ..op };
        self.queue_own(cx, op);
    }

    /// Queues an operation that the group itself asks for, on its object.
    pub(crate) fn queue_own(&mut self, cx: &mut Context<'_>, op: ClientOp) {
        let object = op.object.clone();
        self.ops.hold(cx, &op);
        let number = self.ops.keep(op);
        self.ops.objects.entry(object.clone()).or_default().queue.push_back(number);
        self.run_object(cx, &object);
    }

    /// Queues the update that gives up states of an object which nobody has, before anything else that is to be done to
    /// the object.
    pub(crate) fn queue_give_up(&mut self, cx: &mut Context<'_>, object: ObjectId, lost: BTreeMap<ObjectId, EVersion>) {
        let queue = self.ops.objects.entry(object.clone()).or_default();
        let asked = queue.queue.iter().find(|number| self.ops.ops[*number].give_up.is_some());
        if let Some(give_up) = asked.and_then(|number| self.ops.ops.get_mut(number)).and_then(|op| op.give_up.as_mut())
        {
            // An update that gives up states of this object is queued already. It gives up these, too.
            give_up.also(lost);
            return self.run_object(cx, &object);
        }
        let snaps = self.pool_with_snaps(cx).map(|pool| pool.snaps.keys().copied().collect());
        let give_up = Some(Box::new(GiveUp::new(lost, snaps)));
        let op = self.own_op(cx, &object, ReqId::default(), Vec::new());
        let op = ClientOp { give_up, may_write: true, ..op };
        self.ops.hold(cx, &op);
        let number = self.ops.keep(op);
        let queue = self.ops.objects.get_mut(&object).expect("just seen");
        queue.queue.insert(usize::from(queue.front_blocked), number);
        self.run_object(cx, &object);
    }

    /// Returns true if all states of the object that are not lost are here, where some are given up. A state that is
    /// found after all stays.
    fn rest_is_here(&mut self, cx: &mut Context<'_>, number: u64) -> bool {
        let op = &self.ops.ops[&number];
        let head = op.object.clone();
        let asked = op.give_up.as_ref().expect("the caller has seen it").lost.keys();
        let unfound: BTreeSet<ObjectId> = asked.filter(|state| self.whereabouts().is_unfound(state)).cloned().collect();
        let give_up = self.ops.ops.get_mut(&number).and_then(|op| op.give_up.as_mut()).expect("just seen");
        give_up.keep(|state| unfound.contains(state));
        let is_lost = |state: &ObjectId| give_up.lost.contains_key(state);
        let states = head.before_all_states()..=head.clone();
        let mut rest: Vec<ObjectId> =
            self.core.missing.range(states).map(|(state, _)| state).filter(|state| !is_lost(state)).cloned().collect();
        if !is_lost(&head) && rest.last() != Some(&head) {
            rest.push(head);
        }
        // The loop asks for each state, even if another one is missing.
        let mut are_here = true;
        for state in rest {
            are_here &= self.healer().is_where_needed(cx, &state, true);
        }
        are_here
    }

    /// Goes on with an operation whose lookup is done; for data reads, with the outcome.
    pub(crate) fn op_lookup_done(
        &mut self,
        cx: &mut Context<'_>,
        number: u64,
        id: LookupId,
        data: Option<Result<Rope, ReadError>>,
    ) {
        // The operation may be gone with its interval; and another one may have its number, if the group was gone too.
        let Some(op) = self.ops.ops.get_mut(&number).filter(|op| op.progress.waits_for == Some(id)) else { return };
        op.progress.waits_for = None;
        op.times.unblocked(cx.now, data.is_some());
        if self.replica_lookup_done(cx, number, id, data.as_ref()).is_some() {
            return;
        }
        let Some(op) = self.ops.ops.get(&number) else { return };
        let (object, may_write) = (op.object.clone(), op.may_write);
        if matches!(data, Some(Err(_))) && self.fetch_instead(cx, number) {
            return;
        }
        let Some(op) = self.ops.ops.get_mut(&number) else { return };
        if let Some(result) = data {
            op.progress.answers.read_done(id, result);
        }
        if op.is_group_op() {
            let op = self.ops.ops.remove(&number).expect("just seen");
            if !self.progress().may_read(cx) {
                return self.ops.waiting.push_back(ClientOp { progress: LookupProgress::default(), ..op });
            }
            return self.run_group_op(cx, op);
        }
        if may_write {
            self.ops.objects.get_mut(&object).expect("its operation waits").front_blocked = false;
        } else if !self.progress().may_read(cx) || self.lacks_any(number) {
            // The state that the operation has read may no longer be the newest, or is being replaced.
            self.read_anew(cx, number);
        } else {
            match self.run_op(cx, number) {
                Ran::Ended => self.ops.objects.get_mut(&object).expect("its operation waited").reads_running -= 1,
                // The state of the object that it needs is known only now, and is missing.
                Ran::Lacks(_) => self.read_anew(cx, number),
                Ran::Blocked | Ran::HasNoRoom => {}
            }
        }
        self.run_object(cx, &object);
    }

    /// Returns true if the object, or the state of it that an operation needs, is missing here.
    fn lacks_any(&self, number: u64) -> bool {
        let op = &self.ops.ops[&number];
        let states = &op.progress.at_hand;
        self.core.missing.contains_key(&op.object) || states.iter().any(|state| self.core.missing.contains_key(state))
    }

    /// Begins a read anew whose object is damaged here, and fetches the object from another member first. Returns false
    /// if no other member has it.
    fn fetch_instead(&mut self, cx: &mut Context<'_>, number: u64) -> bool {
        let op = &self.ops.ops[&number];
        if op.is_group_op() {
            return false;
        }
        let head = op.object.clone();
        if op.may_write {
            // An update whose old bytes cannot be read waits until they can.
            let is_lost = !self.whereabouts().can_decode(&head, None);
            if is_lost {
                self.ops.restart(cx, number);
                self.ops.objects.get_mut(&head).expect("its operation waits").front_blocked = false;
                self.run_object(cx, &head);
            }
            return is_lost;
        }
        let object = op.progress.at_hand.first().unwrap_or(&head).clone();
        if !self.core.protection().is_whole_on_each() {
            // Some shards cannot be read, and others in their place were read already. A read waits if they are not
            // where they might have been.
            let is_lost = !self.whereabouts().can_decode(&object, None);
            if is_lost {
                self.read_anew(cx, number);
                self.run_object(cx, &head);
            }
            return is_lost;
        }
        if self.core.missing.contains_key(&object) {
            // Another read has found the damage, and the object is already being fetched.
            self.read_anew(cx, number);
            self.run_object(cx, &head);
            return true;
        }
        // The operation knows the version, which the store would have to look up again: nothing changes an object while
        // it is read.
        let stat = op.progress.answers.known_stat();
        let version = stat.and_then(|stat| ObjectInfo::of(stat).ok()).map(|info| info.version);
        let Some(version) = version.filter(|version| self.whereabouts().is_elsewhere(&object, *version)) else {
            return self.waits_for_members(cx, number);
        };
        self.read_anew(cx, number);
        self.healer().object_damaged(cx, &object, version);
        self.run_object(cx, &head);
        true
    }

    /// Tries a read again later. No member of the acting set has the object that is damaged here, but the primary has
    /// asked for other OSDs in the acting set, which may have it. Returns false if it has not, or if the read has
    /// waited for [`MEMBERS_WAIT`].
    fn waits_for_members(&mut self, cx: &mut Context<'_>, number: u64) -> bool {
        let asks_for_others = self.progress().asks_for_others();
        let op = self.ops.ops.get_mut(&number).expect("operation is known");
        let since = *op.waits_for_members.get_or_insert(cx.now);
        if !asks_for_others || cx.now >= since + MEMBERS_WAIT {
            return false;
        }
        let object = op.object.clone();
        self.wait_to_read(cx, object);
        self.read_anew(cx, number);
        true
    }

    /// Takes a read back to where it was: its reading so far does not count.
    fn read_anew(&mut self, cx: &mut Context<'_>, number: u64) {
        self.ops.restart(cx, number);
        let queue = self.ops.objects.get_mut(&self.ops.ops[&number].object).expect("its operation waited");
        queue.reads_running -= 1;
        queue.queue.insert(usize::from(queue.front_blocked), number);
    }

    /// Notes that reads of the object are to be tried again when leases come, or with the next tick.
    fn wait_to_read(&mut self, cx: &mut Context<'_>, object: ObjectId) {
        self.ops.wait_to_read.insert(object);
        cx.shared.leases.waiting.insert(self.core.id);
    }

    /// Tries reads again that wait for leases, or for members.
    pub(crate) fn lease_came(&mut self, cx: &mut Context<'_>) {
        if !self.is_active() {
            return;
        }
        for object in std::mem::take(&mut self.ops.wait_to_read) {
            self.run_object(cx, &object);
        }
        self.start_waiting_ops(cx);
    }

    /// Tries updates again that wait for room, as some may have come.
    pub(crate) fn room_came(&mut self, cx: &mut Context<'_>) {
        for object in std::mem::take(&mut self.ops.wait_for_room) {
            self.run_object(cx, &object);
        }
    }

    /// Takes back what operations have read of an object of which this OSD's copy does not count any more.
    pub(crate) fn lost_here(&mut self, cx: &mut Context<'_>, object: &ObjectId) {
        self.ops.forget_answers(object);
        self.refuse_replica_reads(cx);
    }

    /// Starts what may start on objects in `from .. until`.
    pub(crate) fn run_objects(&mut self, cx: &mut Context<'_>, from: &ObjectId, until: &ObjectId) {
        let objects: Vec<_> = self.ops.objects.range(from..until).map(|(object, _)| object.clone()).collect();
        objects.iter().for_each(|object| self.run_object(cx, object));
    }

    fn answer_read(&mut self, cx: &mut Context<'_>, op: ClientOp, effects: Effects) {
        self.reads.ops += 1;
        self.reads.bytes += effects.bytes_read;
        let mut reply = OsdOpReply::to(&op.op, effects.result, cx.map.epoch);
        fill_results(&mut reply, effects.ops);
        if effects.result == Errno::ENOENT.as_result() && effects.user_version == 0 {
            reply.set_versions(EVersion::ZERO, self.core.info.last_user_version);
            reply.bad_replay_version = self.core.log.head();
        } else {
            reply.set_versions(EVersion::ZERO, effects.user_version);
        }
        self.answer(cx, &op, reply);
    }

    /// Carries out a listing, or another operation on the group as a whole.
    fn run_group_op(&mut self, cx: &mut Context<'_>, mut op: ClientOp) {
        op.times.run(cx.now);
        op.times.executed(cx.now);
        let [step] = &op.op.ops[..] else { return self.answer_error(cx, &op, Errno::EINVAL) };
        if op.op.snap != SnapId::HEAD {
            return self.answer_error(cx, &op, Errno::EINVAL);
        }
        if step.code == OpCode::SCRUBLS {
            return match self.scrub.list_inconsistent(&self.core, &step.indata.to_vec(), cx.whoami) {
                Ok(page) => {
                    let mut reply = OsdOpReply::to(&op.op, 0, cx.map.epoch);
                    fill_results(&mut reply, vec![ops::OpResult { rval: 0, outdata: Rope::from(page) }]);
                    self.answer(cx, &op, reply);
                }
                Err(errno) => self.answer_error(cx, &op, errno),
            };
        }
        if step.code == OpCode::PG_HITSET_LS {
            // Pools without tiers have none.
            let mut reply = OsdOpReply::to(&op.op, 0, cx.map.epoch);
            fill_results(&mut reply, vec![ops::OpResult { rval: 0, outdata: Rope::from(vec![0; 4]) }]);
            return self.answer(cx, &op, reply);
        }
        if step.code == OpCode::PG_HITSET_GET {
            return self.answer_error(cx, &op, Errno::ENOENT);
        }
        let OpArgs::PgLs { count, .. } = step.args else {
            return self.answer_error(cx, &op, Errno::EINVAL);
        };
        let input = step.indata.to_vec();
        let input = match step.code {
            OpCode::PGNLS => ObjectId::from_slice(&input).map(|cursor| (cursor, None)),
            OpCode::PGNLS_FILTER => FilteredListInput::from_slice(&input).map(|input| {
                let FilteredListInput { xattr, value, cursor } = input;
                (cursor, Some(ListFilter { attr: xattr, value }))
            }),
            _ => return self.answer_error(cx, &op, Errno::EOPNOTSUPP),
        };
        let Ok((mut cursor, filter)) = input else {
            return self.answer_error(cx, &op, Errno::EINVAL);
        };
        if cursor.pool == self.core.id.pool.base() {
            cursor.pool = self.core.id.pool;
        }
        let group = (self.core.id, self.core.interval.shape.pg_num);
        match op.progress.listing.run(cx.store, group, &cursor, (&op.op.locator.nspace, filter.as_ref()), count) {
            Ok(mut listing) => {
                listing.next.pool = match listing.next.max {
                    true => listing.next.pool,
                    false => listing.next.pool.base(),
                };
                self.reads.ops += 1;
                let result = i32::from(listing.at_end);
                let mut reply = OsdOpReply::to(&op.op, result, cx.map.epoch);
                let outdata = Rope::from(listing.encode());
                fill_results(&mut reply, vec![ops::OpResult { rval: result, outdata }]);
                reply.set_versions(EVersion::ZERO, self.core.info.last_user_version);
                self.answer(cx, &op, reply);
            }
            Err(ListError::BadCursor) => self.answer_error(cx, &op, Errno::EINVAL),
            Err(ListError::NoAnswer(NoAnswer::Damaged(damage))) => {
                tracing::error!(pg = %self.core.id, "cannot list its objects: {damage}");
                self.answer_error(cx, &op, Errno::EIO);
            }
            Err(ListError::NoAnswer(NoAnswer::Pending(id))) => {
                op.progress.waits_for = Some(id);
                op.times.blocked(cx.now);
                let number = self.ops.keep(op);
                cx.wait(id, Waiter::ClientOp { pgid: self.core.id, op: number });
            }
        }
    }
}

/// Outcome of a run.
enum Ran {
    Ended,
    Blocked,
    /// The run is that of an update for which there is no room at present.
    HasNoRoom,
    /// A state of the object is not where it is needed.
    Lacks(ObjectId),
}

/// Returns true if an operation can wait with its client. A request that is known to have been carried out stays here:
/// the log may not know it any more when it comes again.
fn holds_back(cx: &Context<'_>, op: &ClientOp) -> bool {
    let is_clients = op.session != NO_SESSION && !op.is_upkeep() && op.repeated.is_none();
    is_clients && cx.clients.get(&op.session).is_none_or(|client| client.takes_backoffs)
}

fn held_back<'a>(epoch: Epoch, op: &ClientOp, object: &'a ObjectId) -> HeldBack<'a> {
    HeldBack { session: op.session, pgid: op.op.pgid, object, epoch }
}

/// Returns the error with which an operation is refused before it is executed; `None` if it is not.
fn refusal(op: &ClientOp, limits: &Limits) -> Option<Errno> {
    const NAME_BYTES_MAX: usize = 2048;
    const NAMESPACE_BYTES_MAX: usize = 256;
    let message = &op.op;
    if message.flags.has(OpFlags::PARALLELEXEC) || message.ops.is_empty() {
        return Some(Errno::EINVAL);
    }
    if message.ops.len() > ops::STEPS_MAX {
        return Some(Errno::E2BIG);
    }
    if op.is_group_op() {
        return None;
    }
    if message.name.is_empty() {
        return Some(Errno::EINVAL);
    }
    let too_long = message.name.len() > NAME_BYTES_MAX
        || message.locator.key.len() > NAME_BYTES_MAX
        || message.locator.nspace.len() > NAMESPACE_BYTES_MAX;
    if too_long {
        return Some(Errno::ENAMETOOLONG);
    }
    // The list of an object's states is asked for there and nowhere else, and nothing else is.
    let is_there = message.snap == SnapId::DIR;
    if message.ops.iter().any(|op| (op.code == OpCode::LIST_SNAPS) != is_there) {
        return Some(Errno::EINVAL);
    }
    if op.may_write && message.snap != SnapId::HEAD {
        return Some(Errno::EINVAL);
    }
    if op.may_write && message.input_bytes() > limits.op_bytes {
        return Some(Errno::EMSGSIZE);
    }
    if let Some(errno) = ops::refused_call(message) {
        return Some(errno);
    }
    None
}

/// Returns the answer to a request that the log says has been carried out.
fn reply_from_log(op: &ClientOp, entry: &LogEntry, cx: &Context<'_>) -> OsdOpReply {
    let mut reply = OsdOpReply::to(&op.op, entry.result, cx.map.epoch);
    for (slot, (rval, outdata)) in reply.ops.iter_mut().zip(&entry.op_results) {
        (slot.result, slot.outdata) = (*rval, Rope::from(outdata.clone()));
    }
    reply.set_versions(entry.version, entry.user_version);
    reply
}
