//! Places of an object's blocks on the device, and their checksums.

use crate::OBJECT_BYTES_MAX;
use crate::config::BLOCK;
use crate::disk::numbers::SEGMENT_RUN_BYTES;
use crate::space::run::Run;
use std::sync::Arc;
use wire::{DecodeError, Reader};

/// Number of an object's blocks in a segment: 128 KiB. A small write touches one segment.
pub(crate) const SEGMENT_BLOCKS: u32 = 32;
// A record has five bits for the first block of a run, and six for their number: the rest is reserved.
const _: () = assert!(SEGMENT_BLOCKS <= 1 << 5);
// Every block of the largest object has a number, and its segment too.
const _: () = assert!(OBJECT_BYTES_MAX / BLOCK <= u32::MAX as u64);

/// One block's place on the device and its crc32c.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct BlockRef {
    pub device: u32,
    pub crc: u32,
}

/// The most bytes of a segment's record: each block is a run of its own.
const SEGMENT_BYTES_MAX: usize = SEGMENT_BLOCKS as usize * (SEGMENT_RUN_BYTES + size_of::<u32>());

/// The value that stands for a hole.
const HOLE: BlockRef = BlockRef { device: u32::MAX, crc: 0 };

/// The blocks of one segment, in the form that takes the least memory. Clones share the content until one of them
/// changes.
#[derive(Clone, Debug)]
enum Segment {
    One {
        index: u8,
        block: BlockRef,
    },
    /// Blocks that adjoin in the object and on the device.
    Run {
        first: u8,
        device: u32,
        crcs: Arc<[u32]>,
    },
    Scattered(Arc<[BlockRef; SEGMENT_BLOCKS as usize]>),
}

type Flat = [BlockRef; SEGMENT_BLOCKS as usize];

impl Segment {
    fn get(&self, index: u32) -> Option<BlockRef> {
        match self {
            Segment::One { index: i, block } => (u32::from(*i) == index).then_some(*block),
            Segment::Run { first, device, crcs } => {
                let at = index.checked_sub(u32::from(*first))?;
                crcs.get(at as usize).map(|crc| BlockRef { device: device + at, crc: *crc })
            }
            Segment::Scattered(blocks) => Some(blocks[index as usize]).filter(|block| block.device != HOLE.device),
        }
    }

    fn flat(&self) -> Flat {
        let mut flat = [HOLE; SEGMENT_BLOCKS as usize];
        match self {
            Segment::One { index, block } => flat[usize::from(*index)] = *block,
            Segment::Run { first, device, crcs } => {
                let slots = flat[usize::from(*first)..].iter_mut();
                for ((slot, crc), device) in slots.zip(&**crcs).zip(*device..) {
                    *slot = BlockRef { device, crc: *crc };
                }
            }
            Segment::Scattered(blocks) => flat = **blocks,
        }
        flat
    }

    /// Returns the smallest form; `None` if all blocks are holes.
    fn pack(flat: &Flat) -> Option<Segment> {
        let first = flat.iter().position(|block| block.device != HOLE.device)?;
        let last = flat.iter().rposition(|block| block.device != HOLE.device)?;
        if first == last {
            return Some(Segment::One { index: first as u8, block: flat[first] });
        }
        let device = flat[first].device;
        let in_line = flat[first..=last].iter().zip(device..).all(|(block, expected)| block.device == expected);
        Some(match in_line {
            true => {
                let crcs = flat[first..=last].iter().map(|block| block.crc).collect();
                Segment::Run { first: first as u8, device, crcs }
            }
            false => Segment::Scattered(Arc::new(*flat)),
        })
    }
}

#[derive(Clone, Debug)]
struct SegmentSlot {
    index: u32,
    segment: Segment,
}

/// One more than the number of the last segment that any object can have.
pub(crate) const SEGMENTS_END: u32 = u32::MAX / SEGMENT_BLOCKS + 1;

