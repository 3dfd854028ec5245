//! Identity of the peer, as claimed and as proved, and the handshake that proves it: from the banner to the
//! signatures.

use crate::event::{CloseReason, Event};
use crate::link::{Link, Phase};
use auth::Side;
use bytes::Bytes;
use engine::{AuthRequest, AuthVerdict, ConnectingAnswer, ConnectingStep};
use types::{EntityAddr, EntityName, EntityType, ParticipantName};
use wire::frame::{Control, Frame, Tag};

/// Result of authentication.
#[derive(Debug, Clone, Default)]
pub(crate) struct Credentials {
    /// Name of an accepted peer.
    pub name: EntityName,
    /// Accepting: the peer's global id; connecting: the one that the peer assigned to this end.
    pub global_id: u64,
    /// Capabilities of an accepted peer, as its ticket or the monitor's store has them.
    pub caps: Bytes,
    /// The method in use.
    pub method: u32,
    /// The connection mode in use (`MODE_*`).
    pub mode: u32,
}

#[derive(Debug)]
pub(crate) struct Identity {
    /// Kind of the peer; [`EntityType::ANY`] until an accepted peer has said it.
    kind: EntityType,
    credentials: Credentials,
    /// The peer's address as seen here.
    seen_addr: EntityAddr,
    /// Our address as the peer sees it.
    own_addr: EntityAddr,
}

/// Result of a frame of the handshake.
pub(crate) enum Shaken {
    /// An accepted peer has said its kind.
    Greeted,
    /// The host must answer.
    Asks(Event),
    /// Both signatures are right: the connection may join its session.
    Authentic,
}

impl Identity {
    /// An identity that nothing has proved yet.
    pub fn new(kind: EntityType, seen_addr: EntityAddr) -> Self {
        let (credentials, own_addr) = (Credentials::default(), EntityAddr::default());
        Self { kind, credentials, seen_addr, own_addr }
    }

    /// The kind that the peer claims; proved together with its name.
    pub fn kind(&self) -> EntityType {
        self.kind
    }

    /// Empty before the peer is authenticated.
    pub fn credentials(&self) -> &Credentials {
        &self.credentials
    }

    /// The peer's address as seen here; for a connecting session, its target.
    pub fn seen_addr(&self) -> EntityAddr {
        self.seen_addr
    }

    /// This end's address as the peer sees it.
    pub fn own_addr(&self) -> EntityAddr {
        self.own_addr
    }

    /// Takes over the credentials that were proved on a newer connection of the same peer.
    pub fn adopt_credentials(&mut self, other: &mut Identity) {
        self.credentials = std::mem::take(&mut other.credentials);
    }

    /// The peer of an accepted session has connected from another address.
    pub fn moved(&mut self, seen_addr: EntityAddr) {
        self.seen_addr = seen_addr;
    }

    /// The number of a client or a metadata server is its global id, which was authenticated; its own claim
    /// was not, and a metadata server without a rank claims none.
    pub fn participant(&self, claimed: i64) -> ParticipantName {
        let proved = i64::try_from(self.credentials.global_id).unwrap_or(0);
        match self.kind {
            EntityType::CLIENT | EntityType::MDS if proved > 0 => {
                ParticipantName::new(self.kind, proved)
            }
            kind => ParticipantName::new(kind, claimed),
        }
    }

    /// Handles a frame of the handshake, after the banners. An error ends the connection.
    pub fn handle_frame(&mut self, link: &mut Link, frame: Frame) -> Result<Shaken, CloseReason> {
        assert!(link.phase() < Phase::Session, "the handshake is over");
        let Frame::Control(control) = frame else {
            return Err(CloseReason::Unexpected(Tag::Message));
        };
        match (link.phase(), link.side(), control) {
            (Phase::Hello, side, Control::Hello { kind, peer_addr }) => {
                self.own_addr = peer_addr;
                link.enter(Phase::Auth);
                self.handle_hello(side, kind)
            }
            (Phase::Signature, _, Control::AuthSignature { signature }) => {
                link.check_signature(&signature)?;
                Ok(Shaken::Authentic)
            }
            (Phase::Auth, Side::Accepting, control) => self.handle_auth_request(control),
            (Phase::Auth, Side::Connecting, control) => self.handle_auth_reply(link, control),
            (_, _, control) => Err(CloseReason::Unexpected(control.tag())),
        }
    }

