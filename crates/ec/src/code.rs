//! A code: encoding, and parity from changes.

use crate::buffers::{BufferError, Check};
use crate::decoder::{DecodeError, Decoder};
use crate::kernel::{Job, Kernel, Multiplier, ROWS_MAX};
use crate::matrix::Matrix;
use crate::shard_set::ShardSet;
use crate::technique::{ShardCountError, Technique};
use crate::transform::Transform;
use std::fmt;

/// One technique with k data and m parity shards, prepared for a kernel.
///
/// Shards are byte strings of one length, any length. Byte i of every shard depends only on byte i of the other shards,
/// so all operations on whole shards also work on one range of each.
pub struct Code {
    technique: Technique,
    matrix: Matrix,
    encoder: Transform,
    kernel: Kernel,
}

impl Code {
    /// The code of `k` data and `m` parity shards, on the fastest kernel of this processor.
    pub fn new(technique: Technique, k: usize, m: usize) -> Result<Code, ShardCountError> {
        let matrix = technique.matrix(k, m)?;
        let encoder = Transform::new(&matrix);
        Ok(Code { technique, matrix, encoder, kernel: Kernel::best() })
    }

    /// Replaces the kernel.
    pub fn with_kernel(self, kernel: Kernel) -> Code {
        Code { kernel, ..self }
    }

    pub fn technique(&self) -> Technique {
        self.technique
    }

    pub fn kernel(&self) -> Kernel {
        self.kernel
    }

    /// Number of data shards.
    pub fn k(&self) -> usize {
        self.matrix.columns()
    }

    /// Number of parity shards.
    pub fn m(&self) -> usize {
        self.matrix.rows()
    }

    /// All shards: data, then parity.
    pub fn shards(&self) -> ShardSet {
        ShardSet::first(self.k() + self.m())
    }

    /// True if parity `index` (from 0) is the plain exclusive or of the data, so that [`crate::parity_crc`] applies.
    pub fn parity_is_sum(&self, index: usize) -> bool {
        index < self.m() && self.matrix.row(index).iter().all(|&cell| cell == 1)
    }

    /// Computes all parity shards: `data` are the k data shards, `parity` the m parity shards, overwritten.
    pub fn encode(&self, data: &[&[u8]], parity: &mut [&mut [u8]]) -> Result<(), BufferError> {
        Check::new()
            .count("data", data.len(), self.k())?
            .count("parity", parity.len(), self.m())?
            .lengths("data", data.iter().map(|shard| shard.len()))?
            .lengths("parity", parity.iter().map(|shard| shard.len()))?;
        self.encoder.apply(self.kernel, data, parity, false);
        Ok(())
    }

    /// Updates all parity shards for a change of data shard `shard` from `old` to `new`.
    pub fn update(&self, shard: usize, old: &[u8], new: &[u8], parity: &mut [&mut [u8]]) -> Result<(), BufferError> {
        self.check_data_shard(shard)?;
        Check::new()
            .count("parity", parity.len(), self.m())?
            .lengths("data", [old.len(), new.len()])?
            .lengths("parity", parity.iter().map(|shard| shard.len()))?;
        // The sum of the products of both is the product of their difference.
        for first in (0..self.m()).step_by(ROWS_MAX) {
            let rows = first..self.m().min(first + ROWS_MAX);
            self.add_products(shard, first, &[old, new], &mut parity[rows]);
        }
        Ok(())
    }

    /// Computes the difference between two versions of a data shard's bytes, by which [`Code::add_delta`] updates
    /// parity. The difference of several changes is the sum (exclusive or) of their differences.
    pub fn delta(&self, old: &[u8], new: &[u8], delta: &mut [u8]) -> Result<(), BufferError> {
        Check::new().lengths("data", [old.len(), new.len()])?.lengths("delta", [delta.len()])?;
        self.kernel.combine(Job {
            multipliers: &[*Multiplier::of(1); 2],
            sources: &[old, new],
            targets: &mut [delta],
            range: 0..old.len(),
            add: false,
            first_is_sum: true,
        });
        Ok(())
    }

