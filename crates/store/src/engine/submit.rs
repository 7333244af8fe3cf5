//! Makes redo steps of a transaction's steps: checks and takes space, makes blocks whole.

use crate::btree::{PAGE_BLOCKS, PAGE_BYTES, leaves_max};
use crate::config::BLOCK;
use crate::data::clone_range::{ByteRange, CLONE_RANGE_BYTES_MAX};
use crate::data::in_flight::InFlightPart;
use crate::data::inline::INLINE_BYTES_MAX;
use crate::data::merges::{Base, CrcSlot, Patch, damaged_crc, merged};
use crate::disk::key::{Key, OMAP_PREFIX_BYTES, PG_PREFIX_BYTES, object_key, omap_key};
use crate::disk::numbers::SNAP_BYTES;
use crate::disk::redo::Redo;
use crate::disk::tree_key::{TABLE_BYTES, TABLE_KEY_BYTES_MAX, TableId, tree_key};
use crate::engine::queue::{Accepted, KeyedStep};
use crate::engine::turns::Staged;
use crate::metadata::attrs::SNAPS_ATTR;
use crate::metadata::block_map::{BlockRef, SEGMENT_BLOCKS};
use crate::metadata::state::{BLOCK_BYTES_MAX, ENTRY_BYTES, tree_blocks_max};
use crate::space::run::Run;
use crate::{CloneRangeError, Device, OBJECT_BYTES_MAX, PG_KEYS_END, Step, Store, SubmitError, Ticket, Transaction};
use bytes::Bytes;
use std::ops::Range;
use types::{AlignedBuf, BLOCK_BYTES, BufPool, ObjectId, PgId, crc32c};
use wire::Rope;

/// Maximum number of blocks that the edges of a cloned range take: written bytes of a source's record, the begin and
/// the end of zeros behind them, and bytes of the target's record.
const EDGE_BLOCKS: u64 = 5;

/// Upper bound of the bytes of an object's record, or of a segment's, besides its content and the object's texts.
const OBJECT_ENTRY_BYTES: u64 = 128;
/// Upper bound of the bytes of an entry of an omap or of a group's table, besides the client's key and value.
const TABLE_ENTRY_BYTES: usize = 32;
const _: () = assert!(ENTRY_BYTES as usize + TABLE_BYTES + PG_PREFIX_BYTES <= TABLE_ENTRY_BYTES);
const _: () = assert!(OMAP_PREFIX_BYTES <= PG_PREFIX_BYTES);

/// Returns the blocks reserved for transactions that delete, on a device of this size: one in 256, and some for a small
/// device. A delete adds to the log and to the tree before a checkpoint gives its blocks back.
fn delete_reserve_blocks(device_blocks: u32) -> u64 {
    u64::from(device_blocks) / 256 + 16
}

/// Returns the number of blocks that a write touches.
fn blocks_touched(offset: u64, len: u64) -> u64 {
    if len == 0 { 0 } else { (offset + len).div_ceil(BLOCK) - offset / BLOCK }
}

/// Upper bound of the space that steps need.
#[derive(Default)]
pub(crate) struct RoomNeed {
    pub blocks: u64,
    /// Bytes added to the tree.
    pub metadata_bytes: u64,
    /// True if any step stores something new, which a full store refuses.
    pub grows: bool,
}

