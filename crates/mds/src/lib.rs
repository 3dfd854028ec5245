//! The metadata server: sessions and capabilities of clients, and their requests on the name space.
//!
//! [`Rank`] is one rank, sans I/O: it takes messages of clients and returns messages for them. So far its
//! tree is in memory only.
//!
//! Invariants:
//! * Capabilities of different clients on an inode never contradict each other, also while they are revoked.
//! * A request sees and changes an inode only when no other client may change it, or rely on it, unseen.
//! * A change is executed once, however often its client sends it.
//!
//! Knows no sockets, no monitor, and not how the tree is kept.

#![warn(missing_docs)]

mod caps;
mod plan;
mod rank;
mod replies;
mod sessions;
#[cfg(test)]
mod tests;

pub use rank::{ClientPeer, Rank};
