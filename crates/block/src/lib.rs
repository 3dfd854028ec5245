//! The object store on a raw block device or a preallocated file.
//!
//! See `docs/internals/disk-format.md` for the bytes and the reasons.

pub mod device;
pub mod table;
