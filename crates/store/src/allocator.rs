//! Which blocks are free.

use crate::config::BLOCK;

/// Blocks next to each other on the device, in block numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord)]
pub(crate) struct Run {
    pub start: u32,
    pub count: u32,
}

impl Run {
    pub fn end(self) -> u32 {
        self.start + self.count
    }

    pub fn offset_bytes(self) -> u64 {
        u64::from(self.start) * BLOCK
    }

    pub fn len_bytes(self) -> u64 {
        u64::from(self.count) * BLOCK
    }
}

/// Adds a block or run to a list, joining it with the last run where it continues that.
pub(crate) fn push_run(runs: &mut Vec<Run>, run: Run) {
    match runs.last_mut() {
        Some(last) if last.end() == run.start => last.count += run.count,
        _ => runs.push(run),
    }
}

const WORD_BITS: u32 = 64;
/// Blocks per entry of the summary that lets searches skip full parts: 16 MiB.
const REGION_BLOCKS: u32 = 4096;
/// Pieces shorter than a drive's indirection unit cost it a read and a rewrite: 64 KiB.
const PIECE_BLOCKS: u32 = 16;
/// How far a search for one long run goes before it takes pieces: 1 GiB of blocks.
const SEARCH_BLOCKS: u32 = 262_144;

/// A bitmap of free blocks with a cursor: what is asked for in sequence lies in sequence.
///
/// The cursor moves on through the part of the device that was ever used and starts again at its begin while enough
/// of that part is free, so that a sparse file stays small.
#[derive(Debug)]
pub(crate) struct Allocator {
    /// A set bit is a free block.
    words: Vec<u64>,
    /// Free blocks per region.
    regions: Vec<u32>,
    blocks: u32,
    free: u32,
    cursor: u32,
    /// No block from here on was ever used.
    high_water: u32,
    free_below_high_water: u32,
}

impl Allocator {
    /// An allocator for `blocks` blocks of which none is free.
    pub fn new(blocks: u32) -> Allocator {
        let words = vec![0; blocks.div_ceil(WORD_BITS) as usize];
        let regions = vec![0; blocks.div_ceil(REGION_BLOCKS) as usize];
        Allocator { words, regions, blocks, free: 0, cursor: 0, high_water: 0, free_below_high_water: 0 }
    }

    pub fn free_blocks(&self) -> u32 {
        self.free
    }

    pub fn is_free(&self, block: u32) -> bool {
        self.words[(block / WORD_BITS) as usize] >> (block % WORD_BITS) & 1 == 1
    }

    /// No block from here on was ever used.
    pub fn high_water(&self) -> u32 {
        self.high_water
    }

    /// Sets the part of the device that counts as never used, after the used blocks were marked.
    pub fn settle(&mut self) {
        let used_end = (0..self.words.len()).rev().find_map(|at| {
            let first = at as u32 * WORD_BITS;
            let used = !self.words[at] & mask(0, (self.blocks - first).min(WORD_BITS));
            (used != 0).then(|| first + WORD_BITS - used.leading_zeros())
        });
        self.high_water = used_end.unwrap_or(0);
        self.free_below_high_water = self.free - (self.blocks - self.high_water);
        self.cursor = self.high_water;
    }

    /// Makes used blocks free. Panics if one is free already.
    pub fn release(&mut self, run: Run) {
        self.change(run, true);
        self.free += run.count;
        self.free_below_high_water += run.end().min(self.high_water).saturating_sub(run.start);
    }

    /// Takes particular free blocks. Panics if one is not free.
    pub fn take(&mut self, run: Run) {
        self.change(run, false);
        self.free -= run.count;
        self.free_below_high_water -= run.end().min(self.high_water).saturating_sub(run.start);
        if run.end() > self.high_water {
            // Skipped blocks above the mark are free, and now below it.
            self.free_below_high_water += run.start.saturating_sub(self.high_water);
            self.high_water = run.end();
        }
    }

