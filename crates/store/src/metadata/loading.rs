//! Metadata that steps and lookups need in memory, and its way there.

use crate::btree::{self, Cursor, Damage, DamageKind, Fetch, Overlay, ReadId, View};
use crate::config::BLOCK;
use crate::disk::key::{behind_prefix, omap_key};
use crate::disk::redo::Redo;
use crate::disk::tree_key::{TABLE_BYTES, TableId, parse_segment_key, segment_key, tree_key};
use crate::metadata::block_map::{SEGMENTS_END, segments_of};
use crate::metadata::jobs::OmapCopy;
use crate::metadata::onode::Onode;
use crate::metadata::state::State;
use bytes::Bytes;
use wire::Reader;

/// Something that must be in memory before a step is applied.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Need<'a> {
    /// Size, attributes and omap head of an object, or the knowledge that it is absent.
    Head(&'a [u8]),
    /// An object's head, and the places of its blocks `first .. end` if it exists.
    Blocks { object: &'a [u8], first: u32, end: u64 },
    /// The head of an object that loses the blocks `first .. end`, and the places of these blocks; if they are too
    /// many, the places of the first and the last of them.
    Cut { object: &'a [u8], first: u32, end: u64 },
    /// Everything of an object that is to be copied, including the omap entries that are in the tree.
    Copy(&'a [u8]),
}

impl<'a> Need<'a> {
    pub fn removal(object: &'a [u8]) -> Need<'a> {
        Need::Cut { object, first: 0, end: u64::MAX }
    }

    pub fn object(&self) -> &'a [u8] {
        match self {
            Need::Head(object) | Need::Copy(object) | Need::Blocks { object, .. } | Need::Cut { object, .. } => object,
        }
    }

    /// Returns this need for another object.
    pub fn of<'b>(&self, object: &'b [u8]) -> Need<'b> {
        match *self {
            Need::Head(_) => Need::Head(object),
            Need::Copy(_) => Need::Copy(object),
            Need::Blocks { first, end, .. } => Need::Blocks { object, first, end },
            Need::Cut { first, end, .. } => Need::Cut { object, first, end },
        }
    }

    /// Returns the need of a new size: the blocks behind it, and the block that contains it.
    pub fn behind(object: &'a [u8], size: u64) -> Need<'a> {
        match u32::try_from(size / BLOCK) {
            Ok(first) => Need::Cut { object, first, end: u64::MAX },
            Err(_) => Need::Head(object),
        }
    }

    /// Passes the needs of a step of the log to `each`.
    pub fn of_redo(redo: &'a Redo, each: &mut impl FnMut(Need<'a>)) {
        match redo {
            Redo::Touch { object }
            | Redo::SetAttr { object, .. }
            | Redo::RemoveAttr { object, .. }
            | Redo::OmapSet { object, .. }
            | Redo::OmapRemove { object, .. }
            | Redo::OmapRemoveRange { object, .. }
            | Redo::OmapClear { object }
            | Redo::OmapSetHeader { object, .. }
            | Redo::Inline { object, .. }
            // A replay does not need to know which blocks become free.
            | Redo::Remove { object } => each(Need::Head(object)),
            Redo::Map { object, first, crcs, .. } => {
                each(Need::Blocks { object, first: *first, end: u64::from(*first) + crcs.len() as u64 });
            }
            Redo::Unmap { object, first, end } => {
                each(Need::Cut { object, first: *first, end: u64::from(*end) });
            }
            Redo::Resize { object, size } => each(Need::behind(object, *size)),
            Redo::Clone { from, to } => {
                each(Need::Copy(from));
                each(Need::Head(to));
            }
            Redo::CloneRange { from, to, from_first, to_first, count, .. } => {
                let of = |object, first: &u32| Need::Blocks {
                    object,
                    first: *first,
                    end: u64::from(*first) + u64::from(*count),
                };
                each(of(from, from_first));
                each(of(to, to_first));
            }
            Redo::CloneCopied { from, of } => {
                each(match of.segments {
                    true => Need::Head(from),
                    false => Need::Blocks { object: from, first: 0, end: u64::MAX },
                });
                each(Need::Head(&of.to));
            }
            Redo::DropCopy { .. }
            | Redo::OmapIds { .. }
            | Redo::PgSet { .. }
            | Redo::PgRemove { .. }
            | Redo::PgRemoveRange { .. }
            | Redo::PgDestroy { .. } => {}
        }
    }
}

/// Number of segments taken in at a time.
const SEGMENTS: usize = 1024;
/// Number of omap entries taken in at a time, and their bytes.
const OMAP_ENTRIES: usize = 1024;
const OMAP_BYTES: usize = 1 << 20;

impl OmapCopy {
    fn new(id: u64, root: Option<btree::Root>) -> OmapCopy {
        let (mut begin, mut end) = (Vec::new(), Vec::new());
        tree_key(TableId::Omap, &omap_key(id, &[]), &mut begin);
        tree_key(TableId::Omap, &omap_key(id + 1, &[]), &mut end);
        OmapCopy { root, cursor: Cursor::new(&begin, Some(&end), true), entries: Vec::new(), is_whole: false }
    }
}

impl State {
    pub fn view(&mut self) -> View<'_> {
        View { root: self.root, overlay: &self.overlay, cache: &mut self.cache }
    }

    /// Returns the damage of a malformed entry under a good checksum.
    pub fn malformed(&self, what: &'static str) -> Damage {
        let run = self.root.map_or(btree::Run { start: 0, count: 0 }, |root| root.page().run());
        Damage { run, kind: DamageKind::Structure(what) }
    }

    /// Brings a need into memory, as far as that is possible without waiting.
    pub fn load(&mut self, need: Need<'_>) -> Result<Fetch<()>, Damage> {
        match need {
            Need::Head(object) => self.load_head(object),
            Need::Blocks { object, first, end } => self.load_blocks(object, first, end),
            Need::Cut { object, first, end } => self.load_cut(object, first, end),
            Need::Copy(object) => match self.load_blocks(object, 0, u64::MAX)? {
                Fetch::Ready(()) => self.load_omap_copy(object),
                pending => Ok(pending),
            },
        }
    }

    pub fn load_head(&mut self, object: &[u8]) -> Result<Fetch<()>, Damage> {
        if !self.damaged.is_empty()
            && let Some(damage) = self.damaged.get(object)
        {
            return Err(damage.clone());
        }
        if self.onodes.find_counted(object).is_some() {
            return Ok(Fetch::Ready(()));
        }
        let mut key = Vec::new();
        let found = match self.view().get(tree_key(TableId::Objects, object, &mut key))? {
            Fetch::Pending(id) => return Ok(Fetch::Pending(id)),
            Fetch::Ready(found) => found,
        };
        let onode = found.map(|record| Onode::decode_head(&mut Reader::new(&record))).transpose();
        let onode = onode.map_err(|_| self.malformed("object record"))?;
        self.onodes.insert(object, onode);
        Ok(Fetch::Ready(()))
    }

    fn load_cut(&mut self, object: &[u8], first: u32, end: u64) -> Result<Fetch<()>, Damage> {
        if let Fetch::Pending(id) = self.load_head(object)? {
            return Ok(Fetch::Pending(id));
        }
        let Some(onode) = self.known(object) else { return Ok(Fetch::Ready(())) };
        let end = end.min(onode.size().div_ceil(BLOCK));
        if end <= u64::from(first) {
            // Steps before this one may extend the object.
            return self.load_blocks(object, first, u64::from(first) + 1);
        }
        let (begin, behind) = segments_of(first, end);
        if (behind - begin) as usize <= self.segments_at_once {
            return self.load_blocks(object, first, end);
        }
        let at_begin = self.load_blocks(object, first, u64::from(first) + 1)?;
        // Both ends are asked for at once.
        match self.load_blocks(object, (end - 1) as u32, end)? {
            Fetch::Ready(()) => Ok(at_begin),
            pending => Ok(pending),
        }
    }

    pub fn load_blocks(&mut self, object: &[u8], first: u32, end: u64) -> Result<Fetch<()>, Damage> {
        if let Fetch::Pending(id) = self.load_head(object)? {
            return Ok(Fetch::Pending(id));
        }
        let id = self.onodes.find(object).expect("just loaded");
        let unknown = |state: &State| state.onodes.onode(id).and_then(|onode| onode.blocks.first_unknown(first, end));
        while let Some((begin, behind)) = unknown(self) {
            if let Some(read) = self.load_segments(object, begin, behind)? {
                return Ok(Fetch::Pending(read));
            }
        }
        Ok(Fetch::Ready(()))
    }

    /// Takes in some of the segments `begin .. end`, none of which is known, or returns the read to wait for.
    fn load_segments(&mut self, object: &[u8], begin: u32, end: u32) -> Result<Option<ReadId>, Damage> {
        let mut first = Vec::new();
        segment_key(object, begin, &mut first);
        if begin + 1 == end {
            return match self.view().get(&first)? {
                Fetch::Pending(id) => Ok(Some(id)),
                Fetch::Ready(record) => {
                    self.take_segments(object, begin, end, record.map(|r| (begin, r))).map(|()| None)
                }
            };
        }
        let mut behind = Vec::new();
        if end < SEGMENTS_END {
            segment_key(object, end, &mut behind);
        } else {
            let key = tree_key(TableId::Segments, object, &mut behind);
            behind = behind_prefix(key).expect("a table's number is below 255").to_vec();
        }
        let page = match Cursor::new(&first, Some(&behind), true).next_page(&mut self.view(), SEGMENTS, usize::MAX)? {
            Fetch::Pending(id) => return Ok(Some(id)),
            Fetch::Ready(page) => page,
        };
        let numbered =
            |(key, record): (Bytes, Bytes)| parse_segment_key(&key[TABLE_BYTES..]).map(|(_, index)| (index, record));
        let records: Option<Vec<(u32, Bytes)>> = page.entries.into_iter().map(numbered).collect();
        let records = records.ok_or_else(|| self.malformed("segment's key"))?;
        let known = match records.last() {
            Some((last, _)) if !page.done => last + 1,
            _ => end,
        };
        self.take_segments(object, begin, known, records)?;
        Ok(None)
    }

    /// Takes in the records of the segments `begin .. end`; segments without a record are holes.
    fn take_segments(
        &mut self,
        object: &[u8],
        begin: u32,
        end: u32,
        records: impl IntoIterator<Item = (u32, Bytes)>,
    ) -> Result<(), Damage> {
        let id = self.onodes.find(object).expect("its head is loaded");
        let onode = self.onodes.onode_mut(id).as_mut().expect("an object that is there");
        let sound = records.into_iter().try_for_each(|(index, record)| onode.blocks.restore_segment(index, &record));
        if sound.is_ok() {
            onode.blocks.learn(begin, end);
        }
        self.onodes.recount(id);
        sound.map_err(|_| self.malformed("segment of blocks"))
    }

    /// Reads the entries of an object's omap that are in the tree. Those in the overlay are in memory anyway.
    fn load_omap_copy(&mut self, object: &[u8]) -> Result<Fetch<()>, Damage> {
        let Some(omap) = self.known(object).and_then(|onode| onode.omap.as_ref()) else { return Ok(Fetch::Ready(())) };
        let (id, root) = (omap.id, self.root);
        let copy = self.omap_copies.entry(id).or_insert_with(|| OmapCopy::new(id, root));
        if copy.root != root {
            // Changes that were in memory when the copy was begun are in the tree now.
            *copy = OmapCopy::new(id, root);
        }
        let nothing = Overlay::default();
        while !copy.is_whole {
            let view = &mut View { root, overlay: &nothing, cache: &mut self.cache };
            match copy.cursor.next_page(view, OMAP_ENTRIES, OMAP_BYTES)? {
                Fetch::Pending(id) => return Ok(Fetch::Pending(id)),
                Fetch::Ready(page) => {
                    copy.is_whole = page.done;
                    copy.entries.extend(page.entries);
                }
            }
        }
        Ok(Fetch::Ready(()))
    }
}
