//! From a stream of bytes to frames.

use super::auth::{Open, TAG_BYTES};
use super::config::limits;
use super::frame::{self, Ending, FrameError, MessageHeader, Preamble, Tag};
use super::framing::{HEAD_BYTES, INLINE_BYTES, SEALED_EPILOGUE_BYTES, padded};
use super::sealed::{self, Opening, SEALED_HEAD_BYTES};
use crate::{Envelope, Rope};
use bytes::Bytes;
use std::borrow::Cow;
use std::sync::Arc;
use types::{AlignedBuf, BLOCK_BYTES, BufPool, crc32c};

/// One thing that comes over a connection.
#[derive(Debug)]
pub(super) enum Incoming {
    /// The first thing: messenger features supported and required.
    Banner {
        supported: u64,
        required: u64,
    },
    Control {
        tag: Tag,
        payload: Bytes,
    },
    Message {
        header: MessageHeader,
        envelope: Envelope,
    },
}

/// The first bytes of every connection.
pub(super) const BANNER: &[u8; 8] = b"ceph v2\n";
/// Bytes of a banner that mean something: two sets of feature bits.
pub(super) const BANNER_PAYLOAD_BYTES: usize = 16;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    BannerMagic,
    BannerLength,
    BannerPayload(usize),
    Preamble,
    /// Segment 0 and its checksum.
    First,
    /// Segment 1, 2 or 3.
    Segment(usize),
    Epilogue,
    /// Secure mode: the records of a frame.
    Head,
    Rest,
    Body,
}

/// Assembles frames from a stream cut anywhere.
///
/// Allocates only for what a checked preamble announces within [`limits`], and before [`Assembler::establish`] never
/// beyond [`limits::HANDSHAKE_BYTES`].
#[derive(Debug)]
pub(super) struct Assembler {
    stage: Stage,
    /// Bytes of the present stage, if not all of it came at once.
    gathered: Vec<u8>,
    /// Bytes of a data segment, or of a record with one, of a block or more, and how much of it is filled.
    aligned: Option<(AlignedBuf, usize)>,
    established: bool,
    /// Preambles that came.
    frames: u64,
    handshake_bytes: usize,
    bulk_min_bytes: usize,
    buffers: BufPool,
    /// Data segments of a block or more lie aligned in memory, with the crcs of their blocks.
    block_crcs: bool,
    preamble: Preamble,
    header: Option<MessageHeader>,
    envelope: Envelope,
    crcs: [u32; 3],
    /// In secure mode.
    opening: Option<Opening>,
}

impl Assembler {
    /// The first two are those of [`super::Config`].
    pub fn new(bulk_min_bytes: Option<usize>, block_crcs: bool, buffers: BufPool) -> Assembler {
        Assembler {
            stage: Stage::BannerMagic,
            gathered: Vec::new(),
            aligned: None,
            established: false,
            frames: 0,
            handshake_bytes: 0,
            bulk_min_bytes: bulk_min_bytes.unwrap_or(usize::MAX).max(BLOCK_BYTES),
            buffers,
            block_crcs,
            preamble: Preamble { tag: Tag(0), count: 0, lengths: [0; 4] },
            header: None,
            envelope: Envelope::default(),
            crcs: [0; 3],
            opening: None,
        }
    }

    /// A session stands: messages may come.
    pub fn establish(&mut self) {
        self.established = true;
    }

    /// Tells whether nothing of the next frame has come.
    pub fn is_between_frames(&self) -> bool {
        matches!(self.stage, Stage::Preamble | Stage::Head) && self.gathered.is_empty()
    }

    /// The data segment that comes next, if it is to be received in bulk.
    pub fn bulk_wanted(&self) -> Option<usize> {
        let bytes = self.preamble.lengths[3];
        (self.stage == Stage::Segment(3) && bytes >= self.bulk_min_bytes && self.aligned.is_none()).then_some(bytes)
    }

    /// The data segment that [`Assembler::bulk_wanted`] announced.
    pub fn bulk_received(&mut self, buf: AlignedBuf) {
        assert_eq!(self.bulk_wanted(), Some(buf.len()), "bulk of another length than wanted");
        self.data_done(buf);
    }

    /// The next frame in `input`, of which as much is taken as it needs. `None` if more bytes are needed, or if a
    /// bulk segment comes next.
    pub fn next(&mut self, input: &mut &[u8]) -> Result<Option<Incoming>, FrameError> {
        if self.established {
            return self.advance(input);
        }
        let before = input.len();
        let result = self.advance(input);
        self.handshake_bytes += before - input.len();
        if self.handshake_bytes > limits::HANDSHAKE_BYTES {
            return Err(FrameError::HandshakeTooLong);
        }
        result
    }

