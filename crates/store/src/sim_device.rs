//! A device in memory that keeps only what it must: for tests of the store and for the simulator.

use crate::{IoDone, IoId, IoRequest};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use types::{AlignedBuf, BLOCK_BYTES, Errno};

/// What a crash may tear: a write is a set of sectors, each of which lands or not.
const SECTOR_BYTES: usize = 512;

/// A write or discard that is done but not flushed.
#[derive(Clone, Debug)]
struct Volatile {
    /// Counts the changes in the order in which they were done.
    number: u64,
    block: u64,
    /// One per block; `None` where a discard left the content undefined.
    content: Vec<Option<Bytes>>,
}

#[derive(Debug)]
struct Queued {
    request: IoRequest,
    /// Changes done when this was queued: what a flush covers.
    done_before: u64,
}

/// A device with a volatile write cache. Requests are queued and are done in whatever order the caller chooses; a crash
/// keeps everything that a flush covered and, of all else, any part. It may also lie: lose writes that it reports as
/// done, write to the wrong place, flip bits, and fail.
///
/// Time and latency are the caller's: a request takes until the caller says it is done.
#[derive(Debug)]
pub struct SimDevice {
    bytes: u64,
    /// What reads see; blocks never written read as zeros.
    present: BTreeMap<u64, Bytes>,
    /// What survives any crash.
    durable: BTreeMap<u64, Bytes>,
    volatile: VecDeque<Volatile>,
    next_number: u64,
    queue: VecDeque<Queued>,
    unreadable: BTreeSet<u64>,
    /// Blocks that ever held something else than what was last written to them.
    damaged: BTreeSet<u64>,
    failing_writes: u64,
    failing_flushes: u64,
}

/// What a discarded block reads as: something no one wrote.
static GARBAGE: [u8; BLOCK_BYTES] = [0xdb; BLOCK_BYTES];
static ZEROS: [u8; BLOCK_BYTES] = [0; BLOCK_BYTES];

impl SimDevice {
    /// A device of zeros.
    pub fn new(bytes: u64) -> SimDevice {
        SimDevice::with(bytes, BTreeMap::new())
    }

    fn with(bytes: u64, content: BTreeMap<u64, Bytes>) -> SimDevice {
        SimDevice {
            bytes,
            present: content.clone(),
            durable: content,
            volatile: VecDeque::new(),
            next_number: 0,
            queue: VecDeque::new(),
            unreadable: BTreeSet::new(),
            damaged: BTreeSet::new(),
            failing_writes: 0,
            failing_flushes: 0,
        }
    }

    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Queues a request. Panics if it is not aligned or reaches beyond the device: the store must never ask that.
    pub fn submit(&mut self, request: IoRequest) {
        let (offset, len) = match &request {
            IoRequest::Read { offset, buf, .. } => (*offset, buf.len() as u64),
            IoRequest::Write { offset, data, .. } => {
                let fits = |piece: &Bytes| {
                    piece.as_ptr().addr().is_multiple_of(BLOCK_BYTES) && piece.len().is_multiple_of(BLOCK_BYTES)
                };
                assert!(data.pieces().all(fits), "a piece of memory that does not suit direct I/O");
                (*offset, data.len() as u64)
            }
            IoRequest::Flush { .. } => (0, BLOCK_BYTES as u64),
            IoRequest::Discard { offset, len, .. } => (*offset, *len),
        };
        let aligned = offset.is_multiple_of(BLOCK_BYTES as u64) && len.is_multiple_of(BLOCK_BYTES as u64);
        assert!(aligned && len > 0 && offset + len <= self.bytes, "{offset:#x}+{len:#x} on {:#x}", self.bytes);
        self.queue.push_back(Queued { request, done_before: self.next_number });
    }

    /// Number of requests queued.
    pub fn queued(&self) -> usize {
        self.queue.len()
    }

    /// Names the queued request at `index`. Panics if there is none.
    pub fn queued_id(&self, index: usize) -> IoId {
        match &self.queue[index].request {
            IoRequest::Read { id, .. }
            | IoRequest::Write { id, .. }
            | IoRequest::Flush { id }
            | IoRequest::Discard { id, .. } => *id,
        }
    }

