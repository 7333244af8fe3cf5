//! All metadata of a store: tree, changes over it, objects in memory; and the application of redo steps.

use crate::Tuning;
use crate::btree::{self, Cursor, Damage, Fetch, Overlay, PAGE_BLOCKS, PAGE_BYTES, PageCache, View};
use crate::config::BLOCK;
use crate::disk::copies::CopyOf;
use crate::disk::key::{self, Key, behind_prefix, omap_key, pg_key, push_pg_key, set_object_key};
use crate::disk::numbers::SEGMENT_RUN_BYTES;
use crate::disk::redo::Redo;
use crate::disk::totals::TreeTotals;
use crate::disk::tree_key::{TABLE_BYTES, TableId, segment_key, tree_key};
use crate::metadata::attrs::SNAPS_ATTR;
use crate::metadata::block_map::{BlockRef, SEGMENT_BLOCKS, patch_segment};
use crate::metadata::gathering::Gatherings;
use crate::metadata::jobs::{CopyRules, Copying, Destroying, OmapCopy};
use crate::metadata::onode::{OmapHead, Onode, inline_part, run_blocks};
use crate::metadata::onode_cache::{OnodeCache, SlotId};
use crate::space::run::{Run, push_run};
use crate::space::shared_blocks::SharedBlocks;
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use types::{ObjectId, PgId, SnapId};

/// Upper bound of the bytes of an entry in a page of the tree besides key and value.
pub(crate) const ENTRY_BYTES: u64 = 16;
/// Upper bound of the bytes of a block in its segment's record.
pub(crate) const BLOCK_BYTES_MAX: u64 = (SEGMENT_RUN_BYTES + size_of::<u32>()) as u64;

/// Returns the maximum number of blocks of a tree whose entries take `tree_bytes`: pages are mostly more than two
/// fifths full, and so are the blocks of large values.
pub(crate) const fn tree_blocks_max(tree_bytes: u64) -> u64 {
    tree_bytes.div_ceil(PAGE_BYTES as u64 * 2 / 5) * PAGE_BLOCKS as u64 + 4 * PAGE_BLOCKS as u64
}

/// Sums over all objects. They are signed, since they begin at zero when an opening has not counted yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Totals {
    pub objects: i64,
    pub stored_bytes: i64,
    /// Bytes as of the last checkpoint, and of all entries put since.
    pub omap_bytes: i64,
}

impl From<&TreeTotals> for Totals {
    fn from(tree: &TreeTotals) -> Totals {
        let TreeTotals { objects, stored_bytes, omap_bytes, .. } = *tree;
        Totals { objects: objects as i64, stored_bytes: stored_bytes as i64, omap_bytes: omap_bytes as i64 }
    }
}

/// Objects, omap entries and placement groups' tables: those of the tree, overridden by those of the overlay. Objects
/// in memory agree with the two.
///
/// Applying a step needs parts of an object in memory ([`crate::metadata::loading`]).
#[derive(Debug)]
pub(crate) struct State {
    /// The tree of the last durable checkpoint.
    pub root: Option<btree::Root>,
    pub cache: PageCache,
    /// All changes that are not in the tree.
    pub overlay: Overlay,
    pub onodes: OnodeCache,
    /// Entries found for lookups that wait.
    pub gatherings: Gatherings,
    pub next_omap_id: u64,
    pub totals: Totals,
    /// True if some removed objects could not be counted.
    pub totals_are_lost: bool,
    /// Bytes of omap entries put since the overlay was frozen.
    pub omap_put_bytes: i64,
    /// Jobs of destroyed groups, objects and parts of objects whose content was not looked at yet.
    pub destroying: VecDeque<Destroying>,
    /// Number of jobs so far.
    pub destroyed: u64,
    /// Objects that lose more segments than this at a time lose them bit by bit.
    pub segments_at_once: usize,
    /// Objects whose changes could not be replayed because of damage.
    pub damaged: BTreeMap<Key, Damage>,
    pub copy_rules: CopyRules,
    /// The copy that the next step of the log takes, if it has to be made again.
    pub replayed_copy: Option<Copying>,
    /// Objects that, in the log, took copies of segments which were whole in the tree.
    pub copies_taken: BTreeSet<Key>,
    /// Entries of omaps in the tree that clones will copy, by omap id.
    pub omap_copies: BTreeMap<u64, OmapCopy>,
    /// Objects, and segments of them, whose records in the overlay are out of date.
    pub dirty: Vec<(SlotId, Option<u32>)>,
    /// A buffer for keys of the tree.
    pub tree_key: Vec<u8>,
    record: Vec<u8>,
    /// A buffer for blocks that a mapping replaces.
    replaced: Vec<Run>,
    /// True if clones are listed by their snapshots ([`crate::metadata::snap_index`]).
    pub lists_clones: bool,
    /// Clones that the present transaction changes, with the snapshots under which they are listed.
    pub listed_before: BTreeMap<Key, BTreeSet<SnapId>>,
    /// Holders of blocks; `None` while a log is replayed, counted afterwards.
    pub shared: Option<SharedBlocks>,
}