    fn advance(&mut self, input: &mut &[u8]) -> Result<Option<Incoming>, FrameError> {
        loop {
            let wanted = match self.stage {
                Stage::BannerMagic => BANNER.len(),
                Stage::BannerLength => 2,
                Stage::BannerPayload(bytes) => bytes,
                Stage::Preamble => frame::PREAMBLE_BYTES,
                Stage::First => self.preamble.lengths[0] + frame::CRC_BYTES,
                Stage::Segment(3) if self.bulk_wanted().is_some() => return Ok(None),
                Stage::Segment(3) if self.block_crcs && self.preamble.lengths[3] >= BLOCK_BYTES => {
                    if !self.gather_data(input) {
                        return Ok(None);
                    }
                    continue;
                }
                Stage::Segment(i) => self.preamble.lengths[i],
                Stage::Epilogue => frame::EPILOGUE_BYTES,
                Stage::Head => SEALED_HEAD_BYTES,
                Stage::Rest => sealed::sealed_rest_bytes(self.preamble.lengths[0]),
                Stage::Body if self.sealed_body_bytes() >= BLOCK_BYTES => match self.gather_body(input)? {
                    Gathered::Part => return Ok(None),
                    Gathered::All(None) => continue,
                    Gathered::All(message) => return Ok(message),
                },
                Stage::Body => self.sealed_body_bytes(),
            };
            let Some(bytes) = gather(&mut self.gathered, input, wanted) else { return Ok(None) };
            if let Some(incoming) = self.stage_done(bytes)? {
                return Ok(Some(incoming));
            }
        }
    }

    /// The message that is being received: its number among the frames, and how many bytes its segments have. `None`
    /// before its preamble is there.
    pub fn receiving(&self) -> Option<(u64, usize)> {
        let is_under_way = matches!(self.stage, Stage::First | Stage::Segment(_) | Stage::Epilogue | Stage::Body);
        let bytes = self.preamble.lengths.iter().sum();
        (is_under_way && self.preamble.tag == Tag::MESSAGE).then_some((self.frames, bytes))
    }

    /// All bytes of the present stage are there.
    fn stage_done(&mut self, bytes: Cow<'_, [u8]>) -> Result<Option<Incoming>, FrameError> {
        match self.stage {
            Stage::BannerMagic => {
                if *bytes != BANNER[..] {
                    let v1 = bytes.starts_with(b"ceph v0");
                    return Err(if v1 { FrameError::MessengerV1 } else { FrameError::NotCeph });
                }
                self.stage = Stage::BannerLength;
            }
            Stage::BannerLength => {
                let length = usize::from(u16::from_le_bytes([bytes[0], bytes[1]]));
                if length < BANNER_PAYLOAD_BYTES {
                    return Err(FrameError::NotCeph);
                }
                self.stage = Stage::BannerPayload(length);
            }
            Stage::BannerPayload(_) => {
                let mut r = crate::Reader::new(&bytes);
                self.stage = Stage::Preamble;
                return Ok(Some(Incoming::Banner { supported: r.u64()?, required: r.u64()? }));
            }
            Stage::Preamble => {
                self.begin(Preamble::parse(&bytes)?)?;
                if self.preamble.lengths[0] == 0 {
                    return Ok(Some(Incoming::Control { tag: self.preamble.tag, payload: Bytes::new() }));
                }
                self.stage = Stage::First;
            }
            Stage::First => {
                let (segment, crc) = bytes.split_at(bytes.len() - frame::CRC_BYTES);
                let stored = u32::from_le_bytes(crc.try_into().expect("a crc has 4 bytes"));
                frame::check("first segment", stored, crc32c::checksum(segment))?;
                let segment = match bytes {
                    Cow::Borrowed(_) => Cow::Borrowed(segment),
                    Cow::Owned(mut all) => {
                        all.truncate(all.len() - frame::CRC_BYTES);
                        Cow::Owned(all)
                    }
                };
                return self.first_segment(segment, Stage::Segment(1));
            }
            Stage::Head => return self.sealed_head(&bytes),
            Stage::Rest => return self.sealed_rest(bytes),
            Stage::Body => return self.sealed_body(bytes),
            Stage::Segment(i) => {
                self.crcs[i - 1] = crc32c::checksum(&bytes);
                let segment = match bytes {
                    Cow::Borrowed(bytes) => Bytes::copy_from_slice(bytes),
                    Cow::Owned(bytes) => bytes.into(),
                };
                match i {
                    1 => self.envelope.front = segment,
                    2 => self.envelope.middle = segment,
                    _ => self.envelope.data = segment.into(),
                }
                self.segment_done(i);
            }
            Stage::Epilogue => {
                self.stage = Stage::Preamble;
                match frame::check_epilogue(&bytes, self.crcs, self.preamble.count)? {
                    Ending::Complete => return Ok(Some(self.message())),
                    Ending::Aborted => self.envelope = Envelope::default(),
                }
            }
        }
        Ok(None)
    }

