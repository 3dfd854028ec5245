//! Groups of a map.

use maps::OsdMap;
use store::Collection;
use types::{OsdId, PgId, PgShard, PoolId, ShardId};

/// All groups of all pools.
pub fn all_groups(map: &OsdMap) -> Vec<PgId> {
    let of_pool = |pool: PoolId, pg_num: u32| (0..pg_num).map(move |seed| PgId { pool, seed });
    map.pools.iter().flat_map(|(id, pool)| of_pool(*id, pool.pg_num)).collect()
}

/// The acting members of a group, each with the collection of its copy or shard.
pub fn copies(map: &OsdMap, pg: PgId) -> Vec<(OsdId, Collection)> {
    let is_erasure = map.pool(pg.pool).is_some_and(maps::Pool::is_erasure);
    let acting = map.pg_to_osds(pg).acting.into_iter().enumerate();
    let acting = acting.filter(|(_, osd)| *osd != OsdId::NONE);
    let shard = |position: usize| match is_erasure {
        true => ShardId::at(position).expect("codes have few shards"),
        false => ShardId::NONE,
    };
    acting.map(|(at, osd)| (osd, Collection(PgShard { pg, shard: shard(at) }))).collect()
}

/// True if no group is mapped to that OSD.
pub fn is_without(map: &OsdMap, osd: OsdId) -> bool {
    let mut groups = map.pools.keys().flat_map(|pool| map.pgs(*pool));
    groups.all(|pg| {
        let osds = map.pg_to_osds(pg);
        !osds.acting.contains(&osd) && !osds.up.contains(&osd)
    })
}