/// Message of a broken belief: the store's own records fit the tree.
pub(crate) const FITS: &str = "keys and values were checked when they were submitted";

impl State {
    /// Creates the state of a tree without changes.
    pub fn new(root: Option<btree::Root>, cache: PageCache, next_omap_id: u64) -> State {
        State {
            root,
            cache,
            overlay: Overlay::default(),
            onodes: OnodeCache::default(),
            gatherings: Gatherings::default(),
            next_omap_id,
            totals: Totals::default(),
            totals_are_lost: false,
            omap_put_bytes: 0,
            destroying: VecDeque::new(),
            destroyed: 0,
            segments_at_once: Tuning::SEGMENTS_AT_ONCE,
            damaged: BTreeMap::new(),
            copy_rules: CopyRules::default(),
            replayed_copy: None,
            copies_taken: BTreeSet::new(),
            omap_copies: BTreeMap::new(),
            dirty: Vec::new(),
            tree_key: Vec::new(),
            record: Vec::new(),
            replaced: Vec::new(),
            lists_clones: false,
            listed_before: BTreeMap::new(),
            shared: None,
        }
    }

    /// Applies a step. Blocks without holders go to `freed`; those of a destroyed group follow later.
    ///
    /// Panics if anything that the step needs is not in memory, or a clone's source is absent.
    pub fn apply(&mut self, redo: &Redo, freed: &mut Vec<Run>) {
        match redo {
            Redo::Touch { object } => drop(self.object(object)),
            Redo::Map { object, size, first, runs, crcs } => self.map(object, *size, *first, runs, crcs, freed),
            Redo::Unmap { object, first, end } => {
                self.object(object);
                self.unmap(object, *first, u64::from(*end), freed);
            }
            Redo::Resize { object, size } => {
                let id = self.object(object);
                self.set_size(id, *size);
                let kept = inline_part(&self.onode(id).inline, 0, *size);
                self.set_inline(id, kept);
                let end = size.div_ceil(BLOCK);
                if let Ok(first) = u32::try_from(end) {
                    self.unmap(object, first, u64::MAX, freed);
                }
            }
            Redo::Remove { object } => self.remove(object, freed),
            Redo::SetAttr { object, name, value } => {
                if name == SNAPS_ATTR {
                    self.snaps_change(object);
                }
                let stat = Arc::make_mut(&mut self.changed(object).stat);
                stat.attrs.insert(name, Bytes::copy_from_slice(value));
            }
            Redo::RemoveAttr { object, name } => {
                if name == SNAPS_ATTR {
                    self.snaps_change(object);
                }
                let onode = self.changed(object);
                if onode.stat.attrs.contains_key(name) {
                    Arc::make_mut(&mut onode.stat).attrs.remove(name);
                }
            }
            Redo::OmapSet { object, entries } => {
                let id = self.omap_head(object).id;
                for (key, value) in entries {
                    self.put_omap(&omap_key(id, key), value);
                }
            }
            Redo::OmapRemove { object, keys } => {
                if let Some(id) = self.omap_id(object) {
                    for key in keys {
                        self.delete_entry(TableId::Omap, &omap_key(id, key));
                    }
                }
            }
            Redo::OmapRemoveRange { object, begin, end } => {
                if let Some(id) = self.omap_id(object) {
                    self.delete_entries(TableId::Omap, &omap_key(id, begin), Some(&omap_key(id, end)));
                }
            }
            Redo::OmapClear { object } => {
                let onode = self.changed(object);
                if let Some(omap) = onode.omap.take() {
                    Arc::make_mut(&mut onode.stat).has_omap = false;
                    self.drop_omap(omap.id);
                }
            }
            Redo::OmapSetHeader { object, header } => {
                self.omap_head(object).header = Bytes::copy_from_slice(header);
            }
            Redo::Inline { object, size, data } => {
                let id = self.object(object);
                self.set_size(id, *size);
                self.set_inline(id, data.clone());
            }
            Redo::Clone { from, to } => self.clone_object(from, to, None, freed),
            Redo::CloneCopied { from, of } => self.clone_object(from, &of.to, Some(of), freed),
            Redo::DropCopy { of } => self.drop_copy(of),
            Redo::OmapIds { next } => self.next_omap_id = self.next_omap_id.max(*next),
            Redo::CloneRange { from, to, size, from_first, to_first, count } => {
                self.clone_range((from, *from_first), (to, *to_first), *count, *size, freed);
            }
            Redo::PgSet { pg, key, value } => {
                self.set_pg_key(*pg, key);
                self.overlay.put(&self.tree_key, value).expect(FITS);
                self.gatherings.put(&self.tree_key, value);
            }
            Redo::PgRemove { pg, key } => {
                self.set_pg_key(*pg, key);
                self.overlay.delete(&self.tree_key).expect(FITS);
                self.gatherings.delete(&self.tree_key);
            }
            Redo::PgRemoveRange { pg, begin, end } => {
                self.delete_entries(TableId::Pgs, &pg_key(*pg, begin), Some(&pg_key(*pg, end)));
            }
            Redo::PgDestroy { pg, pg_num } => {
                let prefix = pg_key(*pg, &[]);
                self.delete_entries(TableId::Pgs, &prefix, behind_prefix(&prefix).as_deref());
                let (begin, end) = key::pg_object_range(*pg, *pg_num);
                if begin < end {
                    self.damaged.retain(|object, _| *object < begin || *object >= end);
                    self.destroy_objects(&begin, &end);
                }
            }
        }
    }

