//! Groups that were destroyed: their objects are gone at once; what they held is found bit by bit.
//!
//! Lookups no longer see the objects, since their range of keys is erased. Their sizes, omaps and blocks are in the records
//! as of that moment: those of the tree, overridden by those that the overlay had then. Until all of them are seen, no
//! checkpoint begins, as it would take them out of the tree; one that was under way may end, for it changes nothing of
//! what tree and overlay said together.

use crate::Store;
use crate::allocator::Run;
use crate::block_map::BlockMap;
use crate::btree::{Cursor, CursorPage, Damage, Fetch, Overlay, ReadId, View};
use crate::onode::Onode;
use crate::state::State;
use crate::tree_key::{TableId, tree_key};
use wire::Reader;

/// Entries taken in at a time, and their bytes.
const ENTRIES: usize = 200;
const ENTRY_BYTES: usize = 256 << 10;

#[derive(Debug)]
pub(crate) struct Destroying {
    /// What was not in the tree.
    changes: Overlay,
    /// `None`: all are seen.
    heads: Option<Cursor>,
    segments: Option<Cursor>,
}

impl Destroying {
    /// The objects of `begin .. end`, before they are erased. `find_blocks`: whether their blocks are wanted.
    pub fn new(overlay: &Overlay, begin: &[u8], end: &[u8], find_blocks: bool) -> Destroying {
        let range = |table: TableId| {
            let (mut first, mut behind) = (Vec::new(), Vec::new());
            tree_key(table, begin, &mut first);
            tree_key(table, end, &mut behind);
            (first, behind)
        };
        let (heads, segments) = (range(TableId::Objects), range(TableId::Segments));
        Destroying {
            changes: overlay.copy_ranges(&[(&heads.0, &heads.1), (&segments.0, &segments.1)]),
            heads: Some(Cursor::new(&heads.0, Some(&heads.1), true)),
            segments: find_blocks.then(|| Cursor::new(&segments.0, Some(&segments.1), true)),
        }
    }
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
    /// Looks at some more of what destroyed groups held: blocks that nothing holds any longer go to `freed`.
    pub fn destroy_some(&mut self, freed: &mut Vec<Run>) -> Destroyed {
        let Some(mut job) = self.destroying.pop_front() else { return Destroyed::All };
        let is_heads = job.heads.is_some();
        let cursor = if is_heads { &mut job.heads } else { &mut job.segments };
        let Some(at) = cursor else { return if self.destroying.is_empty() { Destroyed::All } else { Destroyed::Some } };
        let view = &mut View { root: self.root, overlay: &job.changes, cache: &mut self.cache };
        let result = match at.next_page(view, ENTRIES, ENTRY_BYTES) {
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
                tracing::warn!(%damage, "metadata of a destroyed group is damaged: some blocks stay unused until the store is opened again");
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
        for (_, record) in &page.entries {
            let onode = Onode::decode_head(&mut Reader::new(record)).map_err(|_| self.malformed("object record"))?;
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
}

/// Slices of work per turn; more when the log is so full that commits may soon have to wait for the next checkpoint.
const SLICES: usize = 2;
const HURRIED_SLICES: usize = 20;

impl Store {
    /// Does this turn's part of looking at what destroyed groups held. What is found free is freed by a record that is not
    /// before the one which destroyed the group.
    pub(crate) fn look_at_destroyed(&mut self) {
        if self.state.destroying.is_empty() {
            return;
        }
        let hurried = self.wal.used_bytes() > self.wal.bytes() / 2;
        let mut freed = Vec::new();
        for _ in 0..if hurried { HURRIED_SLICES } else { SLICES } {
            if self.state.destroy_some(&mut freed) != Destroyed::Some {
                break;
            }
        }
        self.data_blocks -= freed.iter().map(|run| u64::from(run.count)).sum::<u64>();
        self.turns.found_free.extend(freed);
    }
}