impl RoomNeed {
    pub fn add(&mut self, step: &Step) {
        let name_bytes = |object: &ObjectId| {
            OBJECT_ENTRY_BYTES + 2 * (object.name.len() + object.nspace.len() + object.key.len()) as u64
        };
        if let Some(object) = step.object().filter(|object| object.is_clone()) {
            // A clone may have to be listed under its snapshots.
            let snaps = match step {
                Step::SetAttr { name, value, .. } if name == SNAPS_ATTR => (value.len() / SNAP_BYTES) as u64,
                Step::Remove { .. } | Step::RemoveAttr { .. } => 0,
                _ => 1,
            };
            self.metadata_bytes += snaps * name_bytes(object);
        }
        match step {
            Step::Write { object, offset, data } | Step::Xor { object, offset, data } => {
                let blocks = blocks_touched(*offset, data.len() as u64);
                self.blocks += blocks;
                let segments = blocks / u64::from(SEGMENT_BLOCKS) + 2;
                self.metadata_bytes += (1 + segments) * name_bytes(object) + blocks * BLOCK_BYTES_MAX;
                self.metadata_bytes +=
                    Some(offset + data.len() as u64).filter(|end| *end <= INLINE_BYTES_MAX).unwrap_or(0);
                self.grows |= blocks > 0;
            }
            // A range's edges may lie within blocks, which are then rewritten.
            Step::Zero { .. } => self.blocks += 2,
            Step::Truncate { .. } => self.blocks += 1,
            Step::SetAttr { object, name, value } => {
                self.metadata_bytes += name_bytes(object) + (name.len() + value.len()) as u64;
                self.grows = true;
            }
            Step::OmapSet { object, entries } => {
                let bytes: usize = entries.iter().map(|(key, value)| key.len() + value.len() + TABLE_ENTRY_BYTES).sum();
                self.metadata_bytes += name_bytes(object) + bytes as u64;
                self.grows = true;
            }
            Step::OmapSetHeader { object, header } => {
                self.metadata_bytes += name_bytes(object) + header.len() as u64;
                self.grows = true;
            }
            Step::Touch { object } => {
                self.metadata_bytes += name_bytes(object);
                self.grows = true;
            }
            Step::Clone { to, .. } => {
                self.metadata_bytes += name_bytes(to) + INLINE_BYTES_MAX;
                self.grows = true;
            }
            Step::CloneRange { target, length, .. } => {
                // The edges of the range take blocks, and so do inline bytes of the target.
                self.blocks += EDGE_BLOCKS;
                let blocks = length / BLOCK + EDGE_BLOCKS;
                let segments = blocks / u64::from(SEGMENT_BLOCKS) + 2;
                self.metadata_bytes += (1 + segments) * name_bytes(target) + blocks * BLOCK_BYTES_MAX;
                self.metadata_bytes += INLINE_BYTES_MAX;
                self.grows = true;
            }
            Step::PgSet { key, value } => self.metadata_bytes += (key.len() + value.len() + TABLE_ENTRY_BYTES) as u64,
            Step::Remove { .. }
            | Step::RemoveAttr { .. }
            | Step::OmapRemove { .. }
            | Step::OmapRemoveRange { .. }
            | Step::OmapClear { .. }
            | Step::PgRemove { .. }
            | Step::PgRemoveRange { .. }
            | Step::PgDestroy { .. } => {}
        }
    }
}

/// Returns the bytes of the longest key that the step needs in a table, if it may be too long.
fn longest_key_bytes(step: &Step) -> Option<usize> {
    let longest = |keys: &mut dyn Iterator<Item = &Bytes>| keys.map(Bytes::len).max().unwrap_or(0) + OMAP_PREFIX_BYTES;
    let own = match step {
        Step::OmapSet { entries, .. } => longest(&mut entries.iter().map(|(key, _)| key)),
        Step::OmapRemove { keys, .. } => longest(&mut keys.iter()),
        Step::OmapRemoveRange { begin, end, .. } => longest(&mut [begin, end].into_iter()),
        Step::PgSet { key, .. } | Step::PgRemove { key } => key.len() + PG_PREFIX_BYTES,
        Step::PgRemoveRange { begin, end } => begin.len().max(end.len()) + PG_PREFIX_BYTES,
        _ => 0,
    };
    let object = step.object().map_or(0, |object| {
        let texts = object.name.len() + object.nspace.len() + object.key.len();
        // Every byte may be escaped, but zeros in names are rare.
        if 2 * texts + 64 > TABLE_KEY_BYTES_MAX { object_key(object).len() } else { 0 }
    });
    Some(own.max(object))
}

/// Checks a clone of a range, as far as possible without the objects.
fn check_clone_range(step: &Step) -> Result<(), SubmitError> {
    let Step::CloneRange { source, target, source_offset, length, target_offset } = step else { return Ok(()) };
    let why = if source_offset % BLOCK != target_offset % BLOCK {
        CloneRangeError::Alignment
    } else if *length > CLONE_RANGE_BYTES_MAX {
        CloneRangeError::Length
    } else if source == target && source_offset.abs_diff(*target_offset) < *length {
        CloneRangeError::Overlap
    } else if source.max || source.is_min() {
        return Err(SubmitError::Cursor(source.clone()));
    } else {
        return Ok(());
    };
    Err(SubmitError::CloneRange { object: source.clone(), why })
}

impl Store {
    /// Accepts a transaction. Lookups from now on see it; some of them wait for it. It is durable when
    /// [`crate::StoreEvent::Committed`] names its ticket or a later one. Errors: nothing has happened.
    pub fn submit(&mut self, txn: Transaction) -> Result<Ticket, SubmitError> {
        self.take_in(txn, false, false)
    }

    /// Submits, like [`Store::submit`], a transaction for which nobody waits: for a while ([`Store::patient_until`]) it
    /// goes to the device only with another one.
    pub fn submit_patiently(&mut self, txn: Transaction) -> Result<Ticket, SubmitError> {
        self.take_in(txn, false, true)
    }

