//! Merges the frozen changes of an overlay into a new tree, in slices.
//!
//! The merge walks the old tree in key order. It *opens* the pages that changes touch: their entries (or children) go
//! through builders, one per level, which cut new pages; an opened page is free once the new tree counts. A page
//! without changes is passed on as it is, and a whole subtree by one reference. Before passing something on, the merge
//! ends the pages that it began at lower levels; if one of them would be underfull, it opens the subtree instead, which
//! then joins that page. As a result small pages vanish, an overflowing leaf shares with its neighbours before it is
//! split (random insertions leave leaves about 80 % full instead of 69 %), and a tree whose root would have one child
//! loses a level. The merge never depends on pages without changes: it passes on those that cannot be read.

use super::child::{Child, PageRef, Root};
use super::damage::Damage;
use super::drops::Drops;
use super::leaf_merge::LeafMerge;
use super::level_builder::LevelBuilder;
use super::merge_ahead::{Ahead, read_ahead};
use super::overlay::{Generation, Overlay, Record, RecordIter};
use super::page::Page;
use super::page_cache::{Fetch, PageCache, ReadId, Use};
use super::page_writer::{BlockWrite, NoSpace, OverflowWriter, PageWriter};
use super::space::Space;
use super::table_changes::TableChanges;
use crate::space::run::{Run, push_run};
use bytes::Bytes;
use std::cmp::Ordering;
use types::BufPool;

/// Number of neighbours without changes that a leaf takes in at once, so that pages need not be split half empty.
const JOINS_MAX: u8 = 2;

// Rough costs of the steps of a merge, in ns.
pub(super) const ENTRY_COST: i64 = 60;
const PASS_COST: i64 = 50;
const OPEN_COST: i64 = 1000;
const PAGE_COST: i64 = 4000;

/// Reasons why a merge cannot go on. The old tree is untouched.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum MergeError {
    /// A needed page is damaged. [`Merge::step`] may be tried again once it can be read
    /// ([`PageCache::forget_failures`]).
    #[error("page of the tree: {0}")]
    Damage(#[from] Damage),
    /// No blocks are left. The caller must call [`Merge::abort`].
    #[error("no space for new pages")]
    NoSpace,
}

impl From<NoSpace> for MergeError {
    fn from(_: NoSpace) -> MergeError {
        MergeError::NoSpace
    }
}

/// A merge's outcome. The new tree counts once all writes and then the root are durable; until then the old tree
/// counts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Merged {
    pub root: Option<Root>,
    /// Blocks of the old tree that the new one does not hold.
    pub freed: Vec<Run>,
    /// Blocks that the new tree holds and the old one did not.
    pub taken: Vec<Run>,
    pub pages_written: u64,
    /// Deleted pages that could not be read. Blocks that only they refer to are in neither list.
    pub damaged: Vec<Damage>,
    /// Entries that the tables of [`Merge::counting`] gained and lost. A tree made anew has gains only, which are all
    /// its entries.
    pub changes: TableChanges,
}

/// State of a merge after a slice of work.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Progress {
    /// The merge can go on at once.
    Working,
    /// The merge can go on when this read is done.
    Waiting(ReadId),
    Done(Merged),
}

/// An interior page that was opened.
#[derive(Debug)]
pub(super) struct Frame {
    place: PageRef,
    pub page: Page,
    /// Index of the next child to look at.
    pub next: usize,
    lower: Vec<u8>,
    pub upper: Option<Vec<u8>>,
    pub ahead: Ahead,
}

impl Frame {
    pub fn new(place: PageRef, page: Page, lower: Vec<u8>, upper: Option<Vec<u8>>) -> Frame {
        Frame { place, page, next: 0, lower, upper, ahead: Ahead::default() }
    }

    pub fn bounds(&self, index: usize) -> (Vec<u8>, Option<Vec<u8>>) {
        let (mut lower, mut upper) = (self.lower.clone(), self.upper.clone());
        if index > 0 {
            self.page.key_into(index, &mut lower);
        }
        if index + 1 < self.page.len() {
            self.page.key_into(index + 1, upper.get_or_insert_default());
        }
        (lower, upper)
    }

    /// Returns true if `key`, which is not below the child's keys, is below the keys of the next child.
    pub fn is_below_next(&self, index: usize, key: &[u8]) -> bool {
        match index + 1 < self.page.len() {
            true => self.page.cmp_key(index + 1, key) == Ordering::Greater,
            false => self.upper.as_deref().is_none_or(|upper| key < upper),
        }
    }
}

/// The frozen records that are not merged yet, in key order.
pub(super) struct Records<'a> {
    range: Option<RecordIter<'a>>,
    pub head: Option<&'a Record>,
}

