//! Updates on their way to all members.
//!
//! The primary gives each update the next version, submits it to its own store, and sends it to every other member that
//! has the log. Members submit what comes in the order in which it comes. An update is done, and its client answered,
//! once every serving member has it durably; so updates end in the order of their versions.

use crate::agreement::members::Standing;
use crate::coded::skipped::Skipped;
use crate::coded::undo::Undo;
use crate::context::{Context, Fatal, OnCommit, Output};
use crate::group::log::{LogEntry, LogKind};
use crate::group::pg::Pg;
use crate::hops::{MemberAck, MemberHops, MemberTimes, Replicated};
use crate::intake::operations::ClientOp;
use crate::messages::replication::{RepOp, RepOpReply};
use crate::ops::{Effects, OpResult, OtherChange, after};
use crate::updates::logged::LoggedTransaction;
use crate::updates::replication::UpdateInFlight;
use bytes::Bytes;
use mutant::Mutant;
use std::time::Duration;
use store::{CommitTimes, SubmitError};
use types::{EVersion, Epoch, Errno, OsdId, ReqId, Utime};
use wire::messages::{OpFlags, OsdOpReply};
use wire::{Message, Target};

/// Returns the log entry of a state of an object that comes or goes with an update. Only the update's own entry tells
/// whose request it was.
fn other_entry(other: &OtherChange, version: EVersion, undo: Undo) -> LogEntry {
    LogEntry {
        version,
        kind: other.kind,
        object: other.object.clone(),
        prior_version: other.prior_version,
        reqid: ReqId::default(),
        user_version: other.user_version,
        mtime: Utime::ZERO,
        result: 0,
        op_results: Vec::new(),
        undo,
        skipped: Skipped::default(),
        voids: EVersion::ZERO,
    }
}

