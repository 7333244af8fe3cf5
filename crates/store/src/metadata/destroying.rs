//! Deferred destruction: destroyed groups, objects with many segments, and large parts of objects are gone at once, and
//! their content is found bit by bit.
//!
//! Lookups no longer see destroyed content, since its range of keys is erased, and new content may take its place. The
//! content is in the records of the moment of the destruction: the tree at that moment, overridden by the changes at
//! that moment. The unfrozen ones of these changes are taken out of the overlay. The frozen ones are in the tree of the
//! checkpoint under way, so that tree is used when the checkpoint is done. A later checkpoint takes the range out of
//! the tree, and the pages that it frees stay unchanged until the job is done
//! ([`crate::space::metadata_space::MetadataSpace`]).
//!
//! None of this is on the device: after a crash, an opening counts the free blocks anew.

use crate::btree::{self, Cursor, CursorPage, Damage, Fetch, Overlay, ReadId, View};
use crate::config::BLOCK;
use crate::data::clone_range::CLONE_RANGE_BYTES_MAX;
use crate::disk::key::behind_prefix;
use crate::disk::tree_key::{TABLE_BYTES, TableId, segment_key, tree_key};
use crate::engine::checkpoint::LOG_PER_CHECKPOINT;
use crate::metadata::block_map::{BlockMap, SEGMENT_BLOCKS, SEGMENTS_END, segments_of};
use crate::metadata::jobs::Destroying;
use crate::metadata::onode::Onode;
use crate::metadata::state::{FITS, State};
use crate::space::run::{Run, push_run};
use crate::{Store, Tuning};
use wire::Reader;

/// Number of entries looked at a time, and their bytes.
const ENTRIES: usize = 200;
const ENTRY_BYTES: usize = 256 << 10;
/// Objects with few segments lose them one by one, since erasing a range costs more.
const SEGMENTS_ONE_BY_ONE: usize = 4;
// A clone of the longest range replaces its blocks in one step, and one at a time is cheap.
const _: () = assert!(CLONE_RANGE_BYTES_MAX / BLOCK / SEGMENT_BLOCKS as u64 + 2 <= Tuning::SEGMENTS_AT_ONCE as u64);
const _: () = assert!(SEGMENTS_ONE_BY_ONE < Tuning::SEGMENTS_AT_ONCE);

impl Destroying {
    /// Returns true if the job has objects that are not counted yet. No checkpoint may begin then, since its root has
    /// the number of objects.
    pub fn counts_objects(&self) -> bool {
        self.heads.is_some()
    }

    /// Returns true if the job needs pages that a checkpoint which is done now has replaced.
    pub fn needs_old_tree(&self) -> bool {
        self.tree.is_some()
    }
}

fn range_of(table: TableId, begin: &[u8], end: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let (mut first, mut behind) = (Vec::new(), Vec::new());
    tree_key(table, begin, &mut first);
    tree_key(table, end, &mut behind);
    (first, behind)
}

/// State of the jobs after a slice of work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Destroyed {
    /// The jobs can go on at once.
    Some,
    Waiting(ReadId),
    /// No work is left.
    All,
}

impl State {
    /// Removes the objects of `begin .. end`.
    pub fn destroy_objects(&mut self, begin: &[u8], end: &[u8]) {
        // The overlay must hold everything about these objects.
        self.settle();
        let (heads, segments) = (range_of(TableId::Objects, begin, end), range_of(TableId::Segments, begin, end));
        let ranges = [(&heads.0[..], &heads.1[..]), (&segments.0, &segments.1)];
        let changes = self.overlay.take_ranges(&ranges).expect(FITS);
        self.gatherings.delete_range(&heads.0, &heads.1);
        self.onodes.remove_range(begin, end);
        let segments = self.shared.is_some().then(|| Cursor::new(&segments.0, Some(&segments.1), true));
        self.destroy(changes, Some(Cursor::new(&heads.0, Some(&heads.1), true)), segments);
    }

    fn destroy(&mut self, changes: Overlay, heads: Option<Cursor>, segments: Option<Cursor>) {
        self.destroyed += 1;
        let tree = (!self.overlay.is_frozen()).then_some(self.root);
        self.destroying.push_back(Destroying { number: self.destroyed, changes, tree, heads, segments });
    }

    /// Takes the segments `begin .. end` from an object. The overlay must be up to date.
    fn destroy_segments(&mut self, object: &[u8], begin: u32, end: u32) {
        assert!(self.is_settled(), "changes that are not in the overlay");
        let (mut first, mut behind) = (Vec::new(), Vec::new());
        segment_key(object, begin, &mut first);
        match end {
            SEGMENTS_END => {
                let behind_object = behind_prefix(object).expect("an object's key does not end the keys");
                tree_key(TableId::Segments, &behind_object, &mut behind);
            }
            end => drop(segment_key(object, end, &mut behind)),
        }
        if begin >= end {
            return;
        }
        let changes = self.overlay.take_ranges(&[(&first, &behind)]).expect(FITS);
        // Holders of blocks are not tracked while a log is replayed.
        if self.shared.is_some() {
            self.destroy(changes, None, Some(Cursor::new(&first, Some(&behind), true)));
        }
    }

