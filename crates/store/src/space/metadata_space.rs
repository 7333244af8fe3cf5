//! Blocks set aside for the metadata tree.
//!
//! A page takes two adjoining blocks, which a nearly full device may no longer have, although it has single ones. As
//! many blocks as a merge may need are therefore set aside in runs while there are such, and never go to data. A merge
//! takes other blocks as long as it can.
//!
//! Where the tree has a device of its own, all of this happens there, and the main device is left to data.

use crate::btree::{PAGE_BLOCKS, Space};
use crate::space::allocator::Allocator;
use crate::space::run::Run;
use std::collections::VecDeque;

#[derive(Debug)]
pub(crate) struct MetadataSpace {
    /// The allocator of the tree's own device, if it has one.
    own: Option<Allocator>,
    runs: Vec<Run>,
    blocks: u64,
    /// Pages that are in no tree any longer, with the number of the last job that may still look at them
    /// ([`crate::metadata::destroying`]).
    held: VecDeque<(u64, Vec<Run>)>,
    held_blocks: u64,
    /// Number of blocks set aside at once, so that the space for data is not cut into small pieces.
    run_blocks: u32,
}

impl MetadataSpace {
    /// Creates an empty space of the main device. It will be in runs of 256 KiB, or shorter ones on a small device.
    pub fn new(device_blocks: u32) -> MetadataSpace {
        MetadataSpace {
            own: None,
            runs: Vec::new(),
            blocks: 0,
            held: VecDeque::new(),
            held_blocks: 0,
            run_blocks: (device_blocks / 256).clamp(4, 64),
        }
    }

    /// Creates an empty space of the tree's own device, which it manages.
    pub fn on_its_own(allocator: Allocator) -> MetadataSpace {
        let blocks = allocator.blocks();
        MetadataSpace { own: Some(allocator), ..MetadataSpace::new(blocks) }
    }

    /// Returns the number of blocks of the main device that are set aside.
    pub fn blocks(&self) -> u64 {
        if self.own.is_some() { 0 } else { self.blocks }
    }

    /// Returns the number of free blocks of the tree's own device, including those set aside; `None` if the tree is on
    /// the main device.
    pub fn own_free_blocks(&self) -> Option<u64> {
        self.own.as_ref().map(|own| u64::from(own.free_blocks()) + self.blocks)
    }

    /// Returns true if this many blocks are set aside, or free on the tree's own device.
    pub fn has_aside(&self, blocks: u64) -> bool {
        self.own_free_blocks().unwrap_or(self.blocks) >= blocks
    }

    /// Holds blocks of replaced pages until all jobs up to `last` are done ([`MetadataSpace::next_held`]).
    pub fn hold(&mut self, last: u64, runs: Vec<Run>) {
        self.held_blocks += runs.iter().map(|run| u64::from(run.count)).sum::<u64>();
        self.held.push_back((last, runs));
    }

    /// Returns the number of held blocks, on the device of the tree.
    pub fn held_blocks(&self) -> u64 {
        self.held_blocks
    }

    /// Returns the next held blocks that no job looks at any longer, if all jobs before `first` are done.
    pub fn next_held(&mut self, first: u64) -> Option<Vec<Run>> {
        self.held.front().filter(|(last, _)| *last < first)?;
        let (_, runs) = self.held.pop_front().expect("just seen");
        self.held_blocks -= runs.iter().map(|run| u64::from(run.count)).sum::<u64>();
        Some(runs)
    }

    /// Returns the runs of the main device that are set aside, in no order.
    pub fn runs(&self) -> &[Run] {
        if self.own.is_some() { &[] } else { &self.runs }
    }

    /// Sets blocks aside or gives them back until about `wanted` are set aside, as far as there are runs of a page or
    /// more. `main`: the main device's allocator.
    pub fn adjust(&mut self, wanted: u64, main: &mut Allocator) {
        // A shrinking need is followed slowly, so that blocks do not go to and fro.
        self.give_back(2 * (wanted + u64::from(self.run_blocks)), main);
        let allocator = self.own.as_mut().unwrap_or(main);
        let mut count = self.run_blocks;
        while self.blocks < wanted && count >= PAGE_BLOCKS {
            match allocator.allocate_run(count) {
                Some(run) => add(&mut self.runs, &mut self.blocks, run),
                None => count /= 2,
            }
        }
    }

