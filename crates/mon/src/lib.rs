//! The monitor: owns the cluster's maps, and answers what Ceph sends to its manager.
//!
//! [`Monitor`] is a sans-I/O engine ([`engine::Daemon`]). Its durable state is kept in a control store behind
//! [`control`]; an empty store is filled by [`bootstrap()`], or by [`rebuild()`] after a loss. In reading
//! order:
//!
//! * [`control`], `keys`, [`state`]: the contract of the store, its keys, and their decoded content.
//! * `change`: the writes of one operation, as one compare-and-swap transaction.
//! * `job`: operations that may change the state.
//! * [`monitor`]: sessions, authentication, subscriptions, messages, and the queue of operations.
//! * `balancer`, `autoscale`, `numbers`: better placement of groups, and better numbers of groups.
//! * `failures`, `flapping`: failure detection from the reports of OSDs.
//! * [`statistics`], `health`, `progress`: reports of OSDs, and the checks and events derived from them.
//! * `live`: the state of the running monitor that commands and health checks read.
//! * `metrics`: the same for Prometheus.
//! * `usage`, `crashes`: free space of pools, and crash reports of daemons.
//! * `service_map`: daemons outside of the cluster, such as gateways, which register themselves.
//! * `sessions`: the open sessions, by number and by OSD.
//! * `service`, `services`: the parts of the monitor behind one interface, and their table.
//! * `links`, `history`: sign-in to the console by one-time links, and samples for its plots.
//! * [`HighWater`]: the newest state of the store that was seen, kept outside of it.
//! * `image_tasks`: background work on images, done by workers; `image_traffic`: client I/O per image.
//! * `volume_orders`, `volume_work`: commands on subvolumes, carried out by workers.
//! * [`command`], `commands`: the machinery of commands, and one file per family.
//! * `dump`, `table`: formatting of maps and numbers. Nothing is decided there.
//!
//! Invariants:
//! * A change is visible, and answered, only after its transaction is durable.
//! * Epochs of maps follow each other without gaps, and each has its incremental.
//! * No message of a client makes the monitor panic or keeps it from answering others.
//!
//! It does not know frames, sockets, or the implementation of the control store.

mod autoscale;
pub mod balancer;
mod bootstrap;
mod change;
mod cluster_version;
pub mod command;
mod commands;
mod crashes;
mod dump;
mod failures;
mod file_systems;
mod flapping;
mod health;
mod high_water;
mod history;
mod image_schedules;
mod image_tasks;
mod image_traffic;
mod job;
mod keys;
mod links;
mod live;
mod metrics;
pub mod monitor;
mod numbers;
mod progress;
mod rebuild;
mod service;
mod service_map;
mod services;
mod sessions;
mod settings;
pub mod state;
pub mod statistics;
mod table;
mod usage;
mod volume_orders;
mod volume_work;

pub use bootstrap::{Bootstrap, BootstrapError, DEFAULT_RULE, Parameters, bootstrap};
pub use commands::console::SERVICE as CONSOLE_SERVICE;
pub use control;
pub use high_water::{HighWater, HighWaterGauge};
pub use live::DiskSpace;
pub use metrics::CONTENT_TYPE as METRICS_TYPE;
pub use monitor::Monitor;
pub use rebuild::{EPOCHS_PASSED_OVER, LostFileSystem, Remains, lost_file_systems, rebuild};
pub use services::{daemon_registry, registry};
pub use settings::{AuthMode, Settings};

/// The version that daemons report. Scripts look for `ceph version X`.
pub const VERSION: &str = concat!(
    "sepiola version ",
    env!("CARGO_PKG_VERSION"),
    ", like ceph version 18.2.0 reef (stable)"
);
