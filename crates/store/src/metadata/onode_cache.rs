//! Objects in memory: heads, and the requested segments of their block maps.

use crate::metadata::onode::Onode;
use std::sync::Arc;
use types::FastMap;

/// Memory of an entry besides key, attributes and blocks, in bytes.
const ENTRY_BYTES: usize = 320;
/// Memory of a segment, in bytes; mostly less.
const SEGMENT_BYTES: usize = 240;
/// Memory of an attribute besides name and value, in bytes.
const ATTR_BYTES: usize = 64;
/// Number of turns of the clock that an entry survives without being asked for.
const LIVES: u8 = 1;

#[derive(Debug)]
struct OnodeSlot {
    key: Arc<[u8]>,
    /// `None`: the object is known to be absent.
    onode: Option<Onode>,
    lives: u8,
    bytes: usize,
}

/// Names an entry, until entries are dropped.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct SlotId(u32);

/// Objects by key, up to a budget of bytes, by the clock algorithm. Objects known to be absent have entries too.
///
/// No entry is ever the only copy: once a transaction has been applied, its changes are in the overlay too. Any entry
/// may therefore go between two transactions, except those that the next one waits with.
#[derive(Default, Debug)]
pub(crate) struct OnodeCache {
    budget_bytes: usize,
    bytes: usize,
    slots: Vec<Option<OnodeSlot>>,
    vacant: Vec<u32>,
    /// Slots by key. Nobody iterates over the map, so its random order has no effect.
    index: FastMap<Arc<[u8]>, u32>,
    /// The slot that was found last, if its object is still there: the steps of a transaction ask for the same object
    /// again and again.
    last: u32,
    hand: usize,
    /// Number of times that a needed object was in memory, and that it was not.
    hits: u64,
    misses: u64,
}

fn bytes_of(key: &[u8], onode: Option<&Onode>) -> usize {
    let object = |onode: &Onode| {
        let attrs: usize = onode.stat.attrs.iter().map(|(name, value)| name.len() + value.len() + ATTR_BYTES).sum();
        let header = onode.omap.as_ref().map_or(0, |omap| omap.header.len() + ATTR_BYTES);
        attrs + header + onode.inline.len() + onode.blocks.segment_count() * SEGMENT_BYTES
    };
    ENTRY_BYTES + 2 * key.len() + onode.map_or(0, object)
}

