//! Hosting of engines: pairs daemons with sessions, sessions with sockets, and daemons with storage.
//!
//! A [`Core`] is one thread: a reactor and its daemons. Daemons of one process reach each other by *local
//! links* that move messages without encoding, on the same core by a queue and between cores by a mailbox;
//! other peers connect through sockets and `msgr` sessions. Daemons cannot tell the difference. A
//! [`RunningDaemons`] is a set of cores that run [`Member`]s. [`run_until_signal`] runs one on the thread
//! of its caller.
//!
//! Both tell the service manager that started the process when the daemons run, that all cores make progress,
//! and when they stop (`sd_notify(3)`).
//!
//! This crate does not interpret messages.

#![warn(missing_docs)]

mod alone;
mod contract;
mod core;
mod links;
mod node;
mod notices;
mod plan;
mod streams;
mod supervisor;
mod threads;
mod watchdog;
mod wire;

pub use alone::run_until_signal;
pub use contract::{DiskStorage, Hosted, StorageIo, StreamEvent, StreamOutput};
pub use core::{Core, CoreConfig, PORT_TIME_MAX};
pub use links::{Addressing, Directory, LocalMessage, NodeAddress};
pub use node::{DaemonNode, NoStorage};
pub use notices::{Notice, Notices};
pub use plan::{AnyCore, Member, Plan, Prepared};
pub use threads::{RunningDaemons, panic_text};
pub use wire::Listening;
