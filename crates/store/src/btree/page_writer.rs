//! New pages and overflow runs on their way to the device.

use super::child::PageRef;
use super::overflow::OverflowRun;
use super::space::Space;
use super::{PAGE_BLOCKS, PAGE_BYTES};
use crate::space::run::{Run, push_run};
use bytes::Bytes;
use std::collections::VecDeque;
use types::{AlignedBuf, BLOCK_BYTES, BufPool, crc32c};
use wire::Rope;

/// Number of blocks that pages are written in at once: 128 KiB.
const WRITE_BLOCKS: u32 = 32;
/// Number of blocks of a large value written at once: as much as one slice of work can copy.
pub(crate) const PIECE_BLOCKS: u32 = 32;
const _: () = assert!(WRITE_BLOCKS.is_multiple_of(PAGE_BLOCKS), "a write is whole pages");
const _: () = assert!(PIECE_BLOCKS <= WRITE_BLOCKS, "a piece of a value is one write");

/// Blocks to write. The memory is aligned for direct I/O.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BlockWrite {
    pub run: Run,
    pub data: Rope,
}

/// There are no blocks left to write to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct NoSpace;

/// Puts pages next to each other and counts all blocks taken.
#[derive(Debug)]
pub(crate) struct PageWriter {
    buffers: BufPool,
    open: Option<Open>,
    pub writes: VecDeque<BlockWrite>,
    /// All blocks taken and not given back.
    pub taken: Vec<Run>,
    pub pages: u64,
}

#[derive(Debug)]
struct Open {
    run: Run,
    filled_blocks: u32,
    buf: AlignedBuf,
}

impl PageWriter {
    pub fn new(buffers: BufPool) -> PageWriter {
        PageWriter { buffers, open: None, writes: VecDeque::new(), taken: Vec::new(), pages: 0 }
    }

    /// Makes the next page with `make`, which gets the page's bytes (of arbitrary content) and block, and returns the
    /// checksum.
    pub fn page<T>(
        &mut self,
        space: &mut dyn Space,
        generation: u64,
        make: impl FnOnce(&mut [u8], u32) -> (u32, T),
    ) -> Result<(PageRef, T), NoSpace> {
        if self.open.is_none() {
            let run = space.allocate(PAGE_BLOCKS, WRITE_BLOCKS).ok_or(NoSpace)?;
            assert!((PAGE_BLOCKS..=WRITE_BLOCKS).contains(&run.count), "{run:?} instead of 2 to 32 blocks");
            let whole = run.count / PAGE_BLOCKS * PAGE_BLOCKS;
            if whole < run.count {
                space.release(Run { start: run.start + whole, count: run.count - whole });
            }
            let run = Run { start: run.start, count: whole };
            let buf = self.buffers.take(whole as usize * BLOCK_BYTES);
            self.open = Some(Open { run, filled_blocks: 0, buf });
        }
        let open = self.open.as_mut().expect("just made sure");
        let block = open.run.start + open.filled_blocks;
        let at = open.filled_blocks as usize * BLOCK_BYTES;
        let (crc, made) = make(&mut open.buf.as_mut_slice()[at..at + PAGE_BYTES], block);
        open.filled_blocks += PAGE_BLOCKS;
        self.pages += 1;
        if open.filled_blocks == open.run.count {
            self.close(space);
        }
        Ok((PageRef { block, crc, generation }, made))
    }

    /// Queues the write of the last pages, and gives unfilled blocks back.
    pub fn close(&mut self, space: &mut dyn Space) {
        let Some(Open { run, filled_blocks, mut buf }) = self.open.take() else { return };
        if filled_blocks < run.count {
            space.release(Run { start: run.start + filled_blocks, count: run.count - filled_blocks });
        }
        if filled_blocks == 0 {
            return;
        }
        let run = Run { start: run.start, count: filled_blocks };
        buf.set_len(filled_blocks as usize * BLOCK_BYTES);
        self.write(run, buf);
    }

    fn write(&mut self, run: Run, buf: AlignedBuf) {
        push_run(&mut self.taken, run);
        match self.writes.back_mut() {
            Some(last) if last.run.end() == run.start && last.run.count + run.count <= WRITE_BLOCKS => {
                last.run.count += run.count;
                last.data.push(buf.freeze());
            }
            _ => self.writes.push_back(BlockWrite { run, data: buf.freeze().into() }),
        }
    }

    /// Queues the write of the longest possible piece from the front of `bytes`; returns its place and length in bytes.
    pub fn piece(&mut self, space: &mut dyn Space, bytes: &[u8]) -> Result<(OverflowRun, usize), NoSpace> {
        let wanted = bytes.len().div_ceil(BLOCK_BYTES).min(PIECE_BLOCKS as usize) as u32;
        let run = space.allocate(1, wanted).ok_or(NoSpace)?;
        assert!((1..=wanted).contains(&run.count), "{run:?} instead of 1 to {wanted} blocks");
        let room = run.count as usize * BLOCK_BYTES;
        let len = room.min(bytes.len());
        let mut buf = self.buffers.take(room);
        buf.as_mut_slice()[..len].copy_from_slice(&bytes[..len]);
        buf.as_mut_slice()[len..].fill(0);
        let crc = crc32c::checksum(buf.as_slice());
        self.write(run, buf);
        Ok((OverflowRun { run, crc }, len))
    }

    /// Gives up and returns all blocks taken, written or not, including the open run's.
    pub fn abandon(&mut self) -> Vec<Run> {
        let mut taken = std::mem::take(&mut self.taken);
        if let Some(open) = self.open.take() {
            taken.push(open.run);
        }
        self.writes.clear();
        taken
    }
}

/// A large value while it is being written, piece by piece.
#[derive(Debug)]
pub(crate) struct OverflowWriter {
    pub bytes: Bytes,
    pub written: usize,
    pub depth: u8,
    pub value_bytes: u32,
    pub runs: Vec<OverflowRun>,
}

impl OverflowWriter {
    pub fn new(value: Bytes) -> OverflowWriter {
        let value_bytes = value.len() as u32;
        OverflowWriter { bytes: value, written: 0, depth: 0, value_bytes, runs: Vec::new() }
    }

    /// Writes one piece. Returns the value's place once all is written.
    pub fn step(
        &mut self,
        writer: &mut PageWriter,
        space: &mut dyn Space,
    ) -> Result<Option<super::overflow::Overflow>, NoSpace> {
        let (piece, len) = writer.piece(space, &self.bytes[self.written..])?;
        self.written += len;
        match self.runs.last_mut() {
            // A piece that adjoins the last run is joined with it.
            Some(last) if last.run.end() == piece.run.start => {
                last.crc = crc32c::combine(last.crc, piece.crc, piece.run.len_bytes());
                last.run.count += piece.run.count;
            }
            _ => self.runs.push(piece),
        }
        if self.written < self.bytes.len() {
            return Ok(None);
        }
        let runs = std::mem::take(&mut self.runs);
        if runs.len() <= super::layout::OVERFLOW_RUNS_MAX {
            return Ok(Some(super::overflow::Overflow { value_bytes: self.value_bytes, depth: self.depth, runs }));
        }
        self.bytes = super::overflow::encode_list(&runs).into();
        (self.written, self.depth) = (0, self.depth + 1);
        assert!(self.depth <= super::layout::OVERFLOW_DEPTH_MAX, "{} runs of one value", runs.len());
        Ok(None)
    }
}
