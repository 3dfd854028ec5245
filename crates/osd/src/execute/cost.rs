//! The memory that a request needs, determined before it is allocated.
//!
//! Each run of a request adds up what its operations hold at the same time: loaded state (before it
//! is loaded, the maximum, or a usual size where the maximum is not known), outputs that are built
//! besides loaded state, and data that operations generate. If the sum exceeds the allowance, no
//! large output is built any more, and the caller gets the sum.

use super::context::{Context, Stop};
use super::view::ENTRY_COST;

impl Context<'_> {
    /// Adds memory in bytes.
    pub(super) fn count(&mut self, bytes: u64) {
        self.cost = self.cost.saturating_add(bytes);
    }

    /// Must be called before anything large is built.
    pub(super) fn check_allowance(&self) -> Result<(), Stop> {
        if self.cost > self.input.allowance { Err(Stop::Missing) } else { Ok(()) }
    }

    /// Counts an output that shares memory with loaded state: several outputs are copied into one
    /// message, a single one is not.
    pub(super) fn count_shared(&mut self, bytes: u64) {
        if self.input.ops.len() > 1 {
            self.count(bytes);
        }
    }

    /// Counts an output that is built.
    pub(super) fn count_built(&mut self, bytes: u64) {
        self.count(bytes);
        self.count_shared(bytes);
    }

    /// Counts a list in an operation's input, which takes memory when it is decoded.
    pub(super) fn count_list(&mut self, input: &[u8]) -> Result<(), Stop> {
        let count = input.first_chunk().map_or(0, |count| u32::from_le_bytes(*count));
        self.count((input.len() as u64 / 4).min(count.into()) * ENTRY_COST);
        self.check_allowance()
    }
}
