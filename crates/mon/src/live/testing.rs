//! Facts that commands and health checks read, for tests of them: none, unless a test sets it.

use super::{Identity, Live, MdsWatch, Operations, OsdWatch, PeerSummary, Skew, StoreTroubles};
use crate::service_map::ServiceMap;
use crate::state::Overrides;
use crate::statistics::Statistics;
use crate::volume_work::VolumeWork;
use std::collections::BTreeMap;

/// The structures behind [`Live`], except the reports of OSDs.
#[derive(Debug, Default)]
pub(crate) struct Overview {
    pub identity: Identity,
    pub running: Overrides,
    pub osds: OsdWatch,
    pub mds: MdsWatch,
    pub volumes: VolumeWork,
    pub daemons: ServiceMap,
    pub clocks: BTreeMap<String, Skew>,
    pub peers: BTreeMap<u64, PeerSummary>,
    pub store: StoreTroubles,
    pub operations: Operations,
}

impl Overview {
    /// The view of commands and health checks.
    pub fn live<'a>(&'a self, stats: &'a Statistics) -> Live<'a> {
        Live {
            identity: &self.identity,
            running: &self.running,
            stats,
            osds: &self.osds,
            mds: &self.mds,
            volumes: &self.volumes,
            daemons: &self.daemons,
            clocks: &self.clocks,
            peers: &self.peers,
            store: &self.store,
            operations: &self.operations,
        }
    }
}
