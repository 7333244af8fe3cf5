//! Recovery of lost shards.

use crate::buffers::{BufferError, Check};
use crate::code::Code;
use crate::kernel::Kernel;
use crate::matrix::Matrix;
use crate::shard_set::ShardSet;
use crate::transform::Transform;
use std::fmt;
use thiserror::Error;

/// The reason why shards cannot be recovered.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum DecodeError {
    #[error("only {} of {k} needed shards are available ({available})", available.len())]
    TooFewShards { available: ShardSet, k: usize },
    #[error("shards {unknown} are beyond the last one, {last}")]
    NoSuchShard { unknown: ShardSet, last: usize },
}

impl DecodeError {
    pub(crate) fn check(code: &Code, want: ShardSet, available: ShardSet) -> Result<(), DecodeError> {
        let unknown = want.union(available).without(code.shards());
        if !unknown.is_empty() {
            return Err(DecodeError::NoSuchShard { unknown, last: code.shards().len() - 1 });
        }
        if !want.is_subset(available) && available.len() < code.k() {
            return Err(DecodeError::TooFewShards { available, k: code.k() });
        }
        Ok(())
    }
}

/// Computes certain shards from certain others; made by [`Code::decoder`]. One decoder serves any number of stripes.
pub struct Decoder {
    sources: ShardSet,
    targets: ShardSet,
    transform: Transform,
    kernel: Kernel,
}

impl Decoder {
    /// `sources`: k shards, or any if there are no targets. `targets`: none of the sources.
    pub(crate) fn new(matrix: &Matrix, kernel: Kernel, sources: ShardSet, targets: ShardSet) -> Decoder {
        if targets.is_empty() {
            let transform = Transform::new(&Matrix::from_fn(0, 0, |_, _| 0));
            return Decoder { sources: ShardSet::EMPTY, targets, transform, kernel };
        }
        let transform = Transform::new(&rows_over(matrix, sources, targets));
        Decoder { sources, targets, transform, kernel }
    }

    /// Shards that [`Decoder::decode`] takes: k shards, or none if there are no targets.
    pub fn sources(&self) -> ShardSet {
        self.sources
    }

    /// Shards that [`Decoder::decode`] computes.
    pub fn targets(&self) -> ShardSet {
        self.targets
    }

    /// Computes the targets. `sources` are the shards of [`Decoder::sources`], ascending, or one range of each;
    /// `targets` are those of [`Decoder::targets`], ascending, and are overwritten.
    pub fn decode(&self, sources: &[&[u8]], targets: &mut [&mut [u8]]) -> Result<(), BufferError> {
        Check::new()
            .count("source", sources.len(), self.sources.len())?
            .count("target", targets.len(), self.targets.len())?
            .lengths("source", sources.iter().map(|shard| shard.len()))?
            .lengths("target", targets.iter().map(|shard| shard.len()))?;
        self.transform.apply(self.kernel, sources, targets, false);
        Ok(())
    }
}

impl fmt::Debug for Decoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Decoder({} from {} on {})", self.targets, self.sources, self.kernel)
    }
}

/// The matrix that computes `targets` from `sources`.
///
/// The part of the sources' parities that comes from data shards among the sources is known; the rest is a square
/// system for the other data shards. Only a matrix of that size is inverted, which is one cell in the common case.
fn rows_over(matrix: &Matrix, sources: ShardSet, targets: ShardSet) -> Matrix {
    let k = matrix.columns();
    let data = ShardSet::first(k);
    let known: Vec<usize> = sources.intersection(data).iter().collect();
    let lost: Vec<usize> = data.without(sources).iter().collect();
    let parities: Vec<usize> = sources.without(data).iter().map(|shard| shard - k).collect();
    assert_eq!(lost.len(), parities.len(), "{} sources of {k}", sources.len());

    let part = |rows: &[usize], columns: &[usize]| {
        Matrix::from_fn(rows.len(), columns.len(), |row, column| matrix.at(rows[row], columns[column]))
    };
    let solved = part(&parities, &lost).inverse().expect("the techniques' matrices have no singular part");
    let from_known = solved.product(&part(&parities, &known));
    // Columns are the sources in ascending order: known data, then parities.
    let lost_rows = Matrix::from_fn(lost.len(), k, |row, column| match column.checked_sub(known.len()) {
        None => from_known.at(row, column),
        Some(parity) => solved.at(row, parity),
    });

    let wanted: Vec<usize> = targets.without(data).iter().map(|shard| shard - k).collect();
    let (direct, through_lost) = (part(&wanted, &known), part(&wanted, &lost).product(&lost_rows));
    let wanted_row = |row: usize, column: usize| {
        let known = if column < known.len() { direct.at(row, column) } else { 0 };
        known ^ through_lost.at(row, column)
    };
    let data_rows: Vec<usize> = targets.intersection(data).iter().collect();
    Matrix::from_fn(targets.len(), k, |row, column| match data_rows.get(row) {
        Some(shard) => lost_rows.at(lost.binary_search(shard).expect("a target is not a source"), column),
        None => wanted_row(row - data_rows.len(), column),
    })
}

#[cfg(test)]
mod tests;
