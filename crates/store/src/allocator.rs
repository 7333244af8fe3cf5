//! Which blocks are free.

use crate::config::BLOCK;
use std::collections::VecDeque;

/// Blocks next to each other on the device, in block numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord)]
pub struct Run {
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
/// Shorter runs cost a drive with large indirection units a read and a rewrite each: 64 KiB.
const PIECE_BLOCKS: u32 = 16;
/// What an open run had better be: 1 MiB.
const LONG_BLOCKS: u32 = 256;
/// From here on a request gets a run of its own if there is one.
const LARGE_BLOCKS: u32 = 64;
/// The most that is set aside as an open run: 64 MiB.
const OPEN_BLOCKS_MAX: u32 = 16_384;
/// How far one search for a run of some length goes, so that it takes some 10 us. The next one goes on from there.
const SEARCH_BLOCKS: u32 = 16_384;
/// The same for single runs of a given length, which come often and soon find the place of the ones before.
const RUN_SEARCH_BLOCKS: u32 = 4096;
/// So many short runs are used up before the next search for a longer one.
const CRUMBS: u32 = 64;

/// A bitmap of free blocks, and one *open run* that small requests are served from, one behind the other: what is asked
/// for in sequence lies in sequence, and goes to the device in one write.
///
/// Runs are looked for in the part of the device that was ever used, and beyond it only if that has none long enough, so
/// that a sparse file does not grow without need.
#[derive(Debug)]
pub(crate) struct Allocator {
    /// A set bit is a free block.
    words: Vec<u64>,
    /// Free blocks per region.
    regions: Vec<u32>,
    blocks: u32,
    free: u32,
    /// No block from here on was ever used.
    high_water: u32,
    /// Where the next search begins.
    cursor: u32,
    /// The same for [`Allocator::allocate_run`], which comes back to what it used before.
    run_cursor: u32,
    /// Blocks to use next. They count as free, and somebody else may have taken them meanwhile.
    open: Run,
    crumbs_left: u32,
    /// Runs that were prepared for small requests, in the order in which they become open. They count as free, but no
    /// search finds them.
    ready: VecDeque<Run>,
    ready_blocks: u32,
    /// Whether the open run was prepared. Large requests then leave it to small ones.
    open_is_ready: bool,
    /// Whether a small request found nothing ready since this was last asked.
    missed_ready: bool,
    open_blocks_max: u32,
}

impl Allocator {
    /// An allocator for `blocks` blocks of which none is free.
    pub fn new(blocks: u32) -> Allocator {
        Allocator {
            words: vec![0; blocks.div_ceil(WORD_BITS) as usize],
            regions: vec![0; blocks.div_ceil(REGION_BLOCKS) as usize],
            blocks,
            free: 0,
            high_water: 0,
            cursor: 0,
            run_cursor: 0,
            open: Run { start: 0, count: 0 },
            crumbs_left: 0,
            ready: VecDeque::new(),
            ready_blocks: 0,
            open_is_ready: false,
            missed_ready: false,
            open_blocks_max: OPEN_BLOCKS_MAX,
        }
    }

    pub fn free_blocks(&self) -> u32 {
        self.free + self.ready_blocks
    }

    /// Free blocks that small requests will be served from before all others.
    pub fn ready_blocks(&self) -> u32 {
        self.ready_blocks
    }

    pub fn blocks(&self) -> u32 {
        self.blocks
    }

    /// Whether a small request found nothing ready since the last call.
    pub fn take_ready_missed(&mut self) -> bool {
        std::mem::take(&mut self.missed_ready)
    }

    /// Sets how much is set aside as an open run at most.
    pub fn limit_open_runs(&mut self, blocks: u32) {
        self.open_blocks_max = blocks;
    }

    /// Takes a run that is worth preparing: at least [`LONG_BLOCKS`] and at most `max` blocks long.
    pub fn take_to_prepare(&mut self, max: u32) -> Option<Run> {
        let (found, cursor) = self.search(LONG_BLOCKS, max, self.cursor, SEARCH_BLOCKS);
        self.cursor = cursor;
        let run = found.or_else(|| self.fresh(max))?;
        self.take(run);
        Some(run)
    }

    /// Makes a run that was taken free, to be used for small requests before others.
    pub fn add_ready(&mut self, run: Run) {
        self.ready_blocks += run.count;
        self.ready.push_back(run);
    }

