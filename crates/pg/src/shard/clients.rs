//! Clients of this shard: their sessions, operations and acknowledgements.

use super::Shard;
use super::deferred::{Deferred, deferred_bytes};
use crate::context::{ClientSession, Output};
use crate::hops::{OpTimes, WaitReasons};
use crate::intake::backoffs::BackoffCounts;
use crate::intake::memory::Sent;
use crate::intake::operations::ClientOp;
use crate::messages::route;
use crate::ops;
use crate::rights::ClientRights;
use std::sync::Arc;
use std::time::Duration;
use types::{EntityName, Epoch, Errno, ReqId};
use wire::addr::EntityAddr;
use wire::codec::features::RADOS_BACKOFF;
use wire::messages::{BackoffOp, OpFlags, OsdBackoff, OsdOp, OsdOpReply};
use wire::msgr::SessionId;
use wire::{DecodeError, Envelope, Message, Target};

impl Shard {
    /// Notes that a client is connected, and what it may do. `features`: bits that both sides have. Operations of
    /// sessions that were not noted are refused.
    pub fn client_opened(
        &mut self,
        session: SessionId,
        name: EntityName,
        addr: EntityAddr,
        features: u64,
        rights: Arc<ClientRights>,
    ) {
        let takes_backoffs = features & RADOS_BACKOFF == RADOS_BACKOFF;
        self.host.clients.insert(session, ClientSession { name, addr, epoch: Epoch(0), takes_backoffs, rights });
    }

    pub fn client_closed(&mut self, session: SessionId) {
        self.host.clients.remove(&session);
        self.sent.forget(session);
        self.forget_deferred(|of| of == session);
        self.host.shared.backoffs.session_ended(session);
        for pg in self.pgs.values_mut() {
            pg.watches.session_closed(session, self.host.now);
            pg.with_intake(&mut self.host.context(), |intake, cx| intake.reader_left(cx, session));
        }
        self.settle();
    }

    /// Takes a client's operation. The first byte of its message came at `began`.
    ///
    /// Errors: the message is malformed, or sent with a map that is far from here; its session must be closed.
    pub fn client_op(&mut self, session: SessionId, envelope: &Envelope, began: Duration) -> Result<(), DecodeError> {
        let op = OsdOp::open(envelope)?;
        if let Err(far_ahead) = route::check_epoch(op.epoch, self.host.maps.newest_epoch()) {
            self.host.outbox.outputs.push(Output::NeedMaps { from: self.host.maps.newest_epoch().next() });
            return Err(far_ahead);
        }
        let times = OpTimes::new(began, self.host.now);
        match self.is_full() {
            true => self.sent.push(session, Sent::Op { tid: envelope.header.tid, op, times }),
            false => self.dispatch_op(session, envelope.header.tid, op, times),
        }
        Ok(())
    }

    /// Takes a client's message about backoffs.
    ///
    /// Errors: the message is malformed; its session must be closed.
    pub fn client_backoff(&mut self, session: SessionId, envelope: &Envelope) -> Result<(), DecodeError> {
        let ack = OsdBackoff::open(envelope)?;
        match (ack.op, self.sent.is_empty()) {
            (BackoffOp::AckBlock, true) => self.dispatch_ack(session, ack),
            (BackoffOp::AckBlock, false) => self.sent.push(session, Sent::Ack(ack)),
            (BackoffOp::Block | BackoffOp::Unblock, _) => {}
        }
        Ok(())
    }

    pub(super) fn dispatch_ack(&mut self, session: SessionId, ack: OsdBackoff) {
        let is_of = |deferred: &Deferred| matches!(deferred, Deferred::ClientOp { session: of, .. } if *of == session);
        let mut newest_first = self.deferred.iter().rev();
        match newest_first.find(|(_, deferred)| deferred.iter().any(is_of)).map(|(epoch, _)| *epoch) {
            Some(epoch) => self.defer(epoch, Deferred::Ack { session, ack: Box::new(ack) }),
            None => self.host.shared.backoffs.acknowledged(session, &ack, self.host.maps.epoch()),
        }
    }

