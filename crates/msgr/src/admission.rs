//! Decision about an accepted connection: it starts a session, joins an existing one, or is told to wait.
//!
//! The rules are Ceph's: the peer's global sequence shows stale connections, the client's cookie shows
//! restarts, the connect sequence shows stale reconnects, and where both ends connect at the same time, the
//! connection of the end with the lower address wins.

use crate::config::Config;
use crate::event::CloseReason;
use crate::identity::Identity;
use crate::introduction::{Introduction, IntroductionKind};
use crate::numbers::Numbers;
use codec::encode_to_bytes;
use engine::Policy;
use types::{EntityAddrVec, EntityType};
use wire::frame::Control;

/// An authenticated connection of a peer, and what it asks for.
pub(crate) struct Newcomer<'a> {
    /// Of this end.
    pub config: &'a Config,
    /// Proved identity of the peer.
    pub identity: &'a Identity,
    /// The request of the peer.
    pub introduction: &'a Introduction,
}

/// The session that this end has with the same peer.
pub(crate) struct Existing<'a> {
    /// Identity that the peer proved on its last connection.
    pub identity: &'a Identity,
    /// Cookies and sequences that the peer must match.
    pub numbers: &'a Numbers,
    /// A lossy session is replaced, never joined.
    pub policy: Policy,
    /// Addresses to which this end connects; `None` if the peer has started the session.
    pub target: Option<&'a EntityAddrVec>,
    /// The session is open, or waits for its peer.
    pub is_settled: bool,
    /// Highest sequence number that the peer can have received.
    pub highest_sent: u64,
}

/// The decision about a connection.
pub(crate) enum Decision {
    Open,
    /// The existing session has ended.
    Replace,
    Adopt,
    Answer(Control),
    /// The existing session's own attempt to connect wins.
    Wait,
    Refuse(CloseReason),
}

impl Newcomer<'_> {
    /// `existing` is the session with that peer, unless it is closed.
    pub fn decide(&self, existing: Option<&Existing<'_>>) -> Decision {
        let global_seq = self.introduction.global_seq;
        match &self.introduction.kind {
            IntroductionKind::New { cookie, .. } => self.decide_new(existing, global_seq, *cookie),
            IntroductionKind::Again { client_cookie, connect_seq, message_seq } => {
                let sequence = [global_seq, *connect_seq, *message_seq];
                self.decide_again(existing, *client_cookie, sequence)
            }
        }
    }

    fn decide_new(
        &self,
        existing: Option<&Existing<'_>>,
        global_seq: u64,
        cookie: u64,
    ) -> Decision {
        let Some(existing) = existing else { return Decision::Open };
        if let Some(reason) = self.other_identity(existing) {
            return Decision::Refuse(reason);
        }
        let numbers = existing.numbers;
        let known_cookie = numbers.client_cookie();
        let restarted = known_cookie != 0 && cookie != 0 && known_cookie != cookie;
        if numbers.peer_global_seq() > global_seq {
            return match restarted && !existing.is_settled {
                true => Decision::Replace,
                false => Decision::Refuse(CloseReason::Stale),
            };
        }
        if existing.policy == Policy::Lossy || (restarted && numbers.is_accepted()) {
            return Decision::Replace;
        }
        if known_cookie == cookie || existing.is_settled || !self.own_is_lower(existing) {
            return Decision::Adopt;
        }
        Decision::Wait
    }

    fn decide_again(
        &self,
        existing: Option<&Existing<'_>>,
        client_cookie: u64,
        [global_seq, connect_seq, message_seq]: [u64; 3],
    ) -> Decision {
        let reset = |full| Decision::Answer(Control::SessionReset { full });
        let Some(existing) = existing else { return reset(true) };
        if let Some(reason) = self.other_identity(existing) {
            return Decision::Refuse(reason);
        }
        let numbers = existing.numbers;
        if numbers.client_cookie() != client_cookie {
            return reset(true);
        }
        if !numbers.is_accepted() {
            // This end was the client and never learned that its session was accepted.
            return reset(false);
        }
        if numbers.peer_global_seq() > global_seq {
            let global_seq = numbers.peer_global_seq();
            return Decision::Answer(Control::SessionRetryGlobal { global_seq });
        }
        if numbers.connect_seq() > connect_seq {
            let connect_seq = numbers.connect_seq();
            return Decision::Answer(Control::SessionRetry { connect_seq });
        }
        let racing = numbers.connect_seq() == connect_seq && existing.target.is_some();
        if racing && self.is_lower_than(&self.introduction.addrs) {
            return Decision::Wait;
        }
        let sent = existing.highest_sent;
        if message_seq > sent {
            return Decision::Refuse(CloseReason::AckBeyondSent { claimed: message_seq, sent });
        }
        Decision::Adopt
    }

    /// Reason to refuse a peer whose authenticated identity is not that of the existing session; addresses
    /// and cookies prove nothing.
    fn other_identity(&self, existing: &Existing<'_>) -> Option<CloseReason> {
        let (kind, name) = (self.identity.kind(), &self.identity.credentials().name);
        let is_proved = existing.target.is_none();
        let same_name = !is_proved || *name == existing.identity.credentials().name;
        let known_kind = existing.identity.kind();
        let same_kind = known_kind == EntityType::ANY || kind == known_kind;
        (!same_name || !same_kind)
            .then(|| CloseReason::PeerName { kind: kind.to_string(), name: name.to_string() })
    }

    /// True if this end's attempt to connect wins against the peer's.
    fn own_is_lower(&self, existing: &Existing<'_>) -> bool {
        existing.target.is_some_and(|peer| self.is_lower_than(peer))
    }

    /// Compares the bytes of the addresses, as Ceph does.
    fn is_lower_than(&self, peer: &EntityAddrVec) -> bool {
        let bytes = |addrs: &EntityAddrVec| encode_to_bytes(&addrs.msgr2().unwrap_or_default());
        bytes(&self.config.addrs) < bytes(peer)
    }
}
