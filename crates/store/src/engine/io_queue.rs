//! Requests on their way to the devices.

use crate::btree::ReadId;
use crate::data::merges::Which;
use crate::space::run::Run;
use crate::{Device, IoId, IoRequest, LookupId};
use std::collections::VecDeque;
use types::{BufPool, FastMap};
use wire::Rope;

/// The use of a request, so that its completion finds its way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Purpose {
    /// Data or log record of the turn with this LSN.
    TurnWrite {
        lsn: u64,
        device: Device,
    },
    TurnFlush {
        device: Device,
    },
    /// A write of a page of the tree being made.
    PageWrite,
    /// A read of a page of the tree.
    PageRead {
        id: ReadId,
    },
    CheckpointRoot,
    CheckpointFlush {
        device: Device,
    },
    /// A part of a read.
    Read {
        id: LookupId,
        part: usize,
    },
    /// A read of a block that the new block `target` is made from.
    MergeRead {
        target: u32,
        which: Which,
        sequence: u64,
    },
    Discard {
        run: Run,
    },
    /// A write of zeros, ahead of use.
    Prepare,
}

impl Purpose {
    /// Returns the device of such a request, if the metadata tree is on the device `metadata`.
    fn device(self, metadata: Device) -> Device {
        match self {
            Purpose::TurnWrite { device, .. } | Purpose::TurnFlush { device } | Purpose::CheckpointFlush { device } => {
                device
            }
            Purpose::PageWrite | Purpose::PageRead { .. } | Purpose::CheckpointRoot => metadata,
            Purpose::Read { .. } | Purpose::MergeRead { .. } | Purpose::Discard { .. } | Purpose::Prepare => {
                Device::Main
            }
        }
    }
}

#[derive(Debug)]
pub(crate) struct IoQueue {
    /// The device of the metadata tree.
    metadata: Device,
    next_id: u64,
    out: VecDeque<IoRequest>,
    /// Uses of the requests that are not done. Never iterated, so its order has no effect.
    purposes: FastMap<IoId, Purpose>,
}

impl IoQueue {
    /// Creates an empty queue. The metadata tree is on the device `metadata`.
    pub fn new(metadata: Device) -> IoQueue {
        IoQueue { metadata, next_id: 0, out: VecDeque::new(), purposes: FastMap::default() }
    }

    fn id(&mut self, purpose: Purpose) -> (IoId, Device) {
        let id = IoId(self.next_id);
        self.next_id += 1;
        self.purposes.insert(id, purpose);
        (id, purpose.device(self.metadata))
    }

    /// Reads a run into a buffer of the pool. The buffer's former content never shows: the data read is checked against
    /// its checksum.
    pub fn read(&mut self, purpose: Purpose, run: Run, buffers: &BufPool) {
        let (id, device) = self.id(purpose);
        let buf = buffers.take(run.len_bytes() as usize);
        self.out.push_back(IoRequest::Read { id, device, offset: run.offset_bytes(), buf });
    }

    pub fn write(&mut self, purpose: Purpose, offset: u64, data: Rope) {
        let (id, device) = self.id(purpose);
        self.out.push_back(IoRequest::Write { id, device, offset, data });
    }

    pub fn flush(&mut self, purpose: Purpose) {
        let (id, device) = self.id(purpose);
        self.out.push_back(IoRequest::Flush { id, device });
    }

    pub fn discard(&mut self, run: Run) {
        let (id, device) = self.id(Purpose::Discard { run });
        self.out.push_back(IoRequest::Discard { id, device, offset: run.offset_bytes(), len: run.len_bytes() });
    }

    pub fn poll(&mut self) -> Option<IoRequest> {
        self.out.pop_front()
    }

    /// Returns true if any request other than a read was not handed out yet.
    pub fn has_unsent_writes(&self) -> bool {
        self.out.iter().any(|request| !matches!(request, IoRequest::Read { .. }))
    }

    /// Takes the use of a request that is done. Panics for a request that was never made or is done already.
    pub fn finish(&mut self, id: IoId) -> Purpose {
        self.purposes.remove(&id).unwrap_or_else(|| panic!("{id:?} done, but not under way"))
    }

    /// Returns the number of requests that are not done.
    pub fn under_way(&self) -> usize {
        self.purposes.len()
    }

    pub fn is_idle(&self) -> bool {
        self.purposes.is_empty()
    }

    /// Forgets all writes, flushes and discards that were not handed out yet.
    pub fn drop_writes(&mut self) {
        let (keep, drop): (VecDeque<_>, VecDeque<_>) =
            self.out.drain(..).partition(|request| matches!(request, IoRequest::Read { .. }));
        for request in drop {
            self.purposes.remove(&request.id());
        }
        self.out = keep;
    }
}