    /// Updates parity shard `index` (from 0) for a change of data shard `shard` by `delta`. A second application undoes
    /// it.
    pub fn add_delta(&self, shard: usize, index: usize, delta: &[u8], parity: &mut [u8]) -> Result<(), BufferError> {
        self.check_data_shard(shard)?;
        if index >= self.m() {
            return Err(BufferError::NoSuchShard { what: "parity", shard: index });
        }
        Check::new().lengths("delta", [delta.len()])?.lengths("parity", [parity.len()])?;
        self.add_products(shard, index, &[delta], &mut [parity]);
        Ok(())
    }

    /// Adds changes of several data shards to all parity shards in one pass: `deltas` are those of `shards`, ascending.
    /// On parities of zeros, this encodes a stripe whose other data shards are zeros.
    pub fn add_deltas(&self, shards: ShardSet, deltas: &[&[u8]], parity: &mut [&mut [u8]]) -> Result<(), BufferError> {
        if let Some(shard) = shards.without(ShardSet::first(self.k())).iter().next() {
            return Err(BufferError::NoSuchShard { what: "data", shard });
        }
        Check::new()
            .count("delta", deltas.len(), shards.len())?
            .count("parity", parity.len(), self.m())?
            .lengths("delta", deltas.iter().map(|delta| delta.len()))?
            .lengths("parity", parity.iter().map(|shard| shard.len()))?;
        let columns: Vec<usize> = shards.iter().collect();
        let part = Matrix::from_fn(self.m(), columns.len(), |row, column| self.matrix.at(row, columns[column]));
        Transform::new(&part).apply(self.kernel, deltas, parity, true);
        Ok(())
    }

    /// The fewest shards to read for `want`: `want` itself if all of it is `available`, else the first k available
    /// shards.
    pub fn minimum_to_decode(&self, want: ShardSet, available: ShardSet) -> Result<ShardSet, DecodeError> {
        DecodeError::check(self, want, available)?;
        if want.is_subset(available) {
            return Ok(want);
        }
        Ok(available.iter().take(self.k()).collect())
    }

    /// A decoder for the shards of `want` that are not `available`, from the first k available ones.
    pub fn decoder(&self, want: ShardSet, available: ShardSet) -> Result<Decoder, DecodeError> {
        DecodeError::check(self, want, available)?;
        let sources: ShardSet = available.iter().take(self.k()).collect();
        Ok(Decoder::new(&self.matrix, self.kernel, sources, want.without(available)))
    }

    fn check_data_shard(&self, shard: usize) -> Result<(), BufferError> {
        if shard >= self.k() {
            return Err(BufferError::NoSuchShard { what: "data", shard });
        }
        Ok(())
    }

    /// Adds the products of the one or two `sources`, which are of data shard `shard`, to at most [`ROWS_MAX`]
    /// parities, from `index` on.
    fn add_products(&self, shard: usize, index: usize, sources: &[&[u8]], targets: &mut [&mut [u8]]) {
        let rows = targets.len();
        let multiplier = |row| *Multiplier::of(self.matrix.at(index + row, shard));
        let multipliers: [Multiplier; 2 * ROWS_MAX] = std::array::from_fn(|i| multiplier(i % rows));
        self.kernel.combine(Job {
            multipliers: &multipliers[..rows * sources.len()],
            sources,
            range: 0..sources[0].len(),
            targets,
            add: true,
            first_is_sum: self.matrix.at(index, shard) == 1,
        });
    }
}

/// Formats as `isa/cauchy 4+2 (avx2)`.
impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}+{} ({})", self.technique, self.k(), self.m(), self.kernel)
    }
}

impl fmt::Debug for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Code({self})")
    }
}

#[cfg(test)]
mod tests;