    /// Returns an object that is in memory; `None` if the object is absent. Panics if that is not known.
    pub fn known(&self, key: &[u8]) -> Option<&Onode> {
        self.onodes.get(key).unwrap_or_else(|| panic!("object {key:x?} is needed, but was not read"))
    }

    pub fn slot(&mut self, key: &[u8]) -> SlotId {
        self.onodes.find(key).unwrap_or_else(|| panic!("object {key:x?} is needed, but was not read"))
    }

    /// Returns an object's key, shared with its entry if it is in memory.
    pub fn object_key(&mut self, object: &ObjectId) -> Key {
        set_object_key(&mut self.tree_key, object);
        match self.onodes.find(&self.tree_key) {
            Some(id) => self.onodes.key(id).clone(),
            None => self.tree_key[..].into(),
        }
    }

    /// Sets the buffer to the key of an entry of a placement group's table, in the tree.
    fn set_pg_key(&mut self, pg: PgId, key: &[u8]) {
        self.tree_key.clear();
        self.tree_key.push(TableId::Pgs as u8);
        push_pg_key(&mut self.tree_key, pg, key);
    }

    pub fn put_entry(&mut self, table: TableId, key: &[u8], value: &[u8]) {
        let key = tree_key(table, key, &mut self.tree_key);
        self.overlay.put(key, value).expect(FITS);
        self.gatherings.put(key, value);
    }