    /// Searches for pages all over the device, once, until `wanted` blocks are set aside; takes at most `spare` blocks.
    /// Returns true if `wanted` blocks are set aside.
    pub fn search(&mut self, wanted: u64, spare: u64, main: &mut Allocator) -> bool {
        let allocator = self.own.as_mut().unwrap_or(main);
        let (mut left, limit) = (allocator.run_searches(), self.blocks + spare);
        while self.blocks < wanted && self.blocks + u64::from(PAGE_BLOCKS) <= limit && left > 0 {
            match allocator.allocate_run(PAGE_BLOCKS) {
                Some(run) => add(&mut self.runs, &mut self.blocks, run),
                None => left -= 1,
            }
        }
        self.blocks >= wanted
    }

    /// Gives back blocks beyond this many. `main`: the main device's allocator.
    pub fn give_back(&mut self, blocks_max: u64, main: &mut Allocator) {
        let allocator = self.own.as_mut().unwrap_or(main);
        while self.blocks > blocks_max {
            let run = self.runs.pop().expect("blocks are in runs");
            self.blocks -= u64::from(run.count);
            allocator.release(run);
        }
    }

    /// Takes in blocks that a tree no longer holds, as far as they are wanted and of use; the rest becomes free on that
    /// device. `main`: the main device's allocator.
    pub fn take_back(&mut self, run: Run, wanted: u64, main: &mut Allocator) {
        if self.blocks < wanted && run.count >= PAGE_BLOCKS {
            add(&mut self.runs, &mut self.blocks, run);
        } else {
            self.own.as_mut().unwrap_or(main).release(run);
        }
    }

    /// Takes `min` to `wanted` of the blocks set aside.
    fn take(&mut self, min: u32, wanted: u32) -> Option<Run> {
        let at = self.runs.iter().rposition(|run| run.count >= min)?;
        let run = self.runs.swap_remove(at);
        let taken = Run { start: run.start, count: run.count.min(wanted) };
        if taken.count < run.count {
            self.runs.push(Run { start: taken.end(), count: run.count - taken.count });
        }
        self.blocks -= u64::from(taken.count);
        Some(taken)
    }
}

fn add(runs: &mut Vec<Run>, blocks: &mut u64, run: Run) {
    *blocks += u64::from(run.count);
    runs.push(run);
}

/// The space of a merge: blocks of the allocator first, then blocks set aside.
pub(crate) struct MergeSpace<'a> {
    /// Number of free blocks of the main device that the merge must leave.
    pub promised: u64,
    /// The main device's allocator.
    pub allocator: &'a mut Allocator,
    pub metadata: &'a mut MetadataSpace,
}

