//! The encodings of the file system map, for peers since Nautilus.

use super::{FileSystem, FsMap, FsMapUser};
use codec::{Decode, DecodeErrorKind, Encode, Reader, Result, Writer, decode_all};
use std::collections::BTreeMap;

const VERSION: u8 = 8;
const COMPAT: u8 = 6;
/// The version of the set of mirrors, which is always empty.
const MIRRORS_VERSION: u8 = 1;

impl Encode for FsMap {
    fn encode(&self, w: &mut Writer) {
        w.versioned(VERSION, COMPAT, |w| {
            w.value(&self.epoch);
            w.u64(self.next_fscid);
            w.i32(self.default_fscid);
            w.value(&self.default_compat);
            w.bool(self.enable_multiple);
            w.count(self.file_systems.len());
            self.file_systems.values().for_each(|fs| w.value(fs));
            w.value(&self.roles);
            w.value(&self.standbys);
            w.value(&self.standby_epochs);
            w.bool(self.ever_enabled_multiple);
            w.value(&self.birth);
        });
    }
}

impl Decode for FsMap {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        r.versioned("fsmap", VERSION, |r, version| {
            if version < COMPAT {
                let kind = DecodeErrorKind::TooOld { version, oldest: COMPAT };
                return Err(r.error("fsmap", kind));
            }
            let mut map = FsMap {
                epoch: r.value()?,
                next_fscid: r.u64("next file system")?,
                default_fscid: r.i32("default file system")?,
                default_compat: r.value()?,
                enable_multiple: r.bool("enable multiple")?,
                ..FsMap::default()
            };
            let all: Vec<FileSystem> = r.value()?;
            map.file_systems = all.into_iter().map(|fs| (fs.fscid, fs)).collect();
            map.roles = r.value()?;
            map.standbys = r.value()?;
            map.standby_epochs = r.value()?;
            if version >= 7 {
                map.ever_enabled_multiple = r.bool("ever enabled multiple")?;
            }
            if version >= 8 {
                map.birth = r.value()?;
            }
            Ok(map)
        })
    }
}

impl Encode for FileSystem {
    fn encode(&self, w: &mut Writer) {
        w.versioned(2, 1, |w| {
            w.i32(self.fscid);
            w.blob(&codec::encode_to_bytes(&self.map));
            w.versioned(MIRRORS_VERSION, 1, |w| {
                w.bool(false);
                w.count(0);
            });
        });
    }
}

impl Decode for FileSystem {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        r.versioned("file system", 2, |r, _| {
            let fscid = r.i32("number of a file system")?;
            let map = decode_all("mdsmap", r.blob("mdsmap")?)?;
            Ok(FileSystem { fscid, map })
        })
    }
}

/// `FSMapUser`, which repeats the number in each entry.
impl Encode for FsMapUser {
    fn encode(&self, w: &mut Writer) {
        w.versioned(1, 1, |w| {
            w.value(&self.epoch);
            w.i32(self.default_fscid);
            w.count(self.names.len());
            for (id, name) in &self.names {
                w.versioned(1, 1, |w| {
                    w.i32(*id);
                    w.value(name);
                });
            }
        });
    }
}

impl Decode for FsMapUser {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        r.versioned("fsmap.user", 1, |r, _| {
            let epoch = r.value()?;
            let default_fscid = r.i32("default file system")?;
            let entries = r.list("file systems", |r| {
                r.versioned("file system", 1, |r, _| Ok((r.i32("number")?, r.string("name")?)))
            })?;
            let names: BTreeMap<i32, String> = entries.into_iter().collect();
            Ok(FsMapUser { epoch, default_fscid, names })
        })
    }
}
