//! Capabilities of clients on inodes: which client may read, change and cache which part of an inode.
//!
//! [`LockMachine`] is an engine without I/O. Clients get capabilities by replies ([`LockMachine::issue`]) and
//! by messages ([`Output::Notice`]); a request names the parts of inodes that it reads and changes, and waits
//! until no other client holds anything against it ([`LockMachine::handle_request`]). [`FileLocks`] keeps
//! POSIX and `flock` locks.
//!
//! Invariants:
//! * Bits that clients hold on an inode, with those that are being revoked, obey the table of `table`.
//! * A request is admitted only while no other client holds a bit that contradicts it.
//! * Nothing is taken from a client without its answer, except when its session ends.
//! * A client learns the range up to which it may write a file only when that is durable.
//!
//! Knows inodes by number, and reads neither names nor records.

#![warn(missing_docs)]

mod exchange;
mod file_locks;
mod group;
mod held;
mod inode;
mod leases;
mod machine;
mod ranges;
mod recall;
mod requests;
mod sessions;
mod table;
#[cfg(test)]
mod tests;

pub use exchange::{Claim, Issue, IssuedCap, Notice, Output, Release, Update};
pub use file_locks::{FileLock, FileLocks, LockKind, LockOwner, LockRequest, LockRule, SetOutcome};
pub use group::{DIRECTORY_OPERATIONS, Group, Groups, Kind, State, WRITING, snapshot_caps};
pub use leases::{LEASE, LeaseGrant};
pub use machine::LockMachine;
pub use ranges::{Unit, range_end};
pub use recall::Pressure;
pub use requests::{
    ACCESSES_MAX, Access, Admission, Demand, Entry, InodeId, REQUESTS_MAX, RequestId,
};
pub use sessions::{EvictReason, Settings};
