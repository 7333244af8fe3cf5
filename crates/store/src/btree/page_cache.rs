//! Pages in memory, and the reads that bring them there.

use super::child::PageRef;
use super::damage::{Damage, DamageKind};
use super::overflow::OverflowRun;
use super::page::Page;
use super::{PAGE_BLOCKS, PAGE_BYTES};
use crate::space::run::Run;
use bytes::Bytes;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};
use types::{AlignedBuf, BLOCK_BYTES, crc32c};

/// Names one read of pages or overflow runs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ReadId(pub u64);

/// The answer to a request for a page: the page, or the read that brings it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Fetch<T> {
    Ready(T),
    /// Ask again once this read is done.
    Pending(ReadId),
}

/// Blocks to read. The result goes to [`PageCache::read_done`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PageRead {
    pub id: ReadId,
    pub run: Run,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CacheStats {
    pub hits: u64,
    /// Number of requests for entries that were not in the cache.
    pub misses: u64,
    pub reads: u64,
    /// Number of pages and overflow runs in the cache.
    pub entries: usize,
    pub bytes: usize,
}

/// The asker's plan for a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Use {
    /// The page may be wanted again.
    Keep,
    /// The page is looked at once: it need not stay in the cache for this asker.
    Once,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum ContentKind {
    Page { generation: u64, level: u8 },
    Overflow,
}

/// Names the content of blocks for good: blocks are used again, but never for the same page.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct ContentKey {
    run: Run,
    crc: u32,
    what: ContentKind,
}

impl ContentKey {
    fn page(page: &PageRef, level: u8) -> ContentKey {
        let what = ContentKind::Page { generation: page.generation, level };
        ContentKey { run: page.run(), crc: page.crc, what }
    }

    fn overflow(run: &OverflowRun) -> ContentKey {
        ContentKey { run: run.run, crc: run.crc, what: ContentKind::Overflow }
    }
}

#[derive(Debug)]
enum Content {
    Page(Page),
    Overflow(Bytes),
}

#[derive(Debug)]
struct CacheSlot {
    key: ContentKey,
    content: Content,
    /// Number of turns of the clock that the entry survives without being hit.
    lives: u8,
    /// True from the read until the first request: the entry stays, so that its waiter finds it.
    fresh: bool,
    /// True if no asker wants the entry to stay.
    once: bool,
}

#[derive(Debug)]
struct PendingRead {
    id: ReadId,
    keep: bool,
}

/// A hasher for block numbers, which need no strong hash. It has no random seed, so that runs are reproducible.
#[derive(Default)]
struct BlockHasher(u64);

impl Hasher for BlockHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u32(u32::from(*byte)));
    }

    fn write_u32(&mut self, block: u32) {
        // Fibonacci hashing. The table uses both the highest and the lowest bits.
        let mixed = (self.0 ^ u64::from(block)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ mixed >> 32;
    }
}

/// Memory of an entry besides its bytes, in bytes.
const ENTRY_BYTES: usize = 160;
/// Number of further reads after which an entry that was not asked for loses its protection. Overflow runs keep theirs
/// longer: a value may lie in thousands of runs, all of which must be in memory at once.
const FRESH_PAGES_MAX: u64 = 512;
const FRESH_OVERFLOW_MAX: u64 = 32 << 10;

/// Pages and overflow runs, up to a budget of bytes, by the clock algorithm: pages that are hit again survive, interior
/// pages longer. Readers share the memory of their pages, which stays alive in or out of the cache.
///
/// Place, checksum and generation identify a page. Pages of blocks that were freed and used again therefore need not be
/// removed: they no longer match, and neither does the outcome of a read ahead for a need that is gone.
#[derive(Debug)]
pub struct PageCache {
    tag: u64,
    budget_bytes: usize,
    slots: Vec<Option<CacheSlot>>,
    vacant: Vec<u32>,
    /// Slot by first block.
    index: HashMap<u32, u32, BuildHasherDefault<BlockHasher>>,
    hand: usize,
    in_flight: BTreeMap<ContentKey, PendingRead>,
    by_id: BTreeMap<ReadId, ContentKey>,
    wanted: VecDeque<PageRead>,
    failed: BTreeMap<ContentKey, Damage>,
    /// Fresh entries in the order of arrival, with the number of the read.
    fresh: VecDeque<(u64, ContentKey)>,
    last_id: u64,
    stats: CacheStats,
}

