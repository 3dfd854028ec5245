//! Snapshots of each pool whose removal this OSD has learned of.

use super::Maps;
use maps::{OsdMap, SnapIntervals};
use std::collections::BTreeMap;
use types::PoolId;

/// Adds the snapshots that a map removes to those known as removed.
pub(super) fn note_removed(gone: &mut BTreeMap<PoolId, SnapIntervals>, map: &OsdMap) {
    gone.retain(|pool, _| map.pools.contains_key(pool));
    for (pool, removed) in &map.removed_snaps_queue {
        gone.entry(*pool).or_default().union(removed);
    }
}

impl Maps {
    /// Adds those that the newest map removes.
    pub fn note_removed_snaps(&mut self) {
        note_removed(&mut self.removed_snaps, &self.map);
    }

    /// The removed snapshots of a pool; `None` if it never had any.
    pub fn removed_snaps(&self, pool: PoolId) -> Option<&SnapIntervals> {
        self.removed_snaps.get(&pool)
    }
}
