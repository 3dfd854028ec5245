//! Encoding of the incremental, laid out like the full map's.

use super::encode::effective_features;
use super::incremental::Incremental;
use super::parts::*;
use crate::Release;
use bytes::Bytes;
use codec::{Encode, Writer};
use types::{Epoch, PoolId, UTime};

const VERSION_NAUTILUS: u8 = 8;
/// Newest version of the client's section.
pub(super) const VERSION: u8 = 9;

const NO_RELEASE: Release = Release(0xff);
const NO_RATIO: f32 = -1.0;

impl Incremental {
    /// Encoding for a peer with `features`, restricted to those of the canonical encoding.
    pub fn to_bytes(&self, features: u64) -> Bytes {
        let mut w = Writer::new();
        self.encode_for(&mut w, features);
        w.into_bytes()
    }

    /// See [`Incremental::to_bytes`].
    pub fn encode_for(&self, w: &mut Writer, features: u64) {
        self.encode_with(w, effective_features(self.encode_features, features));
    }

    fn encode_with(&self, w: &mut Writer, features: u64) {
        let start = w.len();
        w.versioned(WRAPPER_VERSION, WRAPPER_COMPAT, |w| {
            let reef = has_upmap_primaries(features);
            let version = if reef { VERSION } else { VERSION_NAUTILUS };
            w.versioned(version, 1, |w| self.encode_client_section(w, features));
            let ranges =
                !self.new_range_blocklist.is_empty() || !self.old_range_blocklist.is_empty();
            let crimson = self.new_allow_crimson.is_some();
            let version = osd_version(self.new_stretch.is_some(), ranges, crimson);
            w.versioned(version, 1, |w| self.encode_osd_section(w, version, features));
            w.u32(0);
            w.u32(self.full_crc);
        });
        let at = w.len() - 8;
        let checksum = checksum_around(&w.as_slice()[start..], at - start);
        w.patch_u32(at, checksum);
    }

    fn encode_client_section(&self, w: &mut Writer, features: u64) {
        w.value(&self.fsid);
        w.value(&self.epoch);
        w.value(&self.modified);
        w.value(&self.new_pool_max.unwrap_or(PoolId(-1)));
        w.i32(self.new_flags.map_or(-1, |flags| flags.0 as i32));
        w.blob(self.fullmap.as_deref().unwrap_or_default());
        match &self.crush {
            Some(crush) => encode_crush(w, crush, features),
            None => w.count(0),
        }
        w.i32(self.new_max_osd.unwrap_or(-1));
        encode_pools(w, &self.new_pools, features);
        w.value(&self.new_pool_names);
        w.value(&self.old_pools);
        w.value(&self.new_up_client);
        w.value(&self.new_state);
        w.value(&self.new_weight);
        w.value(&self.new_pg_temp);
        w.value(&self.new_primary_temp);
        w.value(&self.new_primary_affinity);
        w.value(&self.new_erasure_code_profiles);
        w.value(&self.old_erasure_code_profiles);
        w.value(&self.new_pg_upmap);
        w.value(&self.old_pg_upmap);
        w.value(&self.new_pg_upmap_items);
        w.value(&self.old_pg_upmap_items);
        w.value(&self.new_removed_snaps);
        w.value(&self.new_purged_snaps);
        w.value(&self.new_last_up_change.unwrap_or(UTime::ZERO));
        w.value(&self.new_last_in_change.unwrap_or(UTime::ZERO));
        if has_upmap_primaries(features) {
            w.value(&self.new_pg_upmap_primaries);
            w.value(&self.old_pg_upmap_primaries);
        }
    }

    fn encode_osd_section(&self, w: &mut Writer, version: u8, features: u64) {
        w.value(&self.new_heartbeat_back_up);
        w.value(&self.new_up_thru);
        w.value(&self.new_last_clean_interval);
        w.value(&self.new_lost);
        encode_blocklist(w, &self.new_blocklist);
        w.value(&self.old_blocklist);
        w.value(&self.new_up_cluster);
        w.value(&self.cluster_snapshot);
        w.value(&self.new_uuid);
        w.count(self.new_xinfo.len());
        for (osd, xinfo) in &self.new_xinfo {
            w.value(osd);
            xinfo.encode_for(w, features);
        }
        w.value(&self.new_heartbeat_front_up);
        w.u64(features);
        for ratio in [self.new_nearfull_ratio, self.new_full_ratio, self.new_backfillfull_ratio] {
            w.u32(ratio.unwrap_or(NO_RATIO).to_bits());
        }
        w.value(&self.new_require_min_compat_client.unwrap_or(NO_RELEASE));
        w.value(&self.new_require_osd_release.unwrap_or(NO_RELEASE));
        w.value(&self.new_crush_node_flags);
        w.value(&self.new_device_class_flags);
        self.encode_newer_osd_section(w, version);
    }

    fn encode_newer_osd_section(&self, w: &mut Writer, version: u8) {
        if version >= OSD_VERSION_STRETCH {
            let stretch = self.new_stretch.unwrap_or_default();
            w.bool(self.new_stretch.is_some());
            w.value(&stretch);
            w.bool(stretch.enabled);
        }
        if version >= OSD_VERSION_RANGE_BLOCKLIST {
            encode_blocklist(w, &self.new_range_blocklist);
            w.value(&self.old_range_blocklist);
        }
        if version >= OSD_VERSION_CRIMSON {
            w.u8(match self.new_allow_crimson {
                None => 0,
                Some(true) => 1,
                Some(false) => 2,
            });
        }
    }

    /// The epoch that this applies to.
    pub fn base(&self) -> Epoch {
        Epoch(self.epoch.0.saturating_sub(1))
    }
}

/// The canonical encoding.
impl Encode for Incremental {
    fn encode(&self, w: &mut Writer) {
        self.encode_for(w, self.encode_features);
    }
}
