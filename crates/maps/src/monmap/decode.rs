//! Reading monitor maps of Nautilus (version 6) and later.

use super::{AuthCiphers, ElectionStrategy, MonFeatures, MonInfo, MonMap};
use codec::{Decode, DecodeErrorKind, Reader, Result};

impl Decode for MonMap {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        r.versioned("monmap", MonMap::VERSION, |r, version| {
            if version < MonMap::COMPAT {
                let kind = DecodeErrorKind::TooOld { version, oldest: MonMap::COMPAT };
                return Err(r.error("monmap", kind));
            }
            let mut map = decode_base(r)?;
            if version >= 7 {
                map.min_mon_release = r.value()?;
            }
            if version >= 8 {
                map.removed_ranks = r.value()?;
                map.strategy = ElectionStrategy(r.u8("election strategy")?);
                map.disallowed_leaders = r.value()?;
            }
            if version >= 9 {
                map.stretch_mode_enabled = r.bool("stretch mode")?;
                map.tiebreaker_mon = r.value()?;
                map.stretch_marked_down_mons = r.value()?;
            }
            if version >= 10 {
                map.auth = decode_ciphers(r)?;
            }
            Ok(map)
        })
    }
}

fn decode_base(r: &mut Reader<'_>) -> Result<MonMap> {
    Ok(MonMap {
        fsid: r.value()?,
        epoch: r.value()?,
        last_changed: r.value()?,
        created: r.value()?,
        persistent_features: decode_features(r)?,
        optional_features: decode_features(r)?,
        mon_info: r.value()?,
        ranks: r.value()?,
        strategy: ElectionStrategy::CLASSIC,
        ..MonMap::default()
    })
}

fn decode_features(r: &mut Reader<'_>) -> Result<MonFeatures> {
    r.versioned("monitor features", 1, |r, _| r.value())
}

fn decode_ciphers(r: &mut Reader<'_>) -> Result<AuthCiphers> {
    Ok(AuthCiphers {
        epoch: r.value()?,
        service: r.i32("service cipher")?,
        allowed: r.value()?,
        preferred: r.i32("preferred cipher")?,
    })
}

impl Decode for MonInfo {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        r.versioned("monitor", MonInfo::VERSION, |r, version| {
            let mut mon =
                MonInfo { name: r.value()?, public_addrs: r.value()?, ..MonInfo::default() };
            if version >= 2 {
                mon.priority = r.u16("priority")?;
            }
            if version >= 4 {
                mon.weight = r.u16("weight")?;
            }
            if version >= 5 {
                mon.crush_location = r.value()?;
            }
            if version >= 6 {
                mon.time_added = r.value()?;
            }
            Ok(mon)
        })
    }
}
