//! The interface between a daemon and its host: sessions, authentication, storage, timers.

use crate::{Message, Time};
use bytes::Bytes;
use types::{EntityAddrVec, EntityName, ParticipantName};

/// Id of a session between two daemons at one of them. A session outlives its connections: the messenger
/// reconnects below. The host numbers accepted sessions from [`ConnId::ACCEPTED`] upwards; the daemon numbers
/// those it opens itself below that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ConnId(pub u64);

impl ConnId {
    /// The first number of accepted sessions.
    pub const ACCEPTED: u64 = 1 << 32;

    /// Whether the host numbered this session: the other end opened it.
    pub fn is_accepted(self) -> bool {
        self.0 >= ConnId::ACCEPTED
    }
}

/// Id of a storage request, chosen by the daemon.
pub type RequestToken = u64;

/// The other end of an open session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    /// `client.4123`, `osd.3`; for clients the number is the global id.
    pub participant: ParticipantName,
    /// The authenticated name: `client.admin`.
    pub name: EntityName,
    /// Addresses by which the peer identified itself: of a daemon those where it listens.
    pub addrs: EntityAddrVec,
    /// `CEPH_FEATURE_*` bits that both ends support.
    pub features: u64,
    /// Capabilities in the ticket of an accepted session, in the encoding of `auth` for this service; empty
    /// for sessions that were opened from here.
    pub caps: Bytes,
    /// Address of the peer as seen here (differs from `addrs` behind address translation).
    pub seen_addr: types::EntityAddr,
}

/// How a session treats the loss of its connection (Ceph `doc/dev/msgr2.rst`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// The session ends with the connection: client sides of monitor, manager and OSD sessions.
    Lossy,
    /// Reconnects and delivers each message exactly once, until the peer forgets the session.
    Lossless,
}

/// Target of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectTarget {
    /// `osd.3`, `mon.0`, `mgr.0`
    pub participant: ParticipantName,
    /// Addresses of the peer, as its map has them; the messenger needs a msgr2 address.
    pub addrs: EntityAddrVec,
    /// Treatment of the loss of the connection.
    pub policy: Policy,
}

/// An authentication frame that reached an accepting daemon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AuthRequest {
    /// AUTH_REQUEST: a method (`CEPH_AUTH_*`), the connection modes the client prefers (1 crc,
    /// 2 secure), and the method's payload.
    Start {
        /// `CEPH_AUTH_*`
        method: u32,
        /// Connection modes, the preferred one first.
        preferred_modes: Vec<u32>,
        /// First payload of the method: for cephx the entity name and its global id, if it has one.
        payload: Bytes,
        /// Address from which the client connects.
        seen_addr: types::EntityAddr,
    },
    /// AUTH_REQUEST_MORE
    More {
        /// Next payload of the method.
        payload: Bytes,
    },
}

/// Answer of an accepting daemon.
#[derive(Clone, PartialEq, Eq)]
pub enum AuthVerdict {
    /// AUTH_REPLY_MORE
    More {
        /// Next payload of the method.
        payload: Bytes,
    },
    /// AUTH_DONE. `connection_secret` keys secure mode; both secrets are empty for method none.
    Done {
        /// The entity whose key the client has.
        name: EntityName,
        /// Id of the client in the cluster.
        global_id: u64,
        /// Connection mode: 1 crc, 2 secure.
        mode: u32,
        /// Last payload of the method.
        payload: Bytes,
        /// Key by which both ends sign the handshake.
        session_key: Bytes,
        /// Key material of secure mode.
        connection_secret: Bytes,
        /// Copied to [`Peer::caps`].
        caps: Bytes,
    },
    /// AUTH_BAD_METHOD: a negative errno and the acceptable methods and modes.
    BadMethod {
        /// Negative errno.
        result: i32,
        /// Methods (`CEPH_AUTH_*`) to try instead.
        allowed_methods: Vec<u32>,
        /// Connection modes to try instead.
        allowed_modes: Vec<u32>,
    },
}

