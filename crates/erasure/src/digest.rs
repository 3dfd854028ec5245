//! Digests of shards that are linear: the digests of a stripe's shards are a stripe of the same code.
//!
//! So a scrub compares 64 bytes of each shard instead of its data: the parities of the data's digests must
//! be the parities' digests. A digest is a weighted sum of all pieces of 64 bytes of a shard; no two pieces
//! have the same weight. Weights only commute with a code's coefficients if multiplication by them is
//! linear over GF(2^8), and GF(2^8) itself has too few of them. They are taken from GF(2^32), as an
//! extension of GF(2^8) of degree four: a piece is 16 elements of it, with byte i of an element in the i-th
//! quarter of the piece.

use crate::code::Code;
use crate::field::{mul, power};
use crate::kernels::{Column, Kernel};
use crate::shards::Shards;

/// Bytes of a row, the unit in which shards are read and written.
pub const ROW_BYTES: usize = 4096;

const PIECE_BYTES: usize = 64;
const PIECES: usize = ROW_BYTES / PIECE_BYTES;
/// Bytes of a piece with the same power of x.
const PLANE_BYTES: usize = PIECE_BYTES / DEGREE;
const DEGREE: usize = 4;

/// An element of GF(2^32): a polynomial in x, the constant first, modulo x^4 + x^3 + x + 9. Its powers of x
/// are all elements but 0.
type Weight = [u8; DEGREE];

/// x^4, by the polynomial.
const REDUCED: Weight = [9, 1, 0, 1];
const ONE: Weight = [1, 0, 0, 0];
const X: Weight = [0, 1, 0, 0];

/// The digest of a shard, or of a part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Digest(pub [u8; PIECE_BYTES]);

/// Sum over rows of one shard, in any order.
#[derive(Debug, Clone)]
pub struct DigestBuilder {
    sum: [u8; PIECE_BYTES],
    kernel: Kernel,
    /// The row that probably follows, and its weight.
    next: (u32, Weight),
}

impl Default for DigestBuilder {
    fn default() -> Self {
        DigestBuilder { sum: [0; PIECE_BYTES], kernel: Kernel::best(), next: (0, ONE) }
    }
}

impl DigestBuilder {
    /// Of a shard of zeros.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the row of index `row`. A shorter one, at most [`ROW_BYTES`], counts as if zeros followed; a
    /// row that is not added counts as zeros.
    ///
    /// Digests are sums, so adding the XOR of the old and the new content of a row replaces it.
    pub fn add(&mut self, row: u32, bytes: &[u8]) {
        assert!(bytes.len() <= ROW_BYTES, "{} bytes in a row", bytes.len());
        let piece = match <&[u8; ROW_BYTES]>::try_from(bytes) {
            Ok(whole) => fold(self.kernel, whole),
            Err(_) => {
                let mut whole = [0; ROW_BYTES];
                whole[..bytes.len()].copy_from_slice(bytes);
                fold(self.kernel, &whole)
            }
        };
        let weight = if row == self.next.0 { self.next.1 } else { power_of_x(row) };
        self.next = (row.wrapping_add(1), product(weight, X));
        self.add_weighted(&piece, weight);
    }

    /// The digest of all rows so far.
    pub fn digest(&self) -> Digest {
        Digest(self.sum)
    }

    /// `sum += weight * piece`: the product by a matrix, of which column i is `weight * x^i`.
    fn add_weighted(&mut self, piece: &[u8; PIECE_BYTES], weight: Weight) {
        let mut columns: [Column; DEGREE] = [weight; DEGREE];
        for i in 1..DEGREE {
            columns[i] = product(columns[i - 1], X);
        }
        let mut sources = piece.chunks_exact(PLANE_BYTES);
        let mut outputs = self.sum.chunks_exact_mut(PLANE_BYTES);
        let sources: [&[u8]; DEGREE] =
            std::array::from_fn(|_| sources.next().expect("four planes"));
        let mut outputs: [&mut [u8]; DEGREE] =
            std::array::from_fn(|_| outputs.next().expect("four planes"));
        self.kernel.dot_xor(&mut outputs, &sources, &columns);
    }
}

/// The sum of the pieces of a row, piece i times 2^i: each step adds the upper half to the lower one.
fn fold(kernel: Kernel, row: &[u8; ROW_BYTES]) -> [u8; PIECE_BYTES] {
    let mut folded = [0; ROW_BYTES / 2];
    let (low, high) = row.split_at(ROW_BYTES / 2);
    let factor = |pieces| [power(2, pieces); 4];
    kernel.dot(&mut [&mut folded], &[low, high], &[[1; 4], factor(PIECES / 2)]);
    let mut pieces = PIECES / 4;
    while pieces > 0 {
        let (low, high) = folded[..2 * pieces * PIECE_BYTES].split_at_mut(pieces * PIECE_BYTES);
        kernel.mul_xor(low, high, power(2, pieces));
        pieces /= 2;
    }
    std::array::from_fn(|i| folded[i])
}

