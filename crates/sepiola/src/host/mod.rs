//! Hosting engines: pairs daemons with sessions, sessions with sockets, and daemons with storage.
//!
//! A [`Core`] is one thread: a reactor and the daemons that live on it. Daemons of one process reach
//! each other by *local links* that carry messages as they are, on the same core by a queue and
//! between cores by a mailbox; everybody else comes through sockets and `msgr` sessions. Daemons
//! cannot tell the difference.
//!
//! Nothing here knows what messages mean.

mod core;
mod links;
mod node;
mod streams;
mod wire;

pub use core::{Core, CoreConfig};
pub use links::{Directory, NodeAddress, Parcel};
pub(crate) use node::sessions_go_to;
pub use node::{DaemonNode, Hosted, NoStorage, NodeOutput, Storage, StorageIo};
pub use streams::{StreamEvent, StreamOutput};
pub use wire::Listening;
