//! Mending: remains of the lost parts of a store's metadata are cleared away, in memory.
//!
//! The lost ranges are hidden, so that nothing of them is left. Objects that may have had a part in them are dropped,
//! since half an object is no object, and so are entries that no longer belong to any object. The overlay holds all of
//! this, above the unchanged tree on the device. A checkpoint writes it; until then nothing has changed.

use crate::OpenError;
use crate::btree::{Cursor, Fetch, Overlay, View};
use crate::config::BLOCK;
use crate::disk::key::{Key, behind_prefix, decode_object, omap_key};
use crate::disk::numbers::OMAP_ID_BYTES;
use crate::disk::tree_key::{TABLE_BYTES, TableId, parse_segment_key, segment_key, tree_key};
use crate::metadata::block_map::SEGMENT_BLOCKS;
use crate::metadata::onode::Onode;
use crate::metadata::state::State;
use crate::opening::losses::Loss;
use crate::opening::tree_loading::open_error;
use crate::{ObjectStat, Store};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use types::ObjectId;
use wire::Reader;

/// An object of which a part is lost.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LostObject {
    pub object: ObjectId,
    /// The content of its record; `None` if that is lost too.
    pub stat: Option<Arc<ObjectStat>>,
}

/// The losses of a store that was opened to be mended. None of these objects exists any longer. The lost ranges may
/// also have held objects whose names are unknown.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Mended {
    /// The lost end of the log: the store is in the state before it.
    pub log: Option<LostLog>,
    /// The reason why the tree of the last checkpoint but one is used. With a whole log behind it, nothing is lost by
    /// that.
    pub tree: Option<Box<OpenError>>,
    pub losses: Vec<Loss>,
    /// Lost objects, in order.
    pub objects: Vec<LostObject>,
}

/// Log records that cannot be used because one of them is missing. All of them may have been acknowledged.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LostLog {
    /// LSN of the first record.
    pub lsn: u64,
    /// LSN of the last record that left a trace.
    pub last_lsn: u64,
    pub why: OpenError,
}

impl Store {
    /// Returns the losses of a store that was opened by [`Store::open_to_mend`], if there are any. A checkpoint makes
    /// the rest a whole store again.
    pub fn mended(&self) -> Option<&Mended> {
        self.mended.as_deref()
    }
}

/// Number of entries looked at a time, and their bytes.
const ENTRIES: usize = 1000;
const ENTRY_BYTES: usize = 1 << 20;

const FITS: &str = "keys that were in the tree";

#[derive(Debug)]
enum MendingPhase {
    /// Looks at objects, one after another, for lost parts.
    Objects(Cursor),
    /// Looks for block maps whose objects' records are lost.
    Segments(Option<Cursor>),
    /// Looks for omap entries whose objects' records are lost, from this key on.
    Omaps(Option<Key>),
    Over,
}

#[derive(Debug)]
pub(crate) struct Mending {
    losses: Vec<Loss>,
    /// Omaps from this id on are newer than the tree.
    next_omap_id: u64,
    phase: MendingPhase,
    /// Objects that were read and not looked at yet.
    page: VecDeque<(Bytes, Bytes)>,
    /// Lost ranges of objects' records, for the second phase.
    headless: VecDeque<(Key, Option<Key>)>,
    /// True if entries of the table of copies may be lost ([`crate::metadata::copying`]), so that all segments have to
    /// be looked at.
    copies_are_lost: bool,
    looks_for_copies: bool,
    /// Ids of the omaps that objects have.
    omaps: BTreeSet<u64>,
    lost: BTreeMap<Key, Option<Arc<ObjectStat>>>,
}

fn table_range(table: TableId, begin: &[u8], end: Option<&[u8]>) -> (Vec<u8>, Vec<u8>) {
    let (mut first, mut behind) = (Vec::new(), Vec::new());
    tree_key(table, begin, &mut first);
    match end {
        Some(end) => drop(tree_key(table, end, &mut behind)),
        None => behind.push(table as u8 + 1),
    }
    (first, behind)
}

fn table_cursor(table: TableId, begin: &[u8], end: Option<&[u8]>, with_values: bool) -> Cursor {
    let (first, behind) = table_range(table, begin, end);
    Cursor::new(&first, Some(&behind), with_values)
}

fn delete(overlay: &mut Overlay, table: TableId, begin: &[u8], end: Option<&[u8]>) {
    let (first, behind) = table_range(table, begin, end);
    overlay.delete_range(&first, &behind).expect(FITS);
}

