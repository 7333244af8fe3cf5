//! Inputs to a group's watches: operations that are done, time, and sessions that end.

use super::watches::{NotifyRequest, Told, Watches};
use crate::context::Context;
use crate::group::effects::Effect;
use crate::intake::operations::{ClientOp, NO_SESSION};
use crate::ops::{Effects, WatchEffect, watch_effects_of};
use std::time::Duration;
use types::{EntityName, Errno, ObjectId, PgId};
use wire::messages::{Op, OpArgs};

impl Watches {
    /// Acts on an operation on watches that is done; `version` is what clients see of the object.
    pub fn op_done(&mut self, cx: &mut Context<'_>, op: &ClientOp, mut effects: Vec<WatchEffect>, version: u64) {
        // The effects are carried out in Ceph's order, not in that of the steps: a client that connects by this
        // operation is notified by it, too.
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
                    let told = self.connect(object, (cookie, client), info, session, pings, now);
                    // The client may have been locked out while the update was on its way.
                    if cx.map.is_blocklisted(&info.addr) {
                        self.follow_blocklist(cx);
                    }
                    told
                }
                WatchEffect::Ping { cookie } => {
                    self.ping(object, &(cookie, client), now);
                    Vec::new()
                }
                WatchEffect::Ended { cookie, watcher, object_removed } => {
                    // A client that has ended its own watch knows.
                    let is_news = object_removed || op.session == NO_SESSION;
                    self.end(object, &(cookie, watcher), is_news)
                }
                WatchEffect::Notify { id, cookie, timeout_s, payload } => {
                    cx.agenda.notifications_grew = true;
                    let timeout = Duration::from_secs(timeout_s.into());
                    let (session, notifier) = (op.session, client);
                    let request = NotifyRequest { id, session, notifier, cookie, version, timeout, payload };
                    self.notify(object, request, now)
                }
                WatchEffect::Ack { notify_id, cookie, reply } => {
                    cx.agenda.notifications_grew = true;
                    self.answered(object, notify_id, (cookie, client), &reply).into_iter().collect()
                }
            };
            tell(cx, told);
        }
    }

    /// Acts again on the watches of an update that is in the log and is answered again. Its effects may be missing: the
    /// interval of the update can have ended before all members had it, without clients noticing.
    pub fn op_repeated(&mut self, cx: &mut Context<'_>, op: &ClientOp, version: u64) {
        let effects = watch_effects_of(&op.op.ops, op.reqid.name, op.caller_addr());
        if !effects.is_empty() {
            self.op_done(cx, op, effects, version);
        }
    }

    /// Reads the watchers of each watched object, once no update changes the object. The group serves again, in an
    /// interval that clients did not see begin: known watches may have ended by updates whose effects were lost.
    pub fn look_again(&mut self, cx: &mut Context<'_>, group: PgId) {
        self.removals_dropped();
        for object in self.objects() {
            cx.cause(group, Effect::LookAtWatched(object));
        }
    }

    /// Ends watches that an object, which has been looked at, does not name.
    pub fn object_seen(&mut self, cx: &mut Context<'_>, object: &ObjectId, effects: &Effects) {
        // An object that cannot be read tells nothing.
        if effects.result >= 0 || effects.result == Errno::ENOENT.as_result() {
            let told = self.end_others(object, &effects.watchers);
            tell(cx, told);
        }
    }

    /// Looks for clients that have been silent for too long. `is_removed` tells whether a watch's removal is on its way
    /// already.
    pub fn tick(&mut self, cx: &mut Context<'_>, group: PgId, is_removed: impl Fn(&ObjectId, u64, EntityName) -> bool) {
        let told = self.time_out(cx.now);
        tell(cx, told);
        for (object, (cookie, client)) in self.overdue(cx.now) {
            if is_removed(&object, cookie, client) {
                continue;
            }
            tracing::info!(pg = %group, %object, %client, cookie, "watch is removed: its client is silent");
            cx.cause(group, Effect::RemoveWatch { object, cookie, client });
        }
    }

    /// Ends the largest notification, as if its time were up, while there is no room for all.
    pub fn end_largest_early(&mut self, cx: &mut Context<'_>, group: PgId) {
        let told = self.end_largest();
        tracing::warn!(pg = %group, "a notification is not waited for any more: it takes too much memory");
        tell(cx, told.into_iter().collect());
    }

    /// Returns true if an operation of our own has become needless since it was asked for: its client is back.
    pub fn is_needless(&self, op: &ClientOp, now: Duration) -> bool {
        let [Op { args: OpArgs::Watch(watch), .. }] = &op.op.ops[..] else { return false };
        op.session == NO_SESSION && !self.is_overdue(&op.object, &(watch.cookie, op.reqid.name), now)
    }

    /// Locks other clients out, as the map says.
    pub fn follow_blocklist(&mut self, cx: &mut Context<'_>) {
        let map = cx.map;
        self.lock_out(|addr| map.is_blocklisted(addr), cx.now);
    }
}

fn tell(cx: &mut Context<'_>, told: Vec<Told>) {
    for (session, message) in told {
        cx.send_client(session, 0, message);
    }
}
