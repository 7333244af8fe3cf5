//! Reading a range of this OSD's objects, piece by piece.

use super::map::{ObjectScan, ScrubMap};
use crate::coded::fingerprint::Fingerprinting;
use crate::group::digests::{DataDigest, OmapDigest};
use crate::group::lookup::{NoAnswer, ready};
use crate::group::object_info::OBJECT_INFO_ATTR;
use crate::messages::scrub::ScrubGet;
use bytes::Bytes;
use std::collections::VecDeque;
use std::sync::Arc;
use store::{LookupId, ObjectStat, ReadError, Store};
use types::crc32c::{self, SEED};
use types::{BLOCK_BYTES, ObjectId, SnapId};
use wire::Rope;

/// Objects of one chunk at most; if a member has more in its range, the chunk is cut.
pub(super) const CHUNK_OBJECTS: usize = 16;
/// A deep chunk ends behind the object with which it has read so many bytes.
const CHUNK_BYTES: u64 = 2 << 20;
/// Bytes of one read.
const PIECE_BYTES: u64 = 256 << 10;
const _: () = assert!(
    PIECE_BYTES.is_multiple_of(BLOCK_BYTES as u64) && PIECE_BYTES <= CHUNK_BYTES,
    "a read is of whole blocks, so that no block is read twice, and no longer than a chunk"
);
/// Omap entries listed at a time.
const OMAP_ENTRIES: usize = 512;
/// Attributes beside object information that are sent with the objects of a chunk.
const ATTRS_BYTES: usize = 256 << 10;
/// Steps that need no device in one turn: some tens of microseconds.
const STEPS: usize = 16;

/// Progress of a scan in one turn.
#[derive(Debug)]
pub(super) enum ScanProgress {
    Waits(LookupId),
    /// The scan goes on in another turn.
    Later,
    Done(ScrubMap),
}

/// One range on its way.
#[derive(Debug)]
pub(super) struct ChunkScan {
    pub asked: ScrubGet,
    pub waits_for: Option<LookupId>,
    listed: Option<VecDeque<ObjectId>>,
    reading: Option<Reading>,
    bytes_read: u64,
    /// Bytes of attributes in the map.
    attr_bytes: usize,
    map: ScrubMap,
}

/// One object on its way.
#[derive(Debug)]
struct Reading {
    scan: ObjectScan,
    stat: Option<Arc<ObjectStat>>,
    /// Entries up to this key were read; `None` once all were.
    omap_after: Option<Bytes>,
    /// Ranges left to read, once they are known.
    pieces: Option<VecDeque<(u64, u64)>>,
    data: DataDigest,
    /// Fingerprints, if it is a shard.
    prints: Option<Fingerprinting>,
    omap: OmapDigest,
}

impl ChunkScan {
    pub fn new(asked: ScrubGet) -> ChunkScan {
        let map = ScrubMap::default();
        ChunkScan { asked, waits_for: None, listed: None, reading: None, bytes_read: 0, attr_bytes: 0, map }
    }

    pub fn advance(&mut self, store: &mut Store) -> ScanProgress {
        for _ in 0..STEPS {
            match self.step(store) {
                Ok(false) => {}
                Ok(true) => return ScanProgress::Done(std::mem::take(&mut self.map)),
                Err(NoAnswer::Pending(id)) => {
                    self.waits_for = Some(id);
                    return ScanProgress::Waits(id);
                }
                Err(NoAnswer::Damaged(damage)) => match self.reading.take() {
                    Some(mut reading) => {
                        reading.scan.metadata_error = Some(damage.to_string());
                        self.is_scanned(reading.scan);
                    }
                    None => {
                        self.map.list_error = Some(damage.to_string());
                        return ScanProgress::Done(std::mem::take(&mut self.map));
                    }
                },
            }
        }
        ScanProgress::Later
    }

    /// Takes bytes that were waited for, or the reason why they cannot be had.
    pub fn data_came(&mut self, result: Result<Rope, ReadError>) {
        let Some(reading) = &mut self.reading else { return };
        self.bytes_read += reading.piece_read(result);
    }

    fn is_scanned(&mut self, mut scan: ObjectScan) {
        let bytes = scan.attr_bytes();
        match self.attr_bytes + bytes <= ATTRS_BYTES {
            true => self.attr_bytes += bytes,
            false => scan.attrs = None,
        }
        self.map.objects.push(scan);
    }

    /// Takes one step. `Ok(true)`: that was all.
    fn step(&mut self, store: &mut Store) -> Result<bool, NoAnswer> {
        let Some(listed) = &mut self.listed else {
            let ScrubGet { from, until, .. } = &self.asked;
            let mut listed: VecDeque<_> = ready(store.list(from, until, CHUNK_OBJECTS + 1))?.into();
            if listed.len() > CHUNK_OBJECTS {
                self.map.until = listed.pop_back();
            }
            self.listed = Some(listed);
            return Ok(false);
        };
        if let Some(reading) = &mut self.reading {
            if let Some(bytes) = reading.step(store, self.asked.deep)? {
                self.bytes_read += bytes;
                return Ok(false);
            }
            let reading = self.reading.take().expect("just seen");
            // A listed object may turn out to be gone.
            if reading.stat.is_some() {
                self.is_scanned(reading.finished(self.asked.deep));
            }
            return Ok(false);
        }
        match listed.pop_front() {
            None => Ok(true),
            Some(object) if self.bytes_read >= CHUNK_BYTES => {
                self.map.until = Some(object);
                Ok(true)
            }
            Some(object) => {
                self.reading = Some(Reading::of(object));
                Ok(false)
            }
        }
    }
}

