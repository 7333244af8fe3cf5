//! All metadata of a store, and the application of redo steps to it.

use crate::allocator::{Run, push_run};
use crate::config::BLOCK;
use crate::key::{self, Key, behind_prefix, omap_key, pg_key};
use crate::onode::{OmapHead, Onode, run_blocks};
use crate::redo::Redo;
use crate::shared_blocks::SharedBlocks;
use crate::table::Table;
use bytes::Bytes;
use std::sync::Arc;
use wire::{DecodeError, Reader, Target, Writer};

/// A value of the omap or of a placement group's table, in memory of its own: a slice of a received message would keep
/// the whole message.
pub(crate) type Value = Box<[u8]>;

/// Upper bound of what an entry takes in a checkpoint besides key and value.
const ENTRY_BYTES: u64 = 16;

/// Running sums over the tables.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Totals {
    pub stored_bytes: u64,
    pub omap_bytes: u64,
    /// Upper bound of a checkpoint's stream.
    pub checkpoint_bytes: u64,
}

/// Objects, omap entries and placement groups' tables.
#[derive(Default, Debug)]
pub(crate) struct State {
    pub objects: Table<Onode>,
    pub omap: Table<Value>,
    pub pgs: Table<Value>,
    pub next_omap_id: u64,
    pub totals: Totals,
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
    key.len() as u64 + ENTRY_BYTES + Onode::encoded_bytes_max(onode.blocks.block_count()) + attrs + header
}

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
                let stat = Arc::make_mut(&mut self.object(object).stat);
                let old = stat.attrs.insert(name, Bytes::copy_from_slice(value));
                let gone = old.map_or(0, |old| attr_bytes(name, &old));
                self.totals.checkpoint_bytes += attr_bytes(name, value);
                self.totals.checkpoint_bytes -= gone;
            }
            Redo::RemoveAttr { object, name } => {
                let onode = self.object(object);
                if onode.stat.attrs.contains_key(name) {
                    let old = Arc::make_mut(&mut onode.stat).attrs.remove(name).expect("just seen");
                    self.totals.checkpoint_bytes -= attr_bytes(name, &old);
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
                let onode = self.object(object);
                if let Some(omap) = onode.omap.take() {
                    Arc::make_mut(&mut onode.stat).has_omap = false;
                    self.drop_omap(&omap);
                }
            }
            Redo::OmapSetHeader { object, header } => {
                let head = self.omap_head(object);
                let old = std::mem::replace(&mut head.header, Bytes::copy_from_slice(header));
                self.totals.checkpoint_bytes += header.len() as u64;
                self.totals.checkpoint_bytes -= old.len() as u64;
            }
            Redo::Clone { from, to } => self.clone_object(from, to, freed),
            Redo::PgSet { pg, key, value } => self.insert_pg(pg_key(*pg, key), (**value).into()),
            Redo::PgRemove { pg, key } => {
                let key = pg_key(*pg, key);
                if let Some(value) = self.pgs.remove(&key) {
                    self.totals.checkpoint_bytes -= entry_bytes(&key, &value);
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

    /// The object to change, made if absent.
    fn object(&mut self, key: &[u8]) -> &mut Onode {
        if !self.objects.contains(key) {
            let onode = Onode::default();
            self.totals.checkpoint_bytes += onode_bytes(key, &onode);
            self.objects.insert(key.into(), onode);
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
        }
    }

    fn map(&mut self, key: &[u8], size: u64, first: u32, runs: &[Run], crcs: &[u32], freed: &mut Vec<Run>) {
        let onode = self.object(key);
        let old_size = onode.size();
        if old_size != size {
            Arc::make_mut(&mut onode.stat).size_bytes = size;
        }
        let (mut at, mut crcs, mut replaced, mut added) = (first, crcs, Vec::new(), 0u64);
        for run in runs {
            let (head, tail) = crcs.split_at(run.count as usize);
            onode.blocks.map(at, run_blocks(*run, head), |old| {
                added = added.wrapping_sub(1);
                push_run(&mut replaced, Run { start: old.device, count: 1 });
            });
            added = added.wrapping_add(run.count.into());
            (at, crcs) = (at + run.count, tail);
        }
        self.totals.stored_bytes = self.totals.stored_bytes - old_size + size;
        // Of the blocks put there only those on former holes take more room in a checkpoint.
        self.totals.checkpoint_bytes += Onode::encoded_bytes_max(added) - Onode::encoded_bytes_max(0);
        self.drop_blocks(&replaced, freed);
    }

    fn unmap(&mut self, key: &[u8], first: u32, end: u64, freed: &mut Vec<Run>) {
        let Some(onode) = self.objects.get_mut(key) else { return };
        let (mut removed, mut count) = (Vec::new(), 0);
        onode.blocks.unmap(first, end, |old| {
            count += 1;
            push_run(&mut removed, Run { start: old.device, count: 1 });
        });
        self.totals.checkpoint_bytes -= Onode::encoded_bytes_max(count) - Onode::encoded_bytes_max(0);
        self.drop_blocks(&removed, freed);
    }

    fn drop_blocks(&mut self, runs: &[Run], freed: &mut Vec<Run>) {
        if let Some(shared) = &mut self.shared {
            runs.iter().for_each(|run| shared.drop_run(*run, freed));
        }
    }

    fn remove(&mut self, key: &[u8], freed: &mut Vec<Run>) {
        let Some(onode) = self.objects.remove(key) else { return };
        self.totals.stored_bytes -= onode.size();
        self.totals.checkpoint_bytes -= onode_bytes(key, &onode);
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
        self.totals.checkpoint_bytes += onode_bytes(to, &copy);
        self.objects.insert(to.into(), copy);
    }

    fn insert_omap(&mut self, key: Key, value: Value) {
        let key_bytes = key.len();
        self.totals.omap_bytes += (key_bytes - key::OMAP_PREFIX_BYTES + value.len()) as u64;
        self.totals.checkpoint_bytes += entry_bytes(&key, &value);
        if let Some(old) = self.omap.insert(key, value) {
            self.totals.omap_bytes -= (key_bytes - key::OMAP_PREFIX_BYTES + old.len()) as u64;
            self.totals.checkpoint_bytes -= (key_bytes + old.len()) as u64 + ENTRY_BYTES;
        }
    }

    fn omap_gone(&mut self, key: &[u8], value: &[u8]) {
        self.totals.omap_bytes -= (key.len() - key::OMAP_PREFIX_BYTES + value.len()) as u64;
        self.totals.checkpoint_bytes -= entry_bytes(key, value);
    }

    fn remove_omap_range(&mut self, begin: &[u8], end: &[u8]) {
        let (mut bytes, mut entries) = (0, 0);
        self.omap.remove_range(begin, Some(end), |key, value| {
            bytes += (key.len() - key::OMAP_PREFIX_BYTES + value.len()) as u64;
            entries += entry_bytes(key, &value);
        });
        self.totals.omap_bytes -= bytes;
        self.totals.checkpoint_bytes -= entries;
    }

    /// Removes the entries and accounts for the header of an omap that left its object.
    fn drop_omap(&mut self, omap: &OmapHead) {
        self.totals.checkpoint_bytes -= omap.header.len() as u64;
        self.remove_omap_range(&omap_key(omap.id, &[]), &omap_key(omap.id + 1, &[]));
    }

    fn insert_pg(&mut self, key: Key, value: Value) {
        let key_bytes = key.len() as u64;
        self.totals.checkpoint_bytes += entry_bytes(&key, &value);
        if let Some(old) = self.pgs.insert(key, value) {
            self.totals.checkpoint_bytes -= key_bytes + old.len() as u64 + ENTRY_BYTES;
        }
    }

    fn remove_pg_range(&mut self, begin: &[u8], end: Option<&[u8]>) {
        let mut bytes = 0;
        self.pgs.remove_range(begin, end, |key, value| bytes += entry_bytes(key, &value));
        self.totals.checkpoint_bytes -= bytes;
    }

    // ---- checkpoints ----

    /// Begins to capture all tables as they are now.
    pub fn begin_capture(&mut self) -> Capture {
        self.pgs.begin_capture();
        self.objects.begin_capture();
        self.omap.begin_capture();
        Capture::Pgs
    }

    /// Appends captured entries to `out` until it holds `until` bytes or all are there. Each entry is its length (4),
    /// its table (1: groups 1, objects 2, omap 3), its key behind its length, its value.
    pub fn capture_next(&mut self, capture: &mut Capture, out: &mut Vec<u8>, until: usize) {
        fn entry(out: &mut Vec<u8>, table: u8, key: &[u8], value: impl FnOnce(&mut Writer)) {
            let mut w = Writer::onto(std::mem::take(out), Target::default());
            w.sized(|w| {
                w.u8(table);
                w.blob(key);
                value(w);
            });
            *out = w.into_vec();
        }
        while *capture != Capture::Done && out.len() < until {
            *capture = match capture {
                Capture::Pgs => {
                    let done = self.pgs.capture_next(|key, value| {
                        entry(out, 1, key, |w| w.raw(value));
                        out.len() < until
                    });
                    if done { Capture::Objects } else { Capture::Pgs }
                }
                Capture::Objects => {
                    let done = self.objects.capture_next(|key, onode| {
                        entry(out, 2, key, |w| onode.encode(w));
                        out.len() < until
                    });
                    if done { Capture::Omap } else { Capture::Objects }
                }
                Capture::Omap => {
                    let done = self.omap.capture_next(|key, value| {
                        entry(out, 3, key, |w| w.raw(value));
                        out.len() < until
                    });
                    if done { Capture::Done } else { Capture::Omap }
                }
                Capture::Done => Capture::Done,
            };
        }
    }

    /// Takes in one entry of a checkpoint, without its length.
    pub fn restore(&mut self, entry: &[u8]) -> Result<(), DecodeError> {
        let mut r = Reader::new(entry);
        let (table, key) = (r.u8()?, r.blob()?);
        match table {
            1 => {
                key::pg_of(key).ok_or(DecodeError::Value { what: "key of a group", value: key.len() as u64 })?;
                self.insert_pg(key.into(), r.peek().into());
            }
            2 => {
                key::decode_object(key)?;
                let onode = Onode::decode(&mut r)?;
                self.totals.stored_bytes += onode.size();
                self.totals.checkpoint_bytes += onode_bytes(key, &onode);
                self.objects.insert(key.into(), onode);
            }
            3 if key.len() >= key::OMAP_PREFIX_BYTES => self.insert_omap(key.into(), r.peek().into()),
            other => return Err(DecodeError::Value { what: "table of an entry", value: other.into() }),
        }
        Ok(())
    }
}

/// How far a capture has come: the table it is in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Capture {
    Pgs,
    Objects,
    Omap,
    Done,
}
