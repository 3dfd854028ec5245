//! Authentication of clients that connect to this server, and of this server at a monitor.

use crate::Config;
use auth::{
    Acceptor, Connector, Entropy, Identity, METHOD_CEPHX, METHOD_NONE, MODE_CRC, MODE_SECURE,
    RotatingSecrets, Towards, Verifier,
};
use engine::{AuthRequest, AuthVerdict, ConnId, ConnectingAnswer, ConnectingStep, Time};
use types::{EntityName, EntityType};

/// Proofs and secrets of one server.
#[derive(Debug)]
pub(crate) struct Authentication {
    verifier: Verifier,
    connector: Connector,
    secrets: RotatingSecrets,
    entropy: Entropy,
}

impl Authentication {
    /// Without secrets: no cephx client is accepted before the monitor has sent them.
    pub fn new(config: &Config, seed: [u8; 32]) -> Self {
        let name = EntityName::new(EntityType::MDS, config.name.clone());
        let (method, identity) = match config.auth_none {
            true => (METHOD_NONE, Identity::Asserted { name, keeps_global_id: true }),
            false => (METHOD_CEPHX, Identity::Daemon { name, key: config.key.clone() }),
        };
        let modes = vec![MODE_CRC, MODE_SECURE];
        let acceptor = Acceptor::new(method, modes.clone());
        Authentication {
            verifier: Verifier::new(EntityType::MDS, acceptor),
            connector: Connector::new(identity, modes),
            secrets: RotatingSecrets::default(),
            entropy: Entropy::from_seed(seed),
        }
    }

    /// Global id that a monitor has given; 0 before.
    pub fn global_id(&self) -> u64 {
        self.connector.global_id()
    }

    /// A session has ended, maybe before it was authenticated.
    pub fn closed(&mut self, conn: ConnId) {
        self.verifier.closed(conn);
        self.connector.forget(conn);
    }

    /// Takes the rotating secrets of the service, sealed with this server's key.
    pub fn take_sealed_secrets(&mut self, sealed: &[u8]) {
        match self.connector.open_rotating(sealed) {
            Ok(secrets) => self.secrets = secrets,
            Err(error) => tracing::error!(%error, "the monitor's secrets cannot be opened"),
        }
    }

    /// Takes rotating secrets that the monitor sent without encryption of their own.
    pub fn take_secrets(&mut self, encoded: &[u8]) {
        match codec::decode_all::<RotatingSecrets>("secrets", encoded) {
            Ok(secrets) => self.secrets = secrets,
            Err(error) => tracing::error!(%error, "the monitor's secrets do not decode"),
        }
    }

    /// One step of authenticating to a monitor. A failure is logged and refuses the session.
    pub fn prove(&mut self, now: Time, conn: ConnId, step: ConnectingStep) -> ConnectingAnswer {
        let answer = self.connector.step(now, conn, Towards::Monitor, step, &mut self.entropy);
        answer.unwrap_or_else(|reason| {
            tracing::warn!(%reason, "cannot authenticate to a monitor; check the server's key");
            ConnectingAnswer::Refuse
        })
    }

    /// One step of the authentication of a connecting client.
    pub fn verify(&mut self, now: Time, conn: ConnId, request: AuthRequest) -> AuthVerdict {
        let verdict = self.verifier.verify(now, conn, request, &self.secrets, &mut self.entropy);
        verdict.unwrap_or_else(|failure| {
            tracing::debug!(%failure, "a client was refused");
            self.verifier.refuse(failure.errno())
        })
    }
}
