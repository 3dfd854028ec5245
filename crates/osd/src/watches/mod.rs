//! Watches and notifications: their state in memory.
//!
//! The watchers of an object are stored with it. Kept here is the session over which a watch is
//! connected, and when it times out without one. A notification goes to all watchers, collects
//! their acknowledgements, and is complete when all are there or its time is up.

mod connections;
mod notify;
mod state;
mod timeouts;

pub(crate) use connections::Sender;
pub(crate) use state::{GroupWatches, Watched, Watches};
