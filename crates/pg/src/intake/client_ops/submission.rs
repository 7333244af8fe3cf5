//! Operations that become updates, from their submission to their answer.

use crate::context::{Context, Fatal, Output};
use crate::group::effects::Effect;
use crate::group::pg::Pg;
use crate::hops::Replicated;
use crate::intake::operations::ClientOp;
use crate::ops::Effects;
use crate::updates::preparation::PreparedUpdate;
use crate::updates::replicate::NotSubmitted;
use crate::updates::replication::DoneUpdate;
use store::SubmitError;
use types::{Errno, ObjectId};

impl Pg {
    /// Submits the update that an executed operation makes. Members need room for `growth_bytes`.
    pub(super) fn submit(&mut self, cx: &mut Context<'_>, mut op: ClientOp, effects: Effects, growth_bytes: u64) {
        let update = PreparedUpdate::of(cx, &self.core, &self.coded, &op, effects);
        self.ops.take_on_its_way(cx, &mut op, update.new_bytes());
        match self.updates().submit(cx, op, update, growth_bytes) {
            Ok(later) => {
                for osd in later.members {
                    later.objects.iter().for_each(|object| self.healer().copy_later(osd, object));
                }
            }
            Err(refused) => self.not_submitted(cx, *refused),
        }
    }

    /// Answers updates that are done, and then lets what waited for them go on.
    pub(crate) fn answer_done_updates(&mut self, cx: &mut Context<'_>) {
        let mut objects = Vec::new();
        for DoneUpdate { op, reply, acks, watch, last_member, .. } in self.replication.take_done() {
            if !watch.is_empty() {
                self.watches.op_done(cx, &op, watch, reply.user_version);
            }
            self.answer_update(cx, &op, reply, Some(Replicated { last_member, acks: &acks }));
            objects.push((op.object, op.trim));
        }
        for (object, trim) in objects {
            self.left_flight(cx, &object);
            if let Some(trim) = trim {
                self.snap_trim.trimmed(&self.core, cx, object, trim);
            }
        }
    }

    /// Ends an operation whose update the store has refused, or perhaps has not taken as it stopped.
    fn not_submitted(&mut self, cx: &mut Context<'_>, NotSubmitted { op, error }: NotSubmitted) {
        if let SubmitError::Stopped(reason) = error {
            // The group may have the update or not: its client must ask whoever serves next.
            cx.outbox.outputs.push(Output::Fatal(Fatal::StoreStopped(reason)));
            self.ops.release(cx, &op);
            return self.left_flight(cx, &op.object);
        }
        // No part of the update is in flight.
        let errno = if matches!(error, SubmitError::NoSpace { .. }) { Errno::ENOSPC } else { Errno::EIO };
        tracing::warn!(pg = %self.core.id, object = %op.object, "update refused by the store: {error}");
        self.answer_error(cx, &op, errno);
        self.left_flight(cx, &op.object);
        if op.trim.is_some() {
            self.snap_trim.failed(&self.core, cx, &op.object);
        }
    }

    /// Notes that an update of an object is in flight no more.
    fn left_flight(&mut self, cx: &mut Context<'_>, object: &ObjectId) {
        self.ops.update_ended(object);
        cx.cause(self.core.id, Effect::RunObject(object.clone()));
        if self.scrub.holds(object) {
            cx.cause(self.core.id, Effect::ScrubSettled);
        }
    }
}