/// The product of two weights.
fn product(a: Weight, b: Weight) -> Weight {
    let mut sum = [0; DEGREE];
    let mut shifted = a;
    for factor in b {
        sum = std::array::from_fn(|i| sum[i] ^ mul(shifted[i], factor));
        shifted = times_x(shifted);
    }
    sum
}

fn times_x(a: Weight) -> Weight {
    let [a0, a1, a2, top] = a;
    let shifted = [0, a0, a1, a2];
    std::array::from_fn(|i| shifted[i] ^ mul(top, REDUCED[i]))
}

/// The weight of a row.
fn power_of_x(exponent: u32) -> Weight {
    let bits = (0..u32::BITS - exponent.leading_zeros()).rev();
    bits.fold(ONE, |power, bit| {
        let squared = product(power, power);
        if exponent >> bit & 1 == 1 { times_x(squared) } else { squared }
    })
}

/// The result of comparing the digests of all shards of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The parities belong to the data.
    Consistent,
    /// One shard contradicts all others, which are consistent without it. Only a code of two or more
    /// parities can tell which.
    Shard(usize),
    /// Shards contradict each other, and it is not known which are wrong.
    Inconsistent,
}

impl Code {
    /// Compares digests, those of the k data shards first, then those of the m parities.
    pub fn verify(&self, digests: &[Digest]) -> Verdict {
        assert_eq!(digests.len(), self.shards(), "one digest for each shard");
        let all = Shards::first(self.shards());
        // Whether k shards determine all others; those of `doubted` are not compared.
        let is_consistent = |doubted: Shards| {
            let trusted: Shards = all.without(doubted).iter().take(self.k()).collect();
            let compared = all.without(doubted).without(trusted);
            self.recompute(digests, trusted, compared)
        };
        if is_consistent(Shards::default()) {
            return Verdict::Consistent;
        }
        if self.m() == 1 {
            return Verdict::Inconsistent;
        }
        let doubted = all.iter().find(|shard| is_consistent([*shard].into_iter().collect()));
        doubted.map_or(Verdict::Inconsistent, Verdict::Shard)
    }

    /// True if the digests of `compared` are those that follow from the k `trusted` ones.
    fn recompute(&self, digests: &[Digest], trusted: Shards, compared: Shards) -> bool {
        let decoder = self.decoder(trusted, compared).expect("k shards are available");
        let sources: Vec<&[u8]> = trusted.iter().map(|shard| digests[shard].0.as_slice()).collect();
        let mut computed = vec![[0; PIECE_BYTES]; compared.len()];
        let mut outputs: Vec<&mut [u8]> =
            computed.iter_mut().map(|piece| piece.as_mut_slice()).collect();
        decoder.decode(&sources, &mut outputs);
        compared.iter().zip(computed).all(|(shard, computed)| digests[shard].0 == computed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn power_by(exponent: u64) -> Weight {
        (0..64).rev().fold(ONE, |power, bit| {
            let squared = product(power, power);
            if exponent >> bit & 1 == 1 { times_x(squared) } else { squared }
        })
    }

    #[test]
    fn powers_of_x_are_all_elements_but_zero() {
        let order = u64::from(u32::MAX);
        let primes = [3, 5, 17, 257, 65537];
        assert_eq!(primes.iter().product::<u64>(), order);
        assert_eq!(power_by(order), ONE);
        assert!(primes.iter().all(|prime| power_by(order / prime) != ONE));
    }

    #[test]
    fn the_weight_of_a_row_does_not_depend_on_the_rows_before() {
        let mut weight = ONE;
        for row in 0..1000 {
            assert_eq!(power_of_x(row), weight);
            weight = product(weight, X);
        }
    }

    /// A piece of a row has the weight 2^piece * x^row. Powers of 2 are powers of x to multiples of this.
    #[test]
    fn pieces_have_different_weights_up_to_row_16_million() {
        const APART: u64 = (u32::MAX / 255) as u64;
        assert_eq!(power_by(APART)[1..], [0; 3]);
        let is_constant = |exponent| power_by(exponent)[1..] == [0; 3];
        // The exponents of constants are the multiples of the smallest one.
        assert!(
            [3, 5, 17, 257, 65537]
                .iter()
                .all(|p| !APART.is_multiple_of(*p) || !is_constant(APART / p))
        );
    }
}
