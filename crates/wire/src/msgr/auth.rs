//! Authentication: the seam between handshakes and whoever knows keys.
//!
//! The messenger carries payloads and does not read them. It hands each step of a handshake out
//! ([`super::Messenger::poll_auth`]) and goes on with the answer ([`super::Messenger::answer`]), which may come later:
//!
//! ```text
//! connecting side                                              accepting side
//! AuthStep::Begin       -> AuthAnswer::Request    -- AUTH_REQUEST -->
//!                                                              AuthStep::Request -> More, Accepted or Refused
//! AuthStep::Challenge   -> AuthAnswer::More       <-- AUTH_REPLY_MORE --
//!                                                 -- AUTH_REQUEST_MORE -->
//!                                                              AuthStep::More    -> More, Accepted or Refused
//! AuthStep::BadMethod   -> AuthAnswer::Request    <-- AUTH_BAD_METHOD --  (Refused)
//! AuthStep::Done        -> AuthAnswer::Connected  <-- AUTH_DONE --        (Accepted)
//! ```
//!
//! Both sides then sign the handshake. In secure mode all frames from the signature on are records.
//! [`super::Messenger::answer_unproven`] answers all steps by method `none`.

use super::reason::Cause;
use super::rights::Rights;
use crate::basic::AuthName;
use bytes::Bytes;
use std::fmt::Debug;
use std::net::SocketAddr;
use types::{EntityType, Errno};

/// Numbers of authentication methods.
pub(super) mod method {
    pub const NONE: u32 = 1;
}

/// Numbers of connection modes.
pub(super) mod mode {
    pub const CRC: u32 = 1;
    pub const SECURE: u32 = 2;
}

/// Bytes of a signature.
pub const SIGNATURE_BYTES: usize = 32;
/// Bytes of the code behind a record.
pub const TAG_BYTES: usize = 16;

/// Signatures of a handshake by the secret that both ends know.
pub trait Sign: Debug + Send {
    /// The signature of the bytes in these pieces, one behind the other.
    fn sign(&self, pieces: &[&[u8]]) -> [u8; SIGNATURE_BYTES];

    /// True if `signature` is that of the pieces. The time taken does not tell where it differs.
    fn verify(&self, pieces: &[&[u8]], signature: &[u8; SIGNATURE_BYTES]) -> bool;
}

/// A record cannot be sealed, because all nonces of the connection are used, or does not open.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a record cannot be sealed or opened")]
pub struct RecordError;

/// The sending direction of a connection in secure mode.
pub trait Seal: Debug + Send {
    /// Encrypts the next record in place and returns the code that goes behind it.
    fn seal(&mut self, record: &mut [u8]) -> Result<[u8; TAG_BYTES], RecordError>;

    /// True if the connection should be made anew soon.
    fn is_worn(&self) -> bool;
}

/// The receiving direction of a connection in secure mode.
pub trait Open: Debug + Send {
    /// Decrypts the next record in place. After an error its bytes mean nothing.
    fn open(&mut self, record: &mut [u8], tag: &[u8; TAG_BYTES]) -> Result<(), RecordError>;
}

/// Both directions of a connection in secure mode, as one side has them.
#[derive(Debug)]
pub struct Records {
    pub seal: Box<dyn Seal>,
    pub open: Box<dyn Open>,
}

/// Secrets of one connection.
#[derive(Debug, Default)]
pub struct Keys {
    /// `None` with a method that gives no secret: signatures are zeros then.
    pub sign: Option<Box<dyn Sign>>,
    /// `Some` in secure mode, `None` in crc mode.
    pub records: Option<Records>,
}

impl Keys {
    pub(super) fn mode(&self) -> u32 {
        if self.records.is_some() { mode::SECURE } else { mode::CRC }
    }
}

/// A peer that is let in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Identity {
    pub name: AuthName,
    /// True if the peer has proven its name. Method `none` believes what it is told.
    pub is_proven: bool,
    pub global_id: u64,
    pub rights: Rights,
}

/// A step of a handshake that waits for an answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AuthStep {
    /// We dialled a daemon of this kind, which is there. Answers: [`AuthAnswer::Request`], [`AuthAnswer::Fail`].
    Begin { to: EntityType },
    /// The peer asks for more. Answers: [`AuthAnswer::More`], [`AuthAnswer::Fail`].
    Challenge(Bytes),
    /// The peer refused our request; `result` is a negative error number. Answers: [`AuthAnswer::Request`],
    /// [`AuthAnswer::Fail`].
    BadMethod { method: u32, result: i32, methods: Vec<u32>, modes: Vec<u32> },
    /// The peer lets us in. Answers: [`AuthAnswer::Connected`], [`AuthAnswer::Fail`].
    Done { global_id: u64, mode: u32, payload: Bytes },
    /// A peer that says it is of kind `peer` asks to be let in. `modes`: connection modes, best first. Answers:
    /// [`AuthAnswer::More`], [`AuthAnswer::Accepted`], [`AuthAnswer::Refused`], [`AuthAnswer::Fail`].
    Request { peer: EntityType, addr: SocketAddr, method: u32, modes: Vec<u32>, payload: Bytes },
    /// The peer's answer to [`AuthAnswer::More`]. Answers: as to [`AuthStep::Request`].
    More(Bytes),
}

/// Answer to an [`AuthStep`].
#[derive(Debug)]
pub enum AuthAnswer {
    /// Our request, with connection modes, best first.
    Request { method: u32, modes: Vec<u32>, payload: Bytes },
    /// A further round: our part of it, or our question to the peer.
    More(Bytes),
    /// The peer has proven itself to us as far as the method does. `global_id` is ours.
    Connected { global_id: u64, keys: Keys },
    /// The peer is let in, and told `payload`. A monitor's client that `wants_id` is given a new one, as soon as there
    /// is one ([`super::Messenger::set_global_ids`]).
    Accepted { identity: Identity, wants_id: bool, payload: Bytes, keys: Keys },
    /// The peer is refused, and told which methods and modes are allowed. It may ask again.
    Refused { errno: Errno, methods: Vec<u32>, modes: Vec<u32> },
    /// The connection ends. A lossless session that is to be tried `again` goes on over another one.
    Fail { cause: Cause, again: bool },
}

/// Answers that a handed-out step may get.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Asked {
    /// Our request, the first or another one.
    Request,
    /// More of ours.
    More,
    /// Our view of the peer that lets us in.
    Verdict,
    /// A verdict about a peer that used this method.
    Peer { method: u32 },
}
