//! The stores of OSDs on real disks.
//!
//! * `kind`, `devices`: what lies in an OSD's directory, and its devices, open.
//! * `creation`: which directories may be taken for a new store, and whether its creation has ended.
//! * `format`: a new block store: its devices chosen, checked, and formatted.
//! * `disk`: a store on the core of its OSD.
//! * `offline`: a store without a cluster, for one request at a time.
//! * `stream`, `transfer`: a whole store as a stream of bytes.
//!
//! It does not know clusters, nor what objects mean.

#![warn(missing_docs)]

mod creation;
mod devices;
mod disk;
mod format;
mod kind;
mod offline;
mod stream;
#[cfg(test)]
mod tests;
mod transfer;

pub use creation::{begin_creation, check_created, clear_directory, end_creation};
pub use devices::{OpenDevice, Owner, StoreDevices};
pub use disk::{Disk, DiskOptions, default_memory, disk_facts};
pub use format::{Preparation, format, free_space, prepare};
pub use kind::{StoreKind, kind_of, remember_kind};
pub use offline::{OfflineStore, request_once};
pub use transfer::{BlockingStore, Content, Existing, contents, export, import, usage};
