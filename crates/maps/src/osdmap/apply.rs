//! Application of an incremental to the map of the epoch before.

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
    #[error("increment is of cluster {found}, the map of {expected}")]
    Fsid { found: Uuid, expected: Uuid },
    #[error("increment leads to epoch {found}, the map is at {current}")]
    Epoch { found: Epoch, current: Epoch },
    #[error("max_osd {0} exceeds the limit {OSDS_MAX}")]
    MaxOsd(i32),
    #[error("osd.{0} has no slot in the map")]
    NoSuchOsd(OsdId),
    #[error("osd.{0} comes up without heartbeat addresses")]
    NoHeartbeatAddrs(OsdId),
    #[error("snapshots of pool {0} were purged that were not removed")]
    NotRemoved(PoolId),
    #[error("the full map in the increment does not decode")]
    FullMap(#[from] DecodeError),
}

impl OsdMap {
    /// Makes this the map of the next epoch. A failed incremental changes nothing.
    pub fn apply(&mut self, inc: &Incremental) -> Result<(), ApplyError> {
        if inc.epoch != Epoch(1) && inc.fsid != self.fsid {
            return Err(ApplyError::Fsid { found: inc.fsid, expected: self.fsid });
        }
        if Some(inc.epoch.0) != self.epoch.0.checked_add(1) {
            return Err(ApplyError::Epoch { found: inc.epoch, current: self.epoch });
        }
        if let Some(full) = &inc.fullmap {
            *self = decode_all("osdmap", full)?;
            return Ok(());
        }
        self.check(inc)?;
        self.fsid = inc.fsid;
        self.epoch = inc.epoch;
        self.modified = inc.modified;
        self.apply_flags(inc);
        self.apply_max_osd(inc);
        self.apply_pools(inc);
        self.apply_snaps(inc);
        self.apply_osds(inc);
        self.apply_mappings(inc);
        self.apply_blocklist(inc);
        self.apply_node_flags(inc);
        self.apply_settings(inc);
        self.apply_crush(inc);
        Ok(())
    }

    fn check(&self, inc: &Incremental) -> Result<(), ApplyError> {
        let max_osd = inc.new_max_osd.unwrap_or(self.max_osd());
        if max_osd > OSDS_MAX {
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
            self.removed_snaps_queue.contains_key(*pool)
                || inc.new_removed_snaps.contains_key(*pool)
        };
        match inc.new_purged_snaps.keys().find(|pool| !removed(pool)) {
            Some(pool) => Err(ApplyError::NotRemoved(*pool)),
            None => Ok(()),
        }
    }

    fn apply_flags(&mut self, inc: &Incremental) {
        let Some(flags) = inc.new_flags else { return };
        self.flags = flags;
        if flags.contains(OsdMapFlags::REQUIRE_KRAKEN) {
            self.require_osd_release = self.require_osd_release.max(Release::KRAKEN);
        } else if flags.contains(OsdMapFlags::REQUIRE_JEWEL) {
            self.require_osd_release = self.require_osd_release.max(Release::JEWEL);
        }
    }

    fn apply_max_osd(&mut self, inc: &Incremental) {
        if let Some(max_osd) = inc.new_max_osd {
            self.osds.resize_with(max_osd as usize, Osd::default);
        }
        if let Some(pool_max) = inc.new_pool_max {
            self.pool_max = pool_max;
        }
    }

    fn apply_pools(&mut self, inc: &Incremental) {
        for (id, pool) in &inc.new_pools {
            let mut pool = pool.clone();
            pool.last_change = self.epoch;
            self.pools.insert(*id, pool);
        }
        self.pool_names.extend(inc.new_pool_names.clone());
        for id in &inc.old_pools {
            self.pools.remove(id);
            self.pool_names.remove(id);
        }
        for name in &inc.old_erasure_code_profiles {
            self.erasure_code_profiles.remove(name);
        }
        self.erasure_code_profiles.extend(inc.new_erasure_code_profiles.clone());
    }

    fn apply_snaps(&mut self, inc: &Incremental) {
        self.new_removed_snaps = inc.new_removed_snaps.clone();
        self.new_purged_snaps = inc.new_purged_snaps.clone();
        for (pool, snaps) in &inc.new_removed_snaps {
            self.removed_snaps_queue.entry(*pool).or_default().union(snaps);
        }
        for (pool, snaps) in &inc.new_purged_snaps {
            let queue = self.removed_snaps_queue.entry(*pool).or_default();
            queue.subtract(snaps);
            if queue.is_empty() {
                self.removed_snaps_queue.remove(pool);
            }
        }
    }

