//! The native RADOS client engine.
//!
//! A [`Client`] finds a monitor, keeps the OSD map, and sends operations to the OSDs that the map
//! names. It is an [`engine::Daemon`] without storage: the host connects its sessions and passes
//! messages.
//!
//! ```text
//! Client::new(config, entropy);  start(now)
//!   fetch_map, identify, submit, list, command, pool_op, watch, notify    -> OpId
//!   poll_completion                                    -> (OpId, Result<Reply, Errno>)
//!   poll_watch_event                                   -> WatchEvent
//! ```
//!
//! Engines on top of it are [`RequestSource`]s; a [`RequestRouter`] passes the requests of many of them to
//! one client, and the responses back. Sequences of requests are written as [`Procedure`]s.
//!
//! Invariants:
//! * An operation keeps its transaction id however often it is sent, so an OSD executes it once.
//! * Operations on one OSD are sent in the order in which they were submitted, also again.
//! * Every submitted operation completes: with a reply, an error, or [`types::Errno::TIMEDOUT`] if
//!   the configuration sets a time.
//!
//! It deliberately does not know striping, images, file names, or how many bytes are in flight: the
//! caller bounds its own requests.

#![warn(missing_docs)]

mod client;
mod config;
mod effects;
mod listing;
mod locate;
mod monitor;
mod names;
mod objecter;
mod operation;
mod procedure;
mod request;
mod router;
mod session;
mod watch;

pub use client::Client;
pub use config::{Config, Credentials};
pub use listing::{ListPage, ListRequest};
pub use names::{OpId, Place, WatchId};
pub use operation::{
    CommandOutput, CommandTarget, Completion, Operation, OperationReply, PoolRequest, Reply,
};
pub use procedure::{HostedEngine, Procedure, Steps};
pub use request::{
    ClusterRequest, ClusterRequestId, ClusterResponse, Part, Progress, RequestSource,
};
pub use router::RequestRouter;
pub use watch::WatchEvent;
