//! Verified data that was read from the device, kept in memory for the next reader.
//!
//! An entry is a run of blocks as one request read it. A cache with room keeps everything. A full cache takes only runs
//! that are read a second time soon after they were missed ([`Ghosts`] remembers misses), so that a scan of much data
//! costs neither memory nor work. Evictions follow the clock algorithm: a use saves an entry for one more round.
//!
//! Code that gives blocks back to the allocator, or writes to them, must call [`BlockCache::forget`] first.

use crate::config::BLOCK;
use crate::space::run::Run;
use bytes::Bytes;
use std::cell::Cell;
use std::collections::btree_map::Entry as MapEntry;
use std::collections::{BTreeMap, VecDeque};

/// Memory of an entry besides its bytes and checksums, in bytes: its part of a tree node and its place in the clock.
const ENTRY_BYTES: usize = 192;
/// Entries of fewer blocks than this are copied. The buffers that they were read into then go back to their pool at
/// once, where small reads need them again and again. Memory on block boundaries also costs allocators up to twice its
/// size.
const SHARED_BLOCKS_MIN: u32 = 8;
/// A cached part of at least this many blocks is used even if the blocks beside it then need a request of their own. A
/// smaller part is used only if it is half of the range.
const PART_BLOCKS_MIN: u32 = 16;
/// Maximum number of clock rounds that uses save an entry for.
const USES_MAX: u8 = 3;
/// Number of entries spared before one is evicted whatever its uses, so that no read pays for a round of a large clock.
const SPARED_MAX: u32 = 32;

/// Counts of the block cache since the store was opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BlockCacheStats {
    /// Number of parts of reads, of at most 1 MiB each, that were found in the cache.
    pub hits: u64,
    /// Number of parts of reads that came from the device.
    pub misses: u64,
    pub hit_bytes: u64,
    pub miss_bytes: u64,
    /// Memory in use, bookkeeping included, in bytes. Never more than the budget.
    pub bytes: u64,
}

#[derive(Debug)]
struct Entry {
    data: Bytes,
    crcs: Vec<u32>,
    /// Bytes of memory that the entry adds to the cache's total.
    charge: usize,
    /// Distinguishes this entry from earlier ones of the same block, in the clock.
    number: u64,
    uses: Cell<u8>,
}

impl Entry {
    fn blocks(&self) -> u32 {
        (self.data.len() as u64 / BLOCK) as u32
    }

    /// Returns the part of `run` that this entry, which begins at block `start`, has. Returns `None` if one large
    /// request costs less than using it.
    fn worth_using(&self, start: u32, run: Run) -> Option<Run> {
        let (begin, end) = (start.max(run.start), (start + self.blocks()).min(run.end()));
        let worth = begin < end && (2 * (end - begin) >= run.count || end - begin >= PART_BLOCKS_MIN);
        worth.then(|| Run { start: begin, count: end - begin })
    }
}

#[derive(Default, Debug)]
pub(crate) struct BlockCache {
    budget_bytes: usize,
    /// Memory of entries and ghosts.
    bytes: usize,
    /// Entries by first block. They do not overlap.
    entries: BTreeMap<u32, Entry>,
    /// First block and number of entries, in the order of eviction. Elements whose entry is gone are passed over.
    clock: VecDeque<(u32, u64)>,
    last_number: u64,
    ghosts: Ghosts,
    stats: Cell<BlockCacheStats>,
}

impl BlockCache {
    /// Limits the memory; 0 turns the cache off. Entries that no longer fit are dropped.
    pub fn set_budget(&mut self, budget_bytes: usize) {
        self.bytes -= self.ghosts.bytes();
        // The ghosts remember as many blocks as the cache holds: a run that is used at least that often is worth its
        // place.
        self.ghosts = Ghosts::new((budget_bytes as u64 / BLOCK).min(u64::from(u32::MAX / 2)) as u32);
        self.bytes += self.ghosts.bytes();
        self.budget_bytes = budget_bytes;
        self.make_room(0);
    }

    /// Drops all entries. The counts go on.
    pub fn forget_all(&mut self) {
        let budget_bytes = self.budget_bytes;
        self.set_budget(0);
        self.set_budget(budget_bytes);
    }

    pub fn stats(&self) -> BlockCacheStats {
        BlockCacheStats { bytes: self.bytes as u64, ..self.stats.get() }
    }

