//! Transactions that wait for metadata that they need in memory.
//!
//! Transactions are applied in the order of submission. A transaction waits if it needs something that is not in
//! memory, or would change something that an earlier lookup still has to see; all transactions behind it wait too,
//! while the store reads what the first of them need. Lookups of objects that a waiting transaction changes are pending
//! until it is applied.

use crate::btree::{Damage, Fetch, ReadId};
use crate::disk::copies::CopyOf;
use crate::disk::key::{Key, pg_object_range};
use crate::metadata::loading::Need;
use crate::metadata::state::State;
use crate::{Step, StopReason, Store, Transaction};
use std::collections::{BTreeMap, VecDeque};
use types::{ObjectId, PgId};

/// Number of waiting transactions, from the first, whose needs are read.
const AHEAD: usize = 64;

/// How much of a transaction's needs to load.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Extent {
    /// Only the heads of the sources of clones.
    Heads,
    /// Everything, except for sources that are copied, of which the heads suffice.
    All,
}

/// A step with the key of the object that it changes.
#[derive(Debug)]
pub(crate) struct KeyedStep {
    pub step: Step,
    /// The key of the changed object; `None` for steps on groups' tables.
    pub object: Option<Key>,
    /// The key of a clone's source.
    pub from: Option<Key>,
}

impl KeyedStep {
    /// `before`: the step before this one, which mostly is on the same object. `key_of` makes keys.
    fn new(step: Step, before: Option<&KeyedStep>, mut key_of: impl FnMut(&ObjectId) -> Key) -> KeyedStep {
        let shared = |object| before.filter(|before| before.step.object() == Some(object))?.object.clone();
        let object = step.object().map(|object| shared(object).unwrap_or_else(|| key_of(object)));
        let from = step.source().map(key_of);
        KeyedStep { step, object, from }
    }

    fn needs<'a>(&'a self, each: &mut impl FnMut(Need<'a>)) {
        use crate::config::BLOCK;
        let Some(object) = self.object.as_deref() else { return };
        let blocks = |offset: u64, end: u64| {
            let first = u32::try_from(offset / BLOCK);
            first.map_or(Need::Head(object), |first| Need::Blocks { object, first, end: end.div_ceil(BLOCK) })
        };
        match &self.step {
            Step::Write { offset, data, .. } | Step::Xor { offset, data, .. } => {
                each(blocks(*offset, offset.saturating_add(data.len() as u64)))
            }
            Step::Zero { offset, len, .. } => each(match blocks(*offset, offset.saturating_add(*len)) {
                Need::Blocks { object, first, end } => Need::Cut { object, first, end },
                need => need,
            }),
            Step::Truncate { size, .. } => each(Need::behind(object, *size)),
            Step::Remove { .. } => each(Need::removal(object)),
            Step::Clone { .. } => {
                each(Need::Copy(self.from.as_deref().expect("a clone has a source")));
                each(Need::removal(object));
            }
            Step::CloneRange { source_offset, length, target_offset, .. } => {
                let of = |object, offset: u64| Need::Blocks {
                    object,
                    first: (offset / BLOCK).try_into().unwrap_or(u32::MAX),
                    end: offset.saturating_add(*length).div_ceil(BLOCK),
                };
                each(of(self.from.as_deref().expect("a clone has a source"), *source_offset));
                each(of(object, *target_offset));
            }
            _ => each(Need::Head(object)),
        }
    }
}

/// An accepted transaction, and the space reserved for it.
#[derive(Debug)]
pub(crate) struct Accepted {
    pub pg: PgId,
    pub steps: Vec<KeyedStep>,
    pub blocks: u64,
    pub metadata_bytes: u64,
    /// True if it clones whole objects.
    clones: bool,
}

impl Accepted {
    /// `key_of` makes keys of objects.
    pub fn new(txn: Transaction, mut key_of: impl FnMut(&ObjectId) -> Key) -> Accepted {
        let mut steps: Vec<KeyedStep> = Vec::with_capacity(txn.steps.len());
        for step in txn.steps {
            steps.push(KeyedStep::new(step, steps.last(), &mut key_of));
        }
        let clones = steps.iter().any(|step| matches!(step.step, Step::Clone { .. }));
        Accepted { pg: txn.pg, steps, blocks: 0, metadata_bytes: 0, clones }
    }

    pub fn objects(&self) -> impl Iterator<Item = &Key> {
        self.steps.iter().filter_map(|step| step.object.as_ref())
    }

