//! Changes that are not in the tree yet.

use super::erased::Erased;
use super::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use bytes::Bytes;
use std::borrow::Borrow;
use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::ops::Bound;

/// Why an entry cannot be kept. Nothing has changed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum EntryError {
    #[error("key of {bytes} bytes, at most {KEY_BYTES_MAX} are possible")]
    KeyTooLong { bytes: usize },
    #[error("value of {bytes} bytes, at most {VALUE_BYTES_MAX} are possible")]
    ValueTooLong { bytes: usize },
}

/// An entry put or deleted: key and value in one piece of memory.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    /// See [`head_of`]. Here, it is found without going to the record's memory.
    head: u128,
    bytes: Bytes,
    key_bytes: u16,
    deleted: bool,
}

/// The first 16 bytes of a key, padded with zeros, as a number: where those of two keys differ, they sort alike. Most
/// comparisons end there.
#[expect(clippy::big_endian_bytes, reason = "byte order must be number order")]
fn head_of(key: &[u8]) -> u128 {
    let mut head = [0; 16];
    let len = key.len().min(16);
    head[..len].copy_from_slice(&key[..len]);
    u128::from_be_bytes(head)
}

/// What records are looked up by.
trait Keyed {
    fn head(&self) -> u128;
    fn whole(&self) -> &[u8];
}

/// A key to look up.
struct Wanted<'a> {
    head: u128,
    key: &'a [u8],
}

impl Wanted<'_> {
    fn new(key: &[u8]) -> Wanted<'_> {
        Wanted { head: head_of(key), key }
    }
}

impl Keyed for Wanted<'_> {
    fn head(&self) -> u128 {
        self.head
    }

    fn whole(&self) -> &[u8] {
        self.key
    }
}

impl Keyed for Record {
    fn head(&self) -> u128 {
        self.head
    }

    fn whole(&self) -> &[u8] {
        self.key()
    }
}

impl<'a> Borrow<dyn Keyed + 'a> for Record {
    fn borrow(&self) -> &(dyn Keyed + 'a) {
        self
    }
}

impl PartialEq for dyn Keyed + '_ {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for dyn Keyed + '_ {}

impl PartialOrd for dyn Keyed + '_ {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for dyn Keyed + '_ {
    fn cmp(&self, other: &Self) -> Ordering {
        self.head().cmp(&other.head()).then_with(|| self.whole().cmp(other.whole()))
    }
}

impl Record {
    fn new(key: &[u8], value: Option<&[u8]>) -> Record {
        let mut bytes = Vec::with_capacity(key.len() + value.map_or(0, <[u8]>::len));
        bytes.extend_from_slice(key);
        bytes.extend_from_slice(value.unwrap_or_default());
        Record { head: head_of(key), bytes: bytes.into(), key_bytes: key.len() as u16, deleted: value.is_none() }
    }

    pub fn key(&self) -> &[u8] {
        &self.bytes[..usize::from(self.key_bytes)]
    }

    /// `None` if the entry was deleted.
    pub fn value(&self) -> Option<&[u8]> {
        (!self.deleted).then(|| &self.bytes[usize::from(self.key_bytes)..])
    }

    pub fn key_bytes(&self) -> Bytes {
        self.bytes.slice(..usize::from(self.key_bytes))
    }

    pub fn value_bytes(&self) -> Option<Bytes> {
        (!self.deleted).then(|| self.bytes.slice(usize::from(self.key_bytes)..))
    }

    fn memory_bytes(&self) -> usize {
        self.bytes.len() + RECORD_BYTES
    }
}

impl PartialEq for Record {
    fn eq(&self, other: &Record) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Record {}

impl PartialOrd for Record {
    fn partial_cmp(&self, other: &Record) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Record {
    fn cmp(&self, other: &Record) -> Ordering {
        self.head.cmp(&other.head).then_with(|| self.key().cmp(other.key()))
    }
}

/// Memory of a record besides key and value: its slot in the set, which is two thirds full, and the allocation.
const RECORD_BYTES: usize = 112;

/// Changes of one period: records, which override the ranges erased in the same period.
#[derive(Default, Debug)]
pub(crate) struct Generation {
    records: BTreeSet<Record>,
    pub erased: Erased,
    record_bytes: usize,
}

/// What a generation says about a key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Said {
    Put(Bytes),
    Deleted,
    Nothing,
}

impl Generation {
    pub fn is_empty(&self) -> bool {
        self.records.is_empty() && self.erased.is_empty()
    }

    pub fn bytes(&self) -> usize {
        self.record_bytes + self.erased.bytes()
    }

