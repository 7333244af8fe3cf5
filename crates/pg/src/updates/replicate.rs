//! Updates on their way to all members.
//!
//! The primary gives each update the next version, submits it to its own store, and sends it to every other member that
//! has the log. Members submit what comes in the order in which it comes. An update is done, and its client answered,
//! once every serving member that it touches has it durably, and all before it are done; so updates end in the order of
//! their versions. In erasure-coded groups an update may skip shards: their members are told later
//! ([`crate::coded::skipped`]).

use crate::agreement::members::Standing;
use crate::context::{Context, OnCommit};
use crate::group::effects::Effect;
use crate::group::log::LogEntry;
use crate::hops::{MemberAck, MemberHops, MemberTimes};
use crate::intake::operations::ClientOp;
use crate::messages::replication::{RepOp, RepOpReply};
use crate::ops::OtherChange;
use crate::updates::logged::LoggedTransaction;
use crate::updates::machine::Updates;
use crate::updates::preparation::{PreparedShards, PreparedUpdate};
use crate::updates::replication::UpdateInFlight;
use mutant::Mutant;
use std::time::Duration;
use store::{CommitTimes, Step, SubmitError};
use types::{EVersion, Epoch, ObjectId, OsdId};
use wire::{Message, Target};

/// Members that an update is sent to.
struct Receivers {
    /// Members that carry it out.
    carry_out: Vec<OsdId>,
    /// Members that only log it: they get what it changes when they are backfilled.
    log_only: Vec<OsdId>,
}

/// How members are told of an update.
struct Manner {
    /// All members have what is committed.
    committed: EVersion,
    /// Members tell how long it took them.
    hops_wanted: bool,
    /// Members whose shards the update skips are told with the others, and waited for.
    at_once: bool,
}

/// Members to which objects are copied, as an update of these is not carried out there.
#[derive(Debug, Default)]
pub(crate) struct CopiesLater {
    pub members: Vec<OsdId>,
    pub objects: Vec<ObjectId>,
}

/// An update that the store has refused, and why; or a store that has stopped, and then may have it or not.
#[derive(Debug)]
pub(crate) struct NotSubmitted {
    pub op: ClientOp,
    pub error: SubmitError,
}

