//! `OSDMap::Incremental`: the difference between an epoch and the one before.

use super::{Blocklist, ErasureCodeProfile, OsdMapFlags, OsdState, OsdXinfo, StretchMode};
use crate::{Pool, Release, SnapIntervals};
use bytes::Bytes;
use crush::CrushMap;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use types::{EntityAddr, EntityAddrVec, Epoch, OsdId, PgId, PoolId, UTime, Uuid};

/// `OSDMap::Incremental`. A field that is `None` or empty changes nothing.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Incremental {
    /// Features with which the monitor encodes this incremental and the full map.
    pub encode_features: u64,
    /// Id of the cluster.
    pub fsid: Uuid,
    /// The epoch that results.
    pub epoch: Epoch,
    /// Time of the change.
    pub modified: UTime,
    /// The highest pool id ever assigned.
    pub new_pool_max: Option<PoolId>,
    /// All flags of the map.
    pub new_flags: Option<OsdMapFlags>,
    /// An encoded full map, which replaces all other fields.
    pub fullmap: Option<Bytes>,
    /// The whole CRUSH map.
    pub crush: Option<Arc<CrushMap>>,
    /// Number of OSD slots.
    pub new_max_osd: Option<i32>,
    /// Pools that are created or changed, whole.
    pub new_pools: BTreeMap<PoolId, Pool>,
    /// Names of pools that are created or renamed.
    pub new_pool_names: BTreeMap<PoolId, String>,
    /// Pools that are removed.
    pub old_pools: BTreeSet<PoolId>,
    /// Profiles that are created or changed.
    pub new_erasure_code_profiles: BTreeMap<String, ErasureCodeProfile>,
    /// Names of profiles that are removed.
    pub old_erasure_code_profiles: Vec<String>,
    /// Marks an OSD as existing and up; the heartbeat addresses belong to it.
    pub new_up_client: BTreeMap<OsdId, EntityAddrVec>,
    /// Addresses for other OSDs.
    pub new_up_cluster: BTreeMap<OsdId, EntityAddrVec>,
    /// Heartbeat addresses in the cluster network.
    pub new_heartbeat_back_up: BTreeMap<OsdId, EntityAddrVec>,
    /// Heartbeat addresses in the public network.
    pub new_heartbeat_front_up: BTreeMap<OsdId, EntityAddrVec>,
    /// Bits to flip. An empty set means [`OsdState::UP`]; flipping EXISTS of an existing OSD removes it.
    pub new_state: BTreeMap<OsdId, OsdState>,
    /// Weights in 16.16 fixed point; zero marks the OSD out.
    pub new_weight: BTreeMap<OsdId, u32>,
    /// Primary affinities in 16.16 fixed point.
    pub new_primary_affinity: BTreeMap<OsdId, u32>,
    /// An empty list removes the entry.
    pub new_pg_temp: BTreeMap<PgId, Vec<OsdId>>,
    /// -1 removes the entry.
    pub new_primary_temp: BTreeMap<PgId, OsdId>,
    /// Epochs in which OSDs are known to have been alive.
    pub new_up_thru: BTreeMap<OsdId, Epoch>,
    /// The last interval of an OSD that ended with a clean shutdown.
    pub new_last_clean_interval: BTreeMap<OsdId, (Epoch, Epoch)>,
    /// Epochs in which an administrator declared OSDs lost.
    pub new_lost: BTreeMap<OsdId, Epoch>,
    /// Ids of the stores of OSDs that are created.
    pub new_uuid: BTreeMap<OsdId, Uuid>,
    /// Extended information about OSDs.
    pub new_xinfo: BTreeMap<OsdId, OsdXinfo>,
    /// Addresses to add, with their expiry times.
    pub new_blocklist: Blocklist,
    /// Addresses to remove.
    pub old_blocklist: Vec<EntityAddr>,
    /// Networks to add, with their expiry times.
    pub new_range_blocklist: Blocklist,
    /// Networks to remove.
    pub old_range_blocklist: Vec<EntityAddr>,
    /// Up sets to set instead of CRUSH's.
    pub new_pg_upmap: BTreeMap<PgId, Vec<OsdId>>,
    /// Groups whose entry in `pg_upmap` is removed.
    pub old_pg_upmap: BTreeSet<PgId>,
    /// Exchanges (from, to) of single OSDs.
    pub new_pg_upmap_items: BTreeMap<PgId, Vec<(OsdId, OsdId)>>,
    /// Groups whose entry in `pg_upmap_items` is removed.
    pub old_pg_upmap_items: BTreeSet<PgId>,
    /// Primaries to set instead of the computed ones.
    pub new_pg_upmap_primaries: BTreeMap<PgId, OsdId>,
    /// Groups whose entry in `pg_upmap_primaries` is removed.
    pub old_pg_upmap_primaries: BTreeSet<PgId>,
    /// Snapshots that are removed; they enter the queue.
    pub new_removed_snaps: BTreeMap<PoolId, SnapIntervals>,
    /// Snapshots that are trimmed everywhere; they leave the queue.
    pub new_purged_snaps: BTreeMap<PoolId, SnapIntervals>,
    /// An empty set of flags removes the entry.
    pub new_crush_node_flags: BTreeMap<i32, OsdState>,
    /// noup, nodown, noin, noout of a device class; an empty set of flags removes the entry.
    pub new_device_class_flags: BTreeMap<i32, OsdState>,
    /// Not used by Ceph any more; kept for the encoding.
    pub cluster_snapshot: String,
    /// Ratio of used space from which an OSD is nearly full.
    pub new_nearfull_ratio: Option<f32>,
    /// Ratio of used space from which an OSD takes no backfill.
    pub new_backfillfull_ratio: Option<f32>,
    /// Ratio of used space from which an OSD takes no writes.
    pub new_full_ratio: Option<f32>,
    /// Oldest release that clients must have.
    pub new_require_min_compat_client: Option<Release>,
    /// Oldest release that OSDs must have.
    pub new_require_osd_release: Option<Release>,
    /// Time when an OSD last came up or went down.
    pub new_last_up_change: Option<UTime>,
    /// Time when an OSD last was marked in or out.
    pub new_last_in_change: Option<UTime>,
    /// Settings of stretch mode.
    pub new_stretch: Option<StretchMode>,
    /// True if OSDs of the Crimson implementation may join.
    pub new_allow_crimson: Option<bool>,
    /// Checksum of the resulting full map in its canonical encoding.
    pub full_crc: u32,
}

impl Incremental {
    /// An incremental to the given epoch without changes.
    pub fn new(fsid: Uuid, epoch: Epoch, modified: UTime) -> Self {
        Incremental { fsid, epoch, modified, ..Incremental::default() }
    }

    /// The epoch that this applies to.
    pub fn base(&self) -> Epoch {
        Epoch(self.epoch.0.saturating_sub(1))
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
    pub(super) fn osds(&self) -> impl Iterator<Item = OsdId> + '_ {
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
