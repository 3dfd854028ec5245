//! What a request costs in memory, found out before it is allocated.
//!
//! Each run of a request adds up what its operations hold at the same time: what they load (of what is
//! not loaded yet, the most that it can be, or a usual size where nobody knows), answers that are built
//! besides what was loaded, and data that they make. Where the sum exceeds what the caller allows, nothing
//! large is built any more, and the caller is told the sum.

use super::context::{Context, Stop};
use super::{Answer, CopiedObject, Loaded, Need};
use crate::limits;
use bytes::Bytes;
use std::collections::BTreeMap;

/// What a pair, or a key, takes besides its bytes when it is decoded.
pub(super) const ENTRY_COST: u64 = 128;

impl Context<'_> {
    pub(super) fn count(&mut self, bytes: u64) {
        self.cost = self.cost.saturating_add(bytes);
    }

    /// Asked before something large is built.
    pub(super) fn check_allowance(&self) -> Result<(), Stop> {
        if self.cost > self.input.allowance { Err(Stop::Missing) } else { Ok(()) }
    }

    /// An answer that shares the memory of what was loaded: all answers together are copied into one
    /// message, a single one is not.
    pub(super) fn count_shared(&mut self, bytes: u64) {
        if self.input.ops.len() > 1 {
            self.count(bytes);
        }
    }

    /// An answer that is built.
    pub(super) fn count_built(&mut self, bytes: u64) {
        self.count(bytes);
        self.count_shared(bytes);
    }

    /// What a list in an operation's input takes when it is decoded.
    pub(super) fn count_list(&mut self, input: &[u8]) -> Result<(), Stop> {
        let count = input.first_chunk().map_or(0, |count| u32::from_le_bytes(*count));
        self.count((input.len() as u64 / 4).min(count.into()) * ENTRY_COST);
        self.check_allowance()
    }
}

/// The most that a need brings, as far as that is known.
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
    /// What it holds.
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
    /// What it holds so far.
    pub fn bytes(&self) -> u64 {
        let data: u64 = self.data.iter().map(|data| data.len() as u64).sum();
        data + self.omap_header.len() as u64 + pairs_cost(&self.omap) + pairs_cost(&self.xattrs)
    }
}

impl Loaded {
    pub fn cost(&self) -> u64 {
        self.answers().map(Answer::bytes).sum()
    }

    /// What was loaded whose length was known before.
    pub fn bytes(&self) -> u64 {
        let is_exact = |answer: &&Answer| matches!(answer, Answer::Data(_) | Answer::Copied(_));
        self.answers().filter(is_exact).map(Answer::bytes).sum()
    }
}
