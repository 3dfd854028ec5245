//! Placement: object -> placement group -> OSDs; all clients and daemons must compute the same.
//!
//! Stages for a placement group: CRUSH gives *raw* devices, upmaps exchange some of them, dropping OSDs
//! that are down gives *up*, and primary affinity selects its primary; a temporary mapping, set while data
//! moves, overrides the result as *acting*.

use super::raw_table::choose;
use super::{OsdMap, RawTable, WEIGHT_IN};
use crate::{Pool, PoolFlags};
use crush::Workspace;
use crush::hash::hash2;
use types::{OsdId, PgId, PoolId};

/// The OSDs of one placement group. Absent members of erasure-coded sets are [`OsdId::NONE`]; replicated
/// sets leave them out.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Mapping {
    /// The up set: OSDs that should hold the data.
    pub up: Vec<OsdId>,
    /// Primary of the up set.
    pub up_primary: Option<OsdId>,
    /// The acting set: OSDs that serve the group now.
    pub acting: Vec<OsdId>,
    /// Primary of the acting set.
    pub acting_primary: Option<OsdId>,
}

/// Maps many placement groups of one map, reusing buffers.
#[derive(Debug)]
pub struct Placement<'a> {
    map: &'a OsdMap,
    /// Weights of all OSDs as input of CRUSH.
    weights: Vec<u32>,
    workspace: Workspace,
}

impl OsdMap {
    /// The placement group of an object, and the hash of the object (carried by `PgId { pool, seed: hash }`
    /// where the protocol needs a raw id). `None` if there is no such pool.
    pub fn object_to_pg(
        &self,
        pool: PoolId,
        namespace: &[u8],
        key: &[u8],
        name: &[u8],
    ) -> Option<(PgId, u32)> {
        let rules = self.pool(pool)?;
        let hash = rules.object_hash(namespace, key, name);
        Some((rules.pg_of_hash(pool, hash), hash))
    }

    /// The placement group of a raw id.
    pub fn raw_pg_to_pg(&self, raw: PgId) -> Option<PgId> {
        Some(self.pool(raw.pool)?.raw_pg_to_pg(raw))
    }

    /// The OSDs of a placement group, given by its own or a raw id. Empty if there is no such pool.
    pub fn pg_to_osds(&self, pg: PgId) -> Mapping {
        self.placement().pg_to_osds(pg)
    }

    /// As [`OsdMap::pg_to_osds`], from a table that was updated to this map.
    pub fn look_up(&self, table: &RawTable, pg: PgId) -> Mapping {
        let Some(pool) = self.pool(pg.pool) else { return Mapping::default() };
        let pg = pool.raw_pg_to_pg(pg);
        let placement = self.decided();
        let raw = placement.exchange(pool, pg, devices(table, pg));
        placement.resolve(pool, pg, raw)
    }

    /// As [`Placement::pg_to_raw`], from a table that was updated to this map.
    pub fn look_up_raw(&self, table: &RawTable, pg: PgId) -> Vec<OsdId> {
        let Some(pool) = self.pool(pg.pool) else { return Vec::new() };
        let pg = pool.raw_pg_to_pg(pg);
        self.decided().exchange(pool, pg, devices(table, pg))
    }

    /// As [`Placement::pg_to_crush`], from a table that was updated to this map.
    pub fn look_up_crush(&self, table: &RawTable, pg: PgId) -> Vec<OsdId> {
        let Some(pool) = self.pool(pg.pool) else { return Vec::new() };
        let mut raw = devices(table, pool.raw_pg_to_pg(pg));
        self.decided().keep(pool, &mut raw, |osd| self.exists(osd));
        raw
    }

