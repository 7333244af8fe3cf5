//! Commands to single OSDs, such as those of `ceph tell osd.N`.

use super::osd_session::{OSD_POLICY, OsdSession};
use super::{Answer, CommandReply, Objecter, Sessions};
use crate::error::Error;
use std::time::Duration;
use types::{EntityName, Errno, OsdId};
use wire::messages as msg;
use wire::{Envelope, Message, Target};

/// A command under way.
pub(super) struct OsdCommand<C> {
    osd: OsdId,
    completion: C,
    pub since: Duration,
}

impl<C> Objecter<C> {
    /// Sends a command, one JSON object, to an OSD. It is sent only once, because it may not be idempotent.
    ///
    /// Errors: `ENXIO` if the map does not show the OSD up, `ENOTCONN` if its session is lost before the answer.
    pub fn tell(&mut self, osd: OsdId, json: &str, completion: C, link: &mut impl Sessions, now: Duration) {
        let up = self.placement.as_ref().and_then(|placement| placement.addrs(osd)).cloned();
        let Some(addrs) = up else { return self.finish(completion, Err(Errno::ENXIO.into())) };
        if !self.osds.contains_key(&osd) {
            let id = link.connect(EntityName::osd(osd), &addrs, OSD_POLICY, now);
            self.by_session.insert(id, osd);
            self.osds.insert(osd, OsdSession::new(osd, addrs, id));
        }
        let Some(session) = self.osds[&osd].session else {
            return self.finish(completion, Err(Errno::ENOTCONN.into()));
        };
        let tid = self.next_tid();
        let fsid = self.fsid.unwrap_or_default();
        let message = msg::Command { fsid, cmd: vec![json.to_owned()], input: wire::Rope::new() };
        link.send(session, message.seal(tid, Target::default()));
        self.commands.insert(tid, OsdCommand { osd, completion, since: now });
    }

    pub(super) fn command_reply(&mut self, envelope: &Envelope) -> Result<(), wire::DecodeError> {
        let reply = msg::CommandReply::open(envelope)?;
        if let Some(command) = self.commands.remove(&envelope.header.tid) {
            let output = reply.output.into_bytes();
            let reply = CommandReply { result: reply.result, status: reply.status, output };
            self.finish(command.completion, Ok(Answer::Command(reply)));
        }
        Ok(())
    }

    /// Fails all commands to an OSD, because the session with it is gone.
    pub(super) fn commands_lost(&mut self, osd: OsdId) {
        for (_, command) in self.commands.extract_if(.., |_, command| command.osd == osd) {
            self.done.push_back(super::Done { completion: command.completion, result: Err(Errno::ENOTCONN.into()) });
        }
    }

    /// Fails commands that have taken too long.
    pub(super) fn expire_commands(&mut self, now: Duration) {
        let Some(timeout) = self.settings.op_timeout else { return };
        let late = |command: &OsdCommand<C>| command.since + timeout <= now;
        while let Some(entry) = self.commands.first_entry().filter(|entry| late(entry.get())) {
            let command = entry.remove();
            self.finish(command.completion, Err(Error::TimedOut { seconds: timeout.as_secs() }));
        }
    }

    pub(super) fn commands_due(&self) -> Option<Duration> {
        Some(self.commands.first_key_value()?.1.since + self.settings.op_timeout?)
    }

    pub(super) fn end_commands(&mut self) -> impl Iterator<Item = C> + use<C> {
        std::mem::take(&mut self.commands).into_values().map(|command| command.completion)
    }
}
