//! Payloads of control frames.

use super::frame::Tag;
use crate::{Decode, DecodeError, Encode, EntityAddr, EntityAddrVec, Reader, Writer};
use bytes::Bytes;
use types::{EntityType, Utime};

/// Flag of an ident frame: the session ends with its connection.
pub(super) const FLAG_LOSSY: u64 = 1;

/// The payload of one kind of control frame.
pub(super) trait Control: Encode + Decode {
    const TAG: Tag;
}

/// Declares a payload whose encoding is that of its fields, one behind the other.
macro_rules! control_frames {
    ($($(#[$doc:meta])* $name:ident = $tag:ident { $($(#[$field_doc:meta])* $field:ident: $ty:ty),* $(,)? })*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, PartialEq, Eq, Debug)]
            pub(super) struct $name { $($(#[$field_doc])* pub $field: $ty),* }

            impl Control for $name {
                const TAG: Tag = Tag::$tag;
            }
            impl Encode for $name {
                fn encode(&self, w: &mut Writer) {
                    let _ = &w;
                    $(w.put(&self.$field);)*
                }
            }
            impl Decode for $name {
                fn decode(r: &mut Reader<'_>) -> Result<$name, DecodeError> {
                    let _ = &r;
                    Ok($name { $($field: r.get()?),* })
                }
            }
        )*
    };
}

control_frames! {
    Hello = HELLO {
        kind: EntityType,
        /// The address at which the sender sees the receiver.
        peer_addr: EntityAddr,
    }
    AuthRequest = AUTH_REQUEST {
        method: u32,
        /// Connection modes, best first.
        preferred_modes: Vec<u32>,
        payload: Bytes,
    }
    AuthBadMethod = AUTH_BAD_METHOD {
        method: u32,
        /// A negative error number.
        result: i32,
        allowed_methods: Vec<u32>,
        allowed_modes: Vec<u32>,
    }
    AuthReplyMore = AUTH_REPLY_MORE { payload: Bytes }
    AuthRequestMore = AUTH_REQUEST_MORE { payload: Bytes }
    AuthDone = AUTH_DONE {
        global_id: u64,
        mode: u32,
        payload: Bytes,
    }
    ClientIdent = CLIENT_IDENT {
        addrs: EntityAddrVec,
        /// The address that the client means to reach.
        target: EntityAddr,
        gid: i64,
        global_seq: u64,
        features_supported: u64,
        features_required: u64,
        flags: u64,
        cookie: u64,
    }
    ServerIdent = SERVER_IDENT {
        addrs: EntityAddrVec,
        gid: i64,
        global_seq: u64,
        features_supported: u64,
        features_required: u64,
        flags: u64,
        cookie: u64,
    }
    IdentMissingFeatures = IDENT_MISSING_FEATURES { features: u64 }
    SessionReconnect = SESSION_RECONNECT {
        addrs: EntityAddrVec,
        client_cookie: u64,
        server_cookie: u64,
        global_seq: u64,
        connect_seq: u64,
        /// The highest message the sender has received.
        msg_seq: u64,
    }
    SessionReset = SESSION_RESET {
        /// Forget the session altogether, not only its establishment.
        full: bool,
    }
    SessionRetry = SESSION_RETRY { connect_seq: u64 }
    SessionRetryGlobal = SESSION_RETRY_GLOBAL { global_seq: u64 }
    SessionReconnectOk = SESSION_RECONNECT_OK { msg_seq: u64 }
    Wait = WAIT { }
    Keepalive2 = KEEPALIVE2 { stamp: Utime }
    Keepalive2Ack = KEEPALIVE2_ACK { stamp: Utime }
    Ack = ACK { seq: u64 }
}

/// Proof that both ends saw the same handshake.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct AuthSignature(pub [u8; 32]);

impl Control for AuthSignature {
    const TAG: Tag = Tag::AUTH_SIGNATURE;
}

impl Encode for AuthSignature {
    fn encode(&self, w: &mut Writer) {
        w.raw(&self.0);
    }
}

impl Decode for AuthSignature {
    fn decode(r: &mut Reader<'_>) -> Result<AuthSignature, DecodeError> {
        r.array().map(AuthSignature)
    }
}