    /// Returns the counts of operations that clients have been asked to hold back.
    pub fn backoff_counts(&self) -> BackoffCounts {
        self.host.shared.backoffs.counts()
    }

    pub(super) fn dispatch_op(&mut self, session: SessionId, tid: u64, op: OsdOp, mut times: OpTimes) {
        let Some(client) = self.host.clients.get_mut(&session) else { return };
        if op.epoch > self.host.maps.epoch() {
            times.waits.add(WaitReasons::MAP);
            self.host.shared.held.add(deferred_bytes(&op));
            return self.defer(op.epoch, Deferred::ClientOp { session, tid, op: Box::new(op), times });
        }
        client.epoch = client.epoch.max(op.epoch);
        if self.host.maps.current().is_blocklisted(&client.addr) {
            let reply = OsdOpReply::to(&op, Errno::EBLOCKLISTED.as_result(), self.host.maps.epoch());
            return self.host.context().send_client(session, tid, reply);
        }
        let caller = cls::Caller { name: client.name, addr: client.addr };
        let reqid: ReqId = op.request_id(caller.name, tid);
        self.share_map(session);
        if self.host.shared.backoffs.drops(session, &op) {
            tracing::trace!(pg = %op.pgid.pg, %reqid, "operation dropped that its client holds back");
            return;
        }
        let id = self.instance(op.pgid.pg);
        let Some(pg) = self.pgs.get_mut(&id) else { return };
        // An operation that is not ours, or was sent to another primary: the newer map just shared has the client send
        // it where it belongs.
        let elsewhere = !pg.core.is_primary(self.host.whoami);
        let may_write = ops::may_write(&op);
        let reads_anywhere = op.flags.has(OpFlags::BALANCE_READS) || op.flags.has(OpFlags::LOCALIZE_READS);
        let as_member = elsewhere && reads_anywhere && !may_write;
        if !as_member && (elsewhere || op.epoch < pg.core.primary_since) {
            tracing::debug!(pg = %op.pgid.pg, %reqid, epoch = op.epoch.0, "operation of another interval or OSD dropped");
            return;
        }
        // Sent with a map from before the group was split, which this OSD has not seen: it is sent again to where the
        // object is now.
        if osdmap::split_parent(op.raw_hash, pg.core.interval.shape.pg_num) != op.pgid.pg.seed {
            tracing::debug!(pg = %op.pgid.pg, %reqid, hash = op.raw_hash, "operation on an object of another group dropped");
            return;
        }
        if !self.host.may(session, &op) {
            tracing::debug!(pg = %op.pgid.pg, %reqid, "operation refused: the client has no right to it");
            let reply = OsdOpReply::to(&op, Errno::EPERM.as_result(), self.host.maps.epoch());
            return self.host.context().send_client(session, tid, reply);
        }
        let mut op = Box::new(ClientOp::new(session, tid, reqid, op, times));
        op.set_caller(caller);
        pg.with_intake(&mut self.host.context(), |intake, cx| match as_member {
            true => intake.replica_read(cx, op),
            false => intake.client_op(cx, op),
        });
        self.settle();
    }

    /// Sends the client the maps it lacks.
    pub(super) fn share_map(&mut self, session: SessionId) {
        let Some(client) = self.host.clients.get_mut(&session) else { return };
        while let Some(message) = self.host.maps.message_since(client.epoch) {
            let last = message.incrementals.last_key_value().map(|(e, _)| *e);
            client.epoch = last.unwrap_or(self.host.maps.epoch());
            let output = Output::ToClient { session, envelope: message.seal(0, Target::default()) };
            self.host.shared.held.answered(output.answer_bytes());
            self.host.outbox.outputs.push(output);
        }
    }
}
