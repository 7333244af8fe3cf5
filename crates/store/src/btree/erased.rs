//! Ranges of keys that were deleted.

use super::overlay::BEHIND_ALL_KEYS;
use super::sorted_chunks::{Graveyard, Item, SortedChunks};

/// Keys in `begin .. end`.
#[derive(Debug)]
pub(super) struct ErasedRange {
    begin: Box<[u8]>,
    end: Box<[u8]>,
}

impl Item for ErasedRange {
    fn key(&self) -> &[u8] {
        &self.begin
    }

    fn memory_bytes(&self) -> usize {
        self.begin.len() + self.end.len() + RANGE_BYTES
    }
}

/// Erased ranges, which neither overlap nor touch.
#[derive(Default, Debug)]
pub(crate) struct Erased {
    ranges: SortedChunks<ErasedRange>,
}

/// Memory of a range besides its keys, in bytes: its slot in a chunk (chunks are two thirds full) and two allocations.
const RANGE_BYTES: usize = 128;

impl Erased {
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    pub fn len(&self) -> usize {
        self.ranges.len()
    }

    pub fn bytes(&self) -> usize {
        self.ranges.bytes()
    }

    /// Adds a range, which must not be empty, and joins it with the ranges it meets.
    pub(super) fn add(&mut self, begin: &[u8], end: &[u8], gone: &mut Graveyard<ErasedRange>) {
        assert!(begin < end, "empty range {begin:x?} .. {end:x?}");
        let ranges = &mut self.ranges;
        let (mut from, to) = (ranges.lower_bound(begin), ranges.upper_bound(end));
        let first = ranges.before(from).filter(|first| *first.end >= *begin).map(|first| first.begin.clone());
        // The last of the ranges that begin before `end` is also the one that ends last.
        let last = ranges.before(to).filter(|last| *last.end > *end).map(|last| last.end.clone());
        if let Some(first) = &first {
            from = ranges.lower_bound(first);
        }
        ranges.cut(from, to, gone);
        let begin = first.unwrap_or_else(|| begin.into());
        ranges.insert(ErasedRange { begin, end: last.unwrap_or_else(|| end.into()) });
    }

    /// Returns the end of the range that contains `key`.
    pub fn end_of(&self, key: &[u8]) -> Option<&[u8]> {
        if self.ranges.is_empty() {
            return None;
        }
        let before = self.ranges.before(self.ranges.upper_bound(key));
        before.map(|range| &*range.end).filter(|end| *end > key)
    }

    /// Returns true if any key of `begin .. end` is in a range.
    pub fn meets(&self, begin: &[u8], end: Option<&[u8]>) -> bool {
        if self.ranges.is_empty() {
            return false;
        }
        if self.end_of(begin).is_some() {
            return true;
        }
        let mut behind = self.ranges.iter_from(self.ranges.lower_bound(begin));
        behind.next().is_some_and(|range| end.is_none_or(|end| *range.begin < *end))
    }

    /// Returns true if all keys of `begin .. end` are in a range.
    pub fn covers(&self, begin: &[u8], end: Option<&[u8]>) -> bool {
        let end = end.unwrap_or(&BEHIND_ALL_KEYS);
        self.end_of(begin).is_some_and(|stop| stop >= end)
    }

    /// Returns the parts of `begin .. end` that are in a range. The caller erases or ignores them: they may or may not
    /// stay in this set.
    pub(super) fn take(&mut self, begin: &[u8], end: &[u8]) -> Erased {
        let mut gone = Graveyard::default();
        let before = self.end_of(begin).map(|stop| stop.min(end).to_vec());
        let (from, to) = (self.ranges.upper_bound(begin), self.ranges.lower_bound(end));
        let mut taken = Erased { ranges: self.ranges.take(from, to) };
        // The part of a range beyond `end` stays in this set.
        if let Some(stop) = taken.end_of(end).map(<[u8]>::to_vec) {
            self.add(end, &stop, &mut gone);
            let last = taken.ranges.before(taken.ranges.lower_bound(end)).expect("it reaches beyond").begin.clone();
            taken.ranges.remove(&last);
            taken.add(&last, end, &mut gone);
        }
        if let Some(stop) = before.filter(|stop| *begin < **stop) {
            taken.add(begin, &stop, &mut gone);
        }
        taken
    }

    /// Adds ranges that all lie behind those of this set.
    pub(super) fn append(&mut self, behind: Erased) {
        self.ranges.append(behind.ranges);
    }

    pub(super) fn bury(self, gone: &mut Graveyard<ErasedRange>) {
        self.ranges.bury(gone);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn ranges_are_the_union_of_what_was_added(added in prop::collection::vec((0u8..40, 1u8..8), 0..20), begin in 0u8..50, len in 1u8..10) {
            let (mut erased, mut model) = (Erased::default(), [false; 64]);
            let mut gone = Graveyard::default();
            for (begin, len) in added {
                erased.add(&[begin], &[begin + len], &mut gone);
                model[usize::from(begin)..usize::from(begin + len)].fill(true);
            }
            for key in 0..60u8 {
                let end = (key..64).find(|k| !model[usize::from(*k)]).unwrap();
                let expected = model[usize::from(key)].then_some(vec![end]);
                prop_assert_eq!(erased.end_of(&[key]).map(<[u8]>::to_vec), expected);
            }
            let range = usize::from(begin)..usize::from(begin + len);
            let mut rest = Erased::default();
            erased.ranges.iter_from(erased.ranges.lower_bound(&[])).for_each(|range| rest.add(&range.begin, &range.end, &mut gone));
            let taken = rest.take(&[begin], &[begin + len]);
            for key in 0..60u8 {
                let inside = range.contains(&usize::from(key));
                prop_assert_eq!(taken.end_of(&[key]).is_some(), inside && model[usize::from(key)], "taken: {}", key);
                prop_assert!(inside || rest.end_of(&[key]).is_some() == model[usize::from(key)], "left: {}", key);
            }
            let end = [begin + len];
            prop_assert_eq!(erased.meets(&[begin], Some(&end)), model[range.clone()].iter().any(|e| *e));
            prop_assert_eq!(erased.meets(&[begin], None), model[range.start..].iter().any(|e| *e));
            prop_assert_eq!(erased.covers(&[begin], Some(&end)), model[range].iter().all(|e| *e));
            prop_assert!(!erased.covers(&[begin], None));
            erased.add(&[begin], &BEHIND_ALL_KEYS, &mut gone);
            prop_assert!(erased.covers(&[begin], None) && erased.covers(&[begin], Some(&end)));
            let all: Vec<&ErasedRange> = erased.ranges.iter_from(erased.ranges.lower_bound(&[])).collect();
            prop_assert!(all.windows(2).all(|pair| pair[0].end < pair[1].begin), "{all:?}");
        }
    }
}
