//! One call of a kernel.

use super::{Multiplier, ROWS_MAX};
use std::ops::Range;

/// A sum of products. For every byte in `range`, target r becomes the sum over all sources s of source s times
/// `multipliers[s * targets.len() + r]`, plus its old value if `add` is set.
pub(crate) struct Job<'a, 'b> {
    /// Multipliers, source by source, and for each source target by target.
    pub(crate) multipliers: &'a [Multiplier],
    pub(crate) sources: &'a [&'a [u8]],
    /// One to [`ROWS_MAX`] targets.
    pub(crate) targets: &'a mut [&'b mut [u8]],
    /// Range within every source and target.
    pub(crate) range: Range<usize>,
    pub(crate) add: bool,
    /// All multipliers of the first target are ones.
    pub(crate) first_is_sum: bool,
}

impl Job<'_, '_> {
    /// Asserts the conditions that the kernels' `unsafe` code relies on.
    pub(super) fn check(&self) {
        let (sources, targets, range) = (self.sources.len(), self.targets.len(), &self.range);
        assert!((1..=ROWS_MAX).contains(&targets), "{targets} targets");
        assert_eq!(self.multipliers.len(), sources * targets, "multipliers of {sources} sources and {targets} targets");
        assert!(range.start <= range.end, "range {range:?}");
        let shortest = self.sources.iter().map(|source| source.len()).min().unwrap_or(range.end);
        let shortest = self.targets.iter().map(|target| target.len()).fold(shortest, usize::min);
        assert!(range.end <= shortest, "range {range:?} of {shortest} bytes");
        debug_assert!(
            !self.first_is_sum || self.multipliers.iter().step_by(targets).all(|multiplier| multiplier.factor == 1)
        );
    }
}
