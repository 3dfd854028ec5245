//! Incoming authentication by authorizers: what a service asks of the entities that connect to it.
//!
//! ```text
//! Acceptor::choose_mode                 method and modes of AUTH_REQUEST
//! Acceptor::begin                       -> Challenged, or Accepted with method none
//!   Presentation::answer                -> Accepted
//!     Accepted::verdict                 AUTH_DONE
//! ```
//!
//! The owner keeps the [`Presentation`] of each connection between the two steps and drops it when the
//! connection closes. An error ends the exchange; [`Acceptor::refuse`] says it to the peer. Keys, which only
//! monitors judge, are the business of [`crate::CephxServer`].

use crate::{
    AuthCaps, AuthorizeError, AuthorizeHandler, AuthorizeStep, CONNECTION_SECRET_LENGTH, Entropy,
    METHOD_CEPHX, METHOD_NONE, MODE_CRC, MODE_SECURE, NoneAuthorizer, RotatingSecrets,
};
use bytes::Bytes;
use codec::DecodeError;
use engine::{AuthVerdict, Time};
use types::{EntityName, EntityType, Errno};

/// Methods and modes that a daemon accepts.
#[derive(Debug, Clone)]
pub struct Acceptor {
    method: u32,
    modes: Vec<u32>,
}