impl PageCache {
    /// Creates a cache for the pages of the store with this tag. The budget covers entries kept for later, not those on
    /// their way to a waiter.
    pub fn new(tag: u64, budget_bytes: usize) -> PageCache {
        PageCache {
            tag,
            budget_bytes,
            slots: Vec::new(),
            vacant: Vec::new(),
            index: HashMap::default(),
            hand: 0,
            in_flight: BTreeMap::new(),
            by_id: BTreeMap::new(),
            wanted: VecDeque::new(),
            failed: BTreeMap::new(),
            fresh: VecDeque::new(),
            last_id: 0,
            stats: CacheStats::default(),
        }
    }

    pub fn tag(&self) -> u64 {
        self.tag
    }

    /// Changes the budget, and drops entries beyond it.
    pub fn set_budget(&mut self, budget_bytes: usize) {
        self.budget_bytes = budget_bytes;
        self.evict();
    }

    pub fn stats(&self) -> CacheStats {
        CacheStats { entries: self.index.len(), ..self.stats }
    }

    /// Returns the next read to carry out.
    pub fn poll_read(&mut self) -> Option<PageRead> {
        self.wanted.pop_front()
    }

    /// Returns the number of reads that are under way or wanted.
    pub fn reads_in_flight(&self) -> usize {
        self.by_id.len()
    }

    /// Takes a read's outcome: the bytes, or an errno. Panics for a read that was not asked for or is done.
    pub fn read_done(&mut self, id: ReadId, result: Result<AlignedBuf, i32>) {
        let key = self.by_id.remove(&id).unwrap_or_else(|| panic!("{id:?} is not under way"));
        let in_flight = self.in_flight.remove(&key).expect("under way");
        match result.map_err(DamageKind::Device).and_then(|buf| self.content(&key, buf)) {
            Ok(content) => {
                self.insert(CacheSlot { key, content, lives: 0, fresh: true, once: !in_flight.keep });
                self.fresh.push_back((self.stats.reads, key));
                self.stats.reads += 1;
                self.expire();
                self.evict();
            }
            Err(kind) => drop(self.failed.insert(key, kind.at(key.run))),
        }
    }

    fn content(&self, key: &ContentKey, buf: AlignedBuf) -> Result<Content, DamageKind> {
        match key.what {
            ContentKind::Page { generation, level } => {
                let expected = PageRef { block: key.run.start, crc: key.crc, generation };
                Page::decode(buf.freeze(), self.tag, &expected, level).map(Content::Page)
            }
            ContentKind::Overflow => {
                let wanted_bytes = key.run.count as usize * BLOCK_BYTES;
                if buf.len() != wanted_bytes {
                    return Err(DamageKind::Short { wanted_bytes, found_bytes: buf.len() });
                }
                match crc32c::checksum(buf.as_slice()) {
                    found if found != key.crc => Err(DamageKind::Checksum { expected: key.crc, found }),
                    _ => Ok(Content::Overflow(buf.freeze())),
                }
            }
        }
    }

    /// Forgets failed reads, which are then tried again. Until this call every asker gets the same error.
    pub fn forget_failures(&mut self) {
        self.failed.clear();
    }

    /// Drops the content of blocks that are free now.
    pub fn forget(&mut self, run: Run) {
        if let Some(slot) = self.index.get(&run.start) {
            self.remove(*slot);
        }
    }

