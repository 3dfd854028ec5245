//! Table of CRUSH's results for all placement groups, kept from one map to the next.
//!
//! Most epochs do not change CRUSH's input: OSDs go down and come up, temporary sets come and go, groups
//! are exchanged by upmaps. Most others change the weights of a few OSDs, and with them few groups.
//! [`RawTable::update`] determines these and computes only them.
//!
//! Invariant: after `update(map)` the table holds for every group of `map` the result of
//! [`crush::CrushMap::do_rule`].
//!
//! Memory: four bytes per copy and two per group. The table covers neither upmaps nor the up state of OSDs;
//! [`OsdMap::look_up`] adds them.

use super::OsdMap;
use crate::{Pool, PoolFlags};
use crush::weight::WEIGHT_ONE;
use crush::{CrushMap, ITEM_NONE, Workspace};
use std::collections::BTreeMap;
use std::sync::Arc;
use types::{OsdId, PgId, PoolId};

/// CRUSH's results for all groups of one map. Owned by one engine, and updated with each map.
#[derive(Debug, Default)]
pub struct RawTable {
    crush: Arc<CrushMap>,
    weights: Vec<u32>,
    pools: BTreeMap<PoolId, PoolTable>,
    workspace: Workspace,
    computed: u64,
}

/// Inputs of a pool's placement besides the CRUSH map and weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Shape {
    rule: u32,
    size: u8,
    pg_num: u32,
    pgp_num: u32,
    hashes_pool: bool,
}

#[derive(Debug)]
struct PoolTable {
    shape: Shape,
    /// `size` entries per group; those behind the group's length are unused.
    devices: Vec<i32>,
    lengths: Vec<u8>,
    /// Groups for which CRUSH rejected a device that is out, in part or altogether.
    has_rejected: Vec<bool>,
}

/// Change of weights between two maps.
struct Shift {
    lowered: Vec<bool>,
    has_lowered: bool,
    has_raised: bool,
}

/// CRUSH's result for a placement group.
pub(super) fn choose(
    map: &OsdMap,
    weights: &[u32],
    pool: &Pool,
    pg: PgId,
    workspace: &mut Workspace,
    devices: &mut Vec<i32>,
) {
    map.crush.do_rule_into(
        workspace,
        pool.crush_rule.into(),
        pool.placement_seed(pg),
        pool.size.into(),
        weights,
        map.crush.choose_args_for(pg.pool.0),
        devices,
    );
}

impl RawTable {
    /// Updates the table to this map; returns true if any entry may have changed.
    pub fn update(&mut self, map: &OsdMap) -> bool {
        let weights: Vec<u32> = map.osds.iter().map(|osd| osd.weight).collect();
        let shift = Shift::between(&self.weights, &weights);
        let same_crush = Arc::ptr_eq(&self.crush, &map.crush);
        let old = std::mem::replace(&mut self.crush, Arc::clone(&map.crush));
        self.weights = weights;
        let pools_before = self.pools.len();
        self.pools.retain(|id, _| map.pools.contains_key(id));
        let mut changed = self.pools.len() != pools_before;
        for (id, pool) in &map.pools {
            let shape = Shape::of(pool);
            let known = self.pools.remove(id).filter(|table| table.shape == shape);
            let alike = || same_crush || old.chooses_alike(&map.crush, shape.rule, id.0);
            let table = match known.filter(|_| alike()) {
                Some(mut table) => {
                    changed |= self.adjust(map, *id, pool, &mut table, &shift);
                    table
                }
                None => {
                    changed = true;
                    self.compute_pool(map, *id, pool)
                }
            };
            self.pools.insert(*id, table);
        }
        changed
    }

    /// CRUSH's result for a group; empty if the group does not exist.
    pub fn devices(&self, pg: PgId) -> &[i32] {
        let Some(table) = self.pools.get(&pg.pool) else { return &[] };
        let Some(length) = table.lengths.get(pg.seed as usize) else { return &[] };
        let start = pg.seed as usize * usize::from(table.shape.size);
        &table.devices[start..start + usize::from(*length)]
    }