    /// A placement that needs no weights, since the table holds CRUSH's results.
    fn decided(&self) -> Placement<'_> {
        Placement { map: self, weights: Vec::new(), workspace: Workspace::default() }
    }

    /// Placement for many groups, with buffers that are used again.
    pub fn placement(&self) -> Placement<'_> {
        let weights = self.osds.iter().map(|osd| osd.weight).collect();
        Placement { map: self, weights, workspace: Workspace::default() }
    }

    /// All placement groups of a pool.
    pub fn pgs(&self, pool: PoolId) -> impl Iterator<Item = PgId> + use<> {
        let pg_num = self.pool(pool).map_or(0, |rules| rules.pg_num);
        (0..pg_num).map(move |seed| PgId { pool, seed })
    }

    fn is_marked_out(&self, id: OsdId) -> bool {
        let slot = usize::try_from(id.0).ok().and_then(|index| self.osds.get(index));
        slot.is_some_and(|osd| osd.weight == 0)
    }
}

/// Exchanges single OSDs of a set where upmap items apply.
pub fn exchange(map: &OsdMap, items: &[(OsdId, OsdId)], raw: &mut [OsdId]) {
    for (from, to) in items {
        let place = raw.iter().position(|osd| osd == from);
        if let (Some(place), false, false) = (place, raw.contains(to), map.is_marked_out(*to)) {
            raw[place] = *to;
        }
    }
}

fn devices(table: &RawTable, pg: PgId) -> Vec<OsdId> {
    table.devices(pg).iter().copied().map(OsdId).collect()
}

