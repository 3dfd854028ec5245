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
//! Invariants:
//! * Per object, requests take effect in the order in which they arrived on a session. Writes are
//!   pipelined: each sees the state that the ones before it will leave. A reply reports only
//!   durable state.
//! * A request is either answered, or its client resends it, because of a newer map that it gets or
//!   because its session ends.
//! * Nothing depends on the order of a hash map.

mod admission;
mod authentication;
mod bench;
mod budget;
mod candidates;
mod commands;
mod complaints;
mod config;
mod connecting;
mod copying;
mod dumps;
mod early;
mod env;
pub mod execute;
mod failed_disk;
mod group_commands;
mod group_states;
mod groups;
mod healing;
mod heartbeat;
mod images;
mod inflight;
mod leases;
mod limits;
mod listing;
mod lost;
mod maps_history;
mod monitor;
mod object;
mod objects;
mod operations;
mod osd;
mod outbox;
mod peers;
mod placement;
mod placing;
mod recovery;
mod replies;
mod report;
mod request;
mod requests;
mod reservations;
mod reshaping;
mod scrub;
mod session;
mod snapshots;
mod snaptrim;
mod storage;
mod stored_maps;
mod tokens;
mod turns;
mod waits;
mod watches;

pub use config::{Budgets, Config, Sizes, VERSION};
pub use env::{BenchLimits, Options};
pub use osd::Osd;
pub use stored_maps::{stored_map, stored_map_request};

#[cfg(test)]
mod cluster_tests;
#[cfg(test)]
mod session_tests;