    /// A frame begins.
    fn begin(&mut self, preamble: Preamble) -> Result<(), FrameError> {
        self.preamble = preamble;
        self.frames += 1;
        if preamble.tag == Tag::MESSAGE && !self.established {
            return Err(FrameError::Tag(preamble.tag.0));
        }
        Ok(())
    }

    /// Segment 0 is there. A message that has more segments goes on at `then`.
    fn first_segment(&mut self, segment: Cow<'_, [u8]>, then: Stage) -> Result<Option<Incoming>, FrameError> {
        self.stage = if self.opening.is_some() { Stage::Head } else { Stage::Preamble };
        let tag = self.preamble.tag;
        if tag != Tag::MESSAGE {
            let payload = match segment {
                Cow::Borrowed(segment) => Bytes::copy_from_slice(segment),
                Cow::Owned(segment) => segment.into(),
            };
            return Ok(Some(Incoming::Control { tag, payload }));
        }
        self.header = Some(MessageHeader::parse(&segment)?);
        self.crcs = [0; 3];
        if self.preamble.count == 1 {
            return Ok(Some(self.message()));
        }
        self.stage = then;
        Ok(None)
    }

    fn segment_done(&mut self, i: usize) {
        self.stage = if i + 1 < self.preamble.count { Stage::Segment(i + 1) } else { Stage::Epilogue };
    }

    fn message(&mut self) -> Incoming {
        let header = self.header.take().expect("the header is read before the other segments");
        let envelope = Envelope { header: header.header, ..std::mem::take(&mut self.envelope) };
        Incoming::Message { header, envelope }
    }

    /// Moves bytes into a data segment of a block or more, which lies aligned in memory so that the store can write
    /// it as it is. Whether all of it is there.
    fn gather_data(&mut self, input: &mut &[u8]) -> bool {
        let wanted = self.preamble.lengths[3];
        if input.is_empty() {
            return false;
        }
        // Memory that is not in stock is new and mapped lazily: it costs only as much as really arrives.
        let (buf, filled) = self.aligned.get_or_insert_with(|| (self.buffers.take(wanted), 0));
        let take = input.len().min(wanted - *filled);
        let (head, tail) = input.split_at(take);
        buf.as_mut_slice()[*filled..*filled + take].copy_from_slice(head);
        (*filled, *input) = (*filled + take, tail);
        if *filled < wanted {
            return false;
        }
        let (buf, _) = self.aligned.take().expect("set above");
        self.data_done(buf);
        true
    }

    fn data_done(&mut self, buf: AlignedBuf) {
        let (bytes, crcs): (usize, Option<Arc<[u32]>>) =
            (buf.len(), self.block_crcs.then(|| frame::block_crcs(buf.as_slice()).collect()));
        self.crcs[2] = match &crcs {
            Some(crcs) => frame::combine_blocks(crcs, bytes),
            None => crc32c::checksum(buf.as_slice()),
        };
        let data = Rope::from(buf.freeze());
        self.envelope.data = match crcs {
            Some(crcs) => data.with_block_crcs(crcs),
            None => data,
        };
        self.segment_done(3);
    }
}

/// Secure mode.
impl Assembler {
    /// All frames from here on are records.
    pub fn secure(&mut self, open: Box<dyn Open>) {
        assert!(self.is_between_frames(), "the mode changes between frames");
        self.opening = Some(Opening::new(open));
        self.stage = Stage::Head;
    }

    /// Bytes of the third record with its code.
    fn sealed_body_bytes(&self) -> usize {
        let segments = self.preamble.lengths[1..].iter().map(|length| padded(*length)).sum::<usize>();
        segments + SEALED_EPILOGUE_BYTES + TAG_BYTES
    }

    /// Bytes to leave free in front of the third record, so that data that is to lie aligned does.
    fn body_lead(&self) -> usize {
        let [_, front, middle, data] = self.preamble.lengths;
        let is_aligned = self.block_crcs && data >= BLOCK_BYTES;
        if is_aligned { (padded(front) + padded(middle)).wrapping_neg() % BLOCK_BYTES } else { 0 }
    }

