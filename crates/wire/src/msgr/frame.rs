//! Frames of msgr v2.1 in crc mode: layout, checksums, writing.
//!
//! ```text
//! preamble   0 tag | 1 segment count | 2 4 x { length u32, alignment u16 } | 26 flags, 0 | 28 crc of bytes 0..28, seed
//! 0 segment 0  bytes, crc                       (nothing at all if empty) segments 1..count, one behind the other
//! (the last one is not empty) epilogue   0 status | 1 3 x crc             (only if there are such segments)
//! ```
//! A control frame has one segment. A message has header, front, middle and data, without the empty ones at the end.

use super::config::limits;
use crate::{DecodeError, Envelope, Header, Reader, Rope, Target, Writer};
use bytes::{Bytes, BytesMut};
use types::{BLOCK_BYTES, crc32c};

pub(super) const PREAMBLE_BYTES: usize = 32;
pub(super) const EPILOGUE_BYTES: usize = 13;
pub(super) const CRC_BYTES: usize = 4;
/// Segments of a message.
pub(super) const SEGMENTS_MAX: usize = 4;
pub(super) const MESSAGE_HEADER_BYTES: usize = 41;

/// Epilogue status, low four bits: the sender finished the frame, or gave it up half-way.
pub(super) const STATUS_COMPLETE: u8 = 0x0e;
const STATUS_ABORTED: u8 = 0x01;

const ALIGNMENT: u16 = 8;
const DATA_ALIGNMENT: u16 = BLOCK_BYTES as u16;

/// Payload pieces up to this size are copied next to their frame's small parts: cheaper than one more piece to send.
const COPY_BYTES: usize = 2048;

/// Type of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Tag(pub u8);

impl Tag {
    pub const HELLO: Tag = Tag(1);
    pub const AUTH_REQUEST: Tag = Tag(2);
    pub const AUTH_BAD_METHOD: Tag = Tag(3);
    pub const AUTH_REPLY_MORE: Tag = Tag(4);
    pub const AUTH_REQUEST_MORE: Tag = Tag(5);
    pub const AUTH_DONE: Tag = Tag(6);
    pub const AUTH_SIGNATURE: Tag = Tag(7);
    pub const CLIENT_IDENT: Tag = Tag(8);
    pub const SERVER_IDENT: Tag = Tag(9);
    pub const IDENT_MISSING_FEATURES: Tag = Tag(10);
    pub const SESSION_RECONNECT: Tag = Tag(11);
    pub const SESSION_RESET: Tag = Tag(12);
    pub const SESSION_RETRY: Tag = Tag(13);
    pub const SESSION_RETRY_GLOBAL: Tag = Tag(14);
    pub const SESSION_RECONNECT_OK: Tag = Tag(15);
    pub const WAIT: Tag = Tag(16);
    pub const MESSAGE: Tag = Tag(17);
    pub const KEEPALIVE2: Tag = Tag(18);
    pub const KEEPALIVE2_ACK: Tag = Tag(19);
    pub const ACK: Tag = Tag(20);
}

