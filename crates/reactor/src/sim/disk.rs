//! A simulated drive or file with a volatile cache.

use super::rng::Rng;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use types::BLOCK_BYTES;

/// Blocks by number; absent ones hold zeros.
#[derive(Clone, Default)]
struct Image(BTreeMap<u64, Arc<[u8; BLOCK_BYTES]>>);

const BLOCK: u64 = BLOCK_BYTES as u64;

/// The parts of `range` within single blocks: block number, range within it.
fn by_block(range: Range<u64>) -> impl Iterator<Item = (u64, Range<usize>)> {
    let mut at = range.start;
    std::iter::from_fn(move || {
        let (block, within) = (at / BLOCK, (at % BLOCK) as usize);
        let len = (BLOCK - at % BLOCK).min(range.end.saturating_sub(at));
        at += len;
        (len > 0).then_some((block, within..within + len as usize))
    })
}

impl Image {
    fn read(&self, offset: u64, out: &mut [u8]) {
        let mut out = out;
        for (block, within) in by_block(offset..offset + out.len() as u64) {
            let (head, rest) = out.split_at_mut(within.len());
            match self.0.get(&block) {
                Some(bytes) => head.copy_from_slice(&bytes[within]),
                None => head.fill(0),
            }
            out = rest;
        }
    }

    fn write(&mut self, offset: u64, mut bytes: &[u8]) {
        for (block, within) in by_block(offset..offset + bytes.len() as u64) {
            let (head, rest) = bytes.split_at(within.len());
            let block = self.0.entry(block).or_insert_with(|| Arc::new([0; BLOCK_BYTES]));
            Arc::make_mut(block)[within].copy_from_slice(head);
            bytes = rest;
        }
    }

    fn zero(&mut self, range: Range<u64>) {
        for (block, within) in by_block(range) {
            if within.len() == BLOCK_BYTES {
                self.0.remove(&block);
            } else if let Some(bytes) = self.0.get_mut(&block) {
                Arc::make_mut(bytes)[within].fill(0);
            }
        }
    }
}

/// A change of the disk that is not durable yet.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    Write { offset: u64, bytes: Vec<u8> },
    Zero { range: Range<u64> },
}

impl Change {
    fn apply(&self, image: &mut Image) {
        match self {
            Change::Write { offset, bytes } => image.write(*offset, bytes),
            Change::Zero { range } => image.zero(range.clone()),
        }
    }

    fn range(&self) -> Range<u64> {
        match self {
            Change::Write { offset, bytes } => *offset..*offset + bytes.len() as u64,
            Change::Zero { range } => range.clone(),
        }
    }
}

/// A fault of one request. Each fault is used up by the next request that it fits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DiskFault {
    /// The next read fails with this errno.
    FailRead(i32),
    /// The next write fails with this errno and does nothing.
    FailWrite(i32),
    /// The next flush fails with this errno and makes nothing durable.
    FailFlush(i32),
    /// The next flush fails with this errno, and what it was to make durable never becomes so, though the next flush
    /// succeeds and reads still show it: what a page cache does with pages that it could not write.
    LoseFlush(i32),
    /// The next write is acknowledged and does not happen.
    LoseWrite,
    /// The next write goes to an offset that is so many bytes larger.
    MisdirectWrite(u64),
}

/// Contents of a simulated disk at some time.
#[derive(Clone)]
pub struct DiskContents {
    len: u64,
    image: Image,
}

/// A simulated disk. Its contents survive the process of its node and, as far as they are flushed, a power failure.
pub struct SimDisk {
    len: u64,
    durable_len: u64,
    durable: Image,
    /// Contents that reads see: durable contents and all completed changes.
    current: Image,
    /// Completed changes that are not durable, in order; the number of the first is `first_change`.
    changes: VecDeque<Change>,
    first_change: u64,
    faults: Vec<DiskFault>,
    slowness: u32,
    /// Reads show what a flush that failed has lost.
    shows_lost: bool,
    /// Flushes that have lost something. Each opening of the file is told of each.
    flushes_lost: u64,
    /// Writes beyond this offset fail with `ENOSPC`.
    len_max: u64,
    pub(crate) locked: bool,
}

