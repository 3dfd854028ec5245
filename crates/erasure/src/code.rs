//! A code: encoding of stripes, and deltas of parities.

use crate::coefficients::coefficients;
use crate::decoder::Decoder;
use crate::error::{CodeError, DecodeError};
use crate::kernels::Kernel;
use crate::matrix::Matrix;
use crate::shards::Shards;
use crate::stripe::StripeMatrix;
use crate::technique::{DATA_MIN, Technique};

/// A systematic code of k data shards and m parities; any k of the k + m shards determine the others.
///
/// Shards 0 to k - 1 are the data, shards k to k + m - 1 the parities. All slices of a call have the same
/// length, which may be any, and need no alignment. Another number or length of slices than documented
/// panics.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Code {
    technique: Technique,
    kernel: Kernel,
    parities: StripeMatrix,
    /// One row for each shard: the data as themselves, then the parities.
    generator: Matrix,
}

impl Code {
    /// The code of a technique with `k` data shards and `m` parities, or the limit that forbids it.
    pub fn new(technique: Technique, k: usize, m: usize) -> Result<Code, CodeError> {
        check(technique, k, m)?;
        let parities = coefficients(technique, k, m);
        Ok(Code {
            technique,
            kernel: Kernel::best(),
            parities: StripeMatrix::of(&parities),
            generator: Matrix::identity(k).above(&parities),
        })
    }

    /// The code of a profile: values of `plugin`, `technique`, `k` and `m`.
    pub fn from_names(
        plugin: &str,
        technique: &str,
        k: usize,
        m: usize,
    ) -> Result<Code, CodeError> {
        let found = Technique::from_names(plugin, technique);
        let unknown =
            || CodeError::Unknown { plugin: plugin.to_owned(), technique: technique.to_owned() };
        Code::new(found.ok_or_else(unknown)?, k, m)
    }

    /// The same code, computed by another kernel: for tests and measurements.
    #[must_use]
    pub fn with_kernel(self, kernel: Kernel) -> Code {
        Code { kernel, ..self }
    }

    /// The technique.
    pub fn technique(&self) -> Technique {
        self.technique
    }

    /// Number of data shards.
    pub fn k(&self) -> usize {
        self.parities.sources()
    }

    /// Number of parities.
    pub fn m(&self) -> usize {
        self.shards() - self.k()
    }

    /// Number of all shards, k + m.
    pub fn shards(&self) -> usize {
        self.generator.rows()
    }

    /// The factor of data shard `data` in parity `parity` (0 to m - 1).
    pub fn coefficient(&self, parity: usize, data: usize) -> u8 {
        self.parities.coefficient(parity, data)
    }

    /// Computes all m parities of k data chunks.
    pub fn encode(&self, data: &[&[u8]], parities: &mut [&mut [u8]]) {
        self.parities.multiply(self.kernel, data, parities);
    }

    /// Adds the change of data shard `data` from `old` to `new` to all m parities.
    pub fn apply_delta(&self, data: usize, old: &[u8], new: &[u8], parities: &mut [&mut [u8]]) {
        self.parities.multiply_one(self.kernel, data, [old, new], parities, true);
    }

    /// Computes the change of each of the m parities if data shard `data` changes from `old` to `new`.
    ///
    /// A holder of a parity XORs it ([`crate::xor`]) and needs to know nothing else. Deltas of one row,
    /// also of different data shards, can be XORed together first.
    pub fn deltas(&self, data: usize, old: &[u8], new: &[u8], deltas: &mut [&mut [u8]]) {
        self.parities.multiply_one(self.kernel, data, [old, new], deltas, false);
    }

    /// How to compute the `erased` shards from k of the `available` ones.
    ///
    /// The decoder depends on nothing else and can be kept for later stripes.
    pub fn decoder(&self, available: Shards, erased: Shards) -> Result<Decoder, DecodeError> {
        Decoder::new(&self.generator, self.kernel, available, erased)
    }
}

/// Compares the numbers of data shards and parities with the limits of a technique.
fn check(technique: Technique, k: usize, m: usize) -> Result<(), CodeError> {
    if !(technique.parities_min()..=technique.parities_max()).contains(&m) {
        return Err(CodeError::Parities { technique, m });
    }
    if !(DATA_MIN..=technique.data_max(m)).contains(&k) {
        return Err(CodeError::Data { technique, k, m });
    }
    Ok(())
}
