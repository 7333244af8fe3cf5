//! Answers to operations: at once, or when their updates are done.

use crate::context::{Context, Fatal, Output};
use crate::group::effects::Effect;
use crate::hops::Replicated;
use crate::intake::machine::Intake;
use crate::intake::operations::ClientOp;
use crate::intake::replies::fill_results;
use crate::ops::Effects;
use crate::updates::replicate::NotSubmitted;
use crate::updates::replication::DoneUpdate;
use std::time::Duration;
use store::SubmitError;
use types::{EVersion, Errno, ObjectId};
use wire::messages::OsdOpReply;

impl Intake<'_> {
    pub(super) fn answer_error(&mut self, cx: &mut Context<'_>, op: &ClientOp, errno: Errno) {
        let reply = OsdOpReply::to(&op.op, errno.as_result(), cx.map.epoch);
        self.answer(cx, op, reply);
    }

    /// Sends an operation's answer; the operation is over.
    pub(super) fn answer(&mut self, cx: &mut Context<'_>, op: &ClientOp, reply: OsdOpReply) {
        self.answer_update(cx, op, reply, None);
    }

    /// Sends an operation's answer, with its way to all members if it is an update; the operation is over.
    pub(super) fn answer_update(
        &mut self,
        cx: &mut Context<'_>,
        op: &ClientOp,
        reply: OsdOpReply,
        way: Option<Replicated<'_>>,
    ) {
        let held_bytes = op.held_bytes();
        self.state.ops.release(cx, op);
        cx.shared.recorder.answered(cx.now, self.core().id, op, &reply, way);
        if reply.result >= 0 && op.times.started.happened() {
            let took = Duration::from_micros(u64::from(op.times.stamp(cx.now).0 - op.times.started.0));
            cx.shared.pacing.answered(took, held_bytes as u64, op.may_write);
        }
        cx.send_client(op.session, op.tid, reply);
    }

    pub(super) fn answer_read(&mut self, cx: &mut Context<'_>, op: &ClientOp, effects: Effects) {
        self.state.reads.ops += 1;
        self.state.reads.bytes += effects.bytes_read;
        let mut reply = OsdOpReply::to(&op.op, effects.result, cx.map.epoch);
        fill_results(&mut reply, effects.ops);
        if effects.result == Errno::ENOENT.as_result() && effects.user_version == 0 {
            reply.set_versions(EVersion::ZERO, self.core().info.last_user_version);
            reply.bad_replay_version = self.core().log.head();
        } else {
            reply.set_versions(EVersion::ZERO, effects.user_version);
        }
        self.answer(cx, op, reply);
    }

    /// Answers updates that are done, and then lets what waited for them go on.
    pub(super) fn answer_done_updates(&mut self, cx: &mut Context<'_>, done: Vec<DoneUpdate>) {
        let mut objects = Vec::with_capacity(done.len());
        for DoneUpdate { op, reply, acks, watch, last_member, .. } in done {
            if !watch.is_empty() {
                self.watches.op_done(cx, &op, watch, reply.user_version);
            }
            self.answer_update(cx, &op, reply, Some(Replicated { last_member, acks: &acks }));
            objects.push((op.object, op.trim));
        }
        for (object, trim) in objects {
            self.left_flight(cx, &object);
            if trim.is_some() {
                self.trimmed(object, trim);
            }
        }
    }

    /// Ends an operation whose update the store has refused, or perhaps has not taken as it stopped.
    pub(super) fn not_submitted(&mut self, cx: &mut Context<'_>, NotSubmitted { op, error }: NotSubmitted) {
        if let SubmitError::Stopped(reason) = error {
            // The group may have the update or not: its client must ask whoever serves next.
            cx.outbox.outputs.push(Output::Fatal(Fatal::StoreStopped(reason)));
            self.state.ops.release(cx, &op);
            return self.left_flight(cx, &op.object);
        }
        // No part of the update is in flight.
        let errno = if matches!(error, SubmitError::NoSpace { .. }) { Errno::ENOSPC } else { Errno::EIO };
        tracing::warn!(pg = %self.core().id, object = %op.object, "update refused by the store: {error}");
        self.answer_error(cx, &op, errno);
        self.left_flight(cx, &op.object);
        if op.trim.is_some() {
            self.trimmed(op.object, None);
        }
    }

    /// Notes that an update of an object is in flight no more.
    fn left_flight(&mut self, cx: &mut Context<'_>, object: &ObjectId) {
        self.state.ops.update_ended(object);
        cx.cause(self.core().id, Effect::RunObject(object.clone()));
        if self.scrub.holds(object) {
            cx.cause(self.core().id, Effect::ScrubSettled);
        }
    }
}
