//! Flags of pools that are over their quotas.

use crate::change::Change;
use crate::state::State;
use crate::statistics::Statistics;
use maps::PoolFlags;
use types::PoolId;

/// Sets the flags of pools over their quotas, and clears them when usage is below again.
pub(super) fn plan(state: &State, stats: &Statistics, change: &mut Change) {
    let quota_flags = PoolFlags::FULL_QUOTA | PoolFlags::FULL;
    let map = &state.osdmap;
    let changed: Vec<(PoolId, bool)> = map
        .pools
        .iter()
        .filter(|(_, pool)| {
            pool.quota_max_bytes > 0
                || pool.quota_max_objects > 0
                || pool.flags.contains(PoolFlags::FULL_QUOTA)
        })
        .filter_map(|(id, pool)| {
            let totals = stats.pool_totals(*id);
            let over = |limit: u64, used: u64| limit > 0 && used >= limit;
            let is_over = over(pool.quota_max_bytes, totals.bytes)
                || over(pool.quota_max_objects, totals.objects);
            let was_over = pool.flags.contains(PoolFlags::FULL_QUOTA);
            // Partial reports are lower bounds: enough to set the flag, but not to clear it.
            let has_quota = pool.quota_max_bytes > 0 || pool.quota_max_objects > 0;
            let is_certain = is_over || !has_quota || stats.knows_pool(map, *id);
            (is_over != was_over && is_certain).then_some((*id, is_over))
        })
        .collect();
    for (id, is_over) in changed {
        if let Some(pool) = change.pool(state, id) {
            pool.flags.set(quota_flags, is_over);
        }
    }
}
