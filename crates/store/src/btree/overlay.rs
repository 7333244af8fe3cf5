//! Changes that are not in the tree yet.

use super::erased::{Erased, ErasedRange};
use super::sorted_chunks::{Graveyard, Item, Iter, SortedChunks, tail};
use super::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use bytes::Bytes;
use std::ops::Range;
use std::sync::Arc;

/// A key behind every other key.
pub(super) static BEHIND_ALL_KEYS: [u8; KEY_BYTES_MAX + 1] = [0xff; KEY_BYTES_MAX + 1];

/// Reasons why an entry cannot be kept. Nothing has changed.
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
    bytes: Arc<[u8]>,
    /// The [`tail`] of the key.
    tail: u32,
    key_bytes: u16,
    deleted: bool,
}

/// Maximum memory kept to put records together, in bytes.
const SCRATCH_BYTES_MAX: usize = 64 << 10;

impl Record {
    /// `scratch`: a buffer.
    fn new(key: &[u8], value: Option<&[u8]>, scratch: &mut Vec<u8>) -> Record {
        scratch.clear();
        scratch.extend_from_slice(key);
        scratch.extend_from_slice(value.unwrap_or_default());
        let bytes = scratch[..].into();
        if scratch.capacity() > SCRATCH_BYTES_MAX {
            *scratch = Vec::new();
        }
        Record { bytes, tail: tail(key), key_bytes: key.len() as u16, deleted: value.is_none() }
    }

    /// Replaces the value by another of the same length, in place, if nobody else looks at it. Returns true if so.
    fn overwrite(&mut self, value: Option<&[u8]>) -> bool {
        let (Some(value), false) = (value, self.deleted) else { return false };
        if usize::from(self.key_bytes) + value.len() != self.bytes.len() {
            return false;
        }
        let Some(bytes) = Arc::get_mut(&mut self.bytes) else { return false };
        bytes[usize::from(self.key_bytes)..].copy_from_slice(value);
        true
    }

    pub fn key(&self) -> &[u8] {
        &self.bytes[..usize::from(self.key_bytes)]
    }

    /// Returns the value; `None` if the entry was deleted.
    pub fn value(&self) -> Option<&[u8]> {
        (!self.deleted).then(|| &self.bytes[usize::from(self.key_bytes)..])
    }

    /// Returns the key, which shares the record's memory.
    pub fn key_bytes(&self) -> Bytes {
        self.part(0..usize::from(self.key_bytes))
    }

    /// Returns the value, which shares the record's memory; `None` if the entry was deleted.
    pub fn value_bytes(&self) -> Option<Bytes> {
        (!self.deleted).then(|| self.part(usize::from(self.key_bytes)..self.bytes.len()))
    }

    fn part(&self, range: Range<usize>) -> Bytes {
        match range.is_empty() {
            true => Bytes::new(),
            false => Bytes::from_owner(Part { of: self.bytes.clone(), range }),
        }
    }
}

/// A part of a record's memory.
struct Part {
    of: Arc<[u8]>,
    range: Range<usize>,
}

impl AsRef<[u8]> for Part {
    fn as_ref(&self) -> &[u8] {
        &self.of[self.range.clone()]
    }
}

impl Item for Record {
    fn key(&self) -> &[u8] {
        Record::key(self)
    }

    fn memory_bytes(&self) -> usize {
        self.bytes.len() + RECORD_BYTES
    }

    fn tail(&self) -> u32 {
        self.tail
    }
}

/// Memory of a record besides key and value, in bytes: its slot in a chunk (chunks are two thirds full) and the
/// allocation.
const RECORD_BYTES: usize = 112;

/// The changes of one period: records, which override the ranges erased in the same period.
#[derive(Default, Debug)]
pub(crate) struct Generation {
    records: SortedChunks<Record>,
    pub erased: Erased,
}

/// Changes that no longer count and wait for their memory to be freed.
#[derive(Default, Debug)]
struct Gone {
    records: Graveyard<Record>,
    ranges: Graveyard<ErasedRange>,
}

/// The answer of a generation about a key.
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
        self.records.bytes() + self.erased.bytes()
    }

    pub fn says(&self, key: &[u8]) -> Said {
        match self.find(key) {
            Some(record) => record.value_bytes().map_or(Said::Deleted, Said::Put),
            None if self.erased.end_of(key).is_some() => Said::Deleted,
            None => Said::Nothing,
        }
    }

    fn find(&self, key: &[u8]) -> Option<&Record> {
        self.records.get(key)
    }

    /// Returns the records from `from` on, in key order.
    pub fn records_from(&self, from: &[u8]) -> RecordIter<'_> {
        RecordIter(self.records.iter_from(self.records.lower_bound(from)))
    }

    /// Sets the value of a key, or deletes it. `scratch`: a buffer.
    fn set(&mut self, key: &[u8], value: Option<&[u8]>, scratch: &mut Vec<u8>) {
        self.records.put(key, |record| match record.is_some_and(|record| record.overwrite(value)) {
            true => None,
            false => Some(Record::new(key, value, scratch)),
        });
    }

    fn delete(&mut self, key: &[u8], scratch: &mut Vec<u8>) {
        if self.erased.end_of(key).is_none() {
            self.set(key, None, scratch);
        } else {
            self.records.remove(key);
        }
    }

    fn delete_range(&mut self, begin: &[u8], end: &[u8], gone: &mut Gone) {
        self.records.cut(self.records.lower_bound(begin), self.records.lower_bound(end), &mut gone.records);
        self.erased.add(begin, end, &mut gone.ranges);
    }

    /// Takes over the content of another generation in `begin .. end`, a range behind everything that this generation
    /// has.
    fn take_range(&mut self, from: &mut Generation, begin: &[u8], end: &[u8]) {
        let (first, behind) = (from.records.lower_bound(begin), from.records.lower_bound(end));
        self.records.append(from.records.take(first, behind));
        self.erased.append(from.erased.take(begin, end));
    }

    fn bury(self, gone: &mut Gone) {
        self.records.bury(&mut gone.records);
        self.erased.bury(&mut gone.ranges);
    }
}

