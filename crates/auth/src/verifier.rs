//! Authentication of the peers that connect to a daemon, on all of its connections.

use crate::{AcceptFailure, Acceptance, Acceptor, Entropy, Presentation, RotatingSecrets};
use engine::{AuthRequest, AuthVerdict, ConnId, Time};
use std::collections::BTreeMap;
use types::{EntityType, Errno};

/// An [`Acceptor`] with the [`Presentation`]s of connections that are not authenticated yet. The owner has
/// the secrets, and calls [`Verifier::closed`] for each connection that ends.
#[derive(Debug)]
pub struct Verifier {
    service: EntityType,
    acceptor: Acceptor,
    presentations: BTreeMap<ConnId, Presentation>,
}

impl Verifier {
    /// `service` is the type of the daemon.
    pub fn new(service: EntityType, acceptor: Acceptor) -> Self {
        Verifier { service, acceptor, presentations: BTreeMap::new() }
    }

    /// A connection has ended, maybe before its peer was authenticated.
    pub fn closed(&mut self, conn: ConnId) {
        self.presentations.remove(&conn);
    }

    /// Performs one step of the authentication of a connecting peer.
    ///
    /// # Errors
    ///
    /// The peer is not admitted: [`Verifier::refuse`] says it to the peer.
    pub fn verify(
        &mut self,
        now: Time,
        conn: ConnId,
        request: AuthRequest,
        secrets: &RotatingSecrets,
        entropy: &mut Entropy,
    ) -> Result<AuthVerdict, AcceptFailure> {
        let acceptance = match request {
            AuthRequest::Start { method, preferred_modes, payload, .. } => {
                let mode = self.acceptor.choose_mode(method, &preferred_modes)?;
                self.acceptor.begin(now, self.service, mode, &payload, secrets, entropy)?
            }
            AuthRequest::More { payload } => {
                let presentation = self.presentations.remove(&conn);
                let presentation = presentation.ok_or(AcceptFailure::NotChallenged)?;
                presentation.answer(now, &payload, secrets, entropy)?
            }
        };
        Ok(match acceptance {
            Acceptance::Challenged { payload, presentation } => {
                self.presentations.insert(conn, presentation);
                AuthVerdict::More { payload }
            }
            Acceptance::Accepted(peer) => {
                let caps = codec::encode_to_bytes(&peer.caps);
                peer.verdict(caps)
            }
        })
    }

    /// AUTH_BAD_METHOD, with what is accepted instead.
    pub fn refuse(&self, errno: Errno) -> AuthVerdict {
        self.acceptor.refuse(errno)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        CephxPolicy, ClientAuthorizer, METHOD_CEPHX, MODE_CRC, MODE_SECURE, ServiceSecrets,
    };
    use types::EntityName;

    const NOW: Time = Time(1_700_000_000_000_000_000);
    const CONN: ConnId = ConnId(7);

    #[test]
    fn a_challenge_is_answered_once_on_its_connection() {
        let (mut secrets, mut entropy) = (ServiceSecrets::default(), Entropy::from_seed([5; 32]));
        secrets.rotate(NOW.wall(), &CephxPolicy::default(), &mut entropy);
        let secrets = secrets.service(EntityType::OSD).unwrap().clone();
        let name = EntityName::osd(1);
        let mut client =
            ClientAuthorizer::among_peers(name.clone(), NOW.wall(), &secrets, &mut entropy)
                .unwrap();
        let acceptor = Acceptor::new(METHOD_CEPHX, vec![MODE_CRC, MODE_SECURE]);
        let mut verifier = Verifier::new(EntityType::OSD, acceptor);
        let mut verify =
            |conn, request| verifier.verify(NOW, conn, request, &secrets, &mut entropy);
        let start = AuthRequest::Start {
            method: METHOD_CEPHX,
            preferred_modes: vec![MODE_SECURE],
            payload: client.payload().to_vec().into(),
            seen_addr: types::EntityAddr::default(),
        };
        let Ok(AuthVerdict::More { payload }) = verify(CONN, start) else {
            panic!("not challenged")
        };
        let answer = client.handle_challenge(&payload, &mut Entropy::from_seed([6; 32])).unwrap();
        let more = |payload: &[u8]| AuthRequest::More { payload: payload.to_vec().into() };
        let foreign = verify(ConnId(8), more(&answer)).unwrap_err();
        assert_eq!((&foreign, foreign.errno()), (&AcceptFailure::NotChallenged, Errno::INVAL));
        assert!(matches!(verify(CONN, more(&answer)), Ok(AuthVerdict::Done { .. })));
        assert!(verify(CONN, more(&answer)).is_err(), "it was answered");
    }
}