impl Pg {
    /// Gives an executed update its version and starts it on its way. One that failed or has nothing to do takes the
    /// same way, so that its answer comes after those it depends on and is the same if the client asks again. Members
    /// need room for `growth_bytes`.
    pub(crate) fn submit_update(
        &mut self,
        cx: &mut Context<'_>,
        mut op: ClientOp,
        mut effects: Effects,
        growth_bytes: u64,
    ) {
        let failed = effects.result < 0;
        let mut steps = if failed { Vec::new() } else { std::mem::take(&mut effects.steps) };
        let kind = match (steps.is_empty(), effects.deleted) {
            (true, _) => LogKind::Unchanged,
            (false, true) => LogKind::Delete,
            (false, false) => LogKind::Modify,
        };
        let return_vec = op.op.flags.has(OpFlags::RETURNVEC);
        // A client that has not set the flag gets no outputs of a write, and 0 for any success, but the result of each
        // step. Operations that changed nothing are answered like reads.
        if !failed && !return_vec && effects.modified {
            effects.result = 0;
            effects.ops.iter_mut().for_each(|op| op.outdata = Default::default());
        }
        let first = self.core.log.next_version(cx.map.epoch);
        let mut entries: Vec<LogEntry> = match failed {
            true => Vec::new(),
            false => {
                let undo = |other: &OtherChange| self.core.protection().undo(|| other.undo());
                let others = effects.others.iter().enumerate();
                others.map(|(at, other)| other_entry(other, after(first, at), undo(other))).collect()
            }
        };
        let version = after(first, entries.len());
        let watch = if failed { Vec::new() } else { std::mem::take(&mut effects.watch) };
        let mut change = effects.change.take().filter(|_| !failed);
        let results = if failed || return_vec {
            // As in Ceph, only short outputs are kept, and only for clients that ask for outputs of updates: the
            // outputs stay in the log.
            let is_kept = |op: &OpResult| return_vec && op.outdata.len() <= cx.limits.write_reply_bytes;
            let kept = |op: &OpResult| if is_kept(op) { op.outdata.to_vec().into() } else { Bytes::new() };
            effects.ops.iter().map(|op| (op.rval, kept(op))).collect()
        } else {
            Vec::new()
        };
        entries.push(LogEntry {
            version,
            kind,
            object: op.object.clone(),
            prior_version: effects.prior_version,
            reqid: op.reqid,
            user_version: effects.user_version,
            mtime: op.op.mtime,
            result: effects.result,
            op_results: results,
            undo: match &mut change {
                Some(change) => std::mem::take(&mut change.undo),
                // Given up, or nothing has changed.
                None if kind == LogKind::Unchanged => Undo::Nothing,
                None => self.core.protection().undo(|| Undo::Lost),
            },
            skipped: Skipped::default(),
            voids: EVersion::ZERO,
        });
        let shards = change.map(|change| self.coded.shard_steps(&op.object, &change, &mut steps));
        if let Some(shards) = &shards {
            self.ops.take_on_its_way(cx, &mut op, shards.new_bytes);
        }
        let own_shard = self.core.interval.shard_of(cx.whoami);
        // With shards: what they write, and the update's entry before it is that of this OSD's shard.
        let shards = shards.map(|shards| (shards, entries.last().expect("the update's own was put there").clone()));
        let own_steps = match &shards {
            Some((shards, entry)) => {
                *entries.last_mut().expect("just seen") = shards.entry(entry, own_shard);
                shards.of(&steps, own_shard)
            }
            None => steps.clone(),
        };
        let mut reply = OsdOpReply::to(&op.op, effects.result, cx.map.epoch);
        reply.set_versions(version, effects.user_version);

        let before = self.core.info.clone();
        self.core.info.last_update = version;
        if !failed {
            self.core.info.last_user_version = self.core.info.last_user_version.max(effects.user_version);
            let stats = &mut self.core.info.stats;
            stats.objects += effects.objects_delta;
            let own = if op.object.is_clone() { effects.objects_delta } else { 0 };
            let clones = effects.others.iter().filter(|other| other.object.is_clone());
            stats.clones += own + clones.map(OtherChange::objects_delta).sum::<i64>();
            stats.bytes += effects.bytes_delta;
            stats.write_ops += u64::from(!op.is_upkeep());
            stats.write_kib += effects.bytes_written / 1024;
        }
        crate::intake::client_ops::fill_results(&mut reply, effects.ops);

        let committed = self.replication.durability.committed();
        let logged = self.core.logged_transaction(cx, &entries, &self.core.info, own_steps, committed);
        let LoggedTransaction { transaction, log_tail, forgotten, rolled_forward } = logged;
        let then = OnCommit::PrimaryUpdate { since: self.core.interval.since, version };
        let submitted = match effects.is_removal {
            // State that erasure-coded groups keep of the object for a moment is small.
            true => cx.submit_owed(transaction, then),
            false => cx.submit(transaction, then),
        };
        if let Err(e) = submitted {
            self.core.info = before;
            if let SubmitError::Stopped(reason) = e {
                // The group may have the update or not: its client must ask whoever serves next.
                cx.outbox.outputs.push(Output::Fatal(Fatal::StoreStopped(reason)));
                self.ops.release(cx, &op);
                return self.update_done(cx, &op.object);
            }
            let errno = if matches!(e, SubmitError::NoSpace { .. }) { Errno::ENOSPC } else { Errno::EIO };
            tracing::warn!(pg = %self.core.id, object = %op.object, "update refused by the store: {e}");
            let reply = OsdOpReply::to(&op.op, errno.as_result(), cx.map.epoch);
            self.answer(cx, &op, reply);
            // The update was not submitted, so no part of it is in flight.
            self.update_done(cx, &op.object);
            if op.trim.is_some() {
                self.snap_trim.failed(&self.core, cx, &op.object);
            }
            return;
        }
        let (entry, others) = entries.split_last().expect("the update's own was put there");
        let (stats, was) = (&self.core.info.stats, &before.stats);
        let of_others: i64 = effects.others.iter().filter(|_| !failed).map(OtherChange::objects_delta).sum();
        let (objects, bytes) = (stats.objects - was.objects, stats.bytes - was.bytes);
        self.scrub.object_changed(&entry.object, objects - of_others, bytes);
        for other in effects.others.iter().filter(|_| !failed) {
            self.scrub.object_changed(&other.object, other.objects_delta(), 0);
        }
        let pg = self.core.pg_interval();
        let hops_wanted = op.times.sampled;
        let (mut with_steps, mut without) = (Vec::new(), Vec::new());
        let receiving: Vec<_> = self.members.receiving().collect();
        let changed = || others.iter().map(|other| &other.object).chain([&entry.object]);
        for (osd, standing) in receiving {
            // Objects that the update builds on must be there whole.
            let mut needed = changed().chain(&effects.sources);
            let is_copied =
                needed.all(|object| self.whereabouts().is_copied(osd, object)) && !mutant::is(Mutant::UpdatesNotSent);
            let later = standing == Standing::Backfilling && !is_copied;
            if later && !(others.is_empty() && effects.sources.is_empty()) {
                changed().for_each(|object| self.healer().copy_later(osd, object));
            }
            if !later {
                cx.shared.rooms.sent(self.core.id, osd, version, growth_bytes);
            }
            if later { without.push(osd) } else { with_steps.push(osd) }
        }
        if let Some((shards, entry_of_written)) = shards {
            // Each member gets the steps of its own shard.
            for osd in std::mem::take(&mut with_steps) {
                let shard = self.core.interval.shard_of(osd);
                let (steps, entry) = (shards.of(&steps, shard), shards.entry(&entry_of_written, shard));
                let (info, others) = (self.core.info.clone(), others.to_vec());
                cx.send_osd(osd, RepOp { pg, entry, others, info, committed, steps, hops_wanted });
            }
        }
        for (members, steps) in [(without, Vec::new()), (with_steps, steps)] {
            if !members.is_empty() {
                let (entry, others, info) = (entry.clone(), others.to_vec(), self.core.info.clone());
                let message = RepOp { pg, entry, others, info, committed, steps, hops_wanted };
                let envelope = message.seal(0, Target::default());
                cx.outbox
                    .outputs
                    .extend(members.into_iter().map(|osd| Output::ToOsd { osd, envelope: envelope.clone() }));
            }
        }
        self.core.append_logged(entries, (log_tail, forgotten), rolled_forward);
        self.replication.in_flight.push_back(UpdateInFlight { version, op, reply, acks: Vec::new(), watch });
    }

