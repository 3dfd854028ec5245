//! Boot message of an OSD.

use codec::{Decode, Encode, Reader, Result, Writer};
use std::collections::BTreeMap;
use types::{EntityAddrVec, Epoch, OsdId, UTime, Uuid};

message! {
    /// `MOSDBoot`
    OsdBoot = 71, version 7, compat 7, paxos(version) {
        /// Facts about the OSD's store.
        superblock: OsdSuperblock;
        /// Heartbeat addresses in the cluster network.
        heartbeat_back_addrs: EntityAddrVec;
        /// Addresses for other OSDs.
        cluster_addrs: EntityAddrVec;
        /// The epoch in which it was last marked up.
        boot_epoch: Epoch;
        /// Heartbeat addresses in the public network.
        heartbeat_front_addrs: EntityAddrVec;
        /// Metadata for `ceph osd metadata`.
        metadata: BTreeMap<String, String>;
        /// Feature bits of the OSD.
        features: u64;
    }
}

/// `OSDSuperblock`: the fields that a monitor reads.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct OsdSuperblock {
    /// Id of the cluster.
    pub cluster_fsid: Uuid,
    /// Id of the store.
    pub osd_fsid: Uuid,
    /// Number of the OSD.
    pub whoami: OsdId,
    /// Newest map epoch that the OSD has applied.
    pub current_epoch: Epoch,
    /// Oldest map that the OSD keeps.
    pub oldest_map: Epoch,
    /// Newest map that the OSD has.
    pub newest_map: Epoch,
    /// CRUSH weight; not used.
    pub weight: f64,
    /// The last epoch with which the OSD was cleanly mounted, and that of its last mount.
    pub clean_thru: Epoch,
    /// Epoch of the last mount.
    pub mounted: Epoch,
}

/// The names of one set of features in a `CompatSet`.
type FeatureNames = BTreeMap<u64, String>;
/// Compatible, compatible for readers, incompatible.
const FEATURE_SETS: usize = 3;

impl Encode for OsdSuperblock {
    fn encode(&self, w: &mut Writer) {
        w.versioned(9, 5, |w| {
            w.value(&self.cluster_fsid);
            w.value(&self.whoami);
            w.value(&self.current_epoch);
            w.value(&self.oldest_map);
            w.value(&self.newest_map);
            w.f64(self.weight);
            for _ in 0..FEATURE_SETS {
                w.u64(0);
                w.value(&FeatureNames::new());
            }
            w.value(&self.clean_thru);
            w.value(&self.mounted);
            w.value(&self.osd_fsid);
            w.value(&Epoch::default()); // once the last full epoch, then those of pools
            w.count(0);
            w.value(&Epoch::default()); // purged snapshots: kept by the placement groups
            w.value(&UTime::ZERO);
        });
    }
}

impl Decode for OsdSuperblock {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        r.versioned("superblock", 11, |r, _| {
            let cluster_fsid = r.value()?;
            let whoami = r.value()?;
            let current_epoch = r.value()?;
            let oldest_map = r.value()?;
            let newest_map = r.value()?;
            let weight = r.f64("weight")?;
            for _ in 0..FEATURE_SETS {
                r.u64("feature mask")?;
                r.value::<FeatureNames>()?;
            }
            let clean_thru = r.value()?;
            let mounted = r.value()?;
            let osd_fsid = r.value()?;
            Ok(OsdSuperblock {
                cluster_fsid,
                osd_fsid,
                whoami,
                current_epoch,
                oldest_map,
                newest_map,
                weight,
                clean_thru,
                mounted,
            })
        })
    }
}
