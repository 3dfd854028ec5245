//! The latest map increments as received, for clients that are behind.

use bytes::Bytes;
use std::collections::BTreeMap;
use types::Epoch;

/// Increments that are kept; a client that is further behind gets the full map.
const INCREMENTS_MAX: usize = 200;

/// The latest increments, by the epoch that each leads to.
#[derive(Debug, Default)]
pub(crate) struct MapsHistory {
    increments: BTreeMap<Epoch, Bytes>,
}

impl MapsHistory {
    /// Adds an increment in its encoded form.
    pub fn push(&mut self, epoch: Epoch, encoded: Bytes) {
        self.increments.insert(epoch, encoded);
        while self.increments.len() > INCREMENTS_MAX {
            self.increments.pop_first();
        }
    }

    /// The oldest epoch of an increment that is kept.
    pub fn oldest(&self) -> Option<Epoch> {
        self.increments.first_key_value().map(|(epoch, _)| *epoch)
    }

    /// Forgets all increments, after a full map replaced the known one.
    pub fn clear(&mut self) {
        self.increments.clear();
    }

    /// The increments that lead from `from` to `to`, encoded for a reader with `features`; `None`
    /// if not all of them are kept.
    pub fn range(&self, from: Epoch, to: Epoch, features: u64) -> Option<BTreeMap<Epoch, Bytes>> {
        let mut increments = BTreeMap::new();
        let mut epoch = from.next();
        while epoch <= to {
            let encoded = self.increments.get(&epoch)?;
            increments.insert(epoch, maps::reencode_incremental(encoded, features).ok()?);
            epoch = epoch.next();
        }
        Some(increments)
    }
}
