//! The open store: its parts, its lookups, and the way of a completed request to the part that made it.

use crate::btree::ReadId;
use crate::config::BLOCK;
use crate::data::block_cache::BlockCache;
use crate::data::in_flight::InFlight;
use crate::data::merges::Merges;
use crate::data::reads::Reads;
use crate::data::relocation::Relocation;
use crate::disk::superblock::Superblock;
use crate::engine::budget::Memory;
use crate::engine::checkpoint::Checkpoint;
use crate::engine::commit_times::CommitLog;
use crate::engine::io_queue::{IoQueue, Purpose};
use crate::engine::queue::Queue;
use crate::engine::turns::Turns;
use crate::engine::wal::Wal;
use crate::metadata::copying::Copies;
use crate::metadata::lookups::Lookups;
use crate::metadata::state::State;
use crate::opening::losses::Loss;
use crate::opening::mending::Mended;
use crate::space::allocator::Allocator;
use crate::space::freeing::{Discards, Freeing};
use crate::space::metadata_space::MetadataSpace;
use crate::space::preparing;
use crate::space::preparing::Preparing;
use crate::space::run::Run;
use crate::{
    BlockCacheStats, Device, DeviceUsage, FailedRequest, IoDone, IoRequest, SpaceUsage, StopReason, StoreEvent,
};
use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;
use types::{BufPool, PgId};

/// An open store.
///
/// *Commands:* [`Store::submit`], [`Store::checkpoint`]. *Lookups:* [`Store::stat`], [`Store::read`],
/// [`Store::extents`], [`Store::list`], `omap_*`, `pg_*`. *Events in:* [`Store::io_done`]. *Actions out:*
/// [`Store::poll_io`], [`Store::poll_event`].
///
/// A turn of the caller's loop feeds all completions in, handles events, submits, calls [`Store::end_turn`] **once,
/// also if nothing was submitted** (a checkpoint moves on there), and then carries out what [`Store::poll_io`] gives.
/// Requests may be carried out in any order and at the same time.
#[derive(Debug)]
pub struct Store {
    pub(crate) superblock: Superblock,
    pub(crate) state: State,
    /// Groups with entries in their tables, as of the last transaction submitted.
    pub(crate) groups: BTreeSet<PgId>,
    pub(crate) queue: Queue,
    pub(crate) lookups: Lookups,
    pub(crate) copies: Option<Copies>,
    /// The last transaction that destroyed a group.
    pub(crate) destroyed_ticket: u64,
    pub(crate) memory: Memory,
    pub(crate) allocator: Allocator,
    pub(crate) wal: Wal,
    /// Number of blocks that objects hold.
    pub(crate) data_blocks: u64,
    pub(crate) turns: Turns,
    pub(crate) in_flight: InFlight,
    pub(crate) merges: Merges,
    pub(crate) reads: Reads,
    pub(crate) block_cache: BlockCache,
    pub(crate) freeing: Freeing,
    pub(crate) discards: Discards,
    pub(crate) relocation: Relocation,
    pub(crate) preparing: Preparing,
    pub(crate) idle: Idle,
    pub(crate) checkpoint: Checkpoint,
    /// Blocks set aside for the tree.
    pub(crate) metadata: MetadataSpace,
    pub(crate) io: IoQueue,
    /// Buffers for reads and for data that is put together.
    pub(crate) buffers: BufPool,
    pub(crate) events: VecDeque<StoreEvent>,
    /// The reason why no further commit will happen.
    pub(crate) stopped: Option<StopReason>,
    pub(crate) losses: Vec<Loss>,
    pub(crate) unreadable_log: Vec<u64>,
    pub(crate) mended: Option<Box<Mended>>,
    pub(crate) replayed_records: u64,
    pub(crate) now: Duration,
    pub(crate) commit_log: CommitLog,
}

/// Number of idle ticks after which freed blocks are returned to the device.
const IDLE_TICKS: u32 = 5;

/// Observations of [`Store::tick`].
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Idle {
    last_ticket: u64,
    ticks: u32,
}

/// Bytes of unused buffers that a store keeps if it is given no pool: zeroing new buffers costs a tenth of the CPU time
/// of large reads. 16 MiB.
pub(crate) const SPARE_BYTES: usize = 16 << 20;

impl Store {
    /// Makes the store take its buffers from a pool that has other users too.
    pub fn use_buffers(&mut self, buffers: BufPool) {
        self.buffers = buffers;
    }

    /// Limits the block cache to this many bytes. 0, the initial value, turns it off.
    pub fn set_block_cache_bytes(&mut self, bytes: usize) {
        self.block_cache.set_budget(bytes);
    }

    pub fn block_cache_stats(&self) -> BlockCacheStats {
        self.block_cache.stats()
    }

    /// Makes the store write zeros ahead of use to blocks that small writes will get. For sparse files: a first write
    /// to a block, and the flush behind it, cost far more there than later ones. The store's promises stay the same.
    pub fn prepare_ahead(&mut self) {
        self.prepare_ahead_by(preparing::RUN_BLOCKS);
    }

