//! What the objecter needs of the layer below: sessions that carry messages.

use std::time::Duration;
use types::EntityName;
use wire::msgr::{Messenger, Policy, SessionId};
use wire::{EntityAddrVec, Envelope};

/// Opens sessions and sends on them. What happens on them comes back through [`super::Objecter::opened`],
/// [`super::Objecter::message`] and [`super::Objecter::reset`].
pub trait Sessions {
    /// A new session; messages may be sent before it is open.
    fn connect(&mut self, peer: EntityName, addrs: &EntityAddrVec, policy: Policy, now: Duration) -> SessionId;
    /// Dropped if the session is gone.
    fn send(&mut self, session: SessionId, envelope: Envelope);
    /// Ends a session; nothing more is heard of it.
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