    pub fn delete_entry(&mut self, table: TableId, key: &[u8]) {
        let key = tree_key(table, key, &mut self.tree_key);
        self.overlay.delete(key).expect(FITS);
        self.gatherings.delete(key);
    }

    pub fn delete_entries(&mut self, table: TableId, begin: &[u8], end: Option<&[u8]>) {
        let (mut first, mut behind) = (Vec::new(), Vec::new());
        tree_key(table, begin, &mut first);
        match end {
            Some(end) => drop(tree_key(table, end, &mut behind)),
            None => behind.push(table as u8 + 1),
        }
        self.overlay.delete_range(&first, &behind).expect(FITS);
        self.gatherings.delete_range(&first, &behind);
    }

    /// Brings the overlay up to date. Must be called when a transaction has been applied.
    pub fn settle(&mut self) {
        if !self.listed_before.is_empty() {
            self.settle_snaps();
        }
        self.dirty.sort_unstable();
        self.dirty.dedup();
        for (id, segment) in self.dirty.drain(..) {
            let (key, tree, record) = (self.onodes.key(id), &mut self.tree_key, &mut self.record);
            match (segment, self.onodes.onode(id)) {
                // The record of a removed object was deleted at the removal.
                (None, None) => {}
                (None, Some(onode)) => {
                    onode.encode_head(record);
                    let key = tree_key(TableId::Objects, key, tree);
                    self.overlay.put(key, record).expect(FITS);
                    self.gatherings.put(key, record);
                }
                (Some(index), onode) => {
                    // A segment that became all holes before the object was removed was not deleted with it.
                    let there = onode.is_some_and(|onode| onode.blocks.encode_segment(index, record));
                    let tree = segment_key(key, index, tree);
                    match there {
                        true => self.overlay.put(tree, record).expect(FITS),
                        false => self.overlay.delete(tree).expect(FITS),
                    }
                }
            }
            self.onodes.recount(id);
        }
    }

    /// Returns true if the overlay is up to date.
    pub fn is_settled(&self) -> bool {
        self.dirty.is_empty()
    }

    /// Sets a block's checksum, which has become known, in the record of an object that still holds the block, and in
    /// the object if it is in memory.
    pub fn patch_crc(&mut self, key: &[u8], block: u32, device: u32, crc: u32) {
        if let Some(id) = self.onodes.find(key)
            && let Some(onode) = self.onodes.onode_mut(id)
        {
            onode.blocks.patch_crc(block, device, crc);
        }
        let patch = |record: &[u8]| patch_segment(record, block, device, crc);
        self.overlay.amend(segment_key(key, block / SEGMENT_BLOCKS, &mut self.tree_key), patch);
    }

    fn onode(&mut self, id: SlotId) -> &mut Onode {
        self.onodes.onode_mut(id).as_mut().expect("the object was just made sure of")
    }

    /// Returns the object to change; creates it if absent.
    fn object(&mut self, key: &[u8]) -> SlotId {
        let id = self.slot(key);
        if self.onodes.onode(id).is_none() {
            self.snaps_change(key);
        }
        let entry = self.onodes.onode_mut(id);
        if entry.is_none() {
            *entry = Some(Onode::default());
            self.totals.objects += 1;
            self.dirty.push((id, None));
        }
        id
    }

    /// Returns the object, whose record changes.
    fn changed(&mut self, key: &[u8]) -> &mut Onode {
        let id = self.object(key);
        self.dirty.push((id, None));
        self.onode(id)
    }

    fn omap_id(&mut self, key: &[u8]) -> Option<u64> {
        let id = self.object(key);
        self.onode(id).omap.as_ref().map(|omap| omap.id)
    }

