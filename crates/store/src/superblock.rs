//! The label at the begin of a device, written once, and the checkpoint roots, written in turn.

use crate::StoreConfig;
use crate::allocator::Run;
use crate::config::BLOCK;
use bytes::Bytes;
use types::{AlignedBuf, Fsid, OsdId, crc32c};
use wire::{DecodeError, Reader, Target, Writer};

/// Byte offsets of the two copies of the superblock.
pub(crate) const SUPERBLOCK_OFFSETS: [u64; 2] = [0, 16 * BLOCK];
/// Byte offsets of the two checkpoint roots; checkpoint `n` is rooted in number `n % 2`.
pub(crate) const ROOT_OFFSETS: [u64; 2] = [BLOCK, 17 * BLOCK];
/// Where the log begins.
pub(crate) const WAL_OFFSET: u64 = 32 * BLOCK;

pub(crate) const SUPERBLOCK_MAGIC: [u8; 8] = *b"NACRESTO";
const ROOT_MAGIC: [u8; 8] = *b"NACREROT";
/// Version of the whole format. A store of a newer one is refused.
pub(crate) const FORMAT_VERSION: u32 = 1;

/// Room for everything a superblock or root ever says: the rest of its block is zeros.
const CHECKED_BYTES: usize = 512;

/// What a device says about itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Superblock {
    pub uuid: Fsid,
    pub fsid: Fsid,
    pub osd: OsdId,
    /// The part of the device in use, a multiple of the block size.
    pub device_bytes: u64,
    pub wal_bytes: u64,
}

/// One block: `fields` padded to [`CHECKED_BYTES`], the crc32c of those, zeros.
fn seal(fields: Writer) -> Bytes {
    let mut bytes = fields.into_vec();
    assert!(bytes.len() <= CHECKED_BYTES, "{} bytes of fields", bytes.len());
    bytes.resize(CHECKED_BYTES, 0);
    let crc = crc32c::checksum(&bytes);
    bytes.extend(crc.to_le_bytes());
    let mut block = AlignedBuf::zeroed(BLOCK as usize);
    block.as_mut_slice()[..bytes.len()].copy_from_slice(&bytes);
    block.freeze()
}

/// The fields of a sealed block behind its magic; `None` if magic or checksum are not those of one.
fn unseal(block: &[u8], magic: [u8; 8]) -> Option<Reader<'_>> {
    let mut r = Reader::new(block);
    let fields = r.raw(CHECKED_BYTES).ok()?;
    let sealed = r.u32().ok()? == crc32c::checksum(fields);
    (sealed && fields.starts_with(&magic)).then(|| Reader::new(&fields[magic.len()..]))
}

impl Superblock {
    pub fn new(config: &StoreConfig) -> Superblock {
        let device_bytes = config.device_bytes / BLOCK * BLOCK;
        let StoreConfig { uuid, fsid, osd, wal_bytes, .. } = *config;
        Superblock { uuid, fsid, osd, device_bytes, wal_bytes }
    }

    pub fn encode(&self) -> Bytes {
        let mut w = Writer::new(Target::default());
        w.raw(&SUPERBLOCK_MAGIC);
        w.u32(FORMAT_VERSION);
        w.u32(BLOCK as u32);
        w.raw(&self.uuid.0);
        w.raw(&self.fsid.0);
        w.i32(self.osd.0);
        w.u32(0);
        w.u64(self.device_bytes);
        w.u64(self.wal_bytes);
        seal(w)
    }

    /// `None` if the block is no superblock; an error if it is one of another format.
    pub fn decode(block: &[u8]) -> Option<Result<Superblock, UnknownFormat>> {
        let mut r = unseal(block, SUPERBLOCK_MAGIC)?;
        Some(Superblock::fields(&mut r).expect("the sealed part is longer than the fields"))
    }

    fn fields(r: &mut Reader<'_>) -> Result<Result<Superblock, UnknownFormat>, DecodeError> {
        let (version, block_bytes) = (r.u32()?, r.u32()?);
        if version != FORMAT_VERSION || u64::from(block_bytes) != BLOCK {
            return Ok(Err(UnknownFormat { version, block_bytes }));
        }
        let (uuid, fsid, osd) = (Fsid(r.array()?), Fsid(r.array()?), OsdId(r.i32()?));
        r.u32()?;
        Ok(Ok(Superblock { uuid, fsid, osd, device_bytes: r.u64()?, wal_bytes: r.u64()? }))
    }

    /// The first block behind the log: from here on the device holds data and checkpoints.
    pub fn data_begin(&self) -> u32 {
        ((WAL_OFFSET + self.wal_bytes) / BLOCK) as u32
    }

    pub fn device_blocks(&self) -> u32 {
        (self.device_bytes / BLOCK) as u32
    }
}

