//! Blocks written ahead of their use.
//!
//! In a sparse file the first write to a block costs far more than later ones: the file system finds a place for it,
//! and the next flush has to make that place durable too. Runs of free blocks are therefore filled with zeros, in large
//! writes, before small writes need them. Large writes pay little for each block and do without. Block devices, and
//! blocks that were written before, need none of this.

use crate::config::BLOCK;
use crate::engine::io_queue::{IoQueue, Purpose};
use crate::space::allocator::Allocator;
use crate::space::freeing::Discards;
use crate::space::run::Run;
use bytes::Bytes;
use types::AlignedBuf;
use wire::Rope;

/// Number of blocks prepared at a time: 4 MiB.
pub(crate) const RUN_BLOCKS: u32 = 1024;
/// Maximum number of runs held ready where small writes keep using them up.
const READY_RUNS_MAX: u32 = 4;
const WRITE_BYTES: usize = 1 << 20;
/// Bytes of zeros in memory; a write takes them several times.
const ZEROS_BYTES: usize = 64 << 10;
const _: () = assert!(WRITE_BYTES.is_multiple_of(ZEROS_BYTES) && (ZEROS_BYTES as u64).is_multiple_of(BLOCK));
const _: () = assert!(RUN_BLOCKS as u64 * BLOCK >= WRITE_BYTES as u64);

/// The run being prepared, and the number of blocks wanted.
#[derive(Debug)]
pub(crate) struct Preparing {
    enabled: bool,
    zeros: Bytes,
    /// Number of blocks prepared at a time.
    run_blocks: u32,
    /// The run that zeros are written to, and the number of its writes that are not done.
    under_way: Option<(Run, u32)>,
    /// Number of blocks to hold ready: grows with the use of small writes.
    wanted: u32,
}

impl Preparing {
    pub fn off() -> Preparing {
        Preparing { enabled: false, zeros: Bytes::new(), run_blocks: 0, under_way: None, wanted: 0 }
    }

    pub fn on(run_blocks: u32) -> Preparing {
        let zeros = AlignedBuf::zeroed(ZEROS_BYTES).freeze();
        Preparing { enabled: true, zeros, run_blocks, under_way: None, wanted: run_blocks }
    }

    /// Begins to prepare the next run if fewer blocks are ready than small writes are likely to use soon.
    pub fn advance(&mut self, allocator: &mut Allocator, discards: &Discards, io: &mut IoQueue) {
        if !self.enabled || self.under_way.is_some() {
            return;
        }
        if allocator.take_ready_missed() {
            self.wanted = (2 * self.wanted).min(READY_RUNS_MAX * self.run_blocks);
        }
        // A store that is nearly full has written almost everything before.
        let plenty = allocator.free_blocks() > allocator.blocks() / 16 + 2 * READY_RUNS_MAX * self.run_blocks;
        while allocator.ready_blocks() < self.wanted && plenty {
            let Some(run) = allocator.take_to_prepare(self.run_blocks) else { return };
            if discards.are_kept(run) {
                allocator.add_ready(run);
                continue;
            }
            self.under_way = Some((run, self.write_zeros(run, io)));
            return;
        }
    }

    /// Queues writes of zeros; returns the number of writes.
    fn write_zeros(&self, run: Run, io: &mut IoQueue) -> u32 {
        let (mut offset, mut left, mut writes) = (run.offset_bytes(), run.len_bytes() as usize, 0);
        while left > 0 {
            let mut data = Rope::new();
            while data.len() < left.min(WRITE_BYTES) {
                data.push(self.zeros.slice(..ZEROS_BYTES.min(left - data.len())));
            }
            left -= data.len();
            let next = offset + data.len() as u64;
            io.write(Purpose::Prepare, offset, data);
            (offset, writes) = (next, writes + 1);
        }
        writes
    }

    /// Ends one write of zeros. A failed one ends all preparing, which only saves time; a broken device shows in the
    /// writes that matter.
    pub fn write_done(&mut self, succeeded: bool, allocator: &mut Allocator) {
        self.enabled &= succeeded;
        let (run, writes_left) = self.under_way.take().expect("zeros were being written");
        if writes_left > 1 {
            self.under_way = Some((run, writes_left - 1));
            return;
        }
        allocator.add_ready(run);
    }

    pub fn is_idle(&self) -> bool {
        self.under_way.is_none()
    }

    /// Returns the number of blocks that are neither free nor used while zeros are written to them.
    pub fn blocks(&self) -> u64 {
        self.under_way.map_or(0, |(run, _)| run.count.into())
    }
}
