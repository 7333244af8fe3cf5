//! Reads by other OSDs, which copy the object ([`crate::copy`]).
//!
//! A question is asked again for as long as it is not answered. So it can be dropped at any time, and there is one of
//! each copy: the newest. Where clients are asked to hold back, OSDs are told to ask later.

use crate::context::Context;
use crate::intake::machine::Intake;
use crate::intake::operations::ClientOp;
use crate::intake::running::Ran;
use crate::intake::state::ask_elsewhere;
use crate::shard::copying::is_osds;
use std::collections::BTreeSet;
use types::ObjectId;
use wire::msgr::SessionId;

impl Intake<'_> {
    /// Puts a question in the place of the one that the same copy has asked before. Returns false if that one, which
    /// has started, is to answer it.
    pub(super) fn replace_question(&mut self, cx: &mut Context<'_>, question: &ClientOp) -> bool {
        let is_older = |op: &ClientOp| (op.session, op.reqid) == (question.session, question.reqid) && !op.may_write;
        if let Some(at) = self.state.ops.waiting.iter().position(|op| is_older(op)) {
            let older = self.state.ops.waiting.remove(at).expect("just seen");
            self.state.ops.release(cx, &older);
            return true;
        }
        let Some(number) = self.state.ops.ops.iter().find(|(_, op)| is_older(op)).map(|(number, _)| *number) else {
            return true;
        };
        if self.drop_queued(cx, number) {
            return true;
        }
        let older = self.state.ops.ops.get_mut(&number).expect("just seen");
        let asks_the_same = older.op.ops == question.op.ops;
        if asks_the_same {
            older.tid = question.tid;
        }
        !asks_the_same
    }

    /// Drops an operation that has not started. Returns false if it has.
    fn drop_queued(&mut self, cx: &mut Context<'_>, number: u64) -> bool {
        let op = &self.state.ops.ops[&number];
        let Some(queue) = self.state.ops.objects.get_mut(&op.object) else { return false };
        let Some(at) = queue.queue.iter().position(|queued| *queued == number) else { return false };
        queue.queue.remove(at);
        let op = self.state.ops.ops.remove(&number).expect("just seen");
        self.state.ops.release(cx, &op);
        true
    }

    /// Drops reads of a client, or of another OSD, that is gone.
    pub(crate) fn reader_left(&mut self, cx: &mut Context<'_>, session: SessionId) {
        let is_needless = |op: &ClientOp| op.session == session && !op.may_write;
        for op in std::mem::take(&mut self.state.ops.waiting) {
            match is_needless(&op) {
                true => self.state.ops.release(cx, &op),
                false => self.state.ops.waiting.push_back(op),
            }
        }
        let left: Vec<u64> =
            self.state.ops.ops.iter().filter(|(_, op)| is_needless(op)).map(|(number, _)| *number).collect();
        // All questions are dropped before anything runs: a run may be one of them, and would end.
        let mut objects = BTreeSet::new();
        for number in left {
            let object = self.state.ops.ops[&number].object.clone();
            if self.drop_queued(cx, number) {
                objects.insert(object);
            }
        }
        objects.into_iter().for_each(|object| self.state.run_later(object));
    }

    /// Starts questions about an object whose next update waits before it changes anything: for a copy, perhaps, of a
    /// state of the same object, or of one that is copied from here. They read what is there, which every OSD has
    /// durably.
    pub(super) fn run_questions(&mut self, cx: &mut Context<'_>, object: &ObjectId) {
        loop {
            let Some(queue) = self.state.ops.objects.get(object) else { return };
            let ops = &self.state.ops.ops;
            let is_question = |number: &u64| is_osds(ops[number].session) && !ops[number].may_write;
            let first = queue.queue.iter().skip(1).copied().find(is_question);
            let Some(number) = first.filter(|_| queue.updates_in_flight == 0) else { return };
            if !self.healer.is_where_needed(cx, object, false) {
                return;
            }
            if !self.progress().may_read(cx) {
                return self.wait_to_read(cx, object.clone());
            }
            if !self.take_share(cx, number) {
                return;
            }
            let queue = self.state.ops.objects.get_mut(object).expect("just seen");
            queue.queue.retain(|queued| *queued != number);
            match self.run_op(cx, number) {
                Ran::Ended => {}
                Ran::Blocked => self.state.ops.objects.get_mut(object).expect("still there").reads_running += 1,
                Ran::Lacks(_) | Ran::HasNoRoom => {
                    // The state is asked for now, or nobody has it.
                    let op = self.state.ops.ops.remove(&number).expect("it has not ended");
                    self.state.ops.release(cx, &op);
                    ask_elsewhere(cx, &op);
                }
            }
            if !self.state.orders.is_empty() {
                return self.state.run_next(object.clone());
            }
        }
    }
}
