//! Multiplication by each constant, in the forms that instructions take.

use crate::field::mul;

/// For each coefficient its products with 0 to 15, then those with 0, 16, …, 240: a product is the sum of
/// one of each half.
#[repr(align(64))]
pub(super) struct Nibbles(pub(super) [[u8; 32]; 256]);

pub(super) static NIBBLES: Nibbles = {
    let mut tables = [[0; 32]; 256];
    let mut coefficient = 0;
    while coefficient < 256 {
        let mut nibble = 0;
        while nibble < 16 {
            tables[coefficient][nibble] = mul(coefficient as u8, nibble as u8);
            tables[coefficient][16 + nibble] = mul(coefficient as u8, (nibble as u8) << 4);
            nibble += 1;
        }
        coefficient += 1;
    }
    Nibbles(tables)
};

/// For each coefficient its multiplication as a matrix over GF(2), as `gf2p8affineqb` takes it: byte 7 - i
/// has the bits of a source whose sum is bit i of the product.
#[cfg(any(target_arch = "x86_64", test))]
pub(super) static AFFINE: [u64; 256] = {
    let mut matrices = [0; 256];
    let mut coefficient = 0;
    while coefficient < 256 {
        let mut bit = 0;
        while bit < 8 {
            let product = mul(coefficient as u8, 1 << bit);
            let mut row = 0;
            while row < 8 {
                matrices[coefficient] |= ((product >> row & 1) as u64) << (8 * (7 - row) + bit);
                row += 1;
            }
            bit += 1;
        }
        coefficient += 1;
    }
    matrices
};

#[cfg(test)]
mod tests {
    use super::*;

    /// The affine transform of one byte with a constant of 0, as Intel's manual defines it.
    fn affine(matrix: u64, byte: u8) -> u8 {
        let bytes = matrix.to_le_bytes();
        (0..8).fold(0, |result, i| result | ((bytes[7 - i] & byte).count_ones() as u8 & 1) << i)
    }

    #[test]
    fn all_forms_are_products() {
        for coefficient in 0..=255u8 {
            for byte in 0..=255u8 {
                let product = mul(coefficient, byte);
                let halves = &NIBBLES.0[usize::from(coefficient)];
                let (low, high) = (usize::from(byte & 15), usize::from(byte >> 4));
                assert_eq!(halves[low] ^ halves[16 + high], product);
                assert_eq!(affine(AFFINE[usize::from(coefficient)], byte), product);
            }
        }
    }
}