    pub(crate) fn take_in(&mut self, txn: Transaction, is_owed: bool, may_wait: bool) -> Result<Ticket, SubmitError> {
        let txn = self.admit(txn, is_owed)?;
        self.relocation.resume();
        self.relocation.compaction.disturb();
        let ticket = match may_wait {
            true => self.turns.next_patient_ticket(self.now),
            false => self.turns.next_ticket(),
        };
        for step in &txn.steps {
            match &step.step {
                Step::PgSet { .. } => drop(self.groups.insert(txn.pg)),
                Step::PgDestroy { .. } => drop(self.groups.remove(&txn.pg)),
                Step::PgRemoveRange { begin, end } if begin.is_empty() && *end == PG_KEYS_END => {
                    self.groups.remove(&txn.pg);
                }
                _ => {}
            }
        }
        self.enqueue(ticket, txn);
        match &self.stopped {
            None => Ok(Ticket(ticket)),
            Some(reason) => Err(SubmitError::Stopped(Box::new(reason.clone()))),
        }
    }

    /// Applies a transaction whose needs are all in memory.
    pub(crate) fn apply_accepted(&mut self, ticket: u64, txn: Accepted) {
        let mut staged = Staged::new(ticket);
        let destroying = self.state.destroying.len();
        if let Some(next) = self.copies.as_ref().and_then(|copies| copies.ids_end(ticket)) {
            // Omaps that the steps make before they take the copies get other ids, in a replay too.
            self.apply(Redo::OmapIds { next }, &mut staged);
        }
        for KeyedStep { step, object, from } in txn.steps {
            self.stage(txn.pg, step, object, from, &mut staged);
        }
        self.state.settle();
        self.state.omap_copies.clear();
        self.copies_taken(ticket);
        if self.state.destroying.len() > destroying {
            self.destroyed_ticket = ticket;
        }
        self.turns.stage(staged);
    }

    /// Checks everything that can keep a transaction from happening. With `is_owed` it may take the reserve.
    fn admit(&mut self, txn: Transaction, is_owed: bool) -> Result<Accepted, SubmitError> {
        if let Some(reason) = &self.stopped {
            return Err(SubmitError::Stopped(Box::new(reason.clone())));
        }
        let mut need = RoomNeed::default();
        for step in &txn.steps {
            if let Some(object) = step.object().filter(|object| object.max || object.is_min()) {
                return Err(SubmitError::Cursor(object.clone()));
            }
            if let Some(bytes) = longest_key_bytes(step).filter(|bytes| *bytes > TABLE_KEY_BYTES_MAX) {
                return Err(SubmitError::KeyTooLong { bytes, bytes_max: TABLE_KEY_BYTES_MAX });
            }
            let (what, end) = match step {
                Step::Write { offset, data, .. } => ("write", offset.saturating_add(data.len() as u64)),
                Step::Xor { offset, data, .. } => ("addition", offset.saturating_add(data.len() as u64)),
                Step::Truncate { size, .. } => ("truncation", *size),
                Step::CloneRange { target_offset, length, .. } => ("clone", target_offset.saturating_add(*length)),
                _ => ("", 0),
            };
            if end > OBJECT_BYTES_MAX {
                let object = step.object().expect("all of them have one").clone();
                return Err(SubmitError::ObjectTooLarge { what, object, end });
            }
            check_clone_range(step)?;
            need.add(step);
        }
        let mut txn = Accepted::new(txn);
        for (index, step) in txn.steps.iter().enumerate() {
            if let (Some(from), Some(key)) = (step.step.source(), &step.from)
                // If this cannot be told from memory, the caller has seen the source and is right.
                && self.queue.last_of_object(key).is_none()
                && self.state.load_head(key).is_ok()
                && self.will_exist(key, txn.pg, &txn.steps[..index]) == Some(false)
            {
                return Err(SubmitError::CloneSource(from.clone()));
            }
            need.blocks += u64::from(self.may_spill(step, &txn.steps[..index]));
            need.metadata_bytes += self.clone_bytes_max(step);
        }
        need.grows &= !is_owed;
        if need.grows && self.lacks_pages() {
            self.turns.vouch_wanted = true;
            let needed_bytes = need.blocks * BLOCK + need.metadata_bytes;
            return Err(SubmitError::NoSpace { device: Device::Main, needed_bytes, free_bytes: 0 });
        }
        // Waiting transactions have space reserved for them.
        let growth = tree_blocks_max(need.metadata_bytes + self.queue.metadata_bytes);
        self.admit_to_metadata_device(need.grows, growth)?;
        let growth = if self.superblock.metadata_device.is_some() { 0 } else { growth };
        let reserved = if need.grows { self.reserved_blocks() + growth } else { 0 };
        let allocatable = u64::from(self.allocator.free_blocks());
        // Blocks set aside for the tree are free, but not for data.
        let unreserved = (allocatable + self.metadata.blocks()).saturating_sub(reserved);
        let free = unreserved.min(allocatable).saturating_sub(self.queue.blocks);
        if need.blocks > free || (need.grows && free == 0) {
            // One more record makes the blocks freed by earlier transactions usable.
            self.turns.vouch_wanted = true;
            let needed_bytes = need.blocks * BLOCK + need.metadata_bytes;
            return Err(SubmitError::NoSpace { device: Device::Main, needed_bytes, free_bytes: free * BLOCK });
        }
        (txn.blocks, txn.metadata_bytes) = (need.blocks, need.metadata_bytes);
        Ok(txn)
    }

