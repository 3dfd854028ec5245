//! Progress events: data movement in progress, its start, and its completed fraction.
//!
//! An event begins when an OSD leaves or joins, or when groups are not clean for another reason, and ends
//! when all groups are clean. Its fraction compares the remaining work with the most work seen: copies that
//! are missing or misplaced, and groups that are not clean.

use crate::statistics::Statistics;
use engine::Time;
use maps::OsdMap;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use types::OsdId;
use wire::internal::pg_state;

/// Bounds of the completed events that are remembered, and of those in progress.
const COMPLETED_MAX: usize = 50;
const EVENTS_MAX: usize = 20;
/// Time after which the OSDs' reports reflect a change of the map.
const SETTLING: Duration = Duration::from_secs(15);

/// The events in progress and the completed ones; see `ceph progress`.
#[derive(Debug, Clone, Default)]
pub struct Progress {
    events: Vec<Event>,
    completed: VecDeque<Event>,
    /// Each OSD's (up, in) at the last observation.
    seen: BTreeMap<OsdId, (bool, bool)>,
    count: u64,
    is_watching: bool,
}

/// One period of data movement.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// Unique among the events of this monitor.
    pub id: String,
    pub message: String,
    pub started: Time,
    pub finished: Option<Time>,
    /// The most work seen, and the remaining work: copies and groups.
    most: u64,
    left: u64,
}

impl Event {
    /// Completed fraction from zero to one.
    pub fn fraction(&self) -> f64 {
        assert!(self.left <= self.most, "the most work is at least what is left");
        if self.most == 0 { 0.0 } else { 1.0 - self.left as f64 / self.most as f64 }
    }

    /// Estimated remaining time at the pace so far; `None` before there is any progress, or if it is longer
    /// than can be expressed.
    pub fn remaining(&self, now: Time) -> Option<Duration> {
        let fraction = self.fraction();
        let passed = now.since(self.started).as_secs_f64();
        let seconds = (fraction > 0.0).then(|| passed * (1.0 - fraction) / fraction)?;
        Duration::try_from_secs_f64(seconds).ok()
    }
}

impl Progress {
    /// Events in progress that have caused work.
    pub fn events(&self) -> impl Iterator<Item = &Event> {
        self.events.iter().filter(|event| event.most > 0)
    }

    /// Completed events, the oldest first.
    pub fn completed(&self) -> impl Iterator<Item = &Event> {
        self.completed.iter()
    }

    /// Updates the events from the map and the OSDs' reports. Called periodically by the leader.
    pub fn observe(&mut self, now: Time, map: &OsdMap, stats: &Statistics) {
        for cause in self.causes(map) {
            self.begin(now, cause);
        }
        let left = left(map, stats);
        // Groups without a current report may need more work.
        let is_known = stats.pg_states(map).all(|(_, state)| state & !pg_state::STALE != 0);
        if left > 0 && self.events.is_empty() {
            self.begin(now, "Global Recovery Event".to_owned());
        }
        for event in &mut self.events {
            event.left = left;
            event.most = event.most.max(left);
        }
        let is_over = |event: &Event| left == 0 && is_known && now.since(event.started) >= SETTLING;
        let (over, going) = std::mem::take(&mut self.events).into_iter().partition(is_over);
        self.events = going;
        let over: Vec<Event> = over;
        // Events that moved no data are dropped.
        for event in over.into_iter().filter(|event| event.most > 0) {
            self.completed.push_back(Event { finished: Some(now), ..event });
        }
        while self.completed.len() > COMPLETED_MAX {
            self.completed.pop_front();
        }
    }

    /// Descriptions of the changes among OSDs since the last observation.
    fn causes(&mut self, map: &OsdMap) -> Vec<String> {
        let now: BTreeMap<OsdId, (bool, bool)> =
            map.existing_osds().map(|(osd, known)| (osd, (known.is_up(), known.is_in()))).collect();
        let before = std::mem::replace(&mut self.seen, now);
        let is_first = !std::mem::replace(&mut self.is_watching, true);
        let mut causes = Vec::new();
        for (osd, (is_up, is_in)) in self.seen.iter().filter(|_| !is_first) {
            match before.get(osd) {
                Some((_, true)) if !is_in => {
                    causes.push(format!("Rebalancing after osd.{osd} marked out"));
                }
                Some((_, false)) | None if *is_in => {
                    causes.push(format!("Rebalancing after osd.{osd} marked in"));
                }
                Some((false, _)) if *is_up => {
                    causes.push(format!("Recovering after osd.{osd} came back"));
                }
                _ => {}
            }
        }
        causes
    }