impl Updates<'_> {
    /// Submits an update and starts it on its way. Members need room for `growth_bytes`. Returns what is to be copied
    /// to members.
    ///
    /// Errors: the store has refused it, or has stopped, and then may have it or not. The group has not changed.
    pub(crate) fn submit(
        &mut self,
        cx: &mut Context<'_>,
        op: ClientOp,
        update: PreparedUpdate,
        growth_bytes: u64,
    ) -> Result<CopiesLater, Box<NotSubmitted>> {
        let PreparedUpdate { entries, own_steps, steps, shards, info, others, sources, reply, watch, .. } = update;
        let version = info.last_update;
        let committed = self.state.durability().committed();
        let logged = self.core.logged_transaction(cx, &entries, &info, own_steps, committed);
        let LoggedTransaction { transaction, log_tail, forgotten, rolled_forward } = logged;
        let then = OnCommit::PrimaryUpdate { since: self.core.interval.since, version };
        // A member whose shard is skipped may be silent while clients are answered. It is waited for before the log
        // grows beyond what is kept anyway, and with it what takes updates back.
        let waits_for_all = version.version.saturating_sub(committed.version) > cx.limits.log_entries_min as u64;
        let is_skipped = self.is_skipped_here(&entries) && !waits_for_all;
        let submitted = match update.is_removal {
            // State that erasure-coded groups keep of the object for a moment is small.
            true => cx.submit_owed(transaction, then),
            false if is_skipped => cx.submit_patiently(transaction, then),
            false => cx.submit(transaction, then),
        };
        if let Err(error) = submitted {
            return Err(Box::new(NotSubmitted { op, error }));
        }
        self.core.info = info;
        let of_others: i64 = others.iter().map(OtherChange::objects_delta).sum();
        self.counts.object_changed(&op.object, update.objects_delta - of_others, update.bytes_delta);
        for other in &others {
            self.counts.object_changed(&other.object, other.objects_delta(), 0);
        }
        let receivers = self.receivers(&entries, &sources);
        for osd in &receivers.carry_out {
            cx.shared.rooms.sent(self.core.id, *osd, version, growth_bytes);
        }
        // An object that is changed alone and not copied yet is still to be compared, or sent, anyway.
        let is_alone = others.is_empty() && sources.is_empty();
        let later = match is_alone || receivers.log_only.is_empty() {
            true => CopiesLater::default(),
            false => CopiesLater {
                members: receivers.log_only.clone(),
                objects: entries.iter().map(|entry| entry.object.clone()).collect(),
            },
        };
        let told = Manner { committed, hops_wanted: op.times.sampled, at_once: waits_for_all };
        let mut skips = self.send_update(cx, receivers, &entries, (steps, shards), told);
        skips.extend(is_skipped.then_some(cx.whoami));
        self.core.append_logged(entries, (log_tail, forgotten), rolled_forward);
        self.state.begin(UpdateInFlight { version, op, reply, acks: Vec::new(), watch, skips });
        Ok(later)
    }

    /// Tells whether an update with these entries skips the shard of this OSD: nobody waits for it to be durable here.
    fn is_skipped_here(&self, entries: &[LogEntry]) -> bool {
        let shard = self.core.id.pool.shard();
        shard.is_some_and(|shard| entries.iter().all(|entry| entry.skipped.skips(shard)))
    }

    /// Returns the members that get an update with these entries, by whether they carry it out.
    fn receivers(&self, entries: &[LogEntry], sources: &[ObjectId]) -> Receivers {
        // Objects that the update builds on must be there whole.
        let needed = || entries.iter().map(|entry| &entry.object).chain(sources);
        let is_copied = |osd| needed().all(|object| self.whereabouts().is_copied(osd, object));
        let carries_out = |(osd, standing): &(OsdId, Standing)| {
            *standing != Standing::Backfilling || is_copied(*osd) && !mutant::is(Mutant::UpdatesNotSent)
        };
        let (carry_out, log_only): (Vec<_>, Vec<_>) = self.members.receiving().partition(carries_out);
        let osds = |members: Vec<(OsdId, Standing)>| members.into_iter().map(|(osd, _)| osd).collect();
        Receivers { carry_out: osds(carry_out), log_only: osds(log_only) }
    }

    /// Sends an update to members. `steps` are those of all, with what differs from shard to shard. Returns the members
    /// that are told later, as it skips their shards.
    fn send_update(
        &self,
        cx: &mut Context<'_>,
        receivers: Receivers,
        entries: &[LogEntry],
        (steps, shards): (Vec<Step>, Option<PreparedShards>),
        told: Manner,
    ) -> Vec<OsdId> {
        let Manner { committed, hops_wanted, at_once } = told;
        let (entry, others) = entries.split_last().expect("the update's own was put there");
        let (pg, info) = (self.core.pg_interval(), &self.core.info);
        let message = |entry: LogEntry, steps: Vec<Step>| {
            let (info, others) = (info.clone(), others.to_vec());
            RepOp { pg, entry, others, info, committed, steps, hops_wanted }
        };
        let Receivers { mut carry_out, log_only } = receivers;
        let mut skips = Vec::new();
        if let Some(shards) = shards {
            // Each member gets the steps of its own shard.
            for osd in std::mem::take(&mut carry_out) {
                let shard = self.core.interval.shard_of(osd);
                let (steps, entry) = shards.of(&steps, shard);
                if !at_once && shard.is_some_and(|shard| entry.skipped.skips(shard)) {
                    skips.push(osd);
                    cx.send_osd_later(osd, message(entry, steps));
                } else {
                    cx.send_osd(osd, message(entry, steps));
                }
            }
        }
        for (members, steps) in [(log_only, Vec::new()), (carry_out, steps)] {
            if !members.is_empty() {
                let envelope = message(entry.clone(), steps).seal(0, Target::default());
                members.into_iter().for_each(|osd| cx.outbox.send(osd, envelope.clone()));
            }
        }
        skips
    }

    /// Takes the primary's update that has come to this member; its first byte did at `began`. Returns the version up
    /// to which all have updates, if this one is taken.
    pub(super) fn update_came(
        &mut self,
        cx: &mut Context<'_>,
        from: OsdId,
        mut message: RepOp,
        began: Duration,
    ) -> Option<EVersion> {
        if !self.peering.follows(from, message.pg.since) && !mutant::is(Mutant::FollowsAnyone) {
            tracing::debug!(pg = %self.core.id, %from, version = %message.entry.version, "update of another interval ignored");
            return None;
        }
        let head = self.core.log.head();
        if message.entry.version.version <= head.version {
            // Came twice; what is durable is acknowledged below when its transaction is.
            return None;
        }
        // The other ones follow the first, as was checked when they came.
        if !self.core.log.may_append(message.others.first().unwrap_or(&message.entry)) {
            tracing::error!(pg = %self.core.id, %from, update = %message.entry.version, follows = %head, "updates are missing");
            self.cause(cx, Effect::SessionEnded(from));
            return None;
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
        self.core.info.follow(&message.info);
        self.core.info.last_update = version;
        message.steps.extend(self.core.lacks_what_goes_back(&entries));
        let logged = self.core.logged_transaction(cx, &entries, &self.core.info, message.steps, message.committed);
        let is_skipped = self.is_skipped_here(&entries);
        self.core.append_logged(entries, (logged.log_tail, logged.forgotten), logged.rolled_forward);
        if mutant::is(Mutant::MemberAcksEarly) {
            cx.send_osd(from, RepOpReply { durable: vec![(message.pg, version)], hops: Vec::new() });
        }
        match is_skipped {
            true => cx.submit_or_stop_patiently(logged.transaction, then),
            false => cx.submit_or_stop(logged.transaction, then),
        }
        Some(message.committed)
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
            && let (Some(update), Some(times)) = (self.state.find(version), times)
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
            && let Some(update) = self.state.find(version)
            && update.acks.len() < members
        {
            update.acks.push(MemberAck { osd, at: now, hops });
        }
    }

    /// Lets a member that was brought everything serve from when it is settled.
    fn serve_if_settled(&self, cx: &mut Context<'_>, osd: OsdId) {
        if let Some(Standing::Backfilled(until)) = self.members.standing(osd)
            && self.state.durability().is_settled_on(osd, until)
        {
            self.cause(cx, Effect::MemberSettled(osd));
        }
    }

    /// Notes that a member has everything up to `version` durably.
    pub(crate) fn member_durable(&mut self, cx: &mut Context<'_>, osd: OsdId, since: Epoch, version: EVersion) {
        if since != self.core.interval.since || !self.peering.is_active() && !self.peering.is_peered() {
            return;
        }
        cx.shared.rooms.durable(self.core.id, osd, version);
        if !self.state.durability_mut().note_durable(osd, version) {
            return;
        }
        if !self.peering.is_active() {
            return self.members_changed(cx);
        }
        self.serve_if_settled(cx, osd);
        let was_to_stay = self.state.durability().is_brought_to_stay();
        if self.state.durability_mut().commit(cx.whoami) {
            self.all_have_more(cx, was_to_stay);
        }
        let last_member = (osd != cx.whoami).then_some(osd);
        if self.state.end_done(cx.whoami, last_member) {
            self.cause(cx, Effect::UpdatesDone);
        }
    }

    /// Acts on it that all have more without whom no client is answered. `was_to_stay`: what was brought to members
    /// whole had come to stay before.
    fn all_have_more(&mut self, cx: &mut Context<'_>, was_to_stay: bool) {
        if self.core.protection().keeps_undo() {
            self.members.iter().for_each(|(osd, _)| self.serve_if_settled(cx, osd));
            if !was_to_stay && self.state.durability().is_brought_to_stay() {
                self.members_changed(cx);
            }
        }
    }
}
