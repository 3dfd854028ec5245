//! `MgrMap`: the address of the active manager, and its modules and services.

mod encoding;

use std::collections::{BTreeMap, BTreeSet};
use types::{EntityAddrVec, Epoch, UTime};

/// `MgrMap`
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MgrMap {
    /// Version of the map.
    pub epoch: Epoch,
    /// Global id of the active manager; zero if there is none.
    pub active_gid: u64,
    /// Addresses of the active manager.
    pub active_addrs: EntityAddrVec,
    /// True once the active manager serves requests.
    pub available: bool,
    /// The name without its prefix: `x` of `mgr.x`.
    pub active_name: String,
    /// Time when the active manager last changed.
    pub active_change: UTime,
    /// Feature bits of the active manager.
    pub active_mgr_features: u64,
    /// Standby managers by global id.
    pub standbys: BTreeMap<u64, StandbyInfo>,
    /// Modules that an administrator enabled.
    pub modules: BTreeSet<String>,
    /// By release number.
    pub always_on_modules: BTreeMap<u32, BTreeSet<String>>,
    /// Modules that are never run, also if they are always on.
    pub force_disabled_modules: BTreeSet<String>,
    /// Modules of the active manager, with their options.
    pub available_modules: Vec<ModuleInfo>,
    /// Module -> URI of its service.
    pub services: BTreeMap<String, String>,
    /// Epoch of the OSD map that has the blocklist entry of the last manager that failed.
    pub last_failure_osd_epoch: Epoch,
    /// RADOS clients of the active manager, to be blocklisted when it fails.
    pub clients: Vec<(String, EntityAddrVec)>,
    /// `MgrMap::FLAG_*`
    pub flags: u64,
}

/// `MgrMap::StandbyInfo`
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StandbyInfo {
    /// Global id.
    pub gid: u64,
    /// The name without its prefix: `x` of `mgr.x`.
    pub name: String,
    /// Modules of this manager, with their options.
    pub available_modules: Vec<ModuleInfo>,
    /// Feature bits of this manager.
    pub mgr_features: u64,
}

/// `MgrMap::ModuleInfo`
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ModuleInfo {
    /// Name of the module.
    pub name: String,
    /// False if the module cannot run.
    pub can_run: bool,
    /// Reason why it cannot run.
    pub error_string: String,
    /// Options by name.
    pub module_options: BTreeMap<String, ModuleOption>,
}

/// `MgrMap::ModuleOption`
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ModuleOption {
    /// Name of the option.
    pub name: String,
    /// Type of the value (`Option::type_t`).
    pub kind: u8,
    /// Level of the option (`Option::level_t`).
    pub level: u8,
    /// `Option::flag_t`
    pub flags: u32,
    /// Default value as text.
    pub default_value: String,
    /// Least value as text; empty if there is none.
    pub min: String,
    /// Greatest value as text; empty if there is none.
    pub max: String,
    /// Allowed values; empty if all are.
    pub enum_allowed: BTreeSet<String>,
    /// Description in one line.
    pub description: String,
    /// Description at length.
    pub long_description: String,
    /// Keywords for searches.
    pub tags: BTreeSet<String>,
    /// Names of related options.
    pub see_also: BTreeSet<String>,
}