    /// Returns the first part of the run that is in the cache and worth using. A part at the run's beginning is to be
    /// used; for a later part, the caller reads only the blocks before it. `crcs`: the object's checksums of the run's
    /// blocks.
    pub fn find(&self, run: Run, crcs: &[u32]) -> Option<(Run, Bytes)> {
        // One lookup settles the most common cases: no entry has a part of the run, or one has all of it.
        let last = self.entries.range(..run.end()).next_back()?;
        let (start, entry) = if *last.0 <= run.start {
            Some(last).filter(|(start, entry)| entry.worth_using(**start, run).is_some())?
        } else {
            let before = self.entries.range(..run.start).next_back();
            let mut all = before.into_iter().chain(self.entries.range(run.start..run.end()));
            all.find(|(start, entry)| entry.worth_using(**start, run).is_some())?
        };
        let part = entry.worth_using(*start, run).expect("chosen for that");
        let in_entry = (part.start - start) as usize..(part.end() - start) as usize;
        let in_run = (part.start - run.start) as usize..(part.end() - run.start) as usize;
        assert_eq!(entry.crcs[in_entry.clone()], crcs[in_run], "{part:?} was written, but not forgotten");
        if part.start == run.start {
            entry.uses.set((entry.uses.get() + 1).min(USES_MAX));
            let stats = self.stats.get();
            let (hits, hit_bytes) = (stats.hits + 1, stats.hit_bytes + part.len_bytes());
            self.stats.set(BlockCacheStats { hits, hit_bytes, ..stats });
        }
        let block = BLOCK as usize;
        Some((part, entry.data.slice(in_entry.start * block..in_entry.end * block)))
    }

    /// Takes in data that was read from the device and matches `crcs`. `held_bytes`: memory that `data` keeps.
    pub fn offer(&mut self, run: Run, data: &Bytes, held_bytes: usize, crcs: Vec<u32>) {
        let stats = self.stats.get_mut();
        stats.misses += 1;
        stats.miss_bytes += run.len_bytes();
        if self.budget_bytes == 0 {
            return;
        }
        let copied = run.count < SHARED_BLOCKS_MIN;
        let held_bytes = if copied { data.len() } else { held_bytes };
        let charge = ENTRY_BYTES + held_bytes + crcs.capacity() * size_of::<u32>();
        let again = self.ghosts.meet(run);
        if self.bytes + charge > self.budget_bytes && (!again || charge > self.budget_bytes / 4) {
            return;
        }
        self.forget(run);
        self.make_room(charge);
        let data = if copied { Bytes::copy_from_slice(data) } else { data.clone() };
        self.last_number += 1;
        let number = self.last_number;
        self.bytes += charge;
        self.entries.insert(run.start, Entry { data, crcs, charge, number, uses: Cell::new(u8::from(again)) });
        self.clock.push_back((run.start, number));
    }

    /// Drops all entries with blocks of the run.
    pub fn forget(&mut self, run: Run) {
        while let Some((start, entry)) = self.entries.range(..run.end()).next_back()
            && start + entry.blocks() > run.start
        {
            self.remove(*start);
        }
        if self.clock.len() > 2 * self.entries.len() + 64 {
            let entries = &self.entries;
            self.clock.retain(|(start, number)| entries.get(start).is_some_and(|entry| entry.number == *number));
        }
    }

    fn remove(&mut self, start: u32) {
        let entry = self.entries.remove(&start).expect("seen by the caller");
        self.bytes -= entry.charge;
    }

    /// Evicts entries until this many more bytes fit.
    fn make_room(&mut self, bytes: usize) {
        let mut spared = 0;
        while self.bytes + bytes > self.budget_bytes {
            let Some((start, number)) = self.clock.pop_front() else {
                // The budget is so small that the ghosts alone exceed it.
                assert!(self.entries.is_empty() && bytes == 0, "an entry is not in the clock");
                self.bytes -= self.ghosts.bytes();
                self.ghosts = Ghosts::default();
                assert_eq!(self.bytes, 0, "memory without an owner");
                return;
            };
            let MapEntry::Occupied(slot) = self.entries.entry(start) else { continue };
            let uses = slot.get().uses.get();
            if slot.get().number != number {
                continue;
            } else if uses > 0 && spared < SPARED_MAX {
                spared += 1;
                slot.get().uses.set(uses - 1);
                self.clock.push_back((start, number));
            } else {
                spared = 0;
                self.bytes -= slot.remove().charge;
            }
        }
    }
}

const WAYS: usize = 4;

#[derive(Clone, Copy, Default, Debug)]
struct Ghost {
    /// First block of the run. Block 0 never holds data and means: none.
    block: u32,
    /// Time of the miss, by the clock of [`Ghosts`].
    at: u32,
}