/// Returns the segments with any of the blocks `first .. end`, as a half-open range.
pub(crate) fn segments_of(first: u32, end: u64) -> (u32, u32) {
    let end = end.div_ceil(u64::from(SEGMENT_BLOCKS)).min(u64::from(SEGMENTS_END)) as u32;
    (first / SEGMENT_BLOCKS, end)
}

/// Segments whose blocks are in the map, even if all of them are holes. Nothing is known of the other segments, which
/// are on the device.
#[derive(Clone, Default, Debug)]
enum Known {
    #[default]
    All,
    /// Ranges of segments that neither overlap nor touch, in order.
    Some(Vec<(u32, u32)>),
}

/// An object's block map, or the part of it that is in memory: block number in the object to [`BlockRef`].
#[derive(Clone, Default, Debug)]
pub(crate) struct BlockMap {
    /// Segments, ordered by index. A segment that is all holes is left out.
    slots: Vec<SegmentSlot>,
    known: Known,
}

impl BlockMap {
    /// Creates a map of which only the end is known: there are no blocks behind the first `blocks`.
    pub fn unknown(blocks: u64) -> BlockMap {
        let mut map = BlockMap { slots: Vec::new(), known: Known::Some(Vec::new()) };
        map.learn(segments_of(0, blocks).1, SEGMENTS_END);
        map
    }

    /// Returns the first range of unknown segments, among those with any of the blocks `first .. end`.
    pub fn first_unknown(&self, first: u32, end: u64) -> Option<(u32, u32)> {
        let Known::Some(known) = &self.known else { return None };
        let (mut at, end) = segments_of(first, end);
        for (begin, behind) in known {
            if *behind <= at {
                continue;
            }
            if *begin > at {
                return (at < end).then_some((at, end.min(*begin)));
            }
            at = *behind;
        }
        (at < end).then_some((at, end))
    }

    /// Marks the segments `begin .. end` as known: blocks that were not restored are holes.
    pub fn learn(&mut self, begin: u32, end: u32) {
        let Known::Some(known) = &mut self.known else { return };
        if begin >= end {
            return;
        }
        let from = known.partition_point(|(_, behind)| *behind < begin);
        let to = known.partition_point(|(first, _)| *first <= end);
        let joined =
            known[from..to].iter().fold((begin, end), |(b, e), (first, behind)| (b.min(*first), e.max(*behind)));
        known.splice(from..to, [joined]);
        if **known == [(0, SEGMENTS_END)] {
            self.known = Known::All;
        }
    }

    fn assert_known(&self, first: u32, end: u64) {
        if let Some((begin, behind)) = self.first_unknown(first, end) {
            panic!("segments {begin} to {behind} are needed for blocks {first} to {end}, but were not read");
        }
    }

    /// Returns the block's place; `None` for a hole. Panics if the segment is not known.
    pub fn get(&self, block: u32) -> Option<BlockRef> {
        self.assert_known(block, u64::from(block) + 1);
        let at = self.position(block / SEGMENT_BLOCKS).ok()?;
        self.slots[at].segment.get(block % SEGMENT_BLOCKS)
    }

    /// Puts `blocks` at `first ..`; passes the replaced blocks to `replaced`, in order. Panics if a segment is not
    /// known.
    pub fn map(
        &mut self,
        first: u32,
        blocks: impl ExactSizeIterator<Item = BlockRef>,
        mut replaced: impl FnMut(BlockRef),
    ) {
        let (mut at, mut left, mut blocks) = (first, blocks.len() as u32, blocks);
        self.assert_known(first, u64::from(first) + u64::from(left));
        while left > 0 {
            let (index, begin) = (at / SEGMENT_BLOCKS, at % SEGMENT_BLOCKS);
            let count = left.min(SEGMENT_BLOCKS - begin);
            let range = begin as usize..(begin + count) as usize;
            let mut put = |flat: &mut Flat| {
                for slot in &mut flat[range.clone()] {
                    let new = blocks.next().expect("as many as its length says");
                    let old = std::mem::replace(slot, new);
                    if old.device != HOLE.device {
                        replaced(old);
                    }
                }
            };
            match self.position(index) {
                Ok(position) => match &mut self.slots[position].segment {
                    // A long write may bring a scattered segment back in line.
                    Segment::Scattered(flat) if count < SEGMENT_BLOCKS / 2 => put(Arc::make_mut(flat)),
                    segment => {
                        let mut flat = segment.flat();
                        put(&mut flat);
                        *segment = Segment::pack(&flat).expect("blocks were just put there");
                    }
                },
                Err(position) => {
                    let mut flat = [HOLE; SEGMENT_BLOCKS as usize];
                    put(&mut flat);
                    let segment = Segment::pack(&flat).expect("blocks were just put there");
                    if self.slots.is_empty() {
                        // Most objects are either small or whole, and a vector's first growth would be to four.
                        self.slots.reserve_exact(left.div_ceil(SEGMENT_BLOCKS) as usize);
                    }
                    self.slots.insert(position, SegmentSlot { index, segment });
                }
            }
            at += count;
            left -= count;
        }
    }