impl Reading {
    fn of(object: ObjectId) -> Reading {
        let prints = object.pool.shard().map(|_| Fingerprinting::default());
        Reading {
            scan: ObjectScan::of(object),
            stat: None,
            omap_after: None,
            pieces: None,
            data: DataDigest::default(),
            prints,
            omap: OmapDigest::of_header(b""),
        }
    }

    /// Takes one step, and returns how many bytes of data it has read. `None`: nothing is left.
    fn step(&mut self, store: &mut Store, deep: bool) -> Result<Option<u64>, NoAnswer> {
        let object = &self.scan.object;
        if self.stat.is_none() {
            let Some(stat) = ready(store.stat(object))? else { return Ok(None) };
            // An empty omap and none are the same: recovery brings nothing for either.
            let header = if stat.has_omap { ready(store.omap_header(object))? } else { Bytes::new() };
            self.scan.omap_crc = with_length(SEED, &header);
            self.scan.omap_bytes = header.len() as u64;
            self.omap = OmapDigest::of_header(&header);
            self.omap_after = stat.has_omap.then(Bytes::new);
            self.scan.size_bytes = stat.size_bytes;
            let attrs = self.scan.attrs.get_or_insert_default();
            for (name, value) in stat.attrs.iter() {
                if name == OBJECT_INFO_ATTR {
                    self.scan.info = Some(value.clone());
                } else {
                    self.scan.attrs_crc = with_length(with_length(self.scan.attrs_crc, name), value);
                    attrs.insert(Bytes::copy_from_slice(name), value.clone());
                }
            }
            self.stat = Some(stat);
            return Ok(Some(0));
        }
        if let Some(after) = &self.omap_after {
            let (entries, more) = ready(store.omap_list(object, after, b"", OMAP_ENTRIES))?;
            for (key, value) in &entries {
                self.scan.omap_keys += 1;
                self.scan.omap_bytes += (key.len() + value.len()) as u64;
                self.scan.omap_crc = with_length(with_length(self.scan.omap_crc, key), value);
                self.omap.add(key, value);
            }
            self.omap_after = entries.last().filter(|_| more).map(|(key, _)| key.clone());
            return Ok(Some(0));
        }
        if !deep {
            return Ok(None);
        }
        let Some(pieces) = &mut self.pieces else {
            let extents = match self.scan.size_bytes {
                0 => Vec::new(),
                size => ready(store.extents(object, 0, size))?,
            };
            let cut = |(offset, len): (u64, u64)| {
                // Whole blocks, as each is read as a whole anyway.
                let (begin, end) = (offset / BLOCK_BYTES as u64 * BLOCK_BYTES as u64, offset + len);
                (begin..end).step_by(PIECE_BYTES as usize).map(move |at| (at, PIECE_BYTES.min(end - at)))
            };
            self.pieces = Some(extents.into_iter().flat_map(cut).collect());
            return Ok(Some(0));
        };
        let Some(&(offset, len)) = pieces.front() else { return Ok(None) };
        let bytes = ready(store.verify(object, offset, len))?;
        Ok(Some(self.piece_read(Ok(bytes))))
    }

    /// Takes the first piece left, which has been read. Returns its cost, in bytes.
    fn piece_read(&mut self, result: Result<Rope, ReadError>) -> u64 {
        let Some((offset, len)) = self.pieces.as_mut().and_then(VecDeque::pop_front) else { return 0 };
        match result {
            // Two runs may share a block.
            Ok(bytes) => {
                self.data.add(offset, &bytes);
                self.prints.iter_mut().for_each(|prints| prints.add(offset, &bytes));
            }
            Err(error) => drop(self.scan.read_error.get_or_insert(error.to_string())),
        }
        len
    }

    fn finished(mut self, deep: bool) -> ObjectScan {
        if deep && self.scan.read_error.is_none() {
            self.scan.data_crc = self.data.of(self.scan.size_bytes);
            self.scan.fingerprints = self.prints.map(Fingerprinting::finished);
        }
        self.scan.omap_digest = Some(self.omap.get());
        self.scan
    }
}

/// Returns the register after a value and its length, so that two values are never one.
fn with_length(crc: u32, value: &[u8]) -> u32 {
    crc32c::update(crc32c::update(crc, &(value.len() as u64).to_le_bytes()), value)
}

/// Returns the position behind an object.
pub(super) fn just_behind(object: &ObjectId) -> ObjectId {
    ObjectId { snap: SnapId(object.snap.0.saturating_add(1)), ..object.clone() }
}
