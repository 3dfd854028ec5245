//! The OSD map as data: OSDs, pools, temporary sets, upmaps, flags; and what is asked of it most.

use super::osd::{Osd, OsdState};
use crate::bits::bit_set;
use crate::{Pool, Release, SnapIntervals};
use crush::CrushMap;
use std::collections::BTreeMap;
use std::sync::Arc;
use types::{EntityAddr, EntityAddrVec, Epoch, OsdId, PgId, PoolId, UTime, Uuid};

/// Plugin, k, m and so on, by name.
pub type ErasureCodeProfile = BTreeMap<String, String>;

/// Blocklisted addresses with their expiry times. Entries have [`types::AddrType::Any`].
pub type Blocklist = BTreeMap<EntityAddr, UTime>;

/// `OSDMap`
#[derive(Debug, Clone, PartialEq, Default)]
pub struct OsdMap {
    /// Id of the cluster.
    pub fsid: Uuid,
    /// Version of the map.
    pub epoch: Epoch,
    /// Time when the cluster was created.
    pub created: UTime,
    /// Time of this epoch.
    pub modified: UTime,
    /// Pools by id.
    pub pools: BTreeMap<PoolId, Pool>,
    /// Each pool of `pools` has a name; names are unique.
    pub pool_names: BTreeMap<PoolId, String>,
    /// The highest pool id ever assigned.
    pub pool_max: PoolId,
    /// Flags of the whole cluster.
    pub flags: OsdMapFlags,
    /// By OSD number; the length is `max_osd`. Check [`Osd::exists`].
    pub osds: Vec<Osd>,
    /// Acting sets that differ from the up set, set while data moves.
    pub pg_temp: BTreeMap<PgId, Vec<OsdId>>,
    /// Primaries of acting sets, set while data moves.
    pub primary_temp: BTreeMap<PgId, OsdId>,
    /// Up sets that an administrator set instead of CRUSH's.
    pub pg_upmap: BTreeMap<PgId, Vec<OsdId>>,
    /// Exchanges (from, to) of single OSDs in CRUSH's result.
    pub pg_upmap_items: BTreeMap<PgId, Vec<(OsdId, OsdId)>>,
    /// Primaries that an administrator set instead of the computed ones.
    pub pg_upmap_primaries: BTreeMap<PgId, OsdId>,
    /// The CRUSH map.
    pub crush: Arc<CrushMap>,
    /// Number of changes of `crush`.
    pub crush_version: u32,
    /// Erasure code profiles by name.
    pub erasure_code_profiles: BTreeMap<String, ErasureCodeProfile>,
    /// Addresses whose messages OSDs refuse.
    pub blocklist: Blocklist,
    /// Blocklisted networks: the nonce is the length of the prefix.
    pub range_blocklist: Blocklist,
    /// Snapshots that were removed in this epoch.
    pub new_removed_snaps: BTreeMap<PoolId, SnapIntervals>,
    /// Snapshots that left `removed_snaps_queue` in this epoch.
    pub new_purged_snaps: BTreeMap<PoolId, SnapIntervals>,
    /// Removed snapshots whose clones are not all trimmed.
    pub removed_snaps_queue: BTreeMap<PoolId, SnapIntervals>,
    /// Not used by Ceph any more; kept for the encoding.
    pub cluster_snapshot_epoch: Epoch,
    /// Not used by Ceph any more; kept for the encoding.
    pub cluster_snapshot: String,
    /// Ratio of used space from which an OSD is nearly full.
    pub nearfull_ratio: f32,
    /// Ratio of used space from which an OSD takes no backfill.
    pub backfillfull_ratio: f32,
    /// Ratio of used space from which an OSD takes no writes.
    pub full_ratio: f32,
    /// Oldest release that clients must have.
    pub require_min_compat_client: Release,
    /// Oldest release that OSDs must have.
    pub require_osd_release: Release,
    /// Time when an OSD last came up or went down.
    pub last_up_change: UTime,
    /// Time when an OSD last was marked in or out.
    pub last_in_change: UTime,
    /// noup, nodown, noin, noout for a whole CRUSH bucket.
    pub crush_node_flags: BTreeMap<i32, OsdState>,
    /// The same for a device class.
    pub device_class_flags: BTreeMap<i32, OsdState>,
    /// Settings of stretch mode.
    pub stretch: StretchMode,
    /// True if OSDs of the Crimson implementation may join.
    pub allow_crimson: bool,
}

/// Stretch mode: replication across two sites with a tie-breaking monitor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StretchMode {
    /// True if stretch mode is on.
    pub enabled: bool,
    /// Number of sites.
    pub bucket_count: u32,
    /// Number of sites that may be missing now; zero while none is.
    pub degraded: u32,
    /// Nonzero while a site that returned is being recovered.
    pub recovering: u32,
    /// CRUSH type of the sites.
    pub bucket: i32,
}