    /// Makes holes of `first .. end`; passes the removed blocks to `removed`, in order. Panics if a segment is not
    /// known.
    pub fn unmap(&mut self, first: u32, end: u64, mut removed: impl FnMut(BlockRef)) {
        self.assert_known(first, end);
        let (mut position, first_index) =
            (self.position(first / SEGMENT_BLOCKS).unwrap_or_else(|at| at), first / SEGMENT_BLOCKS);
        let mut keep = position;
        while let Some(slot) = self.slots.get_mut(position) {
            let base = u64::from(slot.index) * u64::from(SEGMENT_BLOCKS);
            if base >= end {
                break;
            }
            let begin = if slot.index == first_index { first % SEGMENT_BLOCKS } else { 0 };
            let stop = (end - base).min(u64::from(SEGMENT_BLOCKS)) as u32;
            let mut flat = slot.segment.flat();
            for block in &mut flat[begin as usize..stop.max(begin) as usize] {
                let old = std::mem::replace(block, HOLE);
                if old.device != HOLE.device {
                    removed(old);
                }
            }
            if let Some(segment) = Segment::pack(&flat) {
                slot.segment = segment;
                self.slots.swap(keep, position);
                keep += 1;
            }
            position += 1;
        }
        self.slots.drain(keep..position);
    }

    /// Drops all blocks of the segments `begin .. end`, known or not.
    pub fn forget(&mut self, begin: u32, end: u32) {
        let from = self.position(begin).unwrap_or_else(|at| at);
        let to = self.position(end).unwrap_or_else(|at| at);
        self.slots.drain(from..to.max(from));
        self.learn(begin, end);
    }

    /// Changes the checksum of a block if it is known and still in its expected place. Returns true if so.
    pub fn patch_crc(&mut self, block: u32, device: u32, crc: u32) -> bool {
        if self.first_unknown(block, u64::from(block) + 1).is_some()
            || self.get(block).is_none_or(|found| found.device != device)
        {
            return false;
        }
        self.map(block, std::iter::once(BlockRef { device, crc }), |_| ());
        true
    }

    /// Visits each allocated block of `first .. end`, in order. Panics if a segment is not known.
    pub fn for_each(&self, first: u32, end: u64, mut visit: impl FnMut(u32, BlockRef)) {
        self.assert_known(first, end);
        let from = self.position(first / SEGMENT_BLOCKS).unwrap_or_else(|at| at);
        for slot in &self.slots[from..] {
            let base = slot.index * SEGMENT_BLOCKS;
            if u64::from(base) >= end {
                break;
            }
            let begin = first.saturating_sub(base);
            let stop = (end - u64::from(base)).min(u64::from(SEGMENT_BLOCKS)) as u32;
            for index in begin..stop {
                if let Some(block) = slot.segment.get(index) {
                    visit(base + index, block);
                }
            }
        }
    }

    /// Returns the allocated runs of `first .. end` that adjoin in the object and on the device: block number in the
    /// object, run.
    pub fn runs(&self, first: u32, end: u64) -> Vec<(u32, Run)> {
        let mut out: Vec<(u32, Run)> = Vec::new();
        self.for_each(first, end, |at, block| match out.last_mut() {
            Some((start, run)) if *start + run.count == at && run.end() == block.device => run.count += 1,
            _ => out.push((at, Run { start: block.device, count: 1 })),
        });
        out
    }

