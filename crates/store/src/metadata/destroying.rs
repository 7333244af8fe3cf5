//! What is destroyed is gone at once; what it held is found bit by bit: that of groups, of objects with many segments, and of
//! large parts of objects.
//!
//! Lookups no longer see it, since its range of keys is erased, and something new may be there. Sizes, omaps and blocks are
//! in the records as of that moment: those of the tree of then, overridden by the changes of then. The latter are taken out
//! of the overlay. Those that were frozen then are in the tree of the checkpoint under way, so that is the one to look at
//! when it is done. A later checkpoint takes the range out of the tree, and the pages that it frees stay as they are until
//! all was seen ([`crate::space::metadata_space::MetadataSpace`]).
//!
//! Nothing of this is on the device: after a crash, what is free is counted anew.

use crate::Store;
use crate::btree::{self, Cursor, CursorPage, Damage, Fetch, Overlay, ReadId, View};
use crate::config::BLOCK;
use crate::data::clone_range::CLONE_RANGE_BYTES_MAX;
use crate::disk::key::behind_prefix;
use crate::disk::tree_key::{TABLE_BYTES, TableId, segment_key, tree_key};
use crate::engine::checkpoint::LOG_PER_CHECKPOINT;
use crate::metadata::block_map::{BlockMap, SEGMENT_BLOCKS, SEGMENTS_END, segments_of};
use crate::metadata::onode::Onode;
use crate::metadata::state::{FITS, State};
use crate::space::run::{Run, push_run};
use wire::Reader;

/// Entries taken in at a time, and their bytes.
const ENTRIES: usize = 200;
const ENTRY_BYTES: usize = 256 << 10;
/// Objects with few segments lose them one by one: a range that is erased costs more.
const SEGMENTS_ONE_BY_ONE: usize = 4;
/// Segments that an object loses at once, at most: those of 128 MiB and some.
pub(crate) const SEGMENTS_AT_ONCE: usize = 1056;
// A clone of the longest range replaces its blocks in one step, and one at a time is cheap.
const _: () = assert!(CLONE_RANGE_BYTES_MAX / BLOCK / SEGMENT_BLOCKS as u64 + 2 <= SEGMENTS_AT_ONCE as u64);
const _: () = assert!(SEGMENTS_ONE_BY_ONE < SEGMENTS_AT_ONCE);

#[derive(Debug)]
pub(crate) struct Destroying {
    /// Jobs count up.
    pub number: u64,
    /// The changes of then that were not frozen.
    changes: Overlay,
    /// The tree of then; `None`: that of the last checkpoint with the frozen changes, if there are such.
    tree: Option<Option<btree::Root>>,
    /// `None`: all are seen.
    heads: Option<Cursor>,
    segments: Option<Cursor>,
}

impl Destroying {
    /// Whether objects are not counted yet. No checkpoint may begin then, since it would say how many there are.
    pub fn counts_objects(&self) -> bool {
        self.heads.is_some()
    }

    /// Whether this needs pages that a checkpoint which is done now has replaced by others.
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

/// How far a slice of work came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Destroyed {
    /// There is more to do at once.
    Some,
    Waiting(ReadId),
    /// Nothing is left to do.
    All,
}

impl State {
    /// Removes the objects of `begin .. end`.
    pub fn destroy_objects(&mut self, begin: &[u8], end: &[u8]) {
        // The overlay must tell all that the objects hold.
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
        // Nobody follows blocks while a log is replayed.
        if self.shared.is_some() {
            self.destroy(changes, None, Some(Cursor::new(&first, Some(&behind), true)));
        }
    }

    /// Takes all segments from an object.
    pub fn destroy_all_segments(&mut self, object: &[u8]) {
        self.destroy_segments(object, 0, SEGMENTS_END);
    }

    /// Whether all of the object's blocks `first .. end` are known, and so few that they can go at once.
    fn can_go_at_once(&self, onode: &Onode, first: u32, end: u64) -> bool {
        onode.blocks.first_unknown(first, end).is_none()
            && onode.blocks.segments(first, end).take(self.segments_at_once + 1).count() <= self.segments_at_once
    }

    /// Makes holes of an object's blocks.
    pub fn unmap(&mut self, key: &[u8], first: u32, end: u64, freed: &mut Vec<Run>) {
        let id = self.slot(key);
        let Some(onode) = self.onodes.onode(id) else { return };
        if self.can_go_at_once(onode, first, end) {
            return self.unmap_at_once(key, first, end, freed);
        }
        // Behind the end there is nothing.
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
        // Its memory is to be counted anew.
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

    /// Removes an object, if it is there.
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
                // Their blocks do not matter.
                None if end as usize <= SEGMENTS_ONE_BY_ONE => self.delete_segments(key, &Vec::from_iter(0..end)),
                _ => self.destroy_segments(key, 0, SEGMENTS_END),
            }
        }
        // Its memory is to be counted anew.
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

    /// Looks at some more of what was destroyed: blocks that nothing holds any longer go to `freed`.
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
                tracing::warn!(%damage, "metadata of what was destroyed is damaged: some blocks stay unused until the store is opened again");
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

    /// A checkpoint is done: the frozen changes are in its tree, `root`. Returns the number of the last job that needs what
    /// is no longer in it.
    pub fn tree_replaced(&mut self, root: Option<btree::Root>) -> Option<u64> {
        let last = self.destroying.iter().rfind(|job| job.needs_old_tree()).map(|job| job.number);
        for job in self.destroying.iter_mut().filter(|job| !job.needs_old_tree()) {
            job.tree = Some(root);
        }
        last
    }

    /// The number of the first job that is not done; that of the next one if all are.
    pub fn first_destroying(&self) -> u64 {
        self.destroying.front().map_or(self.destroyed + 1, |job| job.number)
    }
}

/// Slices of work per turn; more when the log is so full that commits may soon have to wait for the next checkpoint.
const SLICES: usize = 2;
const HURRIED_SLICES: usize = 20;

impl Store {
    /// Does this turn's part of looking at what was destroyed. What is found free is freed by a record that is not before the
    /// one which destroyed it.
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

    /// Whether a checkpoint could begin: all objects are counted, and while pages of an older tree are held for those who
    /// look at them, there must be room for another tree.
    pub(crate) fn can_begin_checkpoint(&self) -> bool {
        let counts = self.state.destroying.iter().any(Destroying::counts_objects);
        !counts && (self.metadata.held_blocks() == 0 || self.metadata.has_aside(self.metadata_blocks_wanted()))
    }
}
