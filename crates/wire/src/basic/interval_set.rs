//! Sets of numbers that mostly form runs.

use crate::{Decode, DecodeError, Encode, Reader, Writer};
use std::fmt;

/// A set of `u64` kept as disjoint runs. Ceph's `interval_set<uint64_t>` (and `interval_set<snapid_t>`).
#[derive(Clone, Default, PartialEq, Eq)]
pub struct IntervalSet {
    /// Runs as (start, length), ascending. No length is 0, and no run reaches past `u64::MAX` or into the next. They
    /// are in one allocation, as sets are decoded and copied far more often than changed.
    runs: Vec<(u64, u64)>,
}

fn end(&(start, len): &(u64, u64)) -> u64 {
    start + len
}

impl IntervalSet {
    pub const fn new() -> IntervalSet {
        IntervalSet { runs: Vec::new() }
    }

    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// The runs as (start, length), ascending.
    pub fn runs(&self) -> impl Iterator<Item = (u64, u64)> {
        self.runs.iter().copied()
    }

    pub fn run_count(&self) -> usize {
        self.runs.len()
    }

    /// Number of elements of the set.
    pub fn size(&self) -> u64 {
        self.runs.iter().map(|(_, len)| len).sum()
    }

    pub fn contains(&self, n: u64) -> bool {
        let run = self.runs.partition_point(|(start, _)| *start <= n).checked_sub(1);
        run.is_some_and(|run| n < end(&self.runs[run]))
    }

    /// Adds `start .. start + len`, which may be in the set already. Panics if the range reaches past `u64::MAX`.
    pub fn insert(&mut self, start: u64, len: u64) {
        if len == 0 {
            return;
        }
        let to = start.checked_add(len).expect("run ends within u64");
        // The new run absorbs every run that touches it.
        let first = self.runs.partition_point(|run| end(run) < start);
        let after = self.runs.partition_point(|(at, _)| *at <= to);
        if first == after {
            self.runs.insert(first, (start, len));
            return;
        }
        let (from, to) = (start.min(self.runs[first].0), to.max(end(&self.runs[after - 1])));
        self.runs[first] = (from, to - from);
        self.runs.drain(first + 1..after);
    }

    /// Removes `start .. start + len`, as far as it is in the set. Panics if the range reaches past `u64::MAX`.
    pub fn remove(&mut self, start: u64, len: u64) {
        if len == 0 {
            return;
        }
        let to = start.checked_add(len).expect("run ends within u64");
        let first = self.runs.partition_point(|run| end(run) <= start);
        let after = self.runs.partition_point(|(at, _)| *at < to);
        if first == after {
            return;
        }
        let (at, old_end) = (self.runs[first].0, end(&self.runs[after - 1]));
        let left = (at < start).then(|| (at, start - at));
        let right = (old_end > to).then(|| (to, old_end - to));
        self.runs.splice(first..after, left.into_iter().chain(right));
    }

    /// Adds all of `other`.
    pub fn union(&mut self, other: &IntervalSet) {
        if let [(start, len)] = other.runs[..] {
            return self.insert(start, len);
        }
        let (mut mine, mut theirs) = (self.runs.iter().peekable(), other.runs.iter().peekable());
        let mut both: Vec<(u64, u64)> = Vec::with_capacity(mine.len() + theirs.len());
        while let Some(&run) = match (mine.peek(), theirs.peek()) {
            (Some(a), Some(b)) if b < a => theirs.next(),
            (Some(_), _) => mine.next(),
            (None, _) => theirs.next(),
        } {
            match both.last_mut().filter(|last| end(last) >= run.0) {
                Some(last) => last.1 = end(last).max(end(&run)) - last.0,
                None => both.push(run),
            }
        }
        self.runs = both;
    }

    /// Removes all of `other`.
    pub fn subtract(&mut self, other: &IntervalSet) {
        if let [(start, len)] = other.runs[..] {
            return self.remove(start, len);
        }
        let mut left = Vec::with_capacity(self.runs.len() + other.runs.len());
        let mut out = &other.runs[..];
        for run in &self.runs {
            let mut from = run.0;
            out = &out[out.iter().take_while(|gone| end(gone) <= from).count()..];
            for gone in out.iter().take_while(|gone| gone.0 < end(run)) {
                if gone.0 > from {
                    left.push((from, gone.0 - from));
                }
                from = end(gone);
            }
            if from < end(run) {
                left.push((from, end(run) - from));
            }
        }
        self.runs = left;
    }

    /// Keeps only elements that are in `other`, too.
    pub fn intersect(&mut self, other: &IntervalSet) {
        let mut outside = self.clone();
        outside.subtract(other);
        self.subtract(&outside);
    }

    /// True if the set has all of `other`.
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

/// Ceph's format: `[1~2,7~1]`, hexadecimal.
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

/// Runs must be in order, disjoint, non-empty and within `u64`. Adjacent runs stay separate.
impl Decode for IntervalSet {
    const MIN_BYTES: usize = 4;

