//! The supported codes, and the matrices that define them.
//!
//! A parity byte is the sum of the k data bytes at its place in the data shards, each times a cell of the coding
//! matrix: parity i takes row i, data shard j column j. The matrices are those of Ceph's plugins, so the bytes are
//! equal, too.

use crate::field::{divide, inverse, multiply, power};
use crate::matrix::Matrix;
use crate::shard_set::SHARDS_MAX;
use std::fmt;
use thiserror::Error;

/// A family of Reed-Solomon codes over GF(2^8), polynomial 0x11d. In each, any k shards of a stripe give the others.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Technique {
    /// `reed_sol_van` of Ceph's `jerasure` plugin with w = 8. First parity: exclusive or of the data.
    JerasureVandermonde,
    /// `reed_sol_r6_op` of Ceph's `jerasure` plugin with w = 8: m is 2. First parity: exclusive or of the data.
    JerasureRaid6,
    /// `reed_sol_van` of Ceph's `isa` plugin: k up to 32, m up to 3, or k up to 21 with m = 4. First parity:
    /// exclusive or of the data.
    IsaVandermonde,
    /// `cauchy` of Ceph's `isa` plugin.
    IsaCauchy,
}

/// A number of shards that a technique does not support.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum ShardCountError {
    #[error("k={k} must be at least 2")]
    TooFewData { k: usize },
    #[error("m={m} must be at least 1")]
    TooFewParity { m: usize },
    #[error("k={k} and m={m} make {} shards, more than {SHARDS_MAX}", k + m)]
    TooMany { k: usize, m: usize },
    #[error("technique reed_sol_r6_op has m=2, not m={m}")]
    Raid6 { m: usize },
    #[error(
        "technique reed_sol_van of plugin isa recovers every loss only for k up to 32 and m up to 3, or k up to 21 and \
         m=4; it cannot do k={k} m={m}; technique=cauchy can"
    )]
    IsaVandermonde { k: usize, m: usize },
}

impl Technique {
    /// All techniques.
    pub const ALL: [Technique; 4] =
        [Technique::JerasureVandermonde, Technique::JerasureRaid6, Technique::IsaVandermonde, Technique::IsaCauchy];

    /// Value of `plugin` in a Ceph profile.
    pub fn plugin(self) -> &'static str {
        match self {
            Technique::JerasureVandermonde | Technique::JerasureRaid6 => "jerasure",
            Technique::IsaVandermonde | Technique::IsaCauchy => "isa",
        }
    }

    /// Value of `technique` in a Ceph profile.
    pub fn name(self) -> &'static str {
        match self {
            Technique::JerasureVandermonde | Technique::IsaVandermonde => "reed_sol_van",
            Technique::JerasureRaid6 => "reed_sol_r6_op",
            Technique::IsaCauchy => "cauchy",
        }
    }

    /// Checks that the technique has a code of `k` data and `m` parity shards.
    pub fn check_shard_counts(self, k: usize, m: usize) -> Result<(), ShardCountError> {
        if k < 2 {
            return Err(ShardCountError::TooFewData { k });
        }
        if m < 1 {
            return Err(ShardCountError::TooFewParity { m });
        }
        // Ceph's own limits come first, because they also hold in a Ceph cluster.
        match self {
            Technique::JerasureRaid6 if m != 2 => return Err(ShardCountError::Raid6 { m }),
            Technique::IsaVandermonde if k > 32 || m > 4 || (m == 4 && k > 21) => {
                return Err(ShardCountError::IsaVandermonde { k, m });
            }
            _ => {}
        }
        if k.saturating_add(m) > SHARDS_MAX {
            return Err(ShardCountError::TooMany { k, m });
        }
        Ok(())
    }

    /// The coding matrix: `m` rows of `k` cells.
    pub(crate) fn matrix(self, k: usize, m: usize) -> Result<Matrix, ShardCountError> {
        self.check_shard_counts(k, m)?;
        Ok(match self {
            Technique::JerasureVandermonde => jerasure_vandermonde(k, m),
            Technique::JerasureRaid6 => Matrix::from_fn(m, k, |row, column| power(2, row * column)),
            Technique::IsaVandermonde => Matrix::from_fn(m, k, |row, column| power(power(2, row), column)),
            // The plugin computes a single parity as exclusive or, whatever its matrix says.
            Technique::IsaCauchy if m == 1 => Matrix::from_fn(1, k, |_, _| 1),
            Technique::IsaCauchy => Matrix::from_fn(m, k, |row, column| inverse((k + row) as u8 ^ column as u8)),
        })
    }
}

/// Formats as `isa/cauchy`.
impl fmt::Display for Technique {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.plugin(), self.name())
    }
}