    /// Returns the ranges of objects that are destroyed.
    pub fn ranges(&self) -> impl Iterator<Item = (Key, Key)> + '_ {
        self.steps.iter().filter_map(|step| match step.step {
            Step::PgDestroy { pg_num } => Some(pg_object_range(self.pg, pg_num)),
            _ => None,
        })
    }

    fn has_group_steps(&self) -> bool {
        self.steps.iter().any(|step| step.object.is_none())
    }

    fn keeps(&self, object: &[u8]) -> bool {
        self.steps.iter().any(|step| step.object.as_deref() == Some(object) || step.from.as_deref() == Some(object))
    }
}

/// Number of waiting transactions that change something, and the last of them.
#[derive(Clone, Copy, Debug)]
struct Named {
    count: usize,
    last: u64,
}

fn name<K: Ord + Clone>(names: &mut BTreeMap<K, Named>, key: &K, ticket: u64) {
    let named = names.entry(key.clone()).or_insert(Named { count: 0, last: ticket });
    *named = Named { count: named.count + 1, last: ticket };
}

fn unname<K: Ord + Clone>(names: &mut BTreeMap<K, Named>, key: &K) {
    let named = names.get_mut(key).expect("waiting transactions name what they change");
    named.count -= 1;
    if named.count == 0 {
        names.remove(key);
    }
}

#[derive(Default, Debug)]
pub(crate) struct Queue {
    waiting: VecDeque<(u64, Accepted)>,
    /// Blocks reserved for all waiting transactions.
    pub blocks: u64,
    pub metadata_bytes: u64,
    objects: BTreeMap<Key, Named>,
    groups: BTreeMap<PgId, Named>,
    /// Ranges of objects that are destroyed, with their tickets.
    ranges: VecDeque<(u64, Key, Key)>,
}

impl Queue {
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    fn push(&mut self, ticket: u64, txn: Accepted) {
        txn.objects().for_each(|object| name(&mut self.objects, object, ticket));
        if txn.has_group_steps() {
            name(&mut self.groups, &txn.pg, ticket);
        }
        self.ranges.extend(txn.ranges().map(|(begin, end)| (ticket, begin, end)));
        self.blocks += txn.blocks;
        self.metadata_bytes += txn.metadata_bytes;
        self.waiting.push_back((ticket, txn));
    }

    fn pop(&mut self) -> Option<(u64, Accepted)> {
        let (ticket, txn) = self.waiting.pop_front()?;
        txn.objects().for_each(|object| unname(&mut self.objects, object));
        if txn.has_group_steps() {
            unname(&mut self.groups, &txn.pg);
        }
        while self.ranges.front().is_some_and(|(of, ..)| *of == ticket) {
            self.ranges.pop_front();
        }
        self.blocks -= txn.blocks;
        self.metadata_bytes -= txn.metadata_bytes;
        Some((ticket, txn))
    }

    /// Returns the last waiting transaction that changes the object.
    pub fn last_of_object(&self, object: &[u8]) -> Option<u64> {
        let range = self.ranges.iter().rfind(|(_, begin, end)| **begin <= *object && *object < **end);
        self.objects.get(object).map(|named| named.last).max(range.map(|(ticket, ..)| *ticket))
    }

    /// Returns the last waiting transaction that changes any object of `begin .. end`.
    pub fn last_in_range(&self, begin: &[u8], end: &[u8]) -> Option<u64> {
        if self.is_empty() || begin >= end {
            return None;
        }
        let bounds = (std::ops::Bound::Included(begin), std::ops::Bound::Excluded(end));
        let named = self.objects.range::<[u8], _>(bounds).map(|(_, named)| named.last).max();
        let range = self.ranges.iter().rfind(|(_, first, behind)| **first < *end && *begin < **behind);
        named.max(range.map(|(ticket, ..)| *ticket))
    }

    /// Returns the last waiting transaction that changes the group's table.
    pub fn last_of_group(&self, pg: PgId) -> Option<u64> {
        self.groups.get(&pg).map(|named| named.last)
    }

    /// Returns true if the first waiting transaction may need this object in memory.
    pub fn keeps(&self, object: &[u8]) -> bool {
        self.waiting.front().is_some_and(|(_, txn)| txn.keeps(object))
    }
}

impl Store {
    /// Applies an accepted transaction, or makes it wait.
    pub(crate) fn enqueue(&mut self, ticket: u64, txn: Accepted) {
        let wait = !self.queue.is_empty() || !self.is_ready(ticket, &txn);
        if wait && self.stopped.is_none() {
            self.queue.push(ticket, txn);
        } else if self.stopped.is_none() {
            self.apply_accepted(ticket, txn);
        }
    }