    /// Takes `count` blocks, in as few and long runs as a bounded search finds. `None`, and nothing taken, if fewer
    /// are free.
    pub fn allocate(&mut self, count: u32) -> Option<Vec<Run>> {
        if count > self.free {
            return None;
        }
        let mut runs = Vec::new();
        if count == 0 {
            return Some(runs);
        }
        if self.cursor >= self.high_water && self.free_below_high_water / 2 > self.high_water / 8 + count {
            self.cursor = 0;
        }
        let mut left = count;
        for (piece, search) in [(count, SEARCH_BLOCKS), (PIECE_BLOCKS.min(count), SEARCH_BLOCKS), (1, u32::MAX)] {
            left = self.take_pieces(left, piece, search, &mut runs);
            if left == 0 {
                return Some(runs);
            }
        }
        panic!("{left} of {count} blocks not found with {} counted free", self.free)
    }

    /// Takes one run of exactly `count` blocks if a bounded search finds it.
    pub fn allocate_run(&mut self, count: u32) -> Option<Run> {
        let mut runs = Vec::new();
        match self.take_pieces(count, count, SEARCH_BLOCKS, &mut runs) {
            0 => Some(runs[0]),
            _ => None,
        }
    }

    /// Takes free runs of at least `piece` blocks from the cursor on, around the end, until `left` are taken or
    /// `search` blocks were looked at. Returns how many are still missing.
    fn take_pieces(&mut self, mut left: u32, piece: u32, search: u32, runs: &mut Vec<Run>) -> u32 {
        let mut at = if self.cursor >= self.blocks { 0 } else { self.cursor };
        let mut budget = search.min(self.blocks.saturating_add(WORD_BITS));
        while left > 0 && budget > 0 {
            if at >= self.blocks {
                at = 0;
            }
            if at.is_multiple_of(REGION_BLOCKS) && self.regions[(at / REGION_BLOCKS) as usize] == 0 {
                let step = REGION_BLOCKS.min(self.blocks - at);
                at += step;
                // A summary costs little to look at.
                budget = budget.saturating_sub(step / 64 + 1);
                continue;
            }
            let word = self.words[(at / WORD_BITS) as usize] >> (at % WORD_BITS);
            if word == 0 {
                let step = (WORD_BITS - at % WORD_BITS).min(self.blocks - at);
                at += step;
                budget = budget.saturating_sub(step);
                continue;
            }
            let skip = word.trailing_zeros();
            at += skip;
            let len = self.free_run_len(at, left.max(piece));
            if len >= piece.min(left) {
                let run = Run { start: at, count: len.min(left) };
                self.take(run);
                push_run(runs, run);
                left -= run.count;
                self.cursor = run.end();
            }
            at += len;
            budget = budget.saturating_sub(skip + len);
        }
        left
    }

    /// Length of the free run that begins at the free block `at`, counted up to `max` (rounded up to a word).
    fn free_run_len(&self, at: u32, max: u32) -> u32 {
        let mut len = 0;
        while len < max && at + len < self.blocks {
            let bit = (at + len) % WORD_BITS;
            let ones = (!(self.words[((at + len) / WORD_BITS) as usize] >> bit)).trailing_zeros().min(WORD_BITS - bit);
            len += ones;
            if ones < WORD_BITS - bit {
                break;
            }
        }
        len
    }

    fn change(&mut self, run: Run, free: bool) {
        assert!(run.end() <= self.blocks, "{run:?} beyond the device of {} blocks", self.blocks);
        let mut at = run.start;
        while at < run.end() {
            let bit = at % WORD_BITS;
            let count = (WORD_BITS - bit).min(run.end() - at);
            let (word, mask) = (&mut self.words[(at / WORD_BITS) as usize], mask(bit, count));
            let expected = if free { 0 } else { mask };
            assert!(*word & mask == expected, "block of {run:?} is {} already", if free { "free" } else { "used" });
            *word ^= mask;
            let region = &mut self.regions[(at / REGION_BLOCKS) as usize];
            *region = if free { *region + count } else { *region - count };
            at += count;
        }
    }

