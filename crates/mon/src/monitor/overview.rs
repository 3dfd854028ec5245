//! What commands may know of the running monitor beside its durable state.

use super::Settings;
use super::balance::BalancerStatus;
use crate::progress::Progress;
use engine::Time;
use std::collections::BTreeMap;
use types::{EntityAddrVec, EntityName, EntityType, OsdId};

#[derive(Debug, Clone, Default)]
pub struct Overview {
    pub mon_name: String,
    pub mgr_name: String,
    pub hostname: String,
    pub started: Time,
    /// Open sessions by number, for `features` and `sessions`.
    pub peers: BTreeMap<u64, PeerSummary>,
    /// OSDs that may not boot for a while because they flap.
    pub kept_down: Vec<OsdId>,
    pub progress: Progress,
    pub balancer: BalancerStatus,
    /// Why and since when the control store does not answer this monitor.
    pub store_trouble: Option<StoreTrouble>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreTrouble {
    pub since: Time,
    pub reason: String,
}

#[derive(Debug, Clone)]
pub struct PeerSummary {
    pub kind: EntityType,
    pub name: EntityName,
    pub addrs: EntityAddrVec,
    pub features: u64,
    pub global_id: u64,
}

impl Overview {
    pub fn new(settings: &Settings) -> Self {
        Overview {
            mon_name: settings.mon_name.clone(),
            mgr_name: settings.mgr_name.clone(),
            hostname: settings.hostname.clone(),
            ..Overview::default()
        }
    }
}
