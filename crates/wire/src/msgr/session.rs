//! One session: what outlives its connections.

use super::config::{Peer, Policy};
use super::messenger::ConnId;
use super::reason::{AckError, Cause, OtherEnd, Reason};
use crate::{EntityAddr, Envelope};
use std::collections::VecDeque;
use std::time::Duration;
use types::{EntityName, EntityType};

/// Where a session stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Link {
    /// We dial, or talk about (re)opening the session on a connection we dialled.
    Connecting(ConnId),
    /// Messages flow.
    Open(ConnId),
    /// We dial again at the given time.
    Waiting(Duration),
    /// There is nothing to say; whoever has something dials.
    Standby,
}

#[derive(Debug)]
pub(super) struct Session {
    pub policy: Policy,
    /// The peer as far as known: dialled, or as it named itself.
    pub name: EntityName,
    /// Where to dial. Of an accepted peer that cannot be dialled, the first address.
    pub addr: EntityAddr,
    /// Once it has been open.
    pub peer: Option<Peer>,
    pub link: Link,
    /// By what connecting peers find this session, if they do.
    pub findable_by: Option<(EntityType, EntityAddr)>,

    /// Random numbers that name the session, from whoever dialled first and from the other. 0: not yet known, and
    /// always on a lossy session.
    pub client_cookie: u64,
    pub server_cookie: u64,
    /// The client cookie that we chose, if we ever dialled. When both sides dial and connections break in the midst of
    /// it, each may believe in the session that the other dialled; a peer that names our cookie shows that.
    pub own_cookie: u64,
    /// Orders all connection attempts of a messenger; of ours for this session, and of the peer's.
    pub global_seq: u64,
    pub peer_global_seq: u64,
    /// Orders the attempts to resume this session.
    pub connect_seq: u64,

    /// Highest message received.
    pub in_seq: u64,
    pub acks: Acks,
    pub out: Outbox,
    /// Wait before the next attempt; zero after a success.
    pub backoff: Duration,
    /// When the peer last answered a keepalive, or the link opened.
    pub alive_at: Duration,
    /// Since when it has lacked a connection that it wants.
    pub lost_at: Option<Duration>,
}

impl Session {
    pub fn new(policy: Policy, name: EntityName, addr: EntityAddr, link: Link) -> Session {
        Session {
            policy,
            name,
            addr,
            peer: None,
            link,
            findable_by: None,
            client_cookie: 0,
            server_cookie: 0,
            own_cookie: 0,
            global_seq: 0,
            peer_global_seq: 0,
            connect_seq: 0,
            in_seq: 0,
            acks: Acks::default(),
            out: Outbox::default(),
            backoff: Duration::ZERO,
            alive_at: Duration::ZERO,
            lost_at: None,
        }
    }

    pub fn conn(&self) -> Option<ConnId> {
        match self.link {
            Link::Connecting(conn) | Link::Open(conn) => Some(conn),
            Link::Waiting(_) | Link::Standby => None,
        }
    }

    pub fn is_open(&self) -> bool {
        matches!(self.link, Link::Open(_))
    }

    /// The cause, of this session.
    pub fn reason(&self, cause: Cause) -> Reason {
        Reason { peer: OtherEnd::Session { name: self.name, addr: self.addr }, cause }
    }
}

/// Acknowledgements owed to a lossless peer.
#[derive(Debug, Default)]
pub(super) struct Acks {
    pub messages: u64,
    pub bytes: usize,
    /// Send one with the next transmission.
    pub due: bool,
    /// A timer runs that will make it due.
    pub timer: bool,
}

impl Acks {
    /// The peer was told all that we received.
    pub fn told(&mut self) {
        (self.messages, self.bytes, self.due) = (0, 0, false);
    }
}

/// Messages on their way out: first those sent but not acknowledged (lossless sessions only), then those not sent.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    queue: VecDeque<Envelope>,
    /// How many of the queue have been sent on the present connection.
    sent: usize,
    /// Messages acknowledged, or sent on a lossy session: the first of the queue has the number after this.
    done_seq: u64,
    /// Highest number ever sent in this session.
    last_seq: u64,
    bytes: usize,
}

/// Payload bytes of a message.
pub(super) fn size(envelope: &Envelope) -> usize {
    envelope.front.len() + envelope.middle.len() + envelope.data.len()
}

impl Outbox {
    pub fn push(&mut self, envelope: Envelope) {
        self.bytes += size(&envelope);
        self.queue.push_back(envelope);
    }

    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    pub fn has_unsent(&self) -> bool {
        self.sent < self.queue.len()
    }

    /// Payload bytes held.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Hands each unsent message with its number to `send`, until that returns false because the message has to wait;
    /// a lossy session forgets what is sent. Returns true if anything was.
    pub fn send_while(&mut self, lossy: bool, mut send: impl FnMut(u64, &Envelope) -> bool) -> bool {
        let mut any = false;
        while self.sent < self.queue.len() {
            let seq = self.done_seq + self.sent as u64 + 1;
            if !send(seq, &self.queue[self.sent]) {
                break;
            }
            any = true;
            self.last_seq = self.last_seq.max(seq);
            self.sent += 1;
            if lossy {
                self.forget_first();
            }
        }
        any
    }

    fn forget_first(&mut self) {
        let envelope = self.queue.pop_front().expect("only sent messages are forgotten");
        self.bytes -= size(&envelope);
        self.done_seq += 1;
        self.sent -= 1;
    }

    /// The peer has all messages up to `seq`.
    pub fn acknowledged(&mut self, seq: u64) -> Result<(), AckError> {
        if seq > self.done_seq + self.sent as u64 {
            return Err(AckError { claimed: seq, first: self.done_seq, last: self.done_seq + self.sent as u64 });
        }
        while self.done_seq < seq {
            self.forget_first();
        }
        Ok(())
    }

    /// The connection is lost: what is not acknowledged counts as unsent.
    pub fn rewind(&mut self) {
        self.sent = 0;
    }

    /// Tells whether a peer that has all up to `seq` may still need what is held; not if it acknowledged more before.
    pub fn may_resume_after(&self, seq: u64) -> bool {
        seq >= self.done_seq
    }

    /// After [`Outbox::rewind`]: the peer resumes and tells that it has all up to `seq`.
    pub fn resume(&mut self, seq: u64) -> Result<(), AckError> {
        assert_eq!(self.sent, 0, "resumed without rewinding");
        if seq < self.done_seq || seq > self.last_seq {
            return Err(AckError { claimed: seq, first: self.done_seq, last: self.last_seq });
        }
        while self.done_seq < seq {
            self.sent = 1;
            self.forget_first();
        }
        Ok(())
    }

    /// The session is established anew: numbers start from 1, and nothing has been received by the peer.
    pub fn renumber(&mut self) {
        (self.sent, self.done_seq, self.last_seq) = (0, 0, 0);
    }
}
