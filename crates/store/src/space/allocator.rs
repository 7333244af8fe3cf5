//! Free blocks, and the order in which they are taken.

use crate::StoreConfig;
use crate::config::BLOCK;
use crate::space::bit_tree::BitTree;
use crate::space::free_units::FreeUnits;
use crate::space::run::{Run, push_run};
use std::collections::VecDeque;
use std::ops::Range;

const WORD_BITS: u32 = 64;
/// The default unit, which small writes fill and at which large ones begin: 64 KiB.
const UNIT_BLOCKS: u32 = 16;
/// Preferred minimum length of a run for small requests: 1 MiB.
const LONG_BLOCKS: u32 = 256;
/// Requests from this size on do not use blocks prepared for small ones: 256 KiB.
const LARGE_BLOCKS: u32 = 64;
/// Maximum number of blocks set aside for small requests: 64 MiB, or a sixteenth of a smaller device.
const SMALL_OPEN_BLOCKS_MAX: u32 = 16_384;
/// Number of blocks set aside for large requests, unless one takes more: 4 MiB.
const LARGE_OPEN_BLOCKS: u32 = 1024;
/// Number of runs of free units that a search for a long run looks at.
const CANDIDATES: u32 = 64;
/// Number of runs of free units that the search for each piece looks at, where no run is long enough.
const PIECE_CANDIDATES: u32 = 8;
/// Number of partly free units of each class that a search for a run within a unit looks at.
const PARTIAL_CANDIDATES: usize = 32;
/// Number of blocks that a search covers for a run of less than a unit that lies across units.
const RUN_SEARCH_BLOCKS: u32 = 4096;

/// The streams of requests. Each fills a run of its own from front to back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stream {
    /// Requests of less than a unit: those of many turns fill a unit together.
    Small,
    Large,
    /// Data that was not written for a while and is moved: it should not share units with data that soon changes.
    Cold,
}

/// A bitmap of free blocks, and one *open run* for each stream of requests, which are served from it one behind
/// another: blocks asked for in sequence lie in sequence, and go to the device in one write.
///
/// An open run consists of wholly free units if there are any, of long runs of them before short ones. Otherwise it is
/// the unit with the most free blocks. Searches prefer the part of the device that was ever used, and go beyond it only
/// if that has no free unit, so that a sparse file does not grow without need.
///
/// Every request takes time by the number of units it gets blocks from, however large, full or fragmented the device
/// is. Memory: about 1.7 bits per block.
#[derive(Debug)]
pub(crate) struct Allocator {
    /// A set bit is a free block.
    words: Vec<u64>,
    /// All units with free blocks, except those of the open runs and the held ones.
    units: FreeUnits,
    /// Units held back from use.
    held: BitTree,
    /// Units that could not be emptied while they were held: they contain something that does not move.
    stuck: BitTree,
    unit_blocks: u32,
    blocks: u32,
    free: u32,
    /// No block from here on was ever used.
    high_water: u32,
    /// The open run of each [`Stream`]. Its blocks count as free, and others may have taken some of them. No search
    /// finds its units.
    open: [Run; 3],
    /// The unit where the next search of each [`Stream`] begins.
    cursors: [u32; 3],
    /// The block where the next search of [`Allocator::allocate_run`] begins; it comes back to blocks that it used
    /// before.
    run_cursor: u32,
    /// Runs that were prepared for small requests, in the order in which they become open. They count as free, but no
    /// search finds them.
    ready: VecDeque<Run>,
    ready_blocks: u32,
    /// True if the small open run was prepared.
    open_is_ready: bool,
    /// True if a small request found no prepared run since [`Allocator::take_ready_missed`].
    missed_ready: bool,
    small_open_blocks_max: u32,
    large_open_blocks: u32,
}

// The default unit is that of the configuration.
const _: () = assert!(UNIT_BLOCKS as u64 * BLOCK == StoreConfig::INDIRECTION_UNIT_BYTES as u64);
// Large requests and long runs are whole units of the largest size, 64 blocks.
const _: () = assert!(LONG_BLOCKS.is_multiple_of(WORD_BITS) && LARGE_OPEN_BLOCKS.is_multiple_of(WORD_BITS));
const _: () = assert!(LARGE_BLOCKS >= WORD_BITS);