    pub fn says(&self, key: &[u8]) -> Said {
        match self.find(key) {
            Some(record) => record.value_bytes().map_or(Said::Deleted, Said::Put),
            None if self.erased.end_of(key).is_some() => Said::Deleted,
            None => Said::Nothing,
        }
    }

    fn find(&self, key: &[u8]) -> Option<&Record> {
        self.records.get(&Wanted::new(key) as &dyn Keyed)
    }

    /// Records from `from` on, in order.
    pub fn records_from(&self, from: &[u8]) -> std::collections::btree_set::Range<'_, Record> {
        let from = Wanted::new(from);
        self.records.range::<dyn Keyed + '_, _>((Bound::Included(&from as &dyn Keyed), Bound::Unbounded))
    }

    fn take(&mut self, key: &[u8]) -> Option<Record> {
        let taken = self.records.take(&Wanted::new(key) as &dyn Keyed)?;
        self.record_bytes -= taken.memory_bytes();
        Some(taken)
    }

    fn set(&mut self, record: Record) {
        self.record_bytes += record.memory_bytes();
        if let Some(old) = self.records.replace(record) {
            self.record_bytes -= old.memory_bytes();
        }
    }

    fn delete(&mut self, key: &[u8]) {
        if self.erased.end_of(key).is_none() {
            self.set(Record::new(key, None));
        } else {
            self.take(key);
        }
    }

    fn delete_range(&mut self, begin: &[u8], end: &[u8]) {
        let inside = self.records_from(begin).take_while(|record| record.key() < end);
        let gone: Vec<Bytes> = inside.map(Record::key_bytes).collect();
        gone.iter().for_each(|key| drop(self.take(key)));
        self.erased.add(begin, end);
    }

    /// Drops up to `count` records; whether none is left.
    fn shed(&mut self, count: usize) -> bool {
        for _ in 0..count {
            let Some(record) = self.records.pop_first() else { return self.erased.shed(count) };
            self.record_bytes -= record.memory_bytes();
        }
        false
    }
}

/// Changes in memory, over the tree: those being made, and those of before, which a merge is putting into the tree.
#[derive(Default, Debug)]
pub struct Overlay {
    pub(crate) active: Generation,
    pub(crate) frozen: Option<Generation>,
    /// In the tree already; only memory to be freed.
    retired: Vec<Generation>,
}

impl Overlay {
    /// Sets a value. Errors: nothing changes.
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), EntryError> {
        check_key(key)?;
        if value.len() > VALUE_BYTES_MAX {
            return Err(EntryError::ValueTooLong { bytes: value.len() });
        }
        self.active.set(Record::new(key, Some(value)));
        Ok(())
    }

    /// Removes an entry, if there is one. Errors: nothing changes.
    pub fn delete(&mut self, key: &[u8]) -> Result<(), EntryError> {
        check_key(key)?;
        self.active.delete(key);
        Ok(())
    }

    /// Removes all entries of `begin .. end`, `end` excluded. Takes time by the number of changes of that range that are
    /// in memory. Errors: nothing changes.
    pub fn delete_range(&mut self, begin: &[u8], end: &[u8]) -> Result<(), EntryError> {
        check_key(begin)?;
        check_key(end)?;
        if begin < end {
            self.active.delete_range(begin, end);
        }
        Ok(())
    }

    /// Changes a frozen value for facts about it that became known only later: `change` says the new value, if it is to
    /// change. Only before a merge of the frozen changes begins.
    pub fn amend_frozen(&mut self, key: &[u8], change: impl FnOnce(&[u8]) -> Option<Vec<u8>>) {
        let Some(frozen) = &mut self.frozen else { return };
        if let Some(value) = frozen.find(key).and_then(Record::value).and_then(change) {
            frozen.set(Record::new(key, Some(&value)));
        }
    }

    /// Bytes of memory: of changes being made, and of all.
    pub fn bytes(&self) -> (usize, usize) {
        let others = self.frozen.iter().chain(&self.retired).map(Generation::bytes).sum::<usize>();
        (self.active.bytes(), self.active.bytes() + others)
    }

    /// Whether there are no changes that are not frozen.
    pub fn is_clean(&self) -> bool {
        self.active.is_empty()
    }

    /// Ends the period of changes: a merge can take them to the tree. Panics if those of the last one are not retired.
    pub fn freeze(&mut self) {
        assert!(self.frozen.is_none(), "the former changes are not merged yet");
        self.frozen = Some(std::mem::take(&mut self.active));
    }

    pub fn is_frozen(&self) -> bool {
        self.frozen.is_some()
    }

    /// Forgets all changes, and has the tree count as empty until it is replaced: whoever calls this puts everything there
    /// is, freezes that, and makes a tree of it ([`super::Merge::anew`]). All keys begin below `ff`.
    pub fn start_over(&mut self) {
        self.retired.extend(self.frozen.take());
        self.retired.push(std::mem::take(&mut self.active));
        self.active.delete_range(&[], &[0xff]);
    }

    /// The frozen changes are in the tree that is used from now on. Their memory is freed by [`Overlay::shed`].
    pub fn retire(&mut self) {
        self.retired.extend(self.frozen.take());
    }

    /// Frees memory of up to `count` changes; whether none is left to free.
    pub fn shed(&mut self, count: usize) -> bool {
        if self.retired.last_mut().is_some_and(|last| last.shed(count)) {
            self.retired.pop();
        }
        self.retired.is_empty()
    }

    pub(crate) fn says(&self, key: &[u8]) -> Said {
        match self.active.says(key) {
            Said::Nothing => self.frozen.as_ref().map_or(Said::Nothing, |frozen| frozen.says(key)),
            said => said,
        }
    }

    /// The end of the range of tree entries erased by either generation that `key` is in.
    pub(crate) fn erased_end(&self, key: &[u8]) -> Option<&[u8]> {
        let frozen = self.frozen.as_ref().and_then(|frozen| frozen.erased.end_of(key));
        self.active.erased.end_of(key).max(frozen)
    }
}

