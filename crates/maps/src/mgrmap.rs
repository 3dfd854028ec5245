//! `MgrMap`: the address of the active manager, and its modules and services.

mod encoding;

use std::collections::{BTreeMap, BTreeSet};
use types::{EntityAddrVec, Epoch, UTime};

/// `MgrMap`
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MgrMap {
    pub epoch: Epoch,
    /// Global id of the active manager; zero if there is none.
    pub active_gid: u64,
    pub active_addrs: EntityAddrVec,
    /// True once the active manager serves requests.
    pub available: bool,
    /// The name without its prefix: `x` of `mgr.x`.
    pub active_name: String,
    pub active_change: UTime,
    pub active_mgr_features: u64,
    pub standbys: BTreeMap<u64, StandbyInfo>,
    /// Modules that an administrator enabled.
    pub modules: BTreeSet<String>,
    /// By release number.
    pub always_on_modules: BTreeMap<u32, BTreeSet<String>>,
    pub force_disabled_modules: BTreeSet<String>,
    pub available_modules: Vec<ModuleInfo>,
    /// Module -> URI of its service.
    pub services: BTreeMap<String, String>,
    pub last_failure_osd_epoch: Epoch,
    /// RADOS clients of the active manager, to be blocklisted when it fails.
    pub clients: Vec<(String, EntityAddrVec)>,
    pub flags: u64,
}

/// `MgrMap::StandbyInfo`
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StandbyInfo {
    pub gid: u64,
    pub name: String,
    pub available_modules: Vec<ModuleInfo>,
    pub mgr_features: u64,
}

/// `MgrMap::ModuleInfo`
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ModuleInfo {
    pub name: String,
    pub can_run: bool,
    pub error_string: String,
    pub module_options: BTreeMap<String, ModuleOption>,
}

/// `MgrMap::ModuleOption`
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ModuleOption {
    pub name: String,
    pub kind: u8,
    pub level: u8,
    pub flags: u32,
    pub default_value: String,
    pub min: String,
    pub max: String,
    pub enum_allowed: BTreeSet<String>,
    pub description: String,
    pub long_description: String,
    pub tags: BTreeSet<String>,
    pub see_also: BTreeSet<String>,
}
