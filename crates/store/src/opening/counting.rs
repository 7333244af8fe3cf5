//! The count at an opening: all metadata is looked at once, to learn which blocks are free and which have several
//! holders.
//!
//! Nothing that is read is kept. Tables pass by in the order of their keys; of each group's table only the first entry
//! is read.

use crate::OpenError;
use crate::btree::{self, Cursor, CursorPage, Fetch};
use crate::disk::copies::CopyOf;
use crate::disk::key::{self, behind_prefix, pg_key};
use crate::disk::totals::TreeTotals;
use crate::disk::tree_key::{TABLE_BYTES, TableId, tree_key};
use crate::metadata::block_map::BlockMap;
use crate::metadata::onode::Onode;
use crate::metadata::state::{State, Totals};
use crate::opening::losses::Loss;
use crate::opening::tree_loading::open_error;
use crate::space::allocator::Allocator;
use crate::space::run::{Run, push_run};
use crate::space::shared_blocks::SharedBlocks;
use std::collections::BTreeSet;
use types::PgId;
use wire::{DecodeError, Reader};

/// Number of entries looked at a time, and their bytes.
const ENTRIES: usize = 1000;
const ENTRY_BYTES: usize = 1 << 20;

/// Sums that were counted entry by entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Counted {
    pub objects: i64,
    pub stored_bytes: i64,
    omap_entries: u64,
    omap_bytes: i64,
}

impl Counted {
    pub fn totals(&self) -> Totals {
        Totals { objects: self.objects, stored_bytes: self.stored_bytes, omap_bytes: self.omap_bytes }
    }

    /// Returns the sums in the form that a root has.
    pub fn of_tree(&self, data_blocks: u64) -> TreeTotals {
        TreeTotals {
            objects: self.objects as u64,
            stored_bytes: self.stored_bytes as u64,
            omap_entries: self.omap_entries,
            omap_bytes: self.omap_bytes as u64,
            data_blocks,
        }
    }
}

#[derive(Debug)]
pub(crate) struct Counting {
    pub allocator: Allocator,
    /// Free blocks of the tree's own device, if it has one.
    pub own: Option<Allocator>,
    pub shared: SharedBlocks,
    /// `None`: the sums are known.
    pub totals: Option<Counted>,
    pub groups: BTreeSet<PgId>,
    /// Parts of the metadata that could not be read.
    pub losses: Vec<Loss>,
    /// Copies that no clone took.
    pub copies: Vec<CopyOf>,
    /// Number of blocks that objects hold.
    pub data_blocks: u64,
    /// The data area.
    data: Run,
    /// The table being looked at; `None`: all are done.
    table: Option<TableId>,
    cursor: Cursor,
}

fn table_cursor(table: TableId, with_values: bool) -> Cursor {
    Cursor::new(&[table as u8], Some(&[table as u8 + 1]), with_values)
}

impl Counting {
    /// Creates a count at its beginning; in `allocator` all of `data` must be free. `sum_up`: true if tables that
    /// matter for sums only are looked at too.
    pub fn new(allocator: Allocator, data: Run, sum_up: bool) -> Counting {
        Counting {
            allocator,
            own: None,
            shared: SharedBlocks::default(),
            totals: sum_up.then(Counted::default),
            groups: BTreeSet::new(),
            losses: Vec::new(),
            copies: Vec::new(),
            data_blocks: 0,
            data,
            table: Some(TableId::Pgs),
            cursor: table_cursor(TableId::Pgs, false),
        }
    }

    /// Takes the blocks of the tree, and returns their number. `own`: the space for the tree on its own device, if it
    /// has one. Errors: blocks outside of that space, or in use already.
    pub fn take_tree(&mut self, runs: &[Run], own: Option<Run>) -> Result<u64, OpenError> {
        self.own = own.map(|space| {
            let mut allocator = Allocator::new(space.end());
            allocator.release(space);
            allocator
        });
        let space = own.unwrap_or(self.data);
        let allocator = self.own.as_mut().unwrap_or(&mut self.allocator);
        let mut blocks = 0;
        for run in runs {
            let inside = run.start >= space.start && run.end() <= space.end();
            if !inside || !(run.start..run.end()).all(|block| allocator.is_free(block)) {
                return Err(OpenError::DamagedSpace { start: run.start, end: run.end() });
            }
            allocator.take(*run);
            blocks += u64::from(run.count);
        }
        allocator.settle();
        Ok(blocks)
    }