bit_set! {
    /// `CEPH_OSDMAP_*`, in the order in which Ceph prints them.
    OsdMapFlags(u32) {
        NEARFULL = 0, "nearfull";
        FULL = 1, "full";
        PAUSERD = 2, "pauserd";
        PAUSEWR = 3, "pausewr";
        PAUSEREC = 4, "pauserec";
        NOUP = 5, "noup";
        NODOWN = 6, "nodown";
        NOOUT = 7, "noout";
        NOIN = 8, "noin";
        NOBACKFILL = 9, "nobackfill";
        NOREBALANCE = 14, "norebalance";
        NORECOVER = 10, "norecover";
        NOSCRUB = 11, "noscrub";
        NODEEP_SCRUB = 12, "nodeep-scrub";
        NOTIERAGENT = 13, "notieragent";
        NOSNAPTRIM = 21, "nosnaptrim";
        SORTBITWISE = 15, "sortbitwise";
        REQUIRE_JEWEL = 16, "require_jewel_osds";
        REQUIRE_KRAKEN = 17, "require_kraken_osds";
        REQUIRE_LUMINOUS = 18, "require_luminous_osds";
        RECOVERY_DELETES = 19, "recovery_deletes";
        PURGED_SNAPDIRS = 20, "purged_snapdirs";
        PGLOG_HARDLIMIT = 22, "pglog_hardlimit";
        NOAUTOSCALE = 23, "noautoscale";
    }
}

impl OsdMapFlags {
    /// Flags that a cluster of a current release always has set.
    pub const BASE: OsdMapFlags = OsdMapFlags(
        Self::SORTBITWISE.0
            | Self::RECOVERY_DELETES.0
            | Self::PURGED_SNAPDIRS.0
            | Self::PGLOG_HARDLIMIT.0,
    );

    /// Flags of releases before `require_osd_release`.
    pub(crate) const LEGACY_REQUIRE: OsdMapFlags =
        OsdMapFlags(Self::REQUIRE_JEWEL.0 | Self::REQUIRE_KRAKEN.0 | Self::REQUIRE_LUMINOUS.0);
}

impl OsdMap {
    /// An empty map of epoch zero; the first incremental makes it epoch one.
    pub fn new(fsid: Uuid) -> Self {
        OsdMap { fsid, crush_version: 1, ..OsdMap::default() }
    }

    /// Number of slots; OSD numbers are below it.
    pub fn max_osd(&self) -> i32 {
        self.osds.len() as i32
    }

    /// The OSD, if it exists.
    pub fn osd(&self, id: OsdId) -> Option<&Osd> {
        let slot = self.osds.get(usize::try_from(id.0).ok()?)?;
        slot.exists().then_some(slot)
    }

    /// True if the OSD has a slot that is in use.
    pub fn exists(&self, id: OsdId) -> bool {
        self.osd(id).is_some()
    }

    /// True if the OSD exists and is up.
    pub fn is_up(&self, id: OsdId) -> bool {
        self.osd(id).is_some_and(Osd::is_up)
    }

    /// True if the OSD exists and has a weight.
    pub fn is_in(&self, id: OsdId) -> bool {
        self.osd(id).is_some_and(Osd::is_in)
    }

    /// The addresses of an OSD for clients, if it is up.
    pub fn client_addrs(&self, id: OsdId) -> Option<&EntityAddrVec> {
        self.osd(id).filter(|osd| osd.is_up()).map(|osd| &osd.client_addrs)
    }

    /// OSDs that exist, with their numbers.
    pub fn existing_osds(&self) -> impl Iterator<Item = (OsdId, &Osd)> {
        self.osds.iter().enumerate().filter(|(_, o)| o.exists()).map(|(i, o)| (OsdId(i as i32), o))
    }

    /// Number of OSDs that exist.
    pub fn osd_count(&self) -> usize {
        self.existing_osds().count()
    }

    /// Number of OSDs that are up.
    pub fn up_count(&self) -> usize {
        self.existing_osds().filter(|(_, osd)| osd.is_up()).count()
    }

    /// Number of OSDs that are in.
    pub fn in_count(&self) -> usize {
        self.existing_osds().filter(|(_, osd)| osd.is_in()).count()
    }

    /// The pool with this id.
    pub fn pool(&self, id: PoolId) -> Option<&Pool> {
        self.pools.get(&id)
    }

    /// True if the pool exists and has this placement group.
    pub fn has_pg(&self, pg: PgId) -> bool {
        self.pool(pg.pool).is_some_and(|pool| pg.seed < pool.pg_num)
    }

    /// Name of a pool.
    pub fn pool_name(&self, id: PoolId) -> Option<&str> {
        self.pool_names.get(&id).map(String::as_str)
    }

    /// Id of the pool with this name.
    pub fn pool_id(&self, name: &str) -> Option<PoolId> {
        self.pool_names.iter().find(|(_, known)| *known == name).map(|(id, _)| *id)
    }

    /// Flags implied by the required release are set as well.
    pub(super) fn settle_flags(&mut self) {
        if self.require_osd_release >= Release::LUMINOUS {
            self.flags.remove(OsdMapFlags::LEGACY_REQUIRE);
            self.flags.insert(OsdMapFlags::RECOVERY_DELETES);
        }
        if self.require_osd_release >= Release::NAUTILUS {
            self.flags.insert(OsdMapFlags::PGLOG_HARDLIMIT);
        }
    }
}
