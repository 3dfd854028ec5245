//! Authentication of this OSD in the sessions that it opens.
//!
//! To a monitor, it authenticates by its key. To other OSDs, by a ticket that it seals itself: all
//! OSDs hold the rotating secrets of their service, which they got from a monitor. So two OSDs can
//! connect while no monitor is reachable.

use crate::Osd;
use auth::{
    CephxClient, ClientAuthorizer, ClientError, METHOD_CEPHX, METHOD_NONE, MODE_CRC, MODE_SECURE,
    MonAuthRequest, NoneAuthorizer,
};
use bytes::Bytes;
use engine::{ConnId, ConnectingAnswer, ConnectingStep, Time};
use thiserror::Error;
use types::{EntityName, Errno};

/// An authentication in progress.
#[derive(Debug)]
pub(crate) enum Proof {
    Monitor(Box<CephxClient>),
    Peer(Box<ClientAuthorizer>),
    /// `auth none`
    Asserted,
}

/// Why a session cannot be opened.
#[derive(Debug, Error)]
enum Failure {
    #[error(transparent)]
    Cephx(#[from] ClientError),
    #[error("this OSD has no key: its keyring was not there when it started")]
    NoKey,
    #[error("no proof is under way")]
    NotBegun,
    #[error("the peer refuses it: {0}")]
    Refused(Errno),
}

impl Osd {
    /// Performs one step of authenticating to a peer. A failure is logged and refuses the session.
    pub(crate) fn prove(
        &mut self,
        now: Time,
        conn: ConnId,
        step: ConnectingStep,
    ) -> ConnectingAnswer {
        let answer = match step {
            ConnectingStep::Begin => self.begin_proof(now, conn),
            ConnectingStep::More { payload } => self.continue_proof(conn, &payload),
            ConnectingStep::Done { global_id, payload } => {
                self.finish_proof(now, conn, global_id, &payload)
            }
            ConnectingStep::BadMethod { result } => {
                Err(Failure::Refused(Errno(result.saturating_neg())))
            }
        };
        answer.unwrap_or_else(|reason| {
            self.accepting.proofs.remove(&conn);
            let whom = if self.monitor.is(conn) { "a monitor" } else { "another OSD" };
            tracing::warn!(osd = %self.env.config.id, %reason, "cannot authenticate to {whom}");
            ConnectingAnswer::Refuse
        })
    }

    fn begin_proof(&mut self, now: Time, conn: ConnId) -> Result<ConnectingAnswer, Failure> {
        let name = EntityName::osd(self.env.config.id.0);
        let to_monitor = self.monitor.is(conn);
        let (proof, payload) = if self.env.config.auth_none {
            let payload = match to_monitor {
                true => codec::encode_to_bytes(&MonAuthRequest { name, global_id: 0 }),
                false => codec::encode_to_bytes(&NoneAuthorizer { name, global_id: 0 }),
            };
            (Proof::Asserted, payload)
        } else if to_monitor {
            let key = self.env.config.key.clone().ok_or(Failure::NoKey)?;
            let mut client = CephxClient::new(name, key, &[]);
            let payload = client.initial_request().into();
            (Proof::Monitor(Box::new(client)), payload)
        } else {
            let (secrets, entropy) = (&self.accepting.secrets, &mut self.accepting.entropy);
            let authorizer = ClientAuthorizer::among_peers(name, now.wall(), secrets, entropy)?;
            let payload = Bytes::copy_from_slice(authorizer.payload());
            (Proof::Peer(Box::new(authorizer)), payload)
        };
        self.accepting.proofs.insert(conn, proof);
        let (method, preferred_modes) = match self.env.config.auth_none {
            true => (METHOD_NONE, vec![MODE_CRC]),
            false => (METHOD_CEPHX, vec![MODE_CRC, MODE_SECURE]),
        };
        Ok(ConnectingAnswer::Start { method, preferred_modes, payload })
    }

    fn continue_proof(
        &mut self,
        conn: ConnId,
        payload: &[u8],
    ) -> Result<ConnectingAnswer, Failure> {
        let entropy = &mut self.accepting.entropy;
        let answer = match self.accepting.proofs.get_mut(&conn) {
            Some(Proof::Monitor(client)) => client.handle_challenge(payload, entropy)?,
            Some(Proof::Peer(authorizer)) => authorizer.handle_challenge(payload, entropy)?,
            Some(Proof::Asserted) | None => return Err(Failure::NotBegun),
        };
        Ok(ConnectingAnswer::More { payload: answer.into() })
    }

    fn finish_proof(
        &mut self,
        now: Time,
        conn: ConnId,
        global_id: u64,
        payload: &[u8],
    ) -> Result<ConnectingAnswer, Failure> {
        let (session_key, connection_secret) = match self.accepting.proofs.remove(&conn) {
            Some(Proof::Monitor(mut client)) => {
                let session = client.handle_done(now.wall(), global_id, payload)?;
                (Bytes::copy_from_slice(session.session_key.secret()), session.connection_secret)
            }
            Some(Proof::Peer(authorizer)) => {
                let secret = authorizer.handle_done(payload)?;
                (Bytes::copy_from_slice(authorizer.session_key().secret()), secret)
            }
            Some(Proof::Asserted) => (Bytes::new(), Vec::new()),
            None => return Err(Failure::NotBegun),
        };
        Ok(ConnectingAnswer::Finish { session_key, connection_secret: connection_secret.into() })
    }

    /// Decrypts the rotating secrets of the service, which the monitor sealed with this OSD's key.
    pub(crate) fn take_sealed_secrets(&mut self, now: Time, payload: &[u8]) {
        let Some(key) = self.env.config.key.clone() else { return };
        let client = CephxClient::new(EntityName::osd(self.env.config.id.0), key, &[]);
        match client.handle_rotating(payload) {
            Ok(secrets) => self.set_secrets(now, secrets),
            Err(error) => tracing::error!(%error, "the monitor's secrets cannot be opened"),
        }
    }
}
