//! Clock skew between monitors, and the expiry of blocklist entries in spite of it.
//!
//! The leader requests the time of each monitor that has a session with it. The answer was taken at an
//! unknown moment of the round trip, so it is accurate to half of that.
//!
//! Entries of the blocklist expire by the clock of the leader, and the clock of the next leader may be ahead.
//! So the store keeps a recent reading of the leader's clock ([`keys::CLOCK`]), and the remaining time of an
//! entry counts from there: if the clock has advanced by much more than a change of leader takes, the leader
//! postpones all entries by as much. If the monitors were merely down, a client stays fenced for as long as
//! they were; the other choice could let it write too early.

use super::Monitor;
use crate::change::Change;
use crate::live::Skew;
use engine::{ConnId, Time};
use maps::Blocklist;
use std::time::Duration;
use types::{EntityAddr, UTime};
use wire::MessageBody;
use wire::forward::{ClockAsked, ClockTold};

/// Interval at which clocks are compared.
const CHECK_INTERVAL: Duration = Duration::from_secs(10);
/// Interval at which the leader stores a reading of its clock, while the blocklist is not empty.
const STAMP_INTERVAL: Duration = Duration::from_secs(20);
/// A clock that has advanced further since the last stored reading is not trusted. Covers the interval, a
/// change of leader and the delays of a busy store.
const STAMP_AGE_MAX: Duration = Duration::from_secs(60);

/// The time of the next comparison of clocks.
#[derive(Debug, Default)]
pub(super) struct ClockChecks {
    due: Time,
}

impl Monitor {
    /// Requests the other monitors' clocks, if that is due. Called in every tick of the leader.
    pub(super) fn check_clocks(&mut self, now: Time) {
        if now < self.clock_checks.due {
            return;
        }
        self.clock_checks.due = now + CHECK_INTERVAL;
        let present = &self.state.members.present;
        self.overview.clocks.retain(|name, _| present.contains_key(name));
        for conn in self.monitor_sessions() {
            self.send(conn, ClockAsked { sent: now.0 }.encode(0));
        }
    }

    /// Handles the clock reading of another monitor.
    pub(super) fn take_clock(&mut self, now: Time, conn: ConnId, told: &ClockTold) {
        let Some(name) = self.name_of_monitor(conn) else { return };
        let seconds = |nanos: i128| nanos as f64 / 1e9;
        let (sent, there, arrived) =
            (i128::from(told.sent), i128::from(told.clock), i128::from(now.0));
        let skew = Skew {
            seconds: seconds(there - (sent + arrived) / 2),
            latency: seconds(arrived - sent).abs() / 2.0,
        };
        self.overview.clocks.insert(name, skew);
    }

    /// Removes expired entries from the blocklist, and stores a reading of the clock if that is due.
    pub(super) fn plan_blocklist(&self, now: Time, change: &mut Change) {
        let (map, wall) = (&self.state.osdmap, now.wall());
        if map.blocklist.is_empty() && map.range_blocklist.is_empty() {
            return;
        }
        let Some(clock) = &self.state.members.clock else { return change.stamp_clock(&self.state) };
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
