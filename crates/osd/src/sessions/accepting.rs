//! Authentication of peers that connect, and the capabilities of their tickets.

use super::connecting::connector;
use crate::{Config, Osd};
use auth::{
    AuthCaps, AuthorizeHandler, AuthorizeStep, CONNECTION_SECRET_LENGTH, ConnectFailure, Connector,
    Entropy, METHOD_CEPHX, METHOD_NONE, MODE_CRC, MODE_SECURE, NoneAuthorizer, RotatingSecrets,
    Towards,
};
use bytes::Bytes;
use engine::{AuthRequest, AuthVerdict, ConnId, ConnectingAnswer, ConnectingStep, Output, Time};
use std::collections::BTreeMap;
use types::{EntityType, Errno};

/// A peer that has begun to authenticate.
#[derive(Debug)]
pub(crate) struct Handshake {
    mode: u32,
    handler: AuthorizeHandler,
}

/// Authentication of peers that connect here, and of this OSD where it connects.
#[derive(Debug)]
pub(crate) struct Accepting {
    pub(super) handshakes: BTreeMap<ConnId, Handshake>,
    /// Proofs of this OSD in the sessions that it is opening.
    pub(super) connector: Connector,
    pub(super) secrets: RotatingSecrets,
    pub(super) entropy: Entropy,
}

impl Accepting {
    /// Without secrets: no cephx peer is accepted before the monitor has sent them.
    pub fn new(config: &Config, seed: [u8; 32]) -> Self {
        Accepting {
            handshakes: BTreeMap::new(),
            connector: connector(config),
            secrets: RotatingSecrets::default(),
            entropy: Entropy::from_seed(seed),
        }
    }

    /// A session was opened, so its authentication is complete.
    pub fn opened(&mut self, conn: ConnId) {
        self.handshakes.remove(&conn);
    }

    /// A session ended, maybe before it was authenticated.
    pub fn closed(&mut self, conn: ConnId) {
        self.handshakes.remove(&conn);
        self.connector.forget(conn);
    }

    /// Performs one step of authenticating to a monitor or another OSD.
    pub(super) fn prove(
        &mut self,
        now: Time,
        conn: ConnId,
        to_monitor: bool,
        step: ConnectingStep,
    ) -> Result<ConnectingAnswer, ConnectFailure> {
        let to = if to_monitor { Towards::Monitor } else { Towards::Peer(Some(&self.secrets)) };
        self.connector.step(now, conn, to, step, &mut self.entropy)
    }
}

impl Osd {
    /// Performs one step of the authentication of a connecting peer; the verdict is an output.
    pub(crate) fn judge(&mut self, now: Time, conn: ConnId, request: AuthRequest) {
        let verdict = match request {
            AuthRequest::Start { method, preferred_modes, payload, .. } => {
                self.start_handshake(now, conn, method, &preferred_modes, &payload)
            }
            AuthRequest::More { payload } => match self.accepting.handshakes.remove(&conn) {
                Some(handshake) => self.authorize(now, conn, handshake, &payload),
                None => Err(Errno::INVAL),
            },
        };
        let verdict = verdict.unwrap_or_else(|errno| AuthVerdict::BadMethod {
            result: errno.negative(),
            allowed_methods: vec![self.auth_method()],
            allowed_modes: self.env.config.connection_modes.clone(),
        });
        self.outbox.push(Output::Auth { conn, verdict });
    }

    fn auth_method(&self) -> u32 {
        if self.env.config.auth_none { METHOD_NONE } else { METHOD_CEPHX }
    }

    fn start_handshake(
        &mut self,
        now: Time,
        conn: ConnId,
        method: u32,
        preferred_modes: &[u32],
        payload: &Bytes,
    ) -> Result<AuthVerdict, Errno> {
        if method != self.auth_method() {
            return Err(Errno::NOTSUPP);
        }
        // Secure mode needs a session key, which `auth none` does not provide.
        let accepted = |mode: &&u32| {
            self.env.config.connection_modes.contains(mode)
                && (**mode == MODE_CRC || !self.env.config.auth_none)
        };
        let mode = *preferred_modes.iter().find(accepted).ok_or(Errno::NOTSUPP)?;
        if self.env.config.auth_none {
            return believe(payload);
        }
        let handler = AuthorizeHandler::new(EntityType::OSD);
        self.authorize(now, conn, Handshake { mode, handler }, payload)
    }

    fn authorize(
        &mut self,
        now: Time,
        conn: ConnId,
        mut handshake: Handshake,
        payload: &[u8],
    ) -> Result<AuthVerdict, Errno> {
        let mode = handshake.mode;
        let secret_length = if mode == MODE_SECURE { CONNECTION_SECRET_LENGTH } else { 0 };
        let (secrets, entropy) = (&self.accepting.secrets, &mut self.accepting.entropy);
        let step = handshake.handler.handle(now.wall(), secrets, payload, secret_length, entropy);
        match step {
            Err(error) => {
                tracing::debug!(%error, "an authorizer was refused");
                Err(Errno::ACCES)
            }
            Ok(AuthorizeStep::Challenge(challenge)) => {
                self.accepting.handshakes.insert(conn, handshake);
                Ok(AuthVerdict::More { payload: challenge.into() })
            }
            Ok(AuthorizeStep::Accepted { peer, reply }) => Ok(AuthVerdict::Done {
                name: peer.name,
                global_id: peer.global_id,
                mode,
                payload: reply.into(),
                session_key: Bytes::copy_from_slice(peer.session_key.secret()),
                connection_secret: peer.connection_secret.into(),
                caps: codec::encode_to_bytes(&peer.caps),
            }),
        }
    }
}

/// Without authentication, every peer may do everything.
fn believe(payload: &Bytes) -> Result<AuthVerdict, Errno> {
    let asserted: NoneAuthorizer = codec::Reader::new(payload).value().map_err(|_| Errno::INVAL)?;
    let caps = AuthCaps { allow_all: true, text: String::new() };
    Ok(AuthVerdict::Done {
        name: asserted.name,
        global_id: asserted.global_id,
        mode: MODE_CRC,
        payload: Bytes::new(),
        session_key: Bytes::new(),
        connection_secret: Bytes::new(),
        caps: codec::encode_to_bytes(&caps),
    })
}
