//! Operations in flight: sent to the right OSD, sent again when it changes, and answered.

use super::osd_session::{OSD_POLICY, OsdSession};
use super::request::{InFlight, OpState, Owner};
use super::{Answer, Objecter, Sessions, Subject};
use crate::error::Error;
use std::time::Duration;
use types::{EntityName, Epoch, Errno, OsdId};
use wire::codec::features;
use wire::messages::{self as msg, BackoffOp, OpFlags};
use wire::msgr::SessionId;
use wire::{Envelope, Message, Target as WireTarget};

impl<C> Objecter<C> {
    /// Works out an operation's target anew, and sends the operation there if it can be sent now.
    pub(super) fn advance(&mut self, tid: u64, link: &mut impl Sessions, now: Duration) {
        let Some(placement) = &mut self.placement else { return };
        let op = self.ops.get_mut(&tid).expect("advance() for an operation under way");
        debug_assert!(!matches!(op.state, OpState::Assigned { .. }), "advance() for an operation that has an OSD");
        op.target = placement.target(&op.request.subject);
        let Some(target) = &op.target else { return self.check_pool(tid, link, now) };
        op.state = OpState::Waiting;
        op.paused = placement.is_paused(&op.request);
        let Some(primary) = target.group.primary.filter(|_| !op.paused) else { return };
        let osd = match op.request.goes_to_members() {
            Some(OpFlags::LOCALIZE_READS) => target.group.copies().find(|osd| self.settings.near.contains(osd)),
            Some(_) => {
                let copies: Vec<OsdId> = target.group.copies().collect();
                copies.get(drawn(self.settings.seed, tid, copies.len())).copied()
            }
            None => None,
        };
        let osd = osd.unwrap_or(primary);
        op.at_member = osd != primary;
        let Some(addrs) = placement.addrs(osd) else { return };
        let session = match self.osds.entry(osd) {
            std::collections::btree_map::Entry::Occupied(entry) => entry.into_mut(),
            std::collections::btree_map::Entry::Vacant(entry) => {
                let id = link.connect(EntityName::osd(osd), addrs, OSD_POLICY, now);
                self.by_session.insert(id, osd);
                entry.insert(OsdSession::new(osd, addrs.clone(), id))
            }
        };
        session.tids.insert(tid);
        op.state = OpState::Assigned { osd };
        Self::send(tid, op, session, placement.epoch(), link);
    }

    /// Sends an operation on its OSD's session, unless the session waits to be reopened or the OSD asked for a hold.
    fn send(tid: u64, op: &mut InFlight<C>, osd: &OsdSession, epoch: Epoch, link: &mut impl Sessions) {
        let Some(session) = osd.session else { return };
        let target = op.target.as_ref().expect("an operation that has an OSD has a target");
        if osd.is_held(target.group.pg, || op.object(target.hash)) {
            return;
        }
        let request = &op.request;
        let (locator, name) = match &request.subject {
            Subject::Object { locator, name } => (locator.clone(), name.clone()),
            Subject::Group { pool, nspace, .. } => {
                let locator = wire::basic::Locator { nspace: nspace.clone(), ..wire::basic::Locator::pool(*pool) };
                (locator, bytes::Bytes::new())
            }
        };
        let mut flags = OpFlags::ONDISK | OpFlags::KNOWN_REDIR | request.flags;
        if request.is_read() {
            flags = flags | OpFlags::READ;
        }
        if request.is_write() {
            flags = flags | OpFlags::WRITE;
        }
        let mut message = msg::OsdOp::new(target.group.pg, target.hash, epoch, locator, name, request.ops.clone());
        message.flags = flags;
        message.mtime = request.mtime;
        message.snap = request.snap;
        message.snap_seq = request.snap_context.seq;
        message.snaps = request.snap_context.snaps.clone();
        message.retry_attempt = op.attempts;
        message.features = features::PACIFIC;
        op.attempts += 1;
        link.send(session, message.seal(tid, WireTarget::default()));
    }

    /// Takes an operation away from its OSD.
    pub(super) fn unassign(&mut self, tid: u64) {
        let op = self.ops.get_mut(&tid).expect("unassign() for an operation under way");
        if let OpState::Assigned { osd } = op.state {
            op.state = OpState::Waiting;
            if let Some(session) = self.osds.get_mut(&osd) {
                session.tids.remove(&tid);
            }
        }
    }

    pub(super) fn complete(&mut self, tid: u64, result: Result<Answer, Error>) {
        let op = self.ops.get(&tid).expect("complete() for an operation under way");
        let session = match op.state {
            OpState::Assigned { osd } => self.osds.get(&osd).and_then(|osd| osd.session),
            _ => None,
        };
        self.unassign(tid);
        let op = self.ops.remove(&tid).expect("just looked at");
        match op.owner {
            Owner::Watch { cookie, step } => self.watch_stepped(cookie, step, session.zip(op.target), result),
            owner => self.answer_owner(owner, result),
        }
    }

    /// Gives the result of an operation to its owner, if that is a user.
    pub(super) fn answer_owner(&mut self, owner: Owner<C>, result: Result<Answer, Error>) {
        if let Some(completion) = owner.into_user() {
            self.finish(completion, result);
        }
    }

