//! Credentials of the OSD, and rights of those who ask it for more than operations.

use super::Running;
use osdmap::OsdMap;
use pg::ClientRights;
use reactor::Io;
use std::sync::Arc;
use std::time::Duration;
use types::{EntityType, Errno, OsdId};
use wire::messages::{Command, CommandReply};
use wire::msgr::{Peer, Reason, SessionId};
use wire::{DecodeError, Envelope, Message, Target};

/// The other end of a session with clients, as it was when the session began.
pub(super) struct ConnectedClient {
    pub peer: Peer,
    pub rights: Arc<ClientRights>,
}

impl Running {
    /// Asks the monitor for tickets and secrets that are missing or grow old.
    pub(super) fn renew_credentials(&mut self, io: &mut impl Io) {
        if self.monitor.is_open() {
            for request in self.public.requests(io) {
                self.monitor.send(&mut self.public.messenger, request);
            }
        }
    }

    /// Ends sessions of clients whose tickets have ended, a few at a time. A client that still has its key has got
    /// other tickets meanwhile, and comes again by itself, with what it has under way. Other OSDs connect anew, and
    /// their sessions go on.
    pub(super) fn turn_out_ended(&mut self, io: &mut impl Io) {
        self.cluster.end_connections(io);
        let sessions = self.public.with_ended_tickets(io);
        if !sessions.is_empty() {
            tracing::info!("{} sessions of clients whose tickets have ended are closed", sessions.len());
        }
        for session in sessions {
            self.public.messenger.close(session);
            self.client_gone(session);
        }
    }

    /// Takes a monitor's message: about tickets and secrets, or about anything else.
    pub(super) fn monitor_said(&mut self, io: &mut impl Io, envelope: &Envelope) {
        if !self.public.took_tickets(io, envelope) {
            self.monitor_message(io, envelope);
        }
    }

    /// True if the party may give commands to this OSD: only those may who may do everything. Messages of a session
    /// that is over may still wait here; its rights go with it.
    pub(super) fn may_command(&self, session: SessionId) -> bool {
        self.clients.get(&session).is_some_and(|client| client.rights.are_everything())
    }

    /// Ends the sessions of OSDs that are none any more, also those in which they are clients. Lets them in nowhere.
    pub(super) fn turn_out_purged(&mut self, map: &OsdMap) {
        self.public.osds_are(map.osds().map(|(osd, _)| osd).collect());
        let is_purged = |peer: &Peer| {
            let osd = peer.auth_name.id.parse().map(OsdId);
            peer.auth_name.kind == EntityType::OSD && !osd.is_ok_and(|osd| map.exists(osd))
        };
        let gone: Vec<SessionId> =
            self.clients.iter().filter(|(_, client)| is_purged(&client.peer)).map(|(id, _)| *id).collect();
        for session in gone {
            self.public.messenger.close(session);
            self.client_gone(session);
        }
    }

    pub(super) fn turned_away(&mut self, reason: &Reason, now: Duration) {
        match self.refusals.is_news(reason.machine(), now) {
            true => tracing::info!("{reason}"),
            false => tracing::debug!("{reason}"),
        }
    }

    pub(super) fn refuse_command(&mut self, session: SessionId, envelope: &Envelope) -> Result<(), DecodeError> {
        Command::open(envelope)?;
        let reply =
            CommandReply { result: Errno::EPERM.as_result(), status: String::new(), output: Default::default() };
        self.public.messenger.send(session, reply.seal(envelope.header.tid, Target::default()));
        Ok(())
    }
}