    /// All groups that CRUSH maps to `osd`.
    pub fn groups_of(&self, osd: OsdId) -> Vec<PgId> {
        let mut groups = Vec::new();
        for (pool, table) in &self.pools {
            let size = usize::from(table.shape.size).max(1);
            let places = table.devices.iter().enumerate();
            let own = places.filter(|(_, device)| **device == osd.0);
            groups.extend(own.map(|(place, _)| PgId { pool: *pool, seed: (place / size) as u32 }));
        }
        groups
    }

    /// Number of CRUSH computations so far.
    pub fn computed(&self) -> u64 {
        self.computed
    }

    /// Memory of the table in bytes.
    pub fn memory(&self) -> usize {
        let of_pool = |table: &PoolTable| 4 * table.devices.len() + 2 * table.lengths.len();
        4 * self.weights.len() + self.pools.values().map(of_pool).sum::<usize>()
    }

    fn compute_pool(&mut self, map: &OsdMap, id: PoolId, pool: &Pool) -> PoolTable {
        let shape = Shape::of(pool);
        let groups = shape.pg_num as usize;
        let mut table = PoolTable {
            shape,
            devices: vec![ITEM_NONE; groups * usize::from(shape.size)],
            lengths: vec![0; groups],
            has_rejected: vec![false; groups],
        };
        for seed in 0..shape.pg_num {
            self.compute(map, PgId { pool: id, seed }, pool, &mut table);
        }
        table
    }

    fn compute(&mut self, map: &OsdMap, pg: PgId, pool: &Pool, table: &mut PoolTable) {
        let (index, size) = (pg.seed as usize, usize::from(table.shape.size));
        let mut devices = Vec::with_capacity(size);
        choose(map, &self.weights, pool, pg, &mut self.workspace, &mut devices);
        devices.truncate(size);
        let start = index * size;
        table.devices[start..start + devices.len()].copy_from_slice(&devices);
        table.devices[start + devices.len()..start + size].fill(ITEM_NONE);
        table.lengths[index] = devices.len() as u8;
        table.has_rejected[index] = self.workspace.has_rejected();
        self.computed += 1;
    }

    /// Computes the groups that a change of weights may affect.
    fn adjust(
        &mut self,
        map: &OsdMap,
        id: PoolId,
        pool: &Pool,
        table: &mut PoolTable,
        shift: &Shift,
    ) -> bool {
        if !shift.has_lowered && !shift.has_raised {
            return false;
        }
        let is_simple = map.crush.rule(table.shape.rule).is_some_and(crush::Rule::is_simple);
        let before = self.computed;
        for seed in 0..table.shape.pg_num {
            if !is_simple || table.is_touched(seed as usize, shift) {
                self.compute(map, PgId { pool: id, seed }, pool, table);
            }
        }
        self.computed != before
    }
}

impl Shape {
    fn of(pool: &Pool) -> Self {
        Shape {
            rule: pool.crush_rule.into(),
            size: pool.size,
            pg_num: pool.pg_num,
            pgp_num: pool.pgp_num,
            hashes_pool: pool.flags.contains(PoolFlags::HASHPSPOOL),
        }
    }
}

impl Shift {
    /// CRUSH treats weights above one as one, and devices without a weight as out.
    fn between(old: &[u32], new: &[u32]) -> Self {
        let weight = |weights: &[u32], device: usize| {
            weights.get(device).copied().unwrap_or(0).min(WEIGHT_ONE)
        };
        let devices = 0..old.len().max(new.len());
        let lowered = devices.clone().map(|device| weight(new, device) < weight(old, device));
        let lowered: Vec<bool> = lowered.collect();
        Shift {
            has_lowered: lowered.contains(&true),
            has_raised: devices.into_iter().any(|d| weight(new, d) > weight(old, d)),
            lowered,
        }
    }
}

impl PoolTable {
    /// Under a simple rule, a device that loses weight affects the groups that contain it, and one that
    /// gains weight those for which CRUSH rejected any device.
    fn is_touched(&self, index: usize, shift: &Shift) -> bool {
        let size = usize::from(self.shape.size);
        let lost = |device: &i32| shift.lowered.get(*device as usize) == Some(&true);
        shift.has_raised && self.has_rejected[index]
            || shift.has_lowered && self.devices[index * size..(index + 1) * size].iter().any(lost)
    }
}
