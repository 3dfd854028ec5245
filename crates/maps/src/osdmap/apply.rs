//! Application of an incremental to the map of the epoch before.

use super::encode::{canonical_features, checksum};
use super::invariants;
use super::{Incremental, Osd, OsdMap, OsdMapFlags, OsdState, WEIGHT_IN};
use crate::Release;
use codec::{DecodeError, decode_all};
use std::collections::BTreeMap;
use std::sync::Arc;
use thiserror::Error;
use types::{EntityAddrVec, Epoch, OsdId, PoolId, Uuid};

/// Upper bound of OSD slots in a map; bounds the memory that one small incremental can allocate.
const OSDS_MAX: i32 = 1 << 16;

/// Reason why an incremental does not fit a map. The map is unchanged.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ApplyError {
    /// The incremental belongs to another cluster.
    #[error("increment is of cluster {found}, the map of {expected}")]
    Fsid {
        /// Cluster of the incremental.
        found: Uuid,
        /// Cluster of the map.
        expected: Uuid,
    },
    /// The incremental does not lead to the next epoch.
    #[error("increment leads to epoch {found}, the map is at {current}")]
    Epoch {
        /// Epoch of the incremental.
        found: Epoch,
        /// Epoch of the map.
        current: Epoch,
    },
    /// The number of OSD slots is negative or above the bound.
    #[error("max_osd {0} is not between 0 and the limit {OSDS_MAX}")]
    MaxOsd(i32),
    /// A change of an OSD that has no slot.
    #[error("osd.{0} has no slot in the map")]
    NoSuchOsd(OsdId),
    /// An OSD is marked up without heartbeat addresses.
    #[error("osd.{0} comes up without heartbeat addresses")]
    NoHeartbeatAddrs(OsdId),
    /// Snapshots are purged that are not in the queue of removed ones.
    #[error("snapshots of pool {0} were purged that were not removed")]
    NotRemoved(PoolId),
    /// The full map in the incremental does not decode.
    #[error("the full map in the increment does not decode")]
    FullMap(#[from] DecodeError),
}

/// Makes this the map of the next epoch. A failed incremental changes nothing.
pub(super) fn apply(map: &mut OsdMap, inc: &Incremental) -> Result<(), ApplyError> {
    if inc.epoch != Epoch(1) && inc.fsid != map.fsid {
        return Err(ApplyError::Fsid { found: inc.fsid, expected: map.fsid });
    }
    if Some(inc.epoch.0) != map.epoch.0.checked_add(1) {
        return Err(ApplyError::Epoch { found: inc.epoch, current: map.epoch });
    }
    if let Some(full) = &inc.fullmap {
        let full: OsdMap = decode_all("osdmap", full)?;
        if full.fsid != inc.fsid {
            return Err(ApplyError::Fsid { found: full.fsid, expected: inc.fsid });
        }
        if full.epoch != inc.epoch {
            return Err(ApplyError::Epoch { found: full.epoch, current: map.epoch });
        }
        *map = full;
        return Ok(());
    }
    check(map, inc)?;
    map.fsid = inc.fsid;
    map.epoch = inc.epoch;
    map.modified = inc.modified;
    apply_flags(map, inc);
    apply_max_osd(map, inc);
    apply_pools(map, inc);
    apply_snaps(map, inc);
    apply_osds(map, inc);
    apply_mappings(map, inc);
    apply_blocklist(map, inc);
    apply_node_flags(map, inc);
    apply_settings(map, inc);
    apply_crush(map, inc);
    Ok(())
}

fn check(map: &OsdMap, inc: &Incremental) -> Result<(), ApplyError> {
    let max_osd = inc.new_max_osd.unwrap_or(map.max_osd());
    if !(0..=OSDS_MAX).contains(&max_osd) {
        return Err(ApplyError::MaxOsd(max_osd));
    }
    let slots = OsdId(0)..OsdId(max_osd);
    if let Some(osd) = inc.osds().find(|osd| !slots.contains(osd)) {
        return Err(ApplyError::NoSuchOsd(osd));
    }
    let heartbeats = [&inc.new_heartbeat_back_up, &inc.new_heartbeat_front_up];
    let reachable = |osd: &&OsdId| heartbeats.iter().all(|addrs| addrs.contains_key(*osd));
    if let Some(osd) = inc.new_up_client.keys().find(|osd| !reachable(osd)) {
        return Err(ApplyError::NoHeartbeatAddrs(*osd));
    }
    let removed = |pool: &&PoolId| {
        map.removed_snaps_queue.contains_key(*pool) || inc.new_removed_snaps.contains_key(*pool)
    };
    match inc.new_purged_snaps.keys().find(|pool| !removed(pool)) {
        Some(pool) => Err(ApplyError::NotRemoved(*pool)),
        None => Ok(()),
    }
}