    /// The slot of an OSD; `check` has verified that it exists.
    fn slot(&mut self, osd: &OsdId) -> &mut Osd {
        &mut self.osds[osd.0 as usize]
    }

    fn apply_osds(&mut self, inc: &Incremental) {
        for (osd, weight) in &inc.new_weight {
            let slot = self.slot(osd);
            slot.weight = *weight;
            if *weight != 0 {
                slot.state.insert(OsdState::EXISTS);
                slot.state.remove(OsdState::AUTOOUT | OsdState::NEW);
                slot.xinfo.old_weight = 0;
            }
        }
        for (osd, affinity) in &inc.new_primary_affinity {
            self.slot(osd).primary_affinity = *affinity;
        }
        for (osd, flips) in &inc.new_state {
            self.apply_state(osd, *flips);
        }
        for (osd, addrs) in &inc.new_up_client {
            self.apply_up(osd, addrs, inc);
        }
        inc.new_up_cluster.iter().for_each(|(osd, a)| self.slot(osd).cluster_addrs = a.clone());
        inc.new_up_thru.iter().for_each(|(osd, epoch)| self.slot(osd).info.up_thru = *epoch);
        for (osd, (begin, end)) in &inc.new_last_clean_interval {
            let info = &mut self.slot(osd).info;
            (info.last_clean_begin, info.last_clean_end) = (*begin, *end);
        }
        inc.new_lost.iter().for_each(|(osd, epoch)| self.slot(osd).info.lost_at = *epoch);
        inc.new_xinfo.iter().for_each(|(osd, xinfo)| self.slot(osd).xinfo = *xinfo);
        inc.new_uuid.iter().for_each(|(osd, uuid)| self.slot(osd).uuid = *uuid);
    }

    fn apply_state(&mut self, osd: &OsdId, flips: OsdState) {
        let (epoch, modified) = (self.epoch, self.modified);
        let flips = if flips.is_empty() { OsdState::UP } else { flips };
        let slot = self.slot(osd);
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

    fn apply_up(&mut self, osd: &OsdId, addrs: &EntityAddrVec, inc: &Incremental) {
        let epoch = self.epoch;
        let slot = self.slot(osd);
        slot.state.insert(OsdState::EXISTS | OsdState::UP);
        slot.state.remove(OsdState::STOP);
        slot.client_addrs = addrs.clone();
        slot.heartbeat_back_addrs = inc.new_heartbeat_back_up[osd].clone();
        slot.heartbeat_front_addrs = inc.new_heartbeat_front_up[osd].clone();
        slot.info.up_from = epoch;
    }

    fn apply_mappings(&mut self, inc: &Incremental) {
        for (pg, osds) in &inc.new_pg_temp {
            match osds.is_empty() {
                true => self.pg_temp.remove(pg),
                false => self.pg_temp.insert(*pg, osds.clone()),
            };
        }
        for (pg, osd) in &inc.new_primary_temp {
            match osd.0 {
                -1 => self.primary_temp.remove(pg),
                _ => self.primary_temp.insert(*pg, *osd),
            };
        }
        self.pg_upmap.extend(inc.new_pg_upmap.clone());
        self.pg_upmap.retain(|pg, _| !inc.old_pg_upmap.contains(pg));
        self.pg_upmap_items.extend(inc.new_pg_upmap_items.clone());
        self.pg_upmap_items.retain(|pg, _| !inc.old_pg_upmap_items.contains(pg));
        self.pg_upmap_primaries.extend(inc.new_pg_upmap_primaries.clone());
        self.pg_upmap_primaries.retain(|pg, _| !inc.old_pg_upmap_primaries.contains(pg));
    }

    /// An address that is listed already keeps its expiry time.
    fn apply_blocklist(&mut self, inc: &Incremental) {
        for (addr, until) in &inc.new_blocklist {
            self.blocklist.entry(*addr).or_insert(*until);
        }
        self.blocklist.retain(|addr, _| !inc.old_blocklist.contains(addr));
        for (addr, until) in &inc.new_range_blocklist {
            self.range_blocklist.entry(*addr).or_insert(*until);
        }
        self.range_blocklist.retain(|addr, _| !inc.old_range_blocklist.contains(addr));
    }

    fn apply_node_flags(&mut self, inc: &Incremental) {
        set_or_remove(&mut self.crush_node_flags, &inc.new_crush_node_flags);
        set_or_remove(&mut self.device_class_flags, &inc.new_device_class_flags);
    }

    fn apply_settings(&mut self, inc: &Incremental) {
        self.cluster_snapshot = inc.cluster_snapshot.clone();
        let snapshot = !inc.cluster_snapshot.is_empty();
        self.cluster_snapshot_epoch = if snapshot { inc.epoch } else { Epoch(0) };
        self.nearfull_ratio = inc.new_nearfull_ratio.unwrap_or(self.nearfull_ratio);
        self.backfillfull_ratio = inc.new_backfillfull_ratio.unwrap_or(self.backfillfull_ratio);
        self.full_ratio = inc.new_full_ratio.unwrap_or(self.full_ratio);
        let compat = inc.new_require_min_compat_client.filter(|r| *r > Release::UNKNOWN);
        self.require_min_compat_client = compat.unwrap_or(self.require_min_compat_client);
        if let Some(release) = inc.new_require_osd_release {
            self.require_osd_release = release;
            self.settle_flags();
        }
        self.last_up_change = inc.new_last_up_change.unwrap_or(self.last_up_change);
        self.last_in_change = inc.new_last_in_change.unwrap_or(self.last_in_change);
        self.stretch = inc.new_stretch.unwrap_or(self.stretch);
        self.allow_crimson = inc.new_allow_crimson.unwrap_or(self.allow_crimson);
    }

    fn apply_crush(&mut self, inc: &Incremental) {
        let Some(crush) = &inc.crush else { return };
        self.crush = Arc::clone(crush);
        if self.require_osd_release >= Release::LUMINOUS {
            self.crush_version = self.crush_version.wrapping_add(1);
        }
        self.device_class_flags.retain(|class, _| crush.class_name(*class).is_some());
    }
}

fn set_or_remove(flags: &mut BTreeMap<i32, OsdState>, changes: &BTreeMap<i32, OsdState>) {
    for (id, new) in changes {
        match new.is_empty() {
            true => flags.remove(id),
            false => flags.insert(*id, *new),
        };
    }
}

impl Incremental {
    /// Sets the fields that depend on the result, and returns the result: the map of the new epoch.
    pub fn seal(&mut self, base: &OsdMap) -> Result<OsdMap, ApplyError> {
        let mut next = base.clone();
        next.apply(self)?;
        self.encode_features = next.encoding_features();
        self.full_crc = next.checksum();
        Ok(next)
    }

