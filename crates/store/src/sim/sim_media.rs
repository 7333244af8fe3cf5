//! One device in memory that keeps only what it must.

use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use types::{AlignedBuf, BLOCK_BYTES, Errno};

/// Unit that a crash does not tear: a write is a set of sectors, each of which lands or not.
const SECTOR_BYTES: usize = 512;

/// Content of a discarded block: bytes that no one wrote.
static GARBAGE: [u8; BLOCK_BYTES] = [0xdb; BLOCK_BYTES];
static ZEROS: [u8; BLOCK_BYTES] = [0; BLOCK_BYTES];

/// A change of blocks from `block` on: their new content, `None` where a discard left it undefined.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub block: u64,
    pub content: Vec<Option<Bytes>>,
}

/// The blocks of one device, those that a flush has made durable, and its faults.
#[derive(Clone, Debug)]
pub struct SimMedia {
    bytes: u64,
    /// Content that reads see; blocks never written read as zeros.
    present: BTreeMap<u64, Bytes>,
    /// Content that survives any crash.
    durable: BTreeMap<u64, Bytes>,
    /// Changes that are done but not flushed, with their numbers in the order in which they were done.
    volatile: VecDeque<(u64, Change)>,
    next_number: u64,
    unreadable: BTreeSet<u64>,
    /// Blocks that ever held something else than what was last written to them.
    damaged: BTreeSet<u64>,
    failing_writes: u64,
    failing_flushes: u64,
}

/// A block of which some sectors are new: those whose bits are set.
fn torn(old: Option<&Bytes>, new: &Bytes, sectors: u64) -> Bytes {
    let mut torn = old.map_or(ZEROS.to_vec(), |old| old.to_vec());
    for at in (0..BLOCK_BYTES).step_by(SECTOR_BYTES) {
        if sectors >> (at / SECTOR_BYTES) & 1 == 1 {
            torn[at..at + SECTOR_BYTES].copy_from_slice(&new[at..at + SECTOR_BYTES]);
        }
    }
    torn.into()
}

fn undefined(content: Option<Bytes>) -> Bytes {
    content.unwrap_or(Bytes::from_static(&GARBAGE))
}

impl SimMedia {
    /// All zeros.
    pub(crate) fn new(bytes: u64) -> SimMedia {
        SimMedia {
            bytes,
            present: BTreeMap::new(),
            durable: BTreeMap::new(),
            volatile: VecDeque::new(),
            next_number: 0,
            unreadable: BTreeSet::new(),
            damaged: BTreeSet::new(),
            failing_writes: 0,
            failing_flushes: 0,
        }
    }

    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Number of changes done so far.
    pub(crate) fn changes_done(&self) -> u64 {
        self.next_number
    }

    /// Number of changes done and not flushed.
    pub(crate) fn volatile(&self) -> usize {
        self.volatile.len()
    }

    /// Blocks change; a crash may undo that until a flush.
    pub(crate) fn change(&mut self, change: Change) {
        for (block, content) in (change.block..).zip(&change.content) {
            self.unreadable.remove(&block);
            self.present.insert(block, undefined(content.clone()));
        }
        self.volatile.push_back((self.next_number, change));
        self.next_number += 1;
    }

    /// Blocks change as by [`SimMedia::change`], but only some sectors of the new content land.
    pub(crate) fn change_torn(&mut self, mut change: Change, random: &mut dyn FnMut() -> u64) {
        for (block, content) in (change.block..).zip(&mut change.content) {
            let meant = undefined(content.take());
            let landed = torn(self.present.get(&block), &meant, random());
            if landed != meant {
                self.damaged.insert(block);
            }
            *content = Some(landed);
        }
        self.change(change);
    }

    /// Makes the changes with numbers below this durable.
    pub(crate) fn flush(&mut self, before: u64) {
        while self.volatile.front().is_some_and(|(number, _)| *number < before) {
            let (_, change) = self.volatile.pop_front().expect("just seen");
            self.durable.extend((change.block..).zip(change.content.into_iter().map(undefined)));
        }
    }

    /// Fills a buffer. Errors: an errno.
    pub(crate) fn fill(&self, offset: u64, buf: &mut [u8]) -> Result<(), i32> {
        let first = offset / BLOCK_BYTES as u64;
        for (block, chunk) in (first..).zip(buf.chunks_mut(BLOCK_BYTES)) {
            if self.unreadable.contains(&block) {
                return Err(Errno::EIO.0);
            }
            let content = self.present.get(&block).map_or(&ZEROS[..], |content| content);
            chunk.copy_from_slice(&content[..chunk.len()]);
        }
        Ok(())
    }

    /// Tells whether the next write (or flush) is one of those that fail.
    pub(crate) fn take_failing_write(&mut self) -> bool {
        let fails = self.failing_writes > 0;
        self.failing_writes -= u64::from(fails);
        fails
    }

    pub(crate) fn take_failing_flush(&mut self) -> bool {
        let fails = self.failing_flushes > 0;
        self.failing_flushes -= u64::from(fails);
        fails
    }