    /// Takes all segments from an object.
    pub fn destroy_all_segments(&mut self, object: &[u8]) {
        self.destroy_segments(object, 0, SEGMENTS_END);
    }

    /// Returns true if the object's blocks `first .. end` are all known, and few enough to go at once.
    fn can_go_at_once(&self, onode: &Onode, first: u32, end: u64) -> bool {
        onode.blocks.first_unknown(first, end).is_none()
            && onode.blocks.segments(first, end).take(self.segments_at_once + 1).count() <= self.segments_at_once
    }

    /// Makes holes of the object's blocks `first .. end`.
    pub fn unmap(&mut self, key: &[u8], first: u32, end: u64, freed: &mut Vec<Run>) {
        let id = self.slot(key);
        let Some(onode) = self.onodes.onode(id) else { return };
        if self.can_go_at_once(onode, first, end) {
            return self.unmap_at_once(key, first, end, freed);
        }
        // There are no blocks behind the object's end.
        let end = if end >= onode.size().div_ceil(BLOCK) { u64::MAX } else { end };
        let behind = if end == u64::MAX { SEGMENTS_END } else { (end / u64::from(SEGMENT_BLOCKS)) as u32 };
        let whole = (first.div_ceil(SEGMENT_BLOCKS), behind);
        if whole.0 >= whole.1 {
            return self.unmap_at_once(key, first, end, freed);
        }
        let block_of = |segment: u32| u64::from(segment) * u64::from(SEGMENT_BLOCKS);
        if u64::from(first) < block_of(whole.0) {
            self.unmap_at_once(key, first, block_of(whole.0), freed);
        }
        if end != u64::MAX && block_of(whole.1) < end {
            self.unmap_at_once(key, block_of(whole.1) as u32, end, freed);
        }
        self.settle();
        self.destroy_segments(key, whole.0, whole.1);
        if let Some(onode) = self.onodes.onode_mut(id) {
            onode.blocks.forget(whole.0, whole.1);
        }
        // The object's memory must be counted anew.
        self.dirty.push((id, None));
    }

    fn unmap_at_once(&mut self, key: &[u8], first: u32, end: u64, freed: &mut Vec<Run>) {
        let id = self.slot(key);
        let Some(onode) = self.onodes.onode_mut(id) else { return };
        let mut removed = Vec::new();
        self.dirty.extend(onode.blocks.segments(first, end).map(|index| (id, Some(index))));
        onode.blocks.unmap(first, end, |old| push_run(&mut removed, Run { start: old.device, count: 1 }));
        self.drop_blocks(&removed, freed);
    }

    /// Removes an object, if it exists.
    pub fn remove(&mut self, key: &[u8], freed: &mut Vec<Run>) {
        let id = self.slot(key);
        let Some(onode) = self.onodes.onode(id) else { return };
        let at_once = self.can_go_at_once(onode, 0, u64::MAX);
        if !at_once {
            self.settle();
        }
        self.snaps_change(key);
        let onode = self.onodes.onode_mut(id).take().expect("it was there");
        self.totals.objects -= 1;
        self.totals.stored_bytes -= onode.size() as i64;
        self.delete_entry(TableId::Objects, key);
        if at_once {
            let segments: Vec<u32> = onode.blocks.segments(0, u64::MAX).collect();
            self.delete_segments(key, &segments);
            let runs: Vec<Run> = onode.blocks.runs(0, u64::MAX).into_iter().map(|(_, run)| run).collect();
            self.drop_blocks(&runs, freed);
        } else {
            let (_, end) = segments_of(0, onode.size().div_ceil(BLOCK));
            match self.shared {
                // During a replay the blocks of the segments do not matter.
                None if end as usize <= SEGMENTS_ONE_BY_ONE => self.delete_segments(key, &Vec::from_iter(0..end)),
                _ => self.destroy_segments(key, 0, SEGMENTS_END),
            }
        }
        // The object's memory must be counted anew.
        self.dirty.push((id, None));
        if let Some(omap) = onode.omap {
            self.drop_omap(omap.id);
        }
    }

    fn delete_segments(&mut self, key: &[u8], segments: &[u32]) {
        if segments.len() > SEGMENTS_ONE_BY_ONE {
            return self.delete_entries(TableId::Segments, key, behind_prefix(key).as_deref());
        }
        for index in segments {
            self.overlay.delete(segment_key(key, *index, &mut self.tree_key)).expect(FITS);
        }
    }

