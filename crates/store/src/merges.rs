//! Blocks written in part: the new block is made of the old one and the bytes written.
//!
//! The object's map names the new block at once; its content and checksum follow when the old block has been read.
//! Until then its transaction, and with it every later one, waits.

use crate::allocator::Run;
use crate::config::BLOCK;
use crate::io_queue::Purpose;
use crate::key::Key;
use crate::{LookupId, Store};
use std::collections::BTreeMap;
use types::{AlignedBuf, BufPool, crc32c};
use wire::Rope;

/// Bytes to put over a block: where in the block, and what.
#[derive(Clone, Debug)]
pub(crate) struct Patch {
    pub at: usize,
    pub data: Rope,
}

/// Where a merge's transaction keeps the block's checksum.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CrcSlot {
    pub ticket: u64,
    pub step: usize,
    pub index: usize,
}

#[derive(Debug)]
pub(crate) struct Merge {
    patch: Patch,
    /// What the old block's checksum should be, when it is read from the device.
    base_crc: u32,
    slot: CrcSlot,
    /// Objects and blocks in them that name this block: one, and clones made meanwhile.
    holders: Vec<(Key, u32)>,
    /// Merges that go on from this one's outcome.
    next: Vec<u32>,
    readers: Vec<(LookupId, usize)>,
}

/// Merges under way, by the device block they make.
#[derive(Default, Debug)]
pub(crate) struct Merges {
    merges: BTreeMap<u32, Merge>,
}

/// Where the rest of a block written in part comes from.
#[derive(Debug)]
pub(crate) enum Base {
    /// Nothing, or nothing that will remain.
    Zeros,
    Memory {
        block: Rope,
        damaged: bool,
    },
    Device {
        device: u32,
        crc: u32,
    },
    /// Another merge, by the block it makes.
    Merge(u32),
}

impl Merges {
    pub fn is_empty(&self) -> bool {
        self.merges.is_empty()
    }

    pub fn contains(&self, device: u32) -> bool {
        self.merges.contains_key(&device)
    }

    /// The first block of a run that is being merged.
    pub fn first_in(&self, run: Run) -> Option<u32> {
        self.merges.range(run.start..run.end()).next().map(|(device, _)| *device)
    }

    /// A read waits for a block: its part `at` becomes ready with it.
    pub fn wait(&mut self, device: u32, id: LookupId, at: usize) {
        self.merges.get_mut(&device).expect("the reader saw it").readers.push((id, at));
    }

    /// `to` now holds the blocks of `from`: those of them that are being merged have one more holder. `still_there`
    /// tells whether `from` still has a device block at an object block.
    pub fn cloned(&mut self, from: &[u8], to: &[u8], still_there: impl Fn(u32, u32) -> bool) {
        for (device, merge) in &mut self.merges {
            let at =
                merge.holders.iter().find(|(key, at)| **key == *from && still_there(*at, *device)).map(|(_, at)| *at);
            merge.holders.extend(at.map(|at| (to.into(), at)));
        }
    }
}

/// A whole block from its base and what was written over it.
pub(crate) fn merged(base: Option<&[u8]>, patch: &Patch, buffers: &BufPool) -> AlignedBuf {
    let mut block = buffers.take(BLOCK as usize);
    match base {
        Some(base) => block.as_mut_slice().copy_from_slice(base),
        None => block.as_mut_slice().fill(0),
    }
    let mut at = patch.at;
    for piece in patch.data.pieces() {
        block.as_mut_slice()[at..at + piece.len()].copy_from_slice(piece);
        at += piece.len();
    }
    block
}

/// A checksum that the content does not have, for blocks made of damaged bytes: reading them stays an error, until
/// whoever can repair them writes them whole.
pub(crate) fn damaged_crc(crc: u32) -> u32 {
    !crc
}

impl Store {
    /// Begins to make the block `target` of `holder`. `base` is not ready.
    pub(crate) fn begin_merge(&mut self, target: u32, holder: (Key, u32), base: Base, patch: Patch, slot: CrcSlot) {
        let mut merge =
            Merge { patch, base_crc: 0, slot, holders: vec![holder], next: Vec::new(), readers: Vec::new() };
        match base {
            Base::Device { device, crc } => {
                merge.base_crc = crc;
                let sequence = self.freeing.begin_read();
                self.io.read(Purpose::MergeRead { target, sequence }, Run { start: device, count: 1 }, &self.buffers);
            }
            Base::Merge(other) => self.merges.merges.get_mut(&other).expect("seen by the caller").next.push(target),
            Base::Zeros | Base::Memory { .. } => panic!("a merge begun with all it needs"),
        }
        self.merges.merges.insert(target, merge);
    }

    pub(crate) fn merge_read_done(&mut self, target: u32, sequence: u64, result: Result<AlignedBuf, i32>) {
        self.freeing.end_read(sequence);
        let expected = self.merges.merges[&target].base_crc;
        // Neither a device's error nor a wrong checksum may pass for content, nor stop other transactions.
        let sound = result.ok().filter(|block| crc32c::checksum(block.as_slice()) == expected);
        self.finish_merges(target, sound);
        self.release_freed();
    }

    /// Makes the block `target` from its base (`None`: damaged), and then all that wait for it.
    fn finish_merges(&mut self, target: u32, base: Option<AlignedBuf>) {
        let mut ready = vec![(target, base.map(AlignedBuf::freeze))];
        while let Some((target, base)) = ready.pop() {
            let merge = self.merges.merges.remove(&target).expect("merges end once");
            let block = merged(base.as_deref(), &merge.patch, &self.buffers);
            let crc = crc32c::checksum(block.as_slice());
            let crc = if base.is_some() { crc } else { damaged_crc(crc) };
            let block = block.freeze();
            for (key, at) in &merge.holders {
                self.state.patch_crc(key, *at, target, crc);
            }
            self.turns.merged(merge.slot, crc, target, block.clone().into());
            self.in_flight.insert(target, block.clone().into(), base.is_none());
            let outcome = base.map(|_| block);
            for (id, at) in merge.readers {
                self.merged_part_ready(id, at, outcome.clone().map(Rope::from));
            }
            ready.extend(merge.next.into_iter().map(|next| (next, outcome.clone())));
        }
    }
}
