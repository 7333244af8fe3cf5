//! The stream that exports write and imports read. `docs/export-format.md` describes it.
//!
//! A stream is a magic number and a version, followed by frames: kind (1 byte), length (4), checksum (4), payload. The
//! checksum of a frame continues that of the frame before. A frame that is lost, repeated or out of place therefore
//! shows as surely as a damaged one.

use bytes::Bytes;
use std::io::{self, Read, Write};
use types::{Fsid, ObjectId, OsdId, PgId, crc32c};
use wire::{Decode, DecodeError, Reader, Target, Writer};

const MAGIC: [u8; 8] = *b"NACREEXP";
pub(crate) const STREAM_VERSION: u32 = 1;
const FRAME_HEAD_BYTES: usize = 9;
/// The longest frame; longer ones are refused. The longest frames of exports hold an object's attributes or one omap
/// entry.
const FRAME_BYTES_MAX: u32 = 256 << 20;

/// The reason why a stream cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    #[error("cannot write the stream: {0}")]
    Write(io::Error),
    #[error("cannot read the stream: {0}")]
    Read(io::Error),
    #[error("this is no export of a store")]
    NotAStream,
    #[error("a stream of version {0}; this software reads version {STREAM_VERSION}")]
    UnknownVersion(u32),
    #[error("the stream ends early, in frame {frame}")]
    Truncated { frame: u64 },
    #[error("frame {frame} of the stream is damaged, lost or out of place")]
    Checksum { frame: u64 },
    #[error("frame {frame} of the stream says that it has {bytes} bytes")]
    FrameLength { frame: u64, bytes: u32 },
    #[error("frame {frame} of the stream: {source}")]
    Decode { frame: u64, source: DecodeError },
    #[error("frame {frame} of the stream, {what}, is out of order")]
    Order { frame: u64, what: &'static str },
    #[error("the stream says that it holds {said} {what}, but {found} came")]
    Count { what: &'static str, said: u64, found: u64 },
    #[error("bytes behind the end of the stream")]
    BytesBehind,
}

/// The content of a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Scope {
    Everything,
    Group { pg: PgId, pg_num: u32 },
}

/// The first frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct StreamHeader {
    /// The cluster that the stream comes from.
    pub fsid: Fsid,
    /// The OSD and the store that the stream was made from.
    pub osd: OsdId,
    pub store: Fsid,
    pub scope: Scope,
}

/// An object without its data and omap entries, which follow in other frames.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ObjectHead {
    pub object: ObjectId,
    pub size_bytes: u64,
    pub attrs: Vec<(Bytes, Bytes)>,
    pub has_omap: bool,
    pub omap_header: Bytes,
}

/// One piece of a stream. Their order is: header; groups; for each object its head, data and omap; the groups' tables;
/// the end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Frame {
    Header(StreamHeader),
    /// The groups whose tables come later in the stream.
    Groups(Vec<PgId>),
    Object(ObjectHead),
    /// Bytes of the object, without holes.
    Data {
        offset: u64,
        bytes: Bytes,
    },
    Omap(Vec<(Bytes, Bytes)>),
    /// The object that was begun cannot be read and is not part of the export.
    Abandoned,
    /// Entries of a group's table; they may come in several frames.
    Table {
        pg: PgId,
        entries: Vec<(Bytes, Bytes)>,
    },
    /// Number of objects, without abandoned ones, and number of bytes of data.
    End {
        objects: u64,
        bytes: u64,
    },
}

