//! Authentication of this OSD in the sessions that it opens.
//!
//! To a monitor, it authenticates by its key. To other OSDs, by a ticket that it seals itself: all
//! OSDs hold the rotating secrets of their service, which they got from a monitor. So two OSDs can
//! connect while no monitor is reachable.

use crate::{Config, Osd};
use auth::{ConnectFailure, Connector, Identity, MODE_CRC, MODE_SECURE};
use engine::{ConnId, ConnectingAnswer, ConnectingStep, Time};
use types::EntityName;

/// The proofs of an OSD with that configuration.
pub(super) fn connector(config: &Config) -> Connector {
    let name = EntityName::osd(config.id.0);
    match config.auth_none {
        true => {
            let identity = Identity::Asserted { name, keeps_global_id: false };
            Connector::new(identity, vec![MODE_CRC])
        }
        false => {
            let identity = Identity::Daemon { name, key: config.key.clone() };
            Connector::new(identity, vec![MODE_CRC, MODE_SECURE])
        }
    }
}

impl Osd {
    /// Performs one step of authenticating to a peer. A failure is logged and refuses the session.
    pub(crate) fn prove(
        &mut self,
        now: Time,
        conn: ConnId,
        step: ConnectingStep,
    ) -> ConnectingAnswer {
        let to_monitor = self.monitor.is(conn);
        self.accepting.prove(now, conn, to_monitor, step).unwrap_or_else(|reason| {
            let whom = if to_monitor { "a monitor" } else { "another OSD" };
            tracing::warn!(osd = %self.env.config.id, %reason, "cannot authenticate to {whom}");
            ConnectingAnswer::Refuse
        })
    }

    /// Takes the rotating secrets of the service, which the monitor sealed with this OSD's key.
    pub(crate) fn take_sealed_secrets(&mut self, now: Time, payload: &[u8]) {
        match self.accepting.connector.open_rotating(payload) {
            Ok(secrets) => self.set_secrets(now, secrets),
            Err(ConnectFailure::NoKey) => {}
            Err(error) => tracing::error!(%error, "the monitor's secrets cannot be opened"),
        }
    }
}
