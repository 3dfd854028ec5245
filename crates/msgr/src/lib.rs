//! One msgr 2.1 session as a sans-I/O engine.
//!
//! A [`Session`] is one end of an ordered stream of messages between two daemons (Ceph
//! `doc/dev/msgr2.rst`). It outlives the connections that carry it: a lossless session reconnects
//! and delivers each message exactly once; a lossy one ends with its connection.
//!
//! ```text
//! Session::connect(config, now, target, seed)      Session::accept(config, now, seen_addr, seed)
//!   Event::Connect      -> handle_connected          Event::AuthRequest -> handle_auth_verdict
//!   Event::Connecting   -> answer                    Event::Introduced  -> admit (lossless only)
//!                 Event::Opened, then Event::Message and send, until Event::Closed
//! ```
//!
//! The host, which owns sockets and clock, tells `handle_*(now, …)` what happened and afterwards
//! drains [`Session::poll_event`] until `None`, then [`Session::poll_transmit`], and calls
//! [`Session::handle_timeout`] at the time that [`Session::poll_timeout`] tells.
//!
//! Invariants:
//! * Message data is passed on by reference, in both directions.
//! * Received bytes are decoded only by `poll_event`, so a host that stops polling and receiving
//!   holds no more than it has handed in.
//! * No message is accepted, and nothing large is allocated, before the peer has authenticated.
//! * Whatever a peer sends ends in an event, never in a panic.
//!
//! It deliberately does not know what messages mean, how authentication works (its payloads pass
//! through as events), or which other sessions exist: where an accepted connection may belong to an
//! existing session, the host finds that one and [`Session::admit`] decides.

#![warn(missing_docs)]

mod admission;
mod config;
mod event;
mod identity;
mod idents;
mod introduction;
mod link;
mod numbers;
mod queue;
mod receipts;
mod secure;
mod session;
mod silence;

pub use auth::{MODE_CRC, MODE_SECURE};
pub use config::Config;
pub use event::{CloseReason, Event};
pub use introduction::{Admission, Introduction};
pub use session::{SendError, Session};
