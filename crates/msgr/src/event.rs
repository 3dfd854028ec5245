//! Events for the host.

use crate::introduction::Introduction;
use engine::{AuthRequest, ConnectingStep, Message, Peer};
use std::net::SocketAddr;
use thiserror::Error;
use types::EntityAddr;
use wire::FaultKind;
use wire::frame::{BannerError, FrameError, Tag};

/// An output of a session. The host performs it before it polls the next one.
#[derive(Debug, PartialEq, Eq)]
pub enum Event {
    /// The host opens a connection to this address, then calls `handle_connected` or `handle_disconnected`.
    /// An earlier socket of the session is dead.
    Connect {
        /// The peer's address.
        addr: SocketAddr,
    },
    /// The host closes the socket; the session waits for a time or for its peer, and continues.
    Disconnect,
    /// Accepting: the host answers with [`crate::Session::handle_auth_verdict`].
    AuthRequest(AuthRequest),
    /// Connecting: the host answers with [`crate::Session::answer`].
    Connecting(ConnectingStep),
    /// Accepting, lossless: the host looks for a session with that peer and calls [`crate::Session::admit`].
    Introduced(Introduction),
    /// Messages can be sent from now on.
    Opened(Peer),
    /// A message of the peer: in order, and each exactly once.
    Message(Message),
    /// The session has ended: the host closes the socket and drops the session.
    Closed {
        /// Why; for logs and counters.
        reason: CloseReason,
    },
}

/// Reason for the end of a session or of one of its connections.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CloseReason {
    /// A lossy session ends with its connection.
    #[error("the connection was lost")]
    ConnectionLost,
    /// [`crate::Config::handshake_timeout`] has passed.
    #[error("the handshake was not finished in time")]
    HandshakeTimeout,
    /// [`crate::Config::silence_max`] has passed, though the peer was asked.
    #[error("the peer was silent for too long")]
    Silent,
    /// [`crate::Config::idle_max`] has passed.
    #[error("the connection was idle for too long")]
    Idle,
    /// [`crate::Config::standby_max`] has passed.
    #[error("the peer did not come back in time")]
    StandbyTimeout,
    /// The peer does not speak msgr 2.1.
    #[error(transparent)]
    Banner(#[from] BannerError),
    /// A frame does not decode, or was changed on its way.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// The protocol has no such frame in this state.
    #[error("unexpected frame {0:?}")]
    Unexpected(Tag),
    /// The peer sends more before it is authenticated than a handshake takes.
    #[error("a handshake of more than {limit} bytes")]
    HandshakeLength {
        /// Bound in bytes.
        limit: usize,
    },
    /// The peer is not the daemon that was looked for.
    #[error("the peer is a {found}, expected was a {expected}")]
    PeerKind {
        /// Kind of the target.
        expected: String,
        /// Kind that the peer says.
        found: String,
    },
    /// The proved name does not fit the kind that the peer claims, or the session that it claims to resume.
    #[error("{name} may not act as a {kind}")]
    PeerName {
        /// Kind that the peer claims.
        kind: String,
        /// Name that it has proved.
        name: String,
    },
    /// The host refused to go on with authentication.
    #[error("this end cannot or will not authenticate to the peer")]
    Unauthenticated,
    /// The handshake was changed on its way, or the peer has another session key.
    #[error("the peer's signature of the handshake is wrong")]
    Signature,
    /// The peer's secret has fewer bytes than the ciphers need.
    #[error("the connection secret is too short for secure mode")]
    Secret,
    #[error(
        "the peer chose connection mode {0}, which was not offered; make its modes those of this end"
    )]
    /// A peer could turn encryption off by this.
    ModeNotOffered(u32),
    /// A mode that neither end knows.
    #[error("connection mode {0} is not known")]
    Mode(u32),
    /// A session cannot be found again without an address.
    #[error("the peer told no address of its own")]
    NoAddress,
    /// Another daemon used this address before.
    #[error("the peer looks for {target}, which is not here")]
    WrongTarget {
        /// The address that was looked for.
        target: EntityAddr,
    },
    /// Feature bits that one end requires and the other does not have.
    #[error("features {0:#x} are required and missing")]
    MissingFeatures(u64),
    /// The peer acknowledges a message that was never sent: one end has lost its state.
    #[error("the peer claims message {claimed}, the last that was sent is {sent}")]
    AckBeyondSent {
        /// The acknowledged sequence number.
        claimed: u64,
        /// The highest one that was sent.
        sent: u64,
    },
    /// The peer was restarted; messages may be lost.
    #[error("the peer has forgotten the session")]
    Forgotten,
    /// The peer was restarted and has connected again; messages may be lost.
    #[error("the peer has started a new session")]
    Replaced,
    /// A connection that was overtaken by a newer one of the same peer.
    #[error("a newer connection of the peer exists")]
    Stale,
    /// The peer does not read; see [`crate::Config::queued_bytes_max`].
    #[error("more than {limit} bytes wait to be sent")]
    QueueFull {
        /// Bound in bytes.
        limit: usize,
    },
}

impl CloseReason {
    /// The fault of the peer that is the reason; `None` if the network, this end, or nothing is at fault.
    pub fn fault(&self) -> Option<FaultKind> {
        match self {
            CloseReason::Banner(_)
            | CloseReason::Frame(_)
            | CloseReason::Mode(_)
            | CloseReason::Secret => Some(FaultKind::Undecodable),
            CloseReason::Unexpected(_)
            | CloseReason::PeerKind { .. }
            | CloseReason::ModeNotOffered(_)
            | CloseReason::NoAddress
            | CloseReason::WrongTarget { .. }
            | CloseReason::MissingFeatures(_)
            | CloseReason::AckBeyondSent { .. } => Some(FaultKind::NotExpected),
            CloseReason::PeerName { .. } | CloseReason::Signature => Some(FaultKind::NotAllowed),
            CloseReason::HandshakeLength { .. } => Some(FaultKind::TooMuch),
            CloseReason::ConnectionLost
            | CloseReason::HandshakeTimeout
            | CloseReason::Silent
            | CloseReason::Idle
            | CloseReason::StandbyTimeout
            | CloseReason::Unauthenticated
            | CloseReason::Forgotten
            | CloseReason::Replaced
            | CloseReason::Stale
            | CloseReason::QueueFull { .. } => None,
        }
    }
}
