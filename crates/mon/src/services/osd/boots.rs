//! Batching of boots.
//!
//! When a host or the whole cluster restarts, its OSDs boot one after the other, each once it has read its
//! store. If each came up in an epoch of its own, its groups would peer again for every one of them. So a
//! boot waits, for [`GATHER_MAX`] at most, while other boots are expected: those of OSDs that are up in the
//! map and have no session, or a session from another address than the map's.

use crate::job::{Boot, OsdJob, SHARED_MAX};
use crate::sessions::Sessions;
use engine::{ConnId, Time};
use maps::OsdMap;
use std::collections::BTreeMap;
use std::time::Duration;
use types::OsdId;

/// Longest time for which a boot waits for those of other OSDs.
const GATHER_MAX: Duration = Duration::from_secs(2);

/// Boots that wait to be committed in one map.
#[derive(Debug, Default)]
pub(super) struct Boots {
    waiting: BTreeMap<OsdId, Boot>,
    due: Option<Time>,
    /// Sessions of OSDs that may be about to boot.
    arriving: BTreeMap<OsdId, ConnId>,
}

impl Boots {
    /// Handles a new session of an OSD.
    pub fn arrived(&mut self, conn: ConnId, osd: OsdId) {
        self.arriving.insert(osd, conn);
    }

    /// Adds a boot to the batch.
    pub fn gather(&mut self, now: Time, osd: OsdId, boot: Boot) {
        self.waiting.insert(osd, boot);
        self.due.get_or_insert(now + GATHER_MAX);
    }

    /// Takes the batch, in parts that share a map each, if it is due or if no other boot is expected.
    /// `without_session`: the OSDs that have no session.
    pub fn release(
        &mut self,
        now: Time,
        map: &OsdMap,
        sessions: &Sessions,
        without_session: impl Iterator<Item = OsdId>,
    ) -> Vec<OsdJob> {
        let Some(due) = self.due else { return Vec::new() };
        if now < due && self.others_are_about_to_boot(map, sessions, without_session) {
            return Vec::new();
        }
        assert!(!self.waiting.is_empty(), "boots wait until a time");
        self.due = None;
        let boots: Vec<Boot> = std::mem::take(&mut self.waiting).into_values().collect();
        boots.chunks(SHARED_MAX).map(|some| OsdJob::Boots(some.to_vec())).collect()
    }

    fn others_are_about_to_boot(
        &mut self,
        map: &OsdMap,
        sessions: &Sessions,
        mut without_session: impl Iterator<Item = OsdId>,
    ) -> bool {
        let is_other = |osd: OsdId, conn: ConnId| {
            let session = sessions.get(conn).filter(|session| session.osd() == Some(osd));
            let known = map.client_addrs(osd);
            session.is_some_and(|session| known.is_some_and(|known| *known != session.peer().addrs))
        };
        self.arriving.retain(|osd, conn| is_other(*osd, *conn));
        let is_awaited = |osd: OsdId| map.is_up(osd) && !self.waiting.contains_key(&osd);
        without_session.any(is_awaited) || self.arriving.keys().any(|osd| is_awaited(*osd))
    }

    /// Whether boots wait for others.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// The time at which the batch is queued at the latest.
    pub fn due(&self) -> Option<Time> {
        self.due
    }
}
