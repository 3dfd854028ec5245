//! Decoding of incrementals of Nautilus and later.

use super::decode::verify_checksum;
use super::incremental::Incremental;
use super::incremental_encode::VERSION;
use super::parts::*;
use super::{OsdMapFlags, StretchMode};
use bytes::Bytes;
use codec::{Decode, Reader, Result};
use std::sync::Arc;
use types::{PoolId, UTime};

const VERSION_OLDEST: u8 = 8;
const OSD_VERSION_OLDEST: u8 = 8;

impl Decode for Incremental {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let start = *r;
        r.versioned("incremental", WRAPPER_VERSION, |r, version| {
            too_old(r, "incremental", version, WRAPPER_VERSION)?;
            let mut inc = Incremental::default();
            r.versioned("incremental client section", VERSION, |r, version| {
                decode_client_section(&mut inc, r, version)
            })?;
            r.versioned("incremental OSD section", OSD_VERSION_CRIMSON, |r, version| {
                decode_osd_section(&mut inc, r, version)
            })?;
            verify_checksum(start, r)?;
            inc.full_crc = r.u32("checksum of the full map")?;
            Ok(inc)
        })
    }
}

fn decode_client_section(inc: &mut Incremental, r: &mut Reader<'_>, version: u8) -> Result<()> {
    too_old(r, "incremental client section", version, VERSION_OLDEST)?;
    inc.fsid = r.value()?;
    inc.epoch = r.value()?;
    inc.modified = r.value()?;
    inc.new_pool_max = Some(r.value()?).filter(|max: &PoolId| max.0 >= 0);
    let flags = r.i32("new_flags")?;
    inc.new_flags = (flags >= 0).then_some(OsdMapFlags(flags as u32));
    inc.fullmap = Some(r.value()?).filter(|map: &Bytes| !map.is_empty());
    inc.crush = decode_crush(r)?.map(Arc::new);
    inc.new_max_osd = Some(r.i32("new_max_osd")?).filter(|max| *max >= 0);
    inc.new_pools = r.value()?;
    inc.new_pool_names = r.value()?;
    inc.old_pools = r.value()?;
    inc.new_up_client = r.value()?;
    inc.new_state = r.value()?;
    inc.new_weight = r.value()?;
    inc.new_pg_temp = r.value()?;
    inc.new_primary_temp = r.value()?;
    inc.new_primary_affinity = r.value()?;
    inc.new_erasure_code_profiles = r.value()?;
    inc.old_erasure_code_profiles = r.value()?;
    inc.new_pg_upmap = r.value()?;
    inc.old_pg_upmap = r.value()?;
    inc.new_pg_upmap_items = r.value()?;
    inc.old_pg_upmap_items = r.value()?;
    inc.new_removed_snaps = r.value()?;
    inc.new_purged_snaps = r.value()?;
    inc.new_last_up_change = some_time(r)?;
    inc.new_last_in_change = some_time(r)?;
    if version >= VERSION {
        inc.new_pg_upmap_primaries = r.value()?;
        inc.old_pg_upmap_primaries = r.value()?;
    }
    Ok(())
}

fn decode_osd_section(inc: &mut Incremental, r: &mut Reader<'_>, version: u8) -> Result<()> {
    too_old(r, "incremental OSD section", version, OSD_VERSION_OLDEST)?;
    inc.new_heartbeat_back_up = r.value()?;
    inc.new_up_thru = r.value()?;
    inc.new_last_clean_interval = r.value()?;
    inc.new_lost = r.value()?;
    inc.new_blocklist = decode_blocklist(r)?;
    inc.old_blocklist = r.value()?;
    inc.new_up_cluster = r.value()?;
    inc.cluster_snapshot = r.value()?;
    inc.new_uuid = r.value()?;
    inc.new_xinfo = r.value()?;
    inc.new_heartbeat_front_up = r.value()?;
    inc.encode_features = r.u64("encode features")?;
    inc.new_nearfull_ratio = some_ratio(r)?;
    inc.new_full_ratio = some_ratio(r)?;
    inc.new_backfillfull_ratio = some_ratio(r)?;
    inc.new_require_min_compat_client = some_release(r.value()?);
    inc.new_require_osd_release = some_release(r.value()?);
    inc.new_crush_node_flags = decode_node_flags(r)?;
    decode_newer_osd_section(inc, r, version)
}

fn decode_newer_osd_section(inc: &mut Incremental, r: &mut Reader<'_>, version: u8) -> Result<()> {
    if version >= OSD_VERSION {
        inc.new_device_class_flags = decode_node_flags(r)?;
    }
    if version >= OSD_VERSION_STRETCH {
        let change = r.bool("change of stretch mode")?;
        let stretch: StretchMode = r.value()?;
        let enabled = r.bool("stretch mode")?;
        inc.new_stretch = change.then_some(StretchMode { enabled, ..stretch });
    }
    if version >= OSD_VERSION_RANGE_BLOCKLIST {
        inc.new_range_blocklist = decode_blocklist(r)?;
        inc.old_range_blocklist = r.value()?;
    }
    if version >= OSD_VERSION_CRIMSON {
        let at = *r;
        inc.new_allow_crimson = match r.u8("allow crimson")? {
            0 => None,
            1 => Some(true),
            2 => Some(false),
            other => return Err(at.invalid("allow crimson", other.into())),
        };
    }
    Ok(())
}

fn some_time(r: &mut Reader<'_>) -> Result<Option<UTime>> {
    Ok(Some(r.value()?).filter(|time| *time != UTime::ZERO))
}

fn some_ratio(r: &mut Reader<'_>) -> Result<Option<f32>> {
    Ok(Some(f32(r, "ratio")?).filter(|ratio| *ratio >= 0.0))
}