    /// Returns an upper bound of the tree bytes of a clone's segments and omap, as far as the source is known.
    fn clone_bytes_max(&mut self, step: &KeyedStep) -> u64 {
        let (Step::Clone { .. }, Some(from), Some(to)) = (&step.step, &step.from, &step.object) else { return 0 };
        let Some(onode) = self.state.onodes.get(from).flatten() else { return 0 };
        let blocks = onode.size().div_ceil(BLOCK).min(self.data_blocks);
        let segments = blocks.div_ceil(u64::from(SEGMENT_BLOCKS));
        let omap = onode.omap.as_ref().map(|omap| omap.id);
        let snaps = onode.stat.attrs.get(SNAPS_ATTR).map_or(0, |value| (value.len() / SNAP_BYTES) as u64);
        let omap_bytes = omap.map_or(0, |id| self.omap_bytes_max(id));
        blocks * BLOCK_BYTES_MAX + (segments + snaps) * (to.len() as u64 + 2 * ENTRY_BYTES) + omap_bytes
    }

    /// Returns an upper bound of the tree bytes of an omap: the leaves with any of its entries and all changes since;
    /// at most those of all omaps together.
    fn omap_bytes_max(&mut self, id: u64) -> u64 {
        let all = 2 * self.state.totals.omap_bytes.max(0) as u64;
        let (mut begin, mut end) = (Vec::new(), Vec::new());
        tree_key(TableId::Omap, &omap_key(id, &[]), &mut begin);
        tree_key(TableId::Omap, &omap_key(id + 1, &[]), &mut end);
        let Some(leaves) = leaves_max(self.state.root, &mut self.state.cache, &begin, &end) else { return all };
        let (changes, bytes) = self.state.overlay.unmerged();
        all.min(leaves * PAGE_BYTES as u64 + bytes as u64 + changes as u64 * ENTRY_BYTES)
    }

    /// Returns whether the object would exist after these steps; `None` if memory does not tell.
    pub(crate) fn will_exist(&self, object: &[u8], pg: PgId, before: &[KeyedStep]) -> Option<bool> {
        for KeyedStep { step, object: changed, .. } in before.iter().rev() {
            match step {
                Step::Remove { .. } if changed.as_deref() == Some(object) => return Some(false),
                Step::PgDestroy { pg_num } => {
                    let (begin, end) = crate::disk::key::pg_object_range(pg, *pg_num);
                    if *begin <= *object && *object < *end {
                        return Some(false);
                    }
                }
                _ if changed.as_deref() == Some(object) => return Some(true),
                _ => {}
            }
        }
        self.state.onodes.get(object).map(|onode| onode.is_some())
    }

    /// Returns true if the free space of the main device is in pieces too small for the pages that a checkpoint of the
    /// changes so far needs. Asks for a checkpoint before it comes to that.
    pub(crate) fn lacks_pages(&mut self) -> bool {
        let is_short = self.metadata.blocks() < self.metadata_blocks_wanted();
        if self.superblock.metadata_device.is_some() || !is_short {
            return false;
        }
        let (needed, wanted) = (self.checkpoint_blocks_needed(), self.metadata_blocks_wanted());
        let spare = u64::from(self.allocator.free_blocks()).saturating_sub(self.promised_blocks());
        // A plain lack of space is reported elsewhere.
        if self.metadata.blocks() + spare < needed
            || self.metadata.search(wanted.min(2 * needed), spare, &mut self.allocator)
        {
            return false;
        }
        // A checkpoint needs less space the fewer changes there are, and frees the pages that it replaces.
        if self.wal.used_bytes() > 0 && !self.checkpoint.is_running() {
            self.checkpoint.wanted = Some(self.turns.last_ticket());
        }
        self.metadata.blocks() < needed
    }

    /// Checks that the tree's own device, if it has one, takes this many blocks more besides the needs of the next
    /// checkpoint and of deletes.
    fn admit_to_metadata_device(&mut self, grows: bool, blocks: u64) -> Result<(), SubmitError> {
        let Some(free) = self.metadata.own_free_blocks().filter(|_| grows) else { return Ok(()) };
        let free = free.saturating_sub(self.metadata_device_reserved_blocks());
        if blocks <= free {
            return Ok(());
        }
        // The next checkpoint frees pages of deleted entries.
        if self.wal.used_bytes() > 0 {
            self.checkpoint.wanted = Some(self.turns.last_ticket());
        }
        let (needed_bytes, free_bytes) = (blocks * BLOCK, free * BLOCK);
        Err(SubmitError::NoSpace { device: Device::Metadata, needed_bytes, free_bytes })
    }

