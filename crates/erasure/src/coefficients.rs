//! Coefficients: the matrix of parities of each technique.

use crate::field::{inverse, mul, power};
use crate::matrix::Matrix;
use crate::technique::Technique;

/// The matrix of parities: one row for each parity, one column for each data shard.
pub(crate) fn coefficients(technique: Technique, k: usize, m: usize) -> Matrix {
    match technique {
        // Ceph encodes a single parity as XOR, whatever the matrix of the technique would be.
        _ if m == 1 => Matrix::from_fn(1, k, |_, _| 1),
        Technique::IsaVandermonde | Technique::JerasureRaid6 => {
            Matrix::from_fn(m, k, |row, column| power(power(2, row), column))
        }
        Technique::IsaCauchy => {
            Matrix::from_fn(m, k, |row, column| inverse((k + row) as u8 ^ column as u8))
        }
        Technique::JerasureVandermonde => systematic_vandermonde(k, m),
    }
}

/// The parities of jerasure's `reed_sol_van`.
///
/// An extended Vandermonde matrix has the powers of 0, 1, 2, …, and last the row of the point at infinity;
/// any k rows of it are independent. Multiplied by the inverse of its upper square it becomes systematic.
/// Scaling of columns, then of rows, keeps that independence: the first parity is made XOR, and the first
/// column ones.
fn systematic_vandermonde(k: usize, m: usize) -> Matrix {
    let last = k + m - 1;
    let extended = Matrix::from_fn(k + m, k, |row, column| {
        if row == last { u8::from(column == k - 1) } else { power(row as u8, column) }
    });
    let rows: Vec<usize> = (0..k + m).collect();
    let (data, parities) = rows.split_at(k);
    let upper = extended.of_rows(data).inverse().expect("rows of different points are independent");
    let parities = extended.of_rows(parities).times(&upper);
    let scaled = Matrix::from_fn(m, k, |row, column| {
        mul(parities.cell(row, column), inverse(parities.cell(0, column)))
    });
    Matrix::from_fn(m, k, |row, column| mul(scaled.cell(row, column), inverse(scaled.cell(row, 0))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(technique: Technique, k: usize, m: usize) -> Vec<Vec<u8>> {
        let matrix = coefficients(technique, k, m);
        (0..m).map(|row| (0..k).map(|column| matrix.cell(row, column)).collect()).collect()
    }

    #[test]
    fn known_matrices() {
        assert_eq!(rows(Technique::JerasureVandermonde, 4, 2)[1], [1, 70, 143, 200]);
        assert_eq!(
            rows(Technique::IsaVandermonde, 4, 3),
            [[1, 1, 1, 1], [1, 2, 4, 8], [1, 4, 16, 64]]
        );
        assert_eq!(rows(Technique::JerasureRaid6, 4, 2), [[1, 1, 1, 1], [1, 2, 4, 8]]);
        assert_eq!(rows(Technique::IsaCauchy, 2, 2), [[142, 244], [244, 142]]);
        for technique in Technique::ALL.into_iter().filter(|one| one.parities_min() == 1) {
            assert_eq!(rows(technique, 5, 1), [[1; 5]]);
        }
    }

    #[test]
    fn the_first_parity_is_xor_but_for_cauchy() {
        for technique in Technique::ALL.into_iter().filter(|one| *one != Technique::IsaCauchy) {
            assert_eq!(rows(technique, 8, 2)[0], [1; 8]);
        }
    }
}
