//! The deterministic simulator: a whole cluster, its clients, its network and its disks under one
//! seed, in one thread and in virtual time.
//!
//! The engines are the very ones that `rt` drives over sockets and files. A seed decides the size of
//! the cluster, the load and the faults ([`scenario`]), every delay, and what a crash leaves on a
//! disk. The same seed always does the same, so whatever goes wrong once can be watched again.
//!
//! * [`world`]: time, processes and faults. [`network`]: links, with or without `msgr` sessions.
//! * [`process`]: a daemon and its disk. [`stores`]: which kind of store that is. [`cluster`]: what a scenario builds.
//! * [`workload`], [`snapshots`], [`model`], [`history`], [`watching`]: what clients ask, what objects are, what was answered.
//! * [`check`]: one checker per file. [`run`]: one seed from beginning to end.
//!
//! See `docs/internals/simulator.md`.

pub mod agenda;
pub mod check;
pub mod cluster;
pub mod control_trials;
pub mod faults;
pub mod history;
pub mod model;
pub mod network;
pub mod process;
pub mod restored;
pub mod run;
pub mod scaling;
pub mod scenario;
pub mod snapshots;
pub mod stall;
pub mod stores;
pub mod trace;
pub mod trials;
pub mod watching;
pub mod workload;
pub mod world;
