//! Ceph's primitive encodings.
//!
//! Everything on Ceph's wire is little-endian; containers carry a 32-bit count; most structures are
//! wrapped in a header `(version u8, compat u8, length u32)` so that old readers can skip what new
//! writers append (Ceph `doc/dev/encoding.rst`). This crate knows those rules and nothing else: no
//! message, no map, no socket.
//!
//! Invariants:
//! * A [`Reader`] never reads outside its slice and never allocates more than the slice could hold.
//! * Every [`DecodeError`] names the field and the offset at which decoding stopped.

#![warn(missing_docs)]

mod error;
mod reader;
mod traits;
mod writer;

pub use error::{DecodeError, DecodeErrorKind, Result};
pub use reader::Reader;
pub use traits::{Decode, Encode, EncodeFor, decode_all, encode_to_bytes, encode_with_capacity};
pub use writer::Writer;