fn check_key(key: &[u8]) -> Result<(), EntryError> {
    if key.len() > KEY_BYTES_MAX { Err(EntryError::KeyTooLong { bytes: key.len() }) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn sums_up(generation: &Generation) -> bool {
        generation.record_bytes == generation.records.iter().map(Record::memory_bytes).sum::<usize>()
    }

    proptest! {
        #[test]
        fn records_sort_as_their_keys(keys in prop::collection::vec(prop::collection::vec(0u8..3, 0..20), 2..20)) {
            let mut generation = Generation::default();
            keys.iter().for_each(|key| generation.set(Record::new(key, None)));
            let mut sorted = keys.clone();
            sorted.sort();
            sorted.dedup();
            prop_assert!(generation.records_from(&[]).map(Record::key).eq(sorted.iter().map(|key| &key[..])));
            for key in &keys {
                let behind = sorted.iter().position(|other| other == key).unwrap();
                prop_assert_eq!(generation.records_from(key).count(), sorted.len() - behind);
                prop_assert!(generation.find(key).is_some());
            }
        }

        #[test]
        fn the_newest_change_counts(steps in prop::collection::vec((0u8..6, 0u8..30, 0u8..8, any::<u8>()), 0..80)) {
            let (mut overlay, mut model) = (Overlay::default(), BTreeMap::new());
            for (action, key, len, value) in steps {
                match action {
                    0..=2 => {
                        overlay.put(&[key], &[value]).unwrap();
                        model.insert(key, Said::Put(vec![value].into()));
                    }
                    3 => {
                        overlay.delete(&[key]).unwrap();
                        model.insert(key, Said::Deleted);
                    }
                    4 => {
                        overlay.delete_range(&[key], &[key + len]).unwrap();
                        model.extend((key..key + len).map(|key| (key, Said::Deleted)));
                    }
                    _ if overlay.is_frozen() => {
                        overlay.retire();
                        // Only the active changes remain.
                        model.retain(|key, _| overlay.active.says(&[*key]) != Said::Nothing);
                    }
                    _ => overlay.freeze(),
                }
                for key in 0..40 {
                    prop_assert_eq!(&overlay.says(&[key]), model.get(&key).unwrap_or(&Said::Nothing));
                }
                prop_assert!(sums_up(&overlay.active) && overlay.frozen.as_ref().is_none_or(sums_up));
            }
            overlay.retire();
            let all = overlay.bytes();
            while !overlay.shed(3) {}
            prop_assert_eq!(overlay.bytes(), (all.0, all.0));
        }
    }

    #[test]
    fn long_keys_are_refused() {
        let mut overlay = Overlay::default();
        let long = vec![1; KEY_BYTES_MAX + 1];
        let refused = Err(EntryError::KeyTooLong { bytes: KEY_BYTES_MAX + 1 });
        assert_eq!(overlay.put(&long, b""), refused);
        assert_eq!(overlay.delete(&long), refused);
        assert_eq!(overlay.delete_range(&[], &long), refused);
        assert!(overlay.is_clean());
        assert_eq!(overlay.put(&long[1..], b""), Ok(()));
    }
}