impl OnodeCache {
    pub fn set_budget(&mut self, budget_bytes: usize) {
        self.budget_bytes = budget_bytes;
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns hits and misses.
    pub fn counts(&self) -> (u64, u64) {
        (self.hits, self.misses)
    }

    /// Finds an object like [`OnodeCache::find`], and counts a hit. The caller must insert an object that is not found.
    pub fn find_counted(&mut self, key: &[u8]) -> Option<SlotId> {
        let found = self.find(key);
        self.hits += u64::from(found.is_some());
        found
    }

    fn slot(&self, id: SlotId) -> &OnodeSlot {
        self.slots[id.0 as usize].as_ref().expect("named slots are occupied")
    }

    fn slot_mut(&mut self, id: SlotId) -> &mut OnodeSlot {
        self.slots[id.0 as usize].as_mut().expect("named slots are occupied")
    }

    fn position(&self, key: &[u8]) -> Option<u32> {
        let is_last = |slot: &OnodeSlot| std::ptr::eq(&*slot.key, key) || *slot.key == *key;
        match self.slots.get(self.last as usize) {
            Some(Some(slot)) if is_last(slot) => Some(self.last),
            _ => self.index.get(key).copied(),
        }
    }

    /// Finds an object for use, which saves its entry for another turn of the clock.
    pub fn find(&mut self, key: &[u8]) -> Option<SlotId> {
        self.last = self.position(key)?;
        let id = SlotId(self.last);
        self.slot_mut(id).lives = LIVES;
        Some(id)
    }

    /// Returns the object, if it is known; `Some(None)` if it is known to be absent.
    pub fn get(&self, key: &[u8]) -> Option<Option<&Onode>> {
        self.position(key).map(|at| self.slot(SlotId(at)).onode.as_ref())
    }

    pub fn onode(&self, id: SlotId) -> Option<&Onode> {
        self.slot(id).onode.as_ref()
    }

    /// Returns the object for a change. The caller must call [`OnodeCache::recount`] afterwards.
    pub fn onode_mut(&mut self, id: SlotId) -> &mut Option<Onode> {
        &mut self.slot_mut(id).onode
    }

    pub fn key(&self, id: SlotId) -> &Arc<[u8]> {
        &self.slot(id).key
    }

    /// Counts an entry's memory anew.
    pub fn recount(&mut self, id: SlotId) {
        let slot = self.slots[id.0 as usize].as_mut().expect("named slots are occupied");
        let bytes = bytes_of(&slot.key, slot.onode.as_ref());
        self.bytes = self.bytes - slot.bytes + bytes;
        slot.bytes = bytes;
    }

    /// Inserts an object that was not known.
    pub fn insert(&mut self, key: &[u8], onode: Option<Onode>) -> SlotId {
        self.misses += 1;
        let (key, bytes): (Arc<[u8]>, usize) = (key.into(), bytes_of(key, onode.as_ref()));
        let slot = Some(OnodeSlot { key: key.clone(), onode, lives: 0, bytes });
        let at = match self.vacant.pop() {
            Some(at) => {
                self.slots[at as usize] = slot;
                at
            }
            None => {
                self.slots.push(slot);
                (self.slots.len() - 1) as u32
            }
        };
        self.bytes += bytes;
        let known = self.index.insert(key, at);
        assert!(known.is_none(), "an object is loaded twice");
        SlotId(at)
    }

    fn remove(&mut self, at: u32) {
        let slot = self.slots[at as usize].take().expect("occupied");
        self.bytes -= slot.bytes;
        self.index.remove(&slot.key);
        self.vacant.push(at);
    }

    /// Drops all entries.
    pub fn forget_all(&mut self) {
        *self = OnodeCache { budget_bytes: self.budget_bytes, ..OnodeCache::default() };
    }

    /// Marks the objects of `begin .. end` as absent. Takes time by the number of entries.
    pub fn remove_range(&mut self, begin: &[u8], end: &[u8]) {
        for at in 0..self.slots.len() {
            if let Some(slot) = self.slots[at].as_mut().filter(|slot| *slot.key >= *begin && *slot.key < *end) {
                slot.onode = None;
                self.recount(SlotId(at as u32));
            }
        }
    }

    /// Drops entries beyond the budget, except those that `keep` names.
    pub fn trim(&mut self, keep: impl Fn(&[u8]) -> bool) {
        let mut steps = self.slots.len() * (usize::from(LIVES) + 1);
        while self.bytes > self.budget_bytes && steps > 0 {
            steps -= 1;
            self.hand = if self.hand + 1 < self.slots.len() { self.hand + 1 } else { 0 };
            match &mut self.slots[self.hand] {
                Some(slot) if keep(&slot.key) => {}
                Some(slot) if slot.lives > 0 => slot.lives -= 1,
                Some(_) => self.remove(self.hand as u32),
                None => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(n: u32) -> Vec<u8> {
        n.to_le_bytes().to_vec()
    }

    #[test]
    fn what_is_used_stays_and_memory_is_counted() {
        let mut cache = OnodeCache::default();
        let one = bytes_of(&key(0), Some(&Onode::default()));
        cache.set_budget(10 * one);
        for n in 0..100 {
            cache.insert(&key(n), (n % 2 == 0).then(Onode::default));
            assert!(cache.find(&key(0)).is_some(), "used again and again");
            cache.trim(|kept| kept == key(1));
            assert!(cache.bytes() <= 10 * one);
        }
        assert_eq!(cache.get(&key(0)).map(|found| found.is_some()), Some(true));
        assert_eq!(cache.get(&key(1)).map(|found| found.is_some()), Some(false), "needed");
        assert!(cache.get(&key(2)).is_none(), "let go");
        let held = cache.slots.iter().flatten().map(|slot| slot.bytes).sum::<usize>();
        assert_eq!(cache.bytes(), held);
        cache.remove_range(&key(0), &[0xff]);
        assert_eq!(cache.get(&key(0)).map(|found| found.is_some()), Some(false));
        cache.set_budget(0);
        assert!(cache.find(&key(0)).is_some(), "found last");
        cache.trim(|_| false);
        assert!(cache.find(&key(0)).is_none() && cache.get(&key(0)).is_none(), "gone, though it was found last");
        let slot = cache.insert(&key(7), Some(Onode::default()));
        assert_eq!((cache.find(&key(7)), cache.find(&key(0))), (Some(slot), None));
        cache.trim(|_| false);
        assert_eq!((cache.bytes(), cache.index.len()), (0, 0));
    }
}
