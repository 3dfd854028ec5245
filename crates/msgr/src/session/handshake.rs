//! The handshake, from the banner to the signatures.

use super::{Session, Step};
use crate::event::{CloseReason, Event};
use crate::link::Phase;
use auth::Side;
use bytes::Bytes;
use engine::{AuthRequest, AuthVerdict, ConnectingAnswer, ConnectingStep};
use types::{EntityAddr, EntityName, EntityType};
use wire::frame::{Control, Frame};

/// Result of authentication.
#[derive(Debug, Clone, Default)]
pub(crate) struct Credentials {
    /// Name of an accepted peer.
    pub name: EntityName,
    /// Accepting: the peer's global id; connecting: the one that the peer assigned to this end.
    pub global_id: u64,
    pub caps: Bytes,
    /// The method in use.
    pub method: u32,
    pub mode: u32,
}

impl Session {
    pub(super) fn advance_banner(&mut self) -> Result<Step, CloseReason> {
        let Some(link) = &mut self.link else { return Ok(Step::Idle) };
        if link.take_banner()?.is_none() {
            return Ok(Step::Idle);
        }
        link.phase = Phase::Hello;
        let hello = Control::Hello { kind: self.config.kind, peer_addr: self.seen_addr };
        link.send(&hello);
        Ok(Step::Progress)
    }

    pub(super) fn shake(&mut self, frame: Frame) -> Result<Step, CloseReason> {
        let link = self.link.as_ref().expect("a frame came from it");
        let Frame::Control(control) = frame else {
            return Err(CloseReason::Unexpected(wire::frame::Tag::Message));
        };
        match (link.phase, link.side, control) {
            (Phase::Hello, _, Control::Hello { kind, peer_addr }) => {
                self.handle_hello(kind, peer_addr)?
            }
            (Phase::Signature, _, Control::AuthSignature { signature }) => {
                self.link.as_mut().expect("checked above").check_signature(&signature)?;
                self.begin_session();
            }
            (Phase::Auth, Side::Accepting, control) => self.handle_auth_request(control)?,
            (Phase::Auth, Side::Connecting, control) => self.handle_auth_reply(control)?,
            (_, _, control) => return Err(CloseReason::Unexpected(control.tag())),
        }
        Ok(Step::Progress)
    }

    fn handle_hello(&mut self, kind: EntityType, own_addr: EntityAddr) -> Result<(), CloseReason> {
        self.own_addr = own_addr;
        let link = self.link.as_mut().expect("a frame came from it");
        link.phase = Phase::Auth;
        match link.side {
            Side::Accepting => {
                self.peer_kind = kind;
                self.policy = self.config.accepted_policy(kind);
                self.queue.retain = self.policy == engine::Policy::Lossless;
                Ok(())
            }
            Side::Connecting if kind != self.peer_kind => Err(CloseReason::PeerKind {
                expected: self.peer_kind.to_string(),
                found: kind.to_string(),
            }),
            Side::Connecting => {
                self.ask_host(Event::Connecting(ConnectingStep::Begin));
                Ok(())
            }
        }
    }

    fn ask_host(&mut self, event: Event) {
        self.awaits_host = true;
        self.events.push_back(event);
    }

    fn handle_auth_request(&mut self, control: Control) -> Result<(), CloseReason> {
        let request = match control {
            Control::AuthRequest { method, preferred_modes, payload } => {
                self.credentials.method = method;
                let seen_addr = self.seen_addr;
                AuthRequest::Start { method, preferred_modes, payload, seen_addr }
            }
            Control::AuthRequestMore { payload } => AuthRequest::More { payload },
            other => return Err(CloseReason::Unexpected(other.tag())),
        };
        self.ask_host(Event::AuthRequest(request));
        Ok(())
    }

    fn handle_auth_reply(&mut self, control: Control) -> Result<(), CloseReason> {
        let step = match control {
            Control::AuthBadMethod { result, .. } => ConnectingStep::BadMethod { result },
            Control::AuthReplyMore { payload } => ConnectingStep::More { payload },
            Control::AuthDone { global_id, mode, payload } => {
                // Otherwise the peer could turn encryption off.
                let mut offered = self.link.iter().flat_map(|link| &link.offered_modes);
                if !offered.any(|offer| *offer == mode) {
                    return Err(CloseReason::ModeNotOffered(mode));
                }
                self.credentials.global_id = global_id;
                self.credentials.mode = mode;
                ConnectingStep::Done { global_id, payload }
            }
            other => return Err(CloseReason::Unexpected(other.tag())),
        };
        self.ask_host(Event::Connecting(step));
        Ok(())
    }

    fn is_authenticating(&self, side: Side) -> bool {
        let link = self.link.as_ref();
        self.awaits_host && link.is_some_and(|link| link.phase == Phase::Auth && link.side == side)
    }

    /// Connecting: answers `Connecting`. The session ends if the host refuses to authenticate.
    pub fn answer(&mut self, answer: ConnectingAnswer) {
        if !self.is_authenticating(Side::Connecting) {
            return;
        }
        self.awaits_host = false;
        match answer {
            ConnectingAnswer::Start { method, preferred_modes, payload } => {
                if let Some(link) = &mut self.link {
                    link.offered_modes.clone_from(&preferred_modes);
                }
                self.send_control(&Control::AuthRequest { method, preferred_modes, payload });
            }
            ConnectingAnswer::More { payload } => {
                self.send_control(&Control::AuthRequestMore { payload });
            }
            ConnectingAnswer::Finish { session_key, connection_secret } => {
                self.sign(self.credentials.mode, &session_key, &connection_secret);
            }
            ConnectingAnswer::Refuse => self.finish(CloseReason::Unauthenticated),
        }
    }

    /// Accepting: answers `AuthRequest`.
    pub fn handle_auth_verdict(&mut self, now: engine::Time, verdict: AuthVerdict) {
        self.now = now;
        if !self.is_authenticating(Side::Accepting) {
            return;
        }
        self.awaits_host = false;
        match verdict {
            AuthVerdict::More { payload } => self.send_control(&Control::AuthReplyMore { payload }),
            AuthVerdict::BadMethod { result, allowed_methods, allowed_modes } => {
                let method = self.credentials.method;
                self.send_control(&Control::AuthBadMethod {
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
                    let (kind, name) = (self.peer_kind.to_string(), name.to_string());
                    return self.fail(CloseReason::PeerName { kind, name });
                }
                let method = self.credentials.method;
                self.credentials = Credentials { name, global_id, caps, method, mode };
                self.send_control(&Control::AuthDone { global_id, mode, payload });
                self.sign(mode, &session_key, &connection_secret);
            }
        }
    }

    /// A daemon may act as a client (`ceph -n mon.`), but a client not as a daemon.
    fn may_act_as(&self, name: &EntityName) -> bool {
        self.peer_kind == EntityType::CLIENT || self.peer_kind == name.kind
    }

    fn sign(&mut self, mode: u32, session_key: &[u8], connection_secret: &[u8]) {
        let link = self.link.as_mut().expect("the host answers an event of this connection");
        if let Err(reason) = link.sign(mode, session_key, connection_secret) {
            self.fail(reason);
        }
    }
}
