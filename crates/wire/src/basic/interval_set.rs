//! Sets of numbers that mostly come in runs.

use crate::{Decode, DecodeError, Encode, Reader, Writer};
use std::collections::BTreeMap;
use std::fmt;

/// A set of `u64` kept as disjoint runs. Ceph's `interval_set<uint64_t>` (and `interval_set<snapid_t>`).
#[derive(Clone, Default, PartialEq, Eq)]
pub struct IntervalSet {
    /// Start of each run -> its length, never 0. No run reaches past `u64::MAX` or into the next.
    runs: BTreeMap<u64, u64>,
}

impl IntervalSet {
    pub const fn new() -> IntervalSet {
        IntervalSet { runs: BTreeMap::new() }
    }

    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// The runs as (start, length), ascending.
    pub fn runs(&self) -> impl Iterator<Item = (u64, u64)> {
        self.runs.iter().map(|(start, len)| (*start, *len))
    }

    pub fn run_count(&self) -> usize {
        self.runs.len()
    }

    /// How many numbers are in the set.
    pub fn size(&self) -> u64 {
        self.runs.values().sum()
    }

    pub fn contains(&self, n: u64) -> bool {
        self.runs.range(..=n).next_back().is_some_and(|(start, len)| n - start < *len)
    }

    /// Adds `start .. start + len`, whatever of it is already there. Panics if that reaches past `u64::MAX`.
    pub fn insert(&mut self, start: u64, len: u64) {
        if len == 0 {
            return;
        }
        let (mut from, mut to) = (start, start.checked_add(len).expect("run ends within u64"));
        // Swallow every run that touches the new one.
        while let Some((&at, &old)) = self.runs.range(..=to).next_back() {
            if at + old < from {
                break;
            }
            self.runs.remove(&at);
            (from, to) = (from.min(at), to.max(at + old));
        }
        self.runs.insert(from, to - from);
    }

    /// Takes out `start .. start + len`, whatever of it is there. Panics if that reaches past `u64::MAX`.
    pub fn remove(&mut self, start: u64, len: u64) {
        if len == 0 {
            return;
        }
        let end = start.checked_add(len).expect("run ends within u64");
        while let Some((&at, &old)) = self.runs.range(..end).next_back() {
            let old_end = at + old;
            if old_end <= start {
                break;
            }
            self.runs.remove(&at);
            if old_end > end {
                self.runs.insert(end, old_end - end);
            }
            if at < start {
                self.runs.insert(at, start - at);
                break;
            }
        }
    }

    /// Adds all of `other`.
    pub fn union(&mut self, other: &IntervalSet) {
        other.runs().for_each(|(start, len)| self.insert(start, len));
    }

    /// Takes out all of `other`.
    pub fn subtract(&mut self, other: &IntervalSet) {
        other.runs().for_each(|(start, len)| self.remove(start, len));
    }

    /// Keeps only what is in `other`, too.
    pub fn intersect(&mut self, other: &IntervalSet) {
        let mut outside = self.clone();
        outside.subtract(other);
        self.subtract(&outside);
    }

    /// Whether all of `other` is here.
    pub fn contains_all(&self, other: &IntervalSet) -> bool {
        let mut outside = other.clone();
        outside.subtract(self);
        outside.is_empty()
    }
}

impl FromIterator<u64> for IntervalSet {
    fn from_iter<I: IntoIterator<Item = u64>>(numbers: I) -> IntervalSet {
        let mut set = IntervalSet::new();
        numbers.into_iter().for_each(|n| set.insert(n, 1));
        set
    }
}

/// As Ceph prints it: `[1~2,7~1]`, hexadecimal.
impl fmt::Display for IntervalSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[")?;
        for (i, (start, len)) in self.runs().enumerate() {
            write!(f, "{}{start:x}~{len:x}", if i > 0 { "," } else { "" })?;
        }
        f.write_str("]")
    }
}

impl fmt::Debug for IntervalSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Encode for IntervalSet {
    fn encode(&self, w: &mut Writer) {
        w.put(&self.runs);
    }
}

/// Runs must come in order, disjoint, non-empty and within `u64`. Adjacent runs are kept apart as they came.
impl Decode for IntervalSet {
    const MIN_BYTES: usize = 4;

    fn decode(r: &mut Reader<'_>) -> Result<IntervalSet, DecodeError> {
        let count = r.count("interval set", 16)?;
        let mut runs = BTreeMap::new();
        let mut free_from = 0;
        for _ in 0..count {
            let (start, len) = (r.u64()?, r.u64()?);
            let end = start.checked_add(len).filter(|_| len > 0 && start >= free_from);
            free_from = end.ok_or(DecodeError::Value { what: "interval", value: start })?;
            runs.insert(start, len);
        }
        Ok(IntervalSet { runs })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Target;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn behaves_like_a_set_of_numbers(steps in prop::collection::vec((any::<bool>(), 0u64..60, 0u64..12), 0..40)) {
            let (mut set, mut model) = (IntervalSet::new(), BTreeSet::new());
            for (add, start, len) in steps {
                if add { set.insert(start, len) } else { set.remove(start, len) }
                for n in start..start + len {
                    if add { model.insert(n); } else { model.remove(&n); }
                }
                prop_assert!((0..80).all(|n| set.contains(n) == model.contains(&n)), "{} {:?}", set, model);
                prop_assert_eq!(set.size(), model.len() as u64);
                prop_assert_eq!(&set, &model.iter().copied().collect(), "runs are merged");
                prop_assert_eq!(&IntervalSet::from_slice(&set.to_vec(Target::default())).unwrap(), &set);
            }
        }
    }

    #[test]
    fn an_intersection_is_what_both_have() {
        let mut set: IntervalSet = [1, 2, 3, 7, 8, 20].into_iter().collect();
        let other: IntervalSet = [2, 3, 4, 8, 9].into_iter().collect();
        assert!(!set.contains_all(&other));
        set.intersect(&other);
        assert_eq!(set, [2, 3, 8].into_iter().collect());
        assert!(other.contains_all(&set) && set.contains_all(&IntervalSet::new()));
    }

    #[test]
    fn overlapping_runs_are_refused() {
        let overlapping: Vec<(u64, u64)> = vec![(1, 4), (3, 1)];
        let empty: Vec<(u64, u64)> = vec![(1, 0)];
        let too_long: Vec<(u64, u64)> = vec![(2, u64::MAX)];
        for runs in [overlapping, empty, too_long] {
            assert!(IntervalSet::from_slice(&runs.to_vec(Target::default())).is_err(), "{runs:?}");
        }
    }
}
