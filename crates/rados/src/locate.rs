//! Placement of operations by an OSD map.

use crate::names::Place;
use maps::{Mapping, OsdMap, OsdMapFlags, Pool, PoolFlags};
use std::collections::BTreeMap;
use std::sync::Arc;
use types::{Epoch, OsdId, PgId};
use wire::op::request_flags;

/// Placement of an operation. If it changes with a new map, the operation is sent again, because the OSDs may
/// have dropped it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    /// The placement group that serves the object.
    pub pg: PgId,
    /// Hash of the object's name, or the position of a listing.
    pub hash: u32,
    /// Number of hash bits that select the group; it changes when the group splits.
    pub hash_bits: u8,
    /// The group's OSDs in the map of the placement.
    pub mapping: Arc<Mapping>,
    /// The pool's `size` and `min_size`. A change of either begins a new interval of the group, which drops
    /// notifications in progress.
    pub sizes: (u8, u8),
    /// Epoch of the pool's last demand to resend all operations (`last_force_op_resend`).
    pub resend_epoch: Epoch,
}

impl Target {
    /// The OSD that serves the group; `None` if there is none.
    pub fn primary(&self) -> Option<OsdId> {
        self.mapping.acting_primary
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Located {
    /// The map has no such pool.
    NoPool,
    /// The pool's data must not be accessed (flag `EIO`).
    PoolError,
    /// Cluster or pool are full or paused, or no OSD serves the placement group.
    Waits,
    At(OsdId, Target),
}

/// Finds the OSDs of placement groups; caches them for one map.
#[derive(Debug, Default)]
pub(crate) struct Locator {
    mappings: BTreeMap<PgId, Arc<Mapping>>,
}

impl Locator {
    /// Clears the cache; called for every new map.
    pub fn forget(&mut self) {
        self.mappings.clear();
    }

    /// `hash` replaces the hash of the object's name in operations on placement groups.
    pub fn locate(
        &mut self,
        map: &OsdMap,
        place: &Place,
        hash: Option<u32>,
        flags: u32,
    ) -> Located {
        let Some(pool) = map.pool(place.pool) else { return Located::NoPool };
        if pool.flags.contains(PoolFlags::EIO) {
            return Located::PoolError;
        }
        if is_paused(map, pool, flags) {
            return Located::Waits;
        }
        let hash =
            hash.unwrap_or_else(|| pool.object_hash(&place.namespace, &place.key, &place.object));
        let pg = pool.pg_of_hash(place.pool, hash);
        let mapping = self.mappings.entry(pg).or_insert_with(|| map.pg_to_osds(pg).into()).clone();
        let (sizes, resend_epoch) = ((pool.size, pool.min_size), pool.last_force_op_resend);
        match mapping.acting_primary {
            Some(osd) if map.is_up(osd) => {
                let hash_bits = maps::stable_bits(pg.seed, pool.pg_num);
                Located::At(osd, Target { pg, hash, hash_bits, mapping, sizes, resend_epoch })
            }
            _ => Located::Waits,
        }
    }
}

fn is_paused(map: &OsdMap, pool: &Pool, flags: u32) -> bool {
    let reads = flags & request_flags::READ != 0;
    let writes = flags & request_flags::WRITE != 0;
    let insists = flags & (request_flags::FULL_TRY | request_flags::FULL_FORCE) != 0;
    let is_full = map.flags.contains(OsdMapFlags::FULL) || pool.flags.contains(PoolFlags::FULL);
    (reads && map.flags.contains(OsdMapFlags::PAUSERD))
        || (writes && map.flags.contains(OsdMapFlags::PAUSEWR))
        || (writes && is_full && !insists)
}
