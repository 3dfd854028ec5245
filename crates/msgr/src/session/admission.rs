//! Admission of an accepted connection: it starts a session, joins an existing one, or is told to wait.
//!
//! The rules are Ceph's: the peer's global sequence shows stale connections, the client's cookie shows
//! restarts, the connect sequence shows stale reconnects, and where both ends connect at the same time, the
//! connection of the end with the lower address wins.

use super::{Session, State};
use crate::event::CloseReason;
use codec::encode_to_bytes;
use engine::{Peer, Policy};
use types::{EntityAddrVec, EntityType};
use wire::frame::Control;

/// Introduction of an authenticated peer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Introduction {
    /// The peer's addresses: the key under which the host may have a session with it.
    pub addrs: EntityAddrVec,
    pub(crate) global_seq: u64,
    pub(crate) kind: IntroductionKind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum IntroductionKind {
    /// CLIENT_IDENT
    New { cookie: u64, peer: Peer },
    /// SESSION_RECONNECT
    Again { client_cookie: u64, connect_seq: u64, message_seq: u64 },
}

/// Result of an admission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// The connection is a session of its own, which replaces the existing one if that now reports `Closed`.
    Opened,
    /// The connection belongs to the existing session from now on: the host gives it the socket, closes its
    /// former socket, and drops the admitted session.
    Adopted,
    /// The peer was told to introduce itself otherwise, or to wait.
    Answered,
    /// The connection is refused; `Closed` follows.
    Refused,
}

/// The decision about a connection.
enum Decision {
    Open,
    /// The existing session has ended.
    Replace,
    Adopt,
    Answer(Control),
    /// The existing session's own attempt to connect wins.
    Wait,
    Refuse(CloseReason),
}

impl Session {
    /// Accepting: answers `Introduced`. `existing` is the host's lossless session with that peer, whichever
    /// end started it.
    pub fn admit(&mut self, mut existing: Option<&mut Session>) -> Admission {
        let State::Introduced(introduction) = std::mem::replace(&mut self.state, State::Handshake)
        else {
            return Admission::Refused;
        };
        self.awaits_host = false;
        let known = existing.as_deref().filter(|session| !session.is_closed());
        let decision = match &introduction.kind {
            IntroductionKind::New { cookie, .. } => {
                self.decide_new(known, introduction.global_seq, *cookie)
            }
            IntroductionKind::Again { client_cookie, connect_seq, message_seq } => {
                let sequence = [introduction.global_seq, *connect_seq, *message_seq];
                self.decide_again(known, *client_cookie, sequence, &introduction.addrs)
            }
        };
        match decision {
            Decision::Open => self.open_accepted(introduction),
            Decision::Replace => {
                if let Some(existing) = existing {
                    existing.finish(CloseReason::Replaced);
                }
                self.open_accepted(introduction)
            }
            Decision::Adopt => {
                let existing = existing.expect("only an existing session adopts");
                existing.adopt(self, introduction);
                Admission::Adopted
            }
            Decision::Answer(control) => {
                self.send_control(&control);
                Admission::Answered
            }
            Decision::Wait => {
                if let Some(existing) = &mut existing {
                    existing.hurry();
                }
                self.send_control(&Control::Wait);
                Admission::Answered
            }
            Decision::Refuse(reason) => {
                self.finish(reason);
                Admission::Refused
            }
        }
    }

    fn decide_new(&self, existing: Option<&Session>, global_seq: u64, cookie: u64) -> Decision {
        let Some(existing) = existing else { return Decision::Open };
        if let Some(reason) = self.impostor(existing) {
            return Decision::Refuse(reason);
        }
        let restarted = existing.client_cookie != 0 && cookie != 0;
        let restarted = restarted && existing.client_cookie != cookie;
        let settled = matches!(existing.state, State::Open | State::Standby(_));
        if existing.peer_global_seq > global_seq {
            return match restarted && !settled {
                true => Decision::Replace,
                false => Decision::Refuse(CloseReason::Stale),
            };
        }
        if existing.policy == Policy::Lossy || (restarted && existing.server_cookie != 0) {
            return Decision::Replace;
        }
        if existing.client_cookie == cookie || settled || !self.own_is_lower(existing) {
            return Decision::Adopt;
        }
        Decision::Wait
    }

