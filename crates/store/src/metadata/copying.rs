//! Copies made before a clone that is large: the source's omap, its segments, or both, entry by entry, in slices.
//!
//! The transaction that clones is the first in the queue then, so what it copies does not change, and nobody sees the copy:
//! the copied omap has an id that no object names, the copied segments are those of an object that is not there. Once all is
//! copied, the transaction is applied at once; it only gives the target its record.
//!
//! What is copied goes into the overlay without the log, and by checkpoints into the tree as it comes, so memory is that of
//! changes, however large the source is. With the first of it goes an entry that says whose copy this is, and in the end
//! that it is *whole*. So, after a crash,
//! * a clone in the log finds its copy whole in the tree, or else is copied again while the log is replayed. That must not
//!   take more memory than changes may, so a large copy waits for a checkpoint before its transaction is applied;
//! * a copy that no clone in the log took is removed, by a step in the log before all others.

use crate::btree::{Cursor, Damage, Fetch};
use crate::config::BLOCK;
use crate::disk::copies::CopyOf;
use crate::disk::key::{Key, OMAP_PREFIX_BYTES, behind_prefix, omap_key};
use crate::disk::redo::Redo;
use crate::disk::tree_key::{TABLE_BYTES, TableId, parse_segment_key, segment_key, tree_key};
use crate::engine::queue::{Accepted, KeyedStep};
use crate::engine::turns::Staged;
use crate::metadata::block_map::{BlockMap, segments_of};
use crate::metadata::state::{FITS, State};
use crate::{Step, Store};
use bytes::Bytes;
use std::collections::VecDeque;

/// Entries copied in one turn, and the bytes behind which no more are.
const ENTRIES_PER_TURN: usize = 400;
const ENTRY_BYTES: usize = 256 << 10;
/// What a slice costs besides its entries, as entries.
const SLICE_ENTRIES: usize = 16;

/// What is copied how.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CopyRules {
    /// Objects with no more segments, and no omap, are cloned without copying anything first: those of 8 MiB.
    pub at_once_segments: u32,
    /// Entries copied at a time.
    pub slice_entries: usize,
    /// A clone that copies more waits for a checkpoint.
    pub replayed_bytes: u64,
}

impl Default for CopyRules {
    fn default() -> CopyRules {
        CopyRules { at_once_segments: 64, slice_entries: 200, replayed_bytes: 1 << 20 }
    }
}

/// A copy being made.
#[derive(Debug)]
pub(crate) struct Copying {
    of: CopyOf,
    /// `None`: there are no more.
    segments: Option<Cursor>,
    omap: Option<Cursor>,
    bytes: u64,
}

impl Copying {
    fn is_whole(&self) -> bool {
        self.segments.is_none() && self.omap.is_none()
    }
}

impl State {
    /// Begins to copy an object whose head is in memory. Panics if it is not there.
    fn begin_copy(&mut self, from: &[u8], of: CopyOf) -> Copying {
        let source = self.known(from).unwrap_or_else(|| panic!("copy of absent object {from:x?}"));
        let cursor = |table, begin: &[u8], end: &[u8]| {
            let (mut first, mut behind) = (Vec::new(), Vec::new());
            Cursor::new(tree_key(table, begin, &mut first), Some(tree_key(table, end, &mut behind)), true)
        };
        let behind = behind_prefix(from).expect("an object's key does not end the keys");
        let segments = of.segments.then(|| cursor(TableId::Segments, from, &behind));
        let omap = source.omap.as_ref();
        let omap = omap.map(|omap| cursor(TableId::Omap, &omap_key(omap.id, &[]), &omap_key(omap.id + 1, &[])));
        self.put_copy_entry(&of, false);
        Copying { of, segments, omap, bytes: 0 }
    }

    /// Whether an object has so few segments, as far as that is known, that they are not copied first.
    pub fn is_cloned_at_once(&self, object: &[u8]) -> bool {
        self.onodes.get(object).flatten().is_some_and(|onode| {
            let (_, segments) = segments_of(0, onode.size().div_ceil(BLOCK));
            !onode.inline.is_empty() || segments <= self.copy_rules.at_once_segments
        })
    }

    fn put_copy_entry(&mut self, of: &CopyOf, is_whole: bool) {
        let key = tree_key(TableId::Copies, &omap_key(of.id, &[]), &mut self.tree_key);
        self.overlay.put(key, &of.entry(is_whole)).expect(FITS);
    }

    pub fn delete_copy_entry(&mut self, id: u64) {
        self.delete_entry(TableId::Copies, &omap_key(id, &[]));
    }