/// Runs that were missed lately, by first block. A full set of four forgets the oldest.
#[derive(Default, Debug)]
struct Ghosts {
    sets: Vec<[Ghost; WAYS]>,
    /// Number of blocks missed so far: the clock that ages are measured by.
    now: u32,
    /// Maximum age, in blocks missed.
    age_max: u32,
}

impl Ghosts {
    /// Creates ghosts that are remembered until `age_max` further blocks are missed.
    fn new(age_max: u32) -> Ghosts {
        let sets = (age_max as usize / WAYS).next_power_of_two();
        let sets = if age_max == 0 { Vec::new() } else { vec![Default::default(); sets] };
        Ghosts { sets, now: 0, age_max }
    }

    fn bytes(&self) -> usize {
        self.sets.capacity() * size_of::<[Ghost; WAYS]>()
    }

    /// Notes a miss of the run. Returns true if this is the second one; the run is then forgotten.
    fn meet(&mut self, run: Run) -> bool {
        self.now = self.now.wrapping_add(run.count);
        if self.sets.is_empty() {
            return false;
        }
        // Multiplication spreads adjoining numbers; its upper bits are the best.
        let hash = run.start.wrapping_mul(0x9e37_79b1) as usize >> 7;
        let at = hash & (self.sets.len() - 1);
        let (now, age_max, set) = (self.now, self.age_max, &mut self.sets[at]);
        let age = |ghost: &Ghost| if ghost.block == 0 { u32::MAX } else { now.wrapping_sub(ghost.at) };
        if let Some(found) = set.iter_mut().find(|ghost| ghost.block == run.start) {
            let again = age(found) <= age_max;
            *found = if again { Ghost::default() } else { Ghost { block: run.start, at: now } };
            return again;
        }
        let oldest = set.iter_mut().max_by_key(|ghost| age(ghost)).expect("a set has ways");
        *oldest = Ghost { block: run.start, at: now };
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    const KIB: usize = 1024;

    fn run(start: u32, count: u32) -> Run {
        Run { start, count }
    }

    /// Returns a block's content, which is also its checksum, after this many writes.
    fn word(block: u32, written: u32) -> u32 {
        block << 8 | written
    }

    #[derive(Default)]
    struct TestDevice {
        cache: BlockCache,
        written: BTreeMap<u32, u32>,
    }

    impl TestDevice {
        fn with_budget(budget_bytes: usize) -> TestDevice {
            let mut device = TestDevice::default();
            device.cache.set_budget(budget_bytes);
            device
        }

        fn words(&self, run: Run) -> Vec<u32> {
            (run.start..run.end()).map(|block| word(block, self.written.get(&block).copied().unwrap_or(0))).collect()
        }

        fn write(&mut self, run: Run) {
            self.cache.forget(run);
            (run.start..run.end()).for_each(|block| *self.written.entry(block).or_default() += 1);
        }

        /// Reads as the store does. Returns the number of blocks that came from the cache; all of them must have the
        /// right content.
        fn read(&mut self, run: Run) -> u32 {
            let (mut rest, mut hits) = (run, 0);
            while rest.count > 0 {
                let crcs = self.words(rest);
                let mut end = rest.end();
                match self.cache.find(rest, &crcs) {
                    Some((part, data)) if part.start == rest.start => {
                        let found: Vec<u32> = data
                            .chunks(BLOCK as usize)
                            .map(|block| {
                                assert_eq!(block[..4], block[block.len() - 4..]);
                                u32::from_le_bytes(block[..4].try_into().unwrap())
                            })
                            .collect();
                        assert_eq!(found, self.words(part));
                        hits += part.count;
                        rest = Run { start: part.end(), count: rest.end() - part.end() };
                        continue;
                    }
                    Some((part, _)) => end = part.start,
                    None => {}
                }
                let part = Run { start: rest.start, count: end - rest.start };
                let words = self.words(part);
                let data: Vec<u8> =
                    words.iter().flat_map(|word| word.to_le_bytes().repeat(BLOCK as usize / 4)).collect();
                self.cache.offer(part, &Bytes::from(data), part.len_bytes() as usize, words);
                rest = Run { start: end, count: rest.end() - end };
            }
            self.sound();
            hits
        }

        fn sound(&self) {
            let cache = &self.cache;
            let charges: usize = cache.entries.values().map(|entry| entry.charge).sum();
            assert_eq!(cache.bytes, charges + cache.ghosts.bytes());
            assert!(cache.bytes <= cache.budget_bytes, "{} of {} bytes", cache.bytes, cache.budget_bytes);
            let mut end = 0;
            for (start, entry) in &cache.entries {
                assert!(*start >= end, "entries overlap at {start}");
                assert!(entry.charge >= entry.data.len() + 4 * entry.crcs.len());
                end = start + entry.blocks();
            }
            assert!(cache.clock.len() <= 2 * cache.entries.len() + 65);
        }
    }

    #[test]
    fn a_full_cache_keeps_what_is_used_and_takes_nothing_of_a_scan() {
        let mut device = TestDevice::with_budget(1024 * KIB);
        let hot: Vec<Run> = (0..243).map(|i| run(1000 + 7 * i, 1)).collect();
        hot.iter().for_each(|run| assert_eq!(device.read(*run), 0));
        for round in 0..20 {
            assert_eq!(hot.iter().map(|run| device.read(*run)).sum::<u32>(), 243, "round {round}");
            (0..40).for_each(|i| assert_eq!(device.read(run(10_000 + round * 2000 + i * 50, 50)), 0));
        }
        let before = device.cache.stats();
        assert_eq!((before.hits, before.hit_bytes), (20 * 243, 20 * 243 * BLOCK));
        assert_eq!((before.misses, before.miss_bytes), (243 + 800, (243 + 800 * 50) * BLOCK));
        // A run that becomes hot while the cache is full gets in when it is read again, unless that takes too long.
        let new = run(500, 1);
        assert_eq!((device.read(new), device.read(new), device.read(new)), (0, 0, 1));
        let late = run(600, 1);
        assert_eq!((device.read(late), device.read(run(200_000, 200)), device.read(run(300_000, 200))), (0, 0, 0));
        assert_eq!((device.read(run(400_000, 200)), device.read(late), device.read(late)), (0, 0, 0));
    }

    #[test]
    fn parts_of_entries_are_found_where_that_saves_a_request() {
        let mut device = TestDevice::with_budget(8192 * KIB);
        device.read(run(1000, 256));
        assert_eq!(device.read(run(1010, 1)), 1, "a block of a large entry");
        assert_eq!(device.read(run(990, 100)), 90);
        assert_eq!(device.read(run(1200, 100)), 56);
        // Small entries do not cut large reads into pieces; the large reads replace them.
        device.read(run(2010, 2));
        assert_eq!(device.read(run(2000, 64)), 0);
        assert_eq!(device.read(run(2000, 64)), 64);
        device.write(run(2063, 10));
        assert_eq!(device.read(run(2000, 64)), 0, "one block written: the entry is gone");
    }

    #[test]
    fn small_entries_do_not_hold_on_to_buffers() {
        let mut cache = BlockCache::default();
        cache.set_budget(1 << 20);
        let pool = types::BufPool::new(1 << 20);
        let small = pool.take(BLOCK as usize).freeze();
        cache.offer(run(10, 1), &small, BLOCK as usize, vec![1]);
        let large = pool.take(16 * BLOCK as usize).freeze();
        cache.offer(run(100, 16), &large, 16 * BLOCK as usize, vec![2; 16]);
        drop((small, large));
        assert_eq!(pool.free_bytes(), BLOCK as usize);
        let (part, found) = cache.find(run(102, 1), &[2]).unwrap();
        assert_eq!((part, found.len()), (run(102, 1), BLOCK as usize));
        cache.set_budget(0);
        assert_eq!((cache.stats().bytes, pool.free_bytes()), (0, BLOCK as usize));
        drop(found);
        assert_eq!(pool.free_bytes(), 17 * BLOCK as usize);
        assert_eq!(cache.find(run(10, 1), &[1]), None);
    }

    #[test]
    #[should_panic(expected = "Run { start: 10, count: 1 } was written, but not forgotten")]
    fn stale_blocks_are_noticed() {
        let mut device = TestDevice::with_budget(1 << 20);
        device.read(run(10, 1));
        *device.written.entry(10).or_default() += 1;
        device.read(run(10, 1));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(100))]
        #[test]
        fn what_is_found_is_what_the_device_holds(
            budgets in prop::collection::vec(0usize..600 * KIB, 1..4),
            steps in prop::collection::vec((0u8..16, 1u32..200, prop_oneof![1u32..4, 1u32..60]), 1..150),
        ) {
            let mut device = TestDevice::with_budget(budgets[0]);
            let mut budgets = budgets.iter().cycle();
            for (kind, start, count) in steps {
                match kind {
                    0 => device.cache.set_budget(*budgets.next().unwrap()),
                    1..4 => device.write(run(start, count)),
                    _ => drop(device.read(run(start, count))),
                }
                device.sound();
            }
        }
    }
}