impl Space for MergeSpace<'_> {
    fn allocate(&mut self, min: u32, wanted: u32) -> Option<Run> {
        let is_own = self.metadata.own.is_some();
        let allocator = self.metadata.own.as_mut().unwrap_or(self.allocator);
        let mut count = wanted;
        let promised = if is_own { 0 } else { self.promised };
        while count >= min && u64::from(allocator.free_blocks()) >= promised + u64::from(count) {
            if let Some(run) = allocator.allocate_run(count) {
                return Some(run);
            }
            count /= 2;
        }
        if let Some(run) = self.metadata.take(min, wanted) {
            return Some(run);
        }
        // Taking promised blocks is better than stopping.
        self.metadata.own.as_mut().unwrap_or(self.allocator).allocate_run(min)
    }

    fn release(&mut self, run: Run) {
        self.metadata.own.as_mut().unwrap_or(self.allocator).release(run);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_find_room_where_only_single_blocks_are_free() {
        let mut allocator = Allocator::new(1000);
        allocator.release(Run { start: 0, count: 1000 });
        let mut metadata = MetadataSpace::new(16 << 10);
        metadata.adjust(100, &mut allocator);
        assert_eq!((metadata.blocks(), allocator.free_blocks()), (128, 872));
        // Every other block is used.
        let free: Vec<u32> = (0..1000).filter(|block| allocator.is_free(*block)).collect();
        free.iter().filter(|block| *block % 2 == 0).for_each(|block| allocator.take(Run { start: *block, count: 1 }));
        let mut space = MergeSpace { promised: 0, allocator: &mut allocator, metadata: &mut metadata };
        let mut taken = 0;
        while let Some(run) = space.allocate(2, 32) {
            assert!((2..=32).contains(&run.count));
            taken += run.count;
        }
        assert_eq!(taken, 128);
        let free = allocator.free_blocks();
        metadata.take_back(Run { start: 0, count: 2 }, 100, &mut allocator);
        metadata.take_back(Run { start: 4, count: 1 }, 100, &mut allocator);
        assert_eq!((metadata.blocks(), allocator.free_blocks()), (2, free + 1));
        metadata.adjust(1000, &mut allocator);
        assert!(metadata.blocks() < 10, "single blocks are of no use");
    }

    #[test]
    fn the_only_pages_of_a_scattered_device_are_found_wherever_they_are() {
        let blocks = 1 << 18;
        let mut allocator = Allocator::new(blocks);
        allocator.release(Run { start: 0, count: blocks });
        let pairs = [5, blocks / 2 - 7, blocks - 100];
        let is_pair = |block: u32| pairs.iter().any(|pair| block == *pair || block == pair + 1);
        for block in (0..blocks).step_by(2) {
            allocator.take(Run { start: if is_pair(block) { block ^ 1 } else { block }, count: 1 });
        }
        pairs.iter().for_each(|pair| {
            (*pair..pair + 2)
                .filter(|block| !allocator.is_free(*block))
                .collect::<Vec<u32>>()
                .into_iter()
                .for_each(|block| allocator.release(Run { start: block, count: 1 }));
        });
        let mut metadata = MetadataSpace::new(blocks);
        assert!(metadata.search(6, 100, &mut allocator), "{} blocks", metadata.blocks());
        assert!(!metadata.search(8, 100, &mut allocator));
        let mut found: Vec<u32> = metadata.runs().iter().map(|run| run.start).collect();
        found.sort_unstable();
        assert!(found.iter().zip(pairs).all(|(found, pair)| found.abs_diff(pair) <= 1), "{found:?}");
    }

    #[test]
    fn what_is_no_longer_needed_goes_back() {
        let mut allocator = Allocator::new(1000);
        allocator.release(Run { start: 0, count: 1000 });
        let mut metadata = MetadataSpace::new(16 << 10);
        metadata.adjust(500, &mut allocator);
        metadata.adjust(10, &mut allocator);
        assert!(metadata.blocks() <= 148);
        assert_eq!(metadata.blocks() + u64::from(allocator.free_blocks()), 1000);
    }

    #[test]
    fn a_tree_with_a_device_of_its_own_leaves_the_main_one_alone() {
        let mut main = Allocator::new(1000);
        main.release(Run { start: 0, count: 1000 });
        let mut own = Allocator::new(200);
        own.release(Run { start: 32, count: 168 });
        let mut metadata = MetadataSpace::on_its_own(own);
        metadata.adjust(50, &mut main);
        assert_eq!((metadata.blocks(), metadata.own_free_blocks(), main.free_blocks()), (0, Some(168), 1000));
        let mut space = MergeSpace { promised: 0, allocator: &mut main, metadata: &mut metadata };
        let mut taken = Vec::new();
        while let Some(run) = space.allocate(2, 16) {
            assert!(run.start >= 32 && run.end() <= 200, "{run:?}");
            taken.push(run);
        }
        assert_eq!((metadata.own_free_blocks(), main.free_blocks()), (Some(0), 1000));
        taken.into_iter().for_each(|run| metadata.take_back(run, 20, &mut main));
        assert_eq!((metadata.own_free_blocks(), main.free_blocks()), (Some(168), 1000));
    }
}