    /// Returns the blocks of the main device reserved for the next checkpoint and for transactions that delete.
    pub(crate) fn reserved_blocks(&self) -> u64 {
        match self.superblock.metadata_device {
            Some(_) => self.delete_blocks(),
            None => self.metadata_blocks_wanted() + self.delete_blocks(),
        }
    }

    /// Returns the blocks of the tree's own device reserved for the next checkpoint and for transactions that delete.
    pub(crate) fn metadata_device_reserved_blocks(&self) -> u64 {
        let deletes = delete_reserve_blocks(self.superblock.tree_space().end());
        self.metadata_blocks_wanted() + deletes
    }

    /// Returns the blocks reserved for transactions that delete.
    fn delete_blocks(&self) -> u64 {
        delete_reserve_blocks(self.superblock.device_blocks())
    }

    /// Returns the free blocks that the tree must not take: for transactions that wait, and for those that delete.
    pub(crate) fn promised_blocks(&self) -> u64 {
        self.queue.blocks + self.delete_blocks()
    }

    /// Sets blocks aside for the next checkpoint, but none that are promised to transactions.
    pub(crate) fn set_metadata_aside(&mut self) {
        let (promised, wanted) = (self.promised_blocks(), self.metadata_blocks_wanted());
        if self.superblock.metadata_device.is_some() {
            return self.metadata.adjust(wanted, &mut self.allocator);
        }
        let spare = u64::from(self.allocator.free_blocks()).saturating_sub(promised);
        // Blocks set aside beyond the need would be missed when space is scarce.
        self.metadata.give_back(wanted + spare, &mut self.allocator);
        if spare > 0 {
            self.metadata.adjust(wanted.min(self.metadata.blocks() + spare), &mut self.allocator);
        }
    }

    /// Returns the number of blocks that a checkpoint may still need: the whole tree may have to be rewritten. Every
    /// change may split a page into two half full ones.
    pub(crate) fn metadata_blocks_wanted(&self) -> u64 {
        let tree = self.checkpoint.tree_blocks;
        let (changes, bytes) = self.state.overlay.unmerged();
        let (changes, bytes) = (changes as u64, bytes as u64 + changes as u64 * ENTRY_BYTES);
        // One page more above for every 16 more below is a safe bound.
        let split = (tree / 2 * 3).min(changes * u64::from(PAGE_BLOCKS) * 17 / 16);
        (tree + split + tree_blocks_max(bytes)).saturating_sub(self.checkpoint.blocks_taken())
    }

    /// Returns the number of blocks that a checkpoint of the changes so far needs: it rewrites the path from the top of
    /// the tree to every change, and splits pages that become too full.
    fn checkpoint_blocks_needed(&self) -> u64 {
        let levels = self.state.root.map_or(1, |root| u64::from(root.level) + 1);
        let (changes, bytes) = self.state.overlay.unmerged();
        let (changes, bytes) = (changes as u64, bytes as u64 + changes as u64 * ENTRY_BYTES);
        let touched = self.checkpoint.tree_blocks.min(changes * u64::from(PAGE_BLOCKS) * levels);
        (touched + tree_blocks_max(bytes)).saturating_sub(self.checkpoint.blocks_taken())
    }

    fn stage(&mut self, pg: PgId, step: Step, object: Option<Key>, from: Option<Key>, staged: &mut Staged) {
        let object = || object.expect("steps on objects have one");
        let redo = match step {
            Step::Touch { .. } => Redo::Touch { object: object() },
            Step::Write { offset, data, .. } => return self.stage_write(object(), offset, data, staged),
            Step::Xor { offset, data, .. } => return self.stage_xor(object(), offset, data, staged),
            Step::Zero { offset, len, .. } => return self.stage_zero(object(), offset, len, staged),
            Step::Truncate { size, .. } => return self.stage_truncate(object(), size, staged),
            Step::Remove { .. } => Redo::Remove { object: object() },
            Step::SetAttr { name, value, .. } => Redo::SetAttr { object: object(), name, value },
            Step::RemoveAttr { name, .. } => Redo::RemoveAttr { object: object(), name },
            Step::OmapSet { entries, .. } => Redo::OmapSet { object: object(), entries },
            Step::OmapRemove { keys, .. } => Redo::OmapRemove { object: object(), keys },
            Step::OmapRemoveRange { begin, end, .. } => Redo::OmapRemoveRange { object: object(), begin, end },
            Step::OmapClear { .. } => Redo::OmapClear { object: object() },
            Step::OmapSetHeader { header, .. } => Redo::OmapSetHeader { object: object(), header },
            Step::Clone { .. } => return self.stage_clone(from.expect("a clone has a source"), object(), staged),
            Step::CloneRange { source_offset, length, target_offset, .. } => {
                let range = ByteRange { source_offset, length, target_offset };
                return self.stage_clone_range(from.expect("a clone has a source"), object(), range, staged);
            }
            Step::PgSet { key, value } => Redo::PgSet { pg, key, value },
            Step::PgRemove { key } => Redo::PgRemove { pg, key },
            Step::PgRemoveRange { begin, end } => Redo::PgRemoveRange { pg, begin, end },
            Step::PgDestroy { pg_num } => Redo::PgDestroy { pg, pg_num },
        };
        self.apply(redo, staged);
    }

