//! A message as a session carries it, before or after its body is understood.

use crate::codec::encoded;
use crate::{DecodeError, Reader, Rope, Target, Writer};
use bytes::Bytes;
use std::fmt;

/// Fields of a message's header that messages use themselves. Sequence numbers and acknowledgements belong to the
/// session.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Header {
    /// Pairs a reply with its request.
    pub tid: u64,
    /// Type of the body: [`Message::TYPE`].
    pub kind: u16,
    pub priority: u16,
    /// Version of the body's layout.
    pub version: u16,
    /// Oldest decoder that can read the body.
    pub compat_version: u16,
    /// Offset of the data within a page: a hint of the place that it was read from.
    pub data_off: u16,
}

/// One message: header, typed front, middle (unused by the client protocol), payload. Its `Debug` shows no content,
/// which may be keys.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Envelope {
    pub header: Header,
    pub front: Bytes,
    pub middle: Bytes,
    /// Data of one block or more that a session receives knows the checksums of its blocks; on sending they spare
    /// another pass over the bytes.
    pub data: Rope,
}

impl fmt::Debug for Envelope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Envelope { header, front, middle, data } = self;
        write!(f, "Envelope({header:?}, {} bytes, {} bytes, {data:?})", front.len(), middle.len())
    }
}

/// Usual priorities.
pub mod priority {
    pub const LOW: u16 = 64;
    pub const CLIENT_OP: u16 = 63;
    pub const DEFAULT: u16 = 127;
    pub const HIGH: u16 = 196;
}

/// A typed message body.
pub trait Message: Sized {
    const TYPE: u16;
    /// Layout version that is written, and the newest that is understood.
    const VERSION: u16 = 1;
    /// Oldest version that a decoder must know to read the written layout.
    const COMPAT: u16 = 1;
    const PRIORITY: u16 = priority::DEFAULT;

    fn encode_front(&self, w: &mut Writer);

    /// Moves the payload out for sending; none by default.
    fn take_data(&mut self) -> Rope {
        Rope::new()
    }

    /// Decodes a body of layout `header.version`.
    fn decode(header: &Header, front: &mut Reader<'_>, data: &Rope) -> Result<Self, DecodeError>;

    /// Encodes the message for a peer, with transaction id `tid`.
    fn seal(mut self, tid: u64, target: Target) -> Envelope {
        // The front has the lengths of the payload's parts, so it is encoded before the payload is moved out.
        let front = encoded(target, |w| self.encode_front(w)).into();
        let data = self.take_data();
        Self::envelope(tid, front, data)
    }

    /// Puts the message together of its encoded front and its payload.
    fn envelope(tid: u64, front: Bytes, data: Rope) -> Envelope {
        let header = Header {
            tid,
            kind: Self::TYPE,
            priority: Self::PRIORITY,
            version: Self::VERSION,
            compat_version: Self::COMPAT,
            data_off: 0,
        };
        Envelope { header, front, middle: Bytes::new(), data }
    }

    /// Decodes the typed body of `envelope`. Panics unless its type is [`Message::TYPE`].
    ///
    /// Errors: a layout that is too new, or bytes that are no such body.
    fn open(envelope: &Envelope) -> Result<Self, DecodeError> {
        let header = &envelope.header;
        assert_eq!(header.kind, Self::TYPE, "open() for another message type");
        if header.compat_version > Self::VERSION {
            let cap = |v: u16| v.min(255) as u8;
            let what = std::any::type_name::<Self>();
            return Err(DecodeError::TooNew { what, compat: cap(header.compat_version), known: cap(Self::VERSION) });
        }
        Self::decode(header, &mut Reader::shared(&envelope.front), &envelope.data)
    }
}
