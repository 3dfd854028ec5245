//! Read leases of prior intervals.
//!
//! A primary answers reads only while all acting members have granted it a read lease. A member that granted
//! one lets no other primary serve without reporting how long the lease still holds (crate `osd` grants
//! and renews leases, as durations, because clocks differ). When an interval ends, each member remembers the
//! lease of its primary, and reports it with its info. The next primary waits until the last lease is over,
//! unless its holder and all its replicas have answered, restarted or died.

use crate::message::ReadLease;
use engine::{Duration, Time};
use std::collections::BTreeMap;
use types::{Epoch, OsdId};

/// Unexpired leases by holder and by the epoch since which it is not the primary any more, with their end.
/// Each interval has its own, because the replicas differ.
#[derive(Debug, Clone, Default)]
pub(crate) struct PriorLeases(BTreeMap<(OsdId, Epoch), Time>);

impl PriorLeases {
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

    fn tell(&self, now: Time) -> Vec<ReadLease> {
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
pub(crate) struct ReadLeases {
    /// The present time.
    pub now: Time,
    /// Until when the read lease holds that this OSD granted to the present primary.
    pub granted_until: Time,
    /// Leases of earlier intervals.
    pub prior: PriorLeases,
}

impl ReadLeases {
    /// Remembers the lease of the interval that ends with the map before `since`.
    pub fn remember(&mut self, primary: Option<OsdId>, since: Epoch) {
        let now = self.now;
        self.prior.0.retain(|_, until| *until > now);
        if let Some(primary) = primary
            && self.granted_until > now
        {
            self.prior.add(primary, since, self.granted_until);
        }
    }

    /// The unexpired leases, for a message.
    pub fn tell(&self) -> Vec<ReadLease> {
        self.prior.tell(self.now)
    }

    /// Adds another copy's leases. Leases of this OSD are skipped: it knows that it is not that primary now.
    pub fn learn(&mut self, whoami: OsdId, leases: &[ReadLease]) {
        for (osd, since, left) in leases.iter().filter(|(osd, ..)| *osd != whoami) {
            self.prior.add(*osd, *since, self.now + Duration::from_nanos(*left));
        }
    }
}
