//! The leader's clock, by which entries of the blocklist expire.

use maps::OsdMap;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use types::{EntityAddr, UTime};

/// A clock that has advanced further since the last stored reading is not trusted. Covers the interval of
/// readings, a change of leader and the delays of a busy store.
const STAMP_AGE_MAX: Duration = Duration::from_secs(60);

/// The leader's clock, as stored under [`crate::keys::CLOCK`].
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LeaderClock {
    /// A recent reading, in nanoseconds since 1970.
    pub shows: u64,
    /// The expiry times of postponed blocklist entries by address, in nanoseconds since 1970. Maps keep the
    /// expiry time that an entry began with.
    #[serde(default)]
    pub ends: BTreeMap<String, u64>,
}

impl LeaderClock {
    /// The time at which an entry expires that was to expire at `until`.
    pub fn end_of(&self, addr: &EntityAddr, until: UTime) -> u64 {
        let put_off = if self.ends.is_empty() { None } else { self.ends.get(&addr.to_string()) };
        put_off.copied().unwrap_or(0).max(until.as_nanos())
    }

    /// The time that has passed since the reading.
    pub fn age(&self, wall: UTime) -> Duration {
        Duration::from_nanos(wall.as_nanos().saturating_sub(self.shows))
    }

    /// Whether the clock has advanced by so much that entries may not expire by it.
    pub fn is_ahead(&self, wall: UTime) -> bool {
        self.age(wall) > STAMP_AGE_MAX
    }

    /// The next reading. If the clock is ahead, all entries are postponed by the difference.
    pub fn next(&self, wall: UTime, map: &OsdMap) -> LeaderClock {
        match self.is_ahead(wall) {
            true => self.put_off(map, wall, self.age(wall)),
            false => self.showing(wall, map),
        }
    }

    /// The same for another reading, with all entries postponed.
    fn put_off(&self, map: &OsdMap, wall: UTime, by: Duration) -> LeaderClock {
        let by = u64::try_from(by.as_nanos()).unwrap_or(u64::MAX);
        let later = |(addr, until): (&EntityAddr, &UTime)| {
            (addr.to_string(), self.end_of(addr, *until).saturating_add(by))
        };
        let all = map.blocklist.iter().chain(&map.range_blocklist);
        LeaderClock { shows: wall.as_nanos(), ends: all.map(later).collect() }
    }

    /// The same for another reading, without the entries that are no longer in the map.
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
