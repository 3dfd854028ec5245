//! A pool that exceeds its quota and keeps exceeding it.

use super::{Body, World};
use crate::network::NodeId;
use maps::PoolFlags;

impl World {
    /// Panics if a monitor clears the flag without a cause.
    pub(super) fn check_quota(&self, node: NodeId) {
        let Some((pool, since)) = self.over_quota else { return };
        let Body::Monitor(monitor) = &self.nodes[node].body else { return };
        let Some(daemon) = &monitor.hosted.daemon else { return };
        let map = &daemon.state().osdmap;
        let is_lifted = |pool: &maps::Pool| !pool.flags.contains(PoolFlags::FULL_QUOTA);
        let epoch = map.epoch;
        // Some monitors learn of it later than others.
        if epoch < since {
            return;
        }
        assert!(
            !map.pool(pool).is_some_and(is_lifted),
            "epoch {epoch} takes a pool for less than its quota, and nothing was removed from it"
        );
    }
}
