//! Authentication of peers that connect to this OSD, and of this OSD where it connects.
//!
//! To a monitor, the OSD authenticates by its key. To other OSDs, by a ticket that it seals itself: all
//! OSDs hold the rotating secrets of their service, which they got from a monitor. So two OSDs can
//! connect while no monitor is reachable. With the same secrets it opens the tickets of those that connect.

use crate::Config;
use auth::{
    Acceptor, ConnectFailure, Connector, Entropy, Identity, METHOD_CEPHX, METHOD_NONE, MODE_CRC,
    MODE_SECURE, RotatingSecrets, Towards, Verifier,
};
use engine::{AuthRequest, AuthVerdict, ConnId, ConnectingAnswer, ConnectingStep, Time};
use types::{EntityName, EntityType, OsdId};

/// Proofs and secrets of one OSD.
#[derive(Debug)]
pub(crate) struct Authentication {
    id: OsdId,
    verifier: Verifier,
    /// Proofs of this OSD in sessions that it is opening.
    connector: Connector,
    secrets: RotatingSecrets,
    needs_secrets: bool,
    entropy: Entropy,
}

impl Authentication {
    /// Without secrets: no cephx peer is accepted before the monitor has sent them.
    pub fn new(config: &Config, seed: [u8; 32]) -> Self {
        let method = if config.auth_none { METHOD_NONE } else { METHOD_CEPHX };
        let acceptor = Acceptor::new(method, config.connection_modes.clone());
        Authentication {
            id: config.id,
            verifier: Verifier::new(EntityType::OSD, acceptor),
            connector: connector(config),
            secrets: RotatingSecrets::default(),
            needs_secrets: !config.auth_none,
            entropy: Entropy::from_seed(seed),
        }
    }

    /// A session ended, maybe before it was authenticated.
    pub fn closed(&mut self, conn: ConnId) {
        self.verifier.closed(conn);
        self.connector.forget(conn);
    }

    /// True while peers cannot be authenticated.
    pub fn lacks_secrets(&self) -> bool {
        self.needs_secrets && self.secrets.is_empty()
    }

    /// Takes the rotating secrets of the service, which the monitor sealed with this OSD's key. Without a key
    /// there are none. Returns whether the secrets were missing before.
    pub fn take_sealed_secrets(&mut self, sealed: &[u8]) -> bool {
        match self.connector.open_rotating(sealed) {
            Ok(secrets) => return self.set_secrets(secrets),
            Err(ConnectFailure::NoKey) => {}
            Err(error) => tracing::error!(%error, "the monitor's secrets cannot be opened"),
        }
        false
    }

    /// Takes rotating secrets that the monitor sent without encryption of their own. Returns whether the
    /// secrets were missing before.
    pub fn take_secrets(&mut self, encoded: &[u8]) -> bool {
        match codec::decode_all::<RotatingSecrets>("secrets", encoded) {
            Ok(secrets) => return self.set_secrets(secrets),
            Err(error) => tracing::error!(%error, "the monitor's secrets do not decode"),
        }
        false
    }

    fn set_secrets(&mut self, secrets: RotatingSecrets) -> bool {
        let lacked = self.lacks_secrets();
        self.secrets = secrets;
        lacked
    }

    /// Performs one step of authenticating to a monitor, or to another OSD. A failure is logged and refuses
    /// the session.
    pub fn prove(
        &mut self,
        now: Time,
        conn: ConnId,
        to_monitor: bool,
        step: ConnectingStep,
    ) -> ConnectingAnswer {
        let secrets = (!self.secrets.is_empty()).then_some(&self.secrets);
        let to = if to_monitor { Towards::Monitor } else { Towards::Peer(secrets) };
        let answer = self.connector.step(now, conn, to, step, &mut self.entropy);
        answer.unwrap_or_else(|reason| {
            let whom = if to_monitor { "a monitor" } else { "another OSD" };
            tracing::warn!(osd = %self.id, %reason, "cannot authenticate to {whom}");
            ConnectingAnswer::Refuse
        })
    }

    /// Performs one step of the authentication of a connecting peer.
    pub fn verify(&mut self, now: Time, conn: ConnId, request: AuthRequest) -> AuthVerdict {
        let verdict = self.verifier.verify(now, conn, request, &self.secrets, &mut self.entropy);
        verdict.unwrap_or_else(|failure| {
            tracing::debug!(%failure, "a peer was refused");
            self.verifier.refuse(failure.errno())
        })
    }
}

fn connector(config: &Config) -> Connector {
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
