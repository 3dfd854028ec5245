//! Small additions to std: a seeded random number generator, hash maps with a fixed hasher, a slab, aligned
//! memory, and formatted sizes.
//!
//! Deliberately without any source of entropy, time or I/O: engines depend on this crate.

#![warn(missing_docs)]

mod aligned;
mod hash;
mod prng;
mod slab;
mod units;

pub use aligned::{AlignedBuffer, DIRECT_ALIGNMENT};
pub use hash::{FastHasher, FastMap, FastSet};
pub use prng::Prng;
pub use slab::Slab;
pub use units::{format_bytes, parse_bytes};
