//! A tree on a device in memory, with a naive map beside it.

use crate::btree::{
    Amount, BlockWrite, Cursor, Damage, Depth, Fetch, Found, Merge, MergeError, Merged, Overlay, PageCache, PageRead,
    Progress, Root, Run, Space, View, Walk, WalkProgress,
};
use crate::space::allocator::Allocator;
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use types::{AlignedBuf, BLOCK_BYTES, BufPool};

/// Keys and values.
pub type BedEntries = Vec<(Vec<u8>, Vec<u8>)>;

pub const TAG: u64 = 0x1122_3344_5566_7788;

/// A small random generator, good enough to choose among few things.
#[derive(Clone, Debug)]
pub struct BedRandom(pub u64);

impl BedRandom {
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

/// Blocks as they are on the device; blocks that were never written read as zeros.
#[derive(Clone, Default, Debug)]
pub struct Disk(pub BTreeMap<u32, Vec<u8>>);

impl Disk {
    pub fn write(&mut self, write: &BlockWrite) {
        let data: Vec<u8> = write.data.pieces().flat_map(|piece| piece.iter().copied()).collect();
        assert_eq!(data.len() as u64, write.run.len_bytes());
        for (block, content) in (write.run.start..).zip(data.chunks(BLOCK_BYTES)) {
            self.0.insert(block, content.to_vec());
        }
    }

    pub fn read(&self, run: Run) -> AlignedBuf {
        let mut buf = AlignedBuf::zeroed(run.len_bytes() as usize);
        for (block, out) in (run.start..run.end()).zip(buf.as_mut_slice().chunks_mut(BLOCK_BYTES)) {
            if let Some(content) = self.0.get(&block) {
                out.copy_from_slice(content);
            }
        }
        buf
    }
}

/// Free blocks in runs of random length.
#[derive(Debug)]
pub struct DeviceBlocks {
    pub allocator: Allocator,
    pub random: BedRandom,
    /// Length of the longest run that requests for single blocks get.
    pub run_max: u32,
}

impl Space for DeviceBlocks {
    fn allocate(&mut self, min: u32, wanted: u32) -> Option<Run> {
        let longest = wanted.min(self.run_max.max(min));
        let mut count = min + self.random.below(u64::from(longest - min) + 1) as u32;
        loop {
            match self.allocator.allocate_run(count) {
                None if count > min => count = min.max(count / 2),
                found => return found,
            }
        }
    }

    fn release(&mut self, run: Run) {
        self.allocator.release(run);
    }
}

#[derive(Debug)]
pub struct Bed {
    pub root: Option<Root>,
    pub overlay: Overlay,
    pub cache: PageCache,
    pub disk: Disk,
    pub blocks: DeviceBlocks,
    pub total_blocks: u32,
    pub generation: u64,
    pub model: BTreeMap<Vec<u8>, Vec<u8>>,
    pub random: BedRandom,
    pub reads: Vec<PageRead>,
    /// Tables that merges count, and the entries that they hold by that count.
    pub counted: &'static [u8],
    pub amounts: BTreeMap<u8, Amount>,
}

/// Tables that most tests' keys belong to.
pub const TABLES: &[u8] = &[0, 2, 3, 5, b'0', b'p'];

fn minus(have: Amount, lost: Amount) -> Amount {
    Amount { entries: have.entries - lost.entries, bytes: have.bytes - lost.bytes }
}

/// Blocks that the tree must not touch, such as the superblock's.
const FIRST_BLOCK: u32 = 3;

impl Bed {
    pub fn new(seed: u64, total_blocks: u32, cache_bytes: usize) -> Bed {
        let mut allocator = Allocator::new(total_blocks);
        allocator.release(Run { start: FIRST_BLOCK, count: total_blocks - FIRST_BLOCK });
        allocator.settle();
        Bed {
            root: None,
            overlay: Overlay::default(),
            cache: PageCache::new(TAG, cache_bytes),
            disk: Disk::default(),
            blocks: DeviceBlocks { allocator, random: BedRandom(seed ^ 1), run_max: 32 },
            total_blocks,
            generation: 0,
            model: BTreeMap::new(),
            random: BedRandom(seed),
            reads: Vec::new(),
            counted: TABLES,
            amounts: BTreeMap::new(),
        }
    }

