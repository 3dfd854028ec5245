//! Erasure codes of Ceph's pools: the same bytes as plugins `isa` and `jerasure` compute.
//!
//! `docs/internals/erasure-codes.md` has the matrices, the limits, and how equality with Ceph is tested.
//!
//! Layers, each of which uses those below it:
//!
//! ```text
//! digest       linear digests of shards, for scrub
//! code         encoding of stripes, deltas of parities
//! decoder      erased shards from k others
//! stripe       a matrix times slices of bytes        shards       sets of shards
//! kernels      GFNI, AVX2, scalar                    error        limits in sentences
//! coefficients the matrix of each technique          technique    names and limits
//! matrix       products and inverses
//! field        GF(2^8)
//! ```
//!
//! Nothing on the path of a request allocates: only [`Code::new`], [`Code::decoder`] and [`Code::verify`]
//! do. Unsafe code is in the kernels of x86-64 and in the function that calls them.
//!
//! # Example
//!
//! ```
//! use erasure::{Code, Shards, Technique};
//!
//! let code = Code::new(Technique::IsaVandermonde, 2, 1).unwrap();
//! let (a, b, mut parity) = (*b"row of shard 0", *b"row of shard 1", [0; 14]);
//! code.encode(&[&a, &b], &mut [&mut parity]);
//!
//! let decoder = code.decoder([0, 2].into_iter().collect(), [1].into_iter().collect()).unwrap();
//! assert_eq!(decoder.sources(), [0, 2].into_iter().collect::<Shards>());
//! let mut decoded = [0; 14];
//! decoder.decode(&[&a, &parity], &mut [&mut decoded]);
//! assert_eq!(decoded, b);
//! ```

#![warn(missing_docs)]
#![deny(unsafe_code)]

mod code;
mod coefficients;
mod decoder;
mod digest;
mod error;
pub mod field;
#[allow(unsafe_code)]
mod kernels;
mod matrix;
mod shards;
mod stripe;
mod technique;

pub use code::Code;
pub use decoder::Decoder;
pub use digest::{Digest, DigestBuilder, ROW_BYTES, Verdict};
pub use error::{CodeError, DecodeError};
pub use kernels::{Column, Kernel, OUTPUTS_MAX};
pub use shards::Shards;
pub use technique::{SHARDS_MAX, Technique};

/// `target ^= source`, with the fastest kernel. Both have the same length.
pub fn xor(target: &mut [u8], source: &[u8]) {
    Kernel::best().xor(target, source);
}

/// `target ^= coefficient * source`, with the fastest kernel. Both have the same length.
pub fn mul_xor(target: &mut [u8], source: &[u8], coefficient: u8) {
    Kernel::best().mul_xor(target, source, coefficient);
}