impl SimDisk {
    pub(crate) fn new() -> SimDisk {
        SimDisk {
            len: 0,
            durable_len: 0,
            durable: Image::default(),
            current: Image::default(),
            changes: VecDeque::new(),
            first_change: 0,
            faults: Vec::new(),
            slowness: 1,
            shows_lost: false,
            flushes_lost: 0,
            len_max: u64::MAX,
            locked: false,
        }
    }

    pub fn len_bytes(&self) -> u64 {
        self.len
    }

    /// Grows the disk durably; never shrinks it.
    pub(crate) fn grow(&mut self, len: u64) {
        self.len = self.len.max(len);
        self.durable_len = self.durable_len.max(len);
    }

    /// The bytes that a read of `len` bytes at `offset` would give; zeros behind the end.
    pub fn peek(&self, offset: u64, len: usize) -> Vec<u8> {
        let mut out = vec![0; len];
        self.current.read(offset, &mut out);
        out
    }

    /// Writes durably and at once, without a request of the node.
    pub fn poke(&mut self, offset: u64, bytes: &[u8]) {
        self.durable.write(offset, bytes);
        self.current.write(offset, bytes);
    }

    /// Flips one bit, durably, in each of `count` bytes chosen at random within `range`.
    pub fn rot(&mut self, range: Range<u64>, count: u32, rng: &mut Rng) {
        for _ in 0..count {
            let at = range.start + rng.below(range.end - range.start);
            let bit = 1 << rng.below(8);
            for image in [&mut self.durable, &mut self.current] {
                let mut byte = [0];
                image.read(at, &mut byte);
                byte[0] ^= bit;
                image.write(at, &byte);
            }
        }
    }

    /// The contents after a power failure that keeps none of the unflushed changes.
    pub fn durable_contents(&self) -> DiskContents {
        DiskContents { len: self.durable_len, image: self.durable.clone() }
    }

    /// Restores earlier contents: all later changes are gone, also flushed ones. No process may use the disk.
    pub fn go_back_to(&mut self, contents: DiskContents) {
        self.changes.clear();
        (self.len, self.durable_len) = (contents.len, contents.len);
        (self.durable, self.current) = (contents.image.clone(), contents.image);
    }

    pub fn inject(&mut self, fault: DiskFault) {
        self.faults.push(fault);
    }

    /// Makes every request take `times` as long.
    pub fn slow_down(&mut self, times: u32) {
        self.slowness = times.max(1);
    }

    pub(crate) fn slowness(&self) -> u32 {
        self.slowness
    }

    /// Makes the disk end here: writes beyond this fail with `ENOSPC`.
    pub fn limit_len_bytes(&mut self, len_max: u64) {
        self.len_max = len_max;
    }

    fn take_fault<T>(&mut self, which: impl Fn(DiskFault) -> Option<T>) -> Option<T> {
        let (index, found) = self.faults.iter().enumerate().find_map(|(index, fault)| Some((index, which(*fault)?)))?;
        self.faults.remove(index);
        Some(found)
    }

    /// Reads bytes. A read that reaches past the end fails with `EIO`, as in the real reactor.
    pub(crate) fn read(&mut self, offset: u64, out: &mut [u8]) -> Result<(), i32> {
        if let Some(errno) =
            self.take_fault(|fault| if let DiskFault::FailRead(errno) = fault { Some(errno) } else { None })
        {
            return Err(errno);
        }
        if offset + out.len() as u64 > self.len {
            return Err(libc::EIO);
        }
        self.current.read(offset, out);
        Ok(())
    }

    pub(crate) fn change(&mut self, mut change: Change) -> Result<(), i32> {
        if let Change::Write { offset, bytes } = &mut change {
            let fault = self.take_fault(|fault| match fault {
                DiskFault::FailWrite(_) | DiskFault::LoseWrite | DiskFault::MisdirectWrite(_) => Some(fault),
                DiskFault::FailRead(_) | DiskFault::FailFlush(_) | DiskFault::LoseFlush(_) => None,
            });
            match fault {
                Some(DiskFault::FailWrite(errno)) => return Err(errno),
                Some(DiskFault::LoseWrite) => return Ok(()),
                Some(DiskFault::MisdirectWrite(by)) => *offset += by,
                _ => {}
            }
            let end = *offset + bytes.len() as u64;
            if end > self.len_max {
                return Err(libc::ENOSPC);
            }
            self.len = self.len.max(end);
        }
        change.apply(&mut self.current);
        self.changes.push_back(change);
        Ok(())
    }