    pub(crate) fn apply(&mut self, redo: Redo, staged: &mut Staged) {
        let freed_before = staged.freed.len();
        let last_before = staged.freed.last().copied();
        self.state.apply(&redo, &mut staged.freed);
        // The last run may have grown.
        let grown = last_before.map_or(0, |run| staged.freed[freed_before - 1].count - run.count);
        let freed: u64 = staged.freed[freed_before..].iter().map(|run| u64::from(run.count)).sum();
        self.data_blocks -= freed + u64::from(grown);
        staged.push(&redo);
    }

    fn stage_clone(&mut self, from: Key, to: Key, staged: &mut Staged) {
        let copies = self.copies.as_ref().filter(|_| from != to);
        let copied = copies.and_then(|copies| copies.of(staged.ticket, &to)).cloned();
        let copied_segments = copied.as_ref().is_some_and(|of| of.segments);
        let redo = match copied {
            Some(of) => Redo::CloneCopied { from: from.clone(), of },
            None => Redo::Clone { from: from.clone(), to: to.clone() },
        };
        self.apply(redo, staged);
        if copied_segments {
            // Merges of copied segments got their new holder when the copy began.
            return;
        }
        if !self.merges.is_empty() && from != to {
            let source = &self.state.known(&from).expect("a clone leaves its source").blocks;
            let still_there = |at, device| source.get(at).is_some_and(|block| block.device == device);
            self.merges.cloned(&from, &to, |at, device| still_there(at, device).then_some(at));
        }
    }

    pub(crate) fn size(&self, key: &[u8]) -> u64 {
        self.state.known(key).map_or(0, |onode| onode.size())
    }

    pub(crate) fn stage_write(&mut self, key: Key, offset: u64, data: Rope, staged: &mut Staged) {
        let len = data.len() as u64;
        if len == 0 {
            return self.apply(Redo::Touch { object: key }, staged);
        }
        let data = match self.stage_inline_write(&key, offset, data, staged) {
            Ok(()) => return,
            Err(data) => data,
        };
        let end = offset + len;
        let (first, last) = (offset / BLOCK, (end - 1) / BLOCK);
        let skip = (offset % BLOCK) as usize;
        let mut contents = Contents::default();
        let head_end = (end - first * BLOCK).min(BLOCK) as usize;
        if skip > 0 || head_end < BLOCK_BYTES {
            let patch = Patch::over(skip, data.slice(0, head_end - skip));
            self.part_of_block(&key, first as u32, patch, &mut contents);
        }
        let tail = (end - last * BLOCK) as usize;
        let tail = if last > first && tail < BLOCK_BYTES { tail } else { 0 };
        let middle_begin = if contents.is_empty() { 0 } else { head_end - skip };
        if middle_begin < data.len() - tail {
            let middle = match (middle_begin, tail) {
                (0, 0) => aligned(data.clone(), &self.buffers),
                _ => aligned(data.slice(middle_begin, data.len() - tail - middle_begin), &self.buffers),
            };
            contents.push_whole(middle);
        }
        if tail > 0 {
            let patch = Patch::over(0, data.slice(data.len() - tail, tail));
            self.part_of_block(&key, last as u32, patch, &mut contents);
        }
        let size = self.size(&key).max(end);
        self.put_blocks(key, size, first as u32, contents, staged);
    }

    pub(crate) fn stage_zero(&mut self, key: Key, offset: u64, len: u64, staged: &mut Staged) {
        let size = self.size(&key);
        let end = offset.saturating_add(len).min(size);
        if offset >= end {
            return self.apply(Redo::Touch { object: key }, staged);
        }
        if self.stage_inline_zero(&key, offset, end, staged) {
            return;
        }
        // All bytes behind the size are zeros, so a last block whose bytes all go can go itself.
        let whole_end = if end == size { end.div_ceil(BLOCK) } else { end / BLOCK };
        let whole_begin = offset.div_ceil(BLOCK);
        if whole_begin > whole_end {
            return self.zero_in_block(key, size, offset, end, staged);
        }
        if !offset.is_multiple_of(BLOCK) {
            self.zero_in_block(key.clone(), size, offset, whole_begin * BLOCK, staged);
        }
        if whole_begin < whole_end {
            self.apply(Redo::Unmap { object: key.clone(), first: whole_begin as u32, end: whole_end as u32 }, staged);
        }
        if end > whole_end * BLOCK {
            self.zero_in_block(key, size, whole_end * BLOCK, end, staged);
        }
    }

