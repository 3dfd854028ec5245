//! The OSD engine: the placement groups of one disk and the requests of their clients.
//!
//! ```text
//! request ─ admission ─ group active? ─ object's queue ─ execute ─ group's log ─ store + members ─ reply
//! ```
//!
//! [`Osd`] is a daemon engine: sessions, timers and the disk belong to its host. It loads its
//! groups, boots at the monitor and follows the maps; from then on every action follows from a
//! message, a timeout or a completion of the store.
//!
//! It has two large parts. `hosted` owns the groups and the components that serve them: operations,
//! watches, leases, recovery, scrubs, trimming. `shared` owns what these and the rest of the OSD use: the
//! map, sessions, reports, and the ways out. `Osd` itself receives inputs, holds them while groups handle a
//! map, follows the maps, and runs commands.
//!
//! Invariants:
//! * Per object, requests take effect in the order in which they arrived on a session. Writes are
//!   pipelined: each sees the state that the ones before it will leave. A reply reports only
//!   durable state.
//! * A request is either answered, or its client resends it, because of a newer map that it gets or
//!   because its session ends.
//! * Nothing depends on the order of a hash map.

mod commands;
mod config;
mod cx;
mod env;
pub mod execute;
mod faults;
mod groups;
mod heartbeats;
mod hosted;
mod inbox;
mod leases;
mod limits;
mod maps;
mod operations;
mod osd;
mod outbox;
mod premerge;
mod recovery;
mod report;
mod scrub;
mod sessions;
mod shared;
mod tokens;
mod trim;
mod watches;
mod work;

pub use crate::maps::stored::{stored_map, stored_map_request};
pub use config::{Budgets, Config, Sizes, VERSION};
pub use env::{BenchLimits, Options};
pub use osd::Osd;

#[cfg(test)]
mod cluster_tests;
#[cfg(test)]
mod session_tests;
