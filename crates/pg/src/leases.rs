//! Primaries of the past that may still answer reads.
//!
//! A primary answers reads only while all acting members have promised it that nobody else will be let
//! go on without telling how long the promise still holds (crate `osd` makes and keeps the promises, as
//! durations, for no two clocks agree). When an interval ends, each member remembers the promise to its
//! primary, and says so with its info. The next primary waits until the last promise is over, unless
//! the one to whom it was made, and all its replicas, have answered themselves, or run no more.

use crate::{Output, Pg, State};
use engine::{Duration, Time};
use std::collections::BTreeMap;
use types::{Epoch, OsdId};

/// Who may still answer reads, with their replicas: primaries, by when others took over from them, and until
/// when. Of each interval apart, for their replicas were others.
#[derive(Debug, Clone, Default)]
pub(crate) struct Readers(BTreeMap<(OsdId, Epoch), Time>);

/// A promise as it is told: since when its holder is not the primary, and how long it holds.
pub type Promise = (OsdId, Epoch, u64);

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
    /// What time it is, and until when a promise to the present primary holds that was made here, or,
    /// if that is this OSD, until when its replicas may answer reads.
    pub fn set_time(&mut self, now: Time, promised: Time) {
        self.now = now;
        self.promised = promised;
    }

    /// The interval ends in which the promise was made.
    pub(crate) fn remember_promise(&mut self, since: Epoch) {
        let now = self.now;
        self.readers.0.retain(|_, until| *until > now);
        let Some(primary) = self.members.primary else { return };
        if self.promised > self.now {
            self.readers.add(primary, since, self.promised);
        }
    }

    pub(crate) fn promises(&self) -> Vec<Promise> {
        self.readers.tell(self.now)
    }

    /// Another copy's promises; whoever tells knows by itself that it is the primary no more.
    pub(crate) fn learn_promises(&mut self, promises: &[Promise]) {
        for (osd, since, left) in promises {
            if *osd != self.whoami {
                self.readers.add(*osd, *since, self.now + Duration::from_nanos(*left));
            }
        }
    }

    /// Whether the group must not go on yet; it then says when to look again.
    pub(crate) fn must_wait_for_readers(&mut self) -> bool {
        let mut readers = std::mem::take(&mut self.readers);
        readers.0.retain(|(osd, since), _| !self.reads_no_more(*osd, *since));
        self.readers = readers;
        let until = self.readers.until();
        if until > self.now {
            self.outputs.push_back(Output::WaitUntil(until));
        }
        until > self.now
    }

    /// Whether neither the primary that was given up in `since` answers reads any more, nor any of its
    /// replicas: each has answered us, or does not run any more as it ran then.
    fn reads_no_more(&self, primary: OsdId, since: Epoch) -> bool {
        let is_settled = |osd: OsdId| {
            let status = self.osds.as_ref().map(|osds| osds.status(osd)).unwrap_or_default();
            osd == self.whoami
                || self.peers.contains_key(&osd)
                || status.up_from > since
                || status.dead_epoch.next() >= since
        };
        let mut past = self.past.iter().filter(|interval| interval.last.next() == since);
        let replicas = past.next().map(|interval| interval.acting.iter().copied());
        replicas.is_some_and(|mut osds| osds.all(is_settled)) && is_settled(primary)
    }

    /// The time has come that [`Output::WaitUntil`] named.
    pub fn time_passed(&mut self) {
        if self.state == State::WaitReadable && !self.must_wait_for_readers() {
            self.become_active();
        }
    }
}