    /// Makes what is ready part of the common free blocks.
    fn release_ready(&mut self) {
        while self.next_ready().is_some() {}
    }

    fn next_ready(&mut self) -> Option<Run> {
        let run = self.ready.pop_front()?;
        self.ready_blocks -= run.count;
        self.release(run);
        Some(run)
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
    }

    /// Makes used blocks free. Panics if one is free already.
    pub fn release(&mut self, run: Run) {
        self.change(run, true);
        self.free += run.count;
    }

    /// Takes particular free blocks. Panics if one is not free.
    pub fn take(&mut self, run: Run) {
        self.change(run, false);
        self.free -= run.count;
        self.high_water = self.high_water.max(run.end());
    }

    /// Takes `count` blocks, in as few and long runs as bounded searches find. `None`, and nothing taken, if fewer are
    /// free.
    pub fn allocate(&mut self, count: u32) -> Option<Vec<Run>> {
        if count > self.free {
            self.release_ready();
        }
        if count > self.free {
            return None;
        }
        if count >= LARGE_BLOCKS && (self.open.count < count || self.open_is_ready) {
            let found = self.search(count, count, self.cursor, SEARCH_BLOCKS);
            if let Some(run) = found.0.or_else(|| self.fresh(count)) {
                self.cursor = found.1;
                self.take(run);
                return Some(vec![run]);
            }
        }
        let (mut runs, mut left) = (Vec::new(), count);
        while left > 0 {
            if self.open.count == 0 {
                self.open = self.next_open();
            }
            let free = self.free_run_len(self.open.start, left.min(self.open.count));
            let run = Run { start: self.open.start, count: free.min(left).min(self.open.count) };
            if run.count == 0 {
                self.open.count = 0;
                continue;
            }
            self.open = Run { start: run.end(), count: self.open.count - run.count };
            self.take(run);
            push_run(&mut runs, run);
            left -= run.count;
        }
        Some(runs)
    }

    /// Takes one run of exactly `count` blocks if a bounded search finds one.
    pub fn allocate_run(&mut self, count: u32) -> Option<Run> {
        if count > self.free {
            self.release_ready();
        }
        let (found, cursor) = self.search(count, count, self.run_cursor, RUN_SEARCH_BLOCKS);
        let everywhere = || if count == 1 { self.search(1, 1, 0, u32::MAX).0 } else { None };
        let run = found.or_else(|| self.fresh(count)).or_else(|| self.front_of_open(count)).or_else(everywhere)?;
        self.run_cursor = if found.is_some() { cursor } else { run.end() };
        if run.start == self.open.start && run.count <= self.open.count {
            self.open = Run { start: run.end(), count: self.open.count - run.count };
        }
        self.take(run);
        Some(run)
    }

    /// The first blocks of the open run, if they are free.
    fn front_of_open(&self, count: u32) -> Option<Run> {
        let start = self.open.start;
        (count <= self.open.count && self.free_run_len(start, count) >= count).then_some(Run { start, count })
    }

    /// The run to serve small requests from next. Some block is free.
    fn next_open(&mut self) -> Run {
        let ready = self.next_ready();
        self.open_is_ready = ready.is_some();
        if let Some(run) = ready {
            return run;
        }
        self.missed_ready = true;
        if self.crumbs_left == 0 {
            for min in [LONG_BLOCKS, PIECE_BLOCKS] {
                let (found, cursor) = self.search(min, self.open_blocks_max, self.cursor, SEARCH_BLOCKS);
                self.cursor = cursor;
                if let Some(run) = found {
                    return run;
                }
            }
            let left = self.blocks - self.high_water.max(self.open.end());
            if let Some(run) = self.fresh(left.clamp(1, self.open_blocks_max)) {
                return run;
            }
            self.crumbs_left = CRUMBS;
        }
        self.crumbs_left -= 1;
        let (found, cursor) = self.search(1, self.open_blocks_max, self.cursor, u32::MAX);
        self.cursor = cursor;
        found.unwrap_or_else(|| panic!("no free block found with {} counted free", self.free))
    }

    /// Blocks that were never used and are not set aside.
    fn fresh(&self, count: u32) -> Option<Run> {
        let start = self.high_water.max(self.open.end());
        (count <= self.blocks - start).then_some(Run { start, count })
    }