    /// Takes the primary's update that has come to this member; its first byte did at `began`.
    pub(crate) fn rep_op(&mut self, cx: &mut Context<'_>, from: OsdId, mut message: RepOp, began: Duration) {
        if !self.peering.follows(from, message.pg.since) && !mutant::is(Mutant::FollowsAnyone) {
            tracing::debug!(pg = %self.core.id, %from, version = %message.entry.version, "update of another interval ignored");
            return;
        }
        let head = self.core.log.head();
        if message.entry.version.version <= head.version {
            // Came twice; what is durable is acknowledged below when its transaction is.
            return;
        }
        if message.entry.version.version != head.version + 1 + message.others.len() as u64 {
            tracing::error!(pg = %self.core.id, %from, update = %message.entry.version, follows = %head, "updates are missing");
            return self.session_ended(cx, from);
        }
        let mut entries = std::mem::take(&mut message.others);
        entries.push(message.entry);
        if message.steps.is_empty() {
            // An update that is not carried out here cannot be taken back here.
            self.core.as_lost(&mut entries);
        }
        let times = MemberTimes { began, whole: cx.now, wanted: message.hops_wanted };
        let (since, version) = (message.pg.since, entries.last().expect("just put there").version);
        let then = OnCommit::MemberUpdate { primary: from, since, version, times };
        self.replica_reads.all_have(message.committed);
        self.core.info.follow(&message.info);
        self.core.info.last_update = version;
        message.steps.extend(self.core.lacks_what_goes_back(&entries));
        let logged = self.core.logged_transaction(cx, &entries, &self.core.info, message.steps, message.committed);
        self.core.append_logged(entries, (logged.log_tail, logged.forgotten), logged.rolled_forward);
        if mutant::is(Mutant::MemberAcksEarly) {
            cx.send_osd(from, RepOpReply { durable: vec![(message.pg, version)], hops: Vec::new() });
        }
        cx.submit_or_stop(logged.transaction, then);
    }

