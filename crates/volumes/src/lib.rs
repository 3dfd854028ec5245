//! Volumes and subvolumes: commands on them, and their work in the background, over a client of a file
//! system.
//!
//! The monitor leaves commands such as `fs subvolume create` to a worker. The worker runs an [`Order`] as a
//! [`Procedure`], which asks a [`fsclient::FsClient`] and the monitors, and answers with what `ceph` prints.
//! [`scan`] finds [`Job`]s: copies into clones, and deletion of what lies in the trash.
//!
//! Guarantees:
//! * An order that has succeeded is durable, and may be repeated.
//! * A crash at any point leaves a subvolume as it was, as it is to be, or not yet there: its metadata is
//!   replaced as a whole, and it goes by a rename.
//! * Paths and files are those of Ceph's module `volumes`, version 2 of its metadata.
//! * Of several workers, one at a time changes metadata of a volume, and one copies (`fence.rs`). Within a
//!   worker, orders, and the beginnings and ends of copies, take turns ([`Request::Lock`]).
//!
//! Knows no sockets, clocks or threads.

#![warn(missing_docs)]

mod access;
mod attributes;
mod background;
mod catalog;
mod clones;
mod copy;
mod dispatch;
mod earmarks;
mod failure;
mod fence;
mod groups;
mod listing;
mod metadata;
mod needs;
mod order;
mod paths;
mod procedure;
mod purge;
mod snapshots;
mod subvolumes;
mod tree;
mod users;
mod volume;

#[cfg(test)]
mod fake;
#[cfg(test)]
mod tests;

pub use background::{Job, scan};
pub use failure::Failure;
pub use order::{Order, Outcome, Pool, Printed, Volume};
pub use procedure::{Inputs, Procedure, Request, RequestId, Response, Steps, Target};