    fn stage_truncate(&mut self, key: Key, size: u64, staged: &mut Staged) {
        let old = self.size(&key);
        if size < old && !size.is_multiple_of(BLOCK) && !self.is_inline(&key) {
            // The bytes behind the new size must read as zeros if the object grows again.
            let block_end = size.next_multiple_of(BLOCK).min(old);
            self.zero_in_block(key.clone(), old, size, block_end, staged);
        }
        self.apply(Redo::Resize { object: key, size }, staged);
    }

    /// Zeros a range within one block, if that block is allocated.
    pub(crate) fn zero_in_block(&mut self, key: Key, size: u64, begin: u64, end: u64, staged: &mut Staged) {
        let block = (begin / BLOCK) as u32;
        let allocated = self.state.known(&key).is_some_and(|onode| onode.blocks.get(block).is_some());
        if !allocated {
            return self.apply(Redo::Touch { object: key }, staged);
        }
        let zeros = Bytes::from(vec![0; (end - begin) as usize]);
        let mut contents = Contents::default();
        self.part_of_block(&key, block, Patch::over((begin % BLOCK) as usize, zeros.into()), &mut contents);
        self.put_blocks(key, size, block, contents, staged);
    }

    /// Appends to `contents` one block of which only a part is written.
    fn part_of_block(&self, key: &[u8], block: u32, patch: Patch, contents: &mut Contents) {
        let base = self.base_of(key, block, patch.at, patch.data.len());
        self.put_over(base, patch, contents);
    }

    /// Appends to `contents` one block that is made of `base` and the patch.
    pub(crate) fn put_over(&self, base: Base, patch: Patch, contents: &mut Contents) {
        match base {
            Base::Zeros => contents.push_block(merged(None, &patch, &self.buffers), false),
            Base::Memory { block, damaged } => {
                contents.push_block(merged(Some(&block.into_bytes()), &patch, &self.buffers), damaged)
            }
            base => contents.push_merge(base, None, patch),
        }
    }

    /// Returns the source of a block's bytes besides the `len` bytes at `at`.
    pub(crate) fn base_of(&self, key: &[u8], block: u32, at: usize, len: usize) -> Base {
        let Some(onode) = self.state.known(key) else { return Base::Zeros };
        let Some(old) = onode.blocks.get(block) else { return Base::Zeros };
        let valid = onode.size().saturating_sub(u64::from(block) * BLOCK).min(BLOCK);
        if at == 0 && len as u64 >= valid {
            return Base::Zeros;
        }
        self.content_of(old)
    }

    /// Returns the source of the content of an object's block.
    pub(crate) fn content_of(&self, old: BlockRef) -> Base {
        if self.merges.contains(old.device) {
            return Base::Merge(old.device);
        }
        match self.in_flight.split(Run { start: old.device, count: 1 }).pop() {
            Some(InFlightPart::Here { data, damaged, .. }) => Base::Memory { block: data, damaged },
            _ => Base::Device { device: old.device, crc: old.crc },
        }
    }

    /// Allocates one whole block and puts it into the object.
    pub(crate) fn put_block(&mut self, key: Key, size: u64, at: u32, block: AlignedBuf, staged: &mut Staged) {
        let mut contents = Contents::default();
        contents.push_block(block, false);
        self.put_blocks(key, size, at, contents, staged);
    }

    /// Allocates the blocks and puts them into the object.
    pub(crate) fn put_blocks(&mut self, key: Key, size: u64, first: u32, contents: Contents, staged: &mut Staged) {
        let Contents { crcs, parts } = contents;
        let count = crcs.len() as u32;
        let runs = self.allocator.allocate(count).expect("space was checked when the transaction was admitted");
        self.data_blocks += u64::from(count);
        self.apply(Redo::Map { object: key.clone(), size, first, runs: runs.clone(), crcs }, staged);
        let checksums_at = staged.checksums_at();
        let mut places = runs.into_iter();
        let mut place = places.next().expect("at least one block");
        let mut index = 0;
        for part in parts {
            let (mut data, damaged) = match part {
                ContentPart::Blocks { data, damaged } => (data, damaged),
                ContentPart::Merge { base, over, patch } => {
                    let slot = CrcSlot { ticket: staged.ticket, checksums_at, index: index as usize };
                    let over = over.map(|over| *over);
                    self.begin_merge(place.start, (key.clone(), first + index), base, over, patch, slot);
                    staged.merges += 1;
                    take_front(&mut place, 1, &mut places);
                    index += 1;
                    continue;
                }
            };
            while !data.is_empty() {
                let here = place.count.min((data.len() as u64 / BLOCK) as u32);
                let bytes = here as usize * BLOCK_BYTES;
                let (now, rest) = match bytes == data.len() {
                    true => (data, Rope::new()),
                    false => (data.slice(0, bytes), data.slice(bytes, data.len() - bytes)),
                };
                self.in_flight.insert(place.start, now.clone(), damaged);
                staged.data.push((place.start, now));
                take_front(&mut place, here, &mut places);
                index += here;
                data = rest;
            }
        }
    }
}

