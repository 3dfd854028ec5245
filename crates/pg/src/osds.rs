//! The OSD states of a map that peering depends on.

use types::{Epoch, OsdId, UTime};

/// One OSD in one map.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OsdStatus {
    /// Whether the map has the OSD.
    pub exists: bool,
    /// Whether the map shows it up.
    pub is_up: bool,
    /// The epoch in which its present (or last) incarnation was marked up.
    pub up_from: Epoch,
    /// It was up at least until this epoch; a primary waits for it before it serves anything.
    pub up_thru: Epoch,
    /// The epoch in which it was last marked down.
    pub down_at: Epoch,
    /// The time at which it was last marked down.
    pub down_stamp: UTime,
    /// The epoch in which an administrator marked it lost.
    pub lost_at: Epoch,
    /// The epoch in which its process was known to be dead, not only silent.
    pub dead_epoch: Epoch,
}

/// All OSDs of one map, shared by the groups of an OSD.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Osds(Vec<OsdStatus>);

impl FromIterator<(OsdId, OsdStatus)> for Osds {
    fn from_iter<I: IntoIterator<Item = (OsdId, OsdStatus)>>(all: I) -> Self {
        let mut osds = Osds::default();
        for (osd, status) in all {
            let Ok(index) = usize::try_from(osd.0) else { continue };
            if osds.0.len() <= index {
                osds.0.resize(index + 1, OsdStatus::default());
            }
            osds.0[index] = status;
        }
        osds
    }
}

impl Osds {
    /// The status of an OSD; default (does not exist) if the map does not have it.
    pub fn status(&self, osd: OsdId) -> OsdStatus {
        let index = usize::try_from(osd.0).ok();
        index.and_then(|index| self.0.get(index)).copied().unwrap_or_default()
    }

    /// Whether the OSD is up; false if the map does not have it.
    pub fn is_up(&self, osd: OsdId) -> bool {
        self.status(osd).is_up
    }

    /// Whether data that the OSD had since `first` will not come back: it was removed, or is down and
    /// was marked lost since. The monitor marks it as of the epoch in which it went down, which may be the
    /// first one of a gap in the maps.
    pub fn is_lost(&self, osd: OsdId, first: Epoch) -> bool {
        let status = self.status(osd);
        let is_given_up = status.lost_at >= first && status.lost_at >= status.down_at;
        !status.exists || !status.is_up && is_given_up
    }

    /// The OSDs that went down since then, are down, and were not marked lost. One that never was up has no
    /// data.
    pub(crate) fn gone_since(&self, since: Epoch) -> impl Iterator<Item = OsdId> {
        let gone = self.iter().filter(move |(osd, status)| {
            let is_down = status.exists && !status.is_up && status.down_at >= since;
            let was_up = status.up_from.max(status.down_at) > Epoch(0);
            is_down && was_up && !self.is_lost(*osd, since)
        });
        gone.map(|(osd, _)| osd)
    }

    /// All OSDs up to the greatest id, those that do not exist too.
    pub fn iter(&self) -> impl Iterator<Item = (OsdId, &OsdStatus)> {
        (0..).map(OsdId).zip(&self.0)
    }
}
