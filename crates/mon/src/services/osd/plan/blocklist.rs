//! Expiry of blocklist entries, in spite of clock skews between monitors.
//!
//! Entries of the blocklist expire by the clock of the leader, and the clock of the next leader may be ahead.
//! So the store keeps a recent reading of the leader's clock ([`crate::keys::CLOCK`]), and the remaining time
//! of an entry counts from there: if the clock has advanced by much more than a change of leader takes, the
//! leader postpones all entries by as much. If the monitors were merely down, a client stays fenced for as
//! long as they were; the other choice could let it write too early.

use crate::change::Change;
use crate::state::State;
use engine::Time;
use maps::Blocklist;
use std::time::Duration;
use types::{EntityAddr, UTime};

/// Interval at which the leader stores a reading of its clock, while the blocklist is not empty.
const STAMP_INTERVAL: Duration = Duration::from_secs(20);

/// Removes expired entries from the blocklist, and stores a reading of the clock if that is due.
pub(super) fn plan(state: &State, now: Time, change: &mut Change) {
    let (map, wall) = (&state.osdmap, now.wall());
    if map.blocklist.is_empty() && map.range_blocklist.is_empty() {
        return;
    }
    let Some(clock) = &state.members.clock else { return change.stamp_clock(state) };
    if clock.is_ahead(wall) {
        return change.stamp_clock(state);
    }
    if clock.age(wall) >= STAMP_INTERVAL || clock.shows > wall.as_nanos() {
        change.stamp_clock(state);
    }
    let expired = |list: &Blocklist| -> Vec<EntityAddr> {
        let is_over =
            |(addr, until): &(&EntityAddr, &UTime)| clock.end_of(addr, **until) < wall.as_nanos();
        list.iter().filter(is_over).map(|(addr, _)| *addr).collect()
    };
    let (addresses, ranges) = (expired(&map.blocklist), expired(&map.range_blocklist));
    if !addresses.is_empty() || !ranges.is_empty() {
        let incremental = change.osdmap(state);
        incremental.old_blocklist = addresses;
        incremental.old_range_blocklist = ranges;
    }
}