const CLOSED: Run = Run { start: 0, count: 0 };

impl Allocator {
    /// Creates an allocator for `blocks` blocks, none of which is free.
    pub fn new(blocks: u32) -> Allocator {
        Allocator::with_units(blocks, UNIT_BLOCKS)
    }

    /// Creates an allocator like [`Allocator::new`]. `unit_blocks`: a power of two, 4 to 64.
    pub fn with_units(blocks: u32, unit_blocks: u32) -> Allocator {
        assert!((4..=64).contains(&unit_blocks) && unit_blocks.is_power_of_two(), "units of {unit_blocks} blocks");
        Allocator {
            words: vec![0; blocks.div_ceil(WORD_BITS) as usize],
            units: FreeUnits::new(blocks, unit_blocks),
            held: BitTree::new(blocks.div_ceil(unit_blocks)),
            stuck: BitTree::new(blocks.div_ceil(unit_blocks)),
            unit_blocks,
            blocks,
            free: 0,
            high_water: 0,
            open: [CLOSED; 3],
            cursors: [0; 3],
            run_cursor: 0,
            ready: VecDeque::new(),
            ready_blocks: 0,
            open_is_ready: false,
            missed_ready: false,
            small_open_blocks_max: SMALL_OPEN_BLOCKS_MAX.min(blocks / 16).max(unit_blocks),
            large_open_blocks: LARGE_OPEN_BLOCKS.min(blocks / 16),
        }
    }

    pub fn free_blocks(&self) -> u32 {
        self.free + self.ready_blocks
    }

    /// Returns the number of free blocks that small requests get before all others.
    pub fn ready_blocks(&self) -> u32 {
        self.ready_blocks
    }

    pub fn blocks(&self) -> u32 {
        self.blocks
    }

    pub fn unit_blocks(&self) -> u32 {
        self.unit_blocks
    }

    /// Returns true if a small request found no prepared run since the last call.
    pub fn take_ready_missed(&mut self) -> bool {
        std::mem::take(&mut self.missed_ready)
    }

    /// Sets the maximum number of blocks set aside for small requests.
    pub fn limit_open_runs(&mut self, blocks: u32) {
        self.small_open_blocks_max = blocks.max(self.unit_blocks);
    }

    /// Takes a run that is worth preparing: at least [`LONG_BLOCKS`] and at most `max` blocks long.
    pub fn take_to_prepare(&mut self, max: u32) -> Option<Run> {
        let cursor = self.cursors[Stream::Small as usize];
        let run = self.whole_units(LONG_BLOCKS, max, cursor, CANDIDATES, true)?;
        self.cursors[Stream::Small as usize] = run.end() / self.unit_blocks;
        self.take(run);
        Some(run)
    }

    /// Makes a run that was taken free, for small requests before others.
    pub fn add_ready(&mut self, run: Run) {
        self.ready_blocks += run.count;
        self.ready.push_back(run);
    }

    /// Makes the prepared runs ordinary free blocks.
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

    /// Returns the first block from which on no block was ever used.
    pub fn high_water(&self) -> u32 {
        self.high_water
    }

    /// Determines the part of the device that was never used, after the used blocks were marked.
    pub fn settle(&mut self) {
        let used_end = (0..self.words.len()).rev().find_map(|at| {
            let first = at as u32 * WORD_BITS;
            let used = !self.words[at] & mask(0, (self.blocks - first).min(WORD_BITS));
            (used != 0).then(|| first + WORD_BITS - used.leading_zeros())
        });
        self.high_water = used_end.unwrap_or(0);
    }

    /// Frees used blocks. Panics if one is free already.
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

    /// Takes `count` blocks, in the fewest and longest runs that bounded searches find. Returns `None`, and takes
    /// nothing, if fewer are free.
    pub fn allocate(&mut self, count: u32) -> Option<Vec<Run>> {
        if count > self.free {
            self.release_ready();
        }
        if count > self.free {
            return None;
        }
        let mut runs = Vec::new();
        // In a sparse file the blocks for small requests were written before; those for large ones may not be.
        let large_min = if self.open_is_ready || !self.ready.is_empty() { LARGE_BLOCKS } else { self.unit_blocks };
        let left = if count >= large_min { self.allocate_large(count, &mut runs) } else { count };
        self.allocate_small(left, &mut runs);
        Some(runs)
    }