    fn omap_head(&mut self, key: &[u8]) -> &mut OmapHead {
        let next = self.next_omap_id;
        let id = self.object(key);
        let onode = self.onode(id);
        let is_new = onode.omap.is_none();
        if is_new {
            Arc::make_mut(&mut onode.stat).has_omap = true;
            self.next_omap_id += 1;
        }
        self.dirty.push((id, None));
        self.onode(id).omap.get_or_insert_with(|| Box::new(OmapHead { id: next, header: Bytes::new() }))
    }

    fn set_size(&mut self, id: SlotId, size: u64) {
        let onode = self.onode(id);
        let old = onode.size();
        if old != size {
            Arc::make_mut(&mut onode.stat).size_bytes = size;
            self.totals.stored_bytes += size as i64 - old as i64;
            self.dirty.push((id, None));
        }
    }

    fn set_inline(&mut self, id: SlotId, bytes: Bytes) {
        let onode = self.onode(id);
        assert!(bytes.is_empty() || onode.blocks.segment_count() == 0, "{} bytes inline beside blocks", bytes.len());
        if onode.inline != bytes {
            onode.inline = bytes;
            self.dirty.push((id, None));
        }
    }

    fn map(&mut self, key: &[u8], size: u64, first: u32, runs: &[Run], crcs: &[u32], freed: &mut Vec<Run>) {
        // The new blocks, which begin with the first, hold the bytes that were inline.
        let id = self.object(key);
        let inline = self.onode(id).inline.len();
        assert!(first == 0 || inline == 0, "block {first} beside {inline} bytes inline");
        self.set_inline(id, Bytes::new());
        self.set_size(id, size);
        let (mut at, mut crcs, mut replaced) = (first, crcs, std::mem::take(&mut self.replaced));
        let onode = self.onode(id);
        for run in runs {
            let (head, tail) = crcs.split_at(run.count as usize);
            let replaced = &mut replaced;
            onode.blocks.map(at, run_blocks(*run, head), |old| {
                push_run(replaced, Run { start: old.device, count: 1 });
            });
            (at, crcs) = (at + run.count, tail);
        }
        if at > first {
            self.dirty.extend((first / SEGMENT_BLOCKS..=(at - 1) / SEGMENT_BLOCKS).map(|index| (id, Some(index))));
        }
        self.drop_blocks(&replaced, freed);
        replaced.clear();
        self.replaced = replaced;
    }

    /// Returns true if several objects hold any block of a run.
    pub fn is_shared(&self, run: Run) -> bool {
        self.shared.as_ref().is_none_or(|shared| shared.overlaps(run))
    }

    pub fn drop_blocks(&mut self, runs: &[Run], freed: &mut Vec<Run>) {
        if let Some(shared) = &mut self.shared {
            runs.iter().for_each(|run| shared.drop_run(*run, freed));
        }
    }

    /// `copied`: the copy made before the clone.
    fn clone_object(&mut self, from: &[u8], to: &[u8], copied: Option<&CopyOf>, freed: &mut Vec<Run>) {
        let mut copy = self.known(from).unwrap_or_else(|| panic!("clone of absent object {from:x?}")).clone();
        if from == to {
            return;
        }
        let segments: Vec<u32> = match copied {
            Some(CopyOf { segments: true, .. }) => {
                assert!(self.known(to).is_none(), "segments were copied for {to:x?}, which is there");
                Vec::new()
            }
            _ => {
                // The copy takes its share of the blocks before the target drops its own: they may be the same blocks.
                let runs = copy.blocks.runs(0, u64::MAX);
                if let Some(shared) = &mut self.shared {
                    runs.into_iter().for_each(|(_, run)| shared.add(run));
                }
                copy.blocks.segments(0, u64::MAX).collect()
            }
        };
        self.remove(to, freed);
        self.snaps_change(to);
        match (copied, &mut copy.omap) {
            (Some(of), omap) => {
                omap.iter_mut().for_each(|omap| omap.id = of.id);
                self.delete_copy_entry(of.id);
            }
            (None, Some(omap)) => {
                let id = std::mem::replace(&mut omap.id, self.next_omap_id);
                self.next_omap_id += 1;
                self.copy_omap(id, omap.id);
            }
            (None, None) => {}
        }
        self.totals.objects += 1;
        self.totals.stored_bytes += copy.size() as i64;
        let id = self.slot(to);
        self.dirty.push((id, None));
        self.dirty.extend(segments.into_iter().map(|index| (id, Some(index))));
        *self.onodes.onode_mut(id) = Some(copy);
    }

