//! The web console of a monitor: its page, sign-in, sessions, and the answers to its requests.
//!
//! ```text
//! browser ── HTTP ──► handle_request ──► Console ──► Output::Respond, Output::Push   ──► browser
//!                                        Console ──► Output::Open, Send, Close       ──► monitor
//! monitor ── MonCommandAck ──► handle_message ──► Console
//! ```
//!
//! A browser that has signed in is a client of the monitor like any other: it has a session with the monitor,
//! under the name and the capabilities of the entity whose link it followed, and what it asks for are
//! commands in that session. So the console decides nothing about what a user may do: the monitor does.
//!
//! Invariants:
//! * No command is sent without a session, and no session outlives its entity or a change of its
//!   capabilities.
//! * Secrets (links, cookies) are kept as digests and compared in constant time. None is in a log.
//! * Sessions, streams and requests in progress are bounded.
//!
//! It does not know sockets, TLS, or the inside of the monitor.

#![warn(missing_docs)]

mod assets;
mod console;
mod guard;
mod sessions;
mod streams;

pub use console::{Authority, ClientId, Console, Output};

/// The longest body of a request.
pub const BODY_BYTES_MAX: usize = 16 << 10;