    /// Mark of the changes that a flush that begins now will make durable.
    pub(crate) fn flush_mark(&self) -> u64 {
        self.first_change + self.changes.len() as u64
    }

    /// Makes durable the changes before `mark`.
    pub(crate) fn flush(&mut self, mark: u64) -> Result<(), i32> {
        if let Some(errno) =
            self.take_fault(|fault| if let DiskFault::FailFlush(errno) = fault { Some(errno) } else { None })
        {
            return Err(errno);
        }
        if let Some(errno) =
            self.take_fault(|fault| if let DiskFault::LoseFlush(errno) = fault { Some(errno) } else { None })
        {
            self.changes.drain(..(mark.saturating_sub(self.first_change)) as usize);
            self.first_change = self.first_change.max(mark);
            self.shows_lost = true;
            self.flushes_lost += 1;
            return Err(errno);
        }
        while self.first_change < mark {
            let change = self.changes.pop_front().expect("a mark counts changes that were done");
            self.first_change += 1;
            self.make_durable(&change);
        }
        Ok(())
    }

    fn make_durable(&mut self, change: &Change) {
        if let Change::Write { .. } = change {
            self.durable_len = self.durable_len.max(change.range().end);
        }
        if !self.changes.is_empty() || self.shows_lost {
            return change.apply(&mut self.durable);
        }
        // Durable and current blocks are equal now, so they can share memory.
        for (block, _) in by_block(change.range()) {
            match self.current.0.get(&block) {
                Some(bytes) => drop(self.durable.0.insert(block, bytes.clone())),
                None => drop(self.durable.0.remove(&block)),
            }
        }
    }

    /// How many flushes have lost what they were to make durable.
    pub(crate) fn flushes_lost(&self) -> u64 {
        self.flushes_lost
    }

    /// From now on reads show what the disk has, and what is still to be flushed, and nothing that a flush has lost.
    pub(crate) fn forget_cached(&mut self) {
        if std::mem::take(&mut self.shows_lost) {
            self.current = self.durable.clone();
            self.changes.iter().for_each(|change| change.apply(&mut self.current));
        }
    }

    /// Completes a change that was in flight when its process died: all of it, a part of it, or nothing.
    pub(crate) fn maybe_change(&mut self, change: Change, sector_bytes: usize, rng: &mut Rng) {
        for part in surviving_parts(change, sector_bytes, rng) {
            let end = part.range().end;
            if end <= self.len_max {
                if let Change::Write { .. } = part {
                    self.len = self.len.max(end);
                }
                part.apply(&mut self.current);
                self.changes.push_back(part);
            }
        }
    }

    /// Fails the power: each unflushed change survives, survives in part, or is lost.
    pub(crate) fn lose_power(&mut self, sector_bytes: usize, rng: &mut Rng) {
        self.len = self.durable_len;
        self.first_change += self.changes.len() as u64;
        for change in std::mem::take(&mut self.changes) {
            for part in surviving_parts(change, sector_bytes, rng) {
                if let Change::Write { .. } = part {
                    self.len = self.len.max(part.range().end);
                }
                part.apply(&mut self.durable);
            }
        }
        self.durable_len = self.len;
        self.current = self.durable.clone();
        self.shows_lost = false;
    }
}

