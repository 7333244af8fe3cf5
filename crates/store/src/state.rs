//! All metadata of a store, and the application of redo steps to it.

use crate::allocator::{Run, push_run};
use crate::block_map::{SEGMENT_BLOCKS, patch_segment};
use crate::btree::{Overlay, PAGE_BLOCKS, PAGE_BYTES};
use crate::config::BLOCK;
use crate::key::{self, Key, behind_prefix, omap_key, pg_key};
use crate::onode::{OmapHead, Onode, run_blocks};
use crate::redo::Redo;
use crate::shared_blocks::SharedBlocks;
use crate::table::Table;
use crate::totals::TreeTotals;
use crate::tree_key::{TableId, parse_segment_key, segment_key, tree_key};
use bytes::Bytes;
use std::sync::Arc;
use wire::{DecodeError, Reader};

/// A value of the omap or of a placement group's table, in memory of its own: a slice of a received message would keep
/// the whole message.
pub(crate) type Value = Box<[u8]>;

/// Upper bound of what an entry takes in a page of the tree besides key and value.
const ENTRY_BYTES: u64 = 16;
/// Upper bound of what a block takes in its segment's record.
pub(crate) const BLOCK_BYTES_MAX: u64 = 14;
/// The same of an object without name, attributes, omap header and blocks.
const ONODE_BYTES: u64 = 64;

/// The most blocks a tree takes whose entries take `tree_bytes`: pages are mostly more than two fifths full, and so are
/// the blocks of large values.
pub(crate) const fn tree_blocks_max(tree_bytes: u64) -> u64 {
    tree_bytes.div_ceil(PAGE_BYTES as u64 * 2 / 5) * PAGE_BLOCKS as u64 + 4 * PAGE_BLOCKS as u64
}

/// Running sums over the tables.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Totals {
    pub stored_bytes: u64,
    pub omap_bytes: u64,
    /// Upper bound of what all entries take in the tree.
    pub tree_bytes: u64,
}

/// Objects, omap entries and placement groups' tables.
#[derive(Default, Debug)]
pub(crate) struct State {
    pub objects: Table<Onode>,
    pub omap: Table<Value>,
    pub pgs: Table<Value>,
    pub next_omap_id: u64,
    pub totals: Totals,
    /// All changes that are not in the tree.
    pub overlay: Overlay,
    /// Objects, and segments of them, whose records in the overlay are older than they are.
    dirty: Vec<(Key, Option<u32>)>,
    /// For keys of the tree, one after another.
    tree_key: Vec<u8>,
    /// Holders of blocks; not kept while a log is replayed, then counted anew.
    shared: Option<SharedBlocks>,
}

fn attr_bytes(name: &[u8], value: &[u8]) -> u64 {
    (name.len() + value.len() + 8) as u64
}

fn entry_bytes(key: &[u8], value: &[u8]) -> u64 {
    (key.len() + value.len()) as u64 + ENTRY_BYTES
}

fn onode_bytes(key: &[u8], onode: &Onode) -> u64 {
    let attrs: u64 = onode.stat.attrs.iter().map(|(name, value)| attr_bytes(name, value)).sum();
    let header = onode.omap.as_ref().map_or(0, |omap| omap.header.len() as u64);
    let segments = onode.blocks.segment_count() as u64 * segment_bytes(key);
    let blocks = onode.blocks.block_count() * BLOCK_BYTES_MAX;
    key.len() as u64 + ENTRY_BYTES + ONODE_BYTES + segments + blocks + attrs + header
}

/// Upper bound of what a segment of an object takes besides its blocks.
pub(crate) fn segment_bytes(key: &[u8]) -> u64 {
    key.len() as u64 + 8 + ENTRY_BYTES
}

/// A record of ours fits the tree: keys and values were checked when they came in.
const FITS: &str = "keys and values were checked when they were submitted";

