//! The owner of what [`Live`] shows, until each structure belongs to the service that fills it.

use crate::live::{Identity, Live, Operations, OsdWatch, PeerSummary, Skew, StoreTroubles};
use crate::services::ServiceMap;
use crate::state::Overrides;
use crate::statistics::Statistics;
use std::collections::BTreeMap;

/// Volatile state by part; see the fields of [`Live`].
#[derive(Debug, Clone, Default)]
pub(crate) struct Overview {
    pub identity: Identity,
    pub running: Overrides,
    pub osds: OsdWatch,
    pub daemons: ServiceMap,
    pub clocks: BTreeMap<String, Skew>,
}

impl Overview {
    /// The overview of a monitor that has just started.
    pub fn new(identity: Identity) -> Self {
        Overview { identity, ..Overview::default() }
    }

    /// The view of commands and health checks, with the reports of OSDs and the peers of open sessions.
    pub fn live<'a>(
        &'a self,
        stats: &'a Statistics,
        peers: &'a BTreeMap<u64, PeerSummary>,
        store: &'a StoreTroubles,
        operations: &'a Operations,
    ) -> Live<'a> {
        Live {
            identity: &self.identity,
            running: &self.running,
            stats,
            osds: &self.osds,
            daemons: &self.daemons,
            clocks: &self.clocks,
            peers,
            store,
            operations,
        }
    }

    /// The same without any open session.
    #[cfg(test)]
    pub fn live_without_sessions<'a>(&'a self, stats: &'a Statistics) -> Live<'a> {
        static NONE: BTreeMap<u64, PeerSummary> = BTreeMap::new();
        static STORE: StoreTroubles = StoreTroubles {
            unreachable: None,
            unwritable: None,
            unread: None,
            undecodable: None,
            refused_change: None,
            went_back: None,
        };
        static OPERATIONS: std::sync::LazyLock<Operations> =
            std::sync::LazyLock::new(Operations::default);
        self.live(stats, &NONE, &STORE, &OPERATIONS)
    }
}
