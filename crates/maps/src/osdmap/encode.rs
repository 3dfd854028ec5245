//! Encoding of the full map: a section for clients, one for OSDs, a checksum.

use super::parts::*;
use super::{Osd, OsdMap, WEIGHT_IN};
use crate::Release;
use codec::{Encode, EncodeFor, Writer, encode_to_bytes};
use types::features::{self, *};

/// Features that affect the encoding and that every supported peer has: msgr2 came with Nautilus.
const FLOOR: u64 = PGID64
    | PGPOOL3
    | OSDENC
    | OSDMAP_ENC
    | OSD_POOLRESEND
    | NEW_OSDOP_ENCODING
    | MSG_ADDR2
    | CRUSH_TUNABLES5
    | CRUSH_CHOOSE_ARGS
    | SERVER_LUMINOUS
    | SERVER_MIMIC
    | SERVER_NAUTILUS;

const VERSION_NAUTILUS: u8 = 9;
/// Newest version of the client's section.
pub(super) const VERSION: u8 = 10;

/// Features of the canonical encoding, whose checksum incrementals carry: those that all OSDs that may
/// join have.
pub(super) fn canonical_features(map: &OsdMap) -> u64 {
    let since = |release, feature| {
        if map.require_osd_release >= release { feature } else { 0 }
    };
    FLOOR
        | since(Release::OCTOPUS, SERVER_OCTOPUS)
        | since(Release::REEF, SERVER_REEF)
        | since(Release::TENTACLE, SERVER_TENTACLE)
}

/// The checksum of the canonical encoding.
pub(super) fn checksum(map: &OsdMap) -> u32 {
    let bytes = encode_to_bytes(map);
    checksum_around(&bytes, bytes.len() - 4)
}

fn encode_with(map: &OsdMap, w: &mut Writer, features: u64) {
    let start = w.len();
    w.versioned(WRAPPER_VERSION, WRAPPER_COMPAT, |w| {
        let reef = has_upmap_primaries(features);
        let version = if reef { VERSION } else { VERSION_NAUTILUS };
        w.versioned(version, 1, |w| encode_client_section(map, w, features));
        let version =
            osd_version(map.stretch.enabled, !map.range_blocklist.is_empty(), map.allow_crimson);
        w.versioned(version, 1, |w| encode_osd_section(map, w, version, features));
        w.u32(0);
    });
    let at = w.len() - 4;
    let checksum = checksum_around(&w.as_slice()[start..], at - start);
    w.patch_u32(at, checksum);
}

fn encode_client_section(map: &OsdMap, w: &mut Writer, features: u64) {
    w.value(&map.fsid);
    w.value(&map.epoch);
    w.value(&map.created);
    w.value(&map.modified);
    encode_pools(w, &map.pools, features);
    w.value(&map.pool_names);
    w.i32(map.pool_max.0 as i32);
    w.value(&map.flags);
    w.i32(map.max_osd());
    encode_each(map, w, |w, osd| w.value(&osd.state));
    encode_each(map, w, |w, osd| w.u32(osd.weight));
    encode_each(map, w, |w, osd| w.value(&osd.client_addrs));
    w.value(&map.pg_temp);
    w.value(&map.primary_temp);
    match map.osds.iter().all(|osd| osd.primary_affinity == WEIGHT_IN) {
        true => w.count(0),
        false => encode_each(map, w, |w, osd| w.u32(osd.primary_affinity)),
    }
    encode_crush(w, &map.crush, features);
    w.value(&map.erasure_code_profiles);
    w.value(&map.pg_upmap);
    w.value(&map.pg_upmap_items);
    w.u32(map.crush_version);
    w.value(&map.new_removed_snaps);
    w.value(&map.new_purged_snaps);
    w.value(&map.last_up_change);
    w.value(&map.last_in_change);
    if has_upmap_primaries(features) {
        w.value(&map.pg_upmap_primaries);
    }
}

fn encode_osd_section(map: &OsdMap, w: &mut Writer, version: u8, features: u64) {
    encode_each(map, w, |w, osd| w.value(&osd.heartbeat_back_addrs));
    encode_each(map, w, |w, osd| w.value(&osd.info));
    encode_blocklist(w, &map.blocklist);
    encode_each(map, w, |w, osd| w.value(&osd.cluster_addrs));
    w.value(&map.cluster_snapshot_epoch);
    w.value(&map.cluster_snapshot);
    encode_each(map, w, |w, osd| w.value(&osd.uuid));
    encode_each(map, w, |w, osd| osd.xinfo.encode_for(w, features));
    encode_each(map, w, |w, osd| w.value(&osd.heartbeat_front_addrs));
    w.u32(map.nearfull_ratio.to_bits());
    w.u32(map.full_ratio.to_bits());
    w.u32(map.backfillfull_ratio.to_bits());
    w.value(&map.require_min_compat_client);
    w.value(&map.require_osd_release);
    w.value(&map.removed_snaps_queue);
    w.value(&map.crush_node_flags);
    w.value(&map.device_class_flags);
    if version >= OSD_VERSION_STRETCH {
        w.bool(map.stretch.enabled);
        w.value(&map.stretch);
    }
    if version >= OSD_VERSION_RANGE_BLOCKLIST {
        encode_blocklist(w, &map.range_blocklist);
    }
    if version >= OSD_VERSION_CRIMSON {
        w.bool(map.allow_crimson);
    }
}

fn encode_each(map: &OsdMap, w: &mut Writer, field: impl FnMut(&mut Writer, &Osd)) {
    w.list(&map.osds, field);
}

/// The canonical features that the peer has too; at least those of Nautilus.
pub(super) fn effective_features(canonical: u64, peer: u64) -> u64 {
    // A feature counts only with all its bits, including the markers of its incarnation.
    [SERVER_OCTOPUS, SERVER_REEF, SERVER_TENTACLE]
        .into_iter()
        .filter(|f| features::has(canonical, *f) && features::has(peer, *f))
        .fold(FLOOR, |all, feature| all | feature)
}

/// The canonical encoding.
impl Encode for OsdMap {
    fn encode(&self, w: &mut Writer) {
        encode_with(self, w, canonical_features(self));
    }
}

/// Restricted to the features of the canonical encoding.
impl EncodeFor for OsdMap {
    fn encode_for(&self, w: &mut Writer, features: u64) {
        encode_with(self, w, effective_features(canonical_features(self), features));
    }
}
