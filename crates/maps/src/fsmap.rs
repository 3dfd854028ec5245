//! `FSMap`: all file systems, and the metadata servers without a rank.

mod encoding;

use crate::mds_info::{FsId, MdsGid, MdsInfo};
use crate::{CompatSet, MdsMap, NO_FILE_SYSTEM};
use std::collections::BTreeMap;
use types::{Epoch, UTime};

/// `FSMap`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FsMap {
    /// Version of the map.
    pub epoch: Epoch,
    /// Time at which the map was made.
    pub birth: UTime,
    /// The number of the next file system. Numbers are not used again.
    pub next_fscid: u64,
    /// The file system that clients mount which name none.
    pub default_fscid: FsId,
    /// On-disk features that new file systems demand.
    pub default_compat: CompatSet,
    /// Whether there may be several file systems.
    pub enable_multiple: bool,
    /// Whether there ever might have been several.
    pub ever_enabled_multiple: bool,
    /// File systems by number.
    pub file_systems: BTreeMap<FsId, FileSystem>,
    /// The file system of each metadata server; `NO_FILE_SYSTEM` for standbys.
    pub roles: BTreeMap<MdsGid, FsId>,
    /// Metadata servers without a rank.
    pub standbys: BTreeMap<MdsGid, MdsInfo>,
    /// Epoch in which each standby last changed.
    pub standby_epochs: BTreeMap<MdsGid, Epoch>,
}

/// `Filesystem`: a file system with its number.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FileSystem {
    /// Number.
    pub fscid: FsId,
    /// Pools, ranks and servers.
    pub map: MdsMap,
}

/// `FSMapUser`: the names of file systems, for clients that mount one by name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FsMapUser {
    /// Epoch of the file system map.
    pub epoch: Epoch,
    /// The file system that clients mount which name none.
    pub default_fscid: FsId,
    /// Names by number.
    pub names: BTreeMap<FsId, String>,
}

impl Default for FsMap {
    fn default() -> Self {
        FsMap {
            epoch: Epoch(1),
            birth: UTime::ZERO,
            next_fscid: 1,
            default_fscid: NO_FILE_SYSTEM,
            default_compat: CompatSet::of_file_systems(),
            enable_multiple: true,
            ever_enabled_multiple: true,
            file_systems: BTreeMap::new(),
            roles: BTreeMap::new(),
            standbys: BTreeMap::new(),
            standby_epochs: BTreeMap::new(),
        }
    }
}

impl FsMap {
    /// The file system of a name.
    pub fn named(&self, name: &str) -> Option<&FileSystem> {
        self.file_systems.values().find(|fs| fs.map.fs_name == name)
    }

    /// A metadata server, with or without a rank.
    pub fn server(&self, gid: MdsGid) -> Option<&MdsInfo> {
        let fscid = self.roles.get(&gid)?;
        match self.file_systems.get(fscid) {
            Some(fs) => fs.map.mds_info.get(&gid),
            None => self.standbys.get(&gid),
        }
    }

    /// The same, to be changed.
    pub fn server_mut(&mut self, gid: MdsGid) -> Option<&mut MdsInfo> {
        let fscid = self.roles.get(&gid)?;
        match self.file_systems.get_mut(fscid) {
            Some(fs) => fs.map.mds_info.get_mut(&gid),
            None => self.standbys.get_mut(&gid),
        }
    }

    /// All metadata servers by global id.
    pub fn servers(&self) -> impl Iterator<Item = &MdsInfo> {
        self.roles.keys().filter_map(|gid| self.server(*gid))
    }

    /// The names of file systems, for clients.
    pub fn for_clients(&self) -> FsMapUser {
        let names = self.file_systems.iter().map(|(id, fs)| (*id, fs.map.fs_name.clone()));
        FsMapUser { epoch: self.epoch, default_fscid: self.default_fscid, names: names.collect() }
    }

    /// Panics if its parts contradict each other.
    pub fn check_invariants(&self) {
        for fs in self.file_systems.values() {
            fs.map.check_invariants();
            for gid in fs.map.mds_info.keys() {
                assert_eq!(self.roles.get(gid), Some(&fs.fscid), "server {gid} has its role");
            }
        }
        for gid in self.roles.keys() {
            assert!(self.server(*gid).is_some(), "server {gid} is listed");
        }
        for gid in self.standbys.keys() {
            assert_eq!(self.roles.get(gid), Some(&NO_FILE_SYSTEM), "standby {gid} has no role");
        }
    }
}