/// A superblock's format that this software does not know.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct UnknownFormat {
    pub version: u32,
    pub block_bytes: u32,
}

/// Where a checkpoint is and what it stands for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Root {
    pub uuid: Fsid,
    /// Number of the checkpoint, from 0 (the empty one of a new store).
    pub sequence: u64,
    /// The session (see `wal`) that wrote it.
    pub session: u64,
    /// The checkpoint holds the effects of all records up to this one, and of no other.
    pub covered_lsn: u64,
    /// Where in the log the next record goes if there is none behind `covered_lsn`.
    pub wal_head: u64,
    pub next_omap_id: u64,
    /// Length of the stream of entries.
    pub stream_bytes: u64,
    /// The first chunk; `None` if the stream is empty.
    pub first_chunk: Option<Run>,
}

impl Root {
    pub fn encode(&self) -> Bytes {
        let mut w = Writer::new(Target::default());
        w.raw(&ROOT_MAGIC);
        w.raw(&self.uuid.0);
        w.u64(self.sequence);
        w.u64(self.session);
        w.u64(self.covered_lsn);
        w.u64(self.wal_head);
        w.u64(self.next_omap_id);
        w.u64(self.stream_bytes);
        put_chunk(&mut w, self.first_chunk);
        seal(w)
    }

    /// `None` if the block is no root of the store `uuid`.
    pub fn decode(block: &[u8], uuid: Fsid) -> Option<Root> {
        let mut r = unseal(block, ROOT_MAGIC)?;
        let root = Root::fields(&mut r).ok()?;
        (root.uuid == uuid).then_some(root)
    }

    fn fields(r: &mut Reader<'_>) -> Result<Root, DecodeError> {
        Ok(Root {
            uuid: Fsid(r.array()?),
            sequence: r.u64()?,
            session: r.u64()?,
            covered_lsn: r.u64()?,
            wal_head: r.u64()?,
            next_omap_id: r.u64()?,
            stream_bytes: r.u64()?,
            first_chunk: get_chunk(r)?,
        })
    }

    pub fn offset(&self) -> u64 {
        ROOT_OFFSETS[(self.sequence % 2) as usize]
    }
}

/// A chunk's place: device block (8), blocks (4; 0 for "none").
fn put_chunk(w: &mut Writer, chunk: Option<Run>) {
    w.u64(chunk.map_or(0, |run| run.start.into()));
    w.u32(chunk.map_or(0, |run| run.count));
}

fn get_chunk(r: &mut Reader<'_>) -> Result<Option<Run>, DecodeError> {
    let (start, count) = (r.u64()?, r.u32()?);
    let start = u32::try_from(start).ok().filter(|start| start.checked_add(count).is_some());
    let start = start.ok_or(DecodeError::Value { what: "device block", value: count.into() })?;
    Ok((count > 0).then_some(Run { start, count }))
}

/// One piece of a checkpoint's stream: a header of 64 bytes, then the piece.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ChunkHeader {
    pub uuid: Fsid,
    pub sequence: u64,
    pub payload_bytes: u32,
    pub next: Option<Run>,
}

const CHUNK_MAGIC: [u8; 8] = *b"NACRECHK";
pub(crate) const CHUNK_HEADER_BYTES: usize = 64;

impl ChunkHeader {
    /// The chunk's blocks, filled up with zeros.
    pub fn seal(&self, payload: &[u8]) -> Bytes {
        let mut w = Writer::new(Target::default());
        w.raw(&CHUNK_MAGIC);
        w.raw(&self.uuid.0);
        w.u64(self.sequence);
        w.u32(self.payload_bytes);
        w.u32(0);
        put_chunk(&mut w, self.next);
        assert_eq!(w.len(), CHUNK_HEADER_BYTES - 12, "the header has its size");
        w.raw(&[0; 8]);
        let crc = crc32c::update(crc32c::checksum(w.as_slice()), payload);
        w.u32(crc);
        let bytes = (CHUNK_HEADER_BYTES + payload.len()).next_multiple_of(BLOCK as usize);
        let mut block = AlignedBuf::zeroed(bytes);
        block.as_mut_slice()[..CHUNK_HEADER_BYTES].copy_from_slice(w.as_slice());
        block.as_mut_slice()[CHUNK_HEADER_BYTES..][..payload.len()].copy_from_slice(payload);
        block.freeze()
    }

