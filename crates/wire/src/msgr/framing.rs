//! Writing frames in either mode.
//!
//! In secure mode a frame is up to three records, each with its code of 16 bytes behind it:
//!
//! ```text
//! 1  preamble (32 bytes) | first 48 bytes of segment 0, or fewer and zeros
//! 2  rest of segment 0, with zeros up to a multiple of 16                   (only if there is a rest)
//! 3  segments 1.. each with such zeros, one behind the other | status | 15 zeros   (only if there are such segments)
//! ```

use super::auth::{Seal, TAG_BYTES};
use super::frame::{self, MessageHeader, PREAMBLE_BYTES, Preamble, STATUS_COMPLETE, Tag, Transmission};
use crate::Envelope;
use bytes::{Bytes, BytesMut};
use std::fmt::Debug;
use types::BufPool;

/// Unit of what is encrypted.
const BLOCK_BYTES: usize = 16;
/// Bytes of segment 0 beside the preamble.
pub(super) const INLINE_BYTES: usize = 48;
/// Bytes of the first record, without its code.
pub(super) const HEAD_BYTES: usize = PREAMBLE_BYTES + INLINE_BYTES;
/// Bytes of status and zeros at the end of the third record.
pub(super) const SEALED_EPILOGUE_BYTES: usize = BLOCK_BYTES;
/// Third records up to this size stand beside their frame's first record: cheaper than one more piece to send.
const BESIDE_BYTES: usize = 2048;

/// `bytes` with the zeros behind them.
pub(super) fn padded(bytes: usize) -> usize {
    bytes.next_multiple_of(BLOCK_BYTES)
}

/// Writes frames of one connection in one mode.
pub(super) trait Framing: Debug + Send {
    /// Appends a control frame.
    fn put_control(&mut self, out: &mut BytesMut, tag: Tag, payload: &[u8]);

    /// Appends the frame of a message.
    fn put_message(&mut self, out: &mut Transmission, header: &MessageHeader, envelope: &Envelope);

    /// True if messages are copied into their frames, and what the transport has yet to take is memory of its own.
    fn copies(&self) -> bool;

    /// True if the connection should be made anew, or can carry nothing more.
    fn is_worn(&self) -> bool;
}

/// Crc mode.
#[derive(Debug)]
pub(super) struct Crc;

impl Framing for Crc {
    fn put_control(&mut self, out: &mut BytesMut, tag: Tag, payload: &[u8]) {
        frame::put_control_payload(out, tag, payload);
    }

    fn put_message(&mut self, out: &mut Transmission, header: &MessageHeader, envelope: &Envelope) {
        out.put_message(header, envelope);
    }

    fn copies(&self) -> bool {
        false
    }

    fn is_worn(&self) -> bool {
        false
    }
}

/// Secure mode. Payloads are copied once, and encrypted where they were copied to.
#[derive(Debug)]
pub(super) struct Secure {
    seal: Box<dyn Seal>,
    /// A record could not be sealed; nothing is written any more.
    failed: bool,
    /// Memory for large records.
    buffers: BufPool,
}

impl Secure {
    pub fn new(seal: Box<dyn Seal>, buffers: BufPool) -> Secure {
        Secure { seal, failed: false, buffers }
    }

    /// Seals a record. `None`: nothing may be sent any more.
    fn seal(&mut self, record: &mut [u8]) -> Option<[u8; TAG_BYTES]> {
        if self.failed {
            return None;
        }
        let tag = self.seal.seal(record).ok();
        self.failed = tag.is_none();
        tag
    }

    /// Seals what was appended since `from`, and appends the code; takes the record away again if that fails.
    fn seal_from(&mut self, out: &mut BytesMut, from: usize) {
        match self.seal(&mut out[from..]) {
            Some(tag) => out.extend_from_slice(&tag),
            None => out.truncate(from),
        }
    }

    fn put_head(&mut self, out: &mut BytesMut, tag: Tag, count: u8, lengths: [usize; 4], first: &[u8]) {
        let from = out.len();
        Preamble::put(tag, count, lengths, out);
        out.extend_from_slice(&first[..first.len().min(INLINE_BYTES)]);
        out.resize(from + HEAD_BYTES, 0);
        self.seal_from(out, from);
    }
}

impl Framing for Secure {
    fn put_control(&mut self, out: &mut BytesMut, tag: Tag, payload: &[u8]) {
        self.put_head(out, tag, 1, [payload.len(), 0, 0, 0], payload);
        if let Some(rest) = payload.get(INLINE_BYTES..).filter(|rest| !rest.is_empty()) {
            let from = out.len();
            out.extend_from_slice(rest);
            out.resize(from + padded(rest.len()), 0);
            self.seal_from(out, from);
        }
    }

    fn put_message(&mut self, out: &mut Transmission, header: &MessageHeader, envelope: &Envelope) {
        let (count, lengths) = frame::segments(envelope);
        self.put_head(out.small(), Tag::MESSAGE, count as u8, lengths, &header.write());
        if count == 1 {
            return;
        }
        let bytes = lengths[1..].iter().map(|length| padded(*length)).sum::<usize>() + SEALED_EPILOGUE_BYTES;
        if bytes <= BESIDE_BYTES {
            let small = out.small();
            let from = small.len();
            small.resize(from + bytes, 0);
            fill(&mut small[from..], envelope);
            return self.seal_from(small, from);
        }
        let mut record = self.buffers.take(bytes + TAG_BYTES);
        let (body, code) = record.as_mut_slice().split_at_mut(bytes);
        fill(body, envelope);
        if let Some(tag) = self.seal(body) {
            code.copy_from_slice(&tag);
            out.put_whole(record.freeze());
        }
    }

    fn copies(&self) -> bool {
        true
    }

    fn is_worn(&self) -> bool {
        self.failed || self.seal.is_worn()
    }
}

/// Writes the third record of a message, all of it.
fn fill(record: &mut [u8], envelope: &Envelope) {
    let (segments, epilogue) = record.split_at_mut(record.len() - SEALED_EPILOGUE_BYTES);
    let mut rest = segments;
    let mut put = |length: usize, pieces: &mut dyn Iterator<Item = &Bytes>| {
        let (segment, tail) = std::mem::take(&mut rest).split_at_mut(padded(length));
        let mut at = 0;
        for piece in pieces {
            segment[at..at + piece.len()].copy_from_slice(piece);
            at += piece.len();
        }
        segment[at..].fill(0);
        rest = tail;
    };
    put(envelope.front.len(), &mut std::iter::once(&envelope.front));
    put(envelope.middle.len(), &mut std::iter::once(&envelope.middle));
    put(envelope.data.len(), &mut envelope.data.pieces());
    epilogue.fill(0);
    epilogue[0] = STATUS_COMPLETE;
}