    fn decide_again(
        &self,
        existing: Option<&Session>,
        client_cookie: u64,
        [global_seq, connect_seq, message_seq]: [u64; 3],
        addrs: &EntityAddrVec,
    ) -> Decision {
        let reset = |full| Decision::Answer(Control::SessionReset { full });
        let Some(existing) = existing else { return reset(true) };
        if let Some(reason) = self.impostor(existing) {
            return Decision::Refuse(reason);
        }
        if existing.client_cookie != client_cookie {
            return reset(true);
        }
        if existing.server_cookie == 0 {
            // This end was the client and never learned that its session was accepted.
            return reset(false);
        }
        if existing.peer_global_seq > global_seq {
            let global_seq = existing.peer_global_seq;
            return Decision::Answer(Control::SessionRetryGlobal { global_seq });
        }
        if existing.connect_seq > connect_seq {
            let connect_seq = existing.connect_seq;
            return Decision::Answer(Control::SessionRetry { connect_seq });
        }
        let racing = existing.connect_seq == connect_seq && existing.target.is_some();
        if racing && self.is_lower_than(addrs) {
            return Decision::Wait;
        }
        let sent = existing.queue.highest_sent();
        if message_seq > sent {
            return Decision::Refuse(CloseReason::AckBeyondSent { claimed: message_seq, sent });
        }
        Decision::Adopt
    }

    /// Fails unless the peer's authenticated identity is that of the existing session; addresses and cookies
    /// prove nothing.
    fn impostor(&self, existing: &Session) -> Option<CloseReason> {
        let known = existing.target.is_none();
        let same_name = !known || self.credentials.name == existing.credentials.name;
        let same_kind =
            existing.peer_kind == EntityType::ANY || self.peer_kind == existing.peer_kind;
        (!same_name || !same_kind).then(|| CloseReason::PeerName {
            kind: self.peer_kind.to_string(),
            name: self.credentials.name.to_string(),
        })
    }

    /// True if this end's attempt to connect wins against the peer's.
    fn own_is_lower(&self, existing: &Session) -> bool {
        let peer = existing.target.as_ref();
        peer.is_some_and(|peer| self.is_lower_than(&peer.addrs))
    }

    /// Compares the bytes of the addresses, as Ceph does.
    fn is_lower_than(&self, peer: &EntityAddrVec) -> bool {
        let bytes = |addrs: &EntityAddrVec| encode_to_bytes(&addrs.msgr2().unwrap_or_default());
        bytes(&self.config.addrs) < bytes(peer)
    }

    fn open_accepted(&mut self, introduction: Introduction) -> Admission {
        self.peer_global_seq = introduction.global_seq;
        match introduction.kind {
            IntroductionKind::New { cookie, peer } => {
                self.client_cookie = cookie;
                self.peer = Some(peer);
            }
            IntroductionKind::Again { .. } => unreachable!("a reconnect never opens a session"),
        }
        self.send_server_ident();
        self.open();
        Admission::Opened
    }

    /// Continues this session on the connection of `other`.
    fn adopt(&mut self, other: &mut Session, introduction: Introduction) {
        self.drop_link();
        self.now = self.now.max(other.now);
        self.link = other.link.take();
        other.state = State::Closed;
        self.peer_global_seq = introduction.global_seq;
        if self.target.is_none() {
            self.seen_addr = other.seen_addr;
        }
        match introduction.kind {
            IntroductionKind::New { cookie, peer } => {
                self.credentials = std::mem::take(&mut other.credentials);
                self.client_cookie = cookie;
                self.peer = Some(peer);
                self.send_server_ident();
            }
            IntroductionKind::Again { connect_seq, message_seq, .. } => {
                self.connect_seq = connect_seq;
                self.queue.acknowledge(message_seq);
                self.send_control(&Control::SessionReconnectOk { message_seq: self.in_seq });
            }
        }
        self.open();
    }

    /// The peer requests the session that this end is about to open: skips the delay.
    fn hurry(&mut self) {
        if let State::Backoff(_) = self.state {
            self.dial();
        }
    }
}
