//! Batching of boots.
//!
//! When a host or the whole cluster restarts, its OSDs boot one after the other, each once it has read its
//! store. If each came up in an epoch of its own, its groups would peer again for every one of them. So a
//! boot waits, for [`GATHER_MAX`] at most, while other boots are expected: those of OSDs that are up in the
//! map and have no session, or a session from another address than the map's.

use super::Monitor;
use crate::job::{Boot, OsdJob, SHARED_MAX};
use engine::{ConnId, Time};
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
    /// The time at which the batch is queued at the latest.
    pub fn due(&self) -> Option<Time> {
        self.due
    }
}

impl Monitor {
    /// Handles a new session of an OSD.
    pub(super) fn osd_arrived(&mut self, conn: ConnId, osd: OsdId) {
        self.boots.arriving.insert(osd, conn);
    }

    /// Adds a boot to the batch.
    pub(super) fn gather_boot(&mut self, now: Time, osd: OsdId, boot: Boot) {
        self.boots.waiting.insert(osd, boot);
        self.boots.due.get_or_insert(now + GATHER_MAX);
    }

    /// Queues the batch if it is due, or if no other boot is expected.
    pub(super) fn release_boots(&mut self, now: Time) {
        let Some(due) = self.boots.due else { return };
        if now < due && self.others_are_about_to_boot() {
            return;
        }
        self.boots.due = None;
        let boots: Vec<Boot> = std::mem::take(&mut self.boots.waiting).into_values().collect();
        for some in boots.chunks(SHARED_MAX) {
            self.enqueue_osd_job(OsdJob::Boots(some.to_vec()));
        }
    }

    fn others_are_about_to_boot(&mut self) -> bool {
        let (map, sessions, waiting) = (&self.state.osdmap, &self.sessions, &self.boots.waiting);
        let is_other = |osd: OsdId, conn: ConnId| {
            let session = sessions.get(conn).filter(|session| session.osd() == Some(osd));
            let known = map.client_addrs(osd);
            session.is_some_and(|session| known.is_some_and(|known| *known != session.peer().addrs))
        };
        self.boots.arriving.retain(|osd, conn| is_other(*osd, *conn));
        let is_awaited = |osd: OsdId| map.is_up(osd) && !waiting.contains_key(&osd);
        self.liveness.without_session().any(is_awaited)
            || self.boots.arriving.keys().any(|osd| is_awaited(*osd))
    }
}
