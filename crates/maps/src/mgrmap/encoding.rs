//! The manager map's encoding, for peers since Nautilus.

use super::{MgrMap, ModuleInfo, ModuleOption, StandbyInfo};
use codec::{Decode, DecodeErrorKind, Encode, Reader, Result, Writer};
use std::collections::BTreeSet;
use types::EntityAddrVec;

const VERSION: u8 = 14;
/// The version that introduced address vectors.
const COMPAT: u8 = 6;

/// The same encoding for all peers: readers skip fields that are newer than they are.
impl Encode for MgrMap {
    fn encode(&self, w: &mut Writer) {
        w.versioned(VERSION, COMPAT, |w| {
            w.value(&self.epoch);
            w.value(&self.active_addrs);
            w.u64(self.active_gid);
            w.bool(self.available);
            w.value(&self.active_name);
            w.value(&self.standbys);
            w.value(&self.modules);
            w.value(&self.services);
            w.value(&self.available_modules);
            w.value(&self.active_change);
            w.value(&self.always_on_modules);
            w.u64(self.active_mgr_features);
            w.value(&self.last_failure_osd_epoch);
            w.list(&self.clients, |w, (_, addrs)| w.value(addrs));
            w.list(&self.clients, |w, (name, _)| w.value(name));
            w.u64(self.flags);
            w.value(&self.force_disabled_modules);
        });
    }
}

impl Decode for MgrMap {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        r.versioned("mgrmap", VERSION, |r, version| {
            if version < COMPAT {
                let kind = DecodeErrorKind::TooOld { version, oldest: COMPAT };
                return Err(r.error("mgrmap", kind));
            }
            let mut map = decode_base(r)?;
            if version >= 7 {
                map.active_change = r.value()?;
            }
            if version >= 8 {
                map.always_on_modules = r.value()?;
            }
            if version >= 9 {
                map.active_mgr_features = r.u64("active manager's features")?;
            }
            if version >= 10 {
                map.last_failure_osd_epoch = r.value()?;
            }
            if version >= 11 {
                map.clients = decode_clients(r, version)?;
            }
            if version >= 13 {
                map.flags = r.u64("manager map flags")?;
            }
            if version >= 14 {
                map.force_disabled_modules = r.value()?;
            }
            Ok(map)
        })
    }
}

fn decode_base(r: &mut Reader<'_>) -> Result<MgrMap> {
    Ok(MgrMap {
        epoch: r.value()?,
        active_addrs: r.value()?,
        active_gid: r.u64("active gid")?,
        available: r.bool("available")?,
        active_name: r.value()?,
        standbys: r.value()?,
        modules: r.value()?,
        services: r.value()?,
        available_modules: r.value()?,
        ..MgrMap::default()
    })
}

/// Addresses were added before names, so the two lists follow one another.
fn decode_clients(r: &mut Reader<'_>, version: u8) -> Result<Vec<(String, EntityAddrVec)>> {
    let addrs: Vec<EntityAddrVec> = r.value()?;
    if version < 12 {
        return Ok(addrs.into_iter().map(|addrs| (String::new(), addrs)).collect());
    }
    let at = *r;
    let names: Vec<String> = r.value()?;
    if names.len() != addrs.len() {
        return Err(at.invalid("names of clients", names.len() as u64));
    }
    Ok(names.into_iter().zip(addrs).collect())
}

impl Encode for StandbyInfo {
    fn encode(&self, w: &mut Writer) {
        w.versioned(4, 1, |w| {
            w.u64(self.gid);
            w.value(&self.name);
            let names: BTreeSet<&str> =
                self.available_modules.iter().map(|module| module.name.as_str()).collect();
            w.value(&names);
            w.value(&self.available_modules);
            w.u64(self.mgr_features);
        });
    }
}

impl Decode for StandbyInfo {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        r.versioned("standby manager", 4, |r, version| {
            let mut standby =
                StandbyInfo { gid: r.u64("gid")?, name: r.value()?, ..StandbyInfo::default() };
            if version >= 2 {
                // Only the names; the details since version 3 are skipped.
                r.value::<BTreeSet<String>>()?;
            }
            if version >= 3 {
                standby.available_modules = r.value()?;
            }
            if version >= 4 {
                standby.mgr_features = r.u64("features")?;
            }
            Ok(standby)
        })
    }
}

impl Encode for ModuleInfo {
    fn encode(&self, w: &mut Writer) {
        w.versioned(2, 1, |w| {
            w.value(&self.name);
            w.bool(self.can_run);
            w.value(&self.error_string);
            w.value(&self.module_options);
        });
    }
}

impl Decode for ModuleInfo {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        r.versioned("manager module", 2, |r, version| {
            let name = r.value()?;
            let can_run = r.bool("can run")?;
            let error_string = r.value()?;
            let module_options = if version >= 2 { r.value()? } else { Default::default() };
            Ok(ModuleInfo { name, can_run, error_string, module_options })
        })
    }
}

impl Encode for ModuleOption {
    fn encode(&self, w: &mut Writer) {
        w.versioned(1, 1, |w| {
            w.value(&self.name);
            w.u8(self.kind);
            w.u8(self.level);
            w.u32(self.flags);
            w.value(&self.default_value);
            w.value(&self.min);
            w.value(&self.max);
            w.value(&self.enum_allowed);
            w.value(&self.description);
            w.value(&self.long_description);
            w.value(&self.tags);
            w.value(&self.see_also);
        });
    }
}

impl Decode for ModuleOption {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        r.versioned("module option", 1, |r, _| {
            Ok(ModuleOption {
                name: r.value()?,
                kind: r.u8("type")?,
                level: r.u8("level")?,
                flags: r.u32("flags")?,
                default_value: r.value()?,
                min: r.value()?,
                max: r.value()?,
                enum_allowed: r.value()?,
                description: r.value()?,
                long_description: r.value()?,
                tags: r.value()?,
                see_also: r.value()?,
            })
        })
    }
}