    /// Returns true if the transaction, which is the next, can be applied now. Stops the store if it never can.
    fn is_ready(&mut self, ticket: u64, txn: &Accepted) -> bool {
        if self.reads.are_disturbed_by(ticket, txn) {
            return false;
        }
        if !self.is_loaded(txn, if txn.clones { Extent::Heads } else { Extent::All }) {
            return false;
        }
        for (index, step) in txn.steps.iter().enumerate() {
            let Some(from) = &step.from else { continue };
            if !self.will_exist(from, txn.pg, &txn.steps[..index]).expect("all that it needs is in memory") {
                let from = step.step.source().expect("it has a key");
                let reason = StopReason::CloneSource(from.clone());
                self.fail(reason);
                return false;
            }
        }
        if txn.clones && !(self.is_copied(ticket, txn) && self.is_loaded(txn, Extent::All)) {
            return false;
        }
        if u64::from(self.allocator.free_blocks()) < txn.blocks {
            // The blocks exist, but are being returned to the device, or prepared, or freed and not vouched for.
            self.turns.vouch_wanted = true;
            return false;
        }
        true
    }

    /// Returns true if a transaction's needs are in memory. Stops the store if they are damaged.
    fn is_loaded(&mut self, txn: &Accepted, extent: Extent) -> bool {
        match self.load_needs(txn, extent) {
            Ok(wait) => wait.is_none(),
            Err(damage) => {
                self.fail_for(&damage);
                false
            }
        }
    }

    /// Stops the store, since the first transaction needs damaged metadata.
    pub(crate) fn fail_for(&mut self, damage: &Damage) {
        self.fail(StopReason::TransactionDamage(damage.clone()));
    }

    /// Asks for everything that a transaction needs, and returns a read to wait for.
    fn load_needs(&mut self, txn: &Accepted, extent: Extent) -> Result<Option<ReadId>, Damage> {
        let mut wait = None;
        let mut failed = None;
        let state = &mut self.state;
        let copies = self.copies.as_ref().filter(|_| extent == Extent::All);
        // Objects whose segments are copied, with the sources of the copies.
        let mut copied: Vec<(&Key, &Key)> = Vec::new();
        let mut load = |state: &mut State, need: Need<'_>| match state.load(need) {
            Ok(Fetch::Ready(())) => {}
            Ok(Fetch::Pending(id)) => wait = Some(id),
            Err(damage) => drop(failed.get_or_insert(damage)),
        };
        for step in &txn.steps {
            let of = copies.and_then(|copies| copies.needed_by(step));
            step.needs(&mut |need| {
                let need = match (need, of) {
                    (Need::Copy(object), _) if extent == Extent::Heads => Need::Head(object),
                    (Need::Copy(object), Some(of)) if of.segments => Need::Head(object),
                    (Need::Copy(object), Some(_)) => Need::Blocks { object, first: 0, end: u64::MAX },
                    (need, _) => need,
                };
                load(state, need);
                if let (Need::Head(object), Extent::Heads, Some(from)) = (need, extent, &step.from)
                    && *object == **from
                    && state.is_cloned_at_once(object)
                {
                    load(state, Need::Blocks { object, first: 0, end: u64::MAX });
                }
                // The block map of the target comes from the source's, so the source's must be known.
                if let Some((_, from)) = copied.iter().find(|(to, _)| ***to == *need.object()) {
                    load(state, need.of(from));
                }
            });
            if let (Some(CopyOf { segments: true, .. }), Some(from), Some(to)) = (of, &step.from, &step.object) {
                copied.push((to, from));
            }
        }
        failed.map_or(Ok(wait), Err)
    }

    /// Applies waiting transactions, as far as their needs are in memory.
    pub(crate) fn run_queue(&mut self) {
        while let Some((ticket, txn)) = self.queue.waiting.pop_front() {
            let is_ready = self.stopped.is_none() && self.is_ready(ticket, &txn);
            self.queue.waiting.push_front((ticket, txn));
            if !is_ready {
                return;
            }
            let (ticket, txn) = self.queue.pop().expect("just put back");
            self.apply_accepted(ticket, txn);
            self.applied(ticket);
        }
    }

    /// Asks for the needs of the transactions behind the first. Damage is reported when they are the first.
    pub(crate) fn read_ahead_for_queue(&mut self) {
        let mut index = 1;
        while index < self.queue.waiting.len().min(AHEAD) {
            let (ticket, txn) = std::mem::replace(&mut self.queue.waiting[index], (0, Accepted::empty()));
            let _ = self.load_needs(&txn, Extent::Heads);
            self.queue.waiting[index] = (ticket, txn);
            index += 1;
        }
    }
}

impl Accepted {
    fn empty() -> Accepted {
        Accepted { pg: PgId::new(0, 0), steps: Vec::new(), blocks: 0, metadata_bytes: 0, clones: false }
    }
}
