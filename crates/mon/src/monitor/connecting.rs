//! Authentication of this monitor to another one.
//!
//! All monitors have the rotating secrets of their own service, so a monitor seals a ticket for itself. No
//! other entity can have a ticket in the name of a monitor.

use super::{AuthMode, Monitor};
use auth::{
    ClientAuthorizer, ClientError, METHOD_CEPHX, METHOD_NONE, MODE_CRC, MODE_SECURE, NoneAuthorizer,
};
use bytes::Bytes;
use engine::{ConnId, ConnectingAnswer, ConnectingStep, Time};
use types::{EntityName, EntityType, Errno};

/// Why a session cannot be opened.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Cephx(#[from] ClientError),
    #[error("there are no secrets to seal a ticket with yet")]
    NoSecrets,
    #[error("no proof is under way")]
    NotBegun,
    #[error("the other monitor refuses it: {0}")]
    Refused(Errno),
}

impl Monitor {
    /// One step of the authentication to the leader.
    pub(super) fn prove_to_monitor(
        &mut self,
        now: Time,
        conn: ConnId,
        step: ConnectingStep,
    ) -> ConnectingAnswer {
        let answer = match step {
            ConnectingStep::Begin => self.begin_proof(now, conn),
            ConnectingStep::More { payload } => self.continue_proof(conn, &payload),
            ConnectingStep::Done { payload, .. } => self.finish_proof(conn, &payload),
            ConnectingStep::BadMethod { result } => {
                Err(Failure::Refused(Errno(result.saturating_neg())))
            }
        };
        answer.unwrap_or_else(|reason| {
            self.proof = None;
            tracing::warn!(%reason, "cannot authenticate to the monitor that leads");
            ConnectingAnswer::Refuse
        })
    }

    fn begin_proof(&mut self, now: Time, conn: ConnId) -> Result<ConnectingAnswer, Failure> {
        let name = EntityName::new(EntityType::MON, &self.settings.mon_name);
        if self.settings.auth == AuthMode::None {
            let payload = codec::encode_to_bytes(&NoneAuthorizer { name, global_id: 0 });
            let (method, preferred_modes) = (METHOD_NONE, vec![MODE_CRC]);
            return Ok(ConnectingAnswer::Start { method, preferred_modes, payload });
        }
        let secrets = self.state.secrets.service(EntityType::MON).ok_or(Failure::NoSecrets)?;
        let authorizer =
            ClientAuthorizer::among_peers(name, now.wall(), secrets, &mut self.entropy)?;
        let payload = Bytes::copy_from_slice(authorizer.payload());
        self.proof = Some((conn, authorizer));
        // Secure mode first: the keys of clients pass through this session.
        let preferred_modes = vec![MODE_SECURE, MODE_CRC];
        Ok(ConnectingAnswer::Start { method: METHOD_CEPHX, preferred_modes, payload })
    }

    fn continue_proof(
        &mut self,
        conn: ConnId,
        payload: &[u8],
    ) -> Result<ConnectingAnswer, Failure> {
        let proof = self.proof.as_mut().filter(|(proving, _)| *proving == conn);
        let (_, authorizer) = proof.ok_or(Failure::NotBegun)?;
        let answer = authorizer.handle_challenge(payload, &mut self.entropy)?;
        Ok(ConnectingAnswer::More { payload: answer.into() })
    }

    fn finish_proof(&mut self, conn: ConnId, payload: &[u8]) -> Result<ConnectingAnswer, Failure> {
        if self.settings.auth == AuthMode::None {
            let (session_key, connection_secret) = (Bytes::new(), Bytes::new());
            return Ok(ConnectingAnswer::Finish { session_key, connection_secret });
        }
        let proof = self.proof.take_if(|(proving, _)| *proving == conn);
        let (_, authorizer) = proof.ok_or(Failure::NotBegun)?;
        let connection_secret = authorizer.handle_done(payload)?.into();
        let session_key = Bytes::copy_from_slice(authorizer.session_key().secret());
        Ok(ConnectingAnswer::Finish { session_key, connection_secret })
    }
}
