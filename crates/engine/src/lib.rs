//! The contract between logic and host.
//!
//! An *engine* is plain state. A *host* (`rt` with real sockets and disks, `sim` with virtual ones)
//! tells it what happened by `handle_*(now, input)` and afterwards drains `poll_output` until it
//! returns `None`; `poll_timeout` says when the engine wants `handle_timeout` called, if nothing
//! happens before. An engine never looks at a clock, a socket, a file, a thread or a source of
//! randomness, so the same inputs always give the same outputs.
//!
//! Daemons (monitor, OSD, native client) exchange [`Message`]s over *sessions*, named by [`ConnId`].
//! The host pairs each session with a `msgr` session engine and a socket, or, where both daemons
//! live in one process, joins them directly; daemons cannot tell the difference.

#![warn(missing_docs)]

mod daemon;
mod message;
mod node;
mod redacted;
mod runner;
mod time;

pub use daemon::{
    AuthRequest, AuthVerdict, ConnId, ConnectTarget, ConnectingAnswer, ConnectingStep, CoreLoad,
    Daemon, Output, Peer, Policy, RequestToken,
};
pub use message::{Message, priority};
pub use node::{Node, NodeOutput, Storage};
pub use redacted::Redacted;
pub use runner::Runner;
pub use std::time::Duration;
pub use time::Time;