    /// The first record is there.
    fn sealed_head(&mut self, bytes: &[u8]) -> Result<Option<Incoming>, FrameError> {
        let mut sealed: [u8; SEALED_HEAD_BYTES] = bytes.try_into().expect("the stage has so many bytes");
        let opening = self.opening.as_mut().expect("this is a stage of secure mode");
        opening.open("preamble", &mut sealed)?;
        opening.inline.copy_from_slice(&sealed[frame::PREAMBLE_BYTES..HEAD_BYTES]);
        let inline = opening.inline;
        self.begin(Preamble::parse(&sealed[..frame::PREAMBLE_BYTES])?)?;
        let length = self.preamble.lengths[0];
        if length > INLINE_BYTES {
            self.stage = Stage::Rest;
            return Ok(None);
        }
        self.first_segment(Cow::Borrowed(&inline[..length]), Stage::Body)
    }

    /// The second record is there.
    fn sealed_rest(&mut self, bytes: Cow<'_, [u8]>) -> Result<Option<Incoming>, FrameError> {
        let opening = self.opening.as_mut().expect("this is a stage of secure mode");
        let mut rest = bytes.into_owned();
        opening.open("first segment", &mut rest)?;
        let mut segment = opening.inline.to_vec();
        segment.extend_from_slice(&rest);
        segment.truncate(self.preamble.lengths[0]);
        self.first_segment(Cow::Owned(segment), Stage::Body)
    }

    /// A small third record is there.
    fn sealed_body(&mut self, bytes: Cow<'_, [u8]>) -> Result<Option<Incoming>, FrameError> {
        let mut sealed = bytes.into_owned();
        self.open_body(&mut sealed)?;
        self.body_opened(Bytes::from(sealed))
    }

    /// Moves bytes into a large third record, which lies in memory so that its data is aligned. Gives the message, if
    /// all of it is there and it was not given up.
    fn gather_body(&mut self, input: &mut &[u8]) -> Result<Gathered, FrameError> {
        let lead = self.body_lead();
        let wanted = lead + self.sealed_body_bytes();
        let (buf, filled) = self.aligned.get_or_insert_with(|| (self.buffers.take(wanted), lead));
        let take = input.len().min(wanted - *filled);
        let (head, tail) = input.split_at(take);
        buf.as_mut_slice()[*filled..*filled + take].copy_from_slice(head);
        (*filled, *input) = (*filled + take, tail);
        if *filled < wanted {
            return Ok(Gathered::Part);
        }
        let (mut buf, _) = self.aligned.take().expect("set above");
        self.open_body(&mut buf.as_mut_slice()[lead..])?;
        Ok(Gathered::All(self.body_opened(buf.freeze().slice(lead..))?))
    }

    fn open_body(&mut self, sealed: &mut [u8]) -> Result<(), FrameError> {
        let opening = self.opening.as_mut().expect("this is a stage of secure mode");
        opening.open("segments", sealed)
    }

    /// The third record lies open.
    fn body_opened(&mut self, body: Bytes) -> Result<Option<Incoming>, FrameError> {
        self.stage = Stage::Head;
        let [_, front, middle, data] = self.preamble.lengths;
        let mut at = 0;
        let mut next = |length: usize| {
            let segment = body.slice(at..at + length);
            at += padded(length);
            segment
        };
        let (front, middle, data) = (next(front), next(middle), next(data));
        match frame::ending(body[at])? {
            Ending::Complete => {}
            Ending::Aborted => return Ok(None),
        }
        (self.envelope.front, self.envelope.middle) = (front, middle);
        let crcs = (self.block_crcs && data.len() >= BLOCK_BYTES).then(|| frame::block_crcs(&data).collect());
        let data = Rope::from(data);
        self.envelope.data = match crcs {
            Some(crcs) => data.with_block_crcs(crcs),
            None => data,
        };
        Ok(Some(self.message()))
    }
}

/// State of a large record.
#[allow(clippy::large_enum_variant, reason = "it is taken apart at once")]
enum Gathered {
    Part,
    /// All of it, and the message unless its sender gave it up.
    All(Option<Incoming>),
}

/// The next `wanted` bytes: straight from `input` if they are all there, else collected in `gathered`.
fn gather<'a>(gathered: &mut Vec<u8>, input: &mut &'a [u8], wanted: usize) -> Option<Cow<'a, [u8]>> {
    if gathered.is_empty() && input.len() >= wanted {
        let (head, tail) = input.split_at(wanted);
        *input = tail;
        return Some(Cow::Borrowed(head));
    }
    let take = input.len().min(wanted - gathered.len());
    let (head, tail) = input.split_at(take);
    // Memory follows what really arrives, not what was announced.
    gathered.extend_from_slice(head);
    *input = tail;
    (gathered.len() == wanted).then(|| Cow::Owned(std::mem::take(gathered)))
}