    pub fn put(&mut self, key: &[u8], value: &[u8]) {
        self.overlay.put(key, value).unwrap();
        self.model.insert(key.to_vec(), value.to_vec());
    }

    pub fn delete(&mut self, key: &[u8]) {
        self.overlay.delete(key).unwrap();
        self.model.remove(key);
    }

    pub fn delete_range(&mut self, begin: &[u8], end: &[u8]) {
        self.overlay.delete_range(begin, end).unwrap();
        self.model.retain(|key, _| !(begin <= &key[..] && &key[..] < end));
    }

    /// Carries out one of the wanted reads, chosen at random.
    pub fn read_one(&mut self) {
        while let Some(read) = self.cache.poll_read() {
            self.reads.push(read);
        }
        let at = self.random.below(self.reads.len() as u64) as usize;
        let read = self.reads.swap_remove(at);
        self.cache.read_done(read.id, Ok(self.disk.read(read.run)));
    }

    /// Asks until there is an answer.
    pub fn ask<T>(&mut self, mut question: impl FnMut(&mut View<'_>) -> Result<Fetch<T>, Damage>) -> Result<T, Damage> {
        for _ in 0..100_000 {
            let view = &mut View { root: self.root, overlay: &self.overlay, cache: &mut self.cache };
            match question(view)? {
                Fetch::Ready(answer) => return Ok(answer),
                Fetch::Pending(_) => self.read_one(),
            }
        }
        panic!("no answer after many reads");
    }

    pub fn get(&mut self, key: &[u8]) -> Result<Option<Bytes>, Damage> {
        self.ask(|view| view.get(key))
    }

    /// Returns all entries of a range, a few at a time.
    pub fn range(&mut self, begin: &[u8], end: Option<&[u8]>, page: usize) -> Result<BedEntries, Damage> {
        let mut cursor = Cursor::new(begin, end, true);
        let mut all = Vec::new();
        loop {
            let found = self.ask(|view| cursor.next_page(view, page, 100_000))?;
            assert!(found.done || !found.entries.is_empty());
            all.extend(found.entries.into_iter().map(|(key, value)| (key.to_vec(), value.to_vec())));
            if found.done {
                return Ok(all);
            }
        }
    }

    /// Begins a merge of all changes so far.
    pub fn begin(&mut self) -> Merge {
        self.overlay.freeze();
        self.begin_again()
    }

    pub fn begin_again(&mut self) -> Merge {
        self.generation += 1;
        Merge::new(self.root, TAG, self.generation, BufPool::new(1 << 20)).counting(self.counted)
    }

    /// Brings a merge to its end; `each` sees every write before it is done.
    pub fn run(
        &mut self,
        merge: &mut Merge,
        mut each: impl FnMut(&mut Bed, &BlockWrite),
    ) -> Result<Merged, MergeError> {
        loop {
            let budget = 1 + self.random.below(30_000) as u32;
            let progress = merge.step(&self.overlay, &mut self.cache, &mut self.blocks, budget)?;
            while let Some(write) = merge.poll_write() {
                each(self, &write);
                self.disk.write(&write);
            }
            match progress {
                Progress::Working => {}
                // A lookup may have waited for the same page and had it read.
                Progress::Waiting(_) if self.cache.reads_in_flight() == 0 => {}
                Progress::Waiting(_) => self.read_one(),
                Progress::Done(merged) => return Ok(merged),
            }
        }
    }

    /// Makes a merge's outcome the tree.
    pub fn switch(&mut self, merged: Merged) {
        assert_eq!(merged.damaged, []);
        // The root survives on the device as bytes.
        self.root = Root::decode(&Root::encode(merged.root)).unwrap();
        assert!(merged.changes.is_exact);
        for table in self.counted {
            let (change, amount) = (merged.changes.of(*table), self.amounts.entry(*table).or_default());
            amount.entries += change.gained.entries;
            amount.bytes += change.gained.bytes;
            *amount = minus(*amount, change.lost);
        }
        self.overlay.retire();
        merged.freed.into_iter().for_each(|run| self.blocks.allocator.release(run));
    }

    pub fn merge(&mut self) -> u64 {
        let mut merge = self.begin();
        let merged = self.run(&mut merge, |_, _| ()).unwrap();
        let pages = merged.pages_written;
        self.switch(merged);
        self.amounts_are_the_models();
        pages
    }

    /// The counted entries are those of the model, which must all be in the tree.
    pub fn amounts_are_the_models(&self) {
        let mut amounts: BTreeMap<u8, Amount> = self.counted.iter().map(|table| (*table, Amount::default())).collect();
        for (key, value) in &self.model {
            if let Some(amount) = amounts.get_mut(key.first().unwrap_or(&0)) {
                amount.entries += 1;
                amount.bytes += (key.len() + value.len()) as u64;
            }
        }
        assert_eq!(self.amounts, amounts);
    }

    /// Merges all changes into the tree.
    pub fn merge_all(&mut self) {
        if self.overlay.is_frozen() {
            let mut merge = self.begin_again();
            let merged = self.run(&mut merge, |_, _| ()).unwrap();
            self.switch(merged);
        }
        self.merge();
    }

    /// Returns the findings of a walk over a root: blocks, entries, pages, damage. No block may be found twice.
    pub fn walk(&mut self, root: Option<Root>, depth: Depth) -> (BTreeSet<u32>, u64, u64, Vec<Damage>) {
        let mut walk = Walk::new(root, depth);
        let (mut blocks, mut damaged) = (BTreeSet::new(), Vec::new());
        loop {
            let count = 1 + self.random.below(10) as usize;
            let progress = walk.step(&mut self.cache, count, &mut |found| match found {
                Found::Page { run, .. } | Found::Overflow { run } => {
                    (run.start..run.end()).for_each(|block| assert!(blocks.insert(block), "block {block} held twice"));
                }
                Found::Damage(lost) => damaged.push(lost.damage),
            });
            match progress {
                WalkProgress::Working => {}
                WalkProgress::Waiting(_) => self.read_one(),
                WalkProgress::Done => return (blocks, walk.entries, walk.pages, damaged),
            }
        }
    }

    /// Checks that every block is free, in the tree, or reserved, and that walks of any depth agree. Returns the number
    /// of pages.
    pub fn every_block_is_free_or_reachable(&mut self) -> u64 {
        let (blocks, _, pages, damaged) = self.walk(self.root, Depth::Values);
        assert_eq!(damaged, []);
        let free: BTreeSet<u32> = (FIRST_BLOCK..self.total_blocks).filter(|block| !blocks.contains(block)).collect();
        let allocator = &self.blocks.allocator;
        let counted: BTreeSet<u32> = (0..self.total_blocks).filter(|block| allocator.is_free(*block)).collect();
        assert_eq!(counted, free);
        let (shallow, _, _, damaged) = self.walk(self.root, Depth::Space);
        assert_eq!((shallow, damaged), (blocks, vec![]));
        pages
    }

    /// Checks that tree and overlay hold the model's entries.
    pub fn content_is_the_models(&mut self) {
        let page = 1 + self.random.below(50) as usize;
        let all = self.range(&[], None, page).unwrap();
        assert_eq!(all.len(), self.model.len());
        for (found, expected) in all.iter().zip(&self.model) {
            assert!((&found.0, &found.1) == expected, "{:x?} found, {:x?} expected", found.0, expected.0);
        }
    }

    /// Does the check of [`Bed::content_is_the_models`] for an older root without the overlay.
    pub fn content_under(&mut self, root: Option<Root>) -> BedEntries {
        let overlay = std::mem::take(&mut self.overlay);
        let root = std::mem::replace(&mut self.root, root);
        let all = self.range(&[], None, 20).unwrap();
        (self.overlay, self.root) = (overlay, root);
        all
    }

    pub fn forget_all_pages(&mut self, cache_bytes: usize) {
        assert!(self.reads.is_empty(), "reads under way");
        self.cache = PageCache::new(TAG, cache_bytes);
    }

    /// Carries out all reads that are under way.
    pub fn settle(&mut self) {
        while self.cache.reads_in_flight() > 0 {
            self.read_one();
        }
    }
}