fn drop_object(state: &mut State, key: &[u8], omap: Option<u64>) {
    delete(&mut state.overlay, TableId::Objects, key, Some(&[key, &[0]].concat()));
    delete(&mut state.overlay, TableId::Segments, key, behind_prefix(key).as_deref());
    if let Some(id) = omap {
        state.drop_omap(id);
    }
}

impl Mending {
    /// Begins to mend, and hides the lost ranges. `next_omap_id`: as of the tree.
    pub fn new(state: &mut State, losses: Vec<Loss>, next_omap_id: u64) -> Mending {
        for loss in &losses {
            let (from, until) = loss.range();
            state.overlay.hide_tree(from, until).expect(FITS);
        }
        // Objects whose changes could not be replayed are lost, even if they can be read: they are out of date.
        let marked = std::mem::take(&mut state.damaged);
        state.onodes.forget_all();
        state.unlist_all();
        Mending {
            next_omap_id,
            phase: MendingPhase::Objects(table_cursor(TableId::Objects, &[], None, true)),
            page: VecDeque::new(),
            headless: losses.iter().filter_map(|loss| loss.of_table(TableId::Objects)).collect(),
            copies_are_lost: losses.iter().any(|loss| loss.of_table(TableId::Copies).is_some()),
            looks_for_copies: false,
            omaps: BTreeSet::new(),
            lost: marked.into_keys().map(|key| (key, None)).collect(),
            losses,
        }
    }

    pub fn finish(self) -> Result<Mended, OpenError> {
        let object = |(key, stat): (Key, Option<Arc<ObjectStat>>)| {
            decode_object(&key).map(|object| LostObject { object, stat }).map_err(OpenError::CheckpointEntry)
        };
        Ok(Mended {
            log: None,
            tree: None,
            losses: self.losses,
            objects: self.lost.into_iter().map(object).collect::<Result<_, _>>()?,
        })
    }

    /// Goes on as far as the pages in memory allow. Returns true if all is done.
    pub fn advance(&mut self, state: &mut State) -> Result<bool, OpenError> {
        loop {
            let waits = match &mut self.phase {
                MendingPhase::Objects(_) => self.look_at_objects(state)?,
                MendingPhase::Segments(_) => self.look_at_segments(state)?,
                MendingPhase::Omaps(_) => self.look_at_omaps(state)?,
                MendingPhase::Over => return Ok(true),
            };
            if waits {
                return Ok(false);
            }
        }
    }

    /// Looks at the next objects. Returns true if it must wait for a page.
    fn look_at_objects(&mut self, state: &mut State) -> Result<bool, OpenError> {
        let MendingPhase::Objects(cursor) = &mut self.phase else { panic!("{:?}", self.phase) };
        if self.page.is_empty() {
            match cursor.next_page(&mut state.view(), ENTRIES, ENTRY_BYTES).map_err(open_error)? {
                Fetch::Pending(_) => return Ok(true),
                Fetch::Ready(page) if page.entries.is_empty() => self.phase = MendingPhase::Segments(None),
                Fetch::Ready(page) => self.page = page.entries.into(),
            }
        }
        while let Some((tree_key, record)) = self.page.front().cloned() {
            let key: Key = tree_key[TABLE_BYTES..].into();
            let onode = Onode::decode_head(&mut Reader::new(&record)).ok();
            let omap = onode.as_ref().and_then(|onode| onode.omap.as_ref()).map(|omap| omap.id);
            let Some(is_lost) = self.is_lost(state, &key, onode.as_ref()) else { return Ok(true) };
            self.page.pop_front();
            match onode {
                Some(onode) if !is_lost => {
                    self.omaps.extend(omap);
                    state.list_anew(&key, &onode);
                }
                onode => {
                    drop_object(state, &key, omap);
                    self.lost.insert(key, onode.map(|onode| onode.stat));
                }
            }
        }
        Ok(false)
    }

