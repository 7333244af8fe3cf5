//! The party that waits for the answer to a command.

use std::sync::mpsc::SyncSender;
use std::time::Duration;
use wire::messages::CommandReply;
use wire::msgr::{Messenger, SessionId};
use wire::{Message, Target};

pub(crate) enum Asker {
    /// A client, by the number of its request.
    Client { session: SessionId, tid: u64 },
    /// Another asker, whose command waits for something since this time.
    Waiting { asker: Box<Asker>, since: Duration },
    /// The thread of the admin socket.
    Socket(SyncSender<CommandReply>),
}

impl Asker {
    /// Answers. An asker that is gone gets nothing.
    pub fn answer(self, messenger: &mut Messenger, reply: CommandReply) {
        match self {
            Asker::Client { session, tid } => messenger.send(session, reply.seal(tid, Target::default())),
            Asker::Waiting { asker, .. } => asker.answer(messenger, reply),
            // The channel has room for the one answer; the thread may have given up.
            Asker::Socket(answers) => drop(answers.try_send(reply)),
        }
    }
}
