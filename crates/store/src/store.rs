//! The open store: its parts, its lookups, and the way of a completed request to the part that made it.

use crate::allocator::{Allocator, Run};
use crate::block_cache::BlockCache;
use crate::checkpoint::Checkpoint;
use crate::config::BLOCK;
use crate::freeing::{Discards, Freeing};
use crate::in_flight::InFlight;
use crate::io_queue::{IoQueue, Purpose};
use crate::key::{self, behind_prefix, object_key, omap_key, pg_key};
use crate::late::Late;
use crate::merges::Merges;
use crate::metadata_space::MetadataSpace;
use crate::onode::Onode;
use crate::preparing;
use crate::preparing::Preparing;
use crate::reads::Reads;
use crate::relocation::Relocation;
use crate::state::State;
use crate::superblock::Superblock;
use crate::totals::TreeTotals;
use crate::turns::Turns;
use crate::wal::Wal;
use crate::{BlockCacheStats, Device, DeviceUsage, IoDone, IoRequest, Lookup, ObjectStat, SpaceUsage, StoreEvent};
use bytes::Bytes;
use std::collections::VecDeque;
use std::sync::Arc;
use types::{BufPool, ObjectId, PgId};

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
    pub(crate) allocator: Allocator,
    pub(crate) wal: Wal,
    /// Blocks that objects hold.
    pub(crate) data_blocks: u64,
    pub(crate) turns: Turns,
    pub(crate) in_flight: InFlight,
    pub(crate) merges: Merges,
    pub(crate) reads: Reads,
    pub(crate) late: Late,
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
    pub(crate) replayed_records: u64,
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

    /// Memory of data that was submitted and is not durable yet.
    pub fn uncommitted_bytes(&self) -> u64 {
        self.in_flight.bytes()
    }

    /// Size, attributes and whether there is an omap; `None` for an absent object.
    pub fn stat(&mut self, object: &ObjectId) -> Lookup<Option<Arc<ObjectStat>>> {
        if let Some(late) = self.late(Some(object), "stat") {
            return late;
        }
        Lookup::Ready(self.onode(object).map(|onode| onode.stat.clone()))
    }

    /// Allocated ranges (offset, length) within `offset .. offset + len`, clipped to the size, in order, adjoining ones
    /// joined; none for an absent object.
    pub fn extents(&mut self, object: &ObjectId, offset: u64, len: u64) -> Lookup<Vec<(u64, u64)>> {
        if let Some(late) = self.late(Some(object), (offset, len)) {
            return late;
        }
        let mut extents: Vec<(u64, u64)> = Vec::new();
        if let Some(onode) = self.onode(object) {
            let end = offset.saturating_add(len).min(onode.size());
            if offset < end {
                for (first, run) in onode.blocks.runs((offset / BLOCK) as u32, end.div_ceil(BLOCK)) {
                    let begin = (u64::from(first) * BLOCK).max(offset);
                    let stop = ((u64::from(first) + u64::from(run.count)) * BLOCK).min(end);
                    match extents.last_mut() {
                        Some((at, len)) if *at + *len == begin => *len += stop - begin,
                        _ => extents.push((begin, stop - begin)),
                    }
                }
            }
        }
        Lookup::Ready(extents)
    }

    /// Those of `keys` that the object's omap has, with their values, in the order asked.
    pub fn omap_get(&mut self, object: &ObjectId, keys: &[Bytes]) -> Lookup<Vec<(Bytes, Bytes)>> {
        if let Some(late) = self.late(Some(object), keys) {
            return late;
        }
        let omap = self.onode(object).and_then(|onode| onode.omap.as_ref());
        let found = omap.into_iter().flat_map(|omap| {
            let value = |key: &Bytes| {
                Some((key.clone(), Bytes::copy_from_slice(self.state.omap.get(&omap_key(omap.id, key))?)))
            };
            keys.iter().filter_map(value)
        });
        Lookup::Ready(found.collect())
    }

    /// At most `max` entries with keys behind `start_after` (empty: from the first, the empty key included) that begin
    /// with `prefix`, in order; and whether there are more.
    pub fn omap_list(
        &mut self,
        object: &ObjectId,
        start_after: &[u8],
        prefix: &[u8],
        max: usize,
    ) -> Lookup<(Vec<(Bytes, Bytes)>, bool)> {
        if let Some(late) = self.late(Some(object), (start_after, prefix, max)) {
            return late;
        }
        let Some(omap) = self.onode(object).and_then(|onode| onode.omap.as_ref()) else {
            return Lookup::Ready((Vec::new(), false));
        };
        let begin = omap_key(omap.id, prefix);
        let end = behind_prefix(&begin);
        // The first key behind another is that key with a zero byte.
        let after = [&omap_key(omap.id, start_after)[..], &[0]].concat();
        let from = if start_after.is_empty() { &begin[..] } else { begin.as_ref().max(&after[..]) };
        let mut entries = self.state.omap.range(from, end.as_deref());
        let copy = |(key, value): (&[u8], &crate::state::Value)| {
            (Bytes::copy_from_slice(&key[key::OMAP_PREFIX_BYTES..]), Bytes::copy_from_slice(value))
        };
        let page = entries.by_ref().take(max).map(copy).collect();
        Lookup::Ready((page, entries.next().is_some()))
    }

    /// The omap's header; empty if there is none.
    pub fn omap_header(&mut self, object: &ObjectId) -> Lookup<Bytes> {
        if let Some(late) = self.late(Some(object), "header") {
            return late;
        }
        let omap = self.onode(object).and_then(|onode| onode.omap.as_ref());
        Lookup::Ready(omap.map(|omap| omap.header.clone()).unwrap_or_default())
    }

    /// At most `max` objects in `from .. until`, in order.
    pub fn list(&mut self, from: &ObjectId, until: &ObjectId, max: usize) -> Lookup<Vec<ObjectId>> {
        if let Some(late) = self.late(None, (from, until, max)) {
            return late;
        }
        let objects = self.state.objects.range(&object_key(from), Some(&object_key(until)));
        Lookup::Ready(objects.take(max).map(|(key, _)| key::known_object(key)).collect())
    }

    /// Placement groups with anything in their table, in order.
    pub fn pgs(&self) -> Vec<PgId> {
        let mut pgs = Vec::new();
        let mut from = Some(Box::default());
        while let Some((key, _)) = from.as_ref().and_then(|from| self.state.pgs.range(from, None).next()) {
            let pg = key::pg_of(key).expect("keys of the table are checked when they come in");
            pgs.push(pg);
            from = behind_prefix(&pg_key(pg, &[]));
        }
        pgs
    }

    /// Whether the group has anything in its table.
    pub fn pgs_contain(&self, pg: PgId) -> bool {
        let begin = pg_key(pg, &[]);
        self.state.pgs.range(&begin, behind_prefix(&begin).as_deref()).next().is_some()
    }

    /// A value of the group's table.
    pub fn pg_get(&mut self, pg: PgId, key: &[u8]) -> Lookup<Option<Bytes>> {
        if let Some(late) = self.late(None, (pg, key)) {
            return late;
        }
        Lookup::Ready(self.state.pgs.get(&pg_key(pg, key)).map(|value| Bytes::copy_from_slice(value)))
    }

    /// At most `max` entries of the group's table in `begin .. end`, in order.
    pub fn pg_list(&mut self, pg: PgId, begin: &[u8], end: &[u8], max: usize) -> Lookup<Vec<(Bytes, Bytes)>> {
        if let Some(late) = self.late(None, (pg, begin, end, max)) {
            return late;
        }
        let entries = self.state.pgs.range(&pg_key(pg, begin), Some(&pg_key(pg, end)));
        let copy = |(key, value): (&[u8], &crate::state::Value)| {
            (Bytes::copy_from_slice(&key[key::PG_PREFIX_BYTES..]), Bytes::copy_from_slice(value))
        };
        Lookup::Ready(entries.take(max).map(copy).collect())
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
            stored_bytes: self.state.totals.stored_bytes,
            omap_bytes: self.state.totals.omap_bytes,
            metadata_bytes: total_bytes - data_bytes - free_bytes,
            metadata_device: self.metadata_device_usage(),
            objects: self.state.objects.len() as u64,
        }
    }

    /// What the metadata tree would hold if all transactions so far were in it.
    pub(crate) fn totals(&self) -> TreeTotals {
        self.state.totals_with(self.data_blocks)
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
        u64::from(self.allocator.free_blocks()) + self.metadata.blocks() + stages
    }

    /// To be called about once a second: relocation may go on, and a store that has had nothing to do for [`IDLE_TICKS`]
    /// calls gives what was freed back to the device.
    pub fn tick(&mut self) {
        self.relocation.tick();
        let commits = self.turns.last_ticket();
        let idle = self.is_idle() && commits == self.idle.last_ticket;
        self.idle.last_ticket = commits;
        self.idle.ticks = if idle { self.idle.ticks + 1 } else { 0 };
        if self.idle.ticks >= IDLE_TICKS && self.stopped.is_none() {
            // The last transaction's blocks wait for a record behind it.
            self.turns.vouch_wanted |= self.freeing.waits_for_more_than(self.turns.vouched_lsn);
            if self.discards.is_worth_a_sweep() {
                self.discards.begin_sweep();
            }
        }
    }

    /// Whether nothing is under way: all commits done, no checkpoint, read or discard running or wanted.
    pub fn is_idle(&self) -> bool {
        self.io.is_idle()
            && self.turns.is_idle()
            && self.merges.is_empty()
            && self.checkpoint.is_idle()
            && self.discards.is_idle()
            && self.preparing.is_idle()
            && self.relocation.is_idle()
    }

    /// The next request to carry out.
    pub fn poll_io(&mut self) -> Option<IoRequest> {
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
            (Purpose::Late { id }, _) => self.late_done(id),
            (Purpose::PageRead { id }, result) => self.page_read_done(id, filled(result)),
            (Purpose::MergeRead { target, sequence }, result) => self.merge_read_done(target, sequence, filled(result)),
            (Purpose::Discard { run }, result) => {
                self.discards.done(run, result.is_ok(), &mut self.allocator);
            }
            (Purpose::Prepare, result) => self.preparing.write_done(result.is_ok(), &mut self.allocator),
            (_, _) if self.stopped.is_some() => {}
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

    pub(crate) fn onode(&self, object: &ObjectId) -> Option<&Onode> {
        self.state.objects.get(&object_key(object))
    }

    /// Hands freed blocks on, as far as they may go.
    pub(crate) fn release_freed(&mut self) {
        let (allocator, discards, cache) = (&mut self.allocator, &mut self.discards, &mut self.block_cache);
        self.freeing.release(self.turns.vouched_lsn, allocator, |run: Run| {
            cache.forget(run);
            discards.freed(run);
        });
    }
}

/// A read's buffer. Panics if a successful read comes without: the caller broke the contract of [`IoDone`].
fn filled(result: Result<Option<types::AlignedBuf>, i32>) -> Result<types::AlignedBuf, i32> {
    result.map(|buf| buf.expect("a read that succeeded hands its buffer back"))
}
