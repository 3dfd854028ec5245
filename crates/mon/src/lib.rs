//! The monitor: keeper of the cluster's maps, and stand-in for Ceph's manager.
//!
//! [`Monitor`] is a sans-I/O engine ([`engine::Daemon`]). Its durable state lies in a control store
//! behind [`control`]; an empty store is filled by [`bootstrap()`], or by [`rebuild()`] after a loss. In reading order:
//!
//! * [`control`], `keys`, [`state`]: the store's contract, its keys, and what they mean.
//! * `change`: what one operation wants to write, as one compare-and-swap transaction.
//! * [`monitor`]: sessions, authentication, subscriptions, messages, and the queue of operations.
//! * `balancer`, `autoscale`: how groups could be spread better, and how many there should be.
//! * `failures`, `flapping`: whom OSDs report as failed, and when that is believed.
//! * [`statistics`], `health`, `progress`: what OSDs report about themselves, and what is to be said
//!   about it.
//! * `services`: daemons that clients run, such as gateways, as they register themselves.
//! * [`HighWater`]: how far the store was seen to go, kept outside of it.
//! * `image_tasks`: work on images that somebody else does in the background; `image_traffic`: what clients do to them.
//! * [`command`], `commands`: the machinery of commands, and one file per family.
//! * `dump`, `table`: how maps and numbers are shown. No decision is made there.
//!
//! Invariants:
//! * A change is visible, and answered, only after its transaction is durable.
//! * Epochs of maps follow each other without gaps, and each has its incremental.
//! * Nothing that a client sends makes the monitor panic or keeps it from answering.
//!
//! It deliberately does not know frames, sockets, or how the control store keeps its promises.

mod autoscale;
pub mod balancer;
mod bootstrap;
mod change;
pub mod command;
mod commands;
pub mod control;
mod dump;
mod failures;
mod flapping;
mod health;
mod high_water;
mod image_schedules;
mod image_tasks;
mod image_traffic;
mod keys;
pub mod monitor;
mod progress;
mod rebuild;
mod services;
pub mod state;
pub mod statistics;
mod table;

pub use bootstrap::{Bootstrap, BootstrapError, DEFAULT_RULE, Parameters, bootstrap};
pub use commands::{daemon_registry, registry};
pub use high_water::{HighWater, HighWaterGauge};
pub use monitor::{AuthMode, Monitor, Settings};
pub use rebuild::{EPOCHS_PASSED_OVER, Remains, rebuild};

/// What the daemons call themselves. Scripts look for `ceph version X`.
pub const VERSION: &str = concat!(
    "sepiola version ",
    env!("CARGO_PKG_VERSION"),
    ", like ceph version 18.2.0 reef (stable)"
);
