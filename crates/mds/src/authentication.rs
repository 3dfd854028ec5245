//! Authentication of clients that connect to this server, and of this server at a monitor.

use crate::Config;
use auth::{
    AcceptFailure, Acceptance, Acceptor, Connector, Entropy, Identity, METHOD_CEPHX, METHOD_NONE,
    MODE_CRC, MODE_SECURE, Presentation, RotatingSecrets, Towards,
};
use engine::{AuthRequest, AuthVerdict, ConnId, ConnectingAnswer, ConnectingStep, Time};
use std::collections::BTreeMap;
use types::{EntityName, EntityType, Errno};

/// Proofs and secrets of one server.
#[derive(Debug)]
pub(crate) struct Authentication {
    acceptor: Acceptor,
    /// Tickets of sessions that clients are opening.
    presentations: BTreeMap<ConnId, Presentation>,
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
        Authentication {
            acceptor: Acceptor::new(method, modes.clone()),
            presentations: BTreeMap::new(),
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
        self.presentations.remove(&conn);
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
        let outcome = match request {
            AuthRequest::Start { method, preferred_modes, payload, .. } => {
                self.start(now, method, &preferred_modes, &payload)
            }
            AuthRequest::More { payload } => match self.presentations.remove(&conn) {
                Some(presentation) => {
                    presentation.answer(now, &payload, &self.secrets, &mut self.entropy)
                }
                None => return self.acceptor.refuse(Errno::INVAL),
            },
        };
        match outcome {
            Ok(Acceptance::Challenged { payload, presentation }) => {
                self.presentations.insert(conn, presentation);
                AuthVerdict::More { payload }
            }
            Ok(Acceptance::Accepted(peer)) => {
                let caps = codec::encode_to_bytes(&peer.caps);
                peer.verdict(caps)
            }
            Err(failure) => {
                tracing::debug!(%failure, "a client was refused");
                self.acceptor.refuse(failure.errno())
            }
        }
    }

    fn start(
        &mut self,
        now: Time,
        method: u32,
        preferred_modes: &[u32],
        payload: &[u8],
    ) -> Result<Acceptance, AcceptFailure> {
        let mode = self.acceptor.choose_mode(method, preferred_modes)?;
        let (secrets, entropy) = (&self.secrets, &mut self.entropy);
        self.acceptor.begin(now, EntityType::MDS, mode, payload, secrets, entropy)
    }
}