    /// Looks at some more destroyed content. Blocks without holders go to `freed`.
    pub fn destroy_some(&mut self, freed: &mut Vec<Run>) -> Destroyed {
        let Some(mut job) = self.destroying.pop_front() else { return Destroyed::All };
        let is_heads = job.heads.is_some();
        let cursor = if is_heads { &mut job.heads } else { &mut job.segments };
        let Some(at) = cursor else { return if self.destroying.is_empty() { Destroyed::All } else { Destroyed::Some } };
        let root = job.tree.unwrap_or(self.root);
        if job.tree.is_none() {
            self.overlay.lend_frozen(&mut job.changes);
        }
        let view = &mut View { root, overlay: &job.changes, cache: &mut self.cache };
        let page = at.next_page(view, ENTRIES, ENTRY_BYTES);
        if job.tree.is_none() {
            job.changes.lend_frozen(&mut self.overlay);
        }
        let result = match page {
            Ok(Fetch::Pending(id)) => {
                self.destroying.push_front(job);
                return Destroyed::Waiting(id);
            }
            Ok(Fetch::Ready(page)) if is_heads => self.heads_destroyed(&page).map(|()| page.done),
            Ok(Fetch::Ready(page)) => self.segments_destroyed(&page, freed).map(|()| page.done),
            Err(damage) => Err(damage),
        };
        match result {
            Ok(done) => {
                if done {
                    *cursor = None;
                }
            }
            Err(damage) => {
                tracing::warn!(%damage, "metadata of what was destroyed is damaged: some blocks stay unused until \
                    the store is opened again");
                *cursor = None;
                self.totals_are_lost |= is_heads;
            }
        }
        if job.heads.is_some() || job.segments.is_some() {
            self.destroying.push_front(job);
        }
        if self.destroying.is_empty() { Destroyed::All } else { Destroyed::Some }
    }

    fn heads_destroyed(&mut self, page: &CursorPage) -> Result<(), Damage> {
        for (key, record) in &page.entries {
            let onode = Onode::decode_head(&mut Reader::new(record)).map_err(|_| self.malformed("object record"))?;
            self.unlist_destroyed(&key[TABLE_BYTES..], &onode);
            self.totals.objects -= 1;
            self.totals.stored_bytes -= onode.size() as i64;
            if let Some(omap) = onode.omap {
                self.drop_omap(omap.id);
            }
        }
        Ok(())
    }

    fn segments_destroyed(&mut self, page: &CursorPage, freed: &mut Vec<Run>) -> Result<(), Damage> {
        for (_, record) in &page.entries {
            let mut map = BlockMap::default();
            map.restore_segment(0, record).map_err(|_| self.malformed("segment of blocks"))?;
            for (_, run) in map.runs(0, u64::MAX) {
                match &mut self.shared {
                    Some(shared) => shared.drop_run(run, freed),
                    None => panic!("blocks are wanted, but their holders are not counted"),
                }
            }
        }
        Ok(())
    }

    /// Gives the tree of a durable checkpoint, `root`, to the jobs that need its frozen changes. Returns the number of
    /// the last job that needs content of the old tree.
    pub fn tree_replaced(&mut self, root: Option<btree::Root>) -> Option<u64> {
        let last = self.destroying.iter().rfind(|job| job.needs_old_tree()).map(|job| job.number);
        for job in self.destroying.iter_mut().filter(|job| !job.needs_old_tree()) {
            job.tree = Some(root);
        }
        last
    }

    /// Returns the number of the first job that is not done, or of the next job if all are done.
    pub fn first_destroying(&self) -> u64 {
        self.destroying.front().map_or(self.destroyed + 1, |job| job.number)
    }
}

/// Number of slices per turn, and their number when the log is so full that commits may soon have to wait for the next
/// checkpoint.
const SLICES: usize = 2;
const HURRIED_SLICES: usize = 20;

impl Store {
    /// Does this turn's part of looking at destroyed content. Blocks found free are freed by a record that is not
    /// before the one which destroyed them.
    pub(crate) fn look_at_destroyed(&mut self) {
        if self.state.destroying.is_empty() {
            return;
        }
        let hurried = self.wal.used_bytes() > self.wal.bytes() / LOG_PER_CHECKPOINT;
        let mut freed = Vec::new();
        for _ in 0..if hurried { HURRIED_SLICES } else { SLICES } {
            if self.state.destroy_some(&mut freed) != Destroyed::Some {
                break;
            }
        }
        self.data_blocks -= freed.iter().map(|run| u64::from(run.count)).sum::<u64>();
        self.turns.found_free.extend(freed);
        self.release_held_pages();
    }

    /// Returns true if a checkpoint may begin: all objects are counted, and there is space for another tree if pages of
    /// an older one are held for jobs.
    pub(crate) fn can_begin_checkpoint(&self) -> bool {
        let counts = self.state.destroying.iter().any(Destroying::counts_objects);
        !counts && (self.metadata.held_blocks() == 0 || self.metadata.has_aside(self.metadata_blocks_wanted()))
    }
}
