//! The execution of one operation, with all that it must know of its group.

use crate::context::Context;
use crate::intake::machine::Intake;
use crate::intake::operations::NO_SESSION;
use crate::ops::{self, Effects, Request, Run};
use osdmap::{PgPool, PoolFlags};
use types::{SnapId, Utime};
use wire::basic::SnapContext;
use wire::messages::OpFlags;

impl Intake<'_> {
    pub(super) fn execute(&mut self, cx: &mut Context<'_>, number: u64) -> Run {
        let snaps = self.snaps_of(cx, number);
        let removed_snaps = cx.map.removed_snaps_queue.get(&self.core().id.pool.base());
        let op = &self.state.ops.ops[&number];
        let connected = self.watches.connected(&op.object, op.reqid.name, op.session);
        let core = self.healer.whereabouts().core;
        let layout = core.protection().stripes();
        let pool = cx.map.pools.get(&core.id.pool.base());
        let may_overwrite = layout.is_none() || pool.is_some_and(|p| p.flags.contains(PoolFlags::EC_OVERWRITES));
        let notify_id = self.watches.next_notify_id(cx.map.epoch);
        let op = self.state.ops.ops.get_mut(&number).expect("operation is known");
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
            next_version: core.log.next_version(cx.map.epoch),
            last_user_version: core.info.last_user_version,
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
                self.state.ops.take(cx, number, more);
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
    pub(super) fn snaps_of(&self, cx: &Context<'_>, number: u64) -> SnapContext {
        let op = &self.state.ops.ops[&number];
        if !op.may_write || op.session == NO_SESSION {
            return SnapContext::default();
        }
        match self.pool_with_snaps(cx).filter(|_| !op.op.flags.has(OpFlags::ENFORCE_SNAPC)) {
            Some(pool) => SnapContext { seq: pool.snap_seq, snaps: pool.snaps.keys().rev().copied().collect() },
            None => {
                let removed = cx.map.removed_snaps_queue.get(&self.core().id.pool.base());
                let is_there = |snap: &SnapId| !removed.is_some_and(|removed| removed.contains(snap.0));
                let snaps = op.op.snaps.iter().copied().filter(is_there).collect();
                SnapContext { seq: op.op.snap_seq, snaps }
            }
        }
    }

    /// Returns the group's pool, if snapshots are taken of it as a whole.
    pub(super) fn pool_with_snaps<'a>(&self, cx: &Context<'a>) -> Option<&'a PgPool> {
        cx.map.pools.get(&self.core().id.pool.base()).filter(|pool| pool.flags.contains(PoolFlags::POOL_SNAPS))
    }
}
