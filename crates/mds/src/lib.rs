//! The metadata server: sessions and capabilities of clients, and their requests on the name space.
//!
//! [`Mds`] is the daemon: it sends beacons to a monitor, and serves the rank that the map gives it, while a
//! lease lasts. [`Rank`] is that rank: it takes messages of clients and returns messages for them. Its tree
//! is in memory; changes go to a journal and, by checkpoints, to rows in the metadata pool.
//!
//! Invariants:
//! * Capabilities of different clients on an inode never contradict each other, also while they are revoked.
//! * A request sees and changes an inode only when no other client may change it, or rely on it, unseen.
//! * A change is executed once, however often its client sends it.
//!
//! Knows no sockets, and not how the monitor decides.

#![warn(missing_docs)]

mod authentication;
mod awaited;
mod beacons;
mod caps;
mod change;
mod commands;
mod config;
mod cuts;
mod daemon;
mod data_objects;
mod delegated;
mod file_locks;
mod latencies;
mod layouts;
mod log;
mod noted;
mod pages;
mod peer;
mod permissions;
mod plan;
mod plan_snapshots;
mod purges;
mod quota_values;
mod quotas;
mod rank;
mod replies;
mod rows;
mod sessions;
mod store;
#[cfg(test)]
mod tests;
mod vxattrs;

pub use config::Config;
pub use daemon::{End, Mds};
pub use peer::ClientPeer;
pub use rank::Rank;
pub use store::fsck;