    /// Notes that the update `version` is durable on this OSD, the primary.
    pub(crate) fn own_update_durable(
        &mut self,
        cx: &mut Context<'_>,
        since: Epoch,
        version: EVersion,
        times: Option<&CommitTimes>,
    ) {
        if since == self.core.interval.since
            && let (Some(update), Some(times)) = (self.replication.find(version), times)
        {
            update.op.times.committed(times);
        }
        self.member_durable(cx, cx.whoami, since, version);
    }

    /// Takes a member's word how long the update `version` took it. It acknowledges the update with the same message.
    pub(crate) fn member_hops(
        &mut self,
        now: Duration,
        osd: OsdId,
        (since, version): (Epoch, EVersion),
        hops: MemberHops,
    ) {
        let members = self.core.interval.acting.len();
        if since == self.core.interval.since
            && let Some(update) = self.replication.find(version)
            && update.acks.len() < members
        {
            update.acks.push(MemberAck { osd, at: now, hops });
        }
    }

    /// Lets a member that was brought everything serve from when it is settled.
    fn serve_if_settled(&mut self, cx: &mut Context<'_>, osd: OsdId) {
        if let Some(Standing::Backfilled(until)) = self.members.standing(osd)
            && self.replication.durability.is_settled_on(osd, until)
        {
            self.healer().member_backfilled(cx, osd);
        }
    }

    /// Notes that a member has everything up to `version` durably.
    pub(crate) fn member_durable(&mut self, cx: &mut Context<'_>, osd: OsdId, since: Epoch, version: EVersion) {
        if since != self.core.interval.since || !self.is_active() && !self.peering.is_peered() {
            return;
        }
        cx.shared.rooms.durable(self.core.id, osd, version);
        if !self.replication.durability.is_durable(osd, version) {
            return;
        }
        if !self.is_active() {
            return self.members_changed(cx);
        }
        self.serve_if_settled(cx, osd);
        let was_to_stay = self.replication.durability.is_brought_to_stay();
        if !self.replication.durability.commit(cx.whoami) {
            return;
        }
        if self.core.protection().keeps_undo() {
            let backfilled = self.members.iter().filter(|(_, standing)| matches!(standing, Standing::Backfilled(_)));
            let backfilled: Vec<OsdId> = backfilled.map(|(osd, _)| osd).collect();
            backfilled.into_iter().for_each(|osd| self.serve_if_settled(cx, osd));
            if !was_to_stay && self.replication.durability.is_brought_to_stay() {
                self.members_changed(cx);
            }
        }
        let committed = self.replication.durability.committed();
        let mut objects = Vec::new();
        while self.replication.in_flight.front().is_some_and(|update| update.version <= committed) {
            let update = self.replication.in_flight.pop_front().expect("just seen");
            if !update.watch.is_empty() {
                self.watches.op_done(cx, &update.op, update.watch, update.reply.user_version);
            }
            let last_member = (osd != cx.whoami).then_some(osd);
            let way = Replicated { last_member, acks: &update.acks };
            self.answer_update(cx, &update.op, update.reply, Some(way));
            objects.push((update.op.object, update.op.trim));
        }
        for (object, trim) in objects {
            self.update_done(cx, &object);
            if let Some(trim) = trim {
                self.snap_trim.trimmed(&self.core, cx, object, trim);
            }
        }
    }
}
