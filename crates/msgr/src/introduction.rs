//! Introduction of an authenticated peer that has connected to this end, and the result of its admission.

use engine::Peer;
use types::EntityAddrVec;

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