    /// Long free runs in `from .. from + search` for which `wanted` holds at every block, at least `min` blocks each.
    pub fn find_run(
        &self,
        from: u32,
        search: u32,
        min: u32,
        max: u32,
        wanted: impl Fn(u32) -> bool,
    ) -> (Option<Run>, u32) {
        let end = from.saturating_add(search).min(self.blocks);
        let mut at = from;
        while at < end {
            let word = self.words[(at / WORD_BITS) as usize] >> (at % WORD_BITS);
            if word == 0 {
                at += WORD_BITS - at % WORD_BITS;
                continue;
            }
            at += word.trailing_zeros();
            let len = self.free_run_len(at, max).min(max);
            let fit = (at..at + len).take_while(|block| wanted(*block)).count() as u32;
            if fit >= min {
                return (Some(Run { start: at, count: fit }), at + fit);
            }
            at += fit.max(1);
        }
        (None, at.min(self.blocks))
    }
}

/// `count` ones from bit `bit` on; `count` is 1 to 64.
fn mask(bit: u32, count: u32) -> u64 {
    (u64::MAX >> (WORD_BITS - count)) << bit
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn fresh(blocks: u32) -> Allocator {
        let mut allocator = Allocator::new(blocks);
        allocator.release(Run { start: 0, count: blocks });
        allocator.settle();
        allocator
    }

    proptest! {
        #[test]
        fn no_block_is_given_twice_and_none_is_lost(blocks in 1u32..10_000, steps: Vec<(u16, bool, u8)>) {
            let mut allocator = fresh(blocks);
            let mut held: Vec<Run> = Vec::new();
            let mut used: BTreeSet<u32> = BTreeSet::new();
            for (count, release, which) in steps {
                if release && !held.is_empty() {
                    let run = held.swap_remove(usize::from(which) % held.len());
                    (run.start..run.end()).for_each(|b| assert!(used.remove(&b)));
                    allocator.release(run);
                } else {
                    let count = u32::from(count) % 700;
                    let free = blocks - used.len() as u32;
                    match allocator.allocate(count) {
                        None => prop_assert!(count > free),
                        Some(runs) => {
                            prop_assert_eq!(runs.iter().map(|r| r.count).sum::<u32>(), count);
                            for run in runs {
                                prop_assert!(run.end() <= blocks);
                                (run.start..run.end()).for_each(|b| assert!(used.insert(b), "block {b} given twice"));
                                held.push(run);
                            }
                        }
                    }
                }
                prop_assert_eq!(allocator.free_blocks(), blocks - used.len() as u32);
                prop_assert_eq!(allocator.free_below_high_water, (0..allocator.high_water).filter(|b| allocator.is_free(*b)).count() as u32);
            }
            prop_assert!((0..blocks).all(|b| allocator.is_free(b) != used.contains(&b)));
        }
    }

    #[test]
    fn what_is_asked_in_sequence_lies_in_sequence() {
        let mut allocator = fresh(100_000);
        for i in 0..1000 {
            assert_eq!(allocator.allocate(7), Some(vec![Run { start: i * 7, count: 7 }]));
        }
    }

    #[test]
    fn a_fragmented_device_gives_pieces_of_the_indirection_unit_before_crumbs() {
        let mut allocator = fresh(65_536);
        allocator.allocate(65_536).unwrap();
        (0..512).for_each(|i| allocator.release(Run { start: i * 128, count: 1 }));
        (0..512).for_each(|i| allocator.release(Run { start: i * 128 + 32, count: 16 }));
        let runs = allocator.allocate(64).unwrap();
        assert!(runs.iter().all(|r| r.count == 16), "{runs:?}");
        assert_eq!(allocator.allocate(512 * 17 - 64).unwrap().iter().map(|r| r.count).sum::<u32>(), 512 * 17 - 64);
        assert_eq!(allocator.allocate(1), None);
    }

    #[test]
    fn a_churning_store_stays_in_the_part_it_used() {
        let mut allocator = fresh(1_000_000);
        let mut held: Vec<Run> = allocator.allocate(10_000).unwrap();
        for _ in 0..10_000 {
            let new = allocator.allocate(100).unwrap();
            held.extend(new);
            let old = held[0];
            let part = Run { start: old.start, count: old.count.min(100) };
            allocator.release(part);
            if old.count > 100 {
                held[0] = Run { start: part.end(), count: old.count - 100 }
            } else {
                held.remove(0);
            }
        }
        assert!(allocator.high_water < 40_000, "{} blocks touched for 10,000", allocator.high_water);
    }
}