/// Why bytes are not a frame that may come now.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum FrameError {
    #[error("{what}: checksum {computed:#010x} does not match {stored:#010x}")]
    Checksum { what: &'static str, stored: u32, computed: u32 },
    /// A record of secure mode was changed, is not the next one, or is of another connection.
    #[error("{what}: the record does not open with the connection's key")]
    NotOpened { what: &'static str },
    #[error("frame of type {0} is unknown or may not come now")]
    Tag(u8),
    #[error("frame of type {tag} with {count} segments")]
    SegmentCount { tag: u8, count: u8 },
    #[error("last of {0} segments is empty")]
    LastSegmentEmpty(u8),
    #[error("frame is compressed, which was not agreed upon")]
    Compressed,
    #[error("{what} of {bytes} bytes, at most {max} are allowed")]
    TooLong { what: &'static str, bytes: usize, max: usize },
    #[error("frame ends with status {0:#x}")]
    Status(u8),
    #[error("message header of {0} bytes instead of 41")]
    HeaderLength(usize),
    #[error("more than {} bytes before a session stands", limits::HANDSHAKE_BYTES)]
    HandshakeTooLong,
    #[error("peer speaks msgr v1; only v2.1 is spoken here")]
    MessengerV1,
    #[error("peer does not speak Ceph's protocol")]
    NotCeph,
    #[error(transparent)]
    Decode(#[from] DecodeError),
}

impl FrameError {
    /// Tells whether the bytes were damaged on their way, rather than sent by a peer that does not keep to the
    /// protocol.
    pub fn is_damage(&self) -> bool {
        matches!(self, FrameError::Checksum { .. } | FrameError::NotOpened { .. })
    }
}

pub(super) fn check(what: &'static str, stored: u32, computed: u32) -> Result<(), FrameError> {
    if stored == computed { Ok(()) } else { Err(FrameError::Checksum { what, stored, computed }) }
}

/// The beginning of a frame, its lengths within [`limits`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Preamble {
    pub tag: Tag,
    /// 1 to 4; 1 unless a message.
    pub count: usize,
    pub lengths: [usize; SEGMENTS_MAX],
}

impl Preamble {
    pub fn parse(bytes: &[u8]) -> Result<Preamble, FrameError> {
        let mut r = Reader::new(bytes);
        let (tag, count) = (r.u8()?, r.u8()?);
        let mut lengths = [0; SEGMENTS_MAX];
        for length in &mut lengths {
            *length = r.u32()? as usize;
            r.skip(2)?;
        }
        let (flags, _reserved) = (r.u8()?, r.u8()?);
        check("preamble", r.u32()?, crc32c::update(0, &bytes[..PREAMBLE_BYTES - CRC_BYTES]))?;
        if flags & 1 != 0 {
            return Err(FrameError::Compressed);
        }
        let tag = Tag(tag);
        let is_message = tag == Tag::MESSAGE;
        if count == 0 || count > if is_message { SEGMENTS_MAX as u8 } else { 1 } {
            return Err(FrameError::SegmentCount { tag: tag.0, count });
        }
        if count > 1 && lengths[usize::from(count) - 1] == 0 {
            return Err(FrameError::LastSegmentEmpty(count));
        }
        lengths[usize::from(count)..].fill(0);
        if is_message && lengths[0] != MESSAGE_HEADER_BYTES {
            return Err(FrameError::HeaderLength(lengths[0]));
        }
        let limits = [
            ("control frame", limits::CONTROL_BYTES),
            ("front", limits::FRONT_BYTES),
            ("middle", limits::FRONT_BYTES),
            ("data", limits::DATA_BYTES),
        ];
        for (&bytes, (what, max)) in lengths.iter().zip(limits) {
            if bytes > max {
                return Err(FrameError::TooLong { what, bytes, max });
            }
        }
        Ok(Preamble { tag, count: count.into(), lengths })
    }

    pub fn put(tag: Tag, count: u8, lengths: [usize; SEGMENTS_MAX], out: &mut BytesMut) {
        out.extend_from_slice(&Preamble::write(tag, count, lengths));
    }

    fn write(tag: Tag, count: u8, lengths: [usize; SEGMENTS_MAX]) -> [u8; PREAMBLE_BYTES] {
        let mut raw = [0; PREAMBLE_BYTES];
        (raw[0], raw[1]) = (tag.0, count);
        for (i, length) in lengths.into_iter().enumerate().take(count.into()) {
            let length = u32::try_from(length).expect("segments are limited far below 4 GiB");
            let alignment = if i == SEGMENTS_MAX - 1 { DATA_ALIGNMENT } else { ALIGNMENT };
            raw[2 + 6 * i..6 + 6 * i].copy_from_slice(&length.to_le_bytes());
            raw[6 + 6 * i..8 + 6 * i].copy_from_slice(&alignment.to_le_bytes());
        }
        let crc = crc32c::update(0, &raw[..PREAMBLE_BYTES - CRC_BYTES]);
        raw[PREAMBLE_BYTES - CRC_BYTES..].copy_from_slice(&crc.to_le_bytes());
        raw
    }
}

/// The header segment of a message: what messages use themselves, and what the session adds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct MessageHeader {
    pub seq: u64,
    /// Highest sequence number received from the peer.
    pub ack_seq: u64,
    /// Nobody looks at them any more; [`COMPLETE`] is what every message of ours says.
    pub flags: u8,
    pub header: Header,
}

/// All of the message was sent.
pub(super) const COMPLETE: u8 = 1;

impl MessageHeader {
    pub fn parse(bytes: &[u8]) -> Result<MessageHeader, DecodeError> {
        let mut r = Reader::new(bytes);
        let (seq, tid, kind, priority, version) = (r.u64()?, r.u64()?, r.u16()?, r.u16()?, r.u16()?);
        let _padding = r.u32()?;
        let (data_off, ack_seq, flags, compat) = (r.u16()?, r.u64()?, r.u8()?, r.u16()?);
        r.skip(2)?;
        // A sender that leaves the oldest version out means the version itself.
        let compat_version = if compat == 0 { version } else { compat };
        let header = Header { tid, kind, priority, version, compat_version, data_off };
        Ok(MessageHeader { seq, ack_seq, flags, header })
    }

    pub fn write(&self) -> [u8; MESSAGE_HEADER_BYTES] {
        let h = &self.header;
        let mut raw = [0; MESSAGE_HEADER_BYTES];
        let mut put = |at: usize, bytes: &[u8]| raw[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &self.seq.to_le_bytes());
        put(8, &h.tid.to_le_bytes());
        put(16, &h.kind.to_le_bytes());
        put(18, &h.priority.to_le_bytes());
        put(20, &h.version.to_le_bytes());
        put(26, &h.data_off.to_le_bytes());
        put(28, &self.ack_seq.to_le_bytes());
        put(36, &[self.flags]);
        put(37, &h.compat_version.to_le_bytes());
        raw
    }
}

/// Verdict of an epilogue about its frame.
pub(super) enum Ending {
    Complete,
    /// The sender gave up on the message; nothing of it counts.
    Aborted,
}

/// Reads an epilogue and compares its checksums to those of segments 1 to 3.
pub(super) fn check_epilogue(bytes: &[u8], computed: [u32; 3], count: usize) -> Result<Ending, FrameError> {
    let mut r = Reader::new(bytes);
    if let Ending::Aborted = ending(r.u8()?)? {
        return Ok(Ending::Aborted);
    }
    for (what, computed) in ["front", "middle", "data"].into_iter().zip(computed).take(count - 1) {
        check(what, r.u32()?, computed)?;
    }
    Ok(Ending::Complete)
}

/// Reads the status of an epilogue.
pub(super) fn ending(status: u8) -> Result<Ending, FrameError> {
    match status & 0x0f {
        STATUS_COMPLETE => Ok(Ending::Complete),
        STATUS_ABORTED => Ok(Ending::Aborted),
        other => Err(FrameError::Status(other)),
    }
}

/// Number of a message's segments, and their lengths.
pub(super) fn segments(envelope: &Envelope) -> (usize, [usize; SEGMENTS_MAX]) {
    let Envelope { front, middle, data, .. } = envelope;
    let lengths = [MESSAGE_HEADER_BYTES, front.len(), middle.len(), data.len()];
    (lengths.iter().rposition(|len| *len > 0).expect("the header is not empty") + 1, lengths)
}

/// The payload that `body` writes. Addresses in it take their modern form.
pub(super) fn control_payload(body: impl FnOnce(&mut Writer)) -> Vec<u8> {
    let mut w = Writer::new(Target::PACIFIC);
    body(&mut w);
    w.into_vec()
}

/// Appends a control frame of crc mode with the payload that `body` writes.
#[cfg(test)]
pub(super) fn put_control(out: &mut BytesMut, tag: Tag, body: impl FnOnce(&mut Writer)) {
    put_control_payload(out, tag, &control_payload(body));
}

/// Appends a control frame of crc mode.
pub(super) fn put_control_payload(out: &mut BytesMut, tag: Tag, payload: &[u8]) {
    Preamble::put(tag, 1, [payload.len(), 0, 0, 0], out);
    if !payload.is_empty() {
        out.extend_from_slice(payload);
        out.extend_from_slice(&crc32c::checksum(payload).to_le_bytes());
    }
}

/// Bytes to transmit: small parts side by side in memory, payloads shared.
#[derive(Debug, Default)]
pub(super) struct Transmission {
    small: BytesMut,
    rope: Rope,
}

impl Transmission {
    /// `scratch` is where small parts go; [`Transmission::finish`] hands back what is left of it.
    pub fn new(scratch: BytesMut) -> Transmission {
        Transmission { small: scratch, rope: Rope::new() }
    }

    pub fn small(&mut self) -> &mut BytesMut {
        &mut self.small
    }

    fn put_piece(&mut self, piece: &Bytes) {
        if piece.len() <= COPY_BYTES {
            return self.small.extend_from_slice(piece);
        }
        self.put_whole(piece.clone());
    }

    /// Appends a piece without a look at its size.
    pub fn put_whole(&mut self, piece: Bytes) {
        self.rope.push(self.small.split().freeze());
        self.rope.push(piece);
    }

    /// Appends the frame of a message in crc mode.
    pub fn put_message(&mut self, header: &MessageHeader, envelope: &Envelope) {
        let Envelope { front, middle, data, .. } = envelope;
        let (count, lengths) = segments(envelope);
        const HEAD_BYTES: usize = PREAMBLE_BYTES + MESSAGE_HEADER_BYTES;
        let (mut head, raw) = ([0; HEAD_BYTES + CRC_BYTES], header.write());
        head[..PREAMBLE_BYTES].copy_from_slice(&Preamble::write(Tag::MESSAGE, count as u8, lengths));
        head[PREAMBLE_BYTES..HEAD_BYTES].copy_from_slice(&raw);
        head[HEAD_BYTES..].copy_from_slice(&crc32c::checksum(&raw).to_le_bytes());
        self.small.extend_from_slice(&head);
        if count == 1 {
            return;
        }
        self.put_piece(front);
        self.put_piece(middle);
        data.pieces().for_each(|piece| self.put_piece(piece));
        let mut epilogue = [0; EPILOGUE_BYTES];
        epilogue[0] = STATUS_COMPLETE;
        let whole = |bytes: &Bytes| crc32c::checksum(bytes);
        for (place, i) in epilogue[1..].as_chunks_mut::<CRC_BYTES>().0.iter_mut().zip(1..count) {
            let crc = match i {
                1 => whole(front),
                2 => whole(middle),
                _ => match data.block_crcs() {
                    Some(crcs) => combine_blocks(crcs, data.len()),
                    None => data.crc32c(crc32c::SEED),
                },
            };
            *place = crc.to_le_bytes();
        }
        self.small.extend_from_slice(&epilogue);
    }

    /// Gives the bytes that were put, and the rest of the scratch memory.
    pub fn finish(mut self) -> (Rope, BytesMut) {
        self.rope.push(self.small.split().freeze());
        (self.rope, self.small)
    }
}

/// The crc of `bytes` bytes from the crcs of their 4 KiB blocks.
pub(super) fn combine_blocks(crcs: &[u32], bytes: usize) -> u32 {
    assert_eq!(crcs.len(), bytes.div_ceil(BLOCK_BYTES), "block crcs of {bytes} bytes");
    let whole = bytes / BLOCK_BYTES;
    let crc = crcs[..whole].iter().fold(crc32c::SEED, |crc, block| crc32c::combine_block(crc, *block));
    match crcs.get(whole) {
        Some(tail) => crc32c::combine(crc, *tail, (bytes % BLOCK_BYTES) as u64),
        None => crc,
    }
}

/// The crcs of the 4 KiB blocks of `bytes`.
pub(super) fn block_crcs(bytes: &[u8]) -> impl Iterator<Item = u32> {
    bytes.chunks(BLOCK_BYTES).map(crc32c::checksum)
}