    /// Returns the number of known segments that are not all holes.
    pub fn segment_count(&self) -> usize {
        self.slots.len()
    }

    /// Returns the numbers of the segments with blocks of `first .. end` that are not all holes.
    pub fn segments(&self, first: u32, end: u64) -> impl Iterator<Item = u32> + '_ {
        self.assert_known(first, end);
        let from = self.position(first / SEGMENT_BLOCKS).unwrap_or_else(|at| at);
        let inside = move |index: &u32| u64::from(*index) * u64::from(SEGMENT_BLOCKS) < end;
        self.slots[from..].iter().map(|slot| slot.index).take_while(inside)
    }

    /// Sets `out` to a segment's record: runs, each with its first block in the segment (1), count (1), device block
    /// (4), and one crc32c (4) per block. Returns false if the segment is all holes.
    pub fn encode_segment(&self, index: u32, out: &mut Vec<u8>) -> bool {
        out.clear();
        let Ok(at) = self.position(index) else { return false };
        // A record is made of each write of a block: it is put together in place, not by growing `out` bit by bit.
        let mut record = SegmentRecord { bytes: [0; SEGMENT_BYTES_MAX], len: 0 };
        match &self.slots[at].segment {
            Segment::One { index, block } => {
                record.push_run(*index, *block);
            }
            Segment::Run { first, device, crcs } => {
                let head = record.push_run(*first, BlockRef { device: *device, crc: crcs[0] });
                crcs[1..].iter().for_each(|crc| record.push_block(head, *crc));
            }
            Segment::Scattered(blocks) => {
                let (mut head, mut next) = (0, HOLE.device);
                for (block, found) in (0u8..).zip(blocks.iter()) {
                    if found.device == HOLE.device {
                        next = HOLE.device;
                        continue;
                    }
                    match found.device == next {
                        true => record.push_block(head, found.crc),
                        false => head = record.push_run(block, *found),
                    }
                    next = found.device.wrapping_add(1);
                }
            }
        }
        out.extend_from_slice(&record.bytes[..record.len]);
        true
    }

    /// Takes in a segment's record. Errors: bytes that [`BlockMap::encode_segment`] does not make, or a segment that is
    /// in the map already.
    pub fn restore_segment(&mut self, index: u32, record: &[u8]) -> Result<(), DecodeError> {
        let malformed = DecodeError::Value { what: "segment of blocks", value: index.into() };
        let mut flat = [HOLE; SEGMENT_BLOCKS as usize];
        let (mut r, mut next) = (Reader::new(record), 0);
        while r.left() > 0 {
            let (first, count, device) = (r.u8()?, r.u8()?, r.u32()?);
            let end = usize::from(first) + usize::from(count);
            let is_on_device = device.checked_add(count.into()).is_some();
            if !is_on_device || first < next || count == 0 || end > SEGMENT_BLOCKS as usize {
                return Err(malformed);
            }
            for (slot, device) in flat[usize::from(first)..end].iter_mut().zip(device..) {
                *slot = BlockRef { device, crc: r.u32()? };
            }
            next = end as u8;
        }
        match (self.position(index), Segment::pack(&flat)) {
            (Err(at), Some(segment)) if index <= u32::MAX / SEGMENT_BLOCKS => {
                self.slots.insert(at, SegmentSlot { index, segment });
                Ok(())
            }
            _ => Err(malformed),
        }
    }

    /// Returns the number of allocated blocks.
    #[cfg(test)]
    pub fn block_count(&self) -> u64 {
        let count = |slot: &SegmentSlot| match &slot.segment {
            Segment::One { .. } => 1,
            Segment::Run { crcs, .. } => crcs.len() as u64,
            Segment::Scattered(flat) => flat.iter().filter(|block| block.device != HOLE.device).count() as u64,
        };
        self.slots.iter().map(count).sum()
    }

    fn position(&self, index: u32) -> Result<usize, usize> {
        // In an object without holes a segment's position is its index.
        match self.slots.get(index as usize) {
            Some(slot) if slot.index == index => Ok(index as usize),
            _ => self.slots.binary_search_by_key(&index, |slot| slot.index),
        }
    }
}

