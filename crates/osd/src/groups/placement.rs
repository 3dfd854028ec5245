//! The effect of a new map on the groups of this OSD.

use crate::env::Env;
use crate::groups::Groups;
use crate::groups::split_merge::is_merged_here;
use crate::leases::Leases;
use maps::{OsdMap, stable_bits};
use pg::{ErasureCode, ErasureLayout, Layout, MapChange, Members, OsdStatus, Osds, Pg};
use types::{Epoch, OsdId, PgId, PgShard, ShardId};

impl Groups {
    /// The groups that the map no longer has, unless they are merged into others. The stored state of a group
    /// may be ahead of the stored map.
    pub fn deleted(&self, map: &OsdMap) -> Vec<PgShard> {
        let is_deleted =
            |pg: PgShard| map.pool(pg.pg.pool).is_none_or(|pool| pg.pg.seed >= pool.pg_num);
        let deleted = self.iter().filter(|(pg, group)| {
            is_deleted(*pg) && group.pg.interval() <= map.epoch && !is_merged_here(self, map, *pg)
        });
        deleted.map(|(pg, _)| pg).collect()
    }

    /// Tells a group its members under a new map; creates the group if there is none. Returns whether it must
    /// store an interval that begins with that map.
    pub fn place(
        &mut self,
        env: &Env,
        leases: &Leases,
        has_space: bool,
        pg: PgShard,
        change: &MapChange,
        members: Members,
    ) -> bool {
        let whoami = env.whoami();
        if self.get(pg).is_none() {
            self.add(Pg::new(pg, whoami).with_sizes(env.config.sizes.groups));
        }
        let group = self.get_mut(pg).expect("it was there, or was just added");
        group.pg.set_has_space(has_space);
        group.tell_time(leases, env.now);
        let was_primary = group.pg.is_primary();
        let was_due = group.pg.is_store_due();
        group.pg.handle_map(change, members);
        if !group.pg.is_primary() {
            // No replica has the order, and it must not be repeated if this OSD becomes primary again.
            group.scrub.forget_order();
        }
        if group.pg.is_primary() && !was_primary {
            // A primary that has just restarted may have been primary for clients since its `up_from`. A copy
            // that is new although no map was skipped, as that of another shard, was primary for none: what
            // clients sent before its first map they send again, behind what an earlier primary has dropped.
            let up_from = group.pg.members().acting.iter().position(|osd| *osd == whoami);
            let up_from = up_from.map(|index| group.pg.members().up_from[index]);
            let first = group.primary_since.is_none() && change.is_gap;
            group.primary_since = if first { up_from } else { Some(change.epoch) };
        }
        group.pg.is_store_due() && !was_due
    }

    /// Tells groups whether they are about to be merged. Returns those that resume service because they are
    /// not any more.
    pub fn announce_merges(&mut self, map: &OsdMap) -> Vec<PgShard> {
        let mut resumed = Vec::new();
        for (pg, group) in self.iter_mut() {
            let is_merging = map.pool(pg.pg.pool).is_some_and(|pool| pool.is_merging(pg.pg.seed));
            if group.premerge.announce(is_merging, &mut group.pg) {
                resumed.push(pg);
            }
        }
        resumed
    }
}

/// The layout of a pool's groups. Fails if this version does not compute the code of its profile.
pub(crate) fn layout(map: &OsdMap, pool: &maps::Pool) -> Result<Layout, maps::ErasureCodeError> {
    if pool.is_replicated() {
        return Ok(Layout::Replicated);
    }
    let maps::ErasureCode { data, parity, technique, stripe_unit } =
        maps::ErasureCode::of_pool(map, pool)?;
    let code = ErasureCode::of(technique);
    Ok(Layout::Erasure(ErasureLayout { data, parity, unit: stripe_unit, code }))
}

/// The copies of a group that a mapping gives to an OSD: in an erasure-coded pool, a shard for each position
/// that it has in the up or acting set.
pub(crate) fn copies_of(
    pool: &maps::Pool,
    pg: PgId,
    mapping: &maps::Mapping,
    own: OsdId,
) -> Vec<PgShard> {
    let sets = [&mapping.up, &mapping.acting];
    if pool.is_replicated() {
        let is_member = sets.iter().any(|osds| osds.contains(&own));
        return Vec::from_iter(is_member.then(|| PgShard::replicated(pg)));
    }
    let is_at = |position: &usize| sets.iter().any(|osds| osds.get(*position) == Some(&own));
    let positions = (0..pool.size.into()).filter(is_at).filter_map(ShardId::at);
    positions.map(|shard| PgShard { pg, shard }).collect()
}

/// The members of a group whose pool and mapping are known.
pub(crate) fn members(
    map: &OsdMap,
    pg: PgId,
    pool: &maps::Pool,
    layout: Layout,
    mapping: maps::Mapping,
) -> Members {
    let up_from = |osd: &OsdId| map.osd(*osd).map_or(Epoch(0), |osd| osd.info.up_from);
    Members {
        up_from: mapping.acting.iter().map(up_from).collect(),
        up: mapping.up,
        acting: mapping.acting,
        primary: mapping.acting_primary,
        size: pool.size.into(),
        min_size: pool.min_size.into(),
        hash_bits: stable_bits(pg.seed, pool.pg_num),
        layout,
    }
}

/// The state of all OSDs, as groups see it.
pub(crate) fn statuses(map: &OsdMap) -> Osds {
    let status = |osd: &maps::Osd| OsdStatus {
        exists: true,
        is_up: osd.is_up(),
        up_from: osd.info.up_from,
        up_thru: osd.info.up_thru,
        down_at: osd.info.down_at,
        down_stamp: osd.xinfo.down_stamp,
        lost_at: osd.info.lost_at,
        dead_epoch: osd.xinfo.dead_epoch,
    };
    map.existing_osds().map(|(id, osd)| (id, status(osd))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session_tests::lone::config;

    /// A copy of a shard whose first map, of epoch 20, makes this OSD the primary; it is up since epoch 3.
    fn primary_since(is_gap: bool) -> Option<Epoch> {
        let env = Env::new(config(true));
        let own = env.whoami();
        let shard = ShardId::at(1).expect("a shard");
        let pg = PgShard { pg: PgId { pool: types::PoolId(1), seed: 0 }, shard };
        let acting = vec![OsdId::NONE, own, OsdId(8)];
        let code = ErasureCode::IsaVandermonde;
        let layout = Layout::Erasure(ErasureLayout { data: 2, parity: 1, unit: 4096, code });
        let members = Members { up: acting.clone(), acting, ..Members::default() };
        let members = Members { up_from: vec![Epoch(3); 3], primary: Some(own), layout, ..members };
        let osds = Default::default();
        let change = MapChange { epoch: Epoch(20), osds, is_up: true, is_gap, is_new: false };
        let mut groups = Groups::default();
        groups.place(&env, &Leases::default(), true, pg, &change, members);
        groups.get(pg).expect("it was just placed").primary_since
    }

    #[test]
    fn a_copy_of_another_shard_takes_no_requests_that_an_earlier_primary_was_sent() {
        assert_eq!(primary_since(false), Some(Epoch(20)));
    }

    #[test]
    fn an_osd_that_has_skipped_maps_takes_requests_since_it_is_up() {
        assert_eq!(primary_since(true), Some(Epoch(3)));
    }
}
