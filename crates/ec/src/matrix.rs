//! Small matrices over GF(2^8).

use crate::field;

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Matrix {
    rows: usize,
    columns: usize,
    cells: Vec<u8>,
}

impl Matrix {
    pub(crate) fn from_fn(rows: usize, columns: usize, cell: impl Fn(usize, usize) -> u8) -> Matrix {
        let cells = (0..rows * columns).map(|i| cell(i / columns, i % columns)).collect();
        Matrix { rows, columns, cells }
    }

    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    pub(crate) fn columns(&self) -> usize {
        self.columns
    }

    pub(crate) fn at(&self, row: usize, column: usize) -> u8 {
        self.row(row)[column]
    }

    pub(crate) fn row(&self, row: usize) -> &[u8] {
        &self.cells[row * self.columns..][..self.columns]
    }

    fn row_mut(&mut self, row: usize) -> &mut [u8] {
        &mut self.cells[row * self.columns..][..self.columns]
    }

    pub(crate) fn product(&self, right: &Matrix) -> Matrix {
        assert_eq!(self.columns, right.rows, "shapes of the factors");
        Matrix::from_fn(self.rows, right.columns, |row, column| {
            (0..self.columns).fold(0, |sum, i| sum ^ field::multiply(self.at(row, i), right.at(i, column)))
        })
    }

    /// The inverse of a square matrix by Gauss-Jordan elimination, or `None` if it has none.
    pub(crate) fn inverse(&self) -> Option<Matrix> {
        assert_eq!(self.rows, self.columns, "only square matrices have inverses");
        let size = self.rows;
        let mut left = self.clone();
        let mut right = Matrix::from_fn(size, size, |row, column| u8::from(row == column));
        for column in 0..size {
            let pivot = (column..size).find(|&row| left.at(row, column) != 0)?;
            left.swap_rows(pivot, column);
            right.swap_rows(pivot, column);
            let factor = field::inverse(left.at(column, column));
            left.scale_row(column, factor);
            right.scale_row(column, factor);
            for row in (0..size).filter(|&row| row != column) {
                let factor = left.at(row, column);
                left.add_row(row, column, factor);
                right.add_row(row, column, factor);
            }
        }
        Some(right)
    }

    fn swap_rows(&mut self, a: usize, b: usize) {
        for column in 0..self.columns {
            self.cells.swap(a * self.columns + column, b * self.columns + column);
        }
    }

    fn scale_row(&mut self, row: usize, factor: u8) {
        for cell in self.row_mut(row) {
            *cell = field::multiply(*cell, factor);
        }
    }

    /// Adds `factor` times row `from` to row `to`.
    fn add_row(&mut self, to: usize, from: usize, factor: u8) {
        for column in 0..self.columns {
            let addend = field::multiply(self.at(from, column), factor);
            self.row_mut(to)[column] ^= addend;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_singular_matrix_has_no_inverse() {
        assert_eq!(Matrix::from_fn(2, 2, |_, column| [3, 5][column]).inverse(), None);
        assert_eq!(Matrix::from_fn(3, 3, |_, _| 0).inverse(), None);
    }

    proptest! {
        #[test]
        fn a_matrix_times_its_inverse_is_the_identity(size in 1usize..8, seed in any::<u64>()) {
            let cell = |row: usize, column: usize| {
                let mixed = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left((row * 8 + column) as u32);
                mixed.wrapping_mul(0xbf58_476d_1ce4_e5b9).to_le_bytes()[7] & 0x3
            };
            let matrix = Matrix::from_fn(size, size, cell);
            if let Some(inverse) = matrix.inverse() {
                let identity = Matrix::from_fn(size, size, |row, column| u8::from(row == column));
                prop_assert_eq!(matrix.product(&inverse), identity.clone());
                prop_assert_eq!(inverse.product(&matrix), identity);
            }
        }
    }
}
