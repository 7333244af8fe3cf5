//! Ranges of keys that were deleted.

use std::collections::BTreeMap;
use std::ops::Bound;

/// Ranges `begin .. end` that neither overlap nor touch.
#[derive(Default, Debug)]
pub(crate) struct Erased {
    ranges: BTreeMap<Box<[u8]>, Box<[u8]>>,
    bytes: usize,
}

/// Memory of a range besides its keys.
const RANGE_BYTES: usize = 96;

fn bytes_of(begin: &[u8], end: &[u8]) -> usize {
    begin.len() + end.len() + RANGE_BYTES
}

impl Erased {
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds a range, which is not empty, joining it with those it meets.
    pub fn add(&mut self, begin: &[u8], end: &[u8]) {
        assert!(begin < end, "empty range {begin:x?} .. {end:x?}");
        let (mut begin, mut end): (Box<[u8]>, Box<[u8]>) = (begin.into(), end.into());
        let before = self.ranges.range::<[u8], _>((Bound::Unbounded, Bound::Included(&*begin))).next_back();
        if let Some((first, _)) = before.filter(|(_, stop)| ***stop >= *begin) {
            begin = first.clone();
        }
        let bounds = (Bound::Included(&*begin), Bound::Included(&*end));
        let met: Vec<Box<[u8]>> = self.ranges.range::<[u8], _>(bounds).map(|(first, _)| first.clone()).collect();
        for first in met {
            let stop = self.ranges.remove(&first).expect("just listed");
            self.bytes -= bytes_of(&first, &stop);
            end = end.max(stop);
        }
        self.bytes += bytes_of(&begin, &end);
        self.ranges.insert(begin, end);
    }

    /// The end of the range that `key` is in.
    pub fn end_of(&self, key: &[u8]) -> Option<&[u8]> {
        if self.ranges.is_empty() {
            return None;
        }
        let before = self.ranges.range::<[u8], _>((Bound::Unbounded, Bound::Included(key))).next_back();
        before.map(|(_, end)| &**end).filter(|end| *end > key)
    }

    /// Whether any key of `begin .. end` is in a range.
    pub fn meets(&self, begin: &[u8], end: Option<&[u8]>) -> bool {
        if self.ranges.is_empty() {
            return false;
        }
        if self.end_of(begin).is_some() {
            return true;
        }
        let mut behind = self.ranges.range::<[u8], _>((Bound::Included(begin), Bound::Unbounded));
        behind.next().is_some_and(|(first, _)| end.is_none_or(|end| **first < *end))
    }

    /// Whether all keys of `begin .. end` are in a range.
    pub fn covers(&self, begin: &[u8], end: Option<&[u8]>) -> bool {
        end.is_some_and(|end| self.end_of(begin).is_some_and(|stop| stop >= end))
    }

    /// Drops up to `count` ranges; whether none is left.
    pub fn shed(&mut self, count: usize) -> bool {
        for _ in 0..count {
            let Some((begin, end)) = self.ranges.pop_first() else { break };
            self.bytes -= bytes_of(&begin, &end);
        }
        self.ranges.is_empty()
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
            for (begin, len) in added {
                erased.add(&[begin], &[begin + len]);
                model[usize::from(begin)..usize::from(begin + len)].fill(true);
            }
            for key in 0..60u8 {
                let end = (key..64).find(|k| !model[usize::from(*k)]).unwrap();
                let expected = model[usize::from(key)].then_some(vec![end]);
                prop_assert_eq!(erased.end_of(&[key]).map(<[u8]>::to_vec), expected);
            }
            let range = usize::from(begin)..usize::from(begin + len);
            let end = [begin + len];
            prop_assert_eq!(erased.meets(&[begin], Some(&end)), model[range.clone()].iter().any(|e| *e));
            prop_assert_eq!(erased.meets(&[begin], None), model[range.start..].iter().any(|e| *e));
            prop_assert_eq!(erased.covers(&[begin], Some(&end)), model[range].iter().all(|e| *e));
            prop_assert!(!erased.covers(&[begin], None));
            let bytes: usize = erased.ranges.iter().map(|(b, e)| bytes_of(b, e)).sum();
            prop_assert_eq!(erased.bytes(), bytes);
            prop_assert!(erased.shed(100) && erased.bytes() == 0);
        }
    }
}