    /// Copies up to `entries_max` more entries; how many, or what to wait for.
    fn copy_some(&mut self, copying: &mut Copying, entries_max: usize) -> Result<Fetch<usize>, Damage> {
        assert!(self.is_settled(), "changes that are not in the overlay");
        let of_segments = copying.segments.is_some();
        let cursor = if of_segments { &mut copying.segments } else { &mut copying.omap };
        let Some(at) = cursor else { return Ok(Fetch::Ready(0)) };
        let page = match at.next_page(&mut self.view(), entries_max, ENTRY_BYTES)? {
            Fetch::Ready(page) => page,
            Fetch::Pending(id) => return Ok(Fetch::Pending(id)),
        };
        if page.done {
            *cursor = None;
        }
        for (key, value) in &page.entries {
            copying.bytes += (key.len() + value.len()) as u64;
            match of_segments {
                true => self.copy_segment(&copying.of.to, key, value)?,
                false => self.put_omap(&omap_key(copying.of.id, &key[TABLE_BYTES + OMAP_PREFIX_BYTES..]), value),
            }
        }
        if copying.is_whole() {
            self.put_copy_entry(&copying.of, true);
        }
        Ok(Fetch::Ready(page.entries.len()))
    }

    fn copy_segment(&mut self, to: &[u8], key: &[u8], record: &Bytes) -> Result<(), Damage> {
        let (_, index) = parse_segment_key(&key[TABLE_BYTES..]).ok_or_else(|| self.malformed("segment's key"))?;
        // Nobody follows blocks while a log is replayed.
        if let Some(shared) = &mut self.shared {
            let mut map = BlockMap::default();
            if map.restore_segment(0, record).is_err() {
                return Err(self.malformed("segment of blocks"));
            }
            map.runs(0, u64::MAX).into_iter().for_each(|(_, run)| shared.add(run));
        }
        self.overlay.put(segment_key(to, index, &mut self.tree_key), record).expect(FITS);
        Ok(())
    }

    /// Makes sure, before a step of the log is applied, that the copy which it takes is whole.
    pub fn copy_for(&mut self, redo: &Redo) -> Result<Fetch<()>, Damage> {
        let Redo::CloneCopied { from, of } = redo else { return Ok(Fetch::Ready(())) };
        self.settle();
        // One that a step which was passed over needed is none for this.
        let mut copying = match self.replayed_copy.take().filter(|copying| copying.of == *of) {
            Some(copying) => copying,
            None => {
                let mut key = Vec::new();
                let key = tree_key(TableId::Copies, &omap_key(of.id, &[]), &mut key);
                match self.view().get(key)? {
                    Fetch::Pending(id) => return Ok(Fetch::Pending(id)),
                    Fetch::Ready(Some(entry)) if *entry == *of.entry(true) => {
                        if of.segments {
                            self.copies_taken.insert(of.to.clone());
                        }
                        return Ok(Fetch::Ready(()));
                    }
                    Fetch::Ready(_) => self.begin_copy(from, of.clone()),
                }
            }
        };
        while !copying.is_whole() {
            if let Fetch::Pending(id) = self.copy_some(&mut copying, ENTRIES_PER_TURN)? {
                self.replayed_copy = Some(copying);
                return Ok(Fetch::Pending(id));
            }
        }
        Ok(Fetch::Ready(()))
    }

    /// Removes a copy that no clone took.
    pub fn drop_copy(&mut self, of: &CopyOf) {
        self.settle();
        self.drop_omap(of.id);
        if of.segments {
            self.destroy_all_segments(&of.to);
        }
        self.delete_copy_entry(of.id);
    }
}

/// The copies that the first transaction of the queue needs.
#[derive(Debug)]
pub(crate) struct Copies {
    ticket: u64,
    unfinished: VecDeque<Copying>,
    /// With their sources.
    whole: Vec<CopyOf>,
    bytes: u64,
    /// The checkpoint that must be durable first.
    checkpoint: Option<u64>,
}

impl Copies {
    /// What was copied for a step.
    pub fn needed_by(&self, step: &KeyedStep) -> Option<&CopyOf> {
        let to = step.object.as_ref().filter(|_| matches!(step.step, Step::Clone { .. }))?;
        self.whole.iter().find(|of| of.to == *to)
    }

    /// The id behind those of the transaction's copies.
    pub fn ids_end(&self, ticket: u64) -> Option<u64> {
        assert!(self.ticket != ticket || self.unfinished.is_empty(), "copies taken before they are whole");
        self.whole.iter().filter(|_| self.ticket == ticket).map(|of| of.id + 1).max()
    }

    /// What was copied for an object that is to be.
    pub fn of(&self, ticket: u64, to: &[u8]) -> Option<&CopyOf> {
        self.whole.iter().find(|of| *of.to == *to && self.ticket == ticket)
    }
}

