//! Read leases of prior intervals.
//!
//! A primary answers reads only while all acting members have granted it a read lease. A member that granted
//! one lets no other primary serve without reporting how long the lease still holds (crate `osd` grants
//! and renews leases, as durations, because clocks differ). When an interval ends, each member remembers the
//! lease of its primary, and reports it with its info. The next primary waits until the last lease is over,
//! unless its holder and all its replicas have answered, restarted or died.

use crate::intervals::Interval;
use crate::message::Promise;
use crate::{Output, Pg, State};
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

    pub fn clear(&mut self) {
        self.0.clear();
    }

    fn tell(&self, now: Time) -> Vec<Promise> {
        let left = |until: Time| until.since(now).as_nanos() as u64;
        let holding = self.0.iter().filter(|(_, until)| **until > now);
        holding.map(|((osd, since), until)| (*osd, *since, left(*until))).collect()
    }

    fn until(&self) -> Time {
        self.0.values().copied().max().unwrap_or(Time::ZERO)
    }
}

impl Pg {
    /// Sets the present time, and until when the read lease holds that this OSD granted to the present
    /// primary, or, if this OSD is the primary, until when its replicas may answer reads. Call before
    /// anything that may end an interval or make the group active.
    pub fn set_time(&mut self, now: Time, promised: Time) {
        self.core.leases.now = now;
        self.core.leases.promised = promised;
    }

    /// Remembers the lease of the interval that ends with the map before `since`.
    pub(crate) fn remember_promise(&mut self, since: Epoch) {
        let now = self.core.leases.now;
        self.core.leases.readers.0.retain(|_, until| *until > now);
        let Some(primary) = self.core.placement.members.primary else { return };
        if self.core.leases.promised > self.core.leases.now {
            self.core.leases.readers.add(primary, since, self.core.leases.promised);
        }
    }

    /// The unexpired leases, for a message.
    pub(crate) fn promises(&self) -> Vec<Promise> {
        self.core.leases.readers.tell(self.core.leases.now)
    }

    /// Adds another copy's leases. Leases of this OSD are skipped: it knows that it is not that primary now.
    pub(crate) fn learn_promises(&mut self, promises: &[Promise]) {
        for (osd, since, left) in promises {
            if *osd != self.core.own.whoami {
                self.core.leases.readers.add(
                    *osd,
                    *since,
                    self.core.leases.now + Duration::from_nanos(*left),
                );
            }
        }
    }

    /// Whether a lease of an earlier interval still holds; if so, asks for [`Pg::time_passed`] at its end.
    pub(crate) fn must_wait_for_readers(&mut self) -> bool {
        let mut readers = std::mem::take(&mut self.core.leases.readers);
        readers.0.retain(|(osd, since), _| !self.reads_no_more(*osd, *since));
        self.core.leases.readers = readers;
        let until = self.core.leases.readers.until();
        if until > self.core.leases.now {
            self.core.outputs.push_back(Output::WaitUntil(until));
        }
        until > self.core.leases.now
    }

    /// Whether neither the primary that was replaced in `since` nor any of its replicas answers reads any
    /// more: each has answered us, has restarted, or is dead.
    fn reads_no_more(&self, primary: OsdId, since: Epoch) -> bool {
        let is_settled = |osd: OsdId| {
            let status =
                self.core.placement.osds.as_ref().map(|osds| osds.status(osd)).unwrap_or_default();
            osd == self.core.own.whoami
                || self.known.peers.contains_key(&osd)
                || status.up_from > since
                || status.dead_epoch.next() >= since
        };
        // The members of a gap are not known, so a lease from before one is waited for.
        let ended = |interval: &&Interval| !interval.is_gap && interval.last.next() == since;
        let mut past = self.core.copy.past.iter().filter(ended);
        let replicas = past.next().map(|interval| interval.acting.iter().copied());
        replicas.is_some_and(|mut osds| osds.all(is_settled)) && is_settled(primary)
    }

    /// The time of [`Output::WaitUntil`] has come. Harmless at any other time.
    pub fn time_passed(&mut self) {
        if self.state() == State::WaitReadable && !self.must_wait_for_readers() {
            self.become_active();
        }
    }
}