    /// Goes on as far as the pages in memory allow. Returns true if all is done.
    pub fn advance(&mut self, state: &mut State) -> Result<bool, OpenError> {
        while let Some(table) = self.table {
            let entries = if table == TableId::Pgs { 1 } else { ENTRIES };
            let page = match self.cursor.next_page(&mut state.view(), entries, ENTRY_BYTES) {
                Ok(Fetch::Ready(page)) => page,
                Ok(Fetch::Pending(_)) => return Ok(false),
                Err(damage) => {
                    let (from, until) = self.cursor.skip_lost();
                    if from.is_empty() && until.is_none() {
                        // The damaged page is the topmost page, a leaf.
                        return Err(open_error(damage));
                    }
                    self.losses.push(btree::Lost { damage, from, until }.into());
                    continue;
                }
            };
            self.count(table, &page)?;
            let next = match table {
                _ if !page.done => table,
                TableId::Pgs if self.totals.is_some() => TableId::Objects,
                TableId::Pgs => TableId::Segments,
                TableId::Objects => TableId::Omap,
                TableId::Omap => TableId::Segments,
                TableId::Segments => TableId::Copies,
                TableId::Copies | TableId::Snaps => {
                    self.table = None;
                    break;
                }
            };
            if next != table {
                self.table = Some(next);
                self.cursor = table_cursor(next, true);
            }
        }
        Ok(true)
    }

    fn count(&mut self, table: TableId, page: &CursorPage) -> Result<(), OpenError> {
        for (key, value) in &page.entries {
            let key = &key[TABLE_BYTES..];
            match table {
                TableId::Pgs => {
                    let malformed = DecodeError::Value { what: "key of a group's table", value: key.len() as u64 };
                    let pg = key::pg_of(key).ok_or(OpenError::CheckpointEntry(malformed))?;
                    self.groups.insert(pg);
                    // The first entry of a group is enough.
                    let (mut begin, end) = (Vec::new(), [TableId::Pgs as u8 + 1]);
                    let behind = behind_prefix(&pg_key(pg, &[]));
                    let begin = match &behind {
                        Some(behind) => tree_key(TableId::Pgs, behind, &mut begin),
                        None => &end,
                    };
                    self.cursor = Cursor::new(begin, Some(&end), false);
                }
                TableId::Objects => {
                    key::decode_object(key).map_err(OpenError::CheckpointEntry)?;
                    let onode = Onode::decode_head(&mut Reader::new(value)).map_err(OpenError::CheckpointEntry)?;
                    let totals = self.totals.as_mut().expect("sums are wanted");
                    totals.objects += 1;
                    totals.stored_bytes += onode.size() as i64;
                }
                TableId::Omap => {
                    let totals = self.totals.as_mut().expect("sums are wanted");
                    totals.omap_entries += 1;
                    totals.omap_bytes += (key.len().saturating_sub(key::OMAP_PREFIX_BYTES) + value.len()) as i64;
                }
                TableId::Segments => {
                    let mut map = BlockMap::default();
                    map.restore_segment(0, value).map_err(OpenError::CheckpointEntry)?;
                    for (_, run) in map.runs(0, u64::MAX) {
                        self.claim(run)?;
                    }
                }
                TableId::Copies => {
                    let of = CopyOf::decode(key, value).map_err(OpenError::CheckpointEntry)?;
                    self.copies.push(of);
                }
                TableId::Snaps => {}
            }
        }
        Ok(())
    }

    fn claim(&mut self, run: Run) -> Result<(), OpenError> {
        if run.start < self.data.start || run.end() > self.data.end() {
            return Err(OpenError::DamagedSpace { start: run.start, end: run.end() });
        }
        let mut again = Vec::new();
        for block in run.start..run.end() {
            let one = Run { start: block, count: 1 };
            if self.allocator.is_free(block) {
                self.allocator.take(one);
                self.data_blocks += 1;
            } else {
                push_run(&mut again, one);
            }
        }
        again.into_iter().for_each(|run| self.shared.add(run));
        Ok(())
    }
}
