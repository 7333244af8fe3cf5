//! Changes that come late, by a session that their client has left.
//!
//! A client whose session breaks asks again by another one. What it had sent by the first may still arrive: once a network that was
//! cut is whole, minutes later; or a monitor that led, and does not any more, passes on what it had not carried out. Carried out then, it
//! would take back what was answered since.

use super::session::Session;
use std::collections::VecDeque;
use types::EntityType;
use wire::EntityAddrVec;

/// Requests that are remembered, of all clients.
const REMEMBERED: usize = 2000;

/// The last requests for changes.
#[derive(Debug, Default)]
pub(super) struct LateRequests {
    asked: VecDeque<Asked>,
}

#[derive(Debug)]
struct Asked {
    /// The client's address, which tells one of its starts from another. Not its global id: one that asks several monitors at once is
    /// given several.
    who: (EntityType, EntityAddrVec),
    /// Type and transaction id of the message.
    what: (u16, u64),
    /// [`wire::msgr::Peer::global_seq`] of the session: a client's own order, by whatever monitors it asks.
    global_seq: u64,
}

impl LateRequests {
    /// Whether the client has asked the same by a session that was opened later than this one. If not, it is remembered that it asks now.
    pub fn is_late(&mut self, session: &Session, what: (u16, u64)) -> bool {
        let peer = &session.peer;
        if peer.addrs.0.is_empty() || mutant::is(mutant::Mutant::LateTaken) {
            return false;
        }
        let is_same = |asked: &&Asked| asked.what == what && asked.who.0 == peer.name.kind && asked.who.1 == peer.addrs;
        if self.asked.iter().filter(is_same).any(|asked| asked.global_seq > peer.global_seq) {
            return true;
        }
        if self.asked.len() == REMEMBERED {
            self.asked.pop_front();
        }
        self.asked.push_back(Asked { who: (peer.name.kind, peer.addrs.clone()), what, global_seq: peer.global_seq });
        false
    }
}
