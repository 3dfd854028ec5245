//! Snapshots of each pool whose removal this OSD has learned of.

use bytes::Bytes;
use maps::{OsdMap, SnapIntervals};
use std::collections::BTreeMap;
use types::PoolId;

/// Removed snapshots of each pool, according to the maps so far.
#[derive(Debug, Default)]
pub(crate) struct RemovedSnaps {
    by_pool: BTreeMap<PoolId, SnapIntervals>,
}

impl RemovedSnaps {
    /// Adds the snapshots that a map removes.
    pub fn note(&mut self, map: &OsdMap) {
        self.by_pool.retain(|pool, _| map.pools.contains_key(pool));
        for (pool, removed) in &map.removed_snaps_queue {
            self.by_pool.entry(*pool).or_default().union(removed);
        }
    }

    /// The removed snapshots of a pool; `None` if it never had any.
    pub fn of(&self, pool: PoolId) -> Option<&SnapIntervals> {
        self.by_pool.get(&pool)
    }

    pub(super) fn to_bytes(&self) -> Bytes {
        codec::encode_to_bytes(&self.by_pool)
    }

    /// Empty if the bytes are damaged.
    pub(super) fn from_bytes(bytes: &Bytes) -> Self {
        let by_pool = codec::decode_all("removed snapshots", bytes).unwrap_or_default();
        RemovedSnaps { by_pool }
    }
}
