//! The encoding of an MDS map, for peers since Nautilus.

use super::MdsMap;
use codec::{Decode, DecodeErrorKind, Encode, Reader, Result, Writer};
use std::collections::BTreeSet;
use types::Epoch;

const VERSION: u8 = 5;
const COMPAT: u8 = 4;
/// Version of the second part, and the oldest that is read.
const EXTENDED: u16 = 18;
const EXTENDED_OLDEST: u16 = 15;
/// No release of clients is demanded (`ceph_release_t::unknown`).
const ANY_CLIENT: u8 = 0;

/// The same encoding for all peers: readers skip fields that are newer than they are.
impl Encode for MdsMap {
    fn encode(&self, w: &mut Writer) {
        w.versioned(VERSION, COMPAT, |w| {
            self.encode_base(w);
            w.u16(EXTENDED);
            self.encode_ranks(w);
            self.encode_settings(w);
        });
    }
}

impl MdsMap {
    fn encode_base(&self, w: &mut Writer) {
        w.value(&self.epoch);
        w.u32(self.flags);
        w.value(&self.last_failure);
        w.i32(self.root);
        w.u32(self.session_timeout);
        w.u32(self.session_autoclose);
        w.u64(self.max_file_size);
        w.i32(self.max_mds);
        w.value(&self.mds_info);
        w.value(&self.data_pools);
        w.value(&self.cas_pool);
    }

    fn encode_ranks(&self, w: &mut Writer) {
        w.value(&self.compat);
        w.value(&self.metadata_pool);
        w.value(&self.created);
        w.value(&self.modified);
        w.i32(self.tableserver);
        w.value(&self.in_ranks);
        w.value(&self.inc);
        w.value(&self.up);
        w.value(&self.failed);
        w.value(&self.stopped);
        w.value(&self.last_failure_osd_epoch);
    }

    fn encode_settings(&self, w: &mut Writer) {
        w.u8(self.ever_allowed_features);
        w.u8(self.explicitly_allowed_features);
        w.bool(self.inline_data_enabled);
        w.bool(self.enabled);
        w.value(&self.fs_name);
        w.value(&self.damaged);
        w.value(&self.balancer);
        w.i32(self.standby_count_wanted);
        w.i32(self.old_max_mds);
        w.u8(ANY_CLIENT);
        w.blob(&self.required_client_features);
        w.value(&self.bal_rank_mask);
        w.u64(self.max_xattr_size);
    }
}

impl Decode for MdsMap {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        r.versioned("mdsmap", VERSION, |r, version| {
            if version < VERSION {
                let kind = DecodeErrorKind::TooOld { version, oldest: VERSION };
                return Err(r.error("mdsmap", kind));
            }
            let mut map = decode_base(r)?;
            let at = *r;
            let extended = r.u16("extended version")?;
            if extended < EXTENDED_OLDEST {
                return Err(at.invalid("extended version", extended.into()));
            }
            decode_ranks(r, &mut map)?;
            decode_settings(r, extended, &mut map)?;
            Ok(map)
        })
    }
}

fn decode_base(r: &mut Reader<'_>) -> Result<MdsMap> {
    Ok(MdsMap {
        epoch: r.value()?,
        flags: r.u32("flags")?,
        last_failure: r.value()?,
        root: r.i32("root")?,
        session_timeout: r.u32("session timeout")?,
        session_autoclose: r.u32("session autoclose")?,
        max_file_size: r.u64("greatest size of a file")?,
        max_mds: r.i32("max_mds")?,
        mds_info: r.value()?,
        data_pools: r.value()?,
        cas_pool: r.value()?,
        ..MdsMap::default()
    })
}

fn decode_ranks(r: &mut Reader<'_>, map: &mut MdsMap) -> Result<()> {
    map.compat = r.value()?;
    map.metadata_pool = r.value()?;
    map.created = r.value()?;
    map.modified = r.value()?;
    map.tableserver = r.i32("table server")?;
    map.in_ranks = r.value()?;
    map.inc = r.value()?;
    map.up = r.value()?;
    map.failed = r.value()?;
    map.stopped = r.value()?;
    map.last_failure_osd_epoch = r.value::<Epoch>()?;
    Ok(())
}

fn decode_settings(r: &mut Reader<'_>, extended: u16, map: &mut MdsMap) -> Result<()> {
    map.ever_allowed_features = r.u8("ever allowed features")?;
    map.explicitly_allowed_features = r.u8("explicitly allowed features")?;
    map.inline_data_enabled = r.bool("inline data enabled")?;
    map.enabled = r.bool("enabled")?;
    map.fs_name = r.value()?;
    map.damaged = r.value::<BTreeSet<i32>>()?;
    map.balancer = r.value()?;
    map.standby_count_wanted = r.i32("standby count wanted")?;
    map.old_max_mds = r.i32("old max_mds")?;
    r.u8("least release of clients")?;
    if extended >= 16 {
        map.required_client_features = r.blob("required features")?.to_vec();
    }
    if extended >= 17 {
        map.bal_rank_mask = r.value()?;
    }
    if extended >= 18 {
        map.max_xattr_size = r.u64("greatest size of attributes")?;
    }
    Ok(())
}
