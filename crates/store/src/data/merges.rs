//! Blocks written in part: the new block is made of the old one and the bytes written.
//!
//! The object's map names the new block at once; its content and checksum follow when the old block has been read.
//! Until then its transaction waits, and with it every later one.

use crate::config::BLOCK;
use crate::disk::key::Key;
use crate::engine::io_queue::Purpose;
use crate::space::run::Run;
use crate::{LookupId, Store};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::ops::Range;
use types::{AlignedBuf, BufPool, crc32c};
use wire::Rope;

/// Bytes to put over a block, or to add to it: their offset in the block, and the bytes.
#[derive(Clone, Debug)]
pub(crate) struct Patch {
    pub at: usize,
    pub data: Rope,
    /// True if they are added by exclusive or.
    pub is_added: bool,
}

impl Patch {
    /// Bytes that replace those of the block.
    pub fn over(at: usize, data: Rope) -> Patch {
        Patch { at, data, is_added: false }
    }

    /// Bytes that are added to those of the block.
    pub fn added(at: usize, data: Rope) -> Patch {
        Patch { at, data, is_added: true }
    }
}

/// The place of the block's checksum in the merge's transaction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CrcSlot {
    pub ticket: u64,
    /// Offset of the mapping's checksums.
    pub checksums_at: usize,
    pub index: usize,
}

/// One of the blocks that a block is made of.
#[derive(Debug)]
enum Input {
    /// The block is not in memory yet. `crc`: its expected checksum, if it is read from the device.
    Waiting {
        crc: u32,
    },
    Here(Bytes),
    Damaged,
}

impl From<Option<Bytes>> for Input {
    fn from(block: Option<Bytes>) -> Input {
        block.map_or(Input::Damaged, Input::Here)
    }
}

/// Names one of a merge's inputs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Which {
    Base,
    Over,
}

#[derive(Debug)]
pub(crate) struct BlockMerge {
    base: Input,
    /// A part of another block that is put over the base, for a clone of a range.
    over: Option<(Range<usize>, Input)>,
    patch: Patch,
    slot: CrcSlot,
    /// Objects, and block numbers in them, that name this block: the first one, and clones made meanwhile.
    holders: Vec<(Key, u32)>,
    /// Merges that wait for this one's outcome.
    next: Vec<(u32, Which)>,
    readers: Vec<(LookupId, usize)>,
}

impl BlockMerge {
    fn inputs(&self) -> impl Iterator<Item = &Input> {
        [Some(&self.base), self.over.as_ref().map(|(_, input)| input)].into_iter().flatten()
    }

    fn input(&mut self, which: Which) -> &mut Input {
        match which {
            Which::Base => &mut self.base,
            Which::Over => self.over.as_mut().map(|(_, input)| input).expect("a merge of two blocks"),
        }
    }
}

/// Merges under way, by the device block that they make.
#[derive(Default, Debug)]
pub(crate) struct Merges {
    merges: BTreeMap<u32, BlockMerge>,
}

/// The source of the bytes of a block that a write does not cover.
#[derive(Debug)]
pub(crate) enum Base {
    /// No bytes, or none that remain.
    Zeros,
    Memory {
        block: Rope,
        damaged: bool,
    },
    Device {
        device: u32,
        crc: u32,
    },
    /// Another merge, named by the block that it makes.
    Merge(u32),
}

impl Merges {
    pub fn is_empty(&self) -> bool {
        self.merges.is_empty()
    }

    pub fn contains(&self, device: u32) -> bool {
        self.merges.contains_key(&device)
    }

    /// Returns the first block of a run that is being merged.
    pub fn first_in(&self, run: Run) -> Option<u32> {
        self.merges.range(run.start..run.end()).next().map(|(device, _)| *device)
    }

    /// Makes a read wait for a block: the read's part `at` becomes ready with it.
    pub fn wait(&mut self, device: u32, id: LookupId, at: usize) {
        self.merges.get_mut(&device).expect("the reader saw it").readers.push((id, at));
    }

    /// Notes that `to` now holds blocks of `from`: each of them that is being merged gets one more holder. `place` maps
    /// an object block of `from` to the object block of `to` that shares it, given the device block, or returns `None`.
    pub fn cloned(&mut self, from: &[u8], to: &[u8], place: impl Fn(u32, u32) -> Option<u32>) {
        for (device, merge) in &mut self.merges {
            let of_source = merge.holders.iter().filter(|(key, _)| **key == *from);
            let added: Vec<(Key, u32)> =
                of_source.filter_map(|(_, at)| place(*at, *device)).map(|at| (to.into(), at)).collect();
            merge.holders.extend(added);
        }
    }
}