fn apply_flags(map: &mut OsdMap, inc: &Incremental) {
    let Some(flags) = inc.new_flags else { return };
    map.flags = flags;
    if flags.contains(OsdMapFlags::REQUIRE_KRAKEN) {
        map.require_osd_release = map.require_osd_release.max(Release::KRAKEN);
    } else if flags.contains(OsdMapFlags::REQUIRE_JEWEL) {
        map.require_osd_release = map.require_osd_release.max(Release::JEWEL);
    }
}

fn apply_max_osd(map: &mut OsdMap, inc: &Incremental) {
    if let Some(max_osd) = inc.new_max_osd {
        map.osds.resize_with(max_osd as usize, Osd::default);
    }
    if let Some(pool_max) = inc.new_pool_max {
        map.pool_max = pool_max;
    }
}

fn apply_pools(map: &mut OsdMap, inc: &Incremental) {
    for (id, pool) in &inc.new_pools {
        let mut pool = pool.clone();
        pool.last_change = map.epoch;
        map.pools.insert(*id, pool);
    }
    map.pool_names.extend(inc.new_pool_names.clone());
    for id in &inc.old_pools {
        map.pools.remove(id);
        map.pool_names.remove(id);
    }
    for name in &inc.old_erasure_code_profiles {
        map.erasure_code_profiles.remove(name);
    }
    map.erasure_code_profiles.extend(inc.new_erasure_code_profiles.clone());
}

fn apply_snaps(map: &mut OsdMap, inc: &Incremental) {
    map.new_removed_snaps = inc.new_removed_snaps.clone();
    map.new_purged_snaps = inc.new_purged_snaps.clone();
    for (pool, snaps) in &inc.new_removed_snaps {
        map.removed_snaps_queue.entry(*pool).or_default().union(snaps);
    }
    for (pool, snaps) in &inc.new_purged_snaps {
        let queue = map.removed_snaps_queue.entry(*pool).or_default();
        queue.subtract(snaps);
        if queue.is_empty() {
            map.removed_snaps_queue.remove(pool);
        }
    }
}

/// The slot of an OSD; `check` has verified that it exists.
fn slot<'a>(map: &'a mut OsdMap, osd: &OsdId) -> &'a mut Osd {
    &mut map.osds[osd.0 as usize]
}

fn apply_osds(map: &mut OsdMap, inc: &Incremental) {
    for (osd, weight) in &inc.new_weight {
        let slot = slot(map, osd);
        slot.weight = *weight;
        if *weight != 0 {
            slot.state.insert(OsdState::EXISTS);
            slot.state.remove(OsdState::AUTOOUT | OsdState::NEW);
            slot.xinfo.old_weight = 0;
        }
    }
    for (osd, affinity) in &inc.new_primary_affinity {
        slot(map, osd).primary_affinity = *affinity;
    }
    for (osd, flips) in &inc.new_state {
        apply_state(map, osd, *flips);
    }
    for (osd, addrs) in &inc.new_up_client {
        apply_up(map, osd, addrs, inc);
    }
    inc.new_up_cluster.iter().for_each(|(osd, a)| slot(map, osd).cluster_addrs = a.clone());
    inc.new_up_thru.iter().for_each(|(osd, epoch)| slot(map, osd).info.up_thru = *epoch);
    for (osd, (begin, end)) in &inc.new_last_clean_interval {
        let info = &mut slot(map, osd).info;
        (info.last_clean_begin, info.last_clean_end) = (*begin, *end);
    }
    inc.new_lost.iter().for_each(|(osd, epoch)| slot(map, osd).info.lost_at = *epoch);
    inc.new_xinfo.iter().for_each(|(osd, xinfo)| slot(map, osd).xinfo = *xinfo);
    inc.new_uuid.iter().for_each(|(osd, uuid)| slot(map, osd).uuid = *uuid);
}

fn apply_state(map: &mut OsdMap, osd: &OsdId, flips: OsdState) {
    let (epoch, modified) = (map.epoch, map.modified);
    let flips = if flips.is_empty() { OsdState::UP } else { flips };
    let slot = slot(map, osd);
    if slot.state.contains(OsdState::UP) && flips.contains(OsdState::UP) {
        slot.info.down_at = epoch;
        slot.xinfo.down_stamp = modified;
    }
    if slot.state.contains(OsdState::EXISTS) && flips.contains(OsdState::EXISTS) {
        // The OSD is removed; only its weight stays.
        *slot = Osd { weight: slot.weight, primary_affinity: WEIGHT_IN, ..Osd::default() };
    } else {
        slot.state.0 ^= flips.0;
    }
}

