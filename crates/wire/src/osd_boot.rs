//! Boot message of an OSD.

use codec::{Decode, Encode, Reader, Result, Writer};
use std::collections::BTreeMap;
use types::{EntityAddrVec, Epoch, OsdId, UTime, Uuid};

message! {
    /// `MOSDBoot`
    OsdBoot = 71, version 7, compat 7, paxos(version) {
        superblock: OsdSuperblock;
        heartbeat_back_addrs: EntityAddrVec;
        cluster_addrs: EntityAddrVec;
        /// The epoch in which it was last marked up.
        boot_epoch: Epoch;
        heartbeat_front_addrs: EntityAddrVec;
        /// Metadata for `ceph osd metadata`.
        metadata: BTreeMap<String, String>;
        features: u64;
    }
}

/// `OSDSuperblock`: the fields that a monitor reads.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct OsdSuperblock {
    pub cluster_fsid: Uuid,
    pub osd_fsid: Uuid,
    pub whoami: OsdId,
    pub current_epoch: Epoch,
    pub oldest_map: Epoch,
    pub newest_map: Epoch,
    pub weight: f64,
    /// The last epoch with which the OSD was cleanly mounted, and that of its last mount.
    pub clean_thru: Epoch,
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