    pub(super) fn op_reply(
        &mut self,
        session: SessionId,
        envelope: &Envelope,
        link: &mut impl Sessions,
        now: Duration,
    ) {
        let tid = envelope.header.tid;
        let Some(&osd) = self.by_session.get(&session) else { return };
        // Ignores a reply from an OSD that the operation has left since, and a reply to an operation that has timed
        // out.
        let Some(op) = self.ops.get_mut(&tid).filter(|op| op.state == (OpState::Assigned { osd })) else { return };
        let reply = match msg::OsdOpReply::open(envelope) {
            Ok(reply) => reply,
            Err(error) => return self.complete(tid, Err(error.into())),
        };
        if reply.retry_attempt != op.attempts - 1 {
            return;
        }
        if Errno::from_result(reply.result) == Some(Errno::EAGAIN) && op.at_member {
            // The member cannot answer for certain; the primary can.
            op.request.flags = op.request.flags.without(OpFlags::BALANCE_READS | OpFlags::LOCALIZE_READS);
            self.unassign(tid);
            return self.advance(tid, link, now);
        }
        if Errno::from_result(reply.result) == Some(Errno::EAGAIN) {
            let epoch = self.placement.as_ref().expect("operations are sent by a map").epoch();
            return Self::send(tid, op, &self.osds[&osd], epoch, link);
        }
        if reply.redirect.is_some() {
            return self.complete(tid, Err(Error::Unsupported("pools behind a cache tier")));
        }
        if reply.result >= 0 && reply.ops.len() != op.request.ops.len() {
            let error = format!("{} parts answered of {}", reply.ops.len(), op.request.ops.len());
            return self.complete(tid, Err(Error::Answer(error)));
        }
        if reply.result >= 0 && op.request.is_notify() {
            // A notification ends with another message, sent when the watchers have answered.
            return;
        }
        self.complete(tid, Ok(Answer::Op(reply.into())));
    }

    pub(super) fn backoff(
        &mut self,
        session: SessionId,
        envelope: &Envelope,
        link: &mut impl Sessions,
    ) -> Result<(), wire::DecodeError> {
        let backoff = msg::OsdBackoff::open(envelope)?;
        let epoch = self.epoch();
        let Some(osd) = self.osd_of(session) else { return Ok(()) };
        match backoff.op {
            BackoffOp::Block => {
                osd.hold(backoff.pgid, backoff.id, backoff.begin.clone(), backoff.end.clone());
                let ack = msg::OsdBackoff { op: BackoffOp::AckBlock, ..backoff };
                link.send(session, ack.seal(0, WireTarget::default()));
            }
            BackoffOp::Unblock => {
                if !osd.release(backoff.pgid, backoff.id) {
                    return Ok(());
                }
                let range = |object: &types::ObjectId| {
                    backoff.begin == *object || (backoff.begin <= *object && *object < backoff.end)
                };
                let osd = &*osd;
                // The OSD also dropped the operations that it had before it blocked. `osd` is borrowed from `self.osds`
                // alone.
                let osd_id = osd.osd;
                let tids: Vec<u64> = osd.tids.iter().copied().collect();
                for tid in tids {
                    let op = self.ops.get_mut(&tid).expect("a session's operations are under way");
                    let target = op.target.as_ref().expect("an operation that has an OSD has a target");
                    if target.group.pg == backoff.pgid && range(&op.object(target.hash)) {
                        Self::send(tid, op, &self.osds[&osd_id], epoch, link);
                    }
                }
            }
            BackoffOp::AckBlock => {}
        }
        Ok(())
    }

    /// Opens a lost session again and sends all operations that wait for an answer from that OSD.
    pub(super) fn reopen(&mut self, osd: OsdId, link: &mut impl Sessions, now: Duration) {
        let Some(session) = self.osds.get_mut(&osd) else { return };
        if session.tids.is_empty() {
            // No operation waits for this OSD: the next one opens a new session.
            self.osds.remove(&osd);
            return;
        }
        let id = link.connect(EntityName::osd(osd), &session.addrs, OSD_POLICY, now);
        self.by_session.insert(id, osd);
        session.reopened(id);
        let epoch = self.placement.as_ref().expect("sessions are opened by a map").epoch();
        let session = &self.osds[&osd];
        for tid in &session.tids {
            let op = self.ops.get_mut(tid).expect("a session's operations are under way");
            Self::send(*tid, op, session, epoch, link);
        }
    }

    /// Drops lost sessions that no operation waits for: they need no reopening.
    pub(super) fn drop_idle_sessions(&mut self, _link: &mut impl Sessions) {
        self.osds.retain(|_, session| session.session.is_some() || !session.tids.is_empty());
    }
}

/// One of `count` members for the operation `tid`: the first step of SplitMix64 (Steele, Lea and Flood, 2014).
fn drawn(seed: u64, tid: u64, count: usize) -> usize {
    let mut z = seed.wrapping_add(tid.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((z ^ (z >> 31)) % count.max(1) as u64) as usize
}