impl<'a> Records<'a> {
    fn new(frozen: &'a Generation, from: Option<&[u8]>) -> Records<'a> {
        let mut range = from.map(|from| frozen.records_from(from));
        let head = range.as_mut().and_then(Iterator::next);
        Records { range, head }
    }

    pub fn advance(&mut self) {
        self.head = self.range.as_mut().and_then(Iterator::next);
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum MergePhase {
    Start,
    Building,
    Finishing,
    Dropping,
    Done,
}

/// One merge. Call [`Merge::step`] until it is done, always with the same overlay, cache and space, and carry out the
/// writes of [`Merge::poll_write`].
#[derive(Debug)]
pub struct Merge {
    phase: MergePhase,
    old: Option<Root>,
    tag: u64,
    generation: u64,
    stack: Vec<Frame>,
    pub(super) leaf: Option<LeafMerge>,
    /// Number of leaves without changes taken in since pages were last ended.
    joins: u8,
    /// Records before this key are merged; `None`: all of them are.
    from: Option<Vec<u8>>,
    builders: Vec<LevelBuilder>,
    pub(super) writer: PageWriter,
    /// The large value being written.
    pub(super) large: Option<OverflowWriter>,
    pub(super) drops: Drops,
    pub(super) changes: TableChanges,
    pub(super) freed: Vec<Run>,
    root: Option<Root>,
    /// True if the leaf opened last was in the cache for others: the leaves made of it then go into the cache too.
    hot: bool,
    /// A buffer for keys of pages.
    pub(super) scratch: Vec<u8>,
    /// Estimated ns left of this slice.
    pub(super) budget: i64,
}

impl Merge {
    /// Creates a merge of the frozen changes into the tree under `root`. New pages carry `generation`, which must be
    /// higher than in any merge before. Page memory comes from `buffers`.
    pub fn new(root: Option<Root>, tag: u64, generation: u64, buffers: BufPool) -> Merge {
        Merge {
            phase: MergePhase::Start,
            old: root,
            tag,
            generation,
            stack: Vec::new(),
            leaf: None,
            joins: 0,
            from: Some(Vec::new()),
            builders: Vec::new(),
            writer: PageWriter::new(buffers),
            large: None,
            drops: Drops::default(),
            changes: TableChanges::new(&[]),
            freed: Vec::new(),
            root: None,
            hot: false,
            scratch: Vec::new(),
            budget: 0,
        }
    }

    /// Creates a merge that makes a new tree of the frozen changes alone. It needs nothing of the old tree: it reads
    /// the old pages only to find their blocks, and lists unreadable ones in [`Merged::damaged`].
    pub fn anew(old: Option<Root>, tag: u64, generation: u64, buffers: BufPool) -> Merge {
        let mut merge = Merge::new(None, tag, generation, buffers);
        if let Some(root) = old {
            merge.drops.uncounted_subtree(&root.child, root.level);
        }
        merge
    }

    /// Makes the merge count the entries of these tables (first bytes of keys). Costs one read per leaf of these tables
    /// that is dropped as a whole. Call this before the first step.
    pub fn counting(mut self, tables: &'static [u8]) -> Merge {
        self.changes = TableChanges::new(tables);
        self
    }

    /// Returns the next write to carry out, in any order. The caller should not delay writes: their memory is held
    /// until then.
    pub fn poll_write(&mut self) -> Option<BlockWrite> {
        self.writer.writes.pop_front()
    }

    /// Returns the rest of the last step's budget, in ns.
    pub fn budget_left_ns(&self) -> u32 {
        u32::try_from(self.budget).unwrap_or(0)
    }

    /// Returns the number of blocks taken so far.
    pub fn blocks_taken(&self) -> u64 {
        self.writer.taken.iter().map(|run| u64::from(run.count)).sum()
    }

    /// Gives up and returns all blocks taken; they are free once the writes under way are done. The overlay stays
    /// frozen.
    pub fn abort(mut self) -> Vec<Run> {
        self.writer.abandon()
    }

    /// Does about `budget_ns` of work, by a rough estimate. Errors: a page cannot be used, or there is no space. Panics
    /// if nothing is frozen or the merge is done.
    pub fn step(
        &mut self,
        overlay: &Overlay,
        cache: &mut PageCache,
        space: &mut dyn Space,
        budget_ns: u32,
    ) -> Result<Progress, MergeError> {
        let frozen = overlay.frozen.as_ref().expect("a merge is of frozen changes");
        self.budget = i64::from(budget_ns);
        while self.budget > 0 {
            let pending = match self.phase {
                MergePhase::Start => self.start(frozen, cache)?,
                MergePhase::Building => self.build(frozen, cache, space)?,
                MergePhase::Finishing => {
                    self.finish(cache, space)?;
                    None
                }
                MergePhase::Dropping => match self.drops.step(cache, &mut self.freed, &mut self.changes) {
                    Fetch::Ready(Some(cost)) => {
                        self.budget -= cost;
                        None
                    }
                    Fetch::Ready(None) => return Ok(Progress::Done(self.done())),
                    Fetch::Pending(id) => Some(id),
                },
                MergePhase::Done => panic!("a merge goes on after its end"),
            };
            if let Some(id) = pending {
                return Ok(Progress::Waiting(id));
            }
        }
        Ok(Progress::Working)
    }

    fn done(&mut self) -> Merged {
        self.phase = MergePhase::Done;
        Merged {
            root: self.root,
            freed: std::mem::take(&mut self.freed),
            taken: std::mem::take(&mut self.writer.taken),
            pages_written: self.writer.pages,
            damaged: std::mem::take(&mut self.drops.damaged),
            changes: std::mem::replace(&mut self.changes, TableChanges::new(&[])),
        }
    }

    fn start(&mut self, frozen: &Generation, cache: &mut PageCache) -> Result<Option<ReadId>, MergeError> {
        match self.old {
            _ if frozen.is_empty() => {
                self.root = self.old;
                self.phase = MergePhase::Dropping;
                return Ok(None);
            }
            None => self.open_leaf(None, Vec::new(), None),
            Some(root) => match cache.take_page(&root.child.page, root.level, Use::Once)? {
                Fetch::Ready(page) => self.open(root.child.page, page, Vec::new(), None),
                Fetch::Pending(id) => return Ok(Some(id)),
            },
        }
        self.phase = MergePhase::Building;
        Ok(None)
    }

    fn open(&mut self, place: PageRef, page: Page, lower: Vec<u8>, upper: Option<Vec<u8>>) {
        self.budget -= OPEN_COST;
        if page.level() == 0 {
            return self.open_leaf(Some((place, page)), lower, upper);
        }
        self.stack.push(Frame::new(place, page, lower, upper));
    }

    fn open_leaf(&mut self, page: Option<(PageRef, Page)>, lower: Vec<u8>, upper: Option<Vec<u8>>) {
        self.builder(0).begin_range(&lower);
        self.leaf = Some(LeafMerge::new(page, upper));
    }

    pub(super) fn builder(&mut self, level: u8) -> &mut LevelBuilder {
        while self.builders.len() <= usize::from(level) {
            self.builders.push(LevelBuilder::new(self.builders.len() as u8));
        }
        &mut self.builders[usize::from(level)]
    }

    fn build(
        &mut self,
        frozen: &Generation,
        cache: &mut PageCache,
        space: &mut dyn Space,
    ) -> Result<Option<ReadId>, MergeError> {
        let mut records = Records::new(frozen, self.from.as_deref());
        let mut result = Ok(None);
        while self.budget > 0 && self.phase == MergePhase::Building && matches!(result, Ok(None)) {
            result = match &self.leaf {
                Some(_) => self.merge_leaf(&mut records, frozen, cache, space).map(|()| None),
                None => self.look_at_child(&records, frozen, cache, space),
            };
        }
        self.from = records.head.map(|record| {
            let mut from = self.from.take().unwrap_or_default();
            from.clear();
            from.extend_from_slice(record.key());
            from
        });
        result
    }

    /// Drops, passes on or opens the next child of the page opened last.
    fn look_at_child(
        &mut self,
        records: &Records<'_>,
        frozen: &Generation,
        cache: &mut PageCache,
        space: &mut dyn Space,
    ) -> Result<Option<ReadId>, MergeError> {
        let Some(frame) = self.stack.last() else {
            self.phase = MergePhase::Finishing;
            return Ok(None);
        };
        if frame.next == frame.page.len() {
            let frame = self.stack.pop().expect("just seen");
            push_run(&mut self.freed, frame.place.run());
            return Ok(None);
        }
        let (index, level) = (frame.next, frame.page.level() - 1);
        let child = frame.page.child(index);
        let has_record = records.head.is_some_and(|record| frame.is_below_next(index, record.key()));
        let mut is_touched = has_record;
        if !frozen.erased.is_empty() {
            let (lower, upper) = frame.bounds(index);
            if frozen.erased.covers(&lower, upper.as_deref()) {
                self.drops.subtree(&child, level, &lower, upper.as_deref());
                self.budget -= PASS_COST;
                self.stack.last_mut().expect("just seen").next += 1;
                if has_record {
                    self.open_leaf(None, lower, upper);
                }
                return Ok(None);
            }
            is_touched |= frozen.erased.meets(&lower, upper.as_deref());
        }
        if !is_touched && self.end_lower_pages(level, cache, space)? {
            self.pass_on(&child, level, cache, space)?;
            return Ok(None);
        }
        self.budget -= read_ahead(&mut self.stack, frozen, cache);
        let frame = self.stack.last_mut().expect("just seen");
        let hot = cache.is_kept(&child.page, level);
        let page = match cache.take_page(&child.page, level, Use::Once) {
            Ok(Fetch::Ready(page)) => page,
            Ok(Fetch::Pending(id)) => return Ok(Some(id)),
            // The child is not needed: an underfull page is good enough.
            Err(_) if !is_touched => {
                (0..=level).try_for_each(|level| self.end_pages(level, cache, space))?;
                self.pass_on(&child, level, cache, space)?;
                return Ok(None);
            }
            Err(damage) => return Err(damage.into()),
        };
        frame.next += 1;
        self.joins = if is_touched { 0 } else { self.joins + u8::from(level == 0) };
        let (lower, upper) = frame.bounds(index);
        self.hot = hot && level == 0;
        self.open(child.page, page, lower, upper);
        Ok(None)
    }

    /// Puts the next child, `child` of level `level`, into the new tree as it is.
    fn pass_on(
        &mut self,
        child: &Child,
        level: u8,
        cache: &mut PageCache,
        space: &mut dyn Space,
    ) -> Result<(), MergeError> {
        let above = level + 1;
        self.builder(above);
        let frame = self.stack.last_mut().expect("a child of the page opened last");
        let lower = if frame.next == 0 { (&frame.lower[..], &[][..]) } else { frame.page.key_parts(frame.next) };
        self.builders[usize::from(above)].push_child(lower, child);
        frame.next += 1;
        self.budget -= PASS_COST;
        self.cut_ripe(above, cache, space)
    }

    /// Ends the pages begun at this level and below. Returns false, with the remaining pages open, if one of them would
    /// be poor.
    fn end_lower_pages(&mut self, level: u8, cache: &mut PageCache, space: &mut dyn Space) -> Result<bool, MergeError> {
        for level in 0..=level {
            let may_join = level == 0 && self.joins < JOINS_MAX;
            let builder = self.builder(level);
            if !builder.is_empty() && (builder.is_underfull() || may_join && builder.splits_poorly()) {
                return Ok(false);
            }
            self.end_pages(level, cache, space)?;
        }
        self.joins = 0;
        Ok(true)
    }

    fn end_pages(&mut self, level: u8, cache: &mut PageCache, space: &mut dyn Space) -> Result<(), MergeError> {
        while !self.builder(level).is_empty() {
            self.cut(level, true, cache, space)?;
        }
        Ok(())
    }

    /// Cuts full pages off the builder of this level.
    pub(super) fn cut_ripe(
        &mut self,
        level: u8,
        cache: &mut PageCache,
        space: &mut dyn Space,
    ) -> Result<(), MergeError> {
        while self.builder(level).is_ripe() {
            self.cut(level, false, cache, space)?;
        }
        Ok(())
    }

    fn cut(&mut self, level: u8, last: bool, cache: &mut PageCache, space: &mut dyn Space) -> Result<(), MergeError> {
        self.budget -= PAGE_COST;
        let (tag, generation) = (self.tag, self.generation);
        let keep = level > 0 || self.hot;
        let mut lower = std::mem::take(&mut self.scratch);
        let builder = &mut self.builders[usize::from(level)];
        let (page, (cut, copy)) = self.writer.page(space, generation, |bytes, block| {
            let cut = builder.cut(last, bytes, tag, generation, block, &mut lower);
            (cut.crc, (cut, keep.then(|| Bytes::copy_from_slice(bytes))))
        })?;
        if let Some(copy) = copy {
            let made = Page::decode(copy, tag, &page, level);
            cache.insert_page(&page, made.unwrap_or_else(|kind| panic!("page just made at {page:?}: {kind}")));
        }
        let child = Child { page, overflow: cut.overflow };
        self.builder(level + 1).push_child((&lower, &[]), &child);
        self.scratch = lower;
        self.cut_ripe(level + 1, cache, space)
    }

    /// Ends all pages, from the leaves up to the root.
    fn finish(&mut self, cache: &mut PageCache, space: &mut dyn Space) -> Result<(), MergeError> {
        let mut level = 0;
        while usize::from(level) < self.builders.len() {
            let is_top = self.builders[usize::from(level) + 1..].iter().all(LevelBuilder::is_empty);
            if is_top && let Some(child) = self.builders[usize::from(level)].only_child() {
                self.root = Some(Root { child, level: level - 1 });
                self.builders.clear();
                break;
            }
            self.end_pages(level, cache, space)?;
            level += 1;
        }
        self.writer.close(space);
        self.phase = MergePhase::Dropping;
        Ok(())
    }
}