/// Reason why a peer is not admitted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AcceptFailure {
    /// The peer names another method (`METHOD_*`).
    #[error("method {0} is not accepted here")]
    Method(u32),
    /// No mode that the peer prefers is accepted.
    #[error("none of the connection modes {0:?} is accepted here")]
    Modes(Vec<u32>),
    /// An asserted name does not decode.
    #[error("the authorizer is malformed")]
    Malformed(#[source] DecodeError),
    /// The peer answers a challenge that it did not get.
    #[error("the peer answers without a challenge")]
    NotChallenged,
    /// The ticket, or the answer to the challenge, is not accepted.
    #[error(transparent)]
    Authorizer(#[from] AuthorizeError),
}

impl AcceptFailure {
    /// Error code of AUTH_BAD_METHOD.
    pub fn errno(&self) -> Errno {
        match self {
            AcceptFailure::Method(_) | AcceptFailure::Modes(_) => Errno::NOTSUPP,
            AcceptFailure::Malformed(_) | AcceptFailure::NotChallenged => Errno::INVAL,
            AcceptFailure::Authorizer(_) => Errno::ACCES,
        }
    }
}

/// Result of one payload of the peer.
#[derive(Debug)]
pub enum Acceptance {
    /// The payload is for the peer (AUTH_REPLY_MORE), its next one for [`Presentation::answer`].
    Challenged {
        /// Payload of AUTH_REPLY_MORE.
        payload: Bytes,
        /// State of the exchange, for the peer's next payload.
        presentation: Presentation,
    },
    /// The peer is authenticated.
    Accepted(Box<Accepted>),
}

/// A ticket that was shown and has been answered with a challenge.
#[derive(Debug)]
pub struct Presentation {
    service: EntityType,
    mode: u32,
    handler: AuthorizeHandler,
}

/// A peer that is authenticated, and the keys of its connection.
pub struct Accepted {
    /// The authenticated name.
    pub name: EntityName,
    /// The number that a monitor gave it; 0 for daemons.
    pub global_id: u64,
    /// Capabilities for the service, as the ticket has them.
    pub caps: AuthCaps,
    mode: u32,
    payload: Bytes,
    session_key: Bytes,
    connection_secret: Bytes,
}

impl Acceptor {
    /// With [`METHOD_NONE`] every name is believed, and only [`MODE_CRC`] of `modes` is possible.
    pub fn new(method: u32, modes: Vec<u32>) -> Self {
        assert!(matches!(method, METHOD_NONE | METHOD_CEPHX), "method {method} is unknown");
        Acceptor { method, modes }
    }

    /// The first mode of AUTH_REQUEST that is accepted.
    ///
    /// # Errors
    ///
    /// The method is another one, or no mode is accepted.
    pub fn choose_mode(&self, method: u32, preferred: &[u32]) -> Result<u32, AcceptFailure> {
        if method != self.method {
            return Err(AcceptFailure::Method(method));
        }
        // Secure mode needs a session key, which method none does not provide.
        let has_keys = self.method == METHOD_CEPHX;
        let is_accepted = |mode: &u32| self.modes.contains(mode) && (has_keys || *mode == MODE_CRC);
        let mode = preferred.iter().copied().find(is_accepted);
        mode.ok_or_else(|| AcceptFailure::Modes(preferred.to_vec()))
    }

    /// Handles the first payload of a peer that shows an authorizer for `service`, the type of the daemon.
    ///
    /// # Errors
    ///
    /// The ticket is not accepted, or, with method none, the name does not decode.
    pub fn begin(
        &self,
        now: Time,
        service: EntityType,
        mode: u32,
        payload: &[u8],
        secrets: &RotatingSecrets,
        entropy: &mut Entropy,
    ) -> Result<Acceptance, AcceptFailure> {
        if self.method == METHOD_NONE {
            return Accepted::believed(payload).map(|peer| Acceptance::Accepted(Box::new(peer)));
        }
        let handler = AuthorizeHandler::new(service);
        Presentation { service, mode, handler }.answer(now, payload, secrets, entropy)
    }

    /// AUTH_BAD_METHOD, with what is accepted instead.
    pub fn refuse(&self, errno: Errno) -> AuthVerdict {
        AuthVerdict::BadMethod {
            result: errno.negative(),
            allowed_methods: vec![self.method],
            allowed_modes: self.modes.clone(),
        }
    }
}

impl Presentation {
    /// The service that the ticket is for.
    pub fn service(&self) -> EntityType {
        self.service
    }

    /// Handles the peer's answer to the challenge.
    ///
    /// # Errors
    ///
    /// The ticket or the answer is not accepted.
    pub fn answer(
        mut self,
        now: Time,
        payload: &[u8],
        secrets: &RotatingSecrets,
        entropy: &mut Entropy,
    ) -> Result<Acceptance, AcceptFailure> {
        let secret_length = connection_secret_length(self.mode);
        match self.handler.handle(now.wall(), secrets, payload, secret_length, entropy)? {
            AuthorizeStep::Challenge(challenge) => {
                Ok(Acceptance::Challenged { payload: challenge.into(), presentation: self })
            }
            AuthorizeStep::Accepted { peer, reply } => {
                Ok(Acceptance::Accepted(Box::new(Accepted {
                    name: peer.name,
                    global_id: peer.global_id,
                    caps: peer.caps,
                    mode: self.mode,
                    payload: reply.into(),
                    session_key: Bytes::copy_from_slice(peer.session_key.secret()),
                    connection_secret: peer.connection_secret.into(),
                })))
            }
        }
    }
}

impl Accepted {
    /// Method none: every peer may do everything.
    fn believed(payload: &[u8]) -> Result<Self, AcceptFailure> {
        let asserted: NoneAuthorizer =
            codec::Reader::new(payload).value().map_err(AcceptFailure::Malformed)?;
        Ok(Accepted {
            name: asserted.name,
            global_id: asserted.global_id,
            caps: AuthCaps { allow_all: true, text: String::new() },
            mode: MODE_CRC,
            payload: Bytes::new(),
            session_key: Bytes::new(),
            connection_secret: Bytes::new(),
        })
    }

    /// AUTH_DONE. `caps` are the capabilities in the encoding that the daemon reads in `Peer::caps`.
    pub fn verdict(self, caps: Bytes) -> AuthVerdict {
        AuthVerdict::Done {
            name: self.name,
            global_id: self.global_id,
            mode: self.mode,
            payload: self.payload,
            session_key: self.session_key,
            connection_secret: self.connection_secret,
            caps,
        }
    }
}

impl std::fmt::Debug for Accepted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Accepted({}, global id {}, {:?})", self.name, self.global_id, self.caps)
    }
}

