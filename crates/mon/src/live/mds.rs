//! Reports of metadata servers: when each was heard of, and what it complains about.

use engine::Time;
use maps::MdsGid;
use std::collections::BTreeMap;
use std::time::Duration;
use wire::{MdsHealth, MdsHealthMetric};

/// Reports of the metadata servers of the map; known at the leader only.
#[derive(Debug, Clone, Default)]
pub struct MdsWatch {
    reports: BTreeMap<MdsGid, Report>,
}

#[derive(Debug, Clone)]
struct Report {
    /// Time of the last beacon, or from which the server is awaited.
    last: Time,
    health: Vec<MdsHealthMetric>,
}

impl MdsWatch {
    /// Awaits the beacons of servers from now on, unless it does already.
    pub fn expect(&mut self, now: Time, servers: impl Iterator<Item = MdsGid>) {
        for gid in servers {
            self.reports.entry(gid).or_insert_with(|| Report { last: now, health: Vec::new() });
        }
    }

    /// Takes a beacon of a server.
    pub fn heard(&mut self, now: Time, gid: MdsGid, health: &MdsHealth) {
        self.reports.insert(gid, Report { last: now, health: health.metrics.clone() });
    }

    /// Moves the times of beacons forward by a time in which this monitor received none.
    pub fn postpone(&mut self, now: Time, late: Duration) {
        self.reports.values_mut().for_each(|report| report.last = (report.last + late).min(now));
    }

    /// Forgets servers.
    pub fn retain(&mut self, is_known: impl Fn(MdsGid) -> bool) {
        self.reports.retain(|gid, _| is_known(*gid));
    }

    /// Time since the last beacon; zero for a server that is not awaited yet.
    pub fn silence(&self, now: Time, gid: MdsGid) -> Duration {
        self.reports.get(&gid).map_or(Duration::ZERO, |report| now.since(report.last))
    }

    /// Complaints of a server.
    pub fn complaints(&self, gid: MdsGid) -> &[MdsHealthMetric] {
        self.reports.get(&gid).map_or(&[], |report| &report.health)
    }

    /// The servers whose beacons are awaited.
    pub fn gids(&self) -> impl Iterator<Item = MdsGid> {
        self.reports.keys().copied()
    }
}
