//! Detection of a control store that went back in time: restored from a backup, or reset with its machine to
//! a snapshot.
//!
//! Such a store would decide again what was decided differently before: epochs of maps, ids of pools,
//! snapshots. OSDs would have different maps of the same epoch, and a new pool would find the objects of one
//! that was forgotten. So the OSD map is not changed any more once this is detected.
//!
//! OSDs reveal it, because they keep their newest map: an epoch is published only after the store has made it
//! durable. An OSD with a newer epoch than this monitor's may just be ahead of a monitor that has not
//! received it yet, so the store is read again after the OSD's message: an epoch that is missing then was
//! lost. The store's own revision reveals it too and, before any OSD connects, the high-water mark of earlier
//! runs ([`crate::HighWater`]).
//!
//! An OSD whose own store is broken may claim any epoch. An epoch that no cluster can have reached since the
//! newest known map was made is no sign of an old store; otherwise one OSD could stop all changes by a
//! number.

use super::Monitor;
use crate::control::Revision;
use crate::live::WentBack;
use engine::Time;
use types::{Epoch, OsdId};

/// Exceeds the maps that are ever made in a second: each takes a durable write.
const MAPS_PER_SECOND: u64 = 1_000;
/// Epochs that may be missing although the clock says that there was no time for them: a rebuilt store skips
/// many, and clocks are adjusted.
const MAPS_AT_ONCE: u64 = 1_000_000;

/// The newest epoch that an OSD claimed and this monitor does not have, until the store was read again.
#[derive(Debug, Default)]
pub(super) struct ClaimedMaps {
    newest: Option<(Epoch, OsdId)>,
    /// The token of the load that will decide; `None` while an earlier one is in progress.
    asked: Option<u64>,
}

impl Monitor {
    /// Handles an OSD's newest epoch.
    pub(super) fn note_epoch_of_osd(&mut self, now: Time, osd: OsdId, epoch: Epoch) {
        if epoch <= self.state.osdmap.epoch
            || !self.leads()
            || self.overview.store.went_back.is_some()
        {
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

    /// Upper bound of the epochs that a cluster can have reached since the newest known map.
    fn newest_possible(&self, now: Time) -> Epoch {
        let map = &self.state.osdmap;
        let passed = now.wall().seconds.saturating_sub(map.modified.seconds);
        let made = MAPS_AT_ONCE + u64::from(passed) * MAPS_PER_SECOND;
        Epoch(u32::try_from(u64::from(map.epoch.0) + made).unwrap_or(u32::MAX))
    }

    fn ask_for_claimed_maps(&mut self) {
        self.load();
        self.claimed_maps.asked = Some(self.pipeline.newest_token());
    }

    /// Compares a loaded state with what was known before, and with the epochs of OSDs.
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
            // The read was requested before the OSD's message.
            self.ask_for_claimed_maps();
        }
    }

    fn note_went_back(&mut self, how: WentBack) {
        if self.overview.store.went_back.is_some() {
            return;
        }
        tracing::error!(
            ?how,
            "the control store is older than the cluster: was it restored from a backup?"
        );
        self.overview.store.went_back = Some(how);
    }
}
