//! The control store on etcd, for any number of monitors.
//!
//! * [`EtcdControl`]: the monitor's storage, on a thread of its own.
//! * [`EtcdTool`]: blocking requests for commands.
//! * [`EtcdOptions`]: the members, and how they are reached.
//! * `client`, `values`, `follow`: requests to the members, transactions and values of any size, the watch.
//! * `pace`: pages of a load that a slow store can answer.
//! * `txn`, `marks`, `proto`: transactions within etcd's bounds, marks of their outcome, and the messages.
//!
//! It does not know what the keys mean.

#![warn(missing_docs)]

mod client;
mod follow;
mod marks;
mod options;
mod outbox;
mod pace;
mod proto;
mod storage;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests;
mod tool;
mod txn;
mod values;

pub use options::{EtcdOptions, FILE_MODE, PREFIX_DEFAULT};
pub use storage::EtcdControl;
pub use tool::EtcdTool;
