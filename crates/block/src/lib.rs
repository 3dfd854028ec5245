//! The object store on a raw block device or a preallocated file.
//!
//! `docs/internals/disk-format.md` describes the format, and why a crash at any moment loses
//! nothing.
//!
//! ```text
//! engine   transactions, queries, checkpoints, opening
//! object   onodes, extent segments, reference counts            keys   of the tree
//! slices   ids of a collection's objects, by hash
//! table    changed metadata in memory     scan   over memory and tree
//! tree     metadata on the device         space  free blocks
//! log      the write-ahead log            superblock
//! fsck     the offline check and repair   dump   metadata as text
//! device   operations of devices          disk   simulated ones, with faults
//! ```
//!
//! Invariants:
//! * A commit completes when its record and its data are durable, in the order of submission.
//! * A crash leaves the state after some prefix of the commits, with all that completed.
//! * Data is returned only if its checksum is right.
//! * Memory is bounded by `Options::memory`, whatever the devices hold.

// Errors name their object; they are rare and never on a hot path.
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
