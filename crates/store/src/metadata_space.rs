//! Blocks set aside for the metadata tree.
//!
//! A page takes two neighbouring blocks, which a nearly full device may no longer have, although it has single ones. So
//! as many blocks as a merge may need are set aside in runs while there are such, and never go to data. A merge takes
//! from elsewhere as long as it can.

use crate::allocator::{Allocator, Run};
use crate::btree::{PAGE_BLOCKS, Space};

#[derive(Debug)]
pub(crate) struct MetadataSpace {
    runs: Vec<Run>,
    blocks: u64,
    /// What is set aside at once, so that the room for data is not cut into small pieces.
    run_blocks: u32,
}

impl MetadataSpace {
    /// Nothing set aside yet. It will be in runs of 256 KiB, on a small device in shorter ones.
    pub fn new(device_blocks: u32) -> MetadataSpace {
        MetadataSpace { runs: Vec::new(), blocks: 0, run_blocks: (device_blocks / 256).clamp(4, 64) }
    }

    pub fn blocks(&self) -> u64 {
        self.blocks
    }

    /// What is set aside, in no order.
    pub fn runs(&self) -> &[Run] {
        &self.runs
    }

    /// Sets aside or gives back until about `wanted` blocks are set aside, as far as there are runs of a page or more.
    pub fn adjust(&mut self, wanted: u64, allocator: &mut Allocator) {
        // A shrinking need is followed slowly, so that blocks do not go to and fro.
        while self.blocks > 2 * (wanted + u64::from(self.run_blocks)) {
            let run = self.runs.pop().expect("blocks are in runs");
            self.blocks -= u64::from(run.count);
            allocator.release(run);
        }
        let mut count = self.run_blocks;
        while self.blocks < wanted && count >= PAGE_BLOCKS {
            match allocator.allocate_run(count) {
                Some(run) => self.add(run),
                None => count /= 2,
            }
        }
    }

    fn add(&mut self, run: Run) {
        self.blocks += u64::from(run.count);
        self.runs.push(run);
    }

    /// Takes in what a tree no longer holds, as far as it is wanted and of use; the rest goes to `other`.
    pub fn take_back(&mut self, run: Run, wanted: u64, other: impl FnOnce(Run)) {
        if self.blocks < wanted && run.count >= PAGE_BLOCKS { self.add(run) } else { other(run) }
    }

    /// Takes `min` to `wanted` blocks of what is set aside.
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

/// Where a merge gets its blocks: from the allocator, and else from what is set aside.
pub(crate) struct MergeSpace<'a> {
    pub allocator: &'a mut Allocator,
    pub metadata: &'a mut MetadataSpace,
}

impl Space for MergeSpace<'_> {
    fn allocate(&mut self, min: u32, wanted: u32) -> Option<Run> {
        let mut count = wanted;
        while count >= min {
            if let Some(run) = self.allocator.allocate_run(count) {
                return Some(run);
            }
            count /= 2;
        }
        self.metadata.take(min, wanted)
    }

    fn release(&mut self, run: Run) {
        self.allocator.release(run);
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
        let mut space = MergeSpace { allocator: &mut allocator, metadata: &mut metadata };
        let mut taken = 0;
        while let Some(run) = space.allocate(2, 32) {
            assert!((2..=32).contains(&run.count));
            taken += run.count;
        }
        assert_eq!(taken, 128);
        let mut given = Vec::new();
        metadata.take_back(Run { start: 0, count: 2 }, 100, |run| given.push(run));
        metadata.take_back(Run { start: 4, count: 1 }, 100, |run| given.push(run));
        assert_eq!(given, [Run { start: 4, count: 1 }]);
        assert_eq!(metadata.blocks(), 2);
        metadata.adjust(1000, &mut allocator);
        assert!(metadata.blocks() < 10, "single blocks are of no use");
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
}