    pub(crate) fn prepare_ahead_by(&mut self, run_blocks: u32) {
        self.preparing = Preparing::on(run_blocks);
        self.allocator.limit_open_runs(run_blocks);
    }

    /// Returns the store's own identity, given by `format`. The OSD reports it to the monitors.
    pub fn uuid(&self) -> types::Fsid {
        self.superblock.uuid
    }

    /// Returns the number of log records applied when the store was opened: 0 after an orderly stop.
    pub fn replayed_records(&self) -> u64 {
        self.replayed_records
    }

    /// Returns the reason why nothing can be changed, if there is one: the store has stopped, or it was opened with
    /// parts of its metadata lost. Lookups of everything else are still answered.
    pub fn stopped(&self) -> Option<&StopReason> {
        self.stopped.as_ref()
    }

    /// Returns the damage found when the store was opened.
    pub fn losses(&self) -> &[Loss] {
        &self.losses
    }

    /// Returns true if changes come faster than the checkpoint under way takes the former ones into the tree, so that
    /// memory for changes, or the space kept for them on a nearly full device, is used up. Callers should not submit
    /// while this is true: the store never refuses for lack of memory, but it does for lack of space.
    pub fn is_behind(&self) -> bool {
        let is_full = || self.state.overlay.bytes().0 > self.memory.overlay_bytes || self.changes_fill_room();
        self.checkpoint.is_running() && is_full()
    }

    /// Returns the device offsets of log blocks that could not be read when the store was opened. If it opened as
    /// usual, these blocks held nothing that is needed. If such a block is still unreadable at the next opening, that
    /// opening cannot tell a lost record there from one that was never written.
    pub fn unreadable_log(&self) -> &[u64] {
        &self.unreadable_log
    }

    /// Returns the device that holds the log.
    pub fn log_device(&self) -> Device {
        self.superblock.log_device()
    }

    /// Returns the bytes of data that were submitted and are not durable yet.
    pub fn uncommitted_bytes(&self) -> u64 {
        self.in_flight.bytes() + self.queue.blocks * BLOCK
    }

    /// Returns how full the store is.
    pub fn usage(&self) -> SpaceUsage {
        let total_bytes = self.superblock.device_bytes;
        let free_bytes = self.free_blocks().saturating_sub(self.reserved_blocks()) * BLOCK;
        let data_bytes = self.data_blocks * BLOCK;
        SpaceUsage {
            total_bytes,
            free_bytes,
            data_bytes,
            stored_bytes: self.state.totals.stored_bytes.max(0) as u64,
            omap_bytes: self.state.totals.omap_bytes.max(0) as u64,
            metadata_bytes: total_bytes - data_bytes - free_bytes,
            metadata_device: self.metadata_device_usage(),
            objects: self.state.totals.objects.max(0) as u64,
        }
    }

    fn metadata_device_usage(&self) -> Option<DeviceUsage> {
        let total_bytes = self.superblock.bytes_of(Device::Metadata)?;
        let free = self.metadata.own_free_blocks().expect("a device of its own");
        let free_bytes = free.saturating_sub(self.metadata_device_reserved_blocks()) * BLOCK;
        Some(DeviceUsage { total_bytes, free_bytes })
    }

    /// Returns the number of blocks that are free, or will be once their release has passed all stages.
    pub(crate) fn free_blocks(&self) -> u64 {
        let stages =
            self.turns.freed_blocks() + self.freeing.blocks() + self.discards.blocks() + self.preparing.blocks();
        let held = if self.superblock.metadata_device.is_some() { 0 } else { self.metadata.held_blocks() };
        u64::from(self.allocator.free_blocks()) + self.metadata.blocks() + held + stages
    }

    /// Does periodic work; call this about once a second. Relocation may go on, and a store that was idle for
    /// `IDLE_TICKS` calls returns freed blocks to the device.
    pub fn tick(&mut self) {
        self.relocation.tick();
        let commits = self.turns.last_ticket();
        let idle = self.is_idle() && commits == self.idle.last_ticket;
        self.idle.last_ticket = commits;
        // A failed read of a page may succeed later, so failures are forgotten.
        self.state.cache.forget_failures();
        self.idle.ticks = if idle { self.idle.ticks + 1 } else { 0 };
        if self.idle.ticks >= IDLE_TICKS && self.stopped.is_none() {
            // The last transaction's blocks wait for a record behind it.
            self.turns.vouch_wanted |= self.freeing.waits_for_more_than(self.turns.vouched_lsn);
            if self.discards.is_worth_a_sweep() {
                self.discards.begin_sweep();
            }
        }
    }

    /// Returns true if there is work that no completion will trigger: the caller should turn its loop again soon.
    pub fn wants_turn(&self) -> bool {
        let work = self.checkpoint.is_running()
            || !self.state.destroying.is_empty()
            || !self.queue.is_empty()
            || self.compaction_wants_turn();
        work && self.io.is_idle() && self.state.cache.reads_in_flight() == 0 && self.stopped.is_none()
    }