impl Frame {
    pub fn name(&self) -> &'static str {
        match self {
            Frame::Header(_) => "a header",
            Frame::Groups(_) => "a list of groups",
            Frame::Object(_) => "an object",
            Frame::Data { .. } => "data",
            Frame::Omap(_) => "omap entries",
            Frame::Abandoned => "an abandoned object",
            Frame::Table { .. } => "a group's table",
            Frame::End { .. } => "the end",
        }
    }

    fn kind(&self) -> u8 {
        match self {
            Frame::Header(_) => 1,
            Frame::Groups(_) => 2,
            Frame::Object(_) => 3,
            Frame::Data { .. } => 4,
            Frame::Omap(_) => 5,
            Frame::Abandoned => 6,
            Frame::Table { .. } => 7,
            Frame::End { .. } => 8,
        }
    }

    fn encode(&self) -> Vec<u8> {
        let mut w = Writer::new(Target::default());
        match self {
            Frame::Header(header) => {
                w.put(&header.fsid);
                w.i32(header.osd.0);
                w.put(&header.store);
                let (kind, pg, pg_num) = match header.scope {
                    Scope::Everything => (0, PgId::new(0, 0), 0),
                    Scope::Group { pg, pg_num } => (1, pg, pg_num),
                };
                w.u8(kind);
                put_pg(&mut w, pg);
                w.u32(pg_num);
            }
            Frame::Groups(groups) => {
                w.count(groups.len());
                groups.iter().for_each(|pg| put_pg(&mut w, *pg));
            }
            Frame::Object(head) => {
                w.put(&head.object);
                w.u64(head.size_bytes);
                w.put(&head.attrs);
                w.bool(head.has_omap);
                w.blob(&head.omap_header);
            }
            Frame::Data { offset, bytes } => {
                w.u64(*offset);
                w.raw(bytes);
            }
            Frame::Omap(entries) => w.put(entries),
            Frame::Abandoned => {}
            Frame::Table { pg, entries } => {
                put_pg(&mut w, *pg);
                w.put(entries);
            }
            Frame::End { objects, bytes } => {
                w.u64(*objects);
                w.u64(*bytes);
            }
        }
        w.into_vec()
    }

    fn decode(kind: u8, payload: &Bytes) -> Result<Frame, DecodeError> {
        let mut r = Reader::shared(payload);
        let frame = match kind {
            1 => {
                let (fsid, osd, store) = (r.get()?, OsdId(r.i32()?), r.get()?);
                let (kind, pg, pg_num) = (r.u8()?, get_pg(&mut r)?, r.u32()?);
                let scope = match kind {
                    0 => Scope::Everything,
                    1 if pg.seed < pg_num => Scope::Group { pg, pg_num },
                    other => return Err(DecodeError::Value { what: "scope of an export", value: other.into() }),
                };
                Frame::Header(StreamHeader { fsid, osd, store, scope })
            }
            2 => {
                let count = r.count("groups", 12)?;
                Frame::Groups((0..count).map(|_| get_pg(&mut r)).collect::<Result<_, _>>()?)
            }
            3 => Frame::Object(ObjectHead {
                object: ObjectId::decode(&mut r)?,
                size_bytes: r.u64()?,
                attrs: r.get()?,
                has_omap: r.bool()?,
                omap_header: r.blob_bytes()?,
            }),
            4 => {
                let offset = r.u64()?;
                Frame::Data { offset, bytes: r.bytes(r.left())? }
            }
            5 => Frame::Omap(r.get()?),
            6 => Frame::Abandoned,
            7 => Frame::Table { pg: get_pg(&mut r)?, entries: r.get()? },
            8 => Frame::End { objects: r.u64()?, bytes: r.u64()? },
            other => return Err(DecodeError::Value { what: "frame kind", value: other.into() }),
        };
        match r.is_empty() {
            true => Ok(frame),
            false => Err(DecodeError::Value { what: "bytes behind a frame", value: r.left() as u64 }),
        }
    }
}

fn put_pg(w: &mut Writer, pg: PgId) {
    w.i64(pg.pool.0);
    w.u32(pg.seed);
}

fn get_pg(r: &mut Reader<'_>) -> Result<PgId, DecodeError> {
    Ok(PgId { pool: types::PoolId(r.i64()?), seed: r.u32()? })
}

/// The first bytes of a frame, without its checksum.
fn frame_head(kind: u8, bytes: u32) -> [u8; 5] {
    let [a, b, c, d] = bytes.to_le_bytes();
    [kind, a, b, c, d]
}

/// Writes frames.
pub(crate) struct FrameWriter<W> {
    out: W,
    crc: u32,
    bytes: u64,
}

impl<W: Write> FrameWriter<W> {
    pub fn new(mut out: W) -> Result<FrameWriter<W>, StreamError> {
        let start = [&MAGIC[..], &STREAM_VERSION.to_le_bytes()].concat();
        out.write_all(&start).map_err(StreamError::Write)?;
        Ok(FrameWriter { out, crc: crc32c::checksum(&start), bytes: start.len() as u64 })
    }

