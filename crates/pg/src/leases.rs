//! Read leases of prior intervals.
//!
//! A primary answers reads only while all acting members have granted it a read lease. A member that granted
//! one lets no other primary serve without reporting how long the lease still holds (crate `osd` grants
//! and renews leases, as durations, because clocks differ). When an interval ends, each member remembers the
//! lease of its primary, and reports it with its info. The next primary waits until the last lease is over,
//! unless its holder and all its replicas have answered, restarted or died.

use crate::message::Promise;
use engine::{Duration, Time};
use std::collections::BTreeMap;
use types::{Epoch, OsdId};

/// Unexpired leases by holder and by the epoch since which it is not the primary any more, with their end.
/// Each interval has its own, because the replicas differ.
#[derive(Debug, Clone, Default)]
pub(crate) struct Readers(BTreeMap<(OsdId, Epoch), Time>);

impl Readers {
    fn add(&mut self, osd: OsdId, since: Epoch, until: Time) {
        let known = self.0.entry((osd, since)).or_insert(until);
        *known = (*known).max(until);
    }

    /// Drops the others: under them nothing is read any more.
    pub fn retain(&mut self, is_kept: impl Fn(OsdId, Epoch) -> bool) {
        self.0.retain(|(osd, since), _| is_kept(*osd, *since));
    }

    /// Forgets all leases.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    fn tell(&self, now: Time) -> Vec<Promise> {
        let left = |until: Time| until.since(now).as_nanos() as u64;
        let holding = self.0.iter().filter(|(_, until)| **until > now);
        holding.map(|((osd, since), until)| (*osd, *since, left(*until))).collect()
    }

    /// When the last lease expires; zero if there are none.
    pub fn until(&self) -> Time {
        self.0.values().copied().max().unwrap_or(Time::ZERO)
    }
}

/// Read leases. See [`crate::Pg::set_time`].
#[derive(Debug, Default)]
pub(crate) struct Promises {
    /// The present time.
    pub now: Time,
    /// Until when the read lease holds that this OSD granted to the present primary.
    pub promised: Time,
    /// Leases of earlier intervals.
    pub readers: Readers,
}

impl Promises {
    /// Remembers the lease of the interval that ends with the map before `since`.
    pub fn remember(&mut self, primary: Option<OsdId>, since: Epoch) {
        let now = self.now;
        self.readers.0.retain(|_, until| *until > now);
        if let Some(primary) = primary
            && self.promised > now
        {
            self.readers.add(primary, since, self.promised);
        }
    }

    /// The unexpired leases, for a message.
    pub fn tell(&self) -> Vec<Promise> {
        self.readers.tell(self.now)
    }

    /// Adds another copy's leases. Leases of this OSD are skipped: it knows that it is not that primary now.
    pub fn learn(&mut self, whoami: OsdId, promises: &[Promise]) {
        for (osd, since, left) in promises.iter().filter(|(osd, ..)| *osd != whoami) {
            self.readers.add(*osd, *since, self.now + Duration::from_nanos(*left));
        }
    }
}
