//! The layer that carries messages for the driver.

use crate::objecter::Sessions;
use std::time::Duration;
use types::{AlignedBuf, EntityName};
use wire::msgr::{ConnId, Messenger, Output, Policy, SessionId};
use wire::{EntityAddrVec, Envelope};

/// Sessions and their events. A [`Messenger`], whose connections the driver makes, or a cluster in memory, which asks
/// for no connections and is told of none.
pub(crate) trait Transport: Sessions + Send {
    /// The next thing to do, as [`Messenger::poll`].
    fn poll(&mut self) -> Option<Output>;
    fn global_id(&self) -> u64;
    fn tick(&mut self, _now: Duration) {}
    fn next_wake(&self) -> Option<Duration> {
        None
    }
    fn connected(&mut self, _conn: ConnId, _now: Duration) {}
    fn received(&mut self, _conn: ConnId, bytes: &[u8], _now: Duration) -> usize {
        bytes.len()
    }
    fn bulk_wanted(&self, _conn: ConnId) -> Option<usize> {
        None
    }
    fn bulk_received(&mut self, _conn: ConnId, _buf: AlignedBuf, _now: Duration) {}
    fn progressed(&mut self, _conn: ConnId, _now: Duration) {}
    fn closed(&mut self, _conn: ConnId, _cause: &str, _now: Duration) {}
}

impl Transport for Messenger {
    fn poll(&mut self) -> Option<Output> {
        Messenger::poll(self)
    }

    fn global_id(&self) -> u64 {
        Messenger::global_id(self)
    }

    fn tick(&mut self, now: Duration) {
        Messenger::tick(self, now);
    }

    fn next_wake(&self) -> Option<Duration> {
        Messenger::next_wake(self)
    }

    fn connected(&mut self, conn: ConnId, now: Duration) {
        Messenger::connected(self, conn, now);
    }

    fn received(&mut self, conn: ConnId, bytes: &[u8], now: Duration) -> usize {
        Messenger::received(self, conn, bytes, now)
    }

    fn bulk_wanted(&self, conn: ConnId) -> Option<usize> {
        Messenger::bulk_wanted(self, conn)
    }

    fn bulk_received(&mut self, conn: ConnId, buf: AlignedBuf, now: Duration) {
        Messenger::bulk_received(self, conn, buf, now);
    }

    fn progressed(&mut self, conn: ConnId, now: Duration) {
        Messenger::progressed(self, conn, now);
    }

    fn closed(&mut self, conn: ConnId, cause: &str, now: Duration) {
        Messenger::closed(self, conn, cause, now);
    }
}

impl Sessions for Box<dyn Transport> {
    fn connect(&mut self, peer: EntityName, addrs: &EntityAddrVec, policy: Policy, now: Duration) -> SessionId {
        (**self).connect(peer, addrs, policy, now)
    }

    fn send(&mut self, session: SessionId, envelope: Envelope) {
        (**self).send(session, envelope);
    }

    fn close(&mut self, session: SessionId) {
        (**self).close(session);
    }
}
