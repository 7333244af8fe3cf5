//! Sets of a stripe's shards.

use std::fmt;

/// Largest number of shards of a code, data and parity together.
pub const SHARDS_MAX: usize = 64;

/// A set of shard numbers. Data shards are numbered from 0 to k - 1, parity shards from k to k + m - 1.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct ShardSet(u64);

const _: () = assert!(SHARDS_MAX <= u64::BITS as usize);

impl ShardSet {
    pub const EMPTY: ShardSet = ShardSet(0);

    /// Shards 0 to `count` - 1. Panics above [`SHARDS_MAX`].
    pub fn first(count: usize) -> ShardSet {
        assert!(count <= SHARDS_MAX, "{count} shards are more than {SHARDS_MAX}");
        ShardSet(if count == 0 { 0 } else { u64::MAX >> (u64::BITS as usize - count) })
    }

    /// Adds a shard. Panics for numbers from [`SHARDS_MAX`] on.
    pub fn insert(&mut self, shard: usize) {
        assert!(shard < SHARDS_MAX, "there is no shard {shard}");
        self.0 |= 1 << shard;
    }

    pub fn remove(&mut self, shard: usize) {
        if shard < SHARDS_MAX {
            self.0 &= !(1 << shard);
        }
    }

    pub fn contains(self, shard: usize) -> bool {
        shard < SHARDS_MAX && self.0 >> shard & 1 == 1
    }

    pub fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub fn is_subset(self, of: ShardSet) -> bool {
        self.0 & !of.0 == 0
    }

    pub fn union(self, other: ShardSet) -> ShardSet {
        ShardSet(self.0 | other.0)
    }

    pub fn intersection(self, other: ShardSet) -> ShardSet {
        ShardSet(self.0 & other.0)
    }

    /// The shards that are not in `other`.
    pub fn without(self, other: ShardSet) -> ShardSet {
        ShardSet(self.0 & !other.0)
    }

    /// The shards in ascending order.
    pub fn iter(self) -> impl Iterator<Item = usize> + Clone {
        let mut left = self.0;
        std::iter::from_fn(move || {
            let next = left.trailing_zeros() as usize;
            left &= left.wrapping_sub(1);
            (next < u64::BITS as usize).then_some(next)
        })
    }

    /// The set as bits; bit i stands for shard i.
    pub fn bits(self) -> u64 {
        self.0
    }

    pub fn from_bits(bits: u64) -> ShardSet {
        ShardSet(bits)
    }
}

impl FromIterator<usize> for ShardSet {
    fn from_iter<I: IntoIterator<Item = usize>>(shards: I) -> ShardSet {
        let mut set = ShardSet::EMPTY;
        shards.into_iter().for_each(|shard| set.insert(shard));
        set
    }
}

impl fmt::Debug for ShardSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

/// Formats as `0,2,5`.
impl fmt::Display for ShardSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, shard) in self.iter().enumerate() {
            write!(f, "{}{shard}", if i == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_is_a_set() {
        let mut set: ShardSet = [0, 3, 63].into_iter().collect();
        assert_eq!(set.iter().collect::<Vec<_>>(), [0, 3, 63]);
        assert_eq!((set.len(), set.to_string().as_str()), (3, "0,3,63"));
        assert!(set.contains(63) && !set.contains(2) && !set.contains(64));
        set.remove(63);
        set.remove(64);
        assert!(set.is_subset(ShardSet::first(4)) && !set.is_subset(ShardSet::first(3)));
        assert_eq!(ShardSet::first(4).without(set), [1, 2].into_iter().collect());
        assert_eq!(set.union([1].into_iter().collect()).intersection(ShardSet::first(2)), ShardSet::first(2));
        assert_eq!(ShardSet::first(64).len(), 64);
        assert!(ShardSet::first(0).is_empty() && ShardSet::EMPTY.iter().next().is_none());
    }

    #[test]
    #[should_panic(expected = "there is no shard 64")]
    fn a_shard_beyond_the_largest_is_a_mistake() {
        ShardSet::EMPTY.clone().insert(64);
    }
}