    /// Makes `count` blocks of `to` those of `from`; each object's blocks begin at the given number.
    fn clone_range(
        &mut self,
        (from, from_first): (&[u8], u32),
        (to, to_first): (&[u8], u32),
        count: u32,
        size: u64,
        freed: &mut Vec<Run>,
    ) {
        let source = self.known(from).unwrap_or_else(|| panic!("clone of a range of absent object {from:x?}"));
        let mut blocks: Vec<(u32, BlockRef)> = Vec::new();
        let end = u64::from(from_first) + u64::from(count);
        source.blocks.for_each(from_first, end, |at, block| blocks.push((at - from_first + to_first, block)));
        // The target takes its share of the blocks before it drops its own: they may be the same blocks.
        let mut runs = Vec::new();
        blocks.iter().for_each(|(_, block)| push_run(&mut runs, Run { start: block.device, count: 1 }));
        if let Some(shared) = &mut self.shared {
            runs.into_iter().for_each(|run| shared.add(run));
        }
        let inline = self.known(to).map_or(0, |onode| onode.inline.len());
        assert!(to_first == 0 || inline == 0, "block {to_first} beside {inline} bytes inline");
        let id = self.object(to);
        self.set_inline(id, Bytes::new());
        self.set_size(id, size);
        self.unmap(to, to_first, u64::from(to_first) + u64::from(count), freed);
        for part in blocks.chunk_by(|(at, _), (next, _)| at + 1 == *next) {
            let (first, last) = (part[0].0, part[part.len() - 1].0);
            let blocks = part.iter().map(|(_, block)| *block);
            self.onode(id).blocks.map(first, blocks, |old| panic!("{old:?} where a hole was made"));
            self.dirty.extend((first / SEGMENT_BLOCKS..=last / SEGMENT_BLOCKS).map(|index| (id, Some(index))));
        }
    }

    /// Gives the new omap `to` the entries of `from`. Those of the tree have been read; those of the overlay may be
    /// newer.
    fn copy_omap(&mut self, from: u64, to: u64) {
        let (mut begin, mut end) = (Vec::new(), Vec::new());
        tree_key(TableId::Omap, &omap_key(from, &[]), &mut begin);
        tree_key(TableId::Omap, &omap_key(from + 1, &[]), &mut end);
        let of_tree = self.omap_copies.get(&from).map_or(&[][..], OmapCopy::entries);
        let mut entries: Vec<(Bytes, Bytes)> =
            of_tree.iter().filter(|(key, _)| self.overlay.says_nothing(key)).cloned().collect();
        let view = &mut View { root: None, overlay: &self.overlay, cache: &mut self.cache };
        match Cursor::new(&begin, Some(&end), true).next_page(view, usize::MAX, usize::MAX) {
            Ok(Fetch::Ready(page)) => entries.extend(page.entries),
            other => panic!("changes in memory that are not there: {other:?}"),
        }
        for (key, value) in entries {
            self.put_omap(&omap_key(to, &key[TABLE_BYTES + key::OMAP_PREFIX_BYTES..]), &value);
        }
    }

    pub fn put_omap(&mut self, key: &[u8], value: &[u8]) {
        let bytes = (key.len() - key::OMAP_PREFIX_BYTES + value.len()) as i64;
        self.totals.omap_bytes += bytes;
        self.omap_put_bytes += bytes;
        self.put_entry(TableId::Omap, key, value);
    }

    /// Removes the entries of an omap that left its object.
    pub fn drop_omap(&mut self, id: u64) {
        self.delete_entries(TableId::Omap, &omap_key(id, &[]), Some(&omap_key(id + 1, &[])));
    }
}
