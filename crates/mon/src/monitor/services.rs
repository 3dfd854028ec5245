//! Sessions of service daemons with the manager, which the leader stands in for.
//!
//! A session with a monitor that is not the active manager is closed: the client then looks up the active
//! manager, and registers there.

use super::Monitor;
use crate::services::{Refused, Registrant};
use crate::sessions::{Caps, Session};
use auth::MonCaps;
use codec::DecodeError;
use engine::{ConnId, Message, Time};
use types::EntityType;
use wire::{MessageBody, MgrClose, MgrConfigure, MgrOpen, MgrReport};

/// Requested minimum priority of performance counters: above all that exist, as they are not used.
const COUNTERS_WANTED: u32 = 11;

impl Monitor {
    /// Handles a message of a session with the manager; ignores it in any other session.
    pub(super) fn take_manager_message(
        &mut self,
        now: Time,
        conn: ConnId,
        message: &Message,
    ) -> Result<(), DecodeError> {
        let is_managers = |session: &Session| matches!(session.caps(), Caps::Mgr(_));
        if !self.sessions.get(conn).is_some_and(is_managers) {
            return Ok(());
        }
        if message.kind == MgrClose::KIND {
            let close = MgrClose::decode(message)?;
            self.overview.daemons.unregister(now, conn);
            self.reply(conn, |_, features| close.encode(features));
            return Ok(());
        }
        if !self.leads() {
            self.close(now, conn);
            return Ok(());
        }
        match message.kind {
            MgrOpen::KIND => self.register_service(now, conn, MgrOpen::decode(message)?),
            MgrReport::KIND => self.take_service_report(now, conn, MgrReport::decode(message)?),
            _ => {}
        }
        Ok(())
    }

    fn register_service(&mut self, now: Time, conn: ConnId, open: MgrOpen) {
        let Some(session) = self.sessions.get(conn) else { return };
        let MgrOpen { service_name, daemon_name, service_daemon: Some(said), .. } = open else {
            // A client that is no daemon has nothing to report.
            return;
        };
        let peer = session.peer();
        if !self.may_register(session) {
            tracing::warn!(
                client = %peer.name, service = service_name,
                "a service's daemon is not registered: its key has no capabilities for the manager"
            );
            return;
        }
        let registrant = Registrant {
            conn,
            entity: peer.name.clone(),
            global_id: peer.participant.number as u64,
            addr: crate::dump::addrs::legacy(&peer.addrs),
        };
        let client = peer.name.clone();
        let key = (service_name, daemon_name);
        match self.overview.daemons.register(now, registrant, key, said) {
            Ok(()) => {
                let period = self.state.mgr_options().duration("mgr_stats_period");
                let stats_period_seconds = (period.as_secs() as u32).max(1);
                let configure =
                    MgrConfigure { stats_period_seconds, stats_threshold: COUNTERS_WANTED };
                self.reply(conn, |_, features| configure.encode(features));
            }
            // The daemon does not try again until something changes.
            Err(error) => tracing::warn!(%client, %error, "a service's daemon is not registered"),
        }
    }

    /// Whether a session may register a daemon: any capability for the manager suffices, as for a gateway. An
    /// rbd-mirror daemon is documented without one.
    fn may_register(&self, session: &Session) -> bool {
        let Caps::Mgr(caps) = session.caps() else { return false };
        let mirrors = || {
            let entity = self.state.entities.get(&session.peer().name);
            let text = entity.map_or("", |entity| entity.caps_for(EntityType::MON));
            MonCaps::parse(text).is_ok_and(|caps| caps.has_profile("rbd-mirror"))
        };
        caps.grants_any(session.ip()) || mirrors()
    }

    fn take_service_report(&mut self, now: Time, conn: ConnId, report: MgrReport) {
        let MgrReport { daemon_status, task_status, .. } = report;
        match self.overview.daemons.report(now, conn, daemon_status, task_status) {
            Ok(()) => {}
            Err(Refused::Unknown) => self.close(now, conn),
            Err(error) => tracing::debug!(%error, "a service's status is not taken"),
        }
    }

    /// Called in every tick: removes daemons that have been silent for too long.
    pub(super) fn expire_services(&mut self, now: Time) {
        let grace = self.state.mgr_options().duration("mgr_service_beacon_grace");
        self.overview.daemons.expire(now, grace);
    }
}
