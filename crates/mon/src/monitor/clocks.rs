//! Clocks of monitors: how far they are apart, and what may be believed of them.
//!
//! The leader asks each monitor that has a session with it what time it is there. The answer was given some time
//! between question and arrival, so it is known up to half of that.
//!
//! Entries of the blocklist end by the clock of the monitor that leads. The next one's may be ahead. So the store keeps
//! what the leader's clock showed lately ([`keys::CLOCK`]), and the time of an entry that is left counts from there:
//! a leader whose clock has gone much further than leaders change in puts all entries off by as much. If the monitors
//! were just away, a client stays fenced for as long as they were; the other way round it would write again too early.

use super::{Monitor, Skew};
use crate::change::Change;
use crate::keys;
use crate::state::State;
use engine::{ConnId, Time};
use maps::{Blocklist, OsdMap};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use types::{EntityAddr, UTime};
use wire::MessageBody;
use wire::forward::{ClockAsked, ClockTold};

/// How often clocks are compared.
const CHECK_INTERVAL: Duration = Duration::from_secs(10);
/// How often the store is told what time it is, while there is a blocklist.
const STAMP_INTERVAL: Duration = Duration::from_secs(20);
/// A clock that has gone further since the last stamp is not believed: more than the interval, a change of leader and
/// what a busy store takes.
const STAMP_AGE_MAX: Duration = Duration::from_secs(60);

#[derive(Debug, Default)]
pub(super) struct ClockChecks {
    due: Time,
}

impl Monitor {
    /// Once per tick of the leader.
    pub(super) fn check_clocks(&mut self, now: Time) {
        if now < self.clock_checks.due {
            return;
        }
        self.clock_checks.due = now + CHECK_INTERVAL;
        let present = &self.state.present;
        self.overview.skews.retain(|name, _| present.contains_key(name));
        for conn in self.monitor_sessions() {
            self.send(conn, ClockAsked { sent: now.0 }.encode(0));
        }
    }

    /// Another monitor says what time it is there.
    pub(super) fn take_clock(&mut self, now: Time, conn: ConnId, told: &ClockTold) {
        let Some(name) = self.name_of_monitor(conn) else { return };
        let seconds = |nanos: i128| nanos as f64 / 1e9;
        let (sent, there, arrived) =
            (i128::from(told.sent), i128::from(told.clock), i128::from(now.0));
        let skew = Skew {
            seconds: seconds(there - (sent + arrived) / 2),
            latency: seconds(arrived - sent).abs() / 2.0,
        };
        self.overview.skews.insert(name, skew);
    }

    pub(super) fn plan_blocklist(&self, now: Time, change: &mut Change) {
        let (map, wall) = (&self.state.osdmap, now.wall());
        if map.blocklist.is_empty() && map.range_blocklist.is_empty() {
            return;
        }
        let Some(clock) = &self.state.clock else { return change.stamp_clock(&self.state) };
        let passed = Duration::from_nanos(wall.as_nanos().saturating_sub(clock.shows));
        if passed > STAMP_AGE_MAX {
            change.put_clock(&clock.put_off(map, wall, passed));
            let seconds = passed.as_secs();
            return change.note(
                3,
                format!(
                    "the blocklist is put off by {seconds} s: monitors were away for so long, or the clock of this \
                     one is ahead of the clock of the one that led before"
                ),
            );
        }
        if passed >= STAMP_INTERVAL || clock.shows > wall.as_nanos() {
            change.stamp_clock(&self.state);
        }
        let expired = |list: &Blocklist| -> Vec<EntityAddr> {
            let is_over = |(addr, until): &(&EntityAddr, &UTime)| {
                clock.end_of(addr, **until) < wall.as_nanos()
            };
            list.iter().filter(is_over).map(|(addr, _)| *addr).collect()
        };
        let (addresses, ranges) = (expired(&map.blocklist), expired(&map.range_blocklist));
        if !addresses.is_empty() || !ranges.is_empty() {
            let incremental = change.osdmap(&self.state);
            incremental.old_blocklist = addresses;
            incremental.old_range_blocklist = ranges;
        }
    }
}

/// What the store knows of the leader's clock.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LeaderClock {
    /// What it showed lately, in nanoseconds since 1970.
    pub shows: u64,
    /// When entries of the blocklist that were put off end; what a map says of an entry stays.
    #[serde(default)]
    pub ends: BTreeMap<String, u64>,
}

impl LeaderClock {
    fn end_of(&self, addr: &EntityAddr, until: UTime) -> u64 {
        let put_off = if self.ends.is_empty() { None } else { self.ends.get(&addr.to_string()) };
        put_off.copied().unwrap_or(0).max(until.as_nanos())
    }

    fn put_off(&self, map: &OsdMap, wall: UTime, by: Duration) -> LeaderClock {
        let by = u64::try_from(by.as_nanos()).unwrap_or(u64::MAX);
        let later = |(addr, until): (&EntityAddr, &UTime)| {
            (addr.to_string(), self.end_of(addr, *until).saturating_add(by))
        };
        let all = map.blocklist.iter().chain(&map.range_blocklist);
        LeaderClock { shows: wall.as_nanos(), ends: all.map(later).collect() }
    }

    /// The same at another time, without the entries that are gone.
    fn showing(&self, wall: UTime, map: &OsdMap) -> LeaderClock {
        let mut ends = self.ends.clone();
        if !ends.is_empty() {
            let all = map.blocklist.keys().chain(map.range_blocklist.keys());
            let listed: BTreeSet<String> = all.map(EntityAddr::to_string).collect();
            ends.retain(|addr, _| listed.contains(addr));
        }
        LeaderClock { shows: wall.as_nanos(), ends }
    }
}

impl Change {
    /// Tells the store what the leader's clock shows.
    pub fn stamp_clock(&mut self, state: &State) {
        let known = state.clock.clone().unwrap_or_default();
        self.put_clock(&known.showing(self.now(), &state.osdmap));
    }

    /// An entry that is listed already is to end later. In a map it keeps the time with which it came.
    pub fn extend_blocklist(&mut self, state: &State, addr: &EntityAddr, until: UTime) {
        let known = state.clock.clone().unwrap_or_default();
        if known.end_of(addr, until) > until.as_nanos() {
            return;
        }
        let mut clock = known.showing(self.now(), &state.osdmap);
        clock.ends.insert(addr.to_string(), until.as_nanos());
        self.put_clock(&clock);
    }

    fn put_clock(&mut self, clock: &LeaderClock) {
        self.put(keys::CLOCK, serde_json::to_vec(clock).unwrap_or_default());
    }
}

/// How far monitors' clocks may be apart before health speaks of it.
pub(crate) fn drift_allowed(state: &State) -> f64 {
    state.options().real("mon_clock_drift_allowed")
}