impl Placement<'_> {
    /// See [`OsdMap::pg_to_osds`].
    pub fn pg_to_osds(&mut self, pg: PgId) -> Mapping {
        let Some(pool) = self.map.pool(pg.pool) else { return Mapping::default() };
        let pg = pool.raw_pg_to_pg(pg);
        let raw = self.raw(pool, pg);
        self.resolve(pool, pg, raw)
    }

    fn resolve(&self, pool: &Pool, pg: PgId, raw: Vec<OsdId>) -> Mapping {
        let mut up = self.only_up(pool, &raw);
        let up_primary = self.choose_primary(pool, pool.placement_seed(pg), &mut up);
        let (temporary, temporary_primary) = self.temporary(pool, pg);
        let (acting, acting_primary) = match temporary {
            Some(acting) => (acting, temporary_primary),
            None => (up.clone(), temporary_primary.or(up_primary)),
        };
        Mapping { up, up_primary, acting, acting_primary }
    }

    /// OSDs that CRUSH and upmaps choose for a placement group, up or not.
    pub fn pg_to_raw(&mut self, pg: PgId) -> Vec<OsdId> {
        let Some(pool) = self.map.pool(pg.pool) else { return Vec::new() };
        self.raw(pool, pool.raw_pg_to_pg(pg))
    }

    /// OSDs that CRUSH alone chooses for a placement group, without upmaps.
    pub fn pg_to_crush(&mut self, pg: PgId) -> Vec<OsdId> {
        let Some(pool) = self.map.pool(pg.pool) else { return Vec::new() };
        let mut devices = Vec::new();
        let pg = pool.raw_pg_to_pg(pg);
        choose(self.map, &self.weights, pool, pg, &mut self.workspace, &mut devices);
        let mut raw = devices.into_iter().map(OsdId).collect();
        self.keep(pool, &mut raw, |osd| self.map.exists(osd));
        raw
    }

    /// CRUSH's result with upmaps applied, up or not.
    fn raw(&mut self, pool: &Pool, pg: PgId) -> Vec<OsdId> {
        let mut devices = Vec::new();
        choose(self.map, &self.weights, pool, pg, &mut self.workspace, &mut devices);
        self.exchange(pool, pg, devices.into_iter().map(OsdId).collect())
    }

    fn exchange(&self, pool: &Pool, pg: PgId, mut raw: Vec<OsdId>) -> Vec<OsdId> {
        self.keep(pool, &mut raw, |osd| self.map.exists(osd));
        self.apply_upmap(pg, &mut raw);
        raw
    }

    fn only_up(&self, pool: &Pool, raw: &[OsdId]) -> Vec<OsdId> {
        let mut up = raw.to_vec();
        self.keep(pool, &mut up, |osd| self.map.is_up(osd));
        up
    }

    /// Drops OSDs that are not `wanted`, or blanks their places if positions matter.
    fn keep(&self, pool: &Pool, osds: &mut Vec<OsdId>, wanted: impl Fn(OsdId) -> bool) {
        if pool.can_shift_osds() {
            osds.retain(|osd| wanted(*osd));
        } else {
            osds.iter_mut().filter(|osd| !wanted(**osd)).for_each(|osd| *osd = OsdId::NONE);
        }
    }

    fn apply_upmap(&self, pg: PgId, raw: &mut Vec<OsdId>) {
        let map = self.map;
        if let Some(whole) = map.pg_upmap.get(&pg) {
            if whole.iter().any(|osd| map.is_marked_out(*osd)) {
                // The upmap entry is stale; then upmap items do not apply either.
                return;
            }
            raw.clone_from(whole);
        }
        if let Some(items) = map.pg_upmap_items.get(&pg) {
            exchange(map, items, raw);
        }
        if let Some(primary) = map.pg_upmap_primaries.get(&pg) {
            let known = usize::try_from(primary.0).is_ok_and(|index| index < map.osds.len());
            let place = raw.iter().skip(1).position(|osd| osd == primary);
            if let (Some(place), true, false) = (place, known, map.is_marked_out(*primary)) {
                raw.swap(0, place + 1);
            }
        }
    }

    /// The primary of `up`; it moves to the front if positions do not matter.
    fn choose_primary(&self, pool: &Pool, seed: u32, up: &mut [OsdId]) -> Option<OsdId> {
        let place = self.primary_by_affinity(seed, up)?;
        let primary = up[place];
        if pool.can_shift_osds() {
            up[..=place].rotate_right(1);
        }
        Some(primary)
    }

    /// An OSD with affinity below one declines in proportion, by a hash of group and OSD. If all decline,
    /// the first one is primary.
    fn primary_by_affinity(&self, seed: u32, up: &[OsdId]) -> Option<usize> {
        let declines = |osd: OsdId| {
            let affinity = self.map.osd(osd).map_or(WEIGHT_IN, |osd| osd.primary_affinity);
            affinity < WEIGHT_IN && hash2(seed, osd.0 as u32) >> 16 >= affinity
        };
        let present = || up.iter().enumerate().filter(|(_, osd)| **osd != OsdId::NONE);
        let willing = present().find(|(_, osd)| !declines(**osd));
        willing.or_else(|| present().next()).map(|(place, _)| place)
    }

    /// The temporary acting set and primary of a group. A set without any remaining member does not count.
    fn temporary(&self, pool: &Pool, pg: PgId) -> (Option<Vec<OsdId>>, Option<OsdId>) {
        let mut set = self.map.pg_temp.get(&pg).cloned().unwrap_or_default();
        self.keep(pool, &mut set, |osd| self.map.is_up(osd));
        let first = set.iter().copied().find(|osd| *osd != OsdId::NONE);
        let primary = self.map.primary_temp.get(&pg).copied().or(first);
        let acting = (!set.is_empty()).then(|| undo_primaries_first(pool, set));
        (acting, primary)
    }
}

/// Pools with `ec_optimizations` store temporary sets with the shards that may be primary first, so that
/// old clients select one of them. Restores the order of shards.
fn undo_primaries_first(pool: &Pool, set: Vec<OsdId>) -> Vec<OsdId> {
    let size = usize::from(pool.size);
    if !pool.flags.contains(PoolFlags::EC_OPTIMIZATIONS) || set.len() != size {
        return set;
    }
    let (primaries, others) = set.split_at(size.saturating_sub(pool.nonprimary_shard_count()));
    let (mut primaries, mut others) = (primaries.iter(), others.iter());
    (0..size)
        .filter_map(
            |shard| {
                if pool.is_nonprimary_shard(shard) { others.next() } else { primaries.next() }
            },
        )
        .copied()
        .collect()
}
