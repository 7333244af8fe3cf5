//! Operations that have come and are not answered, in their order per object.

use crate::context::Context;
use crate::group::log::LogEntry;
use crate::hops::{OpTimes, WaitReasons};
use crate::intake::memory::{MemoryShare, Shares, output_bytes};
use crate::intake::numbered::Numbered;
use crate::ops::{self, Answers, GiveUp, ListingRun};
use crate::scrub::record::Record;
use crate::shard::copying::is_osds;
use crate::updates::room_wait::RoomWait;
use crate::updates::trim_run::Trim;
use cls::Caller;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;
use store::LookupId;
use types::{EntityName, Epoch, FastMap, ObjectId, ReqId, SnapId};
use wire::EntityAddr;
use wire::messages::{OpArgs, OpCode, OpFlags, OsdOp};
use wire::msgr::SessionId;

/// Session of operations whose answer nobody waits for.
pub(crate) const NO_SESSION: SessionId = SessionId(u64::MAX);

/// Memory that an operation takes beside its input.
pub(crate) const OP_BYTES: usize = 512;

/// Progress of an operation that waits for lookups.
#[derive(Debug, Default)]
pub(super) struct LookupProgress {
    pub(super) waits_for: Option<LookupId>,
    pub(super) answers: Answers,
    pub(super) listing: ListingRun,
    /// States of the object at snapshots that the operation needs, and that are where they are needed: at most one for
    /// each of its steps.
    pub(super) at_hand: Vec<ObjectId>,
}

/// One client operation on its way through a group.
#[derive(Debug)]
pub(crate) struct ClientOp {
    pub session: SessionId,
    /// Pairs the answer with the request.
    pub tid: u64,
    pub reqid: ReqId,
    pub op: OsdOp,
    /// Name of the object's present state, even if the client asks for a snapshot: operations on all states of an
    /// object are ordered together.
    pub object: ObjectId,
    /// Set for an internal trim, which has no client: it removes states that snapshots do not need any more.
    pub trim: Option<Trim>,
    /// Set for an update that an operator has asked for: it gives up states of the object that nobody has.
    pub give_up: Option<Box<GiveUp>>,
    /// Set for an update that a scrub, or an operator, has asked for: it records digests of the object.
    pub record: Option<Box<Record>>,
    pub may_write: bool,
    /// True if the operation copies an object.
    pub(super) copies: bool,
    pub times: OpTimes,
    /// The client that class methods see.
    pub(super) caller: Caller,
    /// The request's entry in the log when it came. Kept, as the log may be trimmed while the operation waits.
    pub(super) repeated: Option<Box<LogEntry>>,
    pub(super) progress: LookupProgress,
    /// Set when the update was tried and there was no room for it.
    pub(super) waits_for_room: Option<RoomWait>,
    /// Time since which the read waits for other OSDs in the acting set, because no present member has the object that
    /// is damaged here.
    pub(super) waits_for_members: Option<Duration>,
    /// Memory that a started operation has taken beside its input, or will.
    pub(super) taken_bytes: usize,
}

impl ClientOp {
    pub fn new(session: SessionId, tid: u64, reqid: ReqId, op: OsdOp, times: OpTimes) -> ClientOp {
        let object = ObjectId { snap: SnapId::HEAD, ..op.object_id() };
        let may_write = ops::may_write(&op);
        let copies = op.ops.iter().any(|op| matches!(op.code, OpCode::COPY_FROM | OpCode::COPY_FROM2));
        ClientOp {
            session,
            tid,
            reqid,
            op,
            object,
            trim: None,
            give_up: None,
            record: None,
            may_write,
            copies,
            times,
            caller: Caller { name: reqid.name, addr: EntityAddr::BLANK },
            repeated: None,
            progress: LookupProgress::default(),
            waits_for_room: None,
            waits_for_members: None,
            taken_bytes: 0,
        }
    }

    /// Makes the operation one that this client has sent.
    pub fn set_caller(&mut self, caller: Caller) {
        self.caller = caller;
    }

    pub fn caller_addr(&self) -> EntityAddr {
        self.caller.addr
    }

    /// Makes this an operation that records digests of the object.
    pub fn set_record(&mut self, record: Record) {
        (self.record, self.may_write) = (Some(Box::new(record)), true);
    }

    /// Tells whether the group asked for the operation to keep an object in order. Nobody waits for it; the part of the
    /// group that asked for it asks again if need be.
    pub fn is_upkeep(&self) -> bool {
        self.trim.is_some() || self.record.is_some()
    }

    pub(super) fn is_group_op(&self) -> bool {
        self.op.flags.has(OpFlags::PGOP) || self.op.ops.iter().any(|op| op.code.is_pg())
    }

    /// Returns the memory that it holds until it is answered. Before it starts that is itself.
    pub fn held_bytes(&self) -> usize {
        self.op.input_bytes() + self.taken_bytes + OP_BYTES
    }

    /// Returns the memory that it takes more when it starts.
    pub(super) fn share_bytes(&self) -> usize {
        output_bytes(&self.op.ops).saturating_sub(self.taken_bytes)
    }

