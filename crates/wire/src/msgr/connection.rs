//! One transport connection.

use super::assembler::{Assembler, BANNER, BANNER_PAYLOAD_BYTES};
use super::auth::{Asked, Identity, Keys, Sign};
use super::control::Control;
use super::frame::{self, FrameError};
use super::framing::{Crc, Framing};
use super::ids::{ConnId, SessionId};
use super::reason::{AckError, Cause};
use crate::DecodeError;
use crate::basic::AuthName;
use bytes::{Bytes, BytesMut};
use std::net::SocketAddr;
use std::time::Duration;
use types::EntityType;

/// msgr2 features (a namespace of its own): bit 0 is revision 2.1 of the frames, which is all we speak.
pub(super) const REVISION_1: u64 = 1;

/// Why a connection ends.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Fault {
    /// The transport failed or damaged something: a lossless session goes on over another connection.
    Lost(Cause),
    /// The two sides do not understand each other, and would not the next time: the session ends.
    Broken(Cause),
    /// The other side asked to wait for its own connection to us.
    Yielded,
    /// The other side itself has given up this connection for a newer one.
    Stale,
}

impl From<FrameError> for Fault {
    fn from(e: FrameError) -> Fault {
        if e.is_damage() { Fault::Lost(e.into()) } else { Fault::Broken(e.into()) }
    }
}

impl From<DecodeError> for Fault {
    fn from(e: DecodeError) -> Fault {
        Fault::Broken(e.into())
    }
}

impl From<AckError> for Fault {
    fn from(e: AckError) -> Fault {
        Fault::Broken(e.into())
    }
}

/// Event that a connection waits for.
#[derive(Debug)]
pub(super) enum Phase {
    /// The transport.
    Dialling,
    Banner,
    Hello,
    /// The driver's answer to a step of the handshake.
    Asked(Asked),
    /// The connecting side: the server's verdict.
    AuthConnecting,
    /// The accepting side: a request, or with a method begun, a further round.
    AuthAccepting {
        begun: Option<u32>,
    },
    /// The accepting side, a monitor: an id for the client, which is then told this.
    AwaitingId(Box<(Bytes, Keys)>),
    /// The peer's signature, by this secret if there is one.
    Signature(Option<Box<dyn Sign>>),
    /// Idents, or answers to them.
    Ident,
    /// Messages.
    Ready,
}

/// Bytes that both sides sign: all from the banner on, up to the signatures.
#[derive(Debug, Default)]
pub(super) struct Transcript {
    pub received: Vec<u8>,
    pub sent: Vec<u8>,
    /// Signatures follow, or are made and checked.
    pub is_complete: bool,
}

#[derive(Debug)]
pub(super) struct Connection {
    pub id: ConnId,
    pub peer: SocketAddr,
    pub outgoing: bool,
    pub phase: Phase,
    /// When it must have a session.
    pub deadline: Duration,
    pub assembler: Assembler,
    /// When the first byte of the frame that is coming, or came last, was there.
    pub frame_began: Duration,
    /// When bytes last came.
    pub heard_at: Duration,
    /// Control frames not yet transmitted.
    pub pending: BytesMut,
    /// Writes frames in the connection's mode.
    pub framing: Box<dyn Framing>,
    /// All bytes of the handshake, until they are signed.
    pub transcript: Transcript,
    /// Bytes that came while the driver's answer was awaited.
    pub held: Vec<u8>,
    /// From the start if we dialled, else once the peer has told who it is.
    pub session: Option<SessionId>,
    /// Once it said so.
    pub peer_kind: EntityType,
    /// Of an accepted peer, once it has authenticated.
    pub identity: Option<Identity>,
}

impl Connection {
    pub fn new(
        id: ConnId,
        peer: SocketAddr,
        session: Option<SessionId>,
        deadline: Duration,
        assembler: Assembler,
    ) -> Connection {
        let outgoing = session.is_some();
        let mut connection = Connection {
            id,
            peer,
            outgoing,
            phase: if outgoing { Phase::Dialling } else { Phase::Banner },
            deadline,
            assembler,
            frame_began: Duration::ZERO,
            heard_at: Duration::ZERO,
            pending: BytesMut::new(),
            framing: Box::new(Crc),
            transcript: Transcript::default(),
            held: Vec::new(),
            session,
            peer_kind: EntityType(0),
            identity: None,
        };
        let pending = &mut connection.pending;
        pending.extend_from_slice(BANNER);
        pending.extend_from_slice(&(BANNER_PAYLOAD_BYTES as u16).to_le_bytes());
        pending.extend_from_slice(&REVISION_1.to_le_bytes());
        // Required; a peer without it is turned away with a reason instead.
        pending.extend_from_slice(&0u64.to_le_bytes());
        connection.transcript.sent.extend_from_slice(pending);
        connection
    }

    pub fn is_ready(&self) -> bool {
        matches!(self.phase, Phase::Ready)
    }

    /// The session that a connection has which was dialled, or on which messages flow.
    pub fn session(&self) -> SessionId {
        self.session.expect("dialled and open connections have a session")
    }

    /// The name that an accepted peer has proven, if its method proves one.
    pub fn proven(&self) -> Option<&AuthName> {
        self.identity.as_ref().filter(|identity| identity.is_proven).map(|identity| &identity.name)
    }

    /// Queues a control frame.
    pub fn put<C: Control>(&mut self, control: &C) {
        let from = self.pending.len();
        self.framing.put_control(&mut self.pending, C::TAG, &frame::control_payload(|w| control.encode(w)));
        if !self.transcript.is_complete {
            self.transcript.sent.extend_from_slice(&self.pending[from..]);
        }
    }
}
