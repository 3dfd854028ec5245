//! Calls of one room after another, where an event concerns several.

use crate::Osd;
use crate::cx::cx;
use engine::{ConnId, Duration};
use wire::OsdFailure;

impl Osd {
    /// Pings the partners of this OSD, if due.
    pub(crate) fn heartbeat_if_due(&mut self) {
        // Groups know their members only when they have handled the map.
        let members = (!self.maps.is_telling()).then(|| self.groups.members());
        self.heartbeats.tick(cx!(self), &self.monitor, members);
    }

    /// The connection to an OSD was refused: its process does not run, so it is reported
    /// immediately. A lossless session keeps trying, in case the monitor does not agree.
    pub(crate) fn refused(&mut self, conn: ConnId) {
        // The address that was tried: the OSD may have another one by now.
        let tried = self.heartbeats.address_of(conn).or_else(|| self.peers.address_of(conn));
        let Some((osd, addrs)) = tried else { return };
        let dead = OsdFailure::FAILED | OsdFailure::IMMEDIATE | OsdFailure::DEAD;
        self.monitor.report_failure(cx!(self), osd, addrs, dead, Duration::ZERO);
    }
}
