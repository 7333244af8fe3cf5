//! Clients of a monitor that has no ids left: they wait for those that it will get, in order, instead of being turned
//! away.

use super::auth::{Identity, Keys};
use super::config::limits;
use super::connection::{Connection, Fault, Phase};
use super::messenger::Messenger;
use super::reason::Cause;
use bytes::Bytes;

impl Messenger {
    /// Has a client wait for an id, which has authenticated and is to be told `payload`.
    pub(super) fn await_id(
        &mut self,
        connection: &mut Connection,
        identity: Identity,
        payload: Bytes,
        keys: Keys,
    ) -> Result<(), Fault> {
        if self.awaiting_ids.len() >= limits::AWAITING_IDS_MAX {
            let conns = &self.conns;
            self.awaiting_ids.retain(|conn| conns.contains_key(conn));
        }
        if self.awaiting_ids.len() >= limits::AWAITING_IDS_MAX {
            return Err(Fault::Lost(Cause::NoIdLeft));
        }
        connection.identity = Some(identity);
        connection.phase = Phase::AwaitingId(Box::new((payload, keys)));
        let deadline = connection.deadline.min(self.now + limits::ID_TIME);
        self.set_deadline(connection, deadline);
        self.awaiting_ids.push_back(connection.id);
        Ok(())
    }

    /// Gives ids to those that wait, as far as there are any.
    pub(super) fn give_ids(&mut self) {
        while let Some(conn) = self.awaiting_ids.front().copied() {
            let waits = |connection: &Connection| matches!(connection.phase, Phase::AwaitingId(_));
            if self.conns.get(&conn).is_some_and(waits) {
                let Some(id) = self.take_global_id() else { return };
                self.step(conn, |messenger, connection| messenger.go_on_with(connection, id));
            }
            self.awaiting_ids.pop_front();
        }
    }

    fn go_on_with(&mut self, connection: &mut Connection, id: u64) {
        self.set_deadline(connection, self.now + limits::HANDSHAKE_TIME);
        // Another phase stands in until the client is let in.
        let phase = std::mem::replace(&mut connection.phase, Phase::Ident);
        let Phase::AwaitingId(told) = phase else { unreachable!("the caller has looked at the phase") };
        let (payload, keys) = *told;
        let identity = connection.identity.take().expect("it has authenticated");
        self.let_in(connection, Identity { global_id: id, ..identity }, payload, keys);
    }
}
