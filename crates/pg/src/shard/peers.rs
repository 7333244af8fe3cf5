//! Messages from other OSDs.

use super::Shard;
use super::copying::session_of;
use super::deferred::Deferred;
use crate::context::Context;
use crate::group::pg::Pg;
use crate::messages::lease::{LeaseGrant, ReadShare, ReadShareGet};
use crate::messages::peering::{MemberState, PgNotify, PgQuery, PgStrays, PgUnneeded};
use crate::messages::rename::Rehome;
use crate::messages::replication::RepOpReply;
use crate::messages::room::{RoomGet, RoomTold};
use crate::messages::table::GroupMessage;
use crate::messages::{PeerKind, PeerMessage, sequence};
use mutant::Mutant;
use std::time::Duration;
use types::OsdId;
use wire::{DecodeError, Envelope};

impl Shard {
    /// Takes a message from another OSD. Its first byte came at `began`.
    ///
    /// Errors: it is malformed; the session must be closed.
    pub fn peer_message(&mut self, from: OsdId, envelope: &Envelope, began: Duration) -> Result<(), DecodeError> {
        let tid = envelope.header.tid;
        match PeerKind::of(envelope.header.kind) {
            Some(kind) => match kind.open(envelope).and_then(|message| sequence::check(&message).map(|()| message))? {
                PeerMessage::PgQuery(query) if query.epoch > self.host.maps.epoch() => {
                    if let Some(bytes) = self.queried.add(from, envelope.front.len()) {
                        self.defer(query.epoch, Deferred::Query { from, message: query, bytes });
                    }
                }
                message => self.handle(from, tid, message, began),
            },
            None => tracing::warn!(%from, kind = envelope.header.kind, "message of unknown type ignored"),
        }
        self.coded_reads_done();
        Ok(())
    }

    fn handle(&mut self, from: OsdId, tid: u64, message: PeerMessage, began: Duration) {
        use PeerMessage as M;
        match message {
            M::OsdOp(op) => self.osd_asks(from, tid, op, began),
            M::OsdOpReply(reply) => self.osd_answers(tid, &reply),
            M::RepOp(message) => self.hand_to(message, |pg, cx, message| pg.rep_op(cx, from, message, began)),
            M::RepOpReply(reply) => self.members_durable(from, reply),
            M::PgQuery(query) => self.query(from, query),
            M::PgNotify(notify) => self.members_told(from, notify),
            M::PgLogGet(message) => {
                self.hand_to(message, |pg, cx, message| pg.agreement().log_wanted(cx, from, &message))
            }
            M::PgLogEntries(message) => {
                self.hand_to(message, |pg, cx, message| pg.agreement().log_came(cx, from, message))
            }
            M::PgScan(message) => self.hand_to(message, |pg, cx, message| pg.healer().scan_wanted(cx, from, message)),
            M::PgObjects(message) => self.hand_to(message, |pg, cx, message| pg.healer().scanned(cx, from, message)),
            M::PgPull(message) => self.hand_to(message, |pg, cx, message| pg.healer().pull_wanted(cx, from, message)),
            M::PgPush(message) => self.hand_to(message, |pg, cx, message| pg.healer().pushed(cx, from, message)),
            M::PgPushAck(message) => self.hand_to(message, |pg, cx, message| pg.healer().push_acked(cx, from, message)),
            M::PgStart(message) => {
                self.hand_to(message, |pg, cx, message| pg.agreement().start_wanted(cx, from, &message))
            }
            M::PgStarted(message) => {
                self.hand_to(message, |pg, cx, message| pg.agreement().member_started(cx, from, message))
            }
            M::LeaseGet(get) => {
                let grant = self.host.shared.leases.grant(from, get.stamp, self.host.maps.epoch(), self.host.now);
                self.host.context().send_osd(from, grant);
            }
            M::LeaseGrant(grant) => self.lease_granted(from, &grant),
            M::PgBackfilled(message) => {
                self.hand_to(message, |pg, cx, message| pg.healer().backfilled(cx, from, message))
            }
            M::PgReserve(message) => {
                self.hand_to(message, |pg, cx, message| pg.healer().slot_wanted(cx, from, &message))
            }
            M::PgReserved(message) => {
                self.hand_to(message, |pg, cx, message| pg.healer().slot_told(cx, from, &message))
            }
            // The group may be gone from here; the slot has the name that was asked for.
            M::PgReleased(message) => self.host.shared.reservations.release_for(from, message.pg),
            M::PgStrays(message) => self.strays_told(from, message),
            M::PgUnneeded(message) => self.unneeded_told(from, message),
            M::StrayRead(message) => {
                if let Some(reply) = self.host.context().old_shard_wanted(from, message) {
                    self.host.context().send_osd(from, reply);
                }
            }
            M::ScrubGet(message) => self.hand_to(message, |pg, cx, message| {
                if pg.peering.follows(from, message.pg.since) {
                    pg.scrub.wanted(&mut pg.core, cx, from, message);
                }
            }),
            M::ScrubGot(message) => {
                self.hand_to(message, |pg, cx, message| pg.scrub.got(&mut pg.core, cx, from, message))
            }
            M::ScrubBad(message) => self.hand_to(message, |pg, cx, message| pg.healer().scrub_bad(cx, from, message)),
            M::ScrubDone(message) => self.hand_to(message, |pg, cx, message| {
                if pg.peering.follows(from, message.pg.since) {
                    pg.scrub.done(&pg.core, cx, message);
                }
            }),
            M::ShardRead(message) => {
                self.hand_to(message, |pg, cx, message| pg.gatherer().shard_read(cx, from, message))
            }
            M::ShardReadReply(reply) => {
                self.hand_to(reply, |pg, cx, reply| pg.gatherer().shard_read_came(cx, from, reply))
            }
            M::RollForward(message) => {
                self.hand_to(message, |pg, cx, message| pg.updates().forward_told(cx, from, &message))
            }
            M::PgInterrupted(message) => self.hand_to(message, |pg, cx, message| pg.interrupted(cx, from, &message)),
            M::RoomGet(get) => self.room_wanted(from, &get),
            M::RoomTold(told) => self.room_told(from, &told),
            M::RoomSeen(seen) => self.host.shared.rooms.seen(from, &seen),
            M::ReadShareGet(get) => self.shares_wanted(from, get),
            M::ReadShare(shares) => self.shares_told(from, shares),
            M::PgSought(message) => self.sought(from, message),
            M::PgFound(message) => self.found(from, message),
        }
    }

