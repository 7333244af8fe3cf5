//! A matrix prepared for the kernels.

use crate::kernel::{Job, Kernel, Multiplier, ROWS_MAX};
use crate::matrix::Matrix;
use std::ops::Range;

/// Number of bytes of each source that are used for all targets before the next ones, so that they come from the cache
/// if there are more targets than a kernel takes at once.
const SLICE_BYTES: usize = 8 << 10;

/// Targets as sums of products of sources: the rows of a matrix, in groups that a kernel computes at once.
pub(crate) struct Transform {
    columns: usize,
    groups: Vec<Group>,
}

struct Group {
    rows: Range<usize>,
    /// Multipliers, column by column, and for each column row by row.
    multipliers: Vec<Multiplier>,
    first_is_sum: bool,
}

impl Transform {
    pub(crate) fn new(matrix: &Matrix) -> Transform {
        let group = |start: usize| {
            let rows = start..matrix.rows().min(start + ROWS_MAX);
            let cells = (0..matrix.columns()).flat_map(|column| rows.clone().map(move |row| (row, column)));
            let multipliers = cells.map(|(row, column)| *Multiplier::of(matrix.at(row, column))).collect();
            let first_is_sum = matrix.row(start).iter().all(|&cell| cell == 1);
            Group { rows, multipliers, first_is_sum }
        };
        Transform { columns: matrix.columns(), groups: (0..matrix.rows()).step_by(ROWS_MAX).map(group).collect() }
    }

    /// Sets the targets, or adds to them if `add`. There is a source for every column and a target for every row, all
    /// of one length; panics otherwise.
    pub(crate) fn apply(&self, kernel: Kernel, sources: &[&[u8]], targets: &mut [&mut [u8]], add: bool) {
        assert_eq!(sources.len(), self.columns, "one source per column");
        let bytes = targets.first().map_or(0, |target| target.len());
        let step = if self.groups.len() > 1 { SLICE_BYTES } else { bytes.max(1) };
        for start in (0..bytes).step_by(step) {
            let range = start..bytes.min(start + step);
            for group in &self.groups {
                kernel.combine(Job {
                    multipliers: &group.multipliers,
                    sources,
                    targets: &mut targets[group.rows.clone()],
                    range: range.clone(),
                    add,
                    first_is_sum: group.first_is_sum,
                });
            }
        }
    }
}
