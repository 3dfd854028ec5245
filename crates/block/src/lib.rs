//! The object store on a raw block device or a preallocated file.
//!
//! `docs/internals/disk-format.md` has the bytes, and why a crash at any moment loses nothing.
//!
//! ```text
//! engine   transactions, queries, checkpoints, opening
//! object   onodes, where their blocks lie, who shares them      keys   of the tree
//! slices   which ids a collection's objects are under
//! table    changed metadata in memory     scan   over memory and tree
//! tree     metadata on the device         space  free blocks
//! log      the write-ahead log            superblock
//! fsck     the offline check and repair   dump   metadata as text
//! device   what is asked of devices       disk   simulated ones, with faults
//! ```
//!
//! Invariants:
//! * A commit completes when its record and its data are durable, in the order of submission.
//! * What a crash leaves is the state after some prefix of the commits, with all that completed.
//! * Data is given out only if it has its checksum.
//! * Memory is bounded by `Options::memory`, whatever the devices hold.

// An error names its object; it is rare and never on a hot path.
#![allow(clippy::result_large_err)]

mod checksum;
pub mod device;
pub mod disk;
pub mod dump;
mod engine;
mod format;
pub mod fsck;
pub mod keys;
pub mod log;
pub mod object;
mod options;
pub mod scan;
pub mod slices;
pub mod space;
pub mod superblock;
pub mod table;
pub mod tree;

pub use engine::{BlockStore, StoreFailure, Work};
pub use format::{FormatError, Identity, format, identify};
pub use options::Options;