/// All of a change, none of it, its first sectors, or some of its sectors.
fn surviving_parts(change: Change, sector_bytes: usize, rng: &mut Rng) -> Vec<Change> {
    match (rng.below(4), change) {
        (0, _) => Vec::new(),
        (1, change) | (_, change @ Change::Zero { .. }) => vec![change],
        (2, Change::Write { offset, bytes }) => {
            let sectors = bytes.len().div_ceil(sector_bytes) as u64;
            let kept = (rng.below(sectors + 1) as usize * sector_bytes).min(bytes.len());
            vec![Change::Write { offset, bytes: bytes[..kept].to_vec() }]
        }
        (_, Change::Write { offset, bytes }) => bytes
            .chunks(sector_bytes)
            .enumerate()
            .filter(|_| rng.one_in(2))
            .map(|(index, part)| Change::Write { offset: offset + (index * sector_bytes) as u64, bytes: part.to_vec() })
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(disk: &mut SimDisk, offset: u64, byte: u8, len: usize) {
        disk.change(Change::Write { offset, bytes: vec![byte; len] }).expect("no fault");
    }

    #[test]
    fn flushed_writes_survive_a_power_failure_and_others_may_not() {
        let mut outcomes = std::collections::BTreeSet::new();
        for seed in 0..50 {
            let mut disk = SimDisk::new();
            write(&mut disk, 100, 1, 5000);
            let mark = disk.flush_mark();
            write(&mut disk, 100, 2, 1000);
            disk.flush(mark).expect("no fault");
            assert_eq!(disk.peek(100, 1), [2]);
            disk.lose_power(512, &mut Rng::new(seed));
            let bytes = disk.peek(100, 5000);
            assert!(bytes[..1000].iter().all(|byte| [1, 2].contains(byte)) && bytes[1000..] == [1; 4000]);
            assert_eq!(disk.len_bytes(), 5100);
            outcomes.insert((bytes[0], bytes[999]));
        }
        assert_eq!(outcomes.len(), 4, "whole, absent, and both ways of torn: {outcomes:?}");
    }

    #[test]
    fn faults_happen_once() {
        let mut disk = SimDisk::new();
        disk.grow(1 << 20);
        disk.inject(DiskFault::FailRead(5));
        disk.inject(DiskFault::LoseWrite);
        disk.inject(DiskFault::MisdirectWrite(4096));
        disk.inject(DiskFault::FailFlush(5));
        for offset in [0, 4096, 65536] {
            write(&mut disk, offset, 7, 4096);
        }
        assert_eq!(
            (disk.peek(0, 1), disk.peek(4096, 1), disk.peek(8192, 1), disk.peek(65536, 1)),
            (vec![0], vec![0], vec![7], vec![7])
        );
        let mut out = [0; 1];
        assert_eq!((disk.read(8192, &mut out), disk.read(8192, &mut out), out), (Err(5), Ok(()), [7]));
        let mark = disk.flush_mark();
        assert_eq!((disk.flush(mark), disk.flush(mark)), (Err(5), Ok(())));
        disk.limit_len_bytes(1 << 20);
        assert_eq!(disk.change(Change::Write { offset: (1 << 20) - 1, bytes: vec![0; 2] }), Err(libc::ENOSPC));
        assert_eq!(disk.read((1 << 20) - 1, &mut [0; 2]), Err(libc::EIO));
        disk.rot(0..4096, 1, &mut Rng::new(1));
        assert_eq!(disk.peek(0, 4096).iter().filter(|byte| **byte != 0).count(), 1);
    }

    #[test]
    fn a_flush_that_fails_may_lose_what_reads_go_on_showing() {
        let mut disk = SimDisk::new();
        write(&mut disk, 0, 1, 4096);
        let mark = disk.flush_mark();
        disk.flush(mark).expect("no fault");
        write(&mut disk, 0, 2, 4096);
        disk.inject(DiskFault::LoseFlush(5));
        let mark = disk.flush_mark();
        write(&mut disk, 4096, 3, 4096);
        assert_eq!((disk.flush(mark), disk.flushes_lost()), (Err(5), 1));
        let mark = disk.flush_mark();
        assert_eq!((disk.flush(mark), disk.peek(0, 1), disk.peek(4096, 1)), (Ok(()), vec![2], vec![3]));
        write(&mut disk, 8192, 4, 4096);
        disk.forget_cached();
        assert_eq!((disk.peek(0, 1), disk.peek(4096, 1), disk.peek(8192, 1)), (vec![1], vec![3], vec![4]));
        disk.lose_power(512, &mut Rng::new(1));
        assert_eq!((disk.peek(0, 1), disk.peek(4096, 1)), (vec![1], vec![3]));
    }

    #[test]
    fn zeroing_cuts_and_removes_blocks() {
        let mut disk = SimDisk::new();
        write(&mut disk, 0, 9, 4 * BLOCK_BYTES);
        disk.change(Change::Zero { range: 4000..9000 }).expect("no fault");
        let bytes = disk.peek(0, 4 * BLOCK_BYTES);
        assert!(bytes.iter().enumerate().all(|(at, byte)| (*byte == 0) == (4000..9000).contains(&at)));
    }
}