impl State {
    /// Counts the holders of every block from now on. `claim` is called for each run that an object holds and returns
    /// the parts that another object holds already.
    pub fn track_blocks<E>(&mut self, mut claim: impl FnMut(&[u8], Run) -> Result<Vec<Run>, E>) -> Result<(), E> {
        let mut shared = SharedBlocks::default();
        for (key, onode) in self.objects.range(&[], None) {
            for (_, run) in onode.blocks.runs(0, u64::MAX) {
                claim(key, run)?.into_iter().for_each(|again| shared.add(again));
            }
        }
        self.shared = Some(shared);
        Ok(())
    }

    /// What the tree would hold if all changes were in it, with so many blocks of data.
    pub fn totals_with(&self, data_blocks: u64) -> TreeTotals {
        TreeTotals {
            objects: self.objects.len() as u64,
            stored_bytes: self.totals.stored_bytes,
            omap_entries: self.omap.len() as u64,
            omap_bytes: self.totals.omap_bytes,
            data_blocks,
        }
    }

    /// Applies a step. Blocks that nothing holds any longer go to `freed`.
    ///
    /// Panics if a clone's source is absent: submission checks that, and a record was once submitted.
    pub fn apply(&mut self, redo: &Redo, freed: &mut Vec<Run>) {
        match redo {
            Redo::Touch { object } => drop(self.object(object)),
            Redo::Map { object, size, first, runs, crcs } => self.map(object, *size, *first, runs, crcs, freed),
            Redo::Unmap { object, first, end } => {
                self.object(object);
                self.unmap(object, *first, u64::from(*end), freed);
            }
            Redo::Resize { object, size } => {
                self.set_size(object, *size);
                let end = size.div_ceil(BLOCK);
                if let Ok(first) = u32::try_from(end) {
                    self.unmap(object, first, u64::MAX, freed);
                }
            }
            Redo::Remove { object } => self.remove(object, freed),
            Redo::SetAttr { object, name, value } => {
                self.touch(object);
                let stat = Arc::make_mut(&mut self.object(object).stat);
                let old = stat.attrs.insert(name, Bytes::copy_from_slice(value));
                let gone = old.map_or(0, |old| attr_bytes(name, &old));
                self.totals.tree_bytes += attr_bytes(name, value);
                self.totals.tree_bytes -= gone;
            }
            Redo::RemoveAttr { object, name } => {
                self.touch(object);
                let onode = self.object(object);
                if onode.stat.attrs.contains_key(name) {
                    let old = Arc::make_mut(&mut onode.stat).attrs.remove(name).expect("just seen");
                    self.totals.tree_bytes -= attr_bytes(name, &old);
                }
            }
            Redo::OmapSet { object, entries } => {
                let id = self.omap_head(object).id;
                for (key, value) in entries {
                    self.insert_omap(omap_key(id, key), (**value).into());
                }
            }
            Redo::OmapRemove { object, keys } => {
                if let Some(id) = self.object(object).omap.as_ref().map(|omap| omap.id) {
                    for key in keys {
                        let key = omap_key(id, key);
                        if let Some(value) = self.omap.remove(&key) {
                            self.omap_gone(&key, &value);
                            self.delete_entry(TableId::Omap, &key);
                        }
                    }
                }
            }
            Redo::OmapRemoveRange { object, begin, end } => {
                if let Some(id) = self.object(object).omap.as_ref().map(|omap| omap.id) {
                    self.remove_omap_range(&omap_key(id, begin), &omap_key(id, end));
                }
            }
            Redo::OmapClear { object } => {
                self.touch(object);
                let onode = self.object(object);
                if let Some(omap) = onode.omap.take() {
                    Arc::make_mut(&mut onode.stat).has_omap = false;
                    self.drop_omap(&omap);
                }
            }
            Redo::OmapSetHeader { object, header } => {
                self.touch(object);
                let head = self.omap_head(object);
                let old = std::mem::replace(&mut head.header, Bytes::copy_from_slice(header));
                self.totals.tree_bytes += header.len() as u64;
                self.totals.tree_bytes -= old.len() as u64;
            }
            Redo::Clone { from, to } => self.clone_object(from, to, freed),
            Redo::PgSet { pg, key, value } => self.insert_pg(pg_key(*pg, key), (**value).into()),
            Redo::PgRemove { pg, key } => {
                let key = pg_key(*pg, key);
                if let Some(value) = self.pgs.remove(&key) {
                    self.totals.tree_bytes -= entry_bytes(&key, &value);
                    self.delete_entry(TableId::Pgs, &key);
                }
            }
            Redo::PgRemoveRange { pg, begin, end } => {
                self.remove_pg_range(&pg_key(*pg, begin), Some(&pg_key(*pg, end)))
            }
            Redo::PgDestroy { pg, pg_num } => {
                let prefix = pg_key(*pg, &[]);
                self.remove_pg_range(&prefix, behind_prefix(&prefix).as_deref());
                let (begin, end) = key::pg_object_range(*pg, *pg_num);
                let objects: Vec<Key> = self.objects.range(&begin, Some(&end)).map(|(key, _)| key.into()).collect();
                objects.iter().for_each(|object| self.remove(object, freed));
            }
        }
    }

