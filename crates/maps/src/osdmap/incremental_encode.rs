//! Encoding of the incremental, laid out like the full map's.

use super::encode::effective_features;
use super::incremental::Incremental;
use super::parts::*;
use crate::Release;
use codec::{Encode, EncodeFor, Writer};
use types::{PoolId, UTime};

const VERSION_NAUTILUS: u8 = 8;
/// Newest version of the client's section.
pub(super) const VERSION: u8 = 9;

const NO_RELEASE: Release = Release(0xff);
const NO_RATIO: f32 = -1.0;

fn encode_with(inc: &Incremental, w: &mut Writer, features: u64) {
    let start = w.len();
    w.versioned(WRAPPER_VERSION, WRAPPER_COMPAT, |w| {
        let reef = has_upmap_primaries(features);
        let version = if reef { VERSION } else { VERSION_NAUTILUS };
        w.versioned(version, 1, |w| encode_client_section(inc, w, features));
        let ranges = !inc.new_range_blocklist.is_empty() || !inc.old_range_blocklist.is_empty();
        let crimson = inc.new_allow_crimson.is_some();
        let version = osd_version(inc.new_stretch.is_some(), ranges, crimson);
        w.versioned(version, 1, |w| encode_osd_section(inc, w, version, features));
        w.u32(0);
        w.u32(inc.full_crc);
    });
    let at = w.len() - 8;
    let checksum = checksum_around(&w.as_slice()[start..], at - start);
    w.patch_u32(at, checksum);
}

fn encode_client_section(inc: &Incremental, w: &mut Writer, features: u64) {
    w.value(&inc.fsid);
    w.value(&inc.epoch);
    w.value(&inc.modified);
    w.value(&inc.new_pool_max.unwrap_or(PoolId(-1)));
    w.i32(inc.new_flags.map_or(-1, |flags| flags.0 as i32));
    w.blob(inc.fullmap.as_deref().unwrap_or_default());
    match &inc.crush {
        Some(crush) => encode_crush(w, crush, features),
        None => w.count(0),
    }
    w.i32(inc.new_max_osd.unwrap_or(-1));
    encode_pools(w, &inc.new_pools, features);
    w.value(&inc.new_pool_names);
    w.value(&inc.old_pools);
    w.value(&inc.new_up_client);
    w.value(&inc.new_state);
    w.value(&inc.new_weight);
    w.value(&inc.new_pg_temp);
    w.value(&inc.new_primary_temp);
    w.value(&inc.new_primary_affinity);
    w.value(&inc.new_erasure_code_profiles);
    w.value(&inc.old_erasure_code_profiles);
    w.value(&inc.new_pg_upmap);
    w.value(&inc.old_pg_upmap);
    w.value(&inc.new_pg_upmap_items);
    w.value(&inc.old_pg_upmap_items);
    w.value(&inc.new_removed_snaps);
    w.value(&inc.new_purged_snaps);
    w.value(&inc.new_last_up_change.unwrap_or(UTime::ZERO));
    w.value(&inc.new_last_in_change.unwrap_or(UTime::ZERO));
    if has_upmap_primaries(features) {
        w.value(&inc.new_pg_upmap_primaries);
        w.value(&inc.old_pg_upmap_primaries);
    }
}

fn encode_osd_section(inc: &Incremental, w: &mut Writer, version: u8, features: u64) {
    w.value(&inc.new_heartbeat_back_up);
    w.value(&inc.new_up_thru);
    w.value(&inc.new_last_clean_interval);
    w.value(&inc.new_lost);
    encode_blocklist(w, &inc.new_blocklist);
    w.value(&inc.old_blocklist);
    w.value(&inc.new_up_cluster);
    w.value(&inc.cluster_snapshot);
    w.value(&inc.new_uuid);
    w.count(inc.new_xinfo.len());
    for (osd, xinfo) in &inc.new_xinfo {
        w.value(osd);
        xinfo.encode_for(w, features);
    }
    w.value(&inc.new_heartbeat_front_up);
    w.u64(features);
    for ratio in [inc.new_nearfull_ratio, inc.new_full_ratio, inc.new_backfillfull_ratio] {
        w.u32(ratio.unwrap_or(NO_RATIO).to_bits());
    }
    w.value(&inc.new_require_min_compat_client.unwrap_or(NO_RELEASE));
    w.value(&inc.new_require_osd_release.unwrap_or(NO_RELEASE));
    w.value(&inc.new_crush_node_flags);
    w.value(&inc.new_device_class_flags);
    encode_newer_osd_section(inc, w, version);
}

fn encode_newer_osd_section(inc: &Incremental, w: &mut Writer, version: u8) {
    if version >= OSD_VERSION_STRETCH {
        let stretch = inc.new_stretch.unwrap_or_default();
        w.bool(inc.new_stretch.is_some());
        w.value(&stretch);
        w.bool(stretch.enabled);
    }
    if version >= OSD_VERSION_RANGE_BLOCKLIST {
        encode_blocklist(w, &inc.new_range_blocklist);
        w.value(&inc.old_range_blocklist);
    }
    if version >= OSD_VERSION_CRIMSON {
        w.u8(match inc.new_allow_crimson {
            None => 0,
            Some(true) => 1,
            Some(false) => 2,
        });
    }
}

/// The canonical encoding.
impl Encode for Incremental {
    fn encode(&self, w: &mut Writer) {
        self.encode_for(w, self.encode_features);
    }
}

/// Restricted to the features of the canonical encoding.
impl EncodeFor for Incremental {
    fn encode_for(&self, w: &mut Writer, features: u64) {
        encode_with(self, w, effective_features(self.encode_features, features));
    }
}