    /// The first free run of at least `min` blocks, cut to `max`, in the part ever used (for single blocks: anywhere), from
    /// `from` on and around its end, within about `budget` blocks; and where the next search should begin. The open run
    /// is passed over, but not by searches for single blocks.
    fn search(&self, min: u32, max: u32, from: u32, budget: u32) -> (Option<Run>, u32) {
        let end = if min > 1 { self.high_water } else { self.blocks };
        let mut at = if from >= end { 0 } else { from };
        let mut budget = budget.min(end.saturating_add(WORD_BITS));
        while budget > 0 {
            if at >= end {
                at = 0;
            }
            let begin = at;
            if at.is_multiple_of(REGION_BLOCKS)
                && self.regions[(at / REGION_BLOCKS) as usize] < min.min(REGION_BLOCKS / 2)
            {
                at += REGION_BLOCKS;
                // A summary costs little to look at.
                budget = budget.saturating_sub(REGION_BLOCKS / 64);
                continue;
            }
            let word = self.words[(at / WORD_BITS) as usize] >> (at % WORD_BITS);
            if word == 0 {
                at += WORD_BITS - at % WORD_BITS;
                budget = budget.saturating_sub(at - begin);
                continue;
            }
            at += word.trailing_zeros();
            let len = self.free_run_len(at, max).min(max);
            let set_aside = min > 1 && self.open.count > 0 && at < self.open.end() && self.open.start < at + len;
            if len >= min && !set_aside {
                return (Some(Run { start: at, count: len }), at + len);
            }
            at += len.max(1);
            budget = budget.saturating_sub(at - begin);
        }
        (None, at)
    }

    /// Length of the free run that begins at `at`, counted up to `max` (rounded up to a word).
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

    /// The first run in `from .. from + search` of at least `min` blocks that are free and have their bit set in
    /// `wanted`, cut to `max` blocks; and where to go on looking. Whole words are passed over at a time, since a sweep
    /// goes over much that is not wanted.
    pub fn find_run(&self, from: u32, search: u32, min: u32, max: u32, wanted: &[u64]) -> (Option<Run>, u32) {
        let end = from.saturating_add(search).min(self.blocks);
        let both = |at: u32| {
            let index = (at / WORD_BITS) as usize;
            (self.words[index] & wanted[index]) >> (at % WORD_BITS)
        };
        let mut at = from;
        while at < end {
            let word = both(at);
            if word == 0 {
                at += WORD_BITS - at % WORD_BITS;
                continue;
            }
            at += word.trailing_zeros();
            let start = at;
            while at < self.blocks && at - start < max {
                let ones = both(at).trailing_ones();
                at += ones;
                if ones == 0 || !at.is_multiple_of(WORD_BITS) {
                    break;
                }
            }
            let count = (at - start).min(max);
            if count >= min {
                return (Some(Run { start, count }), start + count);
            }
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
        fn no_block_is_given_twice_and_none_is_lost(blocks in 1u32..10_000, steps: Vec<(u16, u8, u8)>) {
            let mut allocator = fresh(blocks);
            let mut held: Vec<Run> = Vec::new();
            let mut used: BTreeSet<u32> = BTreeSet::new();
            for (count, action, which) in steps {
                if action % 5 < 2 && !held.is_empty() {
                    let run = held.swap_remove(usize::from(which) % held.len());
                    (run.start..run.end()).for_each(|b| assert!(used.remove(&b)));
                    allocator.release(run);
                } else {
                    let count = if action % 5 == 2 { u32::from(count) % 700 } else { u32::from(count) % 20 };
                    let free = blocks - used.len() as u32;
                    let found = match action % 5 {
                        3 => match allocator.allocate_run(count.max(1)) {
                            Some(run) => Some(vec![run]),
                            // One block is always found, if there is one.
                            None => { prop_assert!(count > 1 || free == 0); continue }
                        },
                        _ => allocator.allocate(count),
                    };
                    match found {
                        None => prop_assert!(count > free),
                        Some(runs) => {
                            prop_assert_eq!(runs.iter().map(|r| r.count).sum::<u32>(), if action % 5 == 3 { count.max(1) } else { count });
                            for run in runs {
                                prop_assert!(run.end() <= blocks);
                                (run.start..run.end()).for_each(|b| assert!(used.insert(b), "block {b} given twice"));
                                held.push(run);
                            }
                        }
                    }
                }
                prop_assert_eq!(allocator.free_blocks(), blocks - used.len() as u32);
                prop_assert!((allocator.high_water..blocks).all(|b| allocator.is_free(b)));
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
