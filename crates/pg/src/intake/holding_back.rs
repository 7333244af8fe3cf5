//! Operations that cannot be carried out before something befalls an OSD, or an object comes: their clients keep them
//! ([`super::backoffs`]).

use crate::context::Context;
use crate::intake::backoffs::HeldBack;
use crate::intake::machine::Intake;
use crate::intake::operations::{ClientOp, NO_SESSION};
use crate::intake::state::ask_elsewhere;
use crate::shard::copying::is_osds;
use std::collections::VecDeque;
use types::{Epoch, ObjectId};

impl Intake<'_> {
    /// Drops the operations that wait for the group, if it will not serve soon, and asks their clients to keep them.
    /// Operations of clients that cannot be asked stay here. All operations of a session go at once: later ones would
    /// overtake those that come again.
    pub(crate) fn hold_clients_back(&mut self, cx: &mut Context<'_>) {
        if self.state.ops.waiting.is_empty() || !self.progress().turns_clients_away(cx) {
            return;
        }
        for op in std::mem::take(&mut self.state.ops.waiting) {
            match holds_back(cx, &op) {
                true => self.hold_group_back(cx, &op),
                false => self.state.ops.waiting.push_back(op),
            }
        }
    }

    pub(super) fn hold_group_back(&mut self, cx: &mut Context<'_>, op: &ClientOp) {
        self.state.ops.release(cx, op);
        if is_osds(op.session) {
            return ask_elsewhere(cx, op);
        }
        // A client that is gone sends the request again by another session.
        if cx.clients.contains_key(&op.session) {
            let (id, pg_num) = (self.core().id.base(), self.core().interval.shape.pg_num);
            let range = (osdmap::pg_range(id, pg_num).0, osdmap::pg_cursor_end(id, pg_num));
            let object = op.op.object_id().head_of();
            cx.shared.backoffs.hold_group(held_back(cx.map.epoch, op, &object), range);
        }
    }

    /// Drops operations that need the state `lacks` of an object, if nobody has that state, and asks their clients to
    /// keep them. If it is the present state, all operations on the object go, else those that the first one's client
    /// has sent. Operations of clients that cannot be asked stay here. Returns true if any went.
    pub(super) fn hold_object_back(&mut self, cx: &mut Context<'_>, object: &ObjectId, lacks: &ObjectId) -> bool {
        if !self.whereabouts().is_unfound(lacks) {
            return false;
        }
        let Some(queue) = self.state.ops.objects.get_mut(object) else { return false };
        let ops = &self.state.ops.ops;
        let first = queue.queue.front().map(|number| &ops[number]).filter(|op| holds_back(cx, op));
        let first = first.map(|op| op.session);
        let needs = |op: &ClientOp| holds_back(cx, op) && (lacks == object || first == Some(op.session));
        let (held, kept): (VecDeque<u64>, _) = queue.queue.drain(..).partition(|number| needs(&ops[number]));
        queue.queue = kept;
        for number in &held {
            let op = self.state.ops.ops.remove(number).expect("queued operations are kept");
            self.state.ops.queued_requests.remove(&op.reqid);
            self.state.ops.release(cx, &op);
            if is_osds(op.session) {
                ask_elsewhere(cx, &op);
            } else if cx.clients.contains_key(&op.session) {
                let object = op.op.object_id().head_of();
                cx.shared.backoffs.hold_object(held_back(cx.map.epoch, &op, &object), lacks.clone());
            }
        }
        !held.is_empty()
    }
}

/// Returns true if an operation can wait with its client. A request that is known to have been carried out stays here:
/// the log may not know it any more when it comes again.
pub(super) fn holds_back(cx: &Context<'_>, op: &ClientOp) -> bool {
    let is_clients = op.session != NO_SESSION && !op.is_upkeep() && op.repeated.is_none();
    is_clients && cx.clients.get(&op.session).is_none_or(|client| client.takes_backoffs)
}

fn held_back<'a>(epoch: Epoch, op: &ClientOp, object: &'a ObjectId) -> HeldBack<'a> {
    HeldBack { session: op.session, pgid: op.op.pgid, object, epoch }
}