    pub fn put(&mut self, frame: &Frame) -> Result<(), StreamError> {
        let payload = frame.encode();
        let bytes = u32::try_from(payload.len()).ok().filter(|bytes| *bytes <= FRAME_BYTES_MAX);
        let bytes = bytes.unwrap_or_else(|| panic!("a frame of {} bytes", payload.len()));
        let head = frame_head(frame.kind(), bytes);
        self.crc = crc32c::update(crc32c::update(self.crc, &head), &payload);
        let mut write = |bytes: &[u8]| self.out.write_all(bytes).map_err(StreamError::Write);
        write(&head)?;
        write(&self.crc.to_le_bytes())?;
        write(&payload)?;
        self.bytes += (FRAME_HEAD_BYTES + payload.len()) as u64;
        Ok(())
    }

    /// Bytes written so far.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    pub fn finish(mut self) -> Result<(), StreamError> {
        self.out.flush().map_err(StreamError::Write)
    }
}

/// Reads frames.
pub(crate) struct FrameReader<R> {
    input: R,
    crc: u32,
    /// Number of the next frame, counted from 1.
    frame: u64,
    bytes: u64,
}

impl<R: Read> FrameReader<R> {
    pub fn new(mut input: R) -> Result<FrameReader<R>, StreamError> {
        let mut start = [0; 12];
        match input.read_exact(&mut start) {
            Ok(()) => {}
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => return Err(StreamError::NotAStream),
            Err(e) => return Err(StreamError::Read(e)),
        }
        if start[..8] != MAGIC {
            return Err(StreamError::NotAStream);
        }
        match u32::from_le_bytes(start[8..].try_into().expect("four bytes")) {
            STREAM_VERSION => Ok(FrameReader { input, crc: crc32c::checksum(&start), frame: 1, bytes: 12 }),
            version => Err(StreamError::UnknownVersion(version)),
        }
    }

    /// Number of the frame that was read last.
    pub fn frame(&self) -> u64 {
        self.frame - 1
    }

    /// Bytes read so far.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Reads the next frame. The end is a frame, too: a stream without it is cut short.
    pub fn next(&mut self) -> Result<Frame, StreamError> {
        let frame = self.frame;
        let short = |e: io::Error| match e.kind() {
            io::ErrorKind::UnexpectedEof => StreamError::Truncated { frame },
            _ => StreamError::Read(e),
        };
        let mut head = [0; FRAME_HEAD_BYTES];
        self.input.read_exact(&mut head).map_err(short)?;
        let bytes = u32::from_le_bytes(head[1..5].try_into().expect("four bytes"));
        if bytes > FRAME_BYTES_MAX {
            return Err(StreamError::FrameLength { frame, bytes });
        }
        // The buffer grows with the bytes that come, not with the length that the frame claims.
        let mut payload = Vec::new();
        let read = (&mut self.input).take(bytes.into()).read_to_end(&mut payload).map_err(StreamError::Read)?;
        if (read as u64) < u64::from(bytes) {
            return Err(StreamError::Truncated { frame });
        }
        let crc = crc32c::update(crc32c::update(self.crc, &head[..5]), &payload);
        if head[5..] != crc.to_le_bytes() {
            return Err(StreamError::Checksum { frame });
        }
        self.crc = crc;
        self.frame += 1;
        self.bytes += (FRAME_HEAD_BYTES + payload.len()) as u64;
        Frame::decode(head[0], &payload.into()).map_err(|source| StreamError::Decode { frame, source })
    }

