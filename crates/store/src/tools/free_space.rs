//! The shape of free space: its runs by length, and its part in whole units.

use crate::Store;
use crate::config::BLOCK;
use std::collections::BTreeMap;

/// Free space in runs of `min_bytes` to twice that.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FreeRuns {
    pub min_bytes: u64,
    pub runs: u64,
    pub bytes: u64,
}

/// All free space: a histogram of its runs by powers of two, from one block on.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FreeSpace {
    /// Histogram, shortest runs first; lengths without runs are left out.
    pub runs: Vec<FreeRuns>,
    pub longest_run_bytes: u64,
    /// The unit that small writes fill and at which large ones begin, in bytes.
    pub unit_bytes: u64,
    /// Free space in aligned units that are wholly free, in bytes.
    pub whole_units_bytes: u64,
}

impl FreeSpace {
    /// Makes the histogram. `runs`: device offset and length.
    pub fn of(runs: impl IntoIterator<Item = (u64, u64)>, unit_bytes: u64) -> FreeSpace {
        let mut space = FreeSpace { unit_bytes, ..FreeSpace::default() };
        let mut buckets = BTreeMap::new();
        for (offset, len) in runs {
            let min_bytes = BLOCK.max(1 << len.max(1).ilog2());
            let bucket = buckets.entry(min_bytes).or_insert(FreeRuns { min_bytes, runs: 0, bytes: 0 });
            bucket.runs += 1;
            bucket.bytes += len;
            space.longest_run_bytes = space.longest_run_bytes.max(len);
            let (begin, end) = (offset.next_multiple_of(unit_bytes), (offset + len) / unit_bytes * unit_bytes);
            space.whole_units_bytes += end.saturating_sub(begin);
        }
        space.runs = buckets.into_values().collect();
        space
    }

    pub fn bytes(&self) -> u64 {
        self.runs.iter().map(|runs| runs.bytes).sum()
    }
}

impl Store {
    /// Returns the present shape of free space, as [`Store::free_ranges`] has it. Looks at every block of the device,
    /// so it is not for a turn of a busy store.
    pub fn free_space(&self) -> FreeSpace {
        FreeSpace::of(self.free_ranges(), u64::from(self.allocator.unit_blocks()) * BLOCK)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_counted_by_powers_of_two_and_whole_units_where_they_are_aligned() {
        let unit = 64 << 10;
        let space = FreeSpace::of(
            [(0, 4096), (8192, 8192), (unit, 12_288), (1 << 20, 4096), ((4 << 20) - 4096, 1 << 20), (9 << 20, unit)],
            unit,
        );
        let flat: Vec<_> = space.runs.iter().map(|r| (r.min_bytes, r.runs, r.bytes)).collect();
        assert_eq!(flat, [(4096, 2, 8192), (8192, 2, 20_480), (unit, 1, unit), (1 << 20, 1, 1 << 20)]);
        assert_eq!((space.longest_run_bytes, space.bytes()), (1 << 20, 28_672 + unit + (1 << 20)));
        // The long run begins one block too early, so its last unit lacks a block.
        assert_eq!(space.whole_units_bytes, (1 << 20) - unit + unit);
    }
}
