//! A group's part in watches and notifications.

use super::watches::{NotifyRequest, Told};
use crate::context::Context;
use crate::group::pg::Pg;
use crate::intake::operations::ClientOp;
use crate::intake::operations::NO_SESSION;
use crate::ops::{Effects, WatchEffect, watch_effects_of};
use cls::Caller;
use std::time::Duration;
use types::{Errno, ObjectId, ReqId};
use wire::messages::{Op, OpArgs, Watch};
use wire::msgr::SessionId;

impl Pg {
    /// Acts on an operation on watches that is done; `version` is what clients see of the object.
    pub(crate) fn watch_effects(
        &mut self,
        cx: &mut Context<'_>,
        op: &ClientOp,
        mut effects: Vec<WatchEffect>,
        version: u64,
    ) {
        // In the order in which Ceph goes about it, whatever that of the steps: who connects is notified.
        effects.sort_by_key(|effect| match effect {
            WatchEffect::Connect { .. } | WatchEffect::Ping { .. } => 0,
            WatchEffect::Ended { .. } => 1,
            WatchEffect::Notify { .. } => 2,
            WatchEffect::Ack { .. } => 3,
        });
        let (object, client, now) = (&op.object, op.reqid.name, cx.now);
        for effect in effects {
            let told = match effect {
                WatchEffect::Connect { cookie, info, pings } => {
                    let session = cx.clients.contains_key(&op.session).then_some(op.session);
                    let told = self.watches.connect(object, (cookie, client), info, session, pings, now);
                    // The client may have been locked out while the update was on its way.
                    if cx.map.is_blocklisted(&info.addr) {
                        self.lock_watchers_out(cx);
                    }
                    told
                }
                WatchEffect::Ping { cookie } => {
                    self.watches.ping(object, &(cookie, client), now);
                    Vec::new()
                }
                WatchEffect::Ended { cookie, watcher, object_removed } => {
                    // A client that has ended its own watch knows.
                    let is_news = object_removed || op.session == NO_SESSION;
                    self.watches.end(object, &(cookie, watcher), is_news)
                }
                WatchEffect::Notify { id, cookie, timeout_s, payload } => {
                    cx.agenda.notifications_grew = true;
                    let timeout = Duration::from_secs(timeout_s.into());
                    let (session, notifier) = (op.session, client);
                    let request = NotifyRequest { id, session, notifier, cookie, version, timeout, payload };
                    self.watches.notify(object, request, now)
                }
                WatchEffect::Ack { notify_id, cookie, reply } => {
                    cx.agenda.notifications_grew = true;
                    self.watches.answered(object, notify_id, (cookie, client), &reply).into_iter().collect()
                }
            };
            tell(cx, told);
        }
    }

    /// Acts again on the watches of an update that the log knows, as it is answered again. Its effects may not have
    /// come about: the interval in which it was carried out can have ended before all members had it, and clients saw
    /// nothing of that.
    pub(crate) fn watch_effects_again(&mut self, cx: &mut Context<'_>, op: &ClientOp, version: u64) {
        let effects = watch_effects_of(&op.op.ops, op.reqid.name, op.caller_addr());
        if !effects.is_empty() {
            self.watch_effects(cx, op, effects, version);
        }
    }

    /// Has each watched object looked at once nothing changes it, as the group serves again, in an interval of which
    /// clients saw nothing begin: watches that are known from before may have ended by updates whose effects were lost.
    pub(crate) fn look_at_watches(&mut self, cx: &mut Context<'_>, objects: Vec<ObjectId>) {
        self.watches.removals_dropped();
        for object in objects {
            let op = self.own_op(cx, &object, ReqId::default(), vec![Op::stat()]);
            self.queue_own(cx, op);
        }
    }

    /// Ends watches that an object, which has been looked at, does not name.
    pub(crate) fn watched_object_seen(&mut self, cx: &mut Context<'_>, object: &ObjectId, effects: &Effects) {
        // An object that cannot be read tells nothing.
        if effects.result >= 0 || effects.result == Errno::ENOENT.as_result() {
            let told = self.watches.end_others(object, &effects.watchers);
            tell(cx, told);
        }
    }

    /// Looks for clients that have been silent for too long.
    pub(crate) fn watch_tick(&mut self, cx: &mut Context<'_>) {
        if self.watches.is_empty() || !self.is_active() {
            return;
        }
        let told = self.watches.time_out(cx.now);
        tell(cx, told);
        for (object, (cookie, client)) in self.watches.overdue(cx.now) {
            if self.is_watch_removed(&object, cookie, client) {
                continue;
            }
            tracing::info!(pg = %self.core.id, %object, %client, cookie, "watch is removed: its client is silent");
            self.remove_watch(cx, object, cookie, client);
        }
    }

    /// Ends the largest notification, as if its time were up, while there is no room for all.
    pub(crate) fn end_largest_notification(&mut self, cx: &mut Context<'_>) {
        let told = self.watches.end_largest();
        tracing::warn!(pg = %self.core.id, "a notification is not waited for any more: it takes too much memory");
        tell(cx, told.into_iter().collect());
    }

    /// Ends a watch, as an update like any other.
    fn remove_watch(&mut self, cx: &mut Context<'_>, object: ObjectId, cookie: u64, client: types::EntityName) {
        let unwatch = Op::watch(cookie, Watch::UNWATCH, 0);
        self.watch_removals = self.watch_removals.wrapping_add(1);
        // Number 0 is no request that the log remembers; the other number tells those that wait apart.
        let reqid = ReqId { name: client, tid: 0, inc: self.watch_removals };
        let caller = Caller { name: client, addr: Default::default() };
        let op = self.own_op(cx, &object, reqid, vec![unwatch]).called_by(caller);
        self.client_op(cx, op);
    }

    /// Returns true if an operation of our own has become needless since it was asked for: its client is back.
    pub(crate) fn is_needless(&self, op: &ClientOp, now: Duration) -> bool {
        let [Op { args: OpArgs::Watch(watch), .. }] = &op.op.ops[..] else { return false };
        op.session == NO_SESSION && !self.watches.is_overdue(&op.object, &(watch.cookie, op.reqid.name), now)
    }

    /// Notes that a client's session has ended.
    pub(crate) fn watcher_left(&mut self, session: SessionId, now: Duration) {
        self.watches.session_closed(session, now);
    }

    /// Locks other clients out, as the map says.
    pub(crate) fn lock_watchers_out(&mut self, cx: &mut Context<'_>) {
        let map = cx.map;
        self.watches.lock_out(|addr| map.is_blocklisted(addr), cx.now);
    }
}

fn tell(cx: &mut Context<'_>, told: Vec<Told>) {
    for (session, message) in told {
        cx.send_client(session, 0, message);
    }
}
