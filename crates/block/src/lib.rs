//! The object store on a raw block device or a preallocated file.
//!
//! `docs/internals/disk-format.md` describes the format, and why a crash at any moment loses
//! nothing.
//!
//! Layers, each of which uses those below it:
//!
//! ```text
//! dump        metadata as text          disk     simulated devices, and a host for them
//! engine      transactions, queries, checkpoints, opening; makes the repairs of fsck
//! fsck        the offline check and repair
//! format      the content of an empty store
//! superblock  identity and layout       scan     over memory and tree
//! log         the write-ahead log       options  devices and memory
//! table       changed metadata in memory
//! tree        metadata on the device    keys     of the tree
//! object      onodes, extent segments, reference counts
//! space       free blocks               slices   ids of a collection's objects, by hash
//! device      operations of devices     checksum
//! ```
//!
//! The table, the tree and the keys use files of one another, and the tree takes one limit from the
//! superblock. No files use each other in a circle.
//!
//! Invariants:
//! * A commit completes when its record and its data are durable, in the order of submission.
//! * A crash leaves the state after some prefix of the commits, with all that completed.
//! * Data is returned only if its checksum is right.
//! * Memory is bounded by `Options::memory`, whatever the devices hold.

#![warn(missing_docs)]
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
pub use object::OBJECT_SIZE_MAX;
pub use options::Options;