    pub(super) fn share(&self) -> MemoryShare {
        match self.copies {
            _ if is_osds(self.session) => MemoryShare::Osds,
            true => MemoryShare::Copies,
            false => MemoryShare::Clients,
        }
    }
}

/// Operations on one object.
#[derive(Debug, Default)]
pub(super) struct ObjectQueue {
    /// Updates submitted and not yet durable everywhere.
    pub(super) updates_in_flight: u32,
    /// Reads that wait for the device.
    pub(super) reads_running: u32,
    /// The operation at the front has started and waits for a lookup; nothing may pass it.
    pub(super) front_blocked: bool,
    pub(super) queue: VecDeque<u64>,
}

impl ObjectQueue {
    pub(super) fn is_idle(&self) -> bool {
        self.updates_in_flight == 0 && self.reads_running == 0 && self.queue.is_empty()
    }
}

/// All operations of a group that have come and are not answered.
#[derive(Debug, Default)]
pub(super) struct ClientOps {
    /// Operations that wait until the group is active, in order of arrival.
    pub(super) waiting: VecDeque<Box<ClientOp>>,
    /// Memory that all operations together hold, and the shares of it that those that have started took.
    pub(super) held_bytes: usize,
    pub(super) taken_bytes: Shares,
    /// Operations that are started or queued, by number.
    pub(super) ops: Numbered<ClientOp>,
    pub(super) next_number: u64,
    pub(super) objects: BTreeMap<ObjectId, ObjectQueue>,
    /// Objects whose next operation is a read that waits for a lease, or for members who may have what is damaged here.
    pub(super) wait_to_read: BTreeSet<ObjectId>,
    /// Objects whose next operation is an update for which there is no room yet.
    pub(super) wait_for_room: BTreeSet<ObjectId>,
    /// Objects whose next operation would bring more into memory than it may now.
    pub(super) wait_for_memory: BTreeSet<ObjectId>,
    /// Updates that are queued and not yet submitted, by request.
    pub(super) queued_requests: FastMap<ReqId, u64>,
    /// Clients of which an update of an object was dropped because the pool is full; from which epoch on it no longer
    /// was. What they sent before they knew that is dropped, too, or it would overtake: they send all of it again.
    pub(super) turned_away: BTreeMap<(ObjectId, EntityName), Option<Epoch>>,
}

impl ClientOps {
    /// Forgets everything. Clients send again when they learn of the new interval, so those concerned are noted.
    pub fn drop_all(&mut self, cx: &mut Context<'_>) {
        if mutant::is(mutant::Mutant::DroppedStaysHeld) {
            (self.held_bytes, self.taken_bytes) = Default::default();
        }
        for share in [MemoryShare::Clients, MemoryShare::Copies, MemoryShare::Osds] {
            cx.shared.held.put_back(share, self.taken_bytes[share as usize]);
        }
        cx.shared.held.give_back(self.held_bytes - self.taken_bytes.iter().sum::<usize>());
        cx.outbox.interrupted.extend(self.waiting.iter().map(|op| op.session));
        cx.outbox.interrupted.extend(self.ops.values().map(|op| op.session));
        let next_number = self.next_number;
        *self = ClientOps { next_number, ..ClientOps::default() };
    }

    /// Queues all operations until the group becomes active again: first the updates that were `in_flight`, then
    /// operations that were started or queued, then those that waited already.
    pub fn begin_anew(&mut self, cx: &mut Context<'_>, in_flight: impl Iterator<Item = Box<ClientOp>>) {
        let old = std::mem::take(self);
        self.next_number = old.next_number;
        // Nothing has been answered, so the memory that is held stays the same, until started operations put back what
        // they took.
        (self.held_bytes, self.taken_bytes) = (old.held_bytes, old.taken_bytes);
        self.turned_away = old.turned_away;
        self.waiting = in_flight.chain(old.ops.into_values()).chain(old.waiting).collect();
        // The primary asks again for what it asked for itself (the end of a watch) if that is still wanted.
        for op in std::mem::take(&mut self.waiting) {
            match op.session {
                NO_SESSION => self.release(cx, &op),
                _ => self.waiting.push_back(op),
            }
        }
        for op in &mut self.waiting {
            self.held_bytes -= op.taken_bytes;
            self.taken_bytes[op.share() as usize] -= op.taken_bytes;
            cx.shared.held.put_back(op.share(), std::mem::take(&mut op.taken_bytes));
            // All that was read belongs to the old interval, whose state may not be the new one's.
            (op.progress, op.waits_for_room) = (LookupProgress::default(), None);
            op.times.waits.add(WaitReasons::INACTIVE);
        }
        cx.outbox.interrupted.extend(self.waiting.iter().map(|op| op.session));
    }

    /// Gives the operations that wait for the group to serve, and those that were started or queued.
    pub fn unanswered(&self) -> (impl Iterator<Item = &ClientOp>, impl Iterator<Item = &ClientOp>) {
        (self.waiting.iter().map(Box::as_ref), self.ops.values())
    }

