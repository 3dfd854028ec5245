//! Deterministic simulator: a whole cluster with its clients, network and disks, in one thread and in
//! virtual time.
//!
//! The engines are those that `rt` drives over sockets and files. A seed decides the size of the cluster,
//! the load and the faults ([`scenario`]), every delay, and the state that a crash leaves on a disk. A run
//! is a function of its seed, so every failure can be replayed.
//!
//! * [`world`]: processes, clocks, and the network between them. [`events`], [`load`], [`inject`]: what
//!   happens in it. [`network`]: links, with or without `msgr` sessions.
//! * [`erasure`]: pools with shards instead of copies.
//! * [`process`]: a daemon and its disk. [`stores`]: the kind of its store. [`cluster`]: construction of a
//!   scenario's cluster.
//! * [`workload`], [`snapshots`], [`model`], [`history`], [`watching`]: requests of clients, the model of
//!   objects, and recorded responses.
//! * [`files`], [`file_load`], [`file_snapshots`], [`file_history`], [`file_strikes`]: the file system, the
//!   calls of its users, recorded answers, and deaths of its server.
//! * [`check`]: one checker per file. [`run`]: the phases of a run.
//!
//! See `docs/internals/simulator.md`.

pub mod agenda;
pub mod cast;
pub mod check;
pub mod cluster;
pub mod commands;
pub mod control_trials;
pub mod digest;
pub mod directed;
pub mod erasure;
pub mod event;
pub mod events;
pub mod fault;
pub mod fault_mix;
pub mod faults;
pub mod file_history;
pub mod file_load;
pub mod file_snapshots;
pub mod file_strikes;
pub mod files;
pub mod groups;
pub mod history;
pub mod inject;
pub mod kept;
pub mod load;
pub mod model;
pub mod names;
pub mod network;
pub mod node;
pub mod process;
pub mod run;
pub mod scenario;
pub mod snapshots;
pub mod stall;
pub mod stores;
pub mod trace;
pub mod trials;
pub mod watching;
pub mod workload;
pub mod world;
