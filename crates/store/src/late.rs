//! Lookups that are answered late or not at all, so that layers above can be tested for it.
//!
//! [`Store::answer_late`] has any lookup answer [`Lookup::Pending`] now and then; a real request to the device then stands
//! between it and its [`StoreEvent::LookupDone`], as a page of metadata that is read would.

use crate::allocator::Run;
use crate::btree::DamageKind;
use crate::io_queue::Purpose;
use crate::{Lookup, LookupId, Store, StoreEvent};
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use types::ObjectId;
use wire::Rope;

/// Questions remembered at most. Those that are never asked again would fill the table.
const ASKED_MAX: usize = 4096;

#[derive(Debug, Default)]
pub(crate) struct Late {
    /// 0: every lookup is answered at once.
    random: u64,
    /// How often a question that waits for its answer has been asked.
    asked: BTreeMap<u64, u32>,
    /// Bytes that were there at once.
    reads: BTreeMap<LookupId, Rope>,
    damaged: BTreeSet<ObjectId>,
}

impl Late {
    /// xorshift64 (Marsaglia 2003).
    fn random(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }

    /// Whether this question is to wait: one time in two, and less often each time it is asked again.
    fn waits(&mut self, question: u64) -> bool {
        let asked = self.asked.get(&question).copied().unwrap_or(0);
        if self.random() >> 33 & ((2 << asked.min(20)) - 1) != 0 {
            self.asked.remove(&question);
            return false;
        }
        if self.asked.len() >= ASKED_MAX {
            self.asked.clear();
        }
        self.asked.insert(question, asked + 1);
        true
    }
}

impl Store {
    /// Has lookups wait now and then, as `seed` says.
    #[doc(hidden)]
    pub fn answer_late(&mut self, seed: u64) {
        self.late.random = seed | 1;
    }

    /// Has lookups in this object's metadata find it damaged.
    #[doc(hidden)]
    pub fn answer_damaged(&mut self, object: &ObjectId) {
        self.late.damaged.insert(object.clone());
    }

    /// What a lookup answers instead of its value, if anything.
    pub(crate) fn late<T>(&mut self, object: Option<&ObjectId>, question: impl Hash) -> Option<Lookup<T>> {
        if object.is_some_and(|object| self.late.damaged.contains(object)) {
            return Some(Lookup::Damaged(DamageKind::Magic.at(Run { start: 0, count: 1 })));
        }
        if self.late.random == 0 {
            return None;
        }
        let mut hasher = DefaultHasher::new();
        (object, question).hash(&mut hasher);
        self.late.waits(hasher.finish()).then(|| Lookup::Pending(self.begin_late()))
    }

    /// The answer to a data read whose bytes are there.
    pub(crate) fn late_read(&mut self, object: &ObjectId, bytes: Rope) -> Lookup<Rope> {
        match self.late::<Rope>(None, ("read", object, bytes.len())) {
            Some(Lookup::Pending(id)) => {
                self.late.reads.insert(id, bytes);
                Lookup::Pending(id)
            }
            _ => Lookup::Ready(bytes),
        }
    }

    fn begin_late(&mut self) -> LookupId {
        let id = self.lookups.next_id();
        self.io.read(Purpose::Late { id }, Run { start: 0, count: 1 }, &self.buffers);
        id
    }

    pub(crate) fn late_done(&mut self, id: LookupId) {
        self.events.push_back(match self.late.reads.remove(&id) {
            Some(bytes) => StoreEvent::ReadDone { id, result: Ok(bytes) },
            None => StoreEvent::LookupDone(id),
        });
    }
}
