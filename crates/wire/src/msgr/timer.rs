//! Purposes that a messenger wants to be woken for. A timer may outlive its purpose; the messenger looks whether it has
//! one.

use super::ids::{ConnId, SessionId};

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Timer {
    /// By then the connection must have a session.
    Handshake(ConnId),
    Redial(SessionId),
    /// Received messages have waited long enough for their acknowledgement.
    Ack(SessionId),
    /// Time to ask whether the peer lives.
    Keepalive(SessionId, ConnId),
}