    /// Offset and length of the queued request at `index`, if it is a write. Panics if there is none.
    pub fn queued_write(&self, index: usize) -> Option<(u64, u64)> {
        match &self.queue[index].request {
            IoRequest::Write { offset, data, .. } => Some((*offset, data.len() as u64)),
            _ => None,
        }
    }

    /// Number of changes that a crash may undo: done and not flushed, or queued.
    pub fn changes_at_risk(&self) -> usize {
        let queued = |queued: &&Queued| matches!(queued.request, IoRequest::Write { .. } | IoRequest::Discard { .. });
        self.volatile.len() + self.queue.iter().filter(queued).count()
    }

    /// Reports the queued write at `index` as done, but nothing of it is ever there. Panics unless it is a write.
    pub fn complete_lost(&mut self, index: usize) -> IoDone {
        let (id, block, content) = self.take_write(index);
        self.damaged.extend(block..block + content.len() as u64);
        IoDone { id, result: Ok(None) }
    }

    /// Does the queued write at `index`, but at the offset `to`. Panics unless it is a write and fits there.
    pub fn complete_misdirected(&mut self, index: usize, to: u64) -> IoDone {
        let (id, meant, content) = self.take_write(index);
        let (landed, blocks) = (to / BLOCK_BYTES as u64, content.len() as u64);
        assert!((landed + blocks) * BLOCK_BYTES as u64 <= self.bytes, "beyond the device");
        if landed != meant {
            self.damaged.extend(meant..meant + blocks);
            self.damaged.extend(landed..landed + blocks);
        }
        self.change(landed, content);
        IoDone { id, result: Ok(None) }
    }

    fn take_write(&mut self, index: usize) -> (IoId, u64, Vec<Option<Bytes>>) {
        assert!(self.queued_write(index).is_some(), "request {index} is no write");
        let id = self.queued_id(index);
        let request = self.queue.remove(index).expect("just seen").request;
        let (block, content) = change_of(&request).expect("a write is a change");
        (id, block, content)
    }

    /// Blocks change; a crash may undo that until a flush.
    fn change(&mut self, first: u64, content: Vec<Option<Bytes>>) {
        for (block, content) in (first..).zip(&content) {
            self.unreadable.remove(&block);
            self.present.insert(block, content.clone().unwrap_or(Bytes::from_static(&GARBAGE)));
        }
        self.volatile.push_back(Volatile { number: self.next_number, block: first, content });
        self.next_number += 1;
    }

    /// Whether the block at this offset ever held, or holds, something else than what was last written there, or could
    /// not be read.
    pub fn is_damaged(&self, offset: u64) -> bool {
        self.damaged.contains(&(offset / BLOCK_BYTES as u64))
    }

    /// Does the queued request at `index`, counted from the oldest. Panics if there is none.
    pub fn complete(&mut self, index: usize) -> IoDone {
        let Queued { request, done_before } = self.queue.remove(index).expect("a queued request");
        let failed = |id: IoId| IoDone { id, result: Err(Errno::EIO.0) };
        match request {
            IoRequest::Read { id, offset, mut buf } => {
                let first = offset / BLOCK_BYTES as u64;
                for (block, chunk) in (first..).zip(buf.as_mut_slice().chunks_exact_mut(BLOCK_BYTES)) {
                    if self.unreadable.contains(&block) {
                        return failed(id);
                    }
                    chunk.copy_from_slice(self.present.get(&block).map_or(&ZEROS[..], |content| content));
                }
                IoDone { id, result: Ok(Some(buf)) }
            }
            IoRequest::Write { id, .. } if self.failing_writes > 0 => {
                self.failing_writes -= 1;
                failed(id)
            }
            IoRequest::Flush { id } if self.failing_flushes > 0 => {
                self.failing_flushes -= 1;
                failed(id)
            }
            IoRequest::Write { id, .. } | IoRequest::Discard { id, .. } => {
                let (block, content) = change_of(&request).expect("either is a change");
                self.change(block, content);
                IoDone { id, result: Ok(None) }
            }
            IoRequest::Flush { id } => {
                while self.volatile.front().is_some_and(|change| change.number < done_before) {
                    let change = self.volatile.pop_front().expect("just seen");
                    for (block, content) in (change.block..).zip(change.content) {
                        self.durable.insert(block, content.unwrap_or(Bytes::from_static(&GARBAGE)));
                    }
                }
                IoDone { id, result: Ok(None) }
            }
        }
    }