/// Plank and Ding's systematic form of an extended Vandermonde matrix ("Note: Correction to the 1997 Tutorial on
/// Reed-Solomon Coding", 2003), scaled as the jerasure library does.
///
/// Before it is made systematic, the matrix has k + m rows: row i holds the powers of the element i; the last row, the
/// "point at infinity", is zeros and a one. Operations on columns make its first k rows the identity. This turns row x
/// into the values, at x, of the Lagrange polynomials of the points 0 to k - 1, and the last row into their leading
/// coefficients. Then columns are scaled so that the first parity row is all ones, and the other rows so that they
/// begin with one.
fn jerasure_vandermonde(k: usize, m: usize) -> Matrix {
    let basis = |point: Option<u8>, j: usize| {
        (0..k).filter(|&other| other != j).map(|other| other as u8).fold(1, |value, other| {
            let numerator = point.map_or(1, |x| x ^ other);
            multiply(value, divide(numerator, j as u8 ^ other))
        })
    };
    let plain = Matrix::from_fn(m, k, |row, column| {
        let point = (row + 1 < m).then_some((k + row) as u8);
        basis(point, column)
    });
    let columns_scaled = Matrix::from_fn(m, k, |row, column| divide(plain.at(row, column), plain.at(0, column)));
    Matrix::from_fn(m, k, |row, column| divide(columns_scaled.at(row, column), columns_scaled.at(row, 0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All subsets of `size` of the numbers below `of`, each ascending.
    fn combinations(of: usize, size: usize) -> Vec<Vec<usize>> {
        if size == 0 {
            return vec![Vec::new()];
        }
        let with_last = |last: usize| {
            let shorter = combinations(last, size - 1).into_iter();
            shorter.map(move |chosen| [chosen, vec![last]].concat())
        };
        (size - 1..of).flat_map(with_last).collect()
    }

    /// True if every square submatrix of a coding matrix has an inverse, so that its code recovers every loss.
    fn every_submatrix_has_an_inverse(matrix: &Matrix) -> bool {
        (1..=matrix.rows().min(matrix.columns())).all(|size| {
            let rows: Vec<Vec<usize>> = combinations(matrix.rows(), size);
            combinations(matrix.columns(), size).iter().all(|columns| {
                rows.iter()
                    .all(|rows| Matrix::from_fn(size, size, |i, j| matrix.at(rows[i], columns[j])).inverse().is_some())
            })
        })
    }

    #[test]
    fn every_code_up_to_twelve_shards_recovers_every_loss() {
        for technique in Technique::ALL {
            for (k, m) in (2..12).flat_map(|k| (1..=12 - k).map(move |m| (k, m))) {
                if let Ok(matrix) = technique.matrix(k, m) {
                    assert!(every_submatrix_has_an_inverse(&matrix), "{technique} {k}+{m}");
                }
            }
        }
    }

    #[test]
    fn isa_vandermonde_ends_where_it_fails() {
        let plain = |k, m| Matrix::from_fn(m, k, |row, column| power(power(2, row), column));
        assert!(every_submatrix_has_an_inverse(&plain(32, 3)));
        assert!(every_submatrix_has_an_inverse(&plain(21, 4)));
        assert!(!every_submatrix_has_an_inverse(&plain(22, 4)), "the limit on k can be raised");
        assert_eq!(
            Technique::IsaVandermonde.matrix(22, 4).unwrap_err(),
            ShardCountError::IsaVandermonde { k: 22, m: 4 }
        );
    }

    #[test]
    fn first_parities_are_sums_where_said() {
        for technique in [Technique::JerasureVandermonde, Technique::JerasureRaid6, Technique::IsaVandermonde] {
            assert!(technique.matrix(10, 2).unwrap().row(0).iter().all(|&cell| cell == 1), "{technique}");
        }
        assert!(Technique::IsaCauchy.matrix(4, 1).unwrap().row(0).iter().all(|&cell| cell == 1));
        assert!(Technique::IsaCauchy.matrix(4, 2).unwrap().row(0).iter().any(|&cell| cell != 1));
    }

    #[test]
    fn impossible_shard_counts_are_refused() {
        let refusal = |technique: Technique, k, m| technique.matrix(k, m).unwrap_err().to_string();
        for technique in Technique::ALL {
            assert_eq!(refusal(technique, 1, 2), "k=1 must be at least 2");
            assert_eq!(refusal(technique, 4, 0), "m=0 must be at least 1");
        }
        assert_eq!(refusal(Technique::IsaCauchy, 60, 5), "k=60 and m=5 make 65 shards, more than 64");
        assert_eq!(refusal(Technique::JerasureRaid6, 4, 3), "technique reed_sol_r6_op has m=2, not m=3");
        assert!(Technique::IsaCauchy.matrix(60, 4).is_ok());
        assert!(Technique::IsaCauchy.check_shard_counts(usize::MAX, usize::MAX).is_err());
    }
}
