//! The state of a group's intake.

use crate::context::Context;
use crate::intake::operations::{ClientOp, ClientOps};
use crate::intake::orders::{Order, Todo};
use crate::intake::replica_state::ReplicaReads;
use std::collections::VecDeque;
use types::{EVersion, EntityName, Epoch, Errno, ObjectId};
use wire::messages::OsdOpReply;

/// Client reads since the OSD started.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct ReadCounters {
    pub ops: u64,
    pub bytes: u64,
}

/// A group's intake: all that clients have asked for and that is not answered. Only this folder sees into it.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    pub(super) ops: ClientOps,
    /// Reads that this OSD answers as a member that is not the primary.
    pub(super) replica_reads: ReplicaReads,
    pub(super) reads: ReadCounters,
    /// Work that the present input has brought, in its order. Empty between inputs.
    pub(super) todo: VecDeque<Todo>,
    /// Orders to other parts, which these carry out before that goes on. Empty between inputs.
    pub(super) orders: VecDeque<Order>,
}

impl Requests {
    // ---- questions ----

    /// Returns the counts of reads that were answered.
    pub fn reads(&self) -> ReadCounters {
        self.reads
    }

    /// Gives the operations that wait for the group to serve, and those that were started or queued.
    pub fn unanswered(&self) -> (impl Iterator<Item = &ClientOp>, impl Iterator<Item = &ClientOp>) {
        self.ops.unanswered()
    }

    /// Returns true if operations on the object are not answered yet.
    pub fn any_wait_for(&self, object: &ObjectId) -> bool {
        self.ops.wait_for(object)
    }

    /// Returns a question that can be passed on: is an update of an object in this range on its way?
    pub fn in_flight(&self) -> impl Fn(&ObjectId, &ObjectId) -> bool {
        |from, until| self.ops.any_update_in_flight(from, until)
    }

    /// Returns true if the removal of a watch is on its way already.
    pub fn removes_watch(&self, object: &ObjectId, cookie: u64, client: EntityName) -> bool {
        self.ops.removes_watch(object, cookie, client)
    }

    // ---- work of one input ----

    /// Orders that operations on an object run that may, behind what the input has brought before.
    pub(super) fn run_later(&mut self, object: ObjectId) {
        self.todo.push_back(Todo::Run(object));
    }

    /// Orders that operations on an object run next.
    pub(super) fn run_next(&mut self, object: ObjectId) {
        self.todo.push_front(Todo::Run(object));
    }

    // ---- news for which nothing else must be known ----

    /// Notes that the group's pool is not full any more from this map on.
    pub fn full_ended(&mut self, epoch: Epoch) {
        self.ops.full_ended(epoch);
    }

    /// As member: notes that all members have all updates up to here durably.
    pub fn all_have(&mut self, committed: EVersion) {
        self.replica_reads.all_have(committed);
    }

    /// As member: forgets its share of the primary's leases, as another interval has been joined.
    pub fn forget_share(&mut self) {
        self.replica_reads.forget_share();
    }

    /// As member: ends its share, as the clock may have stood still.
    pub fn end_share(&mut self) {
        self.replica_reads.end_share();
    }

    /// Takes back what operations have read of an object of which this OSD's copy does not count any more.
    pub fn lost_here(&mut self, cx: &mut Context<'_>, object: &ObjectId) {
        self.ops.forget_answers(object);
        self.refuse_replica_reads(cx);
    }

    // ---- ends ----

    /// Forgets all operations. Clients send again when they learn of the new interval, so those concerned are noted.
    pub fn drop_all(&mut self, cx: &mut Context<'_>) {
        self.assert_idle();
        self.ops.drop_all(cx);
    }

    /// Queues all operations until the group becomes active again, those first that were `in_flight`.
    pub fn begin_anew(&mut self, cx: &mut Context<'_>, in_flight: impl Iterator<Item = Box<ClientOp>>) {
        self.assert_idle();
        self.ops.begin_anew(cx, in_flight);
    }

    fn assert_idle(&self) {
        debug_assert!(self.todo.is_empty() && self.orders.is_empty(), "no interval ends within an input to the intake");
    }

    /// Refuses all reads on their way here beside the primary: the states that this member reads for clients may not be
    /// the newest any more.
    pub fn refuse_replica_reads(&mut self, cx: &mut Context<'_>) {
        for number in self.replica_reads.running.keys().copied().collect::<Vec<_>>() {
            self.replica_read_refused(cx, number);
        }
    }

    /// Sends the client of one such read to the primary.
    pub(super) fn replica_read_refused(&mut self, cx: &mut Context<'_>, number: u64) {
        self.replica_reads.running.remove(&number);
        let op = self.ops.ops.remove(&number).expect("operation is known");
        self.ops.release(cx, &op);
        ask_elsewhere(cx, &op);
    }
}

/// Answers that the operation is to be asked for elsewhere, or later.
pub(super) fn ask_elsewhere(cx: &mut Context<'_>, op: &ClientOp) {
    cx.send_client(op.session, op.tid, OsdOpReply::to(&op.op, Errno::EAGAIN.as_result(), cx.map.epoch));
}