/// Which clones of a transaction copy first: sources, targets, and whether segments are copied. None if any of them is of
/// what the same transaction changed before, or onto it; or does without.
fn plan<'a>(state: &State, txn: &'a Accepted) -> Vec<(&'a Key, &'a Key, bool)> {
    let mut plan = Vec::new();
    for (index, step) in txn.steps.iter().enumerate() {
        let (Step::Clone { .. }, Some(from), Some(to)) = (&step.step, &step.from, &step.object) else { continue };
        if from == to {
            continue;
        }
        let changes = |before: &KeyedStep| match &before.object {
            Some(object) => object == from || object == to,
            None => matches!(before.step, Step::PgDestroy { .. }),
        };
        if txn.steps[..index].iter().any(changes) {
            return Vec::new();
        }
        let source = state.known(from).expect("it was seen to exist");
        // Where there are others under the same keys, there is no room for a copy.
        let copies_segments = state.known(to).is_none() && !state.is_cloned_at_once(from);
        if copies_segments || source.omap.is_some() {
            plan.push((from, to, copies_segments));
        }
    }
    plan
}

impl Store {
    /// Whether all that the first transaction copies is copied; begins with it. Its objects' heads are in memory.
    pub(crate) fn is_copied(&mut self, ticket: u64, txn: &Accepted) -> bool {
        if self.copies.is_none() {
            let plan = plan(&self.state, txn);
            if plan.is_empty() {
                return true;
            }
            let mut unfinished = VecDeque::new();
            for (from, to, segments) in plan {
                let of = CopyOf { to: to.clone(), id: self.state.next_omap_id, segments };
                self.state.next_omap_id += 1;
                if segments {
                    // Blocks that are being made get their checksums in both.
                    self.merges.cloned(from, to, |at, _| Some(at));
                }
                unfinished.push_back(self.state.begin_copy(from, of));
            }
            self.copies = Some(Copies { ticket, unfinished, whole: Vec::new(), bytes: 0, checkpoint: None });
        }
        let copies = self.copies.as_ref().expect("just seen to");
        assert_eq!(copies.ticket, ticket, "copies for a transaction that is not the first");
        let is_small = copies.bytes <= self.state.copy_rules.replayed_bytes;
        let is_durable = copies.checkpoint.is_some_and(|number| self.checkpoint.sequence() >= number);
        copies.unfinished.is_empty() && (is_small || is_durable)
    }

    /// Does this turn's part of copying.
    pub(crate) fn advance_copies(&mut self) {
        let mut left = ENTRIES_PER_TURN;
        while left > 0 && self.stopped.is_none() {
            let Some(copies) = &mut self.copies else { return };
            if self.state.overlay.bytes().0 > self.memory.overlay_bytes {
                // A checkpoint takes them first.
                return;
            }
            if let Some(copying) = copies.unfinished.front_mut() {
                let max = self.state.copy_rules.slice_entries.min(left);
                match self.state.copy_some(copying, max) {
                    Ok(Fetch::Ready(entries)) => left = left.saturating_sub(entries + SLICE_ENTRIES),
                    Ok(Fetch::Pending(_)) => return,
                    Err(damage) => return self.fail_for(&damage),
                }
                if let Some(copying) = copies.unfinished.pop_front_if(|copying| copying.is_whole()) {
                    copies.bytes += copying.bytes;
                    copies.whole.push(copying.of);
                }
                continue;
            }
            if copies.bytes > self.state.copy_rules.replayed_bytes && copies.checkpoint.is_none() {
                // The one under way does not have all of it.
                copies.checkpoint = Some(self.checkpoint.sequence() + 1 + u64::from(self.checkpoint.is_running()));
            }
            let ticket = copies.ticket;
            self.run_queue();
            if self.copies.as_ref().is_some_and(|copies| copies.ticket == ticket) {
                return;
            }
        }
    }

    /// Whether a copy waits for the next checkpoint.
    pub(crate) fn copies_want_checkpoint(&self) -> bool {
        let number = self.copies.as_ref().and_then(|copies| copies.checkpoint);
        number.is_some_and(|number| number == self.checkpoint.sequence() + 1)
    }

    /// The transaction has taken its copies.
    pub(crate) fn copies_taken(&mut self, ticket: u64) {
        if self.copies.as_ref().is_some_and(|copies| copies.ticket == ticket) {
            self.copies = None;
        }
    }

    /// Removes what was copied for clones that never came to be. To be called before anything else is submitted.
    pub(crate) fn drop_copies(&mut self, copies: Vec<CopyOf>) {
        if copies.is_empty() || self.stopped.is_some() {
            return;
        }
        assert_eq!(self.turns.last_ticket(), 0, "a transaction before what removes copies");
        let mut staged = Staged::new(self.turns.next_ticket());
        staged.internal = true;
        self.destroyed_ticket = staged.ticket;
        for of in copies {
            self.apply(Redo::DropCopy { of }, &mut staged);
        }
        self.state.settle();
        self.turns.stage(staged);
    }
}