    /// Gives a message to its group, if this shard has it, with objects named as they are named here.
    fn hand_to<M: GroupMessage>(&mut self, mut message: M, handle: impl FnOnce(&mut Pg, &mut Context<'_>, M)) {
        let id = self.instance(message.pg().pgid);
        let Some(pg) = self.pgs.get_mut(&id) else { return };
        if id.pool.shard().is_some() {
            message.rehome(id.pool);
        }
        handle(pg, &mut self.host.context(), message);
        self.settle();
    }

    /// Notes that a member has updates durably.
    fn members_durable(&mut self, from: OsdId, reply: RepOpReply) {
        let RepOpReply { durable, hops } = reply;
        for ((pg_interval, version), hops) in hops {
            let id = self.instance(pg_interval.pgid);
            if let Some(pg) = self.pgs.get_mut(&id) {
                pg.updates().member_hops(self.host.now, from, (pg_interval.since, version), hops);
            }
        }
        for (pg_interval, version) in durable {
            let id = self.instance(pg_interval.pgid);
            self.with_group(id, |pg, cx| pg.updates().member_durable(cx, from, pg_interval.since, version));
        }
    }

    /// Takes a member's answers to questions that began intervals.
    fn members_told(&mut self, from: OsdId, notify: PgNotify) {
        let PgNotify { groups, unknown_promises, promises, shares, strange } = notify;
        let spans = |known: Vec<(OsdId, u64)>| -> Vec<(Option<OsdId>, u64)> {
            let known = known.into_iter().map(|(osd, span)| (Some(osd), span));
            known.chain([(None, unknown_promises)]).collect()
        };
        let (promises, shares) = (spans(promises), spans(shares));
        for (pg_interval, mut state) in groups {
            let id = self.instance(pg_interval.pgid);
            if let Some(pg) = self.pgs.get_mut(&id) {
                if id.pool.shard().is_some() {
                    state.rehome(id.pool);
                }
                let state = (!strange.contains(&pg_interval)).then_some(state);
                pg.agreement().member_told(
                    &mut self.host.context(),
                    from,
                    pg_interval.since,
                    state,
                    &promises,
                    &shares,
                );
                self.settle();
            }
        }
    }

    fn lease_granted(&mut self, from: OsdId, grant: &LeaseGrant) {
        if self.host.shared.leases.granted(from, grant, self.host.maps.epoch()) {
            self.lease_came();
        }
    }

    fn shares_wanted(&mut self, from: OsdId, get: ReadShareGet) {
        let mut shares = Vec::new();
        for wish in get.wishes {
            let id = self.instance(wish.pg.pgid);
            let pg = self.pgs.get_mut(&id);
            shares.extend(pg.and_then(|pg| pg.agreement().share_wanted(&mut self.host.context(), from, wish)));
            self.settle();
        }
        if !shares.is_empty() {
            self.host.context().send_osd(from, ReadShare { shares });
        }
    }

    fn shares_told(&mut self, from: OsdId, told: ReadShare) {
        for share in told.shares {
            let id = self.instance(share.wish.pg.pgid);
            self.with_group(id, |pg, cx| pg.intake().share_told(cx, from, &share));
        }
    }

    fn room_wanted(&mut self, from: OsdId, get: &RoomGet) {
        // An older start of the sender may be what this map shows.
        if get.epoch <= self.host.maps.epoch() {
            self.host.shared.rooms.asked(from);
        }
    }

    fn room_told(&mut self, from: OsdId, told: &RoomTold) {
        let seen = self.host.shared.rooms.told(from, told);
        self.host.context().send_osd(from, seen);
    }

    /// Removes copies of this OSD that are not needed, as one says that leads their groups.
    fn unneeded_told(&mut self, from: OsdId, message: PgUnneeded) {
        let PgUnneeded { epoch, groups } = message;
        // With a map older than the primary's this OSD does not know if it is to have them again; it asks once more.
        let groups = groups.into_iter().filter(|_| epoch <= self.host.maps.epoch());
        for pgid in groups.filter(|pgid| !self.pgs.contains_key(pgid)).collect::<Vec<_>>() {
            let leads = self.mapping.get(pgid.base()).is_some_and(|placed| placed.acting_primary == Some(from));
            if leads && self.host.store.pgs_contain(pgid) && !self.splits.is_unexamined(pgid) {
                self.strays.remove(self.host.maps.current(), pgid);
            }
        }
    }

    /// Tells another OSD which copies are not needed, of those that it has and is no member of.
    fn strays_told(&mut self, from: OsdId, message: PgStrays) {
        let epoch = self.host.maps.epoch();
        if message.epoch > epoch {
            return;
        }
        let mut groups = Vec::new();
        for pgid in message.groups {
            let pg = self.pgs.get(&self.instance(pgid));
            if pg.is_some_and(|pg| pg.needs_no_copy_of(self.host.whoami, from, pgid.pool.shard())) {
                groups.push(pgid);
            }
        }
        if !groups.is_empty() {
            self.host.context().send_osd(from, PgUnneeded { epoch, groups });
        }
    }

    /// Acts on the end of the session with another OSD, by which what was on its way between the two is lost.
    pub fn session_ended(&mut self, osd: OsdId) {
        if mutant::is(Mutant::SessionEndUntold) {
            return;
        }
        self.host.outbox.forget_postponed(osd);
        for deferred in self.deferred.values_mut() {
            deferred.retain(|deferred| !matches!(deferred, Deferred::Query { from, .. } if *from == osd));
        }
        self.queried.forget(osd);
        self.pgs.values_mut().for_each(|pg| pg.session_ended(&mut self.host.context(), osd));
        // Questions for objects that it copies: it asks again if it still wants the answers.
        self.client_closed(session_of(osd));
    }

    /// Tells a primary that begins an interval what this OSD has of groups.
    pub(super) fn query(&mut self, from: OsdId, message: PgQuery) {
        let (mut groups, mut strange) = (Vec::new(), Vec::new());
        for (pg_interval, agreed) in message.groups {
            // Another shard of this OSD answers.
            if !self.is_home_of(pg_interval.pgid) {
                continue;
            }
            let id = self.instance(pg_interval.pgid);
            let state = match self.pgs.get_mut(&id) {
                Some(pg) => match pg.hold_query(from, pg_interval, &agreed) {
                    true => None,
                    false => pg.join(&mut self.host.context(), from, pg_interval, &agreed),
                },
                // An OSD that is no member (any more) says only that. It is news to one that waits for a lease of this
                // OSD to end.
                None => {
                    strange.extend((!mutant::is(Mutant::StrangerHasNothing)).then_some(pg_interval));
                    Some(MemberState::default())
                }
            };
            groups.extend(state.map(|state| (pg_interval, state)));
            self.settle();
        }
        if !groups.is_empty() {
            self.host.context().notify(from, groups, strange);
        }
    }
}
