//! The layer below the objecter: sessions that carry messages.

use std::time::Duration;
use types::EntityName;
use wire::msgr::{Messenger, Policy, SessionId};
use wire::{EntityAddrVec, Envelope};

/// Opens sessions and sends on them. Their events come back through [`super::Objecter::opened`],
/// [`super::Objecter::message`] and [`super::Objecter::reset`].
pub trait Sessions {
    /// Opens a session; messages may be sent before it is open.
    fn connect(&mut self, peer: EntityName, addrs: &EntityAddrVec, policy: Policy, now: Duration) -> SessionId;
    /// Sends a message, or drops it if the session is gone.
    fn send(&mut self, session: SessionId, envelope: Envelope);
    /// Ends a session; no more events of it follow.
    fn close(&mut self, session: SessionId);
}

impl Sessions for Messenger {
    fn connect(&mut self, peer: EntityName, addrs: &EntityAddrVec, policy: Policy, now: Duration) -> SessionId {
        Messenger::connect(self, peer, addrs, policy, now)
    }

    fn send(&mut self, session: SessionId, envelope: Envelope) {
        Messenger::send(self, session, envelope);
    }

    fn close(&mut self, session: SessionId) {
        Messenger::close(self, session);
    }
}