    /// Marks an OSD as existing and up with these addresses.
    pub fn mark_up(
        &mut self,
        osd: OsdId,
        client: EntityAddrVec,
        cluster: EntityAddrVec,
        heartbeat_back: EntityAddrVec,
        heartbeat_front: EntityAddrVec,
    ) {
        self.new_up_client.insert(osd, client);
        self.new_up_cluster.insert(osd, cluster);
        self.new_heartbeat_back_up.insert(osd, heartbeat_back);
        self.new_heartbeat_front_up.insert(osd, heartbeat_front);
    }

    /// True if the placement of any group may change. Otherwise placement computed from the base map stays
    /// valid.
    pub fn may_move_pgs(&self) -> bool {
        self.fullmap.is_some()
            || self.crush.is_some()
            || self.new_max_osd.is_some()
            || !self.new_pools.is_empty()
            || !self.old_pools.is_empty()
            || !self.new_state.is_empty()
            || !self.new_up_client.is_empty()
            || !self.new_weight.is_empty()
            || !self.new_primary_affinity.is_empty()
            || !self.new_pg_temp.is_empty()
            || !self.new_primary_temp.is_empty()
            || !(self.new_pg_upmap.is_empty() && self.old_pg_upmap.is_empty())
            || !(self.new_pg_upmap_items.is_empty() && self.old_pg_upmap_items.is_empty())
            || !(self.new_pg_upmap_primaries.is_empty() && self.old_pg_upmap_primaries.is_empty())
    }

    /// OSDs whose slots change.
    fn osds(&self) -> impl Iterator<Item = OsdId> + '_ {
        self.new_weight
            .keys()
            .chain(self.new_primary_affinity.keys())
            .chain(self.new_state.keys())
            .chain(self.new_up_client.keys())
            .chain(self.new_up_cluster.keys())
            .chain(self.new_up_thru.keys())
            .chain(self.new_last_clean_interval.keys())
            .chain(self.new_lost.keys())
            .chain(self.new_xinfo.keys())
            .chain(self.new_uuid.keys())
            .copied()
    }
}