    fn handle_hello(&mut self, side: Side, kind: EntityType) -> Result<Shaken, CloseReason> {
        match side {
            Side::Accepting => {
                self.kind = kind;
                Ok(Shaken::Greeted)
            }
            Side::Connecting if kind != self.kind => Err(CloseReason::PeerKind {
                expected: self.kind.to_string(),
                found: kind.to_string(),
            }),
            Side::Connecting => Ok(Shaken::Asks(Event::Connecting(ConnectingStep::Begin))),
        }
    }

    fn handle_auth_request(&mut self, control: Control) -> Result<Shaken, CloseReason> {
        let request = match control {
            Control::AuthRequest { method, preferred_modes, payload } => {
                self.credentials.method = method;
                let seen_addr = self.seen_addr;
                AuthRequest::Start { method, preferred_modes, payload, seen_addr }
            }
            Control::AuthRequestMore { payload } => AuthRequest::More { payload },
            other => return Err(CloseReason::Unexpected(other.tag())),
        };
        Ok(Shaken::Asks(Event::AuthRequest(request)))
    }

    fn handle_auth_reply(&mut self, link: &Link, control: Control) -> Result<Shaken, CloseReason> {
        let step = match control {
            Control::AuthBadMethod { result, .. } => ConnectingStep::BadMethod { result },
            Control::AuthReplyMore { payload } => ConnectingStep::More { payload },
            Control::AuthDone { global_id, mode, payload } => {
                // Otherwise the peer could turn encryption off.
                if !link.has_offered(mode) {
                    return Err(CloseReason::ModeNotOffered(mode));
                }
                self.credentials.global_id = global_id;
                self.credentials.mode = mode;
                ConnectingStep::Done { global_id, payload }
            }
            other => return Err(CloseReason::Unexpected(other.tag())),
        };
        Ok(Shaken::Asks(Event::Connecting(step)))
    }

    /// Connecting: passes on the host's answer.
    pub fn answer(&self, link: &mut Link, answer: ConnectingAnswer) -> Result<(), CloseReason> {
        assert_eq!((link.phase(), link.side()), (Phase::Auth, Side::Connecting));
        match answer {
            ConnectingAnswer::Start { method, preferred_modes, payload } => {
                link.offer(&preferred_modes);
                link.send(&Control::AuthRequest { method, preferred_modes, payload });
            }
            ConnectingAnswer::More { payload } => {
                link.send(&Control::AuthRequestMore { payload });
            }
            ConnectingAnswer::Finish { session_key, connection_secret } => {
                link.sign(self.credentials.mode, &session_key, &connection_secret)?;
            }
            ConnectingAnswer::Refuse => return Err(CloseReason::Unauthenticated),
        }
        Ok(())
    }

    /// Accepting: passes on the host's verdict.
    pub fn handle_verdict(
        &mut self,
        link: &mut Link,
        verdict: AuthVerdict,
    ) -> Result<(), CloseReason> {
        assert_eq!((link.phase(), link.side()), (Phase::Auth, Side::Accepting));
        let method = self.credentials.method;
        match verdict {
            AuthVerdict::More { payload } => link.send(&Control::AuthReplyMore { payload }),
            AuthVerdict::BadMethod { result, allowed_methods, allowed_modes } => {
                link.send(&Control::AuthBadMethod {
                    method,
                    result,
                    allowed_methods,
                    allowed_modes,
                });
            }
            AuthVerdict::Done {
                name,
                global_id,
                mode,
                payload,
                session_key,
                connection_secret,
                caps,
            } => {
                if !self.may_act_as(&name) {
                    let (kind, name) = (self.kind.to_string(), name.to_string());
                    return Err(CloseReason::PeerName { kind, name });
                }
                self.credentials = Credentials { name, global_id, caps, method, mode };
                link.send(&Control::AuthDone { global_id, mode, payload });
                link.sign(mode, &session_key, &connection_secret)?;
            }
        }
        Ok(())
    }

    /// A daemon may act as a client (`ceph -n mon.`), but a client not as a daemon.
    fn may_act_as(&self, name: &EntityName) -> bool {
        self.kind == EntityType::CLIENT || self.kind == name.kind
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_a_client_or_a_metadata_server_is_the_global_id_that_it_proved() {
        for (kind, number) in
            [(EntityType::CLIENT, 41), (EntityType::MDS, 41), (EntityType::OSD, -1)]
        {
            let mut identity = Identity::new(kind, EntityAddr::default());
            identity.credentials.global_id = 41;
            assert_eq!(identity.participant(-1), ParticipantName::new(kind, number));
        }
    }
}