fn apply_up(map: &mut OsdMap, osd: &OsdId, addrs: &EntityAddrVec, inc: &Incremental) {
    let epoch = map.epoch;
    let slot = slot(map, osd);
    slot.state.insert(OsdState::EXISTS | OsdState::UP);
    slot.state.remove(OsdState::STOP);
    slot.client_addrs = addrs.clone();
    slot.heartbeat_back_addrs = inc.new_heartbeat_back_up[osd].clone();
    slot.heartbeat_front_addrs = inc.new_heartbeat_front_up[osd].clone();
    slot.info.up_from = epoch;
}

fn apply_mappings(map: &mut OsdMap, inc: &Incremental) {
    for (pg, osds) in &inc.new_pg_temp {
        match osds.is_empty() {
            true => map.pg_temp.remove(pg),
            false => map.pg_temp.insert(*pg, osds.clone()),
        };
    }
    for (pg, osd) in &inc.new_primary_temp {
        match osd.0 {
            -1 => map.primary_temp.remove(pg),
            _ => map.primary_temp.insert(*pg, *osd),
        };
    }
    map.pg_upmap.extend(inc.new_pg_upmap.clone());
    map.pg_upmap.retain(|pg, _| !inc.old_pg_upmap.contains(pg));
    map.pg_upmap_items.extend(inc.new_pg_upmap_items.clone());
    map.pg_upmap_items.retain(|pg, _| !inc.old_pg_upmap_items.contains(pg));
    map.pg_upmap_primaries.extend(inc.new_pg_upmap_primaries.clone());
    map.pg_upmap_primaries.retain(|pg, _| !inc.old_pg_upmap_primaries.contains(pg));
}

/// An address that is listed already keeps its expiry time.
fn apply_blocklist(map: &mut OsdMap, inc: &Incremental) {
    for (addr, until) in &inc.new_blocklist {
        map.blocklist.entry(*addr).or_insert(*until);
    }
    map.blocklist.retain(|addr, _| !inc.old_blocklist.contains(addr));
    for (addr, until) in &inc.new_range_blocklist {
        map.range_blocklist.entry(*addr).or_insert(*until);
    }
    map.range_blocklist.retain(|addr, _| !inc.old_range_blocklist.contains(addr));
}

fn apply_node_flags(map: &mut OsdMap, inc: &Incremental) {
    set_or_remove(&mut map.crush_node_flags, &inc.new_crush_node_flags);
    set_or_remove(&mut map.device_class_flags, &inc.new_device_class_flags);
}

fn apply_settings(map: &mut OsdMap, inc: &Incremental) {
    map.cluster_snapshot = inc.cluster_snapshot.clone();
    let snapshot = !inc.cluster_snapshot.is_empty();
    map.cluster_snapshot_epoch = if snapshot { inc.epoch } else { Epoch(0) };
    map.nearfull_ratio = inc.new_nearfull_ratio.unwrap_or(map.nearfull_ratio);
    map.backfillfull_ratio = inc.new_backfillfull_ratio.unwrap_or(map.backfillfull_ratio);
    map.full_ratio = inc.new_full_ratio.unwrap_or(map.full_ratio);
    let compat = inc.new_require_min_compat_client.filter(|r| *r > Release::UNKNOWN);
    map.require_min_compat_client = compat.unwrap_or(map.require_min_compat_client);
    if let Some(release) = inc.new_require_osd_release {
        map.require_osd_release = release;
        map.settle_flags();
    }
    map.last_up_change = inc.new_last_up_change.unwrap_or(map.last_up_change);
    map.last_in_change = inc.new_last_in_change.unwrap_or(map.last_in_change);
    map.stretch = inc.new_stretch.unwrap_or(map.stretch);
    map.allow_crimson = inc.new_allow_crimson.unwrap_or(map.allow_crimson);
}

fn apply_crush(map: &mut OsdMap, inc: &Incremental) {
    let Some(crush) = &inc.crush else { return };
    map.crush = Arc::clone(crush);
    if map.require_osd_release >= Release::LUMINOUS {
        map.crush_version = map.crush_version.wrapping_add(1);
    }
    map.device_class_flags.retain(|class, _| crush.class_name(*class).is_some());
}

fn set_or_remove(flags: &mut BTreeMap<i32, OsdState>, changes: &BTreeMap<i32, OsdState>) {
    for (id, new) in changes {
        match new.is_empty() {
            true => flags.remove(id),
            false => flags.insert(*id, *new),
        };
    }
}

/// Sets the fields that depend on the result, and returns the result: the map of the new epoch.
pub(super) fn seal(inc: &mut Incremental, base: &OsdMap) -> Result<OsdMap, ApplyError> {
    let mut next = base.clone();
    apply(&mut next, inc)?;
    invariants::check_step(base, &next);
    inc.encode_features = canonical_features(&next);
    inc.full_crc = checksum(&next);
    Ok(next)
}