    /// Returns the page, if it is in the cache.
    pub(crate) fn page(&mut self, page: &PageRef, level: u8) -> Result<Fetch<&Page>, Damage> {
        let key = ContentKey::page(page, level);
        let Some(at) = self.hit(&key, Use::Keep) else {
            self.stats.misses += 1;
            return Ok(Fetch::Pending(self.request(key, Use::Keep)?));
        };
        match &self.slots[at as usize] {
            Some(CacheSlot { content: Content::Page(page), .. }) => Ok(Fetch::Ready(page)),
            other => panic!("slot {at} holds {other:?}, not a page"),
        }
    }

    /// Returns the page; the caller shares its memory.
    pub(crate) fn take_page(&mut self, page: &PageRef, level: u8, how: Use) -> Result<Fetch<Page>, Damage> {
        let key = ContentKey::page(page, level);
        let Some(at) = self.hit(&key, how) else {
            self.stats.misses += 1;
            return Ok(Fetch::Pending(self.request(key, how)?));
        };
        Ok(Fetch::Ready(match self.claim(at, how) {
            Content::Page(page) => page,
            other => panic!("slot {at} holds {other:?}, not a page"),
        }))
    }

    /// Asks for the page ahead of need. An error is reported to the asker that needs it.
    pub(crate) fn prefetch(&mut self, page: &PageRef, level: u8, how: Use) {
        let key = ContentKey::page(page, level);
        if self.find(&key).is_none() {
            let _ = self.request(key, how);
        }
    }

    /// Asks for an overflow run unless it is in the cache, without taking it.
    pub(crate) fn want_blocks(&mut self, run: &OverflowRun) -> Result<Option<ReadId>, Damage> {
        let key = ContentKey::overflow(run);
        match self.find(&key) {
            Some(_) => Ok(None),
            None => {
                self.stats.misses += 1;
                self.request(key, Use::Keep).map(Some)
            }
        }
    }

    /// Returns an overflow run's bytes. Panics unless [`PageCache::want_blocks`] has just found it.
    pub(crate) fn take_blocks(&mut self, run: &OverflowRun, how: Use) -> Bytes {
        let at = self.hit(&ContentKey::overflow(run), how).expect("the run is there");
        match self.claim(at, how) {
            Content::Overflow(bytes) => bytes,
            other => panic!("slot {at} holds {other:?}, not an overflow run"),
        }
    }

    /// Inserts a page that was just made, as if it had been read and asked for again.
    pub(crate) fn insert_page(&mut self, expected: &PageRef, page: Page) {
        let key = ContentKey::page(expected, page.level());
        let lives = lives_of(&page);
        self.insert(CacheSlot { key, content: Content::Page(page), lives, fresh: false, once: false });
        self.evict();
    }

    /// Returns the page, if it is in the cache, without marking it as used.
    pub(crate) fn peek_page(&self, page: &PageRef, level: u8) -> Option<&Page> {
        match &self.slots[self.find(&ContentKey::page(page, level))? as usize] {
            Some(CacheSlot { content: Content::Page(page), .. }) => Some(page),
            other => panic!("a slot of pages holds {other:?}"),
        }
    }

    /// Returns true if a page is in the cache, without marking it as used.
    pub(crate) fn contains(&self, page: &PageRef, level: u8) -> bool {
        self.find(&ContentKey::page(page, level)).is_some()
    }

    /// Returns true if a page is in the cache for an asker that may want it again.
    pub(crate) fn is_kept(&self, page: &PageRef, level: u8) -> bool {
        let slot = self.find(&ContentKey::page(page, level)).and_then(|at| self.slots[at as usize].as_ref());
        slot.is_some_and(|slot| !slot.once)
    }

    fn find(&self, key: &ContentKey) -> Option<u32> {
        let at = *self.index.get(&key.run.start)?;
        (self.slots[at as usize].as_ref().expect("indexed slots are occupied").key == *key).then_some(at)
    }

