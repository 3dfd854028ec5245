//! Decoding of full maps of Nautilus and later.

use super::encode::VERSION;
use super::parts::*;
use super::{Osd, OsdMap, OsdMapFlags};
use crate::Release;
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
                map.decode_client_section(r, version)
            })?;
            r.versioned("osdmap OSD section", OSD_VERSION_CRIMSON, |r, version| {
                map.decode_osd_section(r, version)
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

impl OsdMap {
    fn decode_client_section(&mut self, r: &mut Reader<'_>, version: u8) -> Result<()> {
        too_old(r, "osdmap client section", version, VERSION_OLDEST)?;
        self.fsid = r.value()?;
        self.epoch = r.value()?;
        self.created = r.value()?;
        self.modified = r.value()?;
        self.pools = r.value()?;
        self.pool_names = r.value()?;
        self.pool_max = PoolId(r.i32("pool_max")?.into());
        self.flags = r.value()?;
        self.decode_osds(r)?;
        self.pg_temp = r.value()?;
        self.primary_temp = r.value()?;
        self.decode_affinities(r)?;
        self.crush = Arc::new(decode_crush(r)?.unwrap_or_default());
        self.erasure_code_profiles = r.value()?;
        self.pg_upmap = r.value()?;
        self.pg_upmap_items = r.value()?;
        self.crush_version = r.u32("crush version")?;
        self.new_removed_snaps = r.value()?;
        self.new_purged_snaps = r.value()?;
        self.last_up_change = r.value()?;
        self.last_in_change = r.value()?;
        if version >= VERSION {
            self.pg_upmap_primaries = r.value()?;
        }
        Ok(())
    }

    /// The states come first and determine the number of OSDs; all other lists have the same length.
    fn decode_osds(&mut self, r: &mut Reader<'_>) -> Result<()> {
        let at = *r;
        let max_osd = r.i32("max_osd")?;
        self.osds = r.list("osd_state", |r| Ok(Osd { state: r.value()?, ..Osd::default() }))?;
        if self.max_osd() != max_osd {
            return Err(at.invalid("max_osd", max_osd as u64));
        }
        self.decode_each(r, "osd_weight", |r, osd| {
            r.u32("weight").map(|weight| osd.weight = weight)
        })?;
        self.decode_each(r, "client_addrs", |r, osd| r.value().map(|v| osd.client_addrs = v))
    }

    /// The list is empty if no affinity was ever set.
    fn decode_affinities(&mut self, r: &mut Reader<'_>) -> Result<()> {
        let mut ahead = *r;
        if ahead.u32("primary affinities")? == 0 {
            *r = ahead;
            return Ok(());
        }
        self.decode_each(r, "osd_primary_affinity", |r, osd| {
            r.u32("affinity").map(|affinity| osd.primary_affinity = affinity)
        })
    }

    fn decode_osd_section(&mut self, r: &mut Reader<'_>, version: u8) -> Result<()> {
        too_old(r, "osdmap OSD section", version, OSD_VERSION_OLDEST)?;
        self.decode_each(r, "hb_back_addrs", |r, osd| {
            r.value().map(|v| osd.heartbeat_back_addrs = v)
        })?;
        self.decode_each(r, "osd_info", |r, osd| r.value().map(|v| osd.info = v))?;
        self.blocklist = decode_blocklist(r)?;
        self.decode_each(r, "cluster_addrs", |r, osd| r.value().map(|v| osd.cluster_addrs = v))?;
        self.cluster_snapshot_epoch = r.value()?;
        self.cluster_snapshot = r.value()?;
        self.decode_each(r, "osd_uuid", |r, osd| r.value().map(|v| osd.uuid = v))?;
        self.decode_each(r, "osd_xinfo", |r, osd| r.value().map(|v| osd.xinfo = v))?;
        self.decode_each(r, "hb_front_addrs", |r, osd| {
            r.value().map(|v| osd.heartbeat_front_addrs = v)
        })?;
        self.nearfull_ratio = f32(r, "nearfull ratio")?;
        self.full_ratio = f32(r, "full ratio")?;
        self.backfillfull_ratio = f32(r, "backfillfull ratio")?;
        self.require_min_compat_client = r.value()?;
        self.require_osd_release = r.value()?;
        self.settle_flags();
        self.removed_snaps_queue = r.value()?;
        self.crush_node_flags = decode_node_flags(r)?;
        self.decode_newer_osd_section(r, version)
    }

    fn decode_newer_osd_section(&mut self, r: &mut Reader<'_>, version: u8) -> Result<()> {
        if version >= OSD_VERSION {
            self.device_class_flags = decode_node_flags(r)?;
        }
        if version >= OSD_VERSION_STRETCH {
            let enabled = r.bool("stretch mode")?;
            self.stretch = r.value()?;
            self.stretch.enabled = enabled;
        }
        if version >= OSD_VERSION_RANGE_BLOCKLIST {
            self.range_blocklist = decode_blocklist(r)?;
        }
        if version >= OSD_VERSION_CRIMSON {
            self.allow_crimson = r.bool("allow crimson")?;
        }
        Ok(())
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

    /// Decodes a list with one entry for each OSD.
    fn decode_each<'a>(
        &mut self,
        r: &mut Reader<'a>,
        field: &'static str,
        mut read: impl FnMut(&mut Reader<'a>, &mut Osd) -> Result<()>,
    ) -> Result<()> {
        let at = *r;
        let count = r.count(field)?;
        if count != self.osds.len() {
            return Err(at.invalid(field, count as u64));
        }
        self.osds.iter_mut().try_for_each(|osd| read(r, osd))
    }
}
