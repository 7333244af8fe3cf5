//! All sessions of one daemon or client.

use super::config::{Config, Peer, Policy};
use crate::{EntityAddrVec, Envelope, Rope};
use std::net::SocketAddr;
use std::ops::Range;
use std::time::Duration;
use types::{AlignedBuf, EntityName};

/// One transport connection. Those that are dialled have odd numbers, given by the messenger; the driver gives
/// accepted ones even numbers. Never used twice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ConnId(pub u64);

/// One session with a peer; a lossless one outlives its connections. Never used twice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SessionId(pub u64);

/// What the driver is to do, or what happened.
#[derive(Debug)]
pub enum Output {
    /// Dial `to`, then report [`Messenger::connected`] or [`Messenger::closed`].
    Connect {
        conn: ConnId,
        to: SocketAddr,
    },
    /// Send these bytes behind those of earlier outputs.
    Transmit {
        conn: ConnId,
        data: Rope,
    },
    /// Close once everything transmitted is sent (within a time of the driver's choice), or while still dialling.
    /// What the connection still reports is ignored.
    Close {
        conn: ConnId,
    },
    /// The session stands: a first message may follow.
    Opened {
        session: SessionId,
        peer: Peer,
    },
    Message {
        session: SessionId,
        envelope: Envelope,
    },
    /// The session is over, nothing more will come. `reason` is a line that names peer and cause.
    Reset {
        session: SessionId,
        reason: String,
    },
    /// A lossless session lost its connection and will find another; for logs and failure detection.
    Faulted {
        session: SessionId,
        reason: String,
    },
    /// A connection that had no session yet was turned away; `reason` is a line that names peer and cause.
    Refused {
        conn: ConnId,
        reason: String,
    },
}

/// All sessions of one daemon or client, as a state machine.
///
/// Transport events go in (`accepted`, `connected`, `received`, `bulk_received`, `closed`, `tick`), and commands
/// (`connect`, `send`, `close`); after each, drain [`Messenger::poll`]. Draining once per loop turn lets messages of a
/// turn share a `Transmit`.
pub struct Messenger {}

#[allow(unused_variables, clippy::missing_panics_doc)]
impl Messenger {
    pub fn new(config: Config) -> Messenger {
        todo!()
    }

    /// Somebody connected to us.
    pub fn accepted(&mut self, conn: ConnId, peer: SocketAddr, now: Duration) {
        todo!()
    }

    /// The dialling that [`Output::Connect`] asked for succeeded.
    pub fn connected(&mut self, conn: ConnId, now: Duration) {
        todo!()
    }

    /// The next bytes of the stream. Returns how many were taken: all, unless a bulk segment begins behind those
    /// taken; the rest is then the beginning of what [`Messenger::bulk_wanted`] asks for.
    pub fn received(&mut self, conn: ConnId, bytes: &[u8], now: Duration) -> usize {
        todo!()
    }

    /// `Some(n)`: the next `n` bytes of the stream belong into one aligned buffer, to be handed to
    /// [`Messenger::bulk_received`].
    pub fn bulk_wanted(&self, conn: ConnId) -> Option<usize> {
        todo!()
    }

    /// The bytes that [`Messenger::bulk_wanted`] asked for, all of them.
    pub fn bulk_received(&mut self, conn: ConnId, buf: AlignedBuf, now: Duration) {
        todo!()
    }

    /// The connection is gone, or could not be made.
    pub fn closed(&mut self, conn: ConnId, cause: &str, now: Duration) {
        todo!()
    }

    /// Does what is due by `now`.
    pub fn tick(&mut self, now: Duration) {
        todo!()
    }

    /// When [`Messenger::tick`] is next needed.
    pub fn next_wake(&self) -> Option<Duration> {
        todo!()
    }

    /// A session with the peer at `addrs`, of which the msgr v2 address is dialled. For a lossless policy this may be
    /// a session that exists already. [`Output::Opened`] tells when it stands; messages may be sent before.
    pub fn connect(&mut self, peer: EntityName, addrs: &EntityAddrVec, policy: Policy, now: Duration) -> SessionId {
        todo!()
    }

    /// Queues a message; dropped if the session is gone.
    pub fn send(&mut self, session: SessionId, envelope: Envelope) {
        todo!()
    }

    /// Ends the session after what was sent; no [`Output::Reset`] follows.
    pub fn close(&mut self, session: SessionId) {
        todo!()
    }

    pub fn connection_of(&self, session: SessionId) -> Option<ConnId> {
        todo!()
    }

    /// The other end, once the session has been open.
    pub fn peer(&self, session: SessionId) -> Option<&Peer> {
        todo!()
    }

    /// Ids that a monitor may give to clients, in addition to those left. They must never be given by anybody else.
    pub fn set_global_ids(&mut self, ids: Range<u64>) {
        todo!()
    }

    pub fn global_ids_left(&self) -> u64 {
        todo!()
    }

    /// A client's own id, 0 until a monitor gave one.
    pub fn global_id(&self) -> u64 {
        todo!()
    }

    /// Own addresses; a client's are learnt.
    pub fn addrs(&self) -> &EntityAddrVec {
        todo!()
    }

    /// The next thing to do, `None` when all is done.
    pub fn poll(&mut self) -> Option<Output> {
        todo!()
    }
}