    fn begin(&mut self, now: Time, message: String) {
        if self.events.len() < EVENTS_MAX && !self.events.iter().any(|one| one.message == message) {
            self.count += 1;
            let id = format!("{:016x}-{:04x}", now.0, self.count);
            assert!(!message.is_empty(), "an event says why");
            self.events.push(Event { id, message, started: now, finished: None, most: 0, left: 0 });
        }
    }
}

/// The remaining work. Groups without any report are not counted: they are being created.
fn left(map: &OsdMap, stats: &Statistics) -> u64 {
    let totals = stats.totals();
    let unclean = stats
        .pg_states(map)
        .filter(|(_, state)| *state != 0 && state & (pg_state::CLEAN | pg_state::CREATING) == 0);
    totals.degraded + totals.misplaced + unclean.count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use maps::{Osd, OsdState, Pool, PoolType, WEIGHT_IN};
    use types::{PgId, PoolId};
    use wire::internal::{PgStat, StatsReport};

    fn map(osds: usize) -> OsdMap {
        let mut map = OsdMap::new(types::Uuid::default());
        let state = OsdState::EXISTS | OsdState::UP;
        map.osds = vec![Osd { state, weight: WEIGHT_IN, ..Osd::default() }; osds];
        map.pools.insert(PoolId(1), Pool::new(PoolType::Replicated, 2, 1, 0));
        map
    }

    fn misplaced(stats: &mut Statistics, map: &OsdMap, misplaced: u64) {
        let clean = if misplaced == 0 { pg_state::CLEAN } else { pg_state::REMAPPED };
        let stat = PgStat {
            state: pg_state::ACTIVE | clean,
            misplaced,
            reported_sequence: stats.version,
            ..PgStat::default()
        };
        let pgs = [(PgId { pool: PoolId(1), seed: 0 }, stat)].into();
        stats.record(Time(1), map, StatsReport { osd: OsdId(0), pgs, ..StatsReport::default() });
    }

    #[test]
    fn an_end_that_is_too_far_away_is_not_estimated() {
        let (most, left) = (1 << 60, (1 << 60) - 128);
        let message = "Global Recovery Event".to_owned();
        let started = Time::ZERO;
        let event = Event { id: String::new(), message, started, finished: None, most, left };
        assert!(event.fraction() > 0.0);
        assert_eq!(event.remaining(Time(1_000_000 * 1_000_000_000)), None);
    }

    #[test]
    fn an_event_follows_what_is_left_to_do_and_ends_when_all_is_clean() {
        let second = |n: u64| Time(n * 1_000_000_000);
        let (mut progress, mut stats, mut map) =
            (Progress::default(), Statistics::default(), map(3));
        misplaced(&mut stats, &map, 0);
        progress.observe(second(1), &map, &stats);
        assert_eq!(progress.events().count(), 0);
        map.osds[2].weight = 0;
        misplaced(&mut stats, &map, 99);
        progress.observe(second(2), &map, &stats);
        misplaced(&mut stats, &map, 24);
        progress.observe(second(17), &map, &stats);
        let event = progress.events().next().unwrap();
        assert_eq!(event.message, "Rebalancing after osd.2 marked out");
        assert_eq!(
            (event.fraction(), event.remaining(second(17))),
            (0.75, Some(Duration::from_secs(5)))
        );
        misplaced(&mut stats, &map, 0);
        progress.observe(second(30), &map, &stats);
        assert_eq!(progress.events().count(), 0);
        assert_eq!(progress.completed().next().unwrap().finished, Some(second(30)));
    }

    #[test]
    fn what_moves_nothing_leaves_no_trace() {
        let second = |n: u64| Time(n * 1_000_000_000);
        let (mut progress, mut stats, mut map) =
            (Progress::default(), Statistics::default(), map(2));
        misplaced(&mut stats, &map, 0);
        progress.observe(second(1), &map, &stats);
        map.osds[1].weight = 0;
        progress.observe(second(2), &map, &stats);
        assert_eq!((progress.events().count(), progress.events.len()), (0, 1));
        progress.observe(second(20), &map, &stats);
        assert_eq!((progress.events.len(), progress.completed().count()), (0, 0));
    }
}
