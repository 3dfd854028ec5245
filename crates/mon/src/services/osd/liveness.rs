//! Liveness of OSDs: their sessions and reports.
//!
//! An OSD reports every few seconds. An open session proves nothing: the kernel of a stopped process goes on
//! acknowledging data. Time in which this monitor did not run counts against no OSD.

use crate::service::Ticks;
use crate::state::{Overrides, State};
use engine::Time;
use maps::OsdMap;
use std::collections::BTreeMap;
use std::time::Duration;
use types::OsdId;

/// Time without a session after which an OSD is marked down.
const DOWN_GRACE: Duration = Duration::from_secs(20);

/// When each OSD lost its session, and when it was last heard.
#[derive(Debug, Default)]
pub(super) struct Liveness {
    lost: BTreeMap<OsdId, Time>,
    heard: BTreeMap<OsdId, Time>,
    /// Those in which this monitor led.
    ticks: Ticks,
}

impl Liveness {
    /// Handles a report or a new session.
    pub fn heard(&mut self, osd: OsdId, now: Time) {
        self.lost.remove(&osd);
        self.heard.insert(osd, now);
    }

    /// Handles the loss of an OSD's last session.
    pub fn lost(&mut self, osd: OsdId, now: Time) {
        self.lost.entry(osd).or_insert(now);
    }

    /// Restarts all measurements; called when this monitor begins to lead. It may have seen the end of a
    /// session long ago, as a follower that was not told of the OSD's next one.
    pub fn restart(&mut self) {
        *self = Liveness::default();
    }

    /// Called in every tick of the leader. If the tick is late, times are moved forward by the delay.
    pub fn look(&mut self, now: Time, map: &OsdMap) {
        let late = self.ticks.note(now);
        if !late.is_zero() {
            let all = self.heard.values_mut().chain(self.lost.values_mut());
            all.for_each(|time| *time = (*time + late).min(now));
            assert!(self.heard.values().all(|time| *time <= now), "no OSD is heard in the future");
        }
        self.heard.retain(|osd, _| map.is_up(*osd));
        for (osd, _) in map.existing_osds().filter(|(_, known)| known.is_up()) {
            self.heard.entry(osd).or_insert(now);
        }
    }

    /// OSDs that have no session.
    pub fn without_session(&self) -> impl Iterator<Item = OsdId> {
        self.lost.keys().copied()
    }

    /// OSDs that have been without a session for too long.
    pub fn overdue(&self, now: Time) -> impl Iterator<Item = OsdId> {
        self.lost
            .iter()
            .filter(move |(_, since)| now.since(**since) >= DOWN_GRACE)
            .map(|(osd, _)| *osd)
    }

    /// OSDs that have been silent for at least this time, and for how long.
    pub fn silent(&self, now: Time, at_least: Duration) -> impl Iterator<Item = (OsdId, Duration)> {
        let silences = self.heard.iter().map(move |(osd, heard)| (*osd, now.since(*heard)));
        silences.filter(move |(_, silent)| *silent >= at_least)
    }
}

/// Silence after which an OSD is marked down (`mon_osd_report_timeout`); `None`: never.
pub(super) fn report_timeout(state: &State, running: &Overrides) -> Option<Duration> {
    let timeout = state.options(running).duration("mon_osd_report_timeout");
    (!timeout.is_zero()).then_some(timeout)
}

#[cfg(test)]
mod tests {
    use super::*;
    use maps::{Osd, OsdState};

    #[test]
    fn time_in_which_the_monitor_stood_still_counts_against_no_osd() {
        let mut map = OsdMap::new(types::Uuid::default());
        let up = Osd { state: OsdState::EXISTS | OsdState::UP, ..Osd::default() };
        map.osds = vec![up.clone(), up];
        let at = |seconds: u64| Time(seconds * 1_000_000_000);
        let mut liveness = Liveness::default();
        for second in 100..=110 {
            liveness.look(at(second), &map);
        }
        liveness.lost(OsdId(1), at(110));
        liveness.look(at(10_000), &map);
        assert_eq!(liveness.overdue(at(10_000)).count(), 0);
        let longest = liveness.silent(at(10_000), Duration::ZERO).map(|(_, silent)| silent).max();
        assert_eq!(longest, Some(Duration::from_secs(12)));
    }
}