/// Takes `count` blocks off the front of the run; replaces an emptied run by the next.
fn take_front(run: &mut Run, count: u32, next: &mut impl Iterator<Item = Run>) {
    *run = Run { start: run.start + count, count: run.count - count };
    if run.count == 0 {
        *run = next.next().unwrap_or(*run);
    }
}

enum ContentPart {
    Blocks { data: Rope, damaged: bool },
    Merge { base: Base, over: Option<Box<Over>>, patch: Patch },
}

/// A part of a block and its source.
type Over = (Range<usize>, Base);

/// The blocks of one write, in order, with their checksums (0 where a checksum is not known yet).
#[derive(Default)]
pub(crate) struct Contents {
    crcs: Vec<u32>,
    parts: Vec<ContentPart>,
}

impl Contents {
    fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    pub(crate) fn push_block(&mut self, block: AlignedBuf, damaged: bool) {
        let crc = crc32c::checksum(block.as_slice());
        self.crcs.push(if damaged { damaged_crc(crc) } else { crc });
        self.parts.push(ContentPart::Blocks { data: block.freeze().into(), damaged });
    }

    /// Adds whole blocks. `data`: pieces that are whole blocks.
    fn push_whole(&mut self, data: Rope) {
        let computed = |data: &Rope| -> Vec<u32> {
            data.pieces().flat_map(|piece| piece.chunks_exact(BLOCK_BYTES).map(crc32c::checksum)).collect()
        };
        match data.block_crcs() {
            Some(known) => {
                debug_assert_eq!(known, computed(&data), "checksums that came with other bytes");
                self.crcs.extend_from_slice(known);
            }
            None => self.crcs.extend(computed(&data)),
        }
        self.parts.push(ContentPart::Blocks { data, damaged: false });
    }

    pub(crate) fn push_merge(&mut self, base: Base, over: Option<Over>, patch: Patch) {
        self.crcs.push(0);
        self.parts.push(ContentPart::Merge { base, over: over.map(Box::new), patch });
    }
}

/// Returns the same whole blocks in pieces that begin on 4 KiB boundaries of memory and are whole blocks long. Pieces
/// that already are so are shared, the others are copied.
pub(crate) fn aligned(data: Rope, buffers: &BufPool) -> Rope {
    let fits =
        |piece: &Bytes| piece.as_ptr().addr().is_multiple_of(BLOCK_BYTES) && piece.len().is_multiple_of(BLOCK_BYTES);
    if data.pieces().all(fits) {
        return data;
    }
    let mut out = Rope::new();
    // Unfitting pieces since the last block boundary at which a fitting piece could begin.
    let mut loose = Rope::new();
    let copy = |loose: Rope, out: &mut Rope| {
        if loose.is_empty() {
            return;
        }
        let mut buf = buffers.take(loose.len());
        let mut at = 0;
        for piece in loose.pieces() {
            buf.as_mut_slice()[at..at + piece.len()].copy_from_slice(piece);
            at += piece.len();
        }
        out.push(buf.freeze());
    };
    for piece in data.into_pieces() {
        let on_boundary = loose.len().is_multiple_of(BLOCK_BYTES);
        let whole = piece.len() / BLOCK_BYTES * BLOCK_BYTES;
        if on_boundary && whole > 0 && piece.as_ptr().addr().is_multiple_of(BLOCK_BYTES) {
            copy(std::mem::take(&mut loose), &mut out);
            out.push(piece.slice(..whole));
            loose.push(piece.slice(whole..));
        } else {
            loose.push(piece);
        }
    }
    copy(loose, &mut out);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn aligning_changes_no_byte(pieces in prop::collection::vec((0usize..3, 0usize..9000), 1..6)) {
            let mut rope = Rope::new();
            for (kind, len) in pieces {
                let buf = AlignedBuf::copy_from(&(0..len + 1).map(|i| (i * 7 + kind) as u8).collect::<Vec<u8>>()).freeze();
                rope.push(match kind { 0 => buf.slice(..len / 4096 * 4096), 1 => buf.slice(..len), _ => buf.slice(1..) });
            }
            let whole = rope.len() / 4096 * 4096;
            let rope = rope.slice(0, whole);
            let out = aligned(rope.clone(), &BufPool::new(1 << 20));
            prop_assert_eq!(out.to_vec(), rope.to_vec());
            prop_assert!(out.pieces().all(|p| p.as_ptr().addr() % 4096 == 0 && p.len() % 4096 == 0));
        }
    }
}
