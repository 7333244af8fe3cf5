//! Operations that come, or come again: refused, answered from the log, held back, or queued on their objects.

use crate::context::Context;
use crate::group::log::LogEntry;
use crate::hops::WaitReasons;
use crate::intake::holding_back::holds_back;
use crate::intake::machine::Intake;
use crate::intake::operations::ClientOp;
use crate::intake::orders::{Order, Todo};
use crate::ops::{self, Limits};
use crate::shard::copying::is_osds;
use mutant::Mutant;
use types::{Errno, SnapId};
use wire::Rope;
use wire::messages::{OpCode, OpFlags, OsdOpReply};

impl Intake<'_> {
    /// Takes a client's operation; this OSD is the primary.
    pub(crate) fn client_op(&mut self, cx: &mut Context<'_>, mut op: Box<ClientOp>) {
        op.times.sampled = cx.shared.recorder.chooses(&op.reqid);
        // In erasure-coded pools each shard names objects by a pool of its own.
        op.object.pool = self.core().id.pool;
        if is_osds(op.session) && !self.replace_question(cx, &op) {
            return;
        }
        self.state.ops.hold(cx, &op);
        match self.is_active() {
            true => self.start_op(cx, op),
            false if self.progress().turns_clients_away(cx) && holds_back(cx, &op) => self.hold_group_back(cx, &op),
            false => {
                op.times.waits.add(WaitReasons::INACTIVE);
                self.state.ops.waiting.push_back(op);
            }
        }
    }

    /// Starts operations that waited for the group, if it serves.
    pub(crate) fn start_waiting_ops(&mut self) {
        if !self.is_active() {
            return;
        }
        let waiting = std::mem::take(&mut self.state.ops.waiting);
        self.state.todo.extend(waiting.into_iter().map(Todo::Start));
    }

    pub(super) fn start_op(&mut self, cx: &mut Context<'_>, mut op: Box<ClientOp>) {
        if op.is_upkeep() {
            // The new interval's walk finds it again.
            return self.state.ops.release(cx, &op);
        }
        if let Some(errno) = refusal(&op, cx.limits) {
            return self.answer_error(cx, &op, errno);
        }
        if op.is_group_op() {
            // A listing would lack objects that are missing here, and it must be of the present state.
            if !self.core().missing.is_empty() || !self.progress().may_read(cx) {
                return self.state.ops.waiting.push_back(op);
            }
            return self.run_group_op(cx, op);
        }
        if op.may_write {
            let known =
                self.core().log.find_request(&op.reqid).filter(|_| !mutant::is(Mutant::ResendApplied)).map(Box::new);
            // An update that the log has trimmed is never taken back. A newer one may have been.
            let before = op.repeated.take().filter(|entry| entry.version <= self.core().log.tail());
            op.repeated = known.or(before);
            // An answer that an update is done, while members lack the object, would promise more than is true.
            if op.repeated.is_some() && self.healer.is_where_needed(cx, &op.object, true) {
                return self.state.orders.push_back(Order::AnswerAgain(op));
            }
            if let Some(number) = self.state.ops.queued_requests.get(&op.reqid) {
                // The client has lost its session and asks again: answer on the new one. It may have newer maps by now.
                let queued = self.state.ops.ops.get_mut(number).expect("queued requests are kept");
                (queued.session, queued.tid, queued.op.retry_attempt) = (op.session, op.tid, op.op.retry_attempt);
                queued.op.epoch = queued.op.epoch.max(op.op.epoch);
                return self.state.ops.release(cx, &op);
            }
        }
        let (object, queued) = (op.object.clone(), op.may_write.then_some(op.reqid));
        let number = self.state.ops.keep(op);
        if let Some(reqid) = queued {
            self.state.ops.queued_requests.insert(reqid, number);
        }
        self.state.ops.objects.entry(object.clone()).or_default().queue.push_back(number);
        self.state.run_next(object);
    }

    /// Ends an operation that asks again for an update which the log knows. `is_redirected`: the update is on its way,
    /// and its answer goes to where the client is now.
    pub(super) fn answer_again(&mut self, cx: &mut Context<'_>, op: &ClientOp, is_redirected: bool) {
        if !is_redirected {
            let entry = op.repeated.as_deref().expect("the log knows it");
            let (reqid, version) = (op.reqid, entry.version);
            tracing::debug!(pg = %self.core().id, %reqid, %version, "repeated request answered from the log");
            let reply = reply_from_log(op, entry, cx);
            if entry.result >= 0 {
                self.watches.op_repeated(cx, op, entry.user_version);
            }
            cx.send_client(op.session, op.tid, reply);
        }
        self.state.ops.release(cx, op);
    }
}

/// Returns the error with which an operation is refused before it is executed; `None` if it is not.
pub(super) fn refusal(op: &ClientOp, limits: &Limits) -> Option<Errno> {
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
