//! Hosting of engines: pairs daemons with sessions, sessions with sockets, and daemons with storage.
//!
//! A [`Core`] is one thread: a reactor and its daemons. Daemons of one process reach each other by *local
//! links* that move messages without encoding, on the same core by a queue and between cores by a mailbox;
//! other peers connect through sockets and `msgr` sessions. Daemons cannot tell the difference.
//!
//! This module does not interpret messages.

mod core;
mod links;
mod node;
mod streams;
mod wire;

pub use core::{Core, CoreConfig};
pub use links::{Directory, LocalMessage, NodeAddress};
pub(crate) use node::sessions_go_to;
pub use node::{DaemonNode, Hosted, NoStorage, NodeOutput, Storage, StorageIo};
pub use streams::{StreamEvent, StreamOutput};
pub use wire::Listening;
