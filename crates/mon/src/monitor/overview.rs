//! The owner of what [`Live`] shows, until each structure belongs to the service that fills it.

use super::Settings;
use crate::live::{Identity, Live, Operations, OsdWatch, PeerSummary, Skew, StoreTroubles};
use crate::services::ServiceMap;
use crate::statistics::Statistics;
use std::collections::BTreeMap;

/// Volatile state by part; see the fields of [`Live`].
#[derive(Debug, Clone, Default)]
pub(crate) struct Overview {
    pub identity: Identity,
    pub osds: OsdWatch,
    pub daemons: ServiceMap,
    pub clocks: BTreeMap<String, Skew>,
    pub peers: BTreeMap<u64, PeerSummary>,
    pub store: StoreTroubles,
    pub operations: Operations,
}

impl Overview {
    /// The overview of a monitor that has just started.
    pub fn new(settings: &Settings) -> Self {
        let identity = Identity {
            mon_name: settings.mon_name.clone(),
            mgr_name: settings.mgr_name.clone(),
            hostname: settings.hostname.clone(),
            ..Identity::default()
        };
        Overview { identity, ..Overview::default() }
    }

    /// Facts that commands and health checks read, with the reports of OSDs.
    pub fn live<'a>(&'a self, stats: &'a Statistics) -> Live<'a> {
        Live {
            identity: &self.identity,
            stats,
            osds: &self.osds,
            daemons: &self.daemons,
            clocks: &self.clocks,
            peers: &self.peers,
            store: &self.store,
            operations: &self.operations,
        }
    }
}