/// A segment's record being made.
struct SegmentRecord {
    bytes: [u8; SEGMENT_BYTES_MAX],
    len: usize,
}

impl SegmentRecord {
    fn push<const N: usize>(&mut self, field: [u8; N]) {
        *self.bytes[self.len..].first_chunk_mut().expect("there is room for as many runs as blocks") = field;
        self.len += N;
    }

    /// Appends a run of one block, and returns its place.
    fn push_run(&mut self, first: u8, block: BlockRef) -> usize {
        let ([a, b, c, d], [e, f, g, h]) = (block.device.to_le_bytes(), block.crc.to_le_bytes());
        self.push([first, 1, a, b, c, d, e, f, g, h]);
        self.len - SEGMENT_RUN_BYTES - size_of::<u32>()
    }

    /// Adds a block to the run at `head`, which is the last.
    fn push_block(&mut self, head: usize, crc: u32) {
        self.bytes[head + 1] += 1;
        self.push(crc.to_le_bytes());
    }
}

/// Returns a segment's record with another checksum for a block, if the block is still in its expected place.
pub(crate) fn patch_segment(record: &[u8], block: u32, device: u32, crc: u32) -> Option<Vec<u8>> {
    let mut map = BlockMap::default();
    map.restore_segment(0, record).expect("our own record");
    let mut out = Vec::new();
    (map.patch_crc(block % SEGMENT_BLOCKS, device, crc) && map.encode_segment(0, &mut out)).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[derive(Clone, Debug)]
    enum MapChange {
        Map { first: u32, count: u32, device: u32, stride: u32 },
        Unmap { first: u32, end: u64 },
        Crc { block: u32 },
    }

    fn changes() -> impl Strategy<Value = MapChange> {
        prop_oneof![
            (0u32..200, 1u32..90, 0u32..5000, 1u32..3).prop_map(|(first, count, device, stride)| MapChange::Map {
                first,
                count,
                device,
                stride
            }),
            (0u32..200, 0u64..300).prop_map(|(first, end)| MapChange::Unmap { first, end }),
            (0u32..200).prop_map(|block| MapChange::Crc { block }),
        ]
    }

    proptest! {
        #[test]
        fn behaves_like_a_map_of_blocks(all in prop::collection::vec(changes(), 0..30)) {
            let (mut map, mut model): (BlockMap, BTreeMap<u32, BlockRef>) = Default::default();
            let mut crc = 0;
            for change in all {
                let before = map.clone();
                let expected_before = model.clone();
                let (mut gone, mut gone_in_model) = (Vec::new(), Vec::new());
                match change {
                    MapChange::Map { first, count, device, stride } => {
                        let new: Vec<BlockRef> = (0..count).map(|i| { crc += 1; BlockRef { device: device + i * stride, crc } }).collect();
                        map.map(first, new.iter().copied(), |old| gone.push(old));
                        gone_in_model.extend(new.iter().zip(first..).filter_map(|(b, at)| model.insert(at, *b)));
                    }
                    MapChange::Unmap { first, end } => {
                        map.unmap(first, end, |old| gone.push(old));
                        let keys: Vec<u32> = model.range(first..).map(|(k, _)| *k).filter(|k| u64::from(*k) < end).collect();
                        gone_in_model.extend(keys.iter().filter_map(|k| model.remove(k)));
                    }
                    MapChange::Crc { block } => {
                        if let Some(found) = model.get_mut(&block) {
                            found.crc ^= 0x55;
                            prop_assert!(map.patch_crc(block, found.device, found.crc));
                            prop_assert!(!map.patch_crc(block, found.device + 1, 0));
                        }
                    }
                }
                prop_assert_eq!(gone, gone_in_model);
                let mut seen = BTreeMap::new();
                map.for_each(0, u64::MAX, |at, block| { seen.insert(at, block); });
                prop_assert_eq!(&seen, &model);
                prop_assert!((0..300).all(|at| map.get(at) == model.get(&at).copied()));
                prop_assert_eq!(map.block_count(), model.len() as u64);
                let mut seen = BTreeMap::new();
                before.for_each(0, u64::MAX, |at, block| { seen.insert(at, block); });
                prop_assert_eq!(seen, expected_before, "a clone does not change");
                let mut again = BlockMap::default();
                let mut record = Vec::new();
                for index in map.segments(0, u64::MAX) {
                    prop_assert!(map.encode_segment(index, &mut record));
                    prop_assert!(again.restore_segment(index, &record).is_ok() && again.restore_segment(index, &record).is_err());
                }
                prop_assert_eq!(again.runs(0, u64::MAX), map.runs(0, u64::MAX));
                prop_assert_eq!(again.segment_count(), map.segment_count());
                prop_assert!((0..300).all(|at| again.get(at) == model.get(&at).copied()));
                let flat: Vec<(u32, u32)> = map.runs(5, 100).into_iter().flat_map(|(at, run)| (at..).zip(run.start..run.end())).collect();
                prop_assert_eq!(flat, model.range(5..100).map(|(at, b)| (*at, b.device)).collect::<Vec<_>>());
            }
        }
    }

    proptest! {
        #[test]
        fn what_is_known_is_the_union_of_what_was_learnt(blocks in 0u64..300, learnt in prop::collection::vec((0u32..20, 0u32..6), 0..10), first in 0u32..700, count in 0u64..700) {
            let mut map = BlockMap::unknown(blocks);
            let mut model = [false; 64];
            model[blocks.div_ceil(32) as usize..].fill(true);
            for (begin, count) in learnt {
                map.learn(begin, begin + count);
                model[begin as usize..(begin + count) as usize].fill(true);
            }
            let (begin, end) = segments_of(first, u64::from(first) + count);
            let unknown = (begin..end).find(|segment| !model[*segment as usize]);
            let behind = unknown.map(|from| (from..end).find(|segment| model[*segment as usize]).unwrap_or(end));
            prop_assert_eq!(map.first_unknown(first, u64::from(first) + count), unknown.zip(behind));
            map.learn(0, 64);
            prop_assert!(matches!(map.known, Known::All));
            prop_assert_eq!(map.first_unknown(0, u64::MAX), None);
        }

        #[test]
        fn any_segment_is_read_or_refused(index: u32, record in prop::collection::vec(any::<u8>(), 0..80)) {
            let mut map = BlockMap::default();
            if map.restore_segment(index, &record).is_ok() {
                map.for_each(0, u64::MAX, |_, _| ());
            }
        }
    }

    /// A run's first two bytes have room for flags of compression and encryption, and of larger devices.
    #[test]
    fn segments_with_flags_that_are_not_known_are_refused() {
        let mut map = BlockMap::default();
        map.map(0, (0..2).map(|i| BlockRef { device: 7 + i, crc: i }), |_| ());
        let mut record = Vec::new();
        assert!(map.encode_segment(0, &mut record));
        assert_eq!(record, [0, 2, 7, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0]);
        assert!(BlockMap::default().restore_segment(0, &record).is_ok());
        for bit in [5, 6, 7, 14, 15] {
            let mut flagged = record.clone();
            flagged[bit / 8] |= 1 << (bit % 8);
            assert!(BlockMap::default().restore_segment(0, &flagged).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn a_whole_object_takes_little_more_than_its_checksums() {
        let mut map = BlockMap::default();
        map.map(0, (0..1024).map(|i| BlockRef { device: i, crc: i }), |_| ());
        assert_eq!(map.slots.capacity(), 32);
        assert!(map.slots.iter().all(|slot| matches!(slot.segment, Segment::Run { .. })));
        assert_eq!(size_of::<SegmentSlot>(), 32);
        assert_eq!(map.runs(0, 1024), vec![(0, Run { start: 0, count: 1024 })]);
    }
}
