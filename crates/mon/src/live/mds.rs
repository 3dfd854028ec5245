//! Reports of metadata servers: when each was heard of, what it complains about, and its counters.

use engine::Time;
use maps::MdsGid;
use std::collections::BTreeMap;
use std::time::Duration;
use wire::{MdsCounters, MdsHealth, MdsHealthMetric};

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
    activity: Option<MdsActivity>,
}

/// The activity of a server with a rank, by its last two reports.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MdsActivity {
    /// The last counters.
    pub counters: MdsCounters,
    /// Requests of clients per second between the last two reports; zero while there is one.
    pub requests_per_second: f64,
    /// Time of the last report.
    when: Time,
}

impl Report {
    fn new(now: Time) -> Self {
        Report { last: now, health: Vec::new(), activity: None }
    }
}

impl MdsWatch {
    /// Awaits the beacons of servers from now on, unless it does already.
    pub fn expect(&mut self, now: Time, servers: impl Iterator<Item = MdsGid>) {
        for gid in servers {
            self.reports.entry(gid).or_insert_with(|| Report::new(now));
        }
    }

    /// Takes a beacon of a server.
    pub fn heard(&mut self, now: Time, gid: MdsGid, health: &MdsHealth) {
        let report = self.reports.entry(gid).or_insert_with(|| Report::new(now));
        (report.last, report.health) = (now, health.metrics.clone());
    }

    /// Takes the counters of a server that is awaited.
    pub fn counted(&mut self, now: Time, gid: MdsGid, counters: MdsCounters) {
        let Some(report) = self.reports.get_mut(&gid) else { return };
        let rate = |before: &MdsActivity| {
            let requests = counters.requests.saturating_sub(before.counters.requests);
            let seconds = now.since(before.when).as_secs_f64();
            if seconds > 0.0 { requests as f64 / seconds } else { before.requests_per_second }
        };
        let requests_per_second = report.activity.as_ref().map_or(0.0, rate);
        report.activity = Some(MdsActivity { counters, requests_per_second, when: now });
    }

    /// The activity of a server, if it has reported any.
    pub fn activity(&self, gid: MdsGid) -> Option<&MdsActivity> {
        self.reports.get(&gid)?.activity.as_ref()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_that_between_the_last_two_reports() {
        let mut watch = MdsWatch::default();
        let at = |seconds: u64| Time::ZERO + Duration::from_secs(seconds);
        let counted = |requests| MdsCounters { requests, ..MdsCounters::default() };
        watch.counted(at(1), 7, counted(5));
        assert_eq!(watch.activity(7), None, "no such server is awaited");
        watch.expect(at(1), [7].into_iter());
        for (seconds, requests, rate) in [(1, 5, 0.0), (6, 105, 20.0), (11, 105, 0.0), (16, 3, 0.0)]
        {
            watch.counted(at(seconds), 7, counted(requests));
            watch.heard(at(seconds), 7, &MdsHealth::default());
            let activity = watch.activity(7).expect("a beacon leaves it");
            assert_eq!(
                (activity.counters.requests, activity.requests_per_second),
                (requests, rate)
            );
        }
    }
}
