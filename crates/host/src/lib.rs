//! Hosting of engines: pairs daemons with sessions, sessions with sockets, and daemons with storage.
//!
//! A [`Core`] is one thread: a reactor and its daemons. Daemons of one process reach each other by *local
//! links* that move messages without encoding, on the same core by a queue and between cores by a mailbox;
//! other peers connect through sockets and `msgr` sessions. Daemons cannot tell the difference. A
//! [`RunningDaemons`] is a set of cores; what runs on them is told by [`Member`]s.
//!
//! This crate does not interpret messages.

mod core;
mod links;
mod node;
mod streams;
mod threads;
mod wire;

pub use core::{Core, CoreConfig};
pub use links::{Directory, LocalMessage, NodeAddress};
pub use node::{DaemonNode, DiskStorage, Hosted, NoStorage, StorageIo};
pub use streams::{StreamEvent, StreamOutput};
pub use threads::{AnyCore, Member, Notice, Plan, Prepared, RunningDaemons};
pub use wire::Listening;
