//! Free units of the device, by the number of their free blocks.

use crate::space::bit_tree::BitTree;

/// Number of classes of units with some but not all blocks free: eighths.
const PARTIAL_CLASSES: usize = 8;
const CLASSES: usize = PARTIAL_CLASSES + 1;
/// Class of the units whose blocks are all free.
const WHOLE: usize = PARTIAL_CLASSES;

/// Units (aligned groups of blocks: the drive's indirection unit) sorted by the number of their free blocks, so that
/// wholly free and nearly free ones are found in a few steps on a device of any size and age.
#[derive(Debug)]
pub(crate) struct FreeUnits {
    unit_blocks: u32,
    classes: [BitTree; CLASSES],
}

impl FreeUnits {
    pub fn new(blocks: u32, unit_blocks: u32) -> FreeUnits {
        let units = blocks.div_ceil(unit_blocks);
        FreeUnits { unit_blocks, classes: std::array::from_fn(|_| BitTree::new(units)) }
    }

    fn class(&self, free: u32) -> Option<usize> {
        match free {
            0 => None,
            free if free == self.unit_blocks => Some(WHOLE),
            free => Some(free as usize * PARTIAL_CLASSES / self.unit_blocks as usize),
        }
    }

    /// Changes the number of free blocks of a unit; 0 also stands for a unit that no search should find.
    pub fn change(&mut self, unit: u32, before: u32, after: u32) {
        let (before, after) = (self.class(before), self.class(after));
        if before == after {
            return;
        }
        if let Some(class) = before {
            self.classes[class].remove(unit);
        }
        if let Some(class) = after {
            self.classes[class].insert(unit);
        }
    }

    /// Returns the number of wholly free units.
    pub fn whole(&self) -> u32 {
        self.classes[WHOLE].len()
    }

    /// Looks at the first `candidates` runs of wholly free units in `begin .. end`, from `from` on and around the end.
    /// Returns first unit and number of units, cut to `max`, of the first run of at least `min` units, or else of the
    /// longest.
    pub fn find_whole(
        &self,
        [begin, end]: [u32; 2],
        from: u32,
        min: u32,
        max: u32,
        candidates: u32,
    ) -> Option<(u32, u32)> {
        let from = if (begin..end).contains(&from) { from } else { begin };
        let (mut at, mut stop, mut longest) = (from, end, None::<(u32, u32)>);
        for _ in 0..candidates {
            let found = match self.classes[WHOLE].next(at).filter(|unit| *unit < stop) {
                Some(unit) => unit,
                None if stop == end && from > begin => {
                    (at, stop) = (begin, from);
                    match self.classes[WHOLE].next(at).filter(|unit| *unit < stop) {
                        Some(unit) => unit,
                        None => break,
                    }
                }
                None => break,
            };
            let count = self.classes[WHOLE].run_len(found, max.min(end - found));
            if count >= min {
                return Some((found, count));
            }
            if longest.is_none_or(|(_, len)| count > len) {
                longest = Some((found, count));
            }
            at = found + count;
        }
        longest
    }

    /// Returns the next unit, from `from` on and around the end, among the partly free units with the most free blocks.
    pub fn find_partial(&self, from: u32) -> Option<u32> {
        let next = |class: &BitTree| class.next(from).or_else(|| class.next(0));
        self.classes[..WHOLE].iter().rev().find_map(next)
    }

    /// Returns the next unit, from `from` on and around the end, among those with the fewest free blocks.
    pub fn find_fullest(&self, from: u32) -> Option<u32> {
        self.classes.iter().find_map(|class| class.next(from).or_else(|| class.next(0)))
    }

    /// Returns the next unit, from `from` on and around the end, among the partly free units with the fewest free
    /// blocks.
    pub fn find_fullest_partial(&self, from: u32) -> Option<u32> {
        self.classes[..WHOLE].iter().find_map(|class| class.next(from).or_else(|| class.next(0)))
    }

    /// Returns up to `max` units of each class with some blocks free, classes with more free blocks first, from `from`
    /// on in each class.
    pub fn partial(&self, from: u32, max: usize) -> impl Iterator<Item = u32> + '_ {
        self.classes[..WHOLE].iter().rev().flat_map(move |class| {
            let first = class.next(from).or_else(|| class.next(0));
            std::iter::successors(first, move |unit| class.next(unit + 1)).take(max)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn units(counts: &[u32]) -> FreeUnits {
        let mut units = FreeUnits::new(counts.len() as u32 * 16, 16);
        (0..).zip(counts).for_each(|(unit, count)| units.change(unit, 0, *count));
        units
    }

    #[test]
    fn long_runs_come_before_short_ones_and_the_longest_before_none() {
        let units = units(&[16, 16, 3, 16, 0, 16, 16, 16, 15, 16]);
        let find = |from, min, candidates| units.find_whole([0, 10], from, min, 100, candidates);
        assert_eq!(find(0, 1, 10), Some((0, 2)));
        assert_eq!(find(2, 2, 10), Some((5, 3)));
        assert_eq!(find(2, 4, 10), Some((5, 3)), "the longest");
        assert_eq!(find(2, 2, 1), Some((3, 1)), "not looked further");
        assert_eq!(find(8, 2, 10), Some((0, 2)), "around the end");
        assert_eq!(units.find_whole([0, 2], 5, 1, 1, 10), Some((0, 1)));
        assert_eq!(units.find_whole([2, 3], 0, 1, 1, 10), None);
        assert_eq!((units.whole(), units.find_fullest_partial(9)), (7, Some(2)));
    }

    #[test]
    fn emptier_units_come_first_or_last() {
        let mut units = units(&[1, 9, 14, 4, 2]);
        assert_eq!((units.find_partial(0), units.find_fullest(1)), (Some(2), Some(0)));
        assert_eq!(units.partial(0, 1).collect::<Vec<_>>(), [2, 1, 3, 4, 0]);
        units.change(2, 14, 0);
        assert_eq!(units.find_partial(4), Some(1));
        assert_eq!(units.partial(3, 9).collect::<Vec<_>>(), [1, 3, 4, 0]);
    }
}