    /// Takes blocks in whole units; returns the number of blocks still missing for lack of whole units.
    fn allocate_large(&mut self, count: u32, runs: &mut Vec<Run>) -> u32 {
        let open = self.open[Stream::Large as usize];
        // Requests of whole units get whole units; requests of other sizes are packed.
        let aligned = count.is_multiple_of(self.unit_blocks);
        let start = if aligned { open.start.next_multiple_of(self.unit_blocks) } else { open.start };
        if u64::from(start) + u64::from(count) <= u64::from(open.end()) && self.free_run_len(start, count) >= count {
            self.take_from(Stream::Large, Run { start, count }, runs);
            return 0;
        }
        self.close(Stream::Large);
        let (mut left, mut candidates) = (count, CANDIDATES);
        while left > 0 && (left >= self.unit_blocks || runs.is_empty()) {
            let cursor = self.cursors[Stream::Large as usize];
            let Some(run) = self.whole_units(left, left.max(self.large_open_blocks), cursor, candidates, true) else {
                break;
            };
            self.open(Stream::Large, run);
            self.take_from(Stream::Large, Run { start: run.start, count: run.count.min(left) }, runs);
            left -= run.count.min(left);
            candidates = PIECE_CANDIDATES;
        }
        left
    }

    /// Takes blocks of whole units for data that is moved, in the fewest and longest runs that bounded searches find.
    /// Returns `None`, and takes nothing, if there are not enough.
    pub fn allocate_cold(&mut self, count: u32) -> Option<Vec<Run>> {
        let (mut runs, mut left, mut candidates) = (Vec::new(), count, CANDIDATES);
        while left > 0 {
            let open = self.open[Stream::Cold as usize];
            let here = self.free_run_len(open.start, open.count).min(open.count).min(left);
            // A stretch that fits is not divided to use up the rest of a run.
            if here > 0 && (here == left || candidates < CANDIDATES) {
                self.take_from(Stream::Cold, Run { start: open.start, count: here }, &mut runs);
                left -= here;
                continue;
            }
            self.close(Stream::Cold);
            let cursor = self.cursors[Stream::Cold as usize];
            let Some(run) = self.whole_units(left, left.max(self.large_open_blocks), cursor, candidates, true) else {
                runs.into_iter().for_each(|run| self.release(run));
                return None;
            };
            self.open(Stream::Cold, run);
            candidates = PIECE_CANDIDATES;
        }
        Some(runs)
    }

    /// Returns the number of blocks of wholly free units that no stream has set aside.
    pub fn whole_unit_blocks(&self) -> u32 {
        self.units.whole() * self.unit_blocks
    }

    /// Takes blocks of units that have few other free blocks, so that no whole unit is broken for them. Returns `None`,
    /// and takes nothing, if there are not enough.
    pub fn allocate_holes(&mut self, count: u32) -> Option<Vec<Run>> {
        let (mut runs, mut left) = (Vec::new(), count);
        while left > 0 {
            let unit = self.units.find_fullest_partial(self.cursors[Stream::Cold as usize]);
            let hole = unit.and_then(|unit| Some((self.unit_run(unit), self.first_free(self.unit_run(unit))?)));
            let Some((unit, start)) = hole else {
                runs.into_iter().for_each(|run| self.release(run));
                return None;
            };
            let count = self.free_run_len(start, left).min(left).min(unit.end() - start);
            self.take(Run { start, count });
            push_run(&mut runs, Run { start, count });
            left -= count;
        }
        Some(runs)
    }

    /// Holds partly free units back from use, the emptiest first, so that they can be emptied. An emptied unit becomes
    /// usable at once. Returns the number of held units. They are used all the same if nothing else is left.
    pub fn hold_emptiest(&mut self, max: u32) -> u32 {
        let lacking = max.saturating_sub(self.held.len()) as usize;
        let emptiest = self.units.partial(0, usize::MAX).filter(|unit| !self.stuck.contains(*unit));
        for unit in emptiest.take(lacking).collect::<Vec<_>>() {
            self.units.change(unit, self.unit_bits(unit).count_ones(), 0);
            self.held.insert(unit);
        }
        self.held.len()
    }

