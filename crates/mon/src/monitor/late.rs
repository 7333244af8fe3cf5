//! Changes that come late, by a session that their client has left.
//!
//! A client whose session breaks asks again by another one. Its message on the first may still arrive: minutes later,
//! once a network that was cut is whole; or passed on by a monitor that led, and does not any more, from the requests
//! that it had not carried out. Carried out then, it would take back changes that were answered since.

use super::session::Session;
use std::collections::VecDeque;
use types::EntityType;
use wire::EntityAddrVec;

/// Requests that are remembered, of all clients together.
const REMEMBERED: usize = 2000;

/// The last requests for changes.
#[derive(Debug, Default)]
pub(super) struct LateRequests {
    asked: VecDeque<LateRequest>,
}

#[derive(Debug)]
struct LateRequest {
    /// The client's address, which tells one of its starts from another. The global id would not do: a client that asks
    /// several monitors at once gets several.
    who: (EntityType, EntityAddrVec),
    /// Type and transaction id of the message.
    what: (u16, u64),
    /// [`wire::msgr::Peer::global_seq`] of the session: a client's own order, by whatever monitors it asks.
    global_seq: u64,
}

impl LateRequests {
    /// Returns true if the client has sent the request by a session that was opened later than this one. Else remembers
    /// the request.
    pub fn is_late(&mut self, session: &Session, what: (u16, u64)) -> bool {
        let peer = &session.peer;
        if peer.addrs.0.is_empty() || mutant::is(mutant::Mutant::LateTaken) {
            return false;
        }
        let is_same =
            |asked: &&LateRequest| asked.what == what && asked.who.0 == peer.name.kind && asked.who.1 == peer.addrs;
        if self.asked.iter().filter(is_same).any(|asked| asked.global_seq > peer.global_seq) {
            return true;
        }
        if self.asked.len() == REMEMBERED {
            self.asked.pop_front();
        }
        self.asked.push_back(LateRequest {
            who: (peer.name.kind, peer.addrs.clone()),
            what,
            global_seq: peer.global_seq,
        });
        false
    }
}
