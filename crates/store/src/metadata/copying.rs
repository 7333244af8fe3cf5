//! Copies made before a large clone: the source's omap, its segments, or both, entry by entry, in slices.
//!
//! The cloning transaction is the first in the queue at that time, so the source does not change, and no lookup sees
//! the copy: no object names the id of the copied omap, and the copied segments are those of an absent object. Once
//! everything is copied, the transaction is applied at once; it only gives the target its record.
//!
//! The copy goes into the overlay without the log, and by checkpoints into the tree as it comes, so it takes no more
//! memory than changes do, however large the source is. Its first part comes with an entry that names the copy's
//! target, and its last part marks that entry *whole*. After a crash, therefore:
//! * A clone in the log finds its copy whole in the tree, or else the copy is made again while the log is replayed.
//!   This must not take more memory than changes may, so a large copy waits for a checkpoint before its transaction is
//!   applied.
//! * A copy that no clone in the log took is removed, by a step in the log before all others.

use crate::btree::{Cursor, Damage, Fetch};
use crate::config::BLOCK;
use crate::disk::copies::CopyOf;
use crate::disk::key::{Key, OMAP_PREFIX_BYTES, behind_prefix, omap_key};
use crate::disk::redo::Redo;
use crate::disk::tree_key::{TABLE_BYTES, TableId, parse_segment_key, segment_key, tree_key};
use crate::engine::queue::{Accepted, KeyedStep};
use crate::metadata::block_map::{BlockMap, segments_of};
use crate::metadata::jobs::Copying;
use crate::metadata::state::{FITS, State};
use crate::{Step, Store};
use bytes::Bytes;
use std::collections::VecDeque;

/// Number of entries copied in one turn, and the bytes after which no more are added to a slice.
const ENTRIES_PER_TURN: usize = 400;
const ENTRY_BYTES: usize = 256 << 10;
/// The cost of a slice besides its entries, as a number of entries.
const SLICE_ENTRIES: usize = 16;

impl Copying {
    fn is_whole(&self) -> bool {
        self.segments.is_none() && self.omap.is_none()
    }
}

impl State {
    /// Begins to copy an object whose head is in memory. Panics if the object is absent.
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

    /// Returns true if an object is known to have so few segments that they are not copied first.
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

    /// Copies up to `entries_max` more entries. Returns their number, or the read to wait for.
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
        // Holders of blocks are not tracked while a log is replayed.
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

    /// Makes sure that the copy that a step of the log takes is whole, before the step is applied.
    pub fn copy_for(&mut self, redo: &Redo) -> Result<Fetch<()>, Damage> {
        let Redo::CloneCopied { from, of } = redo else { return Ok(Fetch::Ready(())) };
        self.settle();
        // A copy begun for a step that was passed over is of no use to this step.
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
    /// Copies that are whole.
    whole: Vec<CopyOf>,
    bytes: u64,
    /// Number of the checkpoint that must be durable first.
    checkpoint: Option<u64>,
}

impl Copies {
    /// Returns the copy made for a step.
    pub fn needed_by(&self, step: &KeyedStep) -> Option<&CopyOf> {
        let to = step.object.as_ref().filter(|_| matches!(step.step, Step::Clone { .. }))?;
        self.whole.iter().find(|of| of.to == *to)
    }

    /// Returns the first id behind those of the transaction's copies.
    pub fn ids_end(&self, ticket: u64) -> Option<u64> {
        assert!(self.ticket != ticket || self.unfinished.is_empty(), "copies taken before they are whole");
        self.whole.iter().filter(|_| self.ticket == ticket).map(|of| of.id + 1).max()
    }

    /// Returns the copy made for an object that is to be.
    pub fn of(&self, ticket: u64, to: &[u8]) -> Option<&CopyOf> {
        self.whole.iter().find(|of| *of.to == *to && self.ticket == ticket)
    }
}

/// Returns the clones of a transaction that copy first: sources, targets, and true if segments are copied. Returns none
/// if any clone's source or target was changed before by the same transaction. Clones that need no copy are left out.
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
        // Segments that the target already has lie under the same keys, so its copy has no place.
        let copies_segments = state.known(to).is_none() && !state.is_cloned_at_once(from);
        if copies_segments || source.omap.is_some() {
            plan.push((from, to, copies_segments));
        }
    }
    plan
}

impl Store {
    /// Returns true if everything that the first transaction copies is copied; begins the copies at the first call. The
    /// heads of its objects must be in memory.
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
                    // Blocks that are being merged get their checksums in both objects.
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
                // A checkpoint takes the changes so far first.
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
                // A checkpoint under way lacks a part of the copy.
                copies.checkpoint = Some(self.checkpoint.sequence() + 1 + u64::from(self.checkpoint.is_running()));
            }
            let ticket = copies.ticket;
            self.run_queue();
            if self.copies.as_ref().is_some_and(|copies| copies.ticket == ticket) {
                return;
            }
        }
    }

    /// Returns true if a copy waits for the next checkpoint.
    pub(crate) fn copies_want_checkpoint(&self) -> bool {
        let number = self.copies.as_ref().and_then(|copies| copies.checkpoint);
        number.is_some_and(|number| number == self.checkpoint.sequence() + 1)
    }

    /// Notes that the transaction has taken its copies.
    pub(crate) fn copies_taken(&mut self, ticket: u64) {
        if self.copies.as_ref().is_some_and(|copies| copies.ticket == ticket) {
            self.copies = None;
        }
    }

    /// Removes copies whose clones never came to be. Must be called before anything else is submitted.
    pub(crate) fn drop_copies(&mut self, copies: Vec<CopyOf>) {
        if copies.is_empty() || self.stopped.is_some() {
            return;
        }
        assert_eq!(self.turns.last_ticket(), 0, "a transaction before what removes copies");
        let ticket = self.turns.next_ticket();
        let mut staged = self.turns.begin(ticket);
        staged.internal = true;
        self.destroyed_ticket = staged.ticket;
        for of in copies {
            self.apply(Redo::DropCopy { of }, &mut staged);
        }
        self.state.settle();
        self.turns.stage(staged);
    }
}