    /// Ends the holding of units; returns the number of those that were not emptied.
    pub fn release_held(&mut self) -> u32 {
        let count = self.held.len();
        while let Some(unit) = self.held.next(0) {
            self.held.remove(unit);
            if !self.is_set_aside(unit) {
                self.units.change(unit, 0, self.unit_bits(unit).count_ones());
            }
        }
        count
    }

    /// Ends the holding of units when everything that moves has left: units that are not empty now will not be held
    /// again.
    pub fn release_stuck(&mut self) -> u32 {
        let mut at = 0;
        while let Some(unit) = self.held.next(at) {
            if !self.stuck.contains(unit) {
                self.stuck.insert(unit);
            }
            at = unit + 1;
        }
        self.release_held()
    }

    /// Allows units to be held again that could not be emptied.
    pub fn forget_stuck(&mut self) {
        while let Some(unit) = self.stuck.next(0) {
            self.stuck.remove(unit);
        }
    }

    /// Returns true if the block's unit is held.
    pub fn is_held(&self, block: u32) -> bool {
        self.held.contains(block / self.unit_blocks)
    }

    /// Returns true if whole units are less than half of the free space and less than a sixteenth of the device.
    pub fn lacks_whole_units(&self) -> bool {
        self.whole_unit_blocks() < (self.free / 2).min(self.blocks / 16)
    }

    /// Takes blocks wherever they are. At least `count` blocks must be free.
    fn allocate_small(&mut self, count: u32, runs: &mut Vec<Run>) {
        let mut left = count;
        while left > 0 {
            let open = self.open[Stream::Small as usize];
            let Some(start) = self.first_free(open) else {
                self.close(Stream::Small);
                self.open_small();
                continue;
            };
            let count = self.free_run_len(start, left.min(open.end() - start)).min(left).min(open.end() - start);
            self.take_from(Stream::Small, Run { start, count }, runs);
            left -= count;
        }
    }

    /// Returns the number of failed searches for a run after which everything has been searched once.
    pub fn run_searches(&self) -> u32 {
        self.high_water / RUN_SEARCH_BLOCKS + 2
    }

    /// Takes one run of exactly `count` blocks if a bounded search finds one.
    pub fn allocate_run(&mut self, count: u32) -> Option<Run> {
        if count > self.free {
            self.release_ready();
        }
        let unit = self.run_cursor / self.unit_blocks;
        let run = match count >= self.unit_blocks {
            true => self.whole_units(count, count, unit, CANDIDATES, true).filter(|run| run.count == count),
            false => self.run_in_unit(count, unit),
        };
        let run = run.or_else(|| self.run_across_units(count)).or_else(|| self.run_of_open(count));
        let Some(run) = run else {
            // The next search begins behind this one.
            let behind = self.run_cursor.saturating_add(RUN_SEARCH_BLOCKS);
            self.run_cursor = if behind < self.high_water { behind } else { 0 };
            return None;
        };
        self.run_cursor = run.end();
        self.take(run);
        Some(run)
    }

    /// Returns a run within a unit, preferably one that is not wholly free.
    fn run_in_unit(&self, count: u32, from: u32) -> Option<Run> {
        let in_unit = |unit| self.run_of_unit(unit, count);
        let partial = self.units.partial(from, PARTIAL_CANDIDATES).find_map(in_unit);
        let whole = || self.whole_units(1, 1, from, 1, true).map(|run| Run { start: run.start, count });
        // Any unit with free blocks has one block.
        partial.or_else(whole).or_else(|| self.units.find_fullest(from).and_then(in_unit))
    }

    /// Returns the first run of `count` free blocks in a unit. A unit has at most 64 blocks, so longer runs have none.
    fn run_of_unit(&self, unit: u32, count: u32) -> Option<Run> {
        let ones = (1..count.min(WORD_BITS + 1)).fold(self.unit_bits(unit), |bits, _| bits & (bits >> 1));
        (ones != 0).then(|| Run { start: unit * self.unit_blocks + ones.trailing_zeros(), count })
    }

