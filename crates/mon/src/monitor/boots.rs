//! Boots that wait for each other.
//!
//! Where a machine or the whole cluster starts again, each of its OSDs reports for duty when it has read what
//! it has. If each came up in a map of its own, its groups would peer anew with every one of them. So a boot
//! waits, for [`GATHER_MAX`] at most, while others are about to come: OSDs that the map shows up and that
//! have no session, or one from another address than the map's.

use super::Monitor;
use super::osds::{Boot, OsdJob};
use engine::{ConnId, Time};
use std::collections::BTreeMap;
use std::time::Duration;
use types::OsdId;

/// How long a boot waits for those of other OSDs.
const GATHER_MAX: Duration = Duration::from_secs(2);

#[derive(Debug, Default)]
pub(super) struct Boots {
    waiting: BTreeMap<OsdId, Boot>,
    due: Option<Time>,
    /// Sessions of OSDs that may be about to boot.
    arriving: BTreeMap<OsdId, ConnId>,
}

impl Boots {
    pub fn due(&self) -> Option<Time> {
        self.due
    }
}

impl Monitor {
    /// An OSD has a session.
    pub(super) fn osd_arrived(&mut self, conn: ConnId, osd: OsdId) {
        self.boots.arriving.insert(osd, conn);
    }

    pub(super) fn gather_boot(&mut self, now: Time, osd: OsdId, boot: Boot) {
        self.boots.waiting.insert(osd, boot);
        self.boots.due.get_or_insert(now + GATHER_MAX);
    }

    /// Lets those go on that wait, if nobody else is about to come.
    pub(super) fn release_boots(&mut self, now: Time) {
        let Some(due) = self.boots.due else { return };
        if now < due && self.others_are_about_to_boot() {
            return;
        }
        self.boots.due = None;
        let boots: Vec<Boot> = std::mem::take(&mut self.boots.waiting).into_values().collect();
        for some in boots.chunks(super::osds::SHARED_MAX) {
            self.enqueue_osd_job(OsdJob::Boots(some.to_vec()));
        }
    }

    fn others_are_about_to_boot(&mut self) -> bool {
        let (map, sessions, waiting) = (&self.state.osdmap, &self.sessions, &self.boots.waiting);
        let is_other = |osd: OsdId, conn: ConnId| {
            let session = sessions.get(&conn).filter(|session| session.osd() == Some(osd));
            let known = map.client_addrs(osd);
            session.is_some_and(|session| known.is_some_and(|known| *known != session.peer.addrs))
        };
        self.boots.arriving.retain(|osd, conn| is_other(*osd, *conn));
        let is_awaited = |osd: OsdId| map.is_up(osd) && !waiting.contains_key(&osd);
        self.liveness.without_session().any(is_awaited)
            || self.boots.arriving.keys().any(|osd| is_awaited(*osd))
    }
}
