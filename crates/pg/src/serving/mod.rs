//! The work of an activated primary: writes, recovery, backfill, repair, until the group is clean.

mod backfill;
mod backfill_pages;
mod holders;
mod lost;
mod recover;
mod recovery;
mod repair;
mod search;
mod service;
mod writes;

pub use backfill::BackfillState;
pub use lost::Probe;
pub(crate) use recovery::UnfoundCount;
pub(crate) use repair::{mark_corrupt, remove_superfluous, repair, source_failed};
#[cfg(test)]
pub(crate) use search::EXAMINED_MAX;
pub(crate) use service::{Agreed, Service, Serving, View};
pub use writes::{AlsoWritten, Write};
pub(crate) use writes::{handle_replicated, next_version, submit};
