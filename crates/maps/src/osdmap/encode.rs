//! Encoding of the full map: a section for clients, one for OSDs, a checksum.

use super::parts::*;
use super::{Osd, OsdMap, WEIGHT_IN};
use crate::Release;
use bytes::Bytes;
use codec::{Encode, Writer};
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

impl OsdMap {
    /// Features of the canonical encoding, whose checksum incrementals carry: those that all OSDs that may
    /// join have.
    pub fn encoding_features(&self) -> u64 {
        let since = |release, feature| {
            if self.require_osd_release >= release { feature } else { 0 }
        };
        FLOOR
            | since(Release::OCTOPUS, SERVER_OCTOPUS)
            | since(Release::REEF, SERVER_REEF)
            | since(Release::TENTACLE, SERVER_TENTACLE)
    }

    /// The features of a peer that affect the encoding of this map; peers with equal results get equal
    /// bytes.
    pub fn features_for(&self, peer_features: u64) -> u64 {
        effective_features(self.encoding_features(), peer_features)
    }

    /// Encoding for a peer with `features`, restricted to the canonical features.
    pub fn to_bytes(&self, features: u64) -> Bytes {
        let mut w = Writer::new();
        self.encode_for(&mut w, features);
        w.into_bytes()
    }

    /// See [`OsdMap::to_bytes`].
    pub fn encode_for(&self, w: &mut Writer, features: u64) {
        self.encode_with(w, self.features_for(features));
    }

    /// The checksum of the canonical encoding.
    pub fn checksum(&self) -> u32 {
        let bytes = self.to_bytes(self.encoding_features());
        checksum_around(&bytes, bytes.len() - 4)
    }

    fn encode_with(&self, w: &mut Writer, features: u64) {
        let start = w.len();
        w.versioned(WRAPPER_VERSION, WRAPPER_COMPAT, |w| {
            let reef = has_upmap_primaries(features);
            let version = if reef { VERSION } else { VERSION_NAUTILUS };
            w.versioned(version, 1, |w| self.encode_client_section(w, features));
            let version = osd_version(
                self.stretch.enabled,
                !self.range_blocklist.is_empty(),
                self.allow_crimson,
            );
            w.versioned(version, 1, |w| self.encode_osd_section(w, version, features));
            w.u32(0);
        });
        let at = w.len() - 4;
        let checksum = checksum_around(&w.as_slice()[start..], at - start);
        w.patch_u32(at, checksum);
    }

    fn encode_client_section(&self, w: &mut Writer, features: u64) {
        w.value(&self.fsid);
        w.value(&self.epoch);
        w.value(&self.created);
        w.value(&self.modified);
        encode_pools(w, &self.pools, features);
        w.value(&self.pool_names);
        w.i32(self.pool_max.0 as i32);
        w.value(&self.flags);
        w.i32(self.max_osd());
        self.encode_each(w, |w, osd| w.value(&osd.state));
        self.encode_each(w, |w, osd| w.u32(osd.weight));
        self.encode_each(w, |w, osd| w.value(&osd.client_addrs));
        w.value(&self.pg_temp);
        w.value(&self.primary_temp);
        match self.osds.iter().all(|osd| osd.primary_affinity == WEIGHT_IN) {
            true => w.count(0),
            false => self.encode_each(w, |w, osd| w.u32(osd.primary_affinity)),
        }
        encode_crush(w, &self.crush, features);
        w.value(&self.erasure_code_profiles);
        w.value(&self.pg_upmap);
        w.value(&self.pg_upmap_items);
        w.u32(self.crush_version);
        w.value(&self.new_removed_snaps);
        w.value(&self.new_purged_snaps);
        w.value(&self.last_up_change);
        w.value(&self.last_in_change);
        if has_upmap_primaries(features) {
            w.value(&self.pg_upmap_primaries);
        }
    }

    fn encode_osd_section(&self, w: &mut Writer, version: u8, features: u64) {
        self.encode_each(w, |w, osd| w.value(&osd.heartbeat_back_addrs));
        self.encode_each(w, |w, osd| w.value(&osd.info));
        encode_blocklist(w, &self.blocklist);
        self.encode_each(w, |w, osd| w.value(&osd.cluster_addrs));
        w.value(&self.cluster_snapshot_epoch);
        w.value(&self.cluster_snapshot);
        self.encode_each(w, |w, osd| w.value(&osd.uuid));
        self.encode_each(w, |w, osd| osd.xinfo.encode_for(w, features));
        self.encode_each(w, |w, osd| w.value(&osd.heartbeat_front_addrs));
        w.u32(self.nearfull_ratio.to_bits());
        w.u32(self.full_ratio.to_bits());
        w.u32(self.backfillfull_ratio.to_bits());
        w.value(&self.require_min_compat_client);
        w.value(&self.require_osd_release);
        w.value(&self.removed_snaps_queue);
        w.value(&self.crush_node_flags);
        w.value(&self.device_class_flags);
        if version >= OSD_VERSION_STRETCH {
            w.bool(self.stretch.enabled);
            w.value(&self.stretch);
        }
        if version >= OSD_VERSION_RANGE_BLOCKLIST {
            encode_blocklist(w, &self.range_blocklist);
        }
        if version >= OSD_VERSION_CRIMSON {
            w.bool(self.allow_crimson);
        }
    }

    fn encode_each(&self, w: &mut Writer, field: impl FnMut(&mut Writer, &Osd)) {
        w.list(&self.osds, field);
    }
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
        self.encode_with(w, self.encoding_features());
    }
}
