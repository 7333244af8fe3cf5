//! Requests on their way to the device.

use crate::allocator::Run;
use crate::btree::ReadId;
use crate::{IoId, IoRequest, LookupId};
use std::collections::{HashMap, VecDeque};
use types::BufPool;
use wire::Rope;

/// What a request was made for, so that its completion finds its way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Purpose {
    /// Data or log of the turn with this LSN.
    TurnWrite {
        lsn: u64,
    },
    TurnFlush,
    /// A page of the tree being made.
    PageWrite,
    /// A page of the tree.
    PageRead {
        id: ReadId,
    },
    CheckpointRoot,
    CheckpointFlush,
    /// A part of a read.
    Read {
        id: LookupId,
        part: usize,
    },
    /// The old block that the new block `target` is made from.
    MergeRead {
        target: u32,
        sequence: u64,
    },
    Discard {
        run: Run,
    },
    /// Zeros, ahead of use.
    Prepare,
    /// Nothing but time for a lookup that is to wait.
    Late {
        id: LookupId,
    },
}

#[derive(Default, Debug)]
pub(crate) struct IoQueue {
    next_id: u64,
    out: VecDeque<IoRequest>,
    /// Of requests made and not done. Never iterated, so that its order means nothing.
    purposes: HashMap<IoId, Purpose>,
}

impl IoQueue {
    fn id(&mut self, purpose: Purpose) -> IoId {
        let id = IoId(self.next_id);
        self.next_id += 1;
        self.purposes.insert(id, purpose);
        id
    }

    /// Reads a run into a buffer of the pool. What the buffer held before never shows: what the device gives is checked
    /// against its checksum.
    pub fn read(&mut self, purpose: Purpose, run: Run, buffers: &BufPool) {
        let id = self.id(purpose);
        let buf = buffers.take(run.len_bytes() as usize);
        self.out.push_back(IoRequest::Read { id, offset: run.offset_bytes(), buf });
    }

    pub fn write(&mut self, purpose: Purpose, offset: u64, data: Rope) {
        let id = self.id(purpose);
        self.out.push_back(IoRequest::Write { id, offset, data });
    }

    pub fn flush(&mut self, purpose: Purpose) {
        let id = self.id(purpose);
        self.out.push_back(IoRequest::Flush { id });
    }

    pub fn discard(&mut self, run: Run) {
        let id = self.id(Purpose::Discard { run });
        self.out.push_back(IoRequest::Discard { id, offset: run.offset_bytes(), len: run.len_bytes() });
    }

    pub fn poll(&mut self) -> Option<IoRequest> {
        self.out.pop_front()
    }

    /// What a request that is done was for. Panics for one that was never made or is done already.
    pub fn finish(&mut self, id: IoId) -> Purpose {
        self.purposes.remove(&id).unwrap_or_else(|| panic!("{id:?} done, but not under way"))
    }

    pub fn is_idle(&self) -> bool {
        self.purposes.is_empty()
    }

    /// Forgets requests that were not handed out yet.
    pub fn drop_writes(&mut self) {
        let (keep, drop): (VecDeque<_>, VecDeque<_>) =
            self.out.drain(..).partition(|request| matches!(request, IoRequest::Read { .. }));
        for request in drop {
            let (IoRequest::Write { id, .. } | IoRequest::Flush { id } | IoRequest::Discard { id, .. }) = request
            else {
                unreachable!("reads are kept")
            };
            self.purposes.remove(&id);
        }
        self.out = keep;
    }
}