/// Bytes of the secret that both ends of a connection in that mode agree on.
pub fn connection_secret_length(mode: u32) -> usize {
    if mode == MODE_SECURE { CONNECTION_SECRET_LENGTH } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CephxPolicy, ClientAuthorizer, ServiceSecrets};

    const NOW: Time = Time(1_700_000_000_000_000_000);

    fn secrets() -> (RotatingSecrets, Entropy) {
        let (mut secrets, mut entropy) = (ServiceSecrets::default(), Entropy::from_seed([5; 32]));
        secrets.rotate(NOW.wall(), &CephxPolicy::default(), &mut entropy);
        (secrets.service(EntityType::OSD).unwrap().clone(), entropy)
    }

    #[test]
    fn a_ticket_is_accepted_after_a_challenge() {
        let (secrets, mut entropy) = secrets();
        let acceptor = Acceptor::new(METHOD_CEPHX, vec![MODE_CRC, MODE_SECURE]);
        let mode = acceptor.choose_mode(METHOD_CEPHX, &[7, MODE_SECURE, MODE_CRC]).unwrap();
        assert_eq!(mode, MODE_SECURE);
        let (name, wall) = (EntityName::osd(1), NOW.wall());
        let mut client =
            ClientAuthorizer::among_peers(name.clone(), wall, &secrets, &mut entropy).unwrap();
        let mut begin = |payload: &[u8]| {
            acceptor.begin(NOW, EntityType::OSD, mode, payload, &secrets, &mut entropy)
        };
        let Ok(Acceptance::Challenged { payload, presentation }) = begin(client.payload()) else {
            panic!("not challenged")
        };
        assert_eq!(presentation.service(), EntityType::OSD);
        assert_eq!(begin(b"any").unwrap_err().errno(), Errno::ACCES);
        let answer = client.handle_challenge(&payload, &mut Entropy::from_seed([6; 32])).unwrap();
        let accepted = presentation.answer(NOW, &answer, &secrets, &mut entropy).unwrap();
        let Acceptance::Accepted(accepted) = accepted else { panic!("challenged twice") };
        assert_eq!((&accepted.name, accepted.caps.allow_all), (&name, true));
        let AuthVerdict::Done { payload, mode, connection_secret, .. } =
            accepted.verdict(Bytes::new())
        else {
            panic!("refused")
        };
        assert_eq!(mode, MODE_SECURE);
        assert_eq!(client.handle_done(&payload).unwrap(), connection_secret);
    }

    #[test]
    fn without_keys_a_name_is_believed_and_nothing_is_encrypted() {
        let acceptor = Acceptor::new(METHOD_NONE, vec![MODE_CRC, MODE_SECURE]);
        assert_eq!(acceptor.choose_mode(METHOD_NONE, &[MODE_SECURE, MODE_CRC]), Ok(MODE_CRC));
        let only_secure = acceptor.choose_mode(METHOD_NONE, &[MODE_SECURE]).unwrap_err();
        assert_eq!(only_secure.errno(), Errno::NOTSUPP);
        let (secrets, mut entropy) = secrets();
        let asserted = NoneAuthorizer { name: EntityName::client("x"), global_id: 8 };
        let payload = codec::encode_to_bytes(&asserted);
        let mut begin = |payload: &[u8]| {
            acceptor.begin(NOW, EntityType::OSD, MODE_CRC, payload, &secrets, &mut entropy)
        };
        let Ok(Acceptance::Accepted(peer)) = begin(&payload) else { panic!("not accepted") };
        assert_eq!((peer.name, peer.global_id), (asserted.name, 8));
        assert_eq!(begin(b"").unwrap_err().errno(), Errno::INVAL);
    }

    #[test]
    fn another_method_is_refused_with_those_that_are_accepted() {
        let acceptor = Acceptor::new(METHOD_CEPHX, vec![MODE_CRC]);
        let failure = acceptor.choose_mode(METHOD_NONE, &[MODE_CRC]).unwrap_err();
        assert_eq!(failure, AcceptFailure::Method(METHOD_NONE));
        let expected = AuthVerdict::BadMethod {
            result: Errno::NOTSUPP.negative(),
            allowed_methods: vec![METHOD_CEPHX],
            allowed_modes: vec![MODE_CRC],
        };
        assert_eq!(acceptor.refuse(failure.errno()), expected);
    }
}