    /// Returns true if a part of an object may be lost; `None` if it must wait for a page.
    fn is_lost(&self, state: &mut State, key: &Key, onode: Option<&Onode>) -> Option<bool> {
        let Some(onode) = onode else { return Some(true) };
        if self.lost.contains_key(key) {
            return Some(true);
        }
        let omap = onode.omap.as_ref().filter(|omap| omap.id < self.next_omap_id);
        if omap.is_some_and(|omap| self.losses.iter().any(|loss| loss.meets_omap(omap.id))) {
            return Some(true);
        }
        let blocks = if onode.inline.is_empty() { onode.size().div_ceil(BLOCK) } else { 0 };
        if blocks == 0 {
            return Some(false);
        }
        let (mut first, mut behind) = (Vec::new(), Vec::new());
        segment_key(key, 0, &mut first);
        segment_key(key, ((blocks - 1) / u64::from(SEGMENT_BLOCKS)) as u32, &mut behind);
        behind.push(0);
        if !self.losses.iter().any(|loss| loss.meets(&first, &behind)) {
            return Some(false);
        }
        // An object that the tree does not have is newer than the tree, and so is its block map.
        let nothing = Overlay::default();
        let view = &mut View { root: state.root, overlay: &nothing, cache: &mut state.cache };
        match view.get(tree_key(TableId::Objects, key, &mut first)) {
            Ok(Fetch::Pending(_)) => None,
            // An object that is not in the tree has segments in it all the same, if it took a copy of another object.
            Ok(Fetch::Ready(record)) => Some(record.is_some() || state.copies_taken.contains(key)),
            Err(_) => Some(true),
        }
    }

    fn look_at_segments(&mut self, state: &mut State) -> Result<bool, OpenError> {
        let MendingPhase::Segments(cursor) = &mut self.phase else { panic!("{:?}", self.phase) };
        let Some(at) = cursor else {
            match self.headless.pop_front() {
                Some((from, until)) => {
                    *cursor = Some(table_cursor(TableId::Segments, &from, until.as_deref(), false));
                }
                None if self.copies_are_lost && !self.looks_for_copies => {
                    self.looks_for_copies = true;
                    *cursor = Some(table_cursor(TableId::Segments, &[], None, false));
                }
                None => {
                    let any = self.losses.iter().any(|loss| loss.of_table(TableId::Objects).is_some());
                    self.phase = MendingPhase::Omaps((any || self.copies_are_lost).then(Key::default));
                }
            }
            return Ok(false);
        };
        let page = match at.next_page(&mut state.view(), ENTRIES, ENTRY_BYTES).map_err(open_error)? {
            Fetch::Pending(_) => return Ok(true),
            Fetch::Ready(page) => page,
        };
        if page.entries.is_empty() {
            *cursor = None;
        }
        let mut last = None;
        for (key, _) in &page.entries {
            let Some((object, _)) = parse_segment_key(&key[TABLE_BYTES..]).filter(|(object, _)| last != Some(*object))
            else {
                continue;
            };
            last = Some(object);
            let mut head = Vec::new();
            // Everything that exists in a hidden range is in memory.
            match state.view().get(tree_key(TableId::Objects, object, &mut head)) {
                Ok(Fetch::Ready(Some(_))) => {}
                Ok(Fetch::Ready(None)) => {
                    drop_object(state, object, None);
                    if !self.looks_for_copies {
                        self.lost.entry(object.into()).or_insert(None);
                    }
                }
                Ok(Fetch::Pending(_)) if self.looks_for_copies => {
                    *cursor = Some(table_cursor(TableId::Segments, object, None, false));
                    return Ok(true);
                }
                other => panic!("a hidden record: {other:?}"),
            }
        }
        Ok(false)
    }

    fn look_at_omaps(&mut self, state: &mut State) -> Result<bool, OpenError> {
        let MendingPhase::Omaps(from) = &mut self.phase else { panic!("{:?}", self.phase) };
        let Some(from) = from.take() else {
            self.phase = MendingPhase::Over;
            return Ok(false);
        };
        let found = table_cursor(TableId::Omap, &from, None, false).next_page(&mut state.view(), 1, usize::MAX);
        let Fetch::Ready(page) = found.map_err(open_error)? else {
            self.phase = MendingPhase::Omaps(Some(from));
            return Ok(true);
        };
        let Some((key, _)) = page.entries.first() else { return Ok(false) };
        let Some(id) = key
            .get(TABLE_BYTES..TABLE_BYTES + OMAP_ID_BYTES)
            .map(|id| id.iter().fold(0u64, |id, byte| id << 8 | u64::from(*byte)))
        else {
            return Err(open_error(state.malformed("omap entry's key")));
        };
        if !self.omaps.contains(&id) {
            state.drop_omap(id);
        }
        self.phase = MendingPhase::Omaps(Some(omap_key(id.saturating_add(1), &[])));
        Ok(false)
    }
}