    /// These blocks hold something else than what was last written to them.
    pub(crate) fn mark_damaged(&mut self, blocks: std::ops::Range<u64>) {
        self.damaged.extend(blocks);
    }

    /// The device after a crash: of every change that no flush covers, done or `queued`, all, nothing, or some sectors.
    /// `random` decides, and `tell` hears all that it decided.
    pub(crate) fn after_crash(
        &self,
        queued: impl Iterator<Item = Change>,
        random: &mut dyn FnMut() -> u64,
        tell: &mut impl FnMut(u64),
    ) -> SimMedia {
        let mut content = self.durable.clone();
        for change in self.volatile.iter().map(|(_, change)| change.clone()).chain(queued) {
            tell(change.block);
            let fate = random() % 4;
            for (block, new) in (change.block..).zip(change.content) {
                // Large writes are often cut at a block boundary too.
                let fate = if fate == 3 { random() % 3 } else { fate };
                tell(fate);
                let new = undefined(new);
                match fate {
                    0 => {}
                    1 => drop(content.insert(block, new)),
                    _ => {
                        let sectors = random();
                        tell(sectors & 0xff);
                        let torn = torn(content.get(&block), &new, sectors);
                        content.insert(block, torn);
                    }
                }
            }
        }
        self.successor(content)
    }

    /// The device after the process was killed while power stayed: changes that were done are there, queued ones may
    /// be.
    pub(crate) fn after_kill(&self, queued: impl Iterator<Item = Change>, random: &mut dyn FnMut() -> u64) -> SimMedia {
        let mut content = self.present.clone();
        for change in queued {
            if random().is_multiple_of(2) {
                content.extend((change.block..).zip(change.content.into_iter().map(undefined)));
            }
        }
        self.successor(content)
    }

    /// Media with this content and the same bad blocks.
    fn successor(&self, content: BTreeMap<u64, Bytes>) -> SimMedia {
        SimMedia {
            present: content.clone(),
            durable: content,
            unreadable: self.unreadable.clone(),
            damaged: self.damaged.clone(),
            ..SimMedia::new(self.bytes)
        }
    }

    /// Tells whether the block at this offset ever held something else than what was last written there, or could not
    /// be read.
    pub fn is_damaged(&self, offset: u64) -> bool {
        self.damaged.contains(&(offset / BLOCK_BYTES as u64))
    }

    /// Flips bits of one byte, as decaying media do.
    pub fn corrupt(&mut self, offset: u64, mask: u8) {
        let (block, at) = (offset / BLOCK_BYTES as u64, offset as usize % BLOCK_BYTES);
        for content in [&mut self.present, &mut self.durable] {
            let mut bytes = content.get(&block).map_or(ZEROS.to_vec(), |old| old.to_vec());
            bytes[at] ^= mask;
            content.insert(block, bytes.into());
        }
        self.damaged.insert(block);
    }

    /// The byte at an offset, as a read would see it.
    pub fn byte(&self, offset: u64) -> u8 {
        self.present.get(&(offset / BLOCK_BYTES as u64)).map_or(0, |block| block[offset as usize % BLOCK_BYTES])
    }

    /// Tells whether reads of the block at an offset fail.
    pub fn is_unreadable(&self, offset: u64) -> bool {
        self.unreadable.contains(&(offset / BLOCK_BYTES as u64))
    }

    /// Reads of the block at this offset fail until it is written again.
    pub fn make_unreadable(&mut self, offset: u64) {
        self.unreadable.insert(offset / BLOCK_BYTES as u64);
        self.damaged.insert(offset / BLOCK_BYTES as u64);
    }

    /// The next `count` writes fail and change nothing.
    pub fn fail_writes(&mut self, count: u64) {
        self.failing_writes = count;
    }

    /// The next `count` flushes fail and make nothing durable.
    pub fn fail_flushes(&mut self, count: u64) {
        self.failing_flushes = count;
    }

    /// Cuts the device to its first `bytes`.
    pub fn truncate(&mut self, bytes: u64) {
        self.bytes = bytes;
        let blocks = bytes / BLOCK_BYTES as u64;
        self.present.retain(|block, _| *block < blocks);
        self.durable.retain(|block, _| *block < blocks);
    }

    /// The blocks `offset .. offset + len`, as reads see them, bad ones included.
    pub fn read(&self, offset: u64, len: u64) -> AlignedBuf {
        let mut buf = AlignedBuf::zeroed(len as usize);
        let first = offset / BLOCK_BYTES as u64;
        for (block, chunk) in (first..).zip(buf.as_mut_slice().chunks_mut(BLOCK_BYTES)) {
            let content = self.present.get(&block).map_or(&ZEROS[..], |content| content);
            chunk.copy_from_slice(&content[..chunk.len()]);
        }
        buf
    }

    /// Every block that is not all zeros, in order, with its offset.
    pub fn blocks(&self) -> impl Iterator<Item = (u64, &[u8])> {
        let blocks = self.present.iter().map(|(block, content)| (block * BLOCK_BYTES as u64, &content[..]));
        blocks.filter(|(_, content)| content.iter().any(|byte| *byte != 0))
    }
}
