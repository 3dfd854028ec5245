//! The memory that a request needs, determined before it is allocated.
//!
//! Each run of a request adds up what its operations hold at the same time: loaded state (before it
//! is loaded, the maximum, or a usual size where the maximum is not known), outputs that are built
//! besides loaded state, and data that operations generate. If the sum exceeds the allowance, no
//! large output is built any more, and the caller gets the sum.

use super::context::{Context, Stop};
use super::{Answer, CopiedObject, Loaded, Need};
use crate::limits;
use bytes::Bytes;
use std::collections::BTreeMap;

/// Bytes that a decoded pair or key takes besides its content.
pub(super) const ENTRY_COST: u64 = 128;

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

/// The maximum or usual size of a need, in bytes.
pub(super) fn estimate(need: &Need) -> u64 {
    match need {
        Need::Data { length, .. } => *length,
        Need::OmapHeader => limits::OMAP_VALUE_USUAL,
        Need::OmapGet { keys } => keys.len() as u64 * limits::OMAP_VALUE_USUAL,
        Need::OmapList { entries_max, bytes_max, .. } => {
            *bytes_max as u64 + *entries_max as u64 * ENTRY_COST
        }
        Need::Copy(_) => limits::COPY_CHUNK_MAX,
        Need::Clone(_) => 0,
    }
}

pub(super) fn pairs_cost(pairs: &BTreeMap<Bytes, Bytes>) -> u64 {
    pairs.iter().map(|(key, value)| (key.len() + value.len()) as u64 + ENTRY_COST).sum()
}

impl Answer {
    /// Bytes that it holds.
    pub fn bytes(&self) -> u64 {
        match self {
            Answer::Data(read) => read.data.len() as u64,
            Answer::OmapHeader(header) => header.len() as u64,
            Answer::OmapPairs(pairs) => pairs_cost(pairs),
            Answer::OmapPage(page) => pairs_cost(&page.pairs),
            Answer::Copied(copied) => copied.bytes(),
            Answer::Clone(_) | Answer::Failed(_) => 0,
        }
    }
}

impl CopiedObject {
    /// Bytes that it holds so far.
    pub fn bytes(&self) -> u64 {
        let data: u64 = self.data.iter().map(|data| data.len() as u64).sum();
        data + self.omap_header.len() as u64 + pairs_cost(&self.omap) + pairs_cost(&self.xattrs)
    }
}

impl Loaded {
    /// Bytes of all answers.
    pub fn cost(&self) -> u64 {
        self.answers().map(Answer::bytes).sum()
    }

    /// Bytes of the answers whose length was known before they were loaded.
    pub fn bytes(&self) -> u64 {
        let is_exact = |answer: &&Answer| matches!(answer, Answer::Data(_) | Answer::Copied(_));
        self.answers().filter(is_exact).map(Answer::bytes).sum()
    }
}
