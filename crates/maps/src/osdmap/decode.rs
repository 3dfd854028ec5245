//! Decoding of full maps of Nautilus and later.

use super::encode::VERSION;
use super::parts::*;
use super::{Osd, OsdMap};
use codec::{Decode, DecodeErrorKind, Reader, Result};
use std::sync::Arc;
use types::PoolId;

const VERSION_OLDEST: u8 = 9;
const OSD_VERSION_OLDEST: u8 = 8;

impl Decode for OsdMap {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let start = *r;
        r.versioned("osdmap", WRAPPER_VERSION, |r, version| {
            too_old(r, "osdmap", version, WRAPPER_VERSION)?;
            let mut map = OsdMap::default();
            r.versioned("osdmap client section", VERSION, |r, version| {
                decode_client_section(&mut map, r, version)
            })?;
            r.versioned("osdmap OSD section", OSD_VERSION_CRIMSON, |r, version| {
                decode_osd_section(&mut map, r, version)
            })?;
            verify_checksum(start, r)?;
            Ok(map)
        })
    }
}

/// Reads the checksum and compares it with that of the bytes from `start` to the end of the wrapper.
pub(super) fn verify_checksum(start: Reader<'_>, r: &mut Reader<'_>) -> Result<()> {
    let here = *r;
    let at = r.offset() - start.offset();
    let found = r.u32("checksum")?;
    let length = at + 4 + r.remaining();
    let mut whole = start;
    let computed = checksum_around(whole.take("osdmap", length)?, at);
    match found == computed {
        true => Ok(()),
        false => Err(here.error("osdmap", DecodeErrorKind::Checksum { found, computed })),
    }
}

fn decode_client_section(map: &mut OsdMap, r: &mut Reader<'_>, version: u8) -> Result<()> {
    too_old(r, "osdmap client section", version, VERSION_OLDEST)?;
    map.fsid = r.value()?;
    map.epoch = r.value()?;
    map.created = r.value()?;
    map.modified = r.value()?;
    map.pools = r.value()?;
    map.pool_names = r.value()?;
    map.pool_max = PoolId(r.i32("pool_max")?.into());
    map.flags = r.value()?;
    decode_osds(map, r)?;
    map.pg_temp = r.value()?;
    map.primary_temp = r.value()?;
    decode_affinities(map, r)?;
    map.crush = Arc::new(decode_crush(r)?.unwrap_or_default());
    map.erasure_code_profiles = r.value()?;
    map.pg_upmap = r.value()?;
    map.pg_upmap_items = r.value()?;
    map.crush_version = r.u32("crush version")?;
    map.new_removed_snaps = r.value()?;
    map.new_purged_snaps = r.value()?;
    map.last_up_change = r.value()?;
    map.last_in_change = r.value()?;
    if version >= VERSION {
        map.pg_upmap_primaries = r.value()?;
    }
    Ok(())
}

/// The states come first and determine the number of OSDs; all other lists have the same length.
fn decode_osds(map: &mut OsdMap, r: &mut Reader<'_>) -> Result<()> {
    let at = *r;
    let max_osd = r.i32("max_osd")?;
    map.osds = r.list("osd_state", |r| Ok(Osd { state: r.value()?, ..Osd::default() }))?;
    if map.max_osd() != max_osd {
        return Err(at.invalid("max_osd", max_osd as u64));
    }
    decode_each(map, r, "osd_weight", |r, osd| r.u32("weight").map(|weight| osd.weight = weight))?;
    decode_each(map, r, "client_addrs", |r, osd| r.value().map(|v| osd.client_addrs = v))
}

/// The list is empty if no affinity was ever set.
fn decode_affinities(map: &mut OsdMap, r: &mut Reader<'_>) -> Result<()> {
    let mut ahead = *r;
    if ahead.u32("primary affinities")? == 0 {
        *r = ahead;
        return Ok(());
    }
    decode_each(map, r, "osd_primary_affinity", |r, osd| {
        r.u32("affinity").map(|affinity| osd.primary_affinity = affinity)
    })
}

fn decode_osd_section(map: &mut OsdMap, r: &mut Reader<'_>, version: u8) -> Result<()> {
    too_old(r, "osdmap OSD section", version, OSD_VERSION_OLDEST)?;
    decode_each(map, r, "hb_back_addrs", |r, osd| r.value().map(|v| osd.heartbeat_back_addrs = v))?;
    decode_each(map, r, "osd_info", |r, osd| r.value().map(|v| osd.info = v))?;
    map.blocklist = decode_blocklist(r)?;
    decode_each(map, r, "cluster_addrs", |r, osd| r.value().map(|v| osd.cluster_addrs = v))?;
    map.cluster_snapshot_epoch = r.value()?;
    map.cluster_snapshot = r.value()?;
    decode_each(map, r, "osd_uuid", |r, osd| r.value().map(|v| osd.uuid = v))?;
    decode_each(map, r, "osd_xinfo", |r, osd| r.value().map(|v| osd.xinfo = v))?;
    decode_each(map, r, "hb_front_addrs", |r, osd| {
        r.value().map(|v| osd.heartbeat_front_addrs = v)
    })?;
    map.nearfull_ratio = f32(r, "nearfull ratio")?;
    map.full_ratio = f32(r, "full ratio")?;
    map.backfillfull_ratio = f32(r, "backfillfull ratio")?;
    map.require_min_compat_client = r.value()?;
    map.require_osd_release = r.value()?;
    map.settle_flags();
    map.removed_snaps_queue = r.value()?;
    map.crush_node_flags = decode_node_flags(r)?;
    decode_newer_osd_section(map, r, version)
}

fn decode_newer_osd_section(map: &mut OsdMap, r: &mut Reader<'_>, version: u8) -> Result<()> {
    if version >= OSD_VERSION {
        map.device_class_flags = decode_node_flags(r)?;
    }
    if version >= OSD_VERSION_STRETCH {
        let enabled = r.bool("stretch mode")?;
        map.stretch = r.value()?;
        map.stretch.enabled = enabled;
    }
    if version >= OSD_VERSION_RANGE_BLOCKLIST {
        map.range_blocklist = decode_blocklist(r)?;
    }
    if version >= OSD_VERSION_CRIMSON {
        map.allow_crimson = r.bool("allow crimson")?;
    }
    Ok(())
}

/// Decodes a list with one entry for each OSD.
fn decode_each<'a>(
    map: &mut OsdMap,
    r: &mut Reader<'a>,
    field: &'static str,
    mut read: impl FnMut(&mut Reader<'a>, &mut Osd) -> Result<()>,
) -> Result<()> {
    let at = *r;
    let count = r.count(field)?;
    if count != map.osds.len() {
        return Err(at.invalid(field, count as u64));
    }
    map.osds.iter_mut().try_for_each(|osd| read(r, osd))
}
