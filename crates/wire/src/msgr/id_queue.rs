//! Clients of a monitor that has no ids left: they wait for those that it will get, in order, instead of being turned away.

use super::auth::Identity;
use super::config::limits;
use super::connection::{Fault, Phase};
use super::messenger::{ConnId, Messenger};
use bytes::Bytes;

/// Why a client is turned away that has waited in vain, or cannot wait.
pub(super) const NO_ID_LEFT: &str = "no global id is left to give; it may try again";

impl Messenger {
    /// There is no id for this client, which has authenticated and is to be told `payload`.
    pub(super) fn await_id(&mut self, conn: ConnId, identity: Identity, payload: Bytes) -> Result<(), Fault> {
        if self.awaiting_ids.len() >= limits::AWAITING_IDS_MAX {
            let conns = &self.conns;
            self.awaiting_ids.retain(|conn| conns.contains_key(conn));
        }
        if self.awaiting_ids.len() >= limits::AWAITING_IDS_MAX {
            return Err(Fault::Lost(NO_ID_LEFT.to_owned()));
        }
        let connection = self.conns.get_mut(&conn).expect("checked by the caller");
        connection.identity = Some(identity);
        connection.phase = Phase::AwaitingId(payload);
        let deadline = connection.deadline.min(self.now + limits::ID_TIME);
        self.set_deadline(conn, deadline);
        self.awaiting_ids.push_back(conn);
        Ok(())
    }

    /// Gives ids to those that wait, as far as there are any.
    pub(super) fn give_ids(&mut self) {
        while let Some(conn) = self.awaiting_ids.front().copied() {
            let waits =
                self.conns.get(&conn).is_some_and(|connection| matches!(connection.phase, Phase::AwaitingId(_)));
            if waits {
                let Some(id) = self.take_global_id() else { return };
                self.go_on_with(conn, id);
            }
            self.awaiting_ids.pop_front();
        }
    }

    fn go_on_with(&mut self, conn: ConnId, id: u64) {
        self.set_deadline(conn, self.now + limits::HANDSHAKE_TIME);
        let connection = self.conns.get_mut(&conn).expect("checked by the caller");
        let identity = connection.identity.take().expect("it has authenticated");
        let Phase::AwaitingId(payload) = std::mem::replace(&mut connection.phase, Phase::Signature) else {
            unreachable!("checked by the caller")
        };
        self.authenticated(conn, Identity { global_id: id, ..identity }, payload);
    }
}
