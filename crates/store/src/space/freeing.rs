//! The way of blocks from "without a holder" to "may be written again".

use crate::space::allocator::Allocator;
use crate::space::run::Run;
use std::collections::{BTreeSet, VecDeque};

#[derive(Debug)]
struct Batch {
    lsn: u64,
    runs: Vec<Run>,
    /// Reads with lower numbers may still be on these blocks.
    reads_before: u64,
}

/// Blocks freed by records that are not proven durable, or that reads are still on.
///
/// A freed block may be written again only once a *durable record states* that the freeing record is durable. One flush
/// less is not enough: after a crash the blocks of records that no later record vouches for are compared with their
/// checksums, and a block that was already overwritten would make a good record look torn.
#[derive(Default, Debug)]
pub(crate) struct Freeing {
    batches: VecDeque<Batch>,
    blocks: u64,
    next_read: u64,
    reads: BTreeSet<u64>,
}

impl Freeing {
    /// Returns the number of a read that begins now. Blocks freed from now on are kept until it ends.
    pub fn begin_read(&mut self) -> u64 {
        self.next_read += 1;
        self.reads.insert(self.next_read);
        self.next_read
    }

    pub fn end_read(&mut self, number: u64) {
        assert!(self.reads.remove(&number), "read {number} ended twice");
    }

    /// Takes in the blocks that the record `lsn` frees. Calls must come in the order of LSNs.
    pub fn push(&mut self, lsn: u64, runs: Vec<Run>) {
        self.blocks += runs.iter().map(|run| u64::from(run.count)).sum::<u64>();
        if !runs.is_empty() {
            self.batches.push_back(Batch { lsn, runs, reads_before: self.next_read + 1 });
        }
    }

    pub fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Returns true if blocks wait for a record that vouches for more than `vouched_lsn`.
    pub fn waits_for_more_than(&self, vouched_lsn: u64) -> bool {
        self.batches.front().is_some_and(|batch| batch.lsn > vouched_lsn)
    }

    /// Releases blocks that records up to `vouched_lsn` freed and no read is on to the allocator. Calls `released` for
    /// each run.
    pub fn release(&mut self, vouched_lsn: u64, allocator: &mut Allocator, mut released: impl FnMut(Run)) {
        let oldest_read = self.reads.first().copied().unwrap_or(u64::MAX);
        while self.batches.front().is_some_and(|batch| batch.lsn <= vouched_lsn && batch.reads_before <= oldest_read) {
            for run in self.batches.pop_front().expect("just seen").runs {
                self.blocks -= u64::from(run.count);
                allocator.release(run);
                released(run);
            }
        }
    }
}

/// Free blocks whose content the device still keeps, and their slow return to the device.
#[derive(Debug)]
pub(crate) struct Discards {
    /// A set bit is a block that was written since it was last discarded.
    kept: Vec<u64>,
    /// The place of the present sweep; `None` between sweeps.
    sweep: Option<u32>,
    under_way: Option<Run>,
    /// Number of blocks freed since the present or last sweep began.
    freed_since: u64,
    /// False once the device refused a discard.
    supported: bool,
}

/// Minimum length of a discarded run: 1 MiB. Shorter runs are left to be written again, since returning them would only
/// fragment a file.
const DISCARD_BLOCKS_MIN: u32 = 256;
/// Maximum length of one discard, so that it does not hold up the device: 64 MiB.
const DISCARD_BLOCKS_MAX: u32 = 16_384;
/// Number of blocks looked at per step of a sweep.
const SWEEP_BLOCKS: u32 = 16_384;
// One step of a sweep finds a run of any length that is discarded.
const _: () = assert!(DISCARD_BLOCKS_MIN <= DISCARD_BLOCKS_MAX && DISCARD_BLOCKS_MIN <= SWEEP_BLOCKS);

impl Discards {
    pub fn new(device_blocks: u32) -> Discards {
        Discards {
            kept: vec![0; device_blocks.div_ceil(64) as usize],
            sweep: None,
            under_way: None,
            freed_since: 0,
            supported: true,
        }
    }

    pub fn freed(&mut self, run: Run) {
        self.freed_since += u64::from(run.count);
        self.mark(run, true);
    }