    /// Keeps an operation until it ends. Returns its number.
    pub(super) fn keep(&mut self, op: Box<ClientOp>) -> u64 {
        let number = self.next_number;
        self.next_number += 1;
        self.ops.insert(number, op);
        number
    }

    /// Counts an operation that has come.
    pub(super) fn hold(&mut self, cx: &mut Context<'_>, op: &ClientOp) {
        self.held_bytes += op.held_bytes();
        cx.shared.held.add(op.held_bytes());
    }

    /// Counts so many bytes more that an operation takes which has started.
    pub(super) fn take(&mut self, cx: &mut Context<'_>, number: u64, bytes: usize) {
        let op = self.ops.get_mut(&number).expect("operation is known");
        op.taken_bytes += bytes;
        let share = op.share();
        self.count_taken(cx, share, bytes);
    }

    /// Counts so many bytes more that an update takes which is about to be on its way.
    pub fn take_on_its_way(&mut self, cx: &mut Context<'_>, op: &mut ClientOp, bytes: usize) {
        op.taken_bytes += bytes;
        self.count_taken(cx, op.share(), bytes);
    }

    fn count_taken(&mut self, cx: &mut Context<'_>, share: MemoryShare, bytes: usize) {
        self.held_bytes += bytes;
        self.taken_bytes[share as usize] += bytes;
        cx.shared.held.take(share, bytes);
    }

    /// Takes an operation that has started back to its beginning. It waits again.
    pub(super) fn restart(&mut self, cx: &mut Context<'_>, number: u64) {
        let op = self.ops.get_mut(&number).expect("operation is known");
        op.progress = LookupProgress::default();
        let bytes = std::mem::take(&mut op.taken_bytes);
        self.held_bytes -= bytes;
        self.taken_bytes[op.share() as usize] -= bytes;
        cx.shared.held.put_back(op.share(), bytes);
    }

    /// Tells whether operations on the object wait for their turn, or have started and are not answered.
    pub fn wait_for(&self, object: &ObjectId) -> bool {
        self.objects.get(object).is_some_and(|queue| !queue.queue.is_empty())
    }

    /// Tells whether an update of an object in `from .. until` is on its way.
    pub fn any_update_in_flight(&self, from: &ObjectId, until: &ObjectId) -> bool {
        self.objects.range(from..until).any(|(_, queue)| queue.updates_in_flight > 0)
    }

    /// Counts an update of the object that is in flight no more.
    pub(super) fn update_ended(&mut self, object: &ObjectId) {
        let queue = self.objects.get_mut(object).expect("an update of the object was in flight");
        queue.updates_in_flight -= 1;
    }

    /// Forgets what queued operations have read of the object, because the object was bad.
    pub fn forget_answers(&mut self, object: &ObjectId) {
        for number in self.objects.get(&object.head_of()).iter().flat_map(|queue| &queue.queue) {
            let op = self.ops.get_mut(number).expect("queued operations are kept");
            op.progress.answers = Answers::default();
        }
    }

    /// Returns true if the removal of a watch is on its way already.
    pub fn removes_watch(&self, object: &ObjectId, cookie: u64, client: EntityName) -> bool {
        let removes = |op: &ClientOp| {
            let is_of_watch = op.session == NO_SESSION && op.reqid.name == client;
            is_of_watch
                && matches!(&op.op.ops[..], [op] if matches!(&op.args, OpArgs::Watch(watch) if watch.cookie == cookie))
        };
        let queue = self.objects.get(object);
        queue.is_some_and(|queue| queue.queue.iter().any(|number| removes(&self.ops[number])))
    }

    /// Tells whether an update must be dropped because one that the client sent before was: it has not heard yet that
    /// the pool is not full any more. Updates that insist on an answer get one.
    pub(super) fn is_turned_away(
        &mut self,
        object: &ObjectId,
        client: EntityName,
        sent: Epoch,
        flags: OpFlags,
    ) -> bool {
        if self.turned_away.is_empty() || flags.has(OpFlags::FULL_TRY) || flags.has(OpFlags::FULL_FORCE) {
            return false;
        }
        let key = (object.clone(), client);
        let Some(until) = self.turned_away.get(&key) else { return false };
        let goes_on = until.is_some_and(|until| sent >= until);
        if goes_on {
            self.turned_away.remove(&key);
        }
        !goes_on
    }

    /// Notes that the pool is not full any more from this map on.
    pub fn full_ended(&mut self, epoch: Epoch) {
        // A client that has not come back since the last time will not.
        self.turned_away.retain(|_, until| until.is_none());
        self.turned_away.values_mut().for_each(|until| *until = Some(epoch));
    }

    /// Gives back what an operation held that has been answered, or dropped.
    pub fn release(&mut self, cx: &mut Context<'_>, op: &ClientOp) {
        self.held_bytes -= op.held_bytes();
        self.taken_bytes[op.share() as usize] -= op.taken_bytes;
        cx.shared.held.put_back(op.share(), op.taken_bytes);
        cx.shared.held.give_back(op.held_bytes() - op.taken_bytes);
    }
}