    /// Notes that an object's record changes.
    fn touch(&mut self, key: &[u8]) {
        self.dirty.push((key.into(), None));
    }

    fn put_entry(&mut self, table: TableId, key: &[u8], value: &[u8]) {
        self.overlay.put(tree_key(table, key, &mut self.tree_key), value).expect(FITS);
    }

    fn delete_entry(&mut self, table: TableId, key: &[u8]) {
        self.overlay.delete(tree_key(table, key, &mut self.tree_key)).expect(FITS);
    }

    fn delete_entries(&mut self, table: TableId, begin: &[u8], end: Option<&[u8]>) {
        let (mut first, mut behind) = (Vec::new(), Vec::new());
        tree_key(table, begin, &mut first);
        match end {
            Some(end) => drop(tree_key(table, end, &mut behind)),
            None => behind.push(table as u8 + 1),
        }
        self.overlay.delete_range(&first, &behind).expect(FITS);
    }

    /// Brings the overlay up to date: call when a transaction has been applied.
    pub fn settle(&mut self) {
        let mut dirty = std::mem::take(&mut self.dirty);
        dirty.sort_unstable();
        dirty.dedup();
        let (mut tree, mut record) = (Vec::new(), Vec::new());
        for (key, segment) in dirty.drain(..) {
            // What was removed was deleted there and then.
            let Some(onode) = self.objects.get(&key) else { continue };
            match segment {
                None => {
                    onode.encode_head(&mut record);
                    self.overlay.put(tree_key(TableId::Objects, &key, &mut tree), &record).expect(FITS);
                }
                Some(index) => {
                    let there = onode.blocks.encode_segment(index, &mut record);
                    let tree = segment_key(&key, index, &mut tree);
                    match there {
                        true => self.overlay.put(tree, &record).expect(FITS),
                        false => self.overlay.delete(tree).expect(FITS),
                    }
                }
            }
        }
        self.dirty = dirty;
    }

    /// Makes the overlay all there is, whatever the tree holds. Call when all transactions are settled. Takes time and
    /// memory by the number of entries.
    pub fn start_over(&mut self) {
        assert!(self.dirty.is_empty(), "changes that are not settled");
        let overlay = &mut self.overlay;
        overlay.start_over();
        let (mut tree, mut record) = (Vec::new(), Vec::new());
        for (table, entries) in [(TableId::Pgs, &self.pgs), (TableId::Omap, &self.omap)] {
            for (key, value) in entries.range(&[], None) {
                overlay.put(tree_key(table, key, &mut tree), value).expect(FITS);
            }
        }
        for (key, onode) in self.objects.range(&[], None) {
            onode.encode_head(&mut record);
            overlay.put(tree_key(TableId::Objects, key, &mut tree), &record).expect(FITS);
            for index in onode.blocks.segments(0, u64::MAX) {
                onode.blocks.encode_segment(index, &mut record);
                overlay.put(segment_key(key, index, &mut tree), &record).expect(FITS);
            }
        }
    }

