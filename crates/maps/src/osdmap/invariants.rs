//! Rules that every OSD map of a monitor satisfies, over all of its fields.

use super::OsdMap;
use crate::Pool;
use std::collections::BTreeSet;
use types::{PgId, PoolId};

/// Panics if the map contradicts itself.
pub(super) fn check(map: &OsdMap) {
    check_pools(map);
    check_temporary_sets(map);
    check_upmaps(map);
    check_snapshots(map);
    map.crush.check_invariants();
    for (id, slot) in (0_i32..).zip(&map.osds) {
        assert!(slot.exists() || !slot.is_up(), "osd.{id} is up and does not exist");
    }
}

/// Panics unless `next` may be the map after `base`.
pub(super) fn check_step(base: &OsdMap, next: &OsdMap) {
    assert_eq!(next.epoch.0, base.epoch.0 + 1, "an incremental leads to the next epoch");
    let (before, now) = (base.pool_max, next.pool_max);
    assert!(now >= before, "epoch {}: pool ids from {now} to {before} are free again", next.epoch);
}

fn check_pools(map: &OsdMap) {
    let ids = |id: &PoolId| format!("pool {id} of epoch {}", map.epoch);
    for id in map.pools.keys() {
        assert!(map.pool_names.contains_key(id), "{} has no name", ids(id));
        assert!(*id <= map.pool_max, "{} is above the highest id, {}", ids(id), map.pool_max);
    }
    let mut names = BTreeSet::new();
    for (id, name) in &map.pool_names {
        assert!(map.pools.contains_key(id), "{} has a name, {name}, and is not there", ids(id));
        assert!(names.insert(name), "{} has the name of another one, {name}", ids(id));
    }
    map.pools.iter().for_each(|(id, pool)| check_pool(&ids(id), pool));
}

fn check_pool(name: &str, pool: &Pool) {
    let (pg_num, pgp_num) = (pool.pg_num, pool.pgp_num);
    assert!(0 < pgp_num && pgp_num <= pg_num, "{name}: pgp_num {pgp_num}, pg_num {pg_num}");
    let pending = pool.pg_num_pending;
    assert!(pending <= pg_num, "{name}: {pending} groups after merging, {pg_num} before");
    assert!(pool.min_size <= pool.size, "{name}: min_size {}, size {}", pool.min_size, pool.size);
}

fn check_temporary_sets(map: &OsdMap) {
    let known = |pg: &PgId| map.pools.contains_key(&pg.pool);
    for (pg, set) in &map.pg_temp {
        assert!(known(pg), "pg_temp of {pg}, whose pool is not there");
        assert!(!set.is_empty(), "pg_temp of {pg} is empty");
    }
    for pg in map.primary_temp.keys() {
        assert!(known(pg), "primary_temp of {pg}, whose pool is not there");
    }
}

fn check_upmaps(map: &OsdMap) {
    let wholes = map.pg_upmap.keys();
    let upmaps = wholes.chain(map.pg_upmap_items.keys()).chain(map.pg_upmap_primaries.keys());
    for pg in upmaps {
        assert!(map.pools.contains_key(&pg.pool), "an upmap of {pg}, whose pool is not there");
    }
}

fn check_snapshots(map: &OsdMap) {
    for (pool, snaps) in &map.new_removed_snaps {
        let mut lost = snaps.clone();
        let kept = [&map.removed_snaps_queue, &map.new_purged_snaps];
        kept.into_iter().filter_map(|sets| sets.get(pool)).for_each(|set| lost.subtract(set));
        assert!(lost.is_empty(), "snapshots {lost} of pool {pool} are removed and in no queue");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PoolType;
    use types::{OsdId, SnapId, Uuid};

    fn map() -> OsdMap {
        let mut map = OsdMap::new(Uuid::default());
        map.pool_max = PoolId(1);
        map.pools.insert(PoolId(1), Pool::new(PoolType::Replicated, 3, 8, 0));
        map.pool_names.insert(PoolId(1), String::from("rbd"));
        map
    }

    fn violates(damage: impl FnOnce(&mut OsdMap)) -> bool {
        let mut map = map();
        check(&map);
        damage(&mut map);
        std::panic::catch_unwind(|| check(&map)).is_err()
    }

    #[test]
    fn a_map_that_contradicts_itself_is_noticed() {
        let gone = PgId { pool: PoolId(2), seed: 0 };
        assert!(violates(|map| drop(map.pool_names.remove(&PoolId(1)))));
        assert!(violates(|map| drop(map.pool_names.insert(PoolId(2), String::from("rbd")))));
        assert!(violates(|map| map.pool_max = PoolId(0)));
        assert!(violates(|map| map.pools.get_mut(&PoolId(1)).unwrap().pgp_num = 9));
        assert!(violates(|map| map.pools.get_mut(&PoolId(1)).unwrap().pgp_num = 0));
        assert!(violates(|map| map.pools.get_mut(&PoolId(1)).unwrap().pg_num_pending = 9));
        assert!(violates(|map| drop(map.pg_temp.insert(gone, vec![OsdId(0)]))));
        assert!(violates(|map| {
            let removed = map.new_removed_snaps.entry(PoolId(1)).or_default();
            removed.insert_interval(SnapId(2), 3);
            map.removed_snaps_queue.insert(PoolId(1), [SnapId(2)].into_iter().collect());
            map.new_purged_snaps.insert(PoolId(1), [SnapId(4)].into_iter().collect());
        }));
        assert!(violates(|map| map.pg_upmap_primaries = [(gone, OsdId(0))].into()));
    }
}
