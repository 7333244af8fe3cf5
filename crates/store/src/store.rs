//! The open store: its parts, its lookups, and the way of a completed request to the part that made it.

use crate::allocator::{Allocator, Run};
use crate::block_cache::BlockCache;
use crate::btree::ReadId;
use crate::budget::Memory;
use crate::checkpoint::Checkpoint;
use crate::commit_times::CommitLog;
use crate::config::BLOCK;
use crate::copying::Copies;
use crate::freeing::{Discards, Freeing};
use crate::in_flight::InFlight;
use crate::io_queue::{IoQueue, Purpose};
use crate::lookups::Lookups;
use crate::losses::Loss;
use crate::mending::Mended;
use crate::merges::Merges;
use crate::metadata_space::MetadataSpace;
use crate::preparing;
use crate::preparing::Preparing;
use crate::queue::Queue;
use crate::reads::Reads;
use crate::relocation::Relocation;
use crate::state::State;
use crate::superblock::Superblock;
use crate::turns::Turns;
use crate::wal::Wal;
use crate::{BlockCacheStats, Device, DeviceUsage, IoDone, IoRequest, SpaceUsage, StoreEvent};
use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;
use types::{BufPool, PgId};

/// An open store.
///
/// *Commands:* [`Store::submit`], [`Store::checkpoint`]. *Lookups:* [`Store::stat`], [`Store::read`],
/// [`Store::extents`], [`Store::list`], `omap_*`, `pg_*`. *Events in:* [`Store::io_done`]. *Actions out:*
/// [`Store::poll_io`], [`Store::poll_event`].
///
/// A turn of the caller's loop feeds all completions in, handles events, submits, calls [`Store::end_turn`] **once, also
/// if nothing was submitted** (a checkpoint moves on there), and then carries out what [`Store::poll_io`] gives.
/// Requests may be carried out in any order and at the same time.
#[derive(Debug)]
pub struct Store {
    pub(crate) superblock: Superblock,
    pub(crate) state: State,
    /// Groups with anything in their tables, as of the last transaction submitted.
    pub(crate) groups: BTreeSet<PgId>,
    pub(crate) queue: Queue,
    pub(crate) lookups: Lookups,
    pub(crate) copies: Option<Copies>,
    /// The last transaction that destroyed a group.
    pub(crate) destroyed_ticket: u64,
    pub(crate) memory: Memory,
    pub(crate) allocator: Allocator,
    pub(crate) wal: Wal,
    /// Blocks that objects hold.
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
    /// Where reads go and data is put together.
    pub(crate) buffers: BufPool,
    pub(crate) events: VecDeque<StoreEvent>,
    /// Why no further commit will happen.
    pub(crate) stopped: Option<String>,
    pub(crate) losses: Vec<Loss>,
    pub(crate) unreadable_log: Vec<u64>,
    pub(crate) mended: Option<Box<Mended>>,
    pub(crate) replayed_records: u64,
    pub(crate) now: Duration,
    pub(crate) commit_log: CommitLog,
}

/// After so many idle ticks freed blocks go back to the device.
const IDLE_TICKS: u32 = 5;

/// What [`Store::tick`] saw.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Idle {
    last_ticket: u64,
    ticks: u32,
}

/// Unused buffers that a store keeps for the next ones if nobody gives it a pool: zeroing new ones cost a tenth of the CPU
/// time of large reads. 16 MiB.
pub(crate) const SPARE_BYTES: usize = 16 << 20;

impl Store {
    /// Makes the store take its buffers from a pool that is used for other things too.
    pub fn use_buffers(&mut self, buffers: BufPool) {
        self.buffers = buffers;
    }

    /// Keeps data that was read in memory, in at most so many bytes. 0, as a store begins: none.
    pub fn set_block_cache_bytes(&mut self, bytes: usize) {
        self.block_cache.set_budget(bytes);
    }

    pub fn block_cache_stats(&self) -> BlockCacheStats {
        self.block_cache.stats()
    }

    /// Has the store write zeros ahead of use where it will put small writes. For sparse files: a first write to a block,
    /// and the flush behind it, cost far more there than later ones. It changes nothing of what the store promises.
    pub fn prepare_ahead(&mut self) {
        self.prepare_ahead_by(preparing::RUN_BLOCKS);
    }

    pub(crate) fn prepare_ahead_by(&mut self, run_blocks: u32) {
        self.preparing = Preparing::on(run_blocks);
        self.allocator.limit_open_runs(run_blocks);
    }

    /// The store's own identity, as it was formatted with. The OSD tells it to the monitors.
    pub fn uuid(&self) -> types::Fsid {
        self.superblock.uuid
    }

    /// Records of the log that were applied when the store was opened: none after an orderly stop.
    pub fn replayed_records(&self) -> u64 {
        self.replayed_records
    }

    /// Why nothing can be changed, if that is so: the store has stopped, or it was opened with parts of its metadata lost.
    /// Lookups of what is not lost are answered all the same.
    pub fn stopped(&self) -> Option<&str> {
        self.stopped.as_deref()
    }