    /// Checks that the stream ends here. Errors: it goes on.
    pub fn finish(mut self) -> Result<(), StreamError> {
        match self.input.read(&mut [0]).map_err(StreamError::Read)? {
            0 => Ok(()),
            _ => Err(StreamError::BytesBehind),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use types::PoolId;

    fn frames() -> Vec<Frame> {
        let b = Bytes::from_static;
        let object = ObjectId::head(PoolId(3), 77, b"ns", b"name");
        let header = StreamHeader {
            fsid: Fsid([1; 16]),
            osd: OsdId(2),
            store: Fsid([3; 16]),
            scope: Scope::Group { pg: PgId::new(3, 5), pg_num: 8 },
        };
        vec![
            Frame::Header(header),
            Frame::Header(StreamHeader { scope: Scope::Everything, ..header }),
            Frame::Groups(vec![PgId::new(3, 5), PgId::new(-1, 0)]),
            Frame::Object(ObjectHead {
                object,
                size_bytes: 9000,
                attrs: vec![(b(b"oi"), b(b"x"))],
                has_omap: true,
                omap_header: b(b"h"),
            }),
            Frame::Data { offset: 4096, bytes: b(b"bytes") },
            Frame::Omap(vec![(b(b"k"), b(b"v"))]),
            Frame::Abandoned,
            Frame::Table { pg: PgId::new(3, 5), entries: vec![(b(b"info"), b(b""))] },
            Frame::End { objects: 1, bytes: 5 },
        ]
    }

    fn stream() -> Vec<u8> {
        let mut out = Vec::new();
        let mut writer = FrameWriter::new(&mut out).unwrap();
        frames().iter().for_each(|frame| writer.put(frame).unwrap());
        let bytes = writer.bytes();
        writer.finish().unwrap();
        assert_eq!(out.len() as u64, bytes);
        out
    }

    fn read_all(bytes: &[u8]) -> Result<Vec<Frame>, StreamError> {
        let mut reader = FrameReader::new(bytes)?;
        let frames = (0..frames().len()).map(|_| reader.next()).collect::<Result<Vec<_>, _>>()?;
        reader.finish().map(|()| frames)
    }

    #[test]
    fn frames_read_back_and_keep_their_bytes() {
        let bytes = stream();
        assert_eq!(read_all(&bytes).unwrap(), frames());
        assert_eq!(bytes[..17], *b"NACREEXP\x01\0\0\0\x01\x35\0\0\0");
        let end = &bytes[bytes.len() - 25..];
        assert_eq!((end[0], end[1], &end[9..]), (8, 16, &[1, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0][..]));
    }

    #[test]
    fn what_is_no_stream_or_a_newer_one_is_refused() {
        assert!(matches!(read_all(b""), Err(StreamError::NotAStream)));
        assert!(matches!(read_all(b"NACREEXQ\x01\0\0\0"), Err(StreamError::NotAStream)));
        assert!(matches!(read_all(b"NACREEXP\x02\0\0\0"), Err(StreamError::UnknownVersion(2))));
        let long = [&b"NACREEXP\x01\0\0\0\x04"[..], &[0xff; 8]].concat();
        assert!(matches!(read_all(&long), Err(StreamError::FrameLength { frame: 1, .. })));
        assert!(matches!(read_all(&[&stream()[..], b"x"].concat()), Err(StreamError::BytesBehind)));
    }

    #[test]
    fn a_lost_or_repeated_frame_shows() {
        let put = |order: &[usize]| {
            // Puts sound frames together in another order.
            let whole = stream();
            let mut bounds = vec![12];
            while *bounds.last().unwrap() < whole.len() {
                let at = *bounds.last().unwrap();
                let len = u32::from_le_bytes(whole[at + 1..at + 5].try_into().unwrap()) as usize;
                bounds.push(at + FRAME_HEAD_BYTES + len);
            }
            let mut out = whole[..12].to_vec();
            order.iter().for_each(|i| out.extend(&whole[bounds[*i]..bounds[i + 1]]));
            out
        };
        assert!(read_all(&put(&[0, 1, 2, 3, 4, 5, 6, 7, 8])).is_ok());
        assert!(matches!(read_all(&put(&[0, 1, 3, 4])), Err(StreamError::Checksum { frame: 3 })));
        assert!(matches!(read_all(&put(&[0, 0, 1])), Err(StreamError::Checksum { frame: 2 })));
        assert!(matches!(read_all(&put(&[0, 1, 2])), Err(StreamError::Truncated { frame: 4 })));
    }

    proptest! {
        #[test]
        fn any_flipped_bit_and_any_cut_shows(bit in 0usize..8 * 520, cut in 0usize..520) {
            let whole = stream();
            let mut bytes = whole.clone();
            bytes[bit / 8 % whole.len()] ^= 1 << (bit % 8);
            prop_assert!(read_all(&bytes).is_err());
            prop_assert!(read_all(&whole[..cut % whole.len()]).is_err());
        }

        #[test]
        fn any_payload_is_read_or_refused(kind in 0u8..10, payload: Vec<u8>) {
            let _ = Frame::decode(kind, &payload.into());
        }
    }
}