    /// Returns a free run in a held unit; it may lie beyond the part ever used.
    fn run_in_held(&self, count: u32) -> Option<Run> {
        let after = |at: u32| self.held.next(at);
        std::iter::successors(after(0), |unit| after(unit + 1)).find_map(|unit| self.run_of_unit(unit, count))
    }

    /// Returns a free run in the part ever used, searched from the end of the last run on; it may lie in an open run.
    fn run_across_units(&self, count: u32) -> Option<Run> {
        let (mut at, mut left) = (self.run_cursor, RUN_SEARCH_BLOCKS.min(self.high_water));
        while left > 0 {
            at = if at >= self.high_water { 0 } else { at };
            let part = Run { start: at, count: left.min(self.high_water - at) };
            let Some(start) = self.first_free(part) else {
                (at, left) = (part.end(), left - part.count);
                continue;
            };
            let len = self.free_run_len(start, count);
            if len >= count {
                return Some(Run { start, count });
            }
            left = left.saturating_sub(start + len - at);
            at = start + len;
        }
        None
    }

    /// Returns the first free blocks of an open run.
    fn run_of_open(&self, count: u32) -> Option<Run> {
        self.open.into_iter().find_map(|open| {
            let start = self.first_free(open)?;
            (self.free_run_len(start, count) >= count).then_some(Run { start, count })
        })
    }

    /// Opens the next run for small requests. At least one block must be free, and the last open run used up.
    fn open_small(&mut self) {
        let ready = self.next_ready();
        self.open_is_ready = ready.is_some();
        if let Some(run) = ready {
            return self.open(Stream::Small, run);
        }
        self.missed_ready = true;
        let (cursor, max) = (self.cursors[Stream::Small as usize], self.small_open_blocks_max);
        if let Some(run) = self.whole_units(LONG_BLOCKS, max, cursor, CANDIDATES, false) {
            return self.open(Stream::Small, run);
        }
        if let Some(unit) = self.units.find_partial(cursor) {
            return self.open(Stream::Small, self.unit_run(unit));
        }
        // All free blocks are set aside for other streams.
        self.close(Stream::Cold);
        self.close(Stream::Large);
        self.release_held();
        let unit = self.units.find_fullest(cursor);
        let unit = unit.unwrap_or_else(|| panic!("no free block found with {} counted free", self.free));
        self.open(Stream::Small, self.unit_run(unit));
    }

    /// Returns wholly free units for `min` blocks, cut to `max` (rounded down to units if it is more than one), from
    /// the unit `from` on in the part ever used, or else beyond it; or else the longest run found. `long`: true if
    /// never used units are preferred to a shorter run.
    fn whole_units(&self, min: u32, max: u32, from: u32, candidates: u32, long: bool) -> Option<Run> {
        let unit = self.unit_blocks;
        let (used_end, end) = (self.high_water.div_ceil(unit), self.blocks.div_ceil(unit));
        let (min_units, max_units) = (min.div_ceil(unit), (max / unit).max(min.div_ceil(unit)).max(1));
        let used = self.units.find_whole([0, used_end], from, min_units, max_units, candidates);
        let fresh = || self.units.find_whole([used_end, end], used_end, min_units, max_units, 1);
        let better = |found: (u32, u32)| found.1 >= min_units;
        let found = match (used, long) {
            (Some(found), true) if !better(found) => fresh().filter(|fresh| fresh.1 > found.1).or(used),
            (Some(_), _) => used,
            (None, _) => fresh(),
        };
        found.map(|(first, units)| Run { start: first * unit, count: (units * unit).min(max.max(min)) })
    }

    fn unit_run(&self, unit: u32) -> Run {
        let start = unit * self.unit_blocks;
        Run { start, count: self.unit_blocks.min(self.blocks - start) }
    }

    /// Returns the free blocks of a unit, from bit 0 on.
    fn unit_bits(&self, unit: u32) -> u64 {
        let first = unit * self.unit_blocks;
        self.words[(first / WORD_BITS) as usize] >> (first % WORD_BITS) & mask(0, self.unit_blocks)
    }

