//! A control store that went back: restored from a backup, or with a machine that was reset to a snapshot.
//!
//! Such a store would decide again what was decided otherwise: epochs of maps, ids of pools, snapshots. OSDs would
//! hold maps of the same epoch that differ, and a new pool would find the objects of one that was forgotten.
//! So nothing of the OSD map is changed any more once it shows.
//!
//! It shows by OSDs, which keep their newest map: an epoch is told to nobody before the store has it durably. An OSD that
//! has an epoch that this monitor does not know may just know more than a monitor that was not told yet, so the
//! store is asked, after the OSD spoke: what it lacks then, it has forgotten. It also shows by the store's own count,
//! and, before any OSD speaks, by what this monitor has seen in earlier runs ([`crate::HighWater`]).
//!
//! An OSD whose own store is broken may claim anything. What no cluster can have reached since the newest map that
//! is known was made is no sign of an old store, or one OSD would stop all changes by a number.

use super::{Monitor, WentBack};
use crate::control::Revision;
use engine::Time;
use types::{Epoch, OsdId};

/// More maps than are ever made in a second: each takes a durable write.
const MAPS_PER_SECOND: u64 = 1_000;
/// So many epochs may be missing although the clock says that there was no time for them: a rebuilt store
/// passes over many, and clocks are set.
const MAPS_AT_ONCE: u64 = 1_000_000;

/// The newest map that an OSD spoke of and this monitor does not know, until the store was asked.
#[derive(Debug, Default)]
pub(super) struct ClaimedMaps {
    newest: Option<(Epoch, OsdId)>,
    /// The load that will tell; none while an earlier one is under way.
    asked: Option<u64>,
}

impl Monitor {
    /// An OSD has the map of this epoch.
    pub(super) fn note_epoch_of_osd(&mut self, now: Time, osd: OsdId, epoch: Epoch) {
        if epoch <= self.state.osdmap.epoch || !self.leads() || self.overview.went_back.is_some() {
            return;
        }
        if epoch > self.newest_possible(now) {
            let known = self.state.osdmap.epoch;
            tracing::error!(%osd, %epoch, %known, "an OSD claims a map that there cannot be: its store is broken");
            return;
        }
        self.claimed_maps.newest = self.claimed_maps.newest.max(Some((epoch, osd)));
        if self.claimed_maps.asked.is_none() && self.is_current() {
            self.ask_for_claimed_maps();
        }
    }

    /// No cluster has made more maps than this since the newest that is known.
    fn newest_possible(&self, now: Time) -> Epoch {
        let map = &self.state.osdmap;
        let passed = now.wall().seconds.saturating_sub(map.modified.seconds);
        let made = MAPS_AT_ONCE + u64::from(passed) * MAPS_PER_SECOND;
        Epoch(u32::try_from(u64::from(map.epoch.0) + made).unwrap_or(u32::MAX))
    }

    fn ask_for_claimed_maps(&mut self) {
        self.load();
        self.claimed_maps.asked = Some(self.newest_token());
    }

    /// The store was read: compares it with what it was, and with what OSDs have.
    pub(super) fn judge_load(&mut self, token: u64, found: Revision) {
        // A commit during the read may be missing in its result.
        let known = self.known_before_load;
        if found < known {
            return self.note_went_back(WentBack::Revision { known, found });
        }
        let seen = self.high_water.epoch(self.state.monmap.fsid);
        if seen > self.state.osdmap.epoch {
            return self.note_went_back(WentBack::Seen { epoch: seen });
        }
        let Some((epoch, osd)) = self.claimed_maps.newest else { return };
        if epoch <= self.state.osdmap.epoch {
            self.claimed_maps = ClaimedMaps::default();
        } else if self.claimed_maps.asked == Some(token) {
            self.claimed_maps = ClaimedMaps::default();
            self.note_went_back(WentBack::Map { osd, epoch });
        } else {
            // It was asked before the OSD spoke.
            self.ask_for_claimed_maps();
        }
    }

    fn note_went_back(&mut self, how: WentBack) {
        if self.overview.went_back.is_some() {
            return;
        }
        tracing::error!(
            ?how,
            "the control store is older than the cluster: was it restored from a backup?"
        );
        self.overview.went_back = Some(how);
    }
}
