//! Changes on their way to being held: rows in memory that are not settled, and deltas that become rows.
//!
//! See `docs/internals/erasure-coding.md`.

mod convert;
mod layers;
mod state;
mod store;

pub(crate) use convert::{advance, hold, old_rows_read};
pub(crate) use layers::{Found, Layers};
pub(crate) use state::{Holding, ShardWrite, Unconverted};
pub(crate) use store::{Stored, begin, store, supersede};