    /// Returns the units that a run has blocks of.
    fn units_of(&self, run: Run) -> Range<u32> {
        match run.count {
            0 => 0..0,
            _ => run.start / self.unit_blocks..run.end().div_ceil(self.unit_blocks),
        }
    }

    /// Sets a run aside for a stream, which must have none.
    fn open(&mut self, stream: Stream, run: Run) {
        assert!(self.open[stream as usize].count == 0, "{stream:?} requests have a run already");
        for unit in self.units_of(run) {
            if !self.is_set_aside(unit) {
                self.units.change(unit, self.unit_bits(unit).count_ones(), 0);
            }
        }
        self.open[stream as usize] = run;
        self.cursors[stream as usize] = run.end() / self.unit_blocks;
    }

    fn close(&mut self, stream: Stream) {
        let end = self.open[stream as usize].end();
        self.advance(stream, end);
        if stream == Stream::Small {
            self.open_is_ready = false;
        }
    }

    /// Takes blocks of an open run, and drops the part before them from it.
    fn take_from(&mut self, stream: Stream, run: Run, runs: &mut Vec<Run>) {
        self.take(run);
        self.advance(stream, run.end());
        push_run(runs, run);
    }

    /// Drops the part before `to` from an open run.
    fn advance(&mut self, stream: Stream, to: u32) {
        let before = self.open[stream as usize];
        let after = Run { start: to, count: before.end() - to };
        self.open[stream as usize] = after;
        let kept = self.units_of(after);
        for unit in self.units_of(before) {
            if kept.contains(&unit) {
                break;
            }
            if !self.is_set_aside(unit) {
                self.units.change(unit, 0, self.unit_bits(unit).count_ones());
            }
        }
    }

    fn is_set_aside(&self, unit: u32) -> bool {
        self.held.contains(unit) || self.open.iter().any(|open| self.units_of(*open).contains(&unit))
    }

    /// Returns the first free block of a run.
    fn first_free(&self, run: Run) -> Option<u32> {
        let mut at = run.start;
        while at < run.end() {
            let word = self.words[(at / WORD_BITS) as usize] >> (at % WORD_BITS);
            if word != 0 {
                return Some(at + word.trailing_zeros()).filter(|at| *at < run.end());
            }
            at += WORD_BITS - at % WORD_BITS;
        }
        None
    }

    /// Returns the length of the free run that begins at `at`, counted up to `max` (rounded up to a word).
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
            let (before, mask) = (self.words[(at / WORD_BITS) as usize], mask(bit, count));
            let expected = if free { 0 } else { mask };
            assert!(before & mask == expected, "block of {run:?} is {} already", if free { "free" } else { "used" });
            self.words[(at / WORD_BITS) as usize] = before ^ mask;
            self.units_changed(Run { start: at, count }, before);
            at += count;
        }
    }

    /// Updates the units of changed blocks of one word, which was `before`.
    fn units_changed(&mut self, run: Run, before: u64) {
        for unit in self.units_of(run) {
            if !self.is_set_aside(unit) {
                let old = before >> (unit * self.unit_blocks % WORD_BITS) & mask(0, self.unit_blocks);
                self.units.change(unit, old.count_ones(), self.unit_bits(unit).count_ones());
            } else if self.held.contains(unit) && self.unit_bits(unit).count_ones() == self.unit_blocks {
                self.held.remove(unit);
                if !self.is_set_aside(unit) {
                    self.units.change(unit, 0, self.unit_blocks);
                }
            }
        }
    }

    /// Returns the first run that begins in `from .. from + search`, of at least `min` blocks that are free and have
    /// their bit set in `wanted`, cut to `max` blocks; and the block where to go on. Whole words are passed over at a
    /// time, since a sweep goes over much that is not wanted.
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

/// Returns `count` ones from bit `bit` on; `count` is 1 to 64.
fn mask(bit: u32, count: u32) -> u64 {
    (u64::MAX >> (WORD_BITS - count)) << bit
}

#[cfg(test)]
mod tests;