/// An iterator over records in key order.
#[derive(Debug)]
pub(crate) struct RecordIter<'a>(Iter<'a, Record>);

impl<'a> Iterator for RecordIter<'a> {
    type Item = &'a Record;

    fn next(&mut self) -> Option<&'a Record> {
        self.0.next()
    }
}

/// Changes in memory, over the tree: the ones being made, and the frozen ones, which a merge is taking into the tree.
#[derive(Default, Debug)]
pub struct Overlay {
    pub(crate) active: Generation,
    pub(crate) frozen: Option<Generation>,
    /// Changes that only wait for their memory to be freed.
    gone: Gone,
    /// Number of changes made since the last call of [`Overlay::shed`].
    changes: usize,
    /// A buffer in which records are put together.
    scratch: Vec<u8>,
}

impl Overlay {
    /// Sets a value. Errors: nothing changes.
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), EntryError> {
        check_key(key)?;
        if value.len() > VALUE_BYTES_MAX {
            return Err(EntryError::ValueTooLong { bytes: value.len() });
        }
        self.active.set(key, Some(value), &mut self.scratch);
        self.changes += 1;
        Ok(())
    }

    /// Returns the value put under a key since changes were frozen last.
    pub(crate) fn put_since_frozen(&self, key: &[u8]) -> Option<Bytes> {
        match self.active.says(key) {
            Said::Put(value) => Some(value),
            Said::Deleted | Said::Nothing => None,
        }
    }

    /// Removes an entry, if there is one. Errors: nothing changes.
    pub fn delete(&mut self, key: &[u8]) -> Result<(), EntryError> {
        check_key(key)?;
        self.active.delete(key, &mut self.scratch);
        self.changes += 1;
        Ok(())
    }

    /// Removes all entries of `begin .. end`, `end` excluded. The time hardly depends on their number;
    /// [`Overlay::shed`] frees the memory of changes that no longer count. Errors: nothing changes.
    pub fn delete_range(&mut self, begin: &[u8], end: &[u8]) -> Result<(), EntryError> {
        check_key(begin)?;
        check_key(end)?;
        if begin < end {
            self.active.delete_range(begin, end, &mut self.gone);
        }
        Ok(())
    }

    /// Hides the entries of the tree in `begin .. end` (without an end: all entries from `begin` on), but no change
    /// made so far: for a part of the tree that is lost. Panics if changes are frozen. Errors: nothing changes.
    pub fn hide_tree(&mut self, begin: &[u8], end: Option<&[u8]>) -> Result<(), EntryError> {
        assert!(self.frozen.is_none(), "a merge is under way");
        check_key(begin)?;
        end.map_or(Ok(()), check_key)?;
        let end = end.unwrap_or(&BEHIND_ALL_KEYS);
        if begin < end {
            self.active.erased.add(begin, end, &mut self.gone.ranges);
        }
        Ok(())
    }

    /// Changes a value, wherever it is in memory, for facts about it that became known only later. `change` returns the
    /// new value, or `None` to keep the old one. Must not be called while a merge of frozen changes that have the key
    /// is under way.
    pub fn amend(&mut self, key: &[u8], change: impl Fn(&[u8]) -> Option<Vec<u8>>) {
        for generation in [Some(&mut self.active), self.frozen.as_mut()].into_iter().flatten() {
            if let Some(value) = generation.find(key).and_then(Record::value).and_then(&change) {
                generation.set(key, Some(&value), &mut self.scratch);
            }
        }
    }

    /// Returns true if the overlay has no change of the key, so that the tree decides its value.
    pub fn says_nothing(&self, key: &[u8]) -> bool {
        self.says(key) == Said::Nothing
    }

    /// Removes all entries of some ranges (`begin .. end` each, in order), like [`Overlay::delete_range`], and returns
    /// the unfrozen changes that were in them. The time hardly depends on their number. Errors: nothing changes.
    pub fn take_ranges(&mut self, ranges: &[(&[u8], &[u8])]) -> Result<Overlay, EntryError> {
        ranges.iter().try_for_each(|(begin, end)| check_key(begin).and(check_key(end)))?;
        let mut taken = Overlay::default();
        for (begin, end) in ranges.iter().filter(|(begin, end)| begin < end) {
            taken.active.take_range(&mut self.active, begin, end);
            self.active.delete_range(begin, end, &mut self.gone);
        }
        Ok(taken)
    }

    /// Lends the frozen changes to another overlay, which has none, or gives them back.
    pub(crate) fn lend_frozen(&mut self, to: &mut Overlay) {
        assert!(to.frozen.is_none(), "there are frozen changes already");
        to.frozen = self.frozen.take();
    }

    /// Returns bytes of memory: of the changes being made, and of all changes.
    pub fn bytes(&self) -> (usize, usize) {
        let frozen = self.frozen.as_ref().map_or(0, Generation::bytes);
        let gone = self.gone.records.bytes() + self.gone.ranges.bytes();
        (self.active.bytes(), self.active.bytes() + frozen + gone)
    }

    /// Returns the number of changes that are not in the tree, and the bytes of their keys and values.
    pub fn unmerged(&self) -> (usize, usize) {
        let each = [Some(&self.active), self.frozen.as_ref()].into_iter().flatten();
        each.fold((0, 0), |(changes, bytes), one| {
            let records = one.records.len();
            (changes + records + one.erased.len(), bytes + one.records.bytes() - records * RECORD_BYTES)
        })
    }

    /// Returns true if all changes are frozen.
    pub fn is_clean(&self) -> bool {
        self.active.is_empty()
    }

    /// Ends a period of changes, so that a merge can take them into the tree. Panics if the changes of the last period
    /// are not retired.
    pub fn freeze(&mut self) {
        assert!(self.frozen.is_none(), "the former changes are not merged yet");
        self.frozen = Some(std::mem::take(&mut self.active));
    }

    pub fn is_frozen(&self) -> bool {
        self.frozen.is_some()
    }

    /// Drops the frozen changes, which are in the tree that is used from now on. [`Overlay::shed`] frees their memory.
    pub fn retire(&mut self) {
        if let Some(frozen) = self.frozen.take() {
            frozen.bury(&mut self.gone);
        }
    }

    /// Frees the memory of up to `count` changes that no longer count, and of two more for each change made meanwhile,
    /// so that it cannot pile up. Returns true if none is left to free.
    pub fn shed(&mut self, count: usize) -> bool {
        let count = count + 2 * std::mem::take(&mut self.changes);
        // Erased ranges are few beside records.
        self.gone.records.shed(count) & self.gone.ranges.shed(count)
    }

    pub(crate) fn says(&self, key: &[u8]) -> Said {
        match self.active.says(key) {
            Said::Nothing => self.frozen.as_ref().map_or(Said::Nothing, |frozen| frozen.says(key)),
            said => said,
        }
    }

    /// Returns the end of the range, erased by either generation, that contains `key`.
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

    proptest! {
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
                if action == 0 && len == 0 {
                    let mut taken = overlay.take_ranges(&[(&[3], &[9]), (&[20], &[31])]).unwrap();
                    overlay.lend_frozen(&mut taken);
                    let is_taken = |key: u8| (3..9).contains(&key) || (20..31).contains(&key);
                    for key in (0..40).filter(|key| is_taken(*key)) {
                        prop_assert_eq!(&taken.says(&[key]), model.get(&key).unwrap_or(&Said::Nothing));
                    }
                    taken.lend_frozen(&mut overlay);
                    model.extend((0..40).filter(|key| is_taken(*key)).map(|key| (key, Said::Deleted)));
                }
            }
            overlay.retire();
            while !overlay.shed(3) {}
            let active = overlay.active.bytes();
            prop_assert_eq!(overlay.bytes(), (active, active));
        }
    }

    #[test]
    fn a_value_that_was_looked_up_stays_as_it_was() {
        let mut overlay = Overlay::default();
        let values: [&[u8]; 4] = [b"one", b"two", b"three", b""];
        let mut seen = Vec::new();
        for value in values {
            overlay.put(b"key", value).unwrap();
            overlay.put(b"key", value).unwrap();
            let Said::Put(said) = overlay.says(b"key") else { panic!("it was put") };
            let Some(record) = overlay.active.records_from(b"").next() else { panic!("it was put") };
            seen.push((said, record.key_bytes(), record.value_bytes()));
        }
        for (value, (said, key, of_record)) in values.iter().zip(seen) {
            assert_eq!((&said[..], &key[..], of_record.as_deref()), (*value, &b"key"[..], Some(*value)));
        }
        overlay.delete(b"key").unwrap();
        assert_eq!(overlay.says(b"key"), Said::Deleted);
        overlay.put(b"key", b"").unwrap();
        assert_eq!(overlay.says(b"key"), Said::Put(Bytes::new()));
        let large = vec![7; 2 * SCRATCH_BYTES_MAX];
        overlay.put(b"large", &large).unwrap();
        assert_eq!(overlay.says(b"large"), Said::Put(large.into()));
        assert_eq!(overlay.scratch.capacity(), 0, "memory for a large record is not kept");
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
