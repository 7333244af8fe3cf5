//! Operations that the group itself asks for, on its objects: watches that end, digests that are recorded, states that
//! no snapshot needs, and states that are given up.

use crate::context::Context;
use crate::hops::OpTimes;
use crate::intake::machine::Intake;
use crate::intake::operations::{ClientOp, NO_SESSION};
use crate::ops::GiveUp;
use crate::scrub::record::Record;
use crate::updates::trim_run::Trim;
use crate::watch::WatchKey;
use bytes::Bytes;
use cls::Caller;
use std::collections::{BTreeMap, BTreeSet};
use types::{EVersion, ObjectId, ReqId};
use wire::basic::{Locator, NO_SHARD, SPgId};
use wire::messages::{Op, OsdOp, Watch};

impl Intake<'_> {
    /// Records digests of an object by an update, which is replicated like any other.
    pub(crate) fn record(&mut self, cx: &mut Context<'_>, object: &ObjectId, record: Record) {
        let mut op = self.own_op(cx, object, ReqId::default(), Vec::new());
        op.set_record(record);
        self.queue_own(cx, op);
    }

    /// Looks at a watched object, for who watches it.
    pub(crate) fn look_at_watched(&mut self, cx: &mut Context<'_>, object: &ObjectId) {
        let op = self.own_op(cx, object, ReqId::default(), vec![Op::stat()]);
        self.queue_own(cx, op);
    }

    /// Ends a watch, as an update like any other.
    pub(crate) fn remove_watch(&mut self, cx: &mut Context<'_>, object: &ObjectId, (cookie, client): WatchKey) {
        let unwatch = Op::watch(cookie, Watch::UNWATCH, 0);
        // Number 0 is no request that the log remembers; the other number tells those that wait apart.
        let reqid = ReqId { name: client, tid: 0, inc: self.watches.next_removal() };
        let caller = Caller { name: client, addr: Default::default() };
        let mut op = self.own_op(cx, object, reqid, vec![unwatch]);
        op.set_caller(caller);
        self.client_op(cx, op);
    }

    /// Queues the update that removes states of an object which no snapshot needs any more.
    pub(crate) fn queue_trim(&mut self, cx: &mut Context<'_>, object: ObjectId) {
        let mut op = self.own_op(cx, &object, ReqId::default(), Vec::new());
        (op.trim, op.may_write) = (Some(Trim::default()), true);
        self.queue_own(cx, op);
    }

    /// Queues an operation that the group itself asks for, on its object.
    fn queue_own(&mut self, cx: &mut Context<'_>, op: Box<ClientOp>) {
        let object = op.object.clone();
        self.state.ops.hold(cx, &op);
        let number = self.state.ops.keep(op);
        self.state.ops.objects.entry(object.clone()).or_default().queue.push_back(number);
        self.state.run_later(object);
    }

    /// Queues the update that gives up states of an object which nobody has, before anything else that is to be done to
    /// the object.
    pub(crate) fn queue_give_up(&mut self, cx: &mut Context<'_>, object: ObjectId, lost: BTreeMap<ObjectId, EVersion>) {
        let queue = self.state.ops.objects.entry(object.clone()).or_default();
        let asked = queue.queue.iter().find(|number| self.state.ops.ops[*number].give_up.is_some());
        if let Some(give_up) =
            asked.and_then(|number| self.state.ops.ops.get_mut(number)).and_then(|op| op.give_up.as_mut())
        {
            // An update that gives up states of this object is queued already. It gives up these, too.
            give_up.also(lost);
            return self.state.run_later(object);
        }
        let snaps = self.pool_with_snaps(cx).map(|pool| pool.snaps.keys().copied().collect());
        let give_up = Some(Box::new(GiveUp::new(lost, snaps)));
        let mut op = self.own_op(cx, &object, ReqId::default(), Vec::new());
        (op.give_up, op.may_write) = (give_up, true);
        self.state.ops.hold(cx, &op);
        let number = self.state.ops.keep(op);
        let queue = self.state.ops.objects.get_mut(&object).expect("just seen");
        queue.queue.insert(usize::from(queue.front_blocked), number);
        self.state.run_later(object);
    }

    /// Returns true if all states of the object that are not lost are here, where some are given up. A state that is
    /// found after all stays.
    pub(super) fn rest_is_here(&mut self, cx: &mut Context<'_>, number: u64) -> bool {
        let op = &self.state.ops.ops[&number];
        let head = op.object.clone();
        let asked = op.give_up.as_ref().expect("the caller has seen it").lost.keys();
        let unfound: BTreeSet<ObjectId> = asked.filter(|state| self.whereabouts().is_unfound(state)).cloned().collect();
        let give_up = self.state.ops.ops.get_mut(&number).and_then(|op| op.give_up.as_mut()).expect("just seen");
        give_up.keep(|state| unfound.contains(state));
        let is_lost = |state: &ObjectId| give_up.lost.contains_key(state);
        let states = head.before_all_states()..=head.clone();
        let missing = self.healer.whereabouts().core.missing.range(states).map(|(state, _)| state);
        let mut rest: Vec<ObjectId> = missing.filter(|state| !is_lost(state)).cloned().collect();
        if !is_lost(&head) && rest.last() != Some(&head) {
            rest.push(head);
        }
        // The loop asks for each state, even if another one is missing.
        let mut are_here = true;
        for state in rest {
            are_here &= self.healer.is_where_needed(cx, &state, true);
        }
        are_here
    }

    /// Makes an operation on an object that no client asks for.
    pub(super) fn own_op(&self, cx: &Context<'_>, object: &ObjectId, reqid: ReqId, ops: Vec<Op>) -> Box<ClientOp> {
        let pgid = SPgId { pg: self.core().id, shard: NO_SHARD };
        let name = Bytes::copy_from_slice(&object.name);
        let request = OsdOp::new(pgid, object.hash, cx.map.epoch, Locator::pool(self.core().id.pool), name, ops);
        let mut op = Box::new(ClientOp::new(NO_SESSION, 0, reqid, request, OpTimes::new(cx.now, cx.now)));
        op.object = object.clone();
        op
    }
}
