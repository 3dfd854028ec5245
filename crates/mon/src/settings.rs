//! The configuration that a monitor needs before it reads its store.

use auth::CephxPolicy;
use std::collections::BTreeMap;
use types::{EntityAddrVec, ServedVersions};

/// How clients authenticate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuthMode {
    Cephx,
    /// Names are trusted without proof. Only if configured explicitly.
    None,
}

/// The configuration that a monitor needs before it reads its store.
#[derive(Debug, Clone)]
pub struct Settings {
    /// `a` of mon.a
    pub mon_name: String,
    /// Addresses at which the monitor listens.
    pub mon_addrs: EntityAddrVec,
    /// Name of the manager that this monitor stands in for when it leads.
    pub mgr_name: String,
    pub mgr_addrs: EntityAddrVec,
    pub auth: AuthMode,
    /// Connection modes of msgr2 that are accepted (1 crc, 2 secure).
    pub connection_modes: Vec<u32>,
    /// Lifetimes of tickets, and accepted key types.
    pub cephx: CephxPolicy,
    /// URIs of what is served beside the monitor, by the name of Ceph's module for it (`prometheus`):
    /// `mgr services` shows those of the leader.
    pub services: BTreeMap<String, String>,
    /// Shown by `node ls` and in the daemon's metadata.
    pub hostname: String,
    /// The cluster versions that the monitor serves.
    pub served: ServedVersions,
}
