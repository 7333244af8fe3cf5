//! The layer that carries messages for the driver.

use crate::objecter::Sessions;
use std::time::Duration;
use types::{AlignedBuf, EntityName, Errno};
use wire::msgr::{ConnId, Output, Policy, SessionId};
use wire::{EntityAddrVec, Envelope};

/// Sessions and their events: those of a messenger, whose connections the driver makes, or of a cluster in memory,
/// which asks for no connections and is told of none.
pub(crate) trait Transport: Sessions + Send {
    /// The next thing to do, as `Messenger::poll`.
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
    /// The error with which a monitor refused the client's name or key, unless one has let it in since.
    fn denied(&self) -> Option<Errno> {
        None
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