/// Step in the authentication of a session that the daemon opens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConnectingStep {
    /// The connection is established; nothing was sent yet.
    Begin,
    /// AUTH_REPLY_MORE
    More {
        /// Payload of the acceptor.
        payload: Bytes,
    },
    /// AUTH_DONE
    Done {
        /// Id that the monitor gave to this entity.
        global_id: u64,
        /// Last payload of the acceptor.
        payload: Bytes,
    },
    /// AUTH_BAD_METHOD: a negative errno.
    BadMethod {
        /// Negative errno.
        result: i32,
    },
}

/// Answer of the connecting daemon.
#[derive(Clone, PartialEq, Eq)]
pub enum ConnectingAnswer {
    /// AUTH_REQUEST
    Start {
        /// `CEPH_AUTH_*`
        method: u32,
        /// Connection modes, the preferred one first.
        preferred_modes: Vec<u32>,
        /// First payload of the method.
        payload: Bytes,
    },
    /// AUTH_REQUEST_MORE
    More {
        /// Next payload of the method.
        payload: Bytes,
    },
    /// Both secrets are empty for method none.
    Finish {
        /// Key by which both ends sign the handshake.
        session_key: Bytes,
        /// Key material of secure mode.
        connection_secret: Bytes,
    },
    /// The session must not be opened.
    Refuse,
}

/// Output of a daemon. `R` is its type of storage request.
#[derive(Debug)]
pub enum Output<R> {
    /// Sends a message; dropped silently if the session has ended.
    Send {
        /// An open session.
        conn: ConnId,
        /// The message; the host encodes header and footer.
        message: Message,
    },
    /// Opens a session; `handle_opened` or `handle_closed` follows. `conn` is chosen by the daemon
    /// below [`ConnId::ACCEPTED`] and never reused.
    Connect {
        /// Id of the new session.
        conn: ConnId,
        /// Peer, addresses and policy.
        target: ConnectTarget,
    },
    /// Ends a session; no `handle_closed` follows.
    Close {
        /// The session to end.
        conn: ConnId,
    },
    /// Answers `handle_auth`.
    Auth {
        /// The session that authenticates.
        conn: ConnId,
        /// The frame to send to the client.
        verdict: AuthVerdict,
    },
    /// Stops (or resumes) receiving from a session: the daemon's queues are full.
    Pause {
        /// An open session.
        conn: ConnId,
        /// True stops, false resumes.
        paused: bool,
    },
    /// A storage request; `handle_completion` follows.
    Storage(R),
}

/// A daemon engine. Inputs are `handle_*`; after each, the host drains `poll_output`.
pub trait Daemon {
    /// Requests to storage and their completions.
    type Request;
    /// Answer to a request; a request may have several.
    type Completion;

    /// A connecting peer authenticates to this daemon.
    fn handle_auth(&mut self, now: Time, conn: ConnId, request: AuthRequest);
    /// Authenticates this daemon on a session that it opens. Not called where the host joins daemons
    /// directly.
    fn authenticate(
        &mut self,
        _now: Time,
        _conn: ConnId,
        _step: ConnectingStep,
    ) -> ConnectingAnswer {
        ConnectingAnswer::Refuse
    }
    /// The target of a session does not listen. A lossless session keeps trying.
    fn handle_refused(&mut self, _now: Time, _conn: ConnId) {}
    /// A session is open: messages may be sent and will arrive.
    fn handle_opened(&mut self, now: Time, conn: ConnId, peer: Peer);
    /// A message arrived. Messages of a session arrive in the order in which they were sent.
    fn handle_message(&mut self, now: Time, conn: ConnId, message: Message);
    /// A session has ended (or could not be opened); nothing more arrives on it.
    fn handle_closed(&mut self, now: Time, conn: ConnId);
    /// A storage request made progress or is done.
    fn handle_completion(&mut self, now: Time, completion: Self::Completion);
    /// Called at or after the time of `poll_timeout`.
    fn handle_timeout(&mut self, now: Time);

    /// The next output, or `None` if there are no more until the next input.
    fn poll_output(&mut self) -> Option<Output<Self::Request>>;
    /// Time of the next `handle_timeout`, if it is due before any input; asked again after each input.
    fn poll_timeout(&self) -> Option<Time>;
}