    /// Returns true if the device still keeps content for the whole run: all of it was used before.
    pub fn are_kept(&self, run: Run) -> bool {
        (run.start..run.end()).all(|block| self.kept[(block / 64) as usize] >> (block % 64) & 1 == 1)
    }

    fn mark(&mut self, run: Run, kept: bool) {
        let mut at = run.start;
        while at < run.end() {
            let count = (64 - at % 64).min(run.end() - at);
            let mask = (u64::MAX >> (64 - count)) << (at % 64);
            let word = &mut self.kept[(at / 64) as usize];
            *word = if kept { *word | mask } else { *word & !mask };
            at += count;
        }
    }

    /// Begins a sweep over the device, unless one is under way.
    pub fn begin_sweep(&mut self) {
        if self.supported && self.sweep.is_none() {
            (self.sweep, self.freed_since) = (Some(0), 0);
        }
    }

    /// Returns true if enough was freed since the last sweep for another one to be likely to find something.
    pub fn is_worth_a_sweep(&self) -> bool {
        self.freed_since >= u64::from(DISCARD_BLOCKS_MIN)
    }

    /// Returns the next run to discard, if the last one is done. The run is taken from the allocator meanwhile.
    pub fn next(&mut self, allocator: &mut Allocator) -> Option<Run> {
        let from = self.sweep.filter(|_| self.under_way.is_none())?;
        let (run, at) = allocator.find_run(from, SWEEP_BLOCKS, DISCARD_BLOCKS_MIN, DISCARD_BLOCKS_MAX, &self.kept);
        self.sweep = (at < self.kept.len() as u32 * 64 && at > from).then_some(at);
        let run = run?;
        allocator.take(run);
        self.under_way = Some(run);
        Some(run)
    }

    /// Ends the discard of `run`, which is done or was refused. The blocks go back to the allocator.
    pub fn done(&mut self, run: Run, accepted: bool, allocator: &mut Allocator) {
        assert_eq!(self.under_way.take(), Some(run), "another discard was under way");
        allocator.release(run);
        if accepted {
            self.mark(run, false);
        } else {
            (self.supported, self.sweep) = (false, None);
        }
    }

    pub fn is_idle(&self) -> bool {
        self.under_way.is_none() && self.sweep.is_none()
    }

    /// Returns the number of blocks that are neither free nor used while they are being discarded.
    pub fn blocks(&self) -> u64 {
        self.under_way.map_or(0, |run| run.count.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_wait_for_a_voucher_and_for_reads() {
        let mut allocator = Allocator::new(100);
        let mut freeing = Freeing::default();
        let early = freeing.begin_read();
        freeing.push(5, vec![Run { start: 10, count: 2 }]);
        let late = freeing.begin_read();
        freeing.push(6, vec![Run { start: 20, count: 1 }]);
        let mut check = |freeing: &mut Freeing, vouched, free| {
            freeing.release(vouched, &mut allocator, |_| ());
            assert_eq!(allocator.free_blocks(), free);
        };
        check(&mut freeing, 5, 0);
        freeing.end_read(early);
        check(&mut freeing, 4, 0);
        check(&mut freeing, 5, 2);
        assert!(freeing.waits_for_more_than(5) && !freeing.waits_for_more_than(6));
        check(&mut freeing, 6, 2);
        freeing.end_read(late);
        check(&mut freeing, 6, 3);
        assert_eq!(freeing.blocks(), 0);
    }

    #[test]
    fn only_long_runs_that_were_written_are_discarded() {
        let mut allocator = Allocator::new(200_000);
        allocator.release(Run { start: 0, count: 200_000 });
        let mut discards = Discards::new(200_000);
        for run in
            [Run { start: 0, count: 255 }, Run { start: 1000, count: 300 }, Run { start: 150_000, count: 20_000 }]
        {
            discards.freed(run);
        }
        discards.begin_sweep();
        let mut seen = Vec::new();
        while !discards.is_idle() {
            if let Some(run) = discards.next(&mut allocator) {
                assert!(!allocator.is_free(run.start) && discards.next(&mut allocator).is_none());
                discards.done(run, true, &mut allocator);
                seen.push((run.start, run.count));
            }
        }
        assert_eq!(seen, [(1000, 300), (150_000, 16_384), (166_384, 3616)]);
        assert_eq!(allocator.free_blocks(), 200_000);
    }
}