    /// A block's checksum has become known, which changes the entry of an object that still holds it: in the tables, and
    /// in all changes that are not in the tree.
    pub fn patch_crc(&mut self, key: &[u8], block: u32, device: u32, crc: u32) {
        let mut tree = Vec::new();
        let index = block / SEGMENT_BLOCKS;
        if let Some(onode) = self.objects.get_mut(key)
            && onode.blocks.patch_crc(block, device, crc)
        {
            self.dirty.push((key.into(), Some(index)));
        }
        let patch = |record: &[u8]| patch_segment(record, block, device, crc);
        self.overlay.amend_frozen(segment_key(key, index, &mut tree), patch);
        self.settle();
    }

    /// The object to change, made if absent.
    fn object(&mut self, key: &[u8]) -> &mut Onode {
        if !self.objects.contains(key) {
            let onode = Onode::default();
            self.totals.tree_bytes += onode_bytes(key, &onode);
            self.objects.insert(key.into(), onode);
            self.touch(key);
        }
        self.objects.get_mut(key).expect("just made sure")
    }

    fn omap_head(&mut self, key: &[u8]) -> &mut OmapHead {
        let id = self.next_omap_id;
        let onode = self.object(key);
        if onode.omap.is_none() {
            onode.omap = Some(Box::new(OmapHead { id, header: Bytes::new() }));
            Arc::make_mut(&mut onode.stat).has_omap = true;
            self.next_omap_id += 1;
            self.touch(key);
        }
        // Looked up again only because the borrow checker cannot see that the branch above ended.
        self.objects.get_mut(key).and_then(|onode| onode.omap.as_deref_mut()).expect("just made sure")
    }

    fn set_size(&mut self, key: &[u8], size: u64) {
        let onode = self.object(key);
        let old = onode.size();
        if old != size {
            Arc::make_mut(&mut onode.stat).size_bytes = size;
            self.totals.stored_bytes = self.totals.stored_bytes - old + size;
            self.touch(key);
        }
    }

    fn map(&mut self, key: &[u8], size: u64, first: u32, runs: &[Run], crcs: &[u32], freed: &mut Vec<Run>) {
        let onode = self.object(key);
        let old_size = onode.size();
        if old_size != size {
            Arc::make_mut(&mut onode.stat).size_bytes = size;
        }
        let (mut at, mut crcs, mut replaced, mut added) = (first, crcs, Vec::new(), 0u64);
        let segments_before = onode.blocks.segment_count();
        for run in runs {
            let (head, tail) = crcs.split_at(run.count as usize);
            onode.blocks.map(at, run_blocks(*run, head), |old| {
                added = added.wrapping_sub(1);
                push_run(&mut replaced, Run { start: old.device, count: 1 });
            });
            added = added.wrapping_add(run.count.into());
            (at, crcs) = (at + run.count, tail);
        }
        let segments = (onode.blocks.segment_count() - segments_before) as u64;
        self.totals.stored_bytes = self.totals.stored_bytes - old_size + size;
        // Of the blocks put there only those on former holes take more room in the tree.
        self.totals.tree_bytes += added * BLOCK_BYTES_MAX + segments * segment_bytes(key);
        if old_size != size {
            self.touch(key);
        }
        if at > first {
            self.dirty
                .extend((first / SEGMENT_BLOCKS..=(at - 1) / SEGMENT_BLOCKS).map(|index| (key.into(), Some(index))));
        }
        self.drop_blocks(&replaced, freed);
    }

