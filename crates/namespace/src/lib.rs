//! The name space of a file system: inodes, directories, operations on them, and records of changes.
//!
//! ```text
//! tree.walk(path) -> Place        execute(&tree, &operation, &context) -> Done { records, .. }
//!                                 tree.apply(&records)
//! ```
//!
//! [`execute()`] is a pure function: it reads the [`Tree`] and returns after-images of what an operation
//! changes, as [`Record`]s, or an error as Ceph gives it. [`Tree::apply`] makes them true. Nothing else
//! changes a tree, so the records of a journal, applied in order, give the tree from which they came.
//!
//! A tree is stored as *rows*: [`Tree::row`] gives them, [`ChangedRows`] says which have changed, and a
//! [`Loader`] makes a tree of rows and of the records behind them.
//!
//! Invariants:
//! * All records of one operation are applied together; then each inode has as many links as its number of
//!   links says, each directory has one, and counts and recursive statistics are those of the entries.
//! * Entries of a directory are ordered by the hash of their names, then by name, as clients expect.
//!
//! Knows no sessions, no capabilities of clients, no RADOS, and not where records are stored.

#![warn(missing_docs)]

mod changed;
mod directory;
mod execute;
mod inode;
mod load;
mod old_versions;
mod preserve;
mod realm;
pub mod realms;
mod record;
mod row;
mod snapshot;
pub mod snapshots;
mod tree;
mod walk;

pub use changed::ChangedRows;
pub use directory::{Entry, EntryKey, Page, PageStart, name_hash};
pub use execute::{
    AttributeChange, Context, Done, Flush, FlushedFile, NewInode, Operation, SetAttributes, execute,
};
pub use inode::{
    Encryption, Ino, Inode, Kind, Owner, Pins, Policy, Statistics, Truncation, WriteRange, Xattrs,
};
pub use load::{LoadError, Loader};
pub use old_versions::{OldEntry, OldKey};
pub use realm::Realm;
pub use record::{EntryImage, Record};
pub use row::{
    Row, RowKey, SNAPSHOTS_OBJECT, decode_entry_key, decode_ino_key, decode_old_key,
    directory_object, ino_key, links_object, old_version_objects,
};
pub use snapshot::{SnapNumbers, Snapshot};
pub use snapshots::TrimPlace;
pub use tree::Tree;
pub use walk::{NAME_MAX_BYTES, Place, check_name};