/// Returns a whole block: the base with the patch over it, or added to it.
pub(crate) fn merged(base: Option<&[u8]>, patch: &Patch, buffers: &BufPool) -> AlignedBuf {
    let mut block = buffers.take(BLOCK as usize);
    match base {
        Some(base) => block.as_mut_slice().copy_from_slice(base),
        None => block.as_mut_slice().fill(0),
    }
    let mut at = patch.at;
    for piece in patch.data.pieces() {
        let target = &mut block.as_mut_slice()[at..at + piece.len()];
        match patch.is_added {
            true => target.iter_mut().zip(&piece[..]).for_each(|(byte, added)| *byte ^= added),
            false => target.copy_from_slice(piece),
        }
        at += piece.len();
    }
    block
}

/// Returns a checksum that the content does not have, for blocks made of damaged bytes: reading them stays an error
/// until a repair rewrites them whole.
pub(crate) fn damaged_crc(crc: u32) -> u32 {
    !crc
}

static ZEROS: [u8; BLOCK as usize] = [0; BLOCK as usize];

impl Store {
    /// Begins to make the block `target` of `holder` from `base` and the bytes over it, at least one of which is not in
    /// memory.
    pub(crate) fn begin_merge(
        &mut self,
        target: u32,
        holder: (Key, u32),
        base: Base,
        over: Option<(Range<usize>, Base)>,
        patch: Patch,
        slot: CrcSlot,
    ) {
        let base = self.begin_input(target, Which::Base, base);
        let over = over.map(|(range, base)| (range, self.begin_input(target, Which::Over, base)));
        let merge =
            BlockMerge { base, over, patch, slot, holders: vec![holder], next: Vec::new(), readers: Vec::new() };
        assert!(merge.inputs().any(|input| matches!(input, Input::Waiting { .. })), "a merge begun with all it needs");
        self.merges.merges.insert(target, merge);
    }

    fn begin_input(&mut self, target: u32, which: Which, base: Base) -> Input {
        match base {
            Base::Zeros => Input::Here(Bytes::from_static(&ZEROS)),
            Base::Memory { damaged: true, .. } => Input::Damaged,
            Base::Memory { block, .. } => Input::Here(block.into_bytes()),
            Base::Device { device, crc } => {
                let sequence = self.freeing.begin_read();
                let purpose = Purpose::MergeRead { target, which, sequence };
                self.io.read(purpose, Run { start: device, count: 1 }, &self.buffers);
                Input::Waiting { crc }
            }
            Base::Merge(other) => {
                self.merges.merges.get_mut(&other).expect("seen by the caller").next.push((target, which));
                Input::Waiting { crc: 0 }
            }
        }
    }

    pub(crate) fn merge_read_done(
        &mut self,
        target: u32,
        which: Which,
        sequence: u64,
        result: Result<AlignedBuf, i32>,
    ) {
        self.freeing.end_read(sequence);
        let input = self.merges.merges.get_mut(&target).expect("a merge waits for its reads").input(which);
        let Input::Waiting { crc } = *input else { panic!("{which:?} of block {target} was read, but is {input:?}") };
        // A device error or a wrong checksum must not pass for content, and must not stop other transactions.
        let sound = result.ok().filter(|block| crc32c::checksum(block.as_slice()) == crc);
        *input = sound.map(AlignedBuf::freeze).into();
        self.finish_merges(target);
        self.release_freed();
    }

    /// Makes the block `target`, if all its inputs are in memory, and then all merges that wait for it.
    fn finish_merges(&mut self, target: u32) {
        let mut ready = vec![target];
        while let Some(target) = ready.pop() {
            // A merge that takes the same block twice is named twice.
            let Some(merge) = self.merges.merges.get(&target) else { continue };
            if merge.inputs().any(|input| matches!(input, Input::Waiting { .. })) {
                continue;
            }
            let merge = self.merges.merges.remove(&target).expect("just seen");
            let damaged = merge.inputs().any(|input| matches!(input, Input::Damaged));
            let base = if let Input::Here(base) = &merge.base { Some(&base[..]) } else { None };
            let mut block = merged(base, &merge.patch, &self.buffers);
            if let Some((range, Input::Here(over))) = merge.over {
                block.as_mut_slice()[range.clone()].copy_from_slice(&over[range]);
            }
            let crc = crc32c::checksum(block.as_slice());
            let crc = if damaged { damaged_crc(crc) } else { crc };
            let block = block.freeze();
            for (key, at) in &merge.holders {
                self.state.patch_crc(key, *at, target, crc);
            }
            self.turns.merged(merge.slot, crc, target, block.clone().into());
            self.in_flight.insert(target, block.clone().into(), damaged);
            let outcome = (!damaged).then_some(block);
            for (id, at) in merge.readers {
                self.merged_part_ready(id, at, outcome.clone().map(Rope::from));
            }
            for (next, which) in merge.next {
                let waiting = self.merges.merges.get_mut(&next).expect("it waits for this one");
                *waiting.input(which) = outcome.clone().into();
                ready.push(next);
            }
        }
    }
}
