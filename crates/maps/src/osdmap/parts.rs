//! Parts common to the encodings of the full map and the incremental.

use super::{Blocklist, OsdInfo, OsdState, OsdXinfo, StretchMode};
use crate::checksum::{SEED, crc32c};
use crate::{Pool, Release};
use codec::{Decode, DecodeErrorKind, Encode, EncodeFor, Reader, Result, Writer, encode_to_bytes};
use crush::CrushMap;
use std::collections::BTreeMap;
use types::{EntityAddr, Epoch, PoolId, UTime, features};

/// Version of the wrapper around both sections and the checksum.
pub(super) const WRAPPER_VERSION: u8 = 8;
pub(super) const WRAPPER_COMPAT: u8 = 7;

/// True if the client's section has upmapped primaries, which Reef added to that of Nautilus. Full map and
/// incremental gain the same fields, under section versions that differ by one.
pub(super) fn has_upmap_primaries(features: u64) -> bool {
    features::has(features, features::SERVER_REEF)
}

/// Version of the OSDs' section: the lowest one that can hold all fields that are set.
pub(super) const OSD_VERSION: u8 = 9;
pub(super) const OSD_VERSION_STRETCH: u8 = 10;
pub(super) const OSD_VERSION_RANGE_BLOCKLIST: u8 = 11;
pub(super) const OSD_VERSION_CRIMSON: u8 = 12;

pub(super) fn osd_version(stretch: bool, range_blocklist: bool, crimson: bool) -> u8 {
    match (crimson, range_blocklist, stretch) {
        (true, ..) => OSD_VERSION_CRIMSON,
        (_, true, _) => OSD_VERSION_RANGE_BLOCKLIST,
        (.., true) => OSD_VERSION_STRETCH,
        _ => OSD_VERSION,
    }
}

pub(super) fn too_old(r: &Reader<'_>, what: &'static str, version: u8, oldest: u8) -> Result<()> {
    match version < oldest {
        true => Err(r.error(what, DecodeErrorKind::TooOld { version, oldest })),
        false => Ok(()),
    }
}

/// Checksum over `encoded` without the four bytes at `at`, which hold the checksum.
pub(super) fn checksum_around(encoded: &[u8], at: usize) -> u32 {
    crc32c(crc32c(SEED, &encoded[..at]), &encoded[at + 4..])
}

pub(super) fn encode_crush(w: &mut Writer, crush: &CrushMap, features: u64) {
    w.sized(|w| crush.encode_for(w, features));
}

pub(super) fn decode_crush(r: &mut Reader<'_>) -> Result<Option<CrushMap>> {
    let at = *r;
    let raw = r.blob("crush map")?;
    if raw.is_empty() {
        return Ok(None);
    }
    let map = CrushMap::decode(&mut Reader::new(raw)).map_err(|mut error| {
        error.offset += at.offset() + 4;
        error
    })?;
    Ok(Some(map))
}

pub(super) fn encode_pools(w: &mut Writer, pools: &BTreeMap<PoolId, Pool>, features: u64) {
    w.count(pools.len());
    for (id, pool) in pools {
        w.value(id);
        pool.encode_for(w, features);
    }
}

/// Encoded in Ceph's order, which is that of the bytes in memory.
pub(super) fn encode_blocklist(w: &mut Writer, blocklist: &Blocklist) {
    let mut entries: Vec<_> =
        blocklist.iter().map(|(addr, until)| (encode_to_bytes(addr), until)).collect();
    entries.sort();
    w.count(entries.len());
    for (addr, until) in entries {
        w.raw(&addr);
        w.value(until);
    }
}

pub(super) fn decode_blocklist(r: &mut Reader<'_>) -> Result<Blocklist> {
    r.value::<BTreeMap<EntityAddr, UTime>>()
}

pub(super) fn f32(r: &mut Reader<'_>, field: &'static str) -> Result<f32> {
    r.u32(field).map(f32::from_bits)
}

/// A release newer than all others stands for "none"; Ceph has written it both as -1 and as 255.
pub(super) fn some_release(release: Release) -> Option<Release> {
    (release.0 < 0x80).then_some(release)
}

pub(super) fn decode_node_flags(r: &mut Reader<'_>) -> Result<BTreeMap<i32, OsdState>> {
    r.value()
}

impl Encode for StretchMode {
    fn encode(&self, w: &mut Writer) {
        w.u32(self.bucket_count);
        w.u32(self.degraded);
        w.u32(self.recovering);
        w.i32(self.bucket);
    }
}

/// Decodes all fields but `enabled`, which is encoded elsewhere.
impl Decode for StretchMode {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        Ok(StretchMode {
            enabled: false,
            bucket_count: r.u32("stretch bucket count")?,
            degraded: r.u32("degraded stretch mode")?,
            recovering: r.u32("recovering stretch mode")?,
            bucket: r.i32("stretch mode bucket")?,
        })
    }
}

/// The only structure of the map that is encoded without a length.
impl Encode for OsdInfo {
    fn encode(&self, w: &mut Writer) {
        w.u8(1);
        w.value(&self.last_clean_begin);
        w.value(&self.last_clean_end);
        w.value(&self.up_from);
        w.value(&self.up_thru);
        w.value(&self.down_at);
        w.value(&self.lost_at);
    }
}

impl Decode for OsdInfo {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        r.u8("version of an OSD's info")?;
        Ok(OsdInfo {
            last_clean_begin: r.value()?,
            last_clean_end: r.value()?,
            up_from: r.value()?,
            up_thru: r.value()?,
            down_at: r.value()?,
            lost_at: r.value()?,
        })
    }
}

impl OsdXinfo {
    const VERSION: u8 = 4;

    pub(super) fn encode_for(&self, w: &mut Writer, features: u64) {
        let octopus = features::has(features, features::SERVER_OCTOPUS);
        w.versioned(if octopus { Self::VERSION } else { 3 }, 1, |w| {
            w.value(&self.down_stamp);
            w.u32(self.laggy_probability);
            w.u32(self.laggy_interval);
            w.u64(self.features);
            w.u32(self.old_weight);
            if octopus {
                w.value(&self.last_purged_snaps_scrub);
                w.value(&self.dead_epoch);
            }
        });
    }
}

impl Decode for OsdXinfo {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        r.versioned("OSD's extended info", Self::VERSION, |r, version| {
            let mut xinfo = OsdXinfo {
                down_stamp: r.value()?,
                laggy_probability: r.u32("laggy probability")?,
                laggy_interval: r.u32("laggy interval")?,
                ..OsdXinfo::default()
            };
            if version >= 2 {
                xinfo.features = r.u64("features")?;
            }
            if version >= 3 {
                xinfo.old_weight = r.u32("old weight")?;
            }
            if version >= 4 {
                xinfo.last_purged_snaps_scrub = r.value()?;
                xinfo.dead_epoch = r.value::<Epoch>()?;
            }
            Ok(xinfo)
        })
    }
}