    /// What was found damaged when the store was opened.
    pub fn losses(&self) -> &[Loss] {
        &self.losses
    }

    /// Whether changes come faster than the checkpoint under way takes those before them into the tree, so that memory
    /// for them is used up, or what is kept for them of a nearly full device. Whoever submits had better wait until this is
    /// over: memory is never a reason for the store to refuse, but room is.
    pub fn is_behind(&self) -> bool {
        let is_full = || self.state.overlay.bytes().0 > self.memory.overlay_bytes || self.changes_fill_room();
        self.checkpoint.is_running() && is_full()
    }

    /// Device offsets of blocks of the log that could not be read when the store was opened. If it opened as usual, they held
    /// nothing that is needed; but a record that was to lie there by the next opening could not be told from one that is
    /// lost, if it was never written.
    pub fn unreadable_log(&self) -> &[u64] {
        &self.unreadable_log
    }

    /// Where the log is.
    pub fn log_device(&self) -> Device {
        self.superblock.log_device()
    }

    /// Memory of data that was submitted and is not durable yet.
    pub fn uncommitted_bytes(&self) -> u64 {
        self.in_flight.bytes() + self.queue.blocks * BLOCK
    }

    /// How full the store is.
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

    /// Blocks that are free or will be once their release has passed all stages.
    pub(crate) fn free_blocks(&self) -> u64 {
        let stages =
            self.turns.freed_blocks() + self.freeing.blocks() + self.discards.blocks() + self.preparing.blocks();
        let held = if self.superblock.metadata_device.is_some() { 0 } else { self.metadata.held_blocks() };
        u64::from(self.allocator.free_blocks()) + self.metadata.blocks() + held + stages
    }

    /// To be called about once a second: relocation may go on, and a store that has had nothing to do for [`IDLE_TICKS`]
    /// calls gives what was freed back to the device.
    pub fn tick(&mut self) {
        self.relocation.tick();
        let commits = self.turns.last_ticket();
        let idle = self.is_idle() && commits == self.idle.last_ticket;
        self.idle.last_ticket = commits;
        // A device may have been unwell for a moment.
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

    /// Whether there is work that no completion will bring about: the caller is to turn its loop again soon.
    pub fn wants_turn(&self) -> bool {
        let work = self.checkpoint.is_running()
            || !self.state.destroying.is_empty()
            || !self.queue.is_empty()
            || self.compaction_wants_turn();
        work && self.io.is_idle() && self.state.cache.reads_in_flight() == 0 && self.stopped.is_none()
    }

    /// Whether nothing is under way: all commits done, no checkpoint, read or discard running or wanted.
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

    /// The next request to carry out.
    pub fn poll_io(&mut self) -> Option<IoRequest> {
        while let Some(read) = self.state.cache.poll_read() {
            self.io.read(Purpose::PageRead { id: read.id }, read.run, &self.buffers);
        }
        self.io.poll()
    }

    /// The next event, in the order in which they happened.
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
            (purpose, Err(errno)) => self.fail(format!("{purpose:?} failed: {}", types::Errno(errno))),
            (Purpose::TurnWrite { lsn, device }, Ok(_)) => self.turn_write_done(lsn, device),
            (Purpose::TurnFlush { device }, Ok(_)) => self.turn_flush_done(device),
            (Purpose::PageWrite | Purpose::CheckpointRoot | Purpose::CheckpointFlush { .. }, Ok(_)) => {
                self.checkpoint_io_done(purpose);
            }
        }
    }

    /// Stops for good: what is in memory may never become durable.
    pub(crate) fn fail(&mut self, reason: String) {
        if self.stopped.is_none() {
            self.io.drop_writes();
            self.events.push_back(StoreEvent::Failed { reason: reason.clone() });
            self.stopped = Some(reason);
        }
    }

    fn page_read_done(&mut self, id: ReadId, result: Result<types::AlignedBuf, i32>) {
        self.state.cache.read_done(id, result);
        self.page_lookups_done(id);
        self.begin_reads_with_page(id);
        self.run_queue();
    }

    /// Hands freed blocks on, as far as they may go.
    pub(crate) fn release_freed(&mut self) {
        let (allocator, discards, cache) = (&mut self.allocator, &mut self.discards, &mut self.block_cache);
        let vouched_lsn = if mutant::is(mutant::Mutant::ReuseEarly) { u64::MAX } else { self.turns.vouched_lsn };
        self.freeing.release(vouched_lsn, allocator, |run: Run| {
            cache.forget(run);
            discards.freed(run);
        });
    }
}

/// A read's buffer. Panics if a successful read comes without: the caller broke the contract of [`IoDone`].
fn filled(result: Result<Option<types::AlignedBuf>, i32>) -> Result<types::AlignedBuf, i32> {
    result.map(|buf| buf.expect("a read that succeeded hands its buffer back"))
}