    fn hit(&mut self, key: &ContentKey, how: Use) -> Option<u32> {
        let at = self.find(key)?;
        let slot = self.slots[at as usize].as_mut().expect("indexed slots are occupied");
        let lives = match &slot.content {
            Content::Page(page) => lives_of(page),
            Content::Overflow(_) => 0,
        };
        if how == Use::Keep {
            // The first hit comes from the asker that had the page read, so it does not predict further hits.
            slot.lives = if slot.fresh { lives - lives.min(1) } else { lives };
        }
        slot.fresh = false;
        self.stats.hits += 1;
        Some(at)
    }

    fn claim(&mut self, at: u32, how: Use) -> Content {
        let slot = self.slots[at as usize].as_mut().expect("indexed slots are occupied");
        let content = match &slot.content {
            Content::Page(page) => Content::Page(page.clone()),
            Content::Overflow(bytes) => Content::Overflow(bytes.clone()),
        };
        if how == Use::Keep {
            slot.once = false;
        } else if slot.once {
            self.remove(at);
        }
        content
    }

    fn request(&mut self, key: ContentKey, how: Use) -> Result<ReadId, Damage> {
        if let Some(damage) = self.failed.get(&key) {
            return Err(damage.clone());
        }
        let keep = how == Use::Keep;
        if let Some(in_flight) = self.in_flight.get_mut(&key) {
            in_flight.keep |= keep;
            return Ok(in_flight.id);
        }
        self.last_id += 1;
        let id = ReadId(self.last_id);
        self.in_flight.insert(key, PendingRead { id, keep });
        self.by_id.insert(id, key);
        self.wanted.push_back(PageRead { id, run: key.run });
        Ok(id)
    }

    fn insert(&mut self, slot: CacheSlot) {
        self.forget(slot.key.run);
        self.stats.bytes += bytes_of(&slot);
        let block = slot.key.run.start;
        let at = match self.vacant.pop() {
            Some(at) => at,
            None => {
                self.slots.push(None);
                (self.slots.len() - 1) as u32
            }
        };
        self.slots[at as usize] = Some(slot);
        self.index.insert(block, at);
    }

    fn remove(&mut self, at: u32) {
        let slot = self.slots[at as usize].take().expect("indexed slots are occupied");
        self.stats.bytes -= bytes_of(&slot);
        self.index.remove(&slot.key.run.start);
        self.vacant.push(at);
    }

    /// Ends the protection of entries that were never asked for.
    fn expire(&mut self) {
        while let Some((number, key)) = self.fresh.front() {
            let age_max = if key.what == ContentKind::Overflow { FRESH_OVERFLOW_MAX } else { FRESH_PAGES_MAX };
            let found = self.find(key).and_then(|at| self.slots[at as usize].as_mut()).filter(|slot| slot.fresh);
            match found {
                Some(_) if self.stats.reads - number < age_max => return,
                Some(slot) => slot.fresh = false,
                None => {}
            }
            self.fresh.pop_front();
        }
    }

    fn evict(&mut self) {
        // Each life costs one turn of the hand; after that only fresh entries are left.
        let mut steps = self.slots.len() * (usize::from(INTERIOR_LIVES) + 2);
        while self.stats.bytes > self.budget_bytes && steps > 0 {
            steps -= 1;
            self.hand = if self.hand + 1 < self.slots.len() { self.hand + 1 } else { 0 };
            match &mut self.slots[self.hand] {
                Some(slot) if slot.fresh => {}
                Some(slot) if slot.lives > 0 => slot.lives -= 1,
                Some(_) => self.remove(self.hand as u32),
                None => {}
            }
        }
    }
}

const INTERIOR_LIVES: u8 = 4;

fn lives_of(page: &Page) -> u8 {
    if page.level() > 0 { INTERIOR_LIVES } else { 1 }
}

fn bytes_of(slot: &CacheSlot) -> usize {
    ENTRY_BYTES + slot.key.run.count as usize * BLOCK_BYTES
}

const _: () = assert!(PAGE_BYTES == PAGE_BLOCKS as usize * BLOCK_BYTES);
