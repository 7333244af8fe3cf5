//! Requests of an opening to the devices, and blocks that cannot be read.

use crate::config::BLOCK;
use crate::{Device, IoDone, IoId, IoRequest, OpenError};
use std::collections::{BTreeMap, VecDeque};
use types::AlignedBuf;

/// Maximum number of unreadable blocks that are remembered; a store on a device with more does not open.
const UNREADABLE_MAX: usize = 4096;

/// Handling of a read that fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum OnError {
    /// The store does not open.
    Fail,
    /// The read is repeated block by block. Blocks that cannot be read are noted, and are zeros in the buffer.
    Note,
}

#[derive(Debug)]
enum ReadContent {
    Waiting,
    /// The buffer of a read that is repeated block by block, and the number of blocks on their way.
    Singly(AlignedBuf, usize),
    Full(AlignedBuf),
}

/// A read of the present phase.
#[derive(Debug)]
struct PhaseRead {
    id: IoId,
    device: Device,
    offset: u64,
    len: usize,
    content: ReadContent,
}

/// Requests of an opening, and the buffers of its present phase.
#[derive(Debug, Default)]
pub(crate) struct OpeningIo {
    out: VecDeque<IoRequest>,
    next_id: u64,
    /// Reads in the order of the requests.
    reads: Vec<PhaseRead>,
    waiting: usize,
    /// Reads of single blocks: index of the read that they belong to, and offset.
    singles: BTreeMap<IoId, (usize, u64)>,
    /// Blocks that could not be read, with the errno.
    unreadable: BTreeMap<(Device, u64), i32>,
}

impl OpeningIo {
    pub fn next_id(&mut self) -> IoId {
        self.next_id += 1;
        IoId(self.next_id - 1)
    }

    pub fn push(&mut self, request: IoRequest) {
        self.out.push_back(request);
    }

    pub fn poll(&mut self) -> Option<IoRequest> {
        self.out.pop_front()
    }

    /// Forgets requests that were not handed out.
    pub fn clear(&mut self) {
        self.out.clear();
    }

    /// Asks for bytes that the present phase needs.
    pub fn read(&mut self, device: Device, offset: u64, len: u64) {
        let id = self.next_id();
        self.waiting += 1;
        self.reads.push(PhaseRead { id, device, offset, len: len as usize, content: ReadContent::Waiting });
        self.out.push_back(IoRequest::Read { id, device, offset, buf: AlignedBuf::zeroed(len as usize) });
    }

    /// Returns true if the present phase waits for nothing.
    pub fn is_phase_done(&self) -> bool {
        self.waiting == 0
    }

    /// Takes the outcome of a read of the present phase. Returns all buffers of the phase, in the order of the
    /// requests, if this was the last one. Panics for a read that was not asked for.
    pub fn done(&mut self, done: IoDone, on_error: OnError) -> Result<Option<Vec<AlignedBuf>>, OpenError> {
        if let Some((index, offset)) = self.singles.remove(&done.id) {
            self.single_done(index, offset, done.result)?;
        } else {
            let index = self.reads.iter().position(|read| read.id == done.id);
            let index = index.unwrap_or_else(|| panic!("{:?} done, but not under way", done.id));
            let read = &mut self.reads[index];
            match done.result {
                Ok(buf) => {
                    read.content = ReadContent::Full(buf.expect("a read that succeeded hands its buffer back"));
                    self.waiting -= 1;
                }
                Err(errno) if on_error == OnError::Fail => {
                    return Err(OpenError::Device { device: read.device, offset: read.offset, errno });
                }
                Err(errno) if read.len == BLOCK as usize => {
                    read.content = ReadContent::Full(AlignedBuf::zeroed(read.len));
                    self.waiting -= 1;
                    let (device, offset) = (read.device, read.offset);
                    self.note(device, offset, errno)?;
                }
                Err(_) => self.read_singly(index),
            }
        }
        if self.waiting > 0 {
            return Ok(None);
        }
        let buffers = std::mem::take(&mut self.reads).into_iter().map(|read| match read.content {
            ReadContent::Full(buf) => buf,
            content => panic!("{:?} is missing although none is waited for: {content:?}", read.id),
        });
        Ok(Some(buffers.collect()))
    }

    fn read_singly(&mut self, index: usize) {
        let (device, offset, len) = (self.reads[index].device, self.reads[index].offset, self.reads[index].len);
        let blocks = len / BLOCK as usize;
        self.reads[index].content = ReadContent::Singly(AlignedBuf::zeroed(len), blocks);
        for offset in (offset..).step_by(BLOCK as usize).take(blocks) {
            let id = self.next_id();
            self.singles.insert(id, (index, offset));
            self.out.push_back(IoRequest::Read { id, device, offset, buf: AlignedBuf::zeroed(BLOCK as usize) });
        }
    }

    fn single_done(
        &mut self,
        index: usize,
        offset: u64,
        result: Result<Option<AlignedBuf>, i32>,
    ) -> Result<(), OpenError> {
        let read = &mut self.reads[index];
        let (device, at) = (read.device, (offset - read.offset) as usize);
        let ReadContent::Singly(buf, left) = &mut read.content else { panic!("{read:?} is not read block by block") };
        let failed = match result {
            Ok(block) => {
                let block = block.expect("a read that succeeded hands its buffer back");
                buf.as_mut_slice()[at..at + BLOCK as usize].copy_from_slice(block.as_slice());
                None
            }
            Err(errno) => Some(errno),
        };
        *left -= 1;
        if *left == 0 {
            let whole = std::mem::replace(buf, AlignedBuf::zeroed(0));
            read.content = ReadContent::Full(whole);
            self.waiting -= 1;
        }
        failed.map_or(Ok(()), |errno| self.note(device, offset, errno))
    }

    fn note(&mut self, device: Device, offset: u64, errno: i32) -> Result<(), OpenError> {
        if self.unreadable.len() >= UNREADABLE_MAX {
            return Err(OpenError::Device { device, offset, errno });
        }
        self.unreadable.insert((device, offset), errno);
        Ok(())
    }

    /// Returns the offsets of the blocks of a range that could not be read.
    pub fn unreadable(&self, device: Device, offset: u64, len: u64) -> Vec<u64> {
        self.unreadable.range((device, offset)..(device, offset + len)).map(|((_, offset), _)| *offset).collect()
    }

    /// Returns the first block of a range that could not be read: its offset and the errno.
    pub fn first_unreadable(&self, device: Device, offset: u64, len: u64) -> Option<(u64, i32)> {
        let found = self.unreadable.range((device, offset)..(device, offset + len)).next();
        found.map(|((_, offset), errno)| (*offset, *errno))
    }
}