    fn decode(r: &mut Reader<'_>) -> Result<IntervalSet, DecodeError> {
        let count = r.count("interval set", 16)?;
        let mut runs = Vec::with_capacity(count);
        let mut free_from = 0;
        for _ in 0..count {
            let (start, len) = (r.u64()?, r.u64()?);
            let end = start.checked_add(len).filter(|_| len > 0 && start >= free_from);
            free_from = end.ok_or(DecodeError::Value { what: "interval", value: start })?;
            runs.push((start, len));
        }
        Ok(IntervalSet { runs })
    }
}

/// Nacre's own encoding, for sets whose runs mostly lie close together. A run is its distance from the end of the run
/// before it, and its length, both as numbers of variable length in units of the largest power of two that divides all
/// of them.
impl IntervalSet {
    pub fn encode_compact(&self, w: &mut Writer) {
        let all = self.runs.iter().fold(0, |bits, (start, len)| bits | start | len);
        let unit = all.trailing_zeros().min(63);
        w.u8(unit as u8);
        w.varint(self.runs.len() as u64);
        let mut from = 0;
        for run in &self.runs {
            w.varint((run.0 - from) >> unit);
            w.varint(run.1 >> unit);
            from = end(run);
        }
    }

    /// Errors: runs that are empty or reach past `u64::MAX`, or more of them than there are bytes for.
    pub fn decode_compact(r: &mut Reader<'_>) -> Result<IntervalSet, DecodeError> {
        let unit = r.u8()?;
        let wrong = |what, value| DecodeError::Value { what, value };
        let scale = 1u64.checked_shl(unit.into()).ok_or(wrong("unit of an interval set", unit.into()))?;
        let count = r.varint()?;
        if count > r.left() as u64 / 2 {
            return Err(wrong("number of intervals", count));
        }
        let mut runs = Vec::with_capacity(count as usize);
        let mut from = 0u64;
        for _ in 0..count {
            let (gap, len) = match r.peek() {
                // In nearly all runs both numbers take one byte.
                [gap, len, ..] if (gap | len) & 0x80 == 0 => {
                    let both = (u64::from(*gap), u64::from(*len));
                    r.skip(2)?;
                    both
                }
                _ => (r.varint()?, r.varint()?),
            };
            let start = gap.checked_mul(scale).and_then(|gap| from.checked_add(gap));
            let len = len.checked_mul(scale).filter(|len| *len > 0);
            let run = start.zip(len).filter(|(start, len)| start.checked_add(*len).is_some());
            let run = run.ok_or(wrong("interval", from))?;
            from = end(&run);
            runs.push(run);
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

    proptest! {
        #[test]
        fn whole_sets_are_joined_and_taken_out(a in numbers(), b in numbers()) {
            let set = |numbers: &BTreeSet<u64>| numbers.iter().copied().collect::<IntervalSet>();
            let (mut both, mut left, mut common) = (set(&a), set(&a), set(&a));
            both.union(&set(&b));
            prop_assert_eq!(both, set(&a.union(&b).copied().collect()));
            left.subtract(&set(&b));
            prop_assert_eq!(left, set(&a.difference(&b).copied().collect()));
            common.intersect(&set(&b));
            prop_assert_eq!(common, set(&a.intersection(&b).copied().collect()));
            prop_assert_eq!(set(&a).contains_all(&set(&b)), a.is_superset(&b));
        }
    }

    fn numbers() -> impl Strategy<Value = BTreeSet<u64>> {
        prop::collection::btree_set(0u64..40, 0..30)
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

    fn compact(set: &IntervalSet) -> Vec<u8> {
        let mut w = Writer::new(Target::default());
        set.encode_compact(&mut w);
        w.into_vec()
    }

    proptest! {
        #[test]
        fn the_compact_form_reads_back(a in numbers(), unit in 0u32..64) {
            let mut set = IntervalSet::new();
            a.iter().filter(|n| **n < u64::MAX >> unit).for_each(|n| set.insert(n << unit, 1 << unit));
            let bytes = compact(&set);
            prop_assert_eq!(IntervalSet::decode_compact(&mut Reader::new(&bytes)), Ok(set));
            for end in 0..bytes.len() {
                prop_assert!(IntervalSet::decode_compact(&mut Reader::new(&bytes[..end])).is_err());
            }
        }

        #[test]
        fn no_bytes_do_harm(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            if let Ok(set) = IntervalSet::decode_compact(&mut Reader::new(&bytes)) {
                prop_assert_eq!(IntervalSet::decode_compact(&mut Reader::new(&compact(&set))), Ok(set));
            }
        }
    }

    #[test]
    fn blocks_take_two_bytes_a_run() {
        let set: IntervalSet = (0..100).map(|i| i * 3).collect();
        let mut blocks = IntervalSet::new();
        set.runs().for_each(|(start, len)| blocks.insert(start << 12, len << 12));
        assert_eq!(compact(&blocks).len(), 2 + 200);
        assert!(IntervalSet::decode_compact(&mut Reader::new(&[64, 0])).is_err());
        let too_far = [[0, 1].as_slice(), &[0xff; 9], &[1, 1]].concat();
        assert!(IntervalSet::decode_compact(&mut Reader::new(&too_far)).is_err());
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
