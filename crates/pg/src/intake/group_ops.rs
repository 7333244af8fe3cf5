//! Operations on the group as a whole: listings.

use crate::context::{Context, Waiter};
use crate::group::lookup::NoAnswer;
use crate::intake::machine::Intake;
use crate::intake::operations::ClientOp;
use crate::intake::replies::fill_results;
use crate::ops::{self, ListError, ListFilter};
use types::{EVersion, Errno, ObjectId, SnapId};
use wire::messages::op_data::FilteredListInput;
use wire::messages::{OpArgs, OpCode, OsdOpReply};
use wire::{Decode, Rope};

impl Intake<'_> {
    /// Carries out a listing, or another operation on the group as a whole.
    pub(super) fn run_group_op(&mut self, cx: &mut Context<'_>, mut op: Box<ClientOp>) {
        op.times.run(cx.now);
        op.times.executed(cx.now);
        let [step] = &op.op.ops[..] else { return self.answer_error(cx, &op, Errno::EINVAL) };
        if op.op.snap != SnapId::HEAD {
            return self.answer_error(cx, &op, Errno::EINVAL);
        }
        if step.code == OpCode::SCRUBLS {
            return match self.scrub.list_inconsistent(self.core(), &step.indata.to_vec(), cx.whoami) {
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
        if cursor.pool == self.core().id.pool.base() {
            cursor.pool = self.core().id.pool;
        }
        let group = (self.core().id, self.core().interval.shape.pg_num);
        match op.progress.listing.run(cx.store, group, &cursor, (&op.op.locator.nspace, filter.as_ref()), count) {
            Ok(mut listing) => {
                listing.next.pool = match listing.next.max {
                    true => listing.next.pool,
                    false => listing.next.pool.base(),
                };
                self.state.reads.ops += 1;
                let result = i32::from(listing.at_end);
                let mut reply = OsdOpReply::to(&op.op, result, cx.map.epoch);
                let outdata = Rope::from(listing.encode());
                fill_results(&mut reply, vec![ops::OpResult { rval: result, outdata }]);
                reply.set_versions(EVersion::ZERO, self.core().info.last_user_version);
                self.answer(cx, &op, reply);
            }
            Err(ListError::BadCursor) => self.answer_error(cx, &op, Errno::EINVAL),
            Err(ListError::NoAnswer(NoAnswer::Damaged(damage))) => {
                tracing::error!(pg = %self.core().id, "cannot list its objects: {damage}");
                self.answer_error(cx, &op, Errno::EIO);
            }
            Err(ListError::NoAnswer(NoAnswer::Pending(id))) => {
                op.progress.waits_for = Some(id);
                op.times.blocked(cx.now);
                let number = self.state.ops.keep(op);
                cx.wait(id, Waiter::ClientOp { pgid: self.core().id, op: number });
            }
        }
    }
}