    fn unmap(&mut self, key: &[u8], first: u32, end: u64, freed: &mut Vec<Run>) {
        let Some(onode) = self.objects.get_mut(key) else { return };
        let (mut removed, mut count) = (Vec::new(), 0);
        let before = onode.blocks.segment_count();
        self.dirty.extend(onode.blocks.segments(first, end).map(|index| (key.into(), Some(index))));
        onode.blocks.unmap(first, end, |old| {
            count += 1;
            push_run(&mut removed, Run { start: old.device, count: 1 });
        });
        let segments = (before - onode.blocks.segment_count()) as u64;
        self.totals.tree_bytes -= count * BLOCK_BYTES_MAX + segments * segment_bytes(key);
        self.drop_blocks(&removed, freed);
    }

    /// Whether several objects hold any block of a run.
    pub fn is_shared(&self, run: Run) -> bool {
        self.shared.as_ref().is_none_or(|shared| shared.overlaps(run))
    }

    fn drop_blocks(&mut self, runs: &[Run], freed: &mut Vec<Run>) {
        if let Some(shared) = &mut self.shared {
            runs.iter().for_each(|run| shared.drop_run(*run, freed));
        }
    }

    fn remove(&mut self, key: &[u8], freed: &mut Vec<Run>) {
        let Some(onode) = self.objects.remove(key) else { return };
        self.totals.stored_bytes -= onode.size();
        self.totals.tree_bytes -= onode_bytes(key, &onode);
        self.delete_entry(TableId::Objects, key);
        self.delete_entries(TableId::Segments, key, behind_prefix(key).as_deref());
        let runs: Vec<Run> = onode.blocks.runs(0, u64::MAX).into_iter().map(|(_, run)| run).collect();
        self.drop_blocks(&runs, freed);
        if let Some(omap) = onode.omap {
            // The header left with the object.
            self.remove_omap_range(&omap_key(omap.id, &[]), &omap_key(omap.id + 1, &[]));
        }
    }

    fn clone_object(&mut self, from: &[u8], to: &[u8], freed: &mut Vec<Run>) {
        let mut copy = self.objects.get(from).unwrap_or_else(|| panic!("clone of absent object {from:x?}")).clone();
        if from == to {
            return;
        }
        // Held by the copy before the target lets go of its own: they may share blocks.
        if let Some(shared) = &mut self.shared {
            copy.blocks.runs(0, u64::MAX).into_iter().for_each(|(_, run)| shared.add(run));
        }
        self.remove(to, freed);
        if let Some(omap) = &mut copy.omap {
            let id = std::mem::replace(&mut omap.id, self.next_omap_id);
            self.next_omap_id += 1;
            let entries = self.omap.range(&omap_key(id, &[]), Some(&omap_key(id + 1, &[])));
            let entries: Vec<(Key, Value)> = entries
                .map(|(key, value)| (omap_key(omap.id, &key[key::OMAP_PREFIX_BYTES..]), value.clone()))
                .collect();
            entries.into_iter().for_each(|(key, value)| self.insert_omap(key, value));
        }
        self.totals.stored_bytes += copy.size();
        self.totals.tree_bytes += onode_bytes(to, &copy);
        self.touch(to);
        self.dirty.extend(copy.blocks.segments(0, u64::MAX).map(|index| (to.into(), Some(index))));
        self.objects.insert(to.into(), copy);
    }

    fn insert_omap(&mut self, key: Key, value: Value) {
        let key_bytes = key.len();
        self.totals.omap_bytes += (key_bytes - key::OMAP_PREFIX_BYTES + value.len()) as u64;
        self.totals.tree_bytes += entry_bytes(&key, &value);
        self.put_entry(TableId::Omap, &key, &value);
        if let Some(old) = self.omap.insert(key, value) {
            self.totals.omap_bytes -= (key_bytes - key::OMAP_PREFIX_BYTES + old.len()) as u64;
            self.totals.tree_bytes -= (key_bytes + old.len()) as u64 + ENTRY_BYTES;
        }
    }

