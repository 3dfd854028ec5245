//! The work of an activated primary: writes, recovery, backfill, repair, until the group is clean.

pub(crate) mod advance;
mod backfill;
mod backfill_pages;
mod holders;
mod lost;
mod pipeline;
mod reads;
mod rebuild;
mod recover;
mod recovery;
mod repair;
mod search;
mod service;
mod shard_sends;
mod shard_submits;
mod sources;
mod submit;
mod writes;

pub use backfill::BackfillState;
pub use lost::Probe;
pub(crate) use reads::{read_shards, replace_suspects, rows_read};
pub(crate) use recovery::UnfoundCount;
pub(crate) use repair::{mark_corrupt, remove_superfluous, repair, source_failed};
#[cfg(test)]
pub(crate) use search::EXAMINED_MAX;
pub(crate) use service::{Agreed, Service, Serving, View};
pub(crate) use submit::submit;
pub use writes::{AlsoWritten, Write};
pub(crate) use writes::{handle_replicated, next_version};
