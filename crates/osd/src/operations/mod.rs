//! Requests of clients, and our own: from admission to the reply.

pub(crate) mod admission;
pub(crate) mod answered;
mod checks;
mod clones;
mod copies;
pub(crate) mod copying;
mod execution;
pub(crate) mod healing;
pub(crate) mod interruption;
pub(crate) mod keys;
pub(crate) mod listing;
pub(crate) mod loads;
mod lost_object;
mod memory;
pub(crate) mod object;
pub(crate) mod outcomes;
pub(crate) mod own;
pub(crate) mod queue;
pub(crate) mod queues;
mod replies;
pub(crate) mod request;
mod requests;
pub(crate) mod resume;
mod run;
pub(crate) mod service;
mod shard_reads;
pub(crate) mod shards;
pub(crate) mod snapshots;
pub(crate) mod state;
mod submit;
mod table;
mod turns;

pub(crate) use table::Operations;
