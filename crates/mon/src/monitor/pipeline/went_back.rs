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

use crate::live::WentBack;
use control::Revision;
use engine::Time;
use maps::OsdMap;
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

/// The conclusion from a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LoadVerdict {
    Fine,
    WentBack(WentBack),
    /// The read was requested before the OSD's message, so it shows nothing: the store is read again.
    ReadAgain,
}

impl ClaimedMaps {
    /// Notes an OSD's epoch that is newer than the map. Returns whether the store is to be read because of
    /// it: not if the epoch is impossible, or if a load has been requested for another claim.
    pub fn note(&mut self, now: Time, map: &OsdMap, osd: OsdId, epoch: Epoch) -> bool {
        if epoch > newest_possible(now, map) {
            let known = map.epoch;
            tracing::error!(%osd, %epoch, %known, "an OSD claims a map that there cannot be: its store is broken");
            return false;
        }
        self.newest = self.newest.max(Some((epoch, osd)));
        self.asked.is_none()
    }

    /// The load with this token will decide.
    pub fn asked(&mut self, token: u64) {
        self.asked = Some(token);
    }

    /// Compares the loaded map with the claims.
    pub fn check(&mut self, token: u64, map: &OsdMap) -> LoadVerdict {
        let Some((epoch, osd)) = self.newest else { return LoadVerdict::Fine };
        if epoch <= map.epoch {
            *self = ClaimedMaps::default();
            LoadVerdict::Fine
        } else if self.asked == Some(token) {
            *self = ClaimedMaps::default();
            LoadVerdict::WentBack(WentBack::Map { osd, epoch })
        } else {
            LoadVerdict::ReadAgain
        }
    }
}

/// Compares a load with earlier ones and with earlier runs: `known` is the newest revision before it, `seen`
/// the newest epoch that this host has seen.
pub(super) fn is_older(
    known: Revision,
    found: Revision,
    seen: Epoch,
    map: &OsdMap,
) -> Option<WentBack> {
    if found < known {
        return Some(WentBack::Revision { known, found });
    }
    (seen > map.epoch).then_some(WentBack::Seen { epoch: seen })
}

/// Upper bound of the epochs that a cluster can have reached since the newest known map.
fn newest_possible(now: Time, map: &OsdMap) -> Epoch {
    let passed = now.wall().seconds.saturating_sub(map.modified.seconds);
    let made = MAPS_AT_ONCE + u64::from(passed) * MAPS_PER_SECOND;
    Epoch(u32::try_from(u64::from(map.epoch.0) + made).unwrap_or(u32::MAX))
}
