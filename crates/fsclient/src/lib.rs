//! A native client of file systems.
//!
//! [`FsClient`] speaks the messages of stock clients. It opens a session with the metadata server of rank 0,
//! follows the rank to its next server, and there claims its capabilities and repeats its requests. Data of
//! files goes to the OSDs directly; it is buffered while a capability allows that.
//!
//! Invariants:
//! * A capability is used only while the server has not asked for it back, and it is given back only when
//!   nothing depends on it: writes are on the OSDs, and the size goes with the answer.
//! * A request that was answered early is kept until its safe reply, and told to the next server as such.
//! * `fsync` succeeds when data is on the OSDs, the server has made size and times durable, and the creation
//!   of the file has a safe reply.
//! * When the session is lost, so is everything that is not durable: files that were open must be opened
//!   again, and calls that were sent fail with EIO, since they may have been executed or not.
//! * A write preserves the snapshots that the client knew of when it was made. Attributes that a snapshot
//!   shows go to the server before those of today, and before the capability.
//! * What would exceed a quota that the client knows fails with EDQUOT.
//!
//! There is no cache of names or data. Knows no sockets.

#![warn(missing_docs)]

mod call;
mod cap_snap;
mod client;
mod file_locks;
mod inode;
mod link;
mod monitor;
mod outputs;
mod realms;
mod requests;
mod session;
mod striping;
mod transfers;

#[cfg(test)]
mod tests;

pub use call::{Answer, Call, CallId, Outcome};
pub use client::{Config, FsClient, HeldCap};
