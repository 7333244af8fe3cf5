//! Sets of small numbers that find their next member in a few steps.

const BITS: u32 = 64;

/// A set of numbers below a limit: a bitmap, above it a bitmap of its nonzero words, and so on up to one word. Every
/// operation looks at one word per level, at four levels for 16 million numbers. Memory: 65 bits for 64 numbers.
#[derive(Debug)]
pub(crate) struct BitTree {
    /// Bitmaps from the numbers themselves upwards; the last one is a single word.
    levels: Vec<Vec<u64>>,
    len: u32,
}

impl BitTree {
    /// Creates an empty set for numbers below `limit`.
    pub fn new(limit: u32) -> BitTree {
        let mut levels = Vec::new();
        let mut words = limit.div_ceil(BITS).max(1);
        loop {
            levels.push(vec![0; words as usize]);
            if words == 1 {
                return BitTree { levels, len: 0 };
            }
            words = words.div_ceil(BITS);
        }
    }

    /// Returns the number of members.
    pub fn len(&self) -> u32 {
        self.len
    }

    pub fn contains(&self, number: u32) -> bool {
        self.levels[0][(number / BITS) as usize] >> (number % BITS) & 1 == 1
    }

    /// Adds a number. Panics if it is a member.
    pub fn insert(&mut self, number: u32) {
        let mut at = number;
        for (depth, level) in self.levels.iter_mut().enumerate() {
            let word = &mut level[(at / BITS) as usize];
            let (before, bit) = (*word, 1 << (at % BITS));
            assert!(depth > 0 || before & bit == 0, "{number} is in the set already");
            *word |= bit;
            if before != 0 {
                break;
            }
            at /= BITS;
        }
        self.len += 1;
    }

    /// Removes a number. Panics if it is no member.
    pub fn remove(&mut self, number: u32) {
        let mut at = number;
        for level in &mut self.levels {
            let word = &mut level[(at / BITS) as usize];
            let bit = 1 << (at % BITS);
            assert!(*word & bit != 0, "{number} is not in the set");
            *word &= !bit;
            if *word != 0 {
                break;
            }
            at /= BITS;
        }
        self.len -= 1;
    }

    /// Returns the lowest member that is `from` or more.
    pub fn next(&self, from: u32) -> Option<u32> {
        let mut at = from;
        for (depth, level) in self.levels.iter().enumerate() {
            let index = (at / BITS) as usize;
            let rest = level.get(index)? & (u64::MAX << (at % BITS));
            if rest != 0 {
                let mut found = index as u32 * BITS + rest.trailing_zeros();
                for level in self.levels[..depth].iter().rev() {
                    found = found * BITS + level[found as usize].trailing_zeros();
                }
                return Some(found);
            }
            at = at / BITS + 1;
        }
        None
    }

    /// Returns the number of consecutive members from `from` on, counted up to `max`.
    pub fn run_len(&self, from: u32, max: u32) -> u32 {
        let mut len = 0;
        while len < max {
            let at = from + len;
            let Some(word) = self.levels[0].get((at / BITS) as usize) else { break };
            let ones = (word >> (at % BITS)).trailing_ones();
            len += ones;
            if ones < BITS - at % BITS {
                break;
            }
        }
        len.min(max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn it_finds_what_a_plain_set_finds(limit in 1u32..9000, steps in prop::collection::vec((any::<u32>(), 1u32..200), 0..60)) {
            let (mut tree, mut model) = (BitTree::new(limit), BTreeSet::new());
            for (number, count) in steps {
                let number = number % limit;
                for at in number..(number + count).min(limit) {
                    if model.insert(at) {
                        tree.insert(at);
                    } else {
                        model.remove(&at);
                        tree.remove(at);
                    }
                }
                prop_assert_eq!(tree.len() as usize, model.len());
                prop_assert!((0..limit).all(|at| tree.contains(at) == model.contains(&at)));
                for from in [0, number, number + count, limit, limit + 70] {
                    prop_assert_eq!(tree.next(from), model.range(from..).next().copied());
                    let run = (from..).take_while(|at| model.contains(at)).count() as u32;
                    prop_assert_eq!(tree.run_len(from, 100), run.min(100));
                }
            }
        }
    }
}
