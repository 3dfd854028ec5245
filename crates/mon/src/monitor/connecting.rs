//! Authentication of this monitor to another one.
//!
//! All monitors have the rotating secrets of their own service, so a monitor seals a ticket for itself. No
//! other entity can have a ticket in the name of a monitor.

use super::{AuthMode, Monitor, Settings};
use auth::{Connector, Identity, MODE_CRC, MODE_SECURE, Towards};
use engine::{ConnId, ConnectingAnswer, ConnectingStep, Time};
use types::{EntityName, EntityType};

/// The proofs of a monitor with those settings.
pub(super) fn connector(settings: &Settings) -> Connector {
    let name = EntityName::new(EntityType::MON, &settings.mon_name);
    match settings.auth {
        // Secure mode first: the keys of clients pass through this session.
        AuthMode::Cephx => Connector::new(Identity::Peer { name }, vec![MODE_SECURE, MODE_CRC]),
        AuthMode::None => {
            let identity = Identity::Asserted { name, keeps_global_id: false };
            Connector::new(identity, vec![MODE_CRC])
        }
    }
}

impl Monitor {
    /// One step of the authentication to the leader.
    pub(super) fn prove_to_monitor(
        &mut self,
        now: Time,
        conn: ConnId,
        step: ConnectingStep,
    ) -> ConnectingAnswer {
        let to = Towards::Peer(self.state.secrets.service(EntityType::MON));
        let answer = self.connector.step(now, conn, to, step, &mut self.entropy);
        answer.unwrap_or_else(|reason| {
            tracing::warn!(%reason, "cannot authenticate to the monitor that leads");
            ConnectingAnswer::Refuse
        })
    }
}
