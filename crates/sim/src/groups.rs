//! Groups of a map.

use maps::OsdMap;
use types::{OsdId, PgId, PoolId};

/// All groups of all pools.
pub fn all_groups(map: &OsdMap) -> Vec<PgId> {
    let of_pool = |pool: PoolId, pg_num: u32| (0..pg_num).map(move |seed| PgId { pool, seed });
    map.pools.iter().flat_map(|(id, pool)| of_pool(*id, pool.pg_num)).collect()
}

/// True if no group is mapped to that OSD.
pub fn is_without(map: &OsdMap, osd: OsdId) -> bool {
    let mut groups = map.pools.keys().flat_map(|pool| map.pgs(*pool));
    groups.all(|pg| {
        let osds = map.pg_to_osds(pg);
        !osds.acting.contains(&osd) && !osds.up.contains(&osd)
    })
}
