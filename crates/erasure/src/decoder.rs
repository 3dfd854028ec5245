//! Decoding: erased shards as products of k available ones.

use crate::error::DecodeError;
use crate::kernels::Kernel;
use crate::matrix::Matrix;
use crate::shards::Shards;
use crate::stripe::StripeMatrix;

/// The matrix that computes erased shards, data and parities alike, from k others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decoder {
    sources: Shards,
    outputs: Shards,
    kernel: Kernel,
    matrix: StripeMatrix,
}

impl Decoder {
    /// `generator` has one row for each shard. The available shards of lowest numbers are used: data, if
    /// possible.
    pub(crate) fn new(
        generator: &Matrix,
        kernel: Kernel,
        available: Shards,
        erased: Shards,
    ) -> Result<Decoder, DecodeError> {
        let (shards, k) = (generator.rows(), generator.columns());
        if let Some(shard) = available.iter().chain(erased.iter()).find(|shard| *shard >= shards) {
            return Err(DecodeError::NoShard { shard, shards });
        }
        if let Some(shard) = erased.iter().find(|shard| available.contains(*shard)) {
            return Err(DecodeError::NotErased { shard });
        }
        if available.len() < k {
            return Err(DecodeError::TooFew { available: available.len(), needed: k });
        }
        let sources: Vec<usize> = available.iter().take(k).collect();
        let outputs: Vec<usize> = erased.iter().collect();
        // The sources are this matrix times the data, so the data are its inverse times the sources.
        let to_data = generator.of_rows(&sources).inverse();
        let to_data = to_data.expect("within its limits, any k rows of a code are independent");
        Ok(Decoder {
            sources: sources.into_iter().collect(),
            outputs: erased,
            kernel,
            matrix: StripeMatrix::of(&generator.of_rows(&outputs).times(&to_data)),
        })
    }

    /// The k shards that [`Decoder::decode`] takes.
    pub fn sources(&self) -> Shards {
        self.sources
    }

    /// The shards that [`Decoder::decode`] computes.
    pub fn outputs(&self) -> Shards {
        self.outputs
    }

    /// Computes the erased chunks. Sources and outputs are in ascending order of their shards; all have the
    /// same length.
    pub fn decode(&self, sources: &[&[u8]], outputs: &mut [&mut [u8]]) {
        self.matrix.multiply(self.kernel, sources, outputs);
    }
}
