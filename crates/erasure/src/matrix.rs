//! Small matrices over the field. They are computed once for a code or a pattern of erasures, so clarity
//! counts.

use crate::field::{inverse, mul};

/// A dense matrix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Matrix {
    columns: usize,
    cells: Vec<u8>,
}

impl Matrix {
    /// A matrix of cells that are given by row and column.
    pub(crate) fn from_fn(rows: usize, columns: usize, cell: impl Fn(usize, usize) -> u8) -> Self {
        let places = (0..rows).flat_map(|row| (0..columns).map(move |column| (row, column)));
        Matrix { columns, cells: places.map(|(row, column)| cell(row, column)).collect() }
    }

    pub(crate) fn identity(size: usize) -> Self {
        Matrix::from_fn(size, size, |row, column| u8::from(row == column))
    }

    pub(crate) fn rows(&self) -> usize {
        self.cells.len() / self.columns
    }

    pub(crate) fn columns(&self) -> usize {
        self.columns
    }

    pub(crate) fn cell(&self, row: usize, column: usize) -> u8 {
        assert!(column < self.columns, "column {column} of {}", self.columns);
        self.cells[row * self.columns + column]
    }

    /// The matrix of some rows, in their order.
    pub(crate) fn of_rows(&self, rows: &[usize]) -> Matrix {
        Matrix::from_fn(rows.len(), self.columns, |row, column| self.cell(rows[row], column))
    }

    /// The rows of `self`, then those of `below`.
    pub(crate) fn above(&self, below: &Matrix) -> Matrix {
        assert_eq!(self.columns, below.columns, "matrices of equal width");
        let cells = self.cells.iter().chain(&below.cells).copied().collect();
        Matrix { columns: self.columns, cells }
    }

    pub(crate) fn times(&self, right: &Matrix) -> Matrix {
        assert_eq!(self.columns, right.rows(), "matrices that can be multiplied");
        Matrix::from_fn(self.rows(), right.columns, |row, column| {
            (0..self.columns).fold(0, |sum, i| sum ^ mul(self.cell(row, i), right.cell(i, column)))
        })
    }

    /// The inverse of a square matrix by Gauss and Jordan; `None` if it is singular.
    pub(crate) fn inverse(&self) -> Option<Matrix> {
        assert_eq!(self.rows(), self.columns, "a square matrix");
        let (mut left, mut right) = (self.clone(), Matrix::identity(self.columns));
        for column in 0..self.columns {
            let pivot = (column..self.columns).find(|row| left.cell(*row, column) != 0)?;
            let scale = inverse(left.cell(pivot, column));
            for matrix in [&mut left, &mut right] {
                matrix.swap_rows(pivot, column);
                matrix.scale_row(column, scale);
            }
            for row in (0..self.columns).filter(|row| *row != column) {
                let factor = left.cell(row, column);
                left.add_row(row, column, factor);
                right.add_row(row, column, factor);
            }
        }
        Some(right)
    }

    fn swap_rows(&mut self, one: usize, other: usize) {
        for column in 0..self.columns {
            self.cells.swap(one * self.columns + column, other * self.columns + column);
        }
    }

    fn scale_row(&mut self, row: usize, factor: u8) {
        let cells = &mut self.cells[row * self.columns..][..self.columns];
        cells.iter_mut().for_each(|cell| *cell = mul(*cell, factor));
    }

    /// Adds `factor` times the row `source` to the row `target`.
    fn add_row(&mut self, target: usize, source: usize, factor: u8) {
        for column in 0..self.columns {
            self.cells[target * self.columns + column] ^= mul(factor, self.cell(source, column));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::power;

    #[test]
    fn a_matrix_times_its_inverse_is_the_identity() {
        for size in 1..=20 {
            let vandermonde =
                Matrix::from_fn(size, size, |row, column| power(row as u8 + 1, column));
            let inverse = vandermonde.inverse().unwrap();
            assert_eq!(vandermonde.times(&inverse), Matrix::identity(size));
            assert_eq!(inverse.times(&vandermonde), Matrix::identity(size));
        }
    }

    #[test]
    fn rows_are_exchanged_if_a_pivot_is_zero() {
        let exchange = Matrix::from_fn(2, 2, |row, column| u8::from(row != column));
        assert_eq!(exchange.inverse(), Some(exchange));
    }

    #[test]
    fn a_singular_matrix_has_no_inverse() {
        assert_eq!(Matrix::from_fn(3, 3, |_, column| column as u8 + 1).inverse(), None);
    }
}