    /// The header and the payload; `None` if these bytes are no chunk of that checkpoint of that store.
    pub fn unseal(bytes: &[u8], uuid: Fsid, sequence: u64) -> Option<(ChunkHeader, &[u8])> {
        let parse = |r: &mut Reader<'_>| -> Result<Option<(ChunkHeader, u32)>, DecodeError> {
            if r.array()? != CHUNK_MAGIC {
                return Ok(None);
            }
            let (uuid, sequence, payload_bytes, _) = (Fsid(r.array()?), r.u64()?, r.u32()?, r.u32()?);
            let next = get_chunk(r)?;
            r.skip(8)?;
            Ok(Some((ChunkHeader { uuid, sequence, payload_bytes, next }, r.u32()?)))
        };
        let (header, crc) = parse(&mut Reader::new(bytes)).ok()??;
        let payload = bytes.get(CHUNK_HEADER_BYTES..)?.get(..header.payload_bytes as usize)?;
        let sound = crc32c::update(crc32c::checksum(&bytes[..CHUNK_HEADER_BYTES - 4]), payload) == crc;
        (sound && header.uuid == uuid && header.sequence == sequence).then_some((header, payload))
    }

    /// Blocks a chunk with this payload fills.
    pub fn used_blocks(&self) -> u32 {
        (CHUNK_HEADER_BYTES as u32 + self.payload_bytes).div_ceil(BLOCK as u32)
    }
}

/// The most a checkpoint takes on the device whose entries take `stream_bytes`, if its chunks are of one block each.
pub(crate) const fn checkpoint_bytes_max(stream_bytes: u64) -> u64 {
    const _: () = assert!(BLOCK / (BLOCK - CHUNK_HEADER_BYTES as u64) * 32 <= 33, "headers take less than 1/32");
    stream_bytes + stream_bytes / 32 + 2 * BLOCK
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn superblock() -> Superblock {
        Superblock {
            uuid: Fsid([1; 16]),
            fsid: Fsid([2; 16]),
            osd: OsdId(3),
            device_bytes: 8 << 20,
            wal_bytes: 1 << 20,
        }
    }

    #[test]
    fn superblock_bytes_do_not_move() {
        let block = superblock().encode();
        let head =
            [&b"NACRESTO"[..], &[1, 0, 0, 0, 0, 0x10, 0, 0], &[1; 16], &[2; 16], &[3, 0, 0, 0, 0, 0, 0, 0]].concat();
        assert_eq!(block[..56], head);
        assert_eq!(block[56..72], [0, 0, 0x80, 0, 0, 0, 0, 0, 0, 0, 0x10, 0, 0, 0, 0, 0]);
        assert_eq!(block.len(), 4096);
        assert_eq!(Superblock::decode(&block), Some(Ok(superblock())));
    }

    #[test]
    fn a_newer_format_is_told_from_no_store() {
        let mut block = superblock().encode().to_vec();
        block[8] = 2;
        assert_eq!(Superblock::decode(&block), None, "the checksum covers the version");
        let crc = crc32c::checksum(&block[..CHECKED_BYTES]);
        block[CHECKED_BYTES..][..4].copy_from_slice(&crc.to_le_bytes());
        assert_eq!(Superblock::decode(&block), Some(Err(UnknownFormat { version: 2, block_bytes: 4096 })));
    }

    proptest! {
        #[test]
        fn roots_and_chunks_read_back_and_any_flipped_bit_shows(
            (sequence, session, covered_lsn, wal_head) in any::<(u64, u64, u64, u64)>(),
            start: u32, count in 0u32..100, payload in prop::collection::vec(any::<u8>(), 0..9000), bit in 0usize..4096,
        ) {
            let uuid = Fsid([7; 16]);
            let chunk = (count > 0 && start < u32::MAX - 100).then_some(Run { start, count });
            let root = Root { uuid, sequence, session, covered_lsn, wal_head, next_omap_id: 5, stream_bytes: 6, first_chunk: chunk };
            let mut block = root.encode().to_vec();
            prop_assert_eq!(Root::decode(&block, uuid), Some(root));
            prop_assert_eq!(Root::decode(&block, Fsid([8; 16])), None);
            block[bit / 8 % (CHECKED_BYTES + 4)] ^= 1 << (bit % 8);
            prop_assert_eq!(Root::decode(&block, uuid), None);

            let header = ChunkHeader { uuid, sequence, payload_bytes: payload.len() as u32, next: chunk };
            let mut bytes = header.seal(&payload).to_vec();
            prop_assert_eq!(bytes.len(), header.used_blocks() as usize * 4096);
            prop_assert_eq!(ChunkHeader::unseal(&bytes, uuid, sequence), Some((header, &payload[..])));
            let at = bit % (CHUNK_HEADER_BYTES + payload.len());
            bytes[at] ^= 1;
            prop_assert_eq!(ChunkHeader::unseal(&bytes, uuid, sequence), None);
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes: Vec<u8>) {
            Superblock::decode(&bytes);
            Root::decode(&bytes, Fsid::default());
            ChunkHeader::unseal(&[&CHUNK_MAGIC[..], &bytes].concat(), Fsid::default(), 0);
        }
    }
}
