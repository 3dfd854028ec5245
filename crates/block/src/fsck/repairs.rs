//! Repairs that a check has planned: changes for the engine, and writes to devices.

use super::pages::PagesInUse;
use super::superblocks::Rewrite;
use crate::device::Extent;
use crate::log::Counters;
use crate::table::Op;

/// Changes of the state, to be committed as one record.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Repairs {
    /// Changes of pairs.
    pub ops: Vec<Op>,
    /// Blocks that are in use and marked as free.
    pub taken: Vec<Extent>,
    /// Blocks that are marked and not in use.
    pub freed: Vec<Extent>,
    /// Correct counters, if the stored ones are wrong. Only `next_id` and `objects` count.
    pub counters: Option<Counters>,
}

impl Repairs {
    /// Set if the engine has nothing to commit.
    pub fn is_empty(&self) -> bool {
        *self == Repairs::default()
    }
}

/// Writes to a store that is not open.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Offline {
    /// Blocks to write again, in this order.
    pub rewrites: Vec<Rewrite>,
    /// Content of a new bitmap of pages.
    pub pages: Option<PagesInUse>,
    /// Correct counters of the checkpoint.
    pub counters: Option<Counters>,
}