    /// The device as a crash at this moment could leave it: of every change that no flush covers, done or still queued,
    /// all, nothing, or some sectors. `random` decides.
    pub fn after_crash(&self, random: &mut dyn FnMut() -> u64) -> SimDevice {
        self.after_crash_told(random).0
    }

    /// The same, with a number that stands for this moment and for what became of each change: two crashes with the same
    /// number leave the same.
    pub fn after_crash_told(&self, random: &mut dyn FnMut() -> u64) -> (SimDevice, u64) {
        let mut content = self.durable.clone();
        let mut fingerprint = self.next_number;
        let mut tell = |value: u64| {
            fingerprint = (fingerprint.rotate_left(5) ^ value).wrapping_mul(0x517c_c1b7_2722_0a95);
        };
        let queued = self.queue.iter().filter_map(|queued| change_of(&queued.request));
        let done = self.volatile.iter().map(|change| (change.block, change.content.clone()));
        for (first, blocks) in done.chain(queued) {
            tell(first);
            let fate = random() % 4;
            for (block, new) in (first..).zip(blocks) {
                // Large writes are often cut at a block boundary too.
                let fate = if fate == 3 { random() % 3 } else { fate };
                tell(fate);
                let new = new.unwrap_or(Bytes::from_static(&GARBAGE));
                match fate {
                    0 => {}
                    1 => drop(content.insert(block, new)),
                    _ => {
                        let mut torn = content.get(&block).map_or(ZEROS.to_vec(), |old| old.to_vec());
                        let sectors = random();
                        tell(sectors & 0xff);
                        for at in (0..BLOCK_BYTES).step_by(SECTOR_BYTES) {
                            if sectors >> (at / SECTOR_BYTES) & 1 == 1 {
                                torn[at..at + SECTOR_BYTES].copy_from_slice(&new[at..at + SECTOR_BYTES]);
                            }
                        }
                        content.insert(block, torn.into());
                    }
                }
            }
        }
        (self.successor(content), fingerprint)
    }

    /// A device with this content and the same bad blocks.
    fn successor(&self, content: BTreeMap<u64, Bytes>) -> SimDevice {
        SimDevice {
            unreadable: self.unreadable.clone(),
            damaged: self.damaged.clone(),
            ..SimDevice::with(self.bytes, content)
        }
    }

    /// The device as the end of the process, but not of the power, leaves it: what was done is there, what was queued
    /// may be.
    pub fn after_kill(&self, random: &mut dyn FnMut() -> u64) -> SimDevice {
        let mut content = self.present.clone();
        for (first, blocks) in self.queue.iter().filter_map(|queued| change_of(&queued.request)) {
            if random().is_multiple_of(2) {
                content.extend(
                    (first..).zip(blocks).map(|(block, new)| (block, new.unwrap_or(Bytes::from_static(&GARBAGE)))),
                );
            }
        }
        self.successor(content)
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
}

/// The first block and the blocks' new content, of a request that changes any.
fn change_of(request: &IoRequest) -> Option<(u64, Vec<Option<Bytes>>)> {
    let block = |offset: u64| offset / BLOCK_BYTES as u64;
    match request {
        IoRequest::Write { offset, data, .. } => {
            let cut = |piece: &Bytes| {
                (0..piece.len()).step_by(BLOCK_BYTES).map(|at| piece.slice(at..at + BLOCK_BYTES)).collect::<Vec<_>>()
            };
            Some((block(*offset), data.pieces().flat_map(cut).map(Some).collect()))
        }
        IoRequest::Discard { offset, len, .. } => Some((block(*offset), vec![None; block(*len) as usize])),
        IoRequest::Read { .. } | IoRequest::Flush { .. } => None,
    }
}

/// A buffer of a device's block, for tests that look at what lies there.
impl SimDevice {
    /// The blocks `offset .. offset + len`, as reads see them.
    pub fn read(&self, offset: u64, len: u64) -> AlignedBuf {
        let mut buf = AlignedBuf::zeroed(len as usize);
        let first = offset / BLOCK_BYTES as u64;
        for (block, chunk) in (first..).zip(buf.as_mut_slice().chunks_mut(BLOCK_BYTES)) {
            let content = self.present.get(&block).map_or(&ZEROS[..], |content| content);
            chunk.copy_from_slice(&content[..chunk.len()]);
        }
        buf
    }
}