    fn omap_gone(&mut self, key: &[u8], value: &[u8]) {
        self.totals.omap_bytes -= (key.len() - key::OMAP_PREFIX_BYTES + value.len()) as u64;
        self.totals.tree_bytes -= entry_bytes(key, value);
    }

    fn remove_omap_range(&mut self, begin: &[u8], end: &[u8]) {
        let (mut bytes, mut entries) = (0, 0);
        self.omap.remove_range(begin, Some(end), |key, value| {
            bytes += (key.len() - key::OMAP_PREFIX_BYTES + value.len()) as u64;
            entries += entry_bytes(key, &value);
        });
        self.totals.omap_bytes -= bytes;
        self.totals.tree_bytes -= entries;
        if entries > 0 {
            self.delete_entries(TableId::Omap, begin, Some(end));
        }
    }

    /// Removes the entries and accounts for the header of an omap that left its object.
    fn drop_omap(&mut self, omap: &OmapHead) {
        self.totals.tree_bytes -= omap.header.len() as u64;
        self.remove_omap_range(&omap_key(omap.id, &[]), &omap_key(omap.id + 1, &[]));
    }

    fn insert_pg(&mut self, key: Key, value: Value) {
        let key_bytes = key.len() as u64;
        self.totals.tree_bytes += entry_bytes(&key, &value);
        self.put_entry(TableId::Pgs, &key, &value);
        if let Some(old) = self.pgs.insert(key, value) {
            self.totals.tree_bytes -= key_bytes + old.len() as u64 + ENTRY_BYTES;
        }
    }

    fn remove_pg_range(&mut self, begin: &[u8], end: Option<&[u8]>) {
        let mut bytes = 0;
        self.pgs.remove_range(begin, end, |key, value| bytes += entry_bytes(key, &value));
        self.totals.tree_bytes -= bytes;
        if bytes > 0 {
            self.delete_entries(TableId::Pgs, begin, end);
        }
    }

    // ---- opening ----

    /// Takes in one entry of the tree. An object's segments come behind it. Errors: no entry that this store makes.
    pub fn restore(&mut self, key: &[u8], value: &[u8]) -> Result<(), DecodeError> {
        let malformed = || DecodeError::Value { what: "key of an entry", value: key.len() as u64 };
        let (table, key) = key.split_first().ok_or_else(malformed)?;
        match TableId::of(*table).ok_or_else(malformed)? {
            TableId::Pgs => {
                key::pg_of(key).ok_or_else(malformed)?;
                self.totals.tree_bytes += entry_bytes(key, value);
                self.pgs.insert(key.into(), value.into());
            }
            TableId::Objects => {
                key::decode_object(key)?;
                let onode = Onode::decode_head(&mut Reader::new(value))?;
                self.totals.stored_bytes += onode.size();
                self.totals.tree_bytes += onode_bytes(key, &onode);
                self.objects.insert(key.into(), onode);
            }
            TableId::Omap if key.len() < key::OMAP_PREFIX_BYTES => return Err(malformed()),
            TableId::Omap => {
                self.totals.omap_bytes += (key.len() - key::OMAP_PREFIX_BYTES + value.len()) as u64;
                self.totals.tree_bytes += entry_bytes(key, value);
                self.omap.insert(key.into(), value.into());
            }
            TableId::Segments => {
                let (object, index) = parse_segment_key(key).ok_or_else(malformed)?;
                let onode = self.objects.get_mut(object).ok_or_else(malformed)?;
                let before = onode.blocks.block_count();
                onode.blocks.restore_segment(index, value)?;
                let blocks = onode.blocks.block_count() - before;
                self.totals.tree_bytes += segment_bytes(object) + blocks * BLOCK_BYTES_MAX;
                let end = onode.size().div_ceil(BLOCK);
                if u32::try_from(end).is_ok_and(|end| !onode.blocks.runs(end, u64::MAX).is_empty()) {
                    return Err(DecodeError::Value { what: "object block", value: end });
                }
            }
        }
        Ok(())
    }
}
