//! The pace of a checkpoint's merge.
//!
//! The caller's loop turns with every completion, many times for each commit. If every turn did its part of the merge,
//! all of it would be done in one go, and commits would wait behind its work and behind its writes on the device.
//! Commits therefore give out the work: each brings a slice, which grows as the room for changes until the next
//! checkpoint is used up. While no commit is on its way, every turn does a slice.

/// A slice while there is plenty of room, in ns.
const SLICE_NS: u32 = 100_000;
/// A slice when the room is used up, in ns: commits may soon have to wait.
const FULL_SLICE_NS: u32 = 1_000_000;
/// A slice when twice the room is used, in ns: the bound of memory comes first.
const URGENT_SLICE_NS: u32 = 10_000_000;
/// The part of the room, per mille, up to which slices do not grow.
const PLENTY: u64 = 250;
const _: () = assert!(SLICE_NS < FULL_SLICE_NS && FULL_SLICE_NS < URGENT_SLICE_NS && PLENTY < 1000);

/// The used part, per mille, of the room that changes had when the last checkpoint began.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Pressure(u64);

impl Pressure {
    /// `changes` and `changes_max`: bytes of memory. `log` and `log_max`: bytes of the log. `blocks` and `blocks_max`:
    /// blocks kept for changes on the device. The highest of the three parts counts.
    pub fn of(
        (changes, changes_max): (usize, usize),
        (log, log_max): (u64, u64),
        (blocks, blocks_max): (u64, u64),
    ) -> Pressure {
        let part = |used: u64, max: u64| used.saturating_mul(1000) / max.max(1);
        Pressure(part(changes as u64, changes_max as u64).max(part(log, log_max)).max(part(blocks, blocks_max)))
    }

    /// Returns true if no room is left.
    fn is_full(self) -> bool {
        self.0 >= 1000
    }

    fn slice_ns(self) -> u32 {
        let between =
            |from: u32, to: u32, part: u64, whole: u64| from + (u64::from(to - from) * part.min(whole) / whole) as u32;
        match self.0 {
            0..PLENTY => SLICE_NS,
            PLENTY..1000 => between(SLICE_NS, FULL_SLICE_NS, self.0 - PLENTY, 1000 - PLENTY),
            _ => between(FULL_SLICE_NS, URGENT_SLICE_NS, self.0 - 1000, 1000),
        }
    }
}

/// The rest of the slice of the last commit.
#[derive(Default, Debug)]
pub(crate) struct MergePace {
    left_ns: u32,
    /// True if a slice was put off since the last one.
    is_put_off: bool,
}

impl MergePace {
    /// Notes that a commit has been sent to the device.
    pub fn commit(&mut self, pressure: Pressure) {
        self.left_ns = pressure.slice_ns();
    }

    /// Returns the work to do in this turn of the loop, in ns. `committing`: a commit is on its way to the device.
    /// `unsent`: some of it leaves only when this turn is over, and should not wait.
    pub fn slice_ns(&mut self, pressure: Pressure, committing: bool, unsent: bool) -> u32 {
        if !committing {
            return pressure.slice_ns();
        }
        if unsent && !self.is_put_off && !pressure.is_full() {
            self.is_put_off = true;
            return 0;
        }
        self.left_ns
    }

    /// Takes work that was done off the slice.
    pub fn spent(&mut self, ns: u32) {
        self.left_ns = self.left_ns.saturating_sub(ns);
        self.is_put_off = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn slices_grow_steadily(used in 0usize..3000) {
            let slice = |used: usize| Pressure::of((used, 1000), (0, 0), (0, 0)).slice_ns();
            prop_assert!((SLICE_NS..=URGENT_SLICE_NS).contains(&slice(used)));
            let growth = slice(used + 1) - slice(used);
            prop_assert!(growth <= 10_000, "from {} by {growth}", slice(used));
            // The scarcest resource counts.
            let (all, half) = (used as u64, used as u64 / 2);
            prop_assert_eq!(Pressure::of((used, 1000), (half, 1000), (0, 0)).slice_ns(), slice(used));
            prop_assert_eq!(Pressure::of((used / 2, 1000), (all, 1000), (half, 1000)).slice_ns(), slice(used));
            prop_assert_eq!(Pressure::of((0, 1000), (half, 1000), (all, 1000)).slice_ns(), slice(used));
        }
    }

    #[test]
    fn a_slice_for_each_commit() {
        let (plenty, full) = (Pressure(0), Pressure(1000));
        let mut pace = MergePace::default();
        assert_eq!(pace.slice_ns(plenty, false, true), SLICE_NS, "nothing is on its way");
        assert_eq!(pace.slice_ns(plenty, true, false), 0, "before the first commit of this checkpoint");
        pace.commit(plenty);
        assert_eq!(pace.slice_ns(plenty, true, true), 0, "the commit leaves first");
        assert_eq!(pace.slice_ns(plenty, true, true), SLICE_NS, "but only once");
        pace.spent(SLICE_NS / 2);
        assert_eq!(pace.slice_ns(plenty, true, false), SLICE_NS / 2);
        pace.spent(SLICE_NS);
        assert_eq!(pace.slice_ns(plenty, true, false), 0);
        pace.commit(plenty);
        assert_eq!(pace.slice_ns(plenty, true, true), 0);
        pace.commit(plenty);
        assert_eq!(pace.slice_ns(plenty, true, true), SLICE_NS, "where every turn of the loop brings a commit, too");
        pace.spent(SLICE_NS);
        pace.commit(full);
        assert_eq!(pace.slice_ns(full, true, true), FULL_SLICE_NS, "no time to put anything off");
    }
}
