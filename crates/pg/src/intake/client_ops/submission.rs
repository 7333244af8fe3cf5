//! Operations that become updates.

use crate::context::{Context, Fatal, Output};
use crate::group::pg::Pg;
use crate::intake::operations::ClientOp;
use crate::ops::Effects;
use crate::updates::preparation::PreparedUpdate;
use crate::updates::replicate::NotSubmitted;
use store::SubmitError;
use types::Errno;

impl Pg {
    /// Submits the update that an executed operation makes. Members need room for `growth_bytes`.
    pub(super) fn submit(&mut self, cx: &mut Context<'_>, mut op: ClientOp, effects: Effects, growth_bytes: u64) {
        let update = PreparedUpdate::of(cx, &self.core, &self.coded, &op, effects);
        self.ops.take_on_its_way(cx, &mut op, update.new_bytes());
        match self.submit_update(cx, op, update, growth_bytes) {
            Ok(later) => {
                for osd in later.members {
                    later.objects.iter().for_each(|object| self.healer().copy_later(osd, object));
                }
            }
            Err(refused) => self.not_submitted(cx, *refused),
        }
    }

    /// Ends an operation whose update the store has not taken. No part of it is in flight.
    fn not_submitted(&mut self, cx: &mut Context<'_>, NotSubmitted { op, error }: NotSubmitted) {
        if let SubmitError::Stopped(reason) = error {
            // The group may have the update or not: its client must ask whoever serves next.
            cx.outbox.outputs.push(Output::Fatal(Fatal::StoreStopped(reason)));
            self.ops.release(cx, &op);
            return self.update_done(cx, &op.object);
        }
        let errno = if matches!(error, SubmitError::NoSpace { .. }) { Errno::ENOSPC } else { Errno::EIO };
        tracing::warn!(pg = %self.core.id, object = %op.object, "update refused by the store: {error}");
        self.answer_error(cx, &op, errno);
        self.update_done(cx, &op.object);
        if op.trim.is_some() {
            self.snap_trim.failed(&self.core, cx, &op.object);
        }
    }
}
