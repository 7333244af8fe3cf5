//! Credentials of the OSD, and rights of those who ask it for more than operations.

use super::Running;
use reactor::Io;
use types::Errno;
use wire::messages::{Command, CommandReply};
use wire::msgr::SessionId;
use wire::{DecodeError, Envelope, Message, Target};

impl Running {
    /// Asks the monitor for tickets and secrets that are missing or grow old.
    pub(super) fn renew_credentials(&mut self, io: &mut impl Io) {
        if self.monitor.is_open() {
            for request in self.public.requests(io) {
                self.monitor.send(&mut self.public.messenger, request);
            }
        }
    }

    /// Takes a monitor's message: about tickets and secrets, or about anything else.
    pub(super) fn monitor_said(&mut self, io: &mut impl Io, envelope: &Envelope) {
        if !self.public.took_tickets(io, envelope) {
            self.monitor_message(io, envelope);
        }
    }

    /// True if the party may give commands to this OSD: only those may who may do everything.
    pub(super) fn may_command(&self, session: SessionId) -> bool {
        self.public.rights(session).is_none()
    }

    pub(super) fn refuse_command(&mut self, session: SessionId, envelope: &Envelope) -> Result<(), DecodeError> {
        Command::open(envelope)?;
        let reply =
            CommandReply { result: Errno::EPERM.as_result(), status: String::new(), output: Default::default() };
        self.public.messenger.send(session, reply.seal(envelope.header.tid, Target::default()));
        Ok(())
    }
}