    /// Returns true if nothing is under way: all commits are done, and no checkpoint, read or discard is running or
    /// wanted.
    pub fn is_idle(&self) -> bool {
        self.io.is_idle()
            && self.turns.is_idle()
            && self.merges.is_empty()
            && self.queue.is_empty()
            && self.reads.is_idle()
            && self.state.destroying.is_empty()
            && self.state.cache.reads_in_flight() == 0
            && self.checkpoint.is_idle()
            && self.discards.is_idle()
            && self.preparing.is_idle()
            && self.relocation.is_idle()
    }

    /// Returns the next request to carry out.
    pub fn poll_io(&mut self) -> Option<IoRequest> {
        while let Some(read) = self.state.cache.poll_read() {
            self.io.read(Purpose::PageRead { id: read.id }, read.run, &self.buffers);
        }
        self.io.poll()
    }

    /// Returns the next event; events come in the order in which they happened.
    pub fn poll_event(&mut self) -> Option<StoreEvent> {
        loop {
            let event = self.events.pop_front()?;
            if let Some(event) = self.relocation.take_event(event) {
                return Some(event);
            }
        }
    }

    /// Takes the outcome of a request. Panics for a request that was not made or is done already.
    pub fn io_done(&mut self, done: IoDone) {
        let purpose = self.io.finish(done.id);
        match (purpose, done.result) {
            (Purpose::Read { id, part }, result) => self.read_part_done(id, part, filled(result)),
            (Purpose::PageRead { id }, result) => self.page_read_done(id, filled(result)),
            (Purpose::MergeRead { target, which, sequence }, result) => {
                self.merge_read_done(target, which, sequence, filled(result));
            }
            (Purpose::Discard { run }, result) => {
                self.discards.done(run, result.is_ok(), &mut self.allocator);
            }
            (Purpose::Prepare, result) => self.preparing.write_done(result.is_ok(), &mut self.allocator),
            (_, _) if self.stopped.is_some() => {}
            (Purpose::TurnFlush { device }, Err(_)) if mutant::is(mutant::Mutant::FlushBelieved) => {
                self.io.flush(Purpose::TurnFlush { device });
            }
            (Purpose::TurnWrite { lsn, device }, Err(errno)) => {
                self.fail_request(FailedRequest::TurnWrite { lsn, device }, errno);
            }
            (Purpose::TurnFlush { device }, Err(errno)) => {
                self.fail_request(FailedRequest::TurnFlush { device }, errno)
            }
            (Purpose::PageWrite, Err(errno)) => self.fail_request(FailedRequest::PageWrite, errno),
            (Purpose::CheckpointRoot, Err(errno)) => self.fail_request(FailedRequest::CheckpointRoot, errno),
            (Purpose::CheckpointFlush { device }, Err(errno)) => {
                self.fail_request(FailedRequest::CheckpointFlush { device }, errno);
            }
            (Purpose::TurnWrite { lsn, device }, Ok(_)) => self.turn_write_done(lsn, device),
            (Purpose::TurnFlush { device }, Ok(_)) => self.turn_flush_done(device),
            (Purpose::PageWrite | Purpose::CheckpointRoot | Purpose::CheckpointFlush { .. }, Ok(_)) => {
                self.checkpoint_io_done(purpose);
            }
        }
    }

    /// Stops the store for good: the changes in memory may never become durable.
    pub(crate) fn fail(&mut self, reason: StopReason) {
        if self.stopped.is_none() {
            self.io.drop_writes();
            self.events.push_back(StoreEvent::Failed { reason: Box::new(reason.clone()) });
            self.stopped = Some(reason);
        }
    }

    fn fail_request(&mut self, request: FailedRequest, errno: i32) {
        self.fail(StopReason::Device { request, errno });
    }

    fn page_read_done(&mut self, id: ReadId, result: Result<types::AlignedBuf, i32>) {
        self.state.cache.read_done(id, result);
        self.page_lookups_done(id);
        self.begin_reads_with_page(id);
        self.run_queue();
    }

    /// Releases freed blocks to the allocator, as far as allowed.
    pub(crate) fn release_freed(&mut self) {
        let (allocator, discards, cache) = (&mut self.allocator, &mut self.discards, &mut self.block_cache);
        let vouched_lsn = if mutant::is(mutant::Mutant::ReuseEarly) { u64::MAX } else { self.turns.vouched_lsn };
        self.freeing.release(vouched_lsn, allocator, |run: Run| {
            cache.forget(run);
            discards.freed(run);
        });
    }
}

/// Returns a read's buffer. Panics if a successful read has none, which breaks the contract of [`IoDone`].
fn filled(result: Result<Option<types::AlignedBuf>, i32>) -> Result<types::AlignedBuf, i32> {
    result.map(|buf| buf.expect("a read that succeeded hands its buffer back"))
}
