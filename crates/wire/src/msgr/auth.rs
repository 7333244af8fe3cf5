//! Authentication: the step of the handshake that other methods will extend.
//!
//! A method is a pair of small state machines, [`ServerAuth`] and [`ClientAuth`]. Only `none` exists: it believes
//! whatever name it is told, signs with zeros, and knows only the crc mode.

use crate::basic::AuthName;
use crate::{DecodeError, Encode, Reader, Target, Writer};
use bytes::Bytes;
use std::fmt::Debug;
use types::Errno;

/// Numbers of authentication methods.
pub(super) mod method {
    pub const NONE: u32 = 1;
}

/// Numbers of connection modes.
pub(super) mod mode {
    pub const CRC: u32 = 1;
}

/// First byte of a method's first payload: to whom it is addressed.
mod audience {
    /// A daemon, which believes what a monitor has vouched for.
    pub const AUTHORIZER: u8 = 1;
    /// A monitor, which gives out ids.
    pub const MON: u8 = 10;
}

/// Identity of a peer that has authenticated.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Identity {
    pub name: AuthName,
    /// 0 asks for a new id.
    pub global_id: u64,
    /// The peer takes us for a monitor.
    pub to_monitor: bool,
    pub key: SessionKey,
}

/// The secret that both ends know after authentication; empty with `none`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct SessionKey;

impl SessionKey {
    /// The signature of the handshake so far.
    pub fn signature(&self) -> [u8; 32] {
        [0; 32]
    }
}

/// Answer of the accepting side.
#[derive(Debug)]
pub(super) enum ServerStep {
    /// The payload goes along with the good news.
    Done { identity: Identity, payload: Bytes },
    #[allow(dead_code, reason = "for methods of several rounds; `none` has one")]
    More(Bytes),
    #[allow(dead_code, reason = "`none` refuses nobody")]
    Refused(Errno),
}

/// The accepting side of one method.
pub(super) trait ServerAuth: Debug + Send {
    /// The payload of the request, then of each further one.
    fn step(&mut self, payload: &[u8]) -> Result<ServerStep, DecodeError>;
}

/// Methods and modes that a server allows.
pub(super) const ALLOWED_METHODS: [u32; 1] = [method::NONE];
pub(super) const ALLOWED_MODES: [u32; 1] = [mode::CRC];

/// The accepting side of `method`, unless it is not allowed.
pub(super) fn server(method: u32) -> Option<Box<dyn ServerAuth>> {
    match method {
        method::NONE => Some(Box::new(NoneServer)),
        _ => None,
    }
}

#[derive(Debug)]
struct NoneServer;

impl ServerAuth for NoneServer {
    fn step(&mut self, payload: &[u8]) -> Result<ServerStep, DecodeError> {
        let mut r = Reader::new(payload);
        let to_monitor = match r.u8()? {
            audience::MON => true,
            audience::AUTHORIZER => false,
            other => return Err(DecodeError::Value { what: "authentication mode", value: other.into() }),
        };
        let identity = Identity { name: r.get()?, global_id: r.u64()?, to_monitor, key: SessionKey };
        Ok(ServerStep::Done { identity, payload: Bytes::new() })
    }
}

/// The connecting side of one method.
pub(super) trait ClientAuth: Debug + Send {
    fn method(&self) -> u32;

    /// Connection modes, best first.
    fn preferred_modes(&self) -> Vec<u32>;

    /// The first payload.
    fn request(&mut self) -> Vec<u8>;

    /// The answer to a server that wants more.
    fn more(&mut self, payload: &[u8]) -> Result<Vec<u8>, DecodeError>;

    /// The server is content.
    fn done(&mut self, payload: &[u8]) -> Result<SessionKey, DecodeError>;
}

/// The connecting side, as `name`; `global_id` is 0 as long as no monitor gave one.
pub(super) fn client(to_monitor: bool, name: &AuthName, global_id: u64) -> Box<dyn ClientAuth> {
    Box::new(NoneClient { to_monitor, name: name.clone(), global_id })
}

#[derive(Debug)]
struct NoneClient {
    to_monitor: bool,
    name: AuthName,
    global_id: u64,
}

impl ClientAuth for NoneClient {
    fn method(&self) -> u32 {
        method::NONE
    }

    fn preferred_modes(&self) -> Vec<u32> {
        vec![mode::CRC]
    }

    fn request(&mut self) -> Vec<u8> {
        let mut w = Writer::new(Target::PACIFIC);
        w.u8(if self.to_monitor { audience::MON } else { audience::AUTHORIZER });
        self.name.encode(&mut w);
        w.u64(self.global_id);
        w.into_vec()
    }

    fn more(&mut self, _: &[u8]) -> Result<Vec<u8>, DecodeError> {
        Err(DecodeError::Value { what: "further round of authentication 'none'", value: 2 })
    }

    fn done(&mut self, _: &[u8]) -> Result<SessionKey, DecodeError> {
        Ok(SessionKey)
    }
}
