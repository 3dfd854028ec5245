//! Events for the host.

use crate::introduction::Introduction;
use engine::{AuthRequest, ConnectingStep, Message, Peer};
use std::net::SocketAddr;
use thiserror::Error;
use types::EntityAddr;
use wire::frame::{BannerError, FrameError, Tag};

#[derive(Debug, PartialEq, Eq)]
pub enum Event {
    /// The host opens a connection to this address, then calls `handle_connected` or `handle_disconnected`.
    /// An earlier socket of the session is dead.
    Connect {
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
    Message(Message),
    /// The session has ended: the host closes the socket and drops the session.
    Closed {
        reason: CloseReason,
    },
}

/// Reason for the end of a session or of one of its connections.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CloseReason {
    #[error("the connection was lost")]
    ConnectionLost,
    #[error("the handshake was not finished in time")]
    HandshakeTimeout,
    #[error("the peer was silent for too long")]
    Silent,
    #[error("the connection was idle for too long")]
    Idle,
    #[error("the peer did not come back in time")]
    StandbyTimeout,
    #[error(transparent)]
    Banner(#[from] BannerError),
    #[error(transparent)]
    Frame(#[from] FrameError),
    #[error("unexpected frame {0:?}")]
    Unexpected(Tag),
    #[error("a handshake of more than {limit} bytes")]
    HandshakeLength { limit: usize },
    #[error("the peer is a {found}, expected was a {expected}")]
    PeerKind { expected: String, found: String },
    #[error("{name} may not act as a {kind}")]
    PeerName { kind: String, name: String },
    #[error("this end cannot or will not authenticate to the peer")]
    Unauthenticated,
    #[error("the peer's signature of the handshake is wrong")]
    Signature,
    #[error("the connection secret is too short for secure mode")]
    Secret,
    #[error(
        "the peer chose connection mode {0}, which was not offered; make its modes those of this end"
    )]
    ModeNotOffered(u32),
    #[error("connection mode {0} is not known")]
    Mode(u32),
    #[error("the peer told no address of its own")]
    NoAddress,
    #[error("the peer looks for {target}, which is not here")]
    WrongTarget { target: EntityAddr },
    #[error("features {0:#x} are required and missing")]
    MissingFeatures(u64),
    #[error("the peer claims message {claimed}, the last that was sent is {sent}")]
    AckBeyondSent { claimed: u64, sent: u64 },
    #[error("the peer has forgotten the session")]
    Forgotten,
    #[error("the peer has started a new session")]
    Replaced,
    #[error("a newer connection of the peer exists")]
    Stale,
    #[error("more than {limit} bytes wait to be sent")]
    QueueFull { limit: usize },
}
