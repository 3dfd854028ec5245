//! The interface between a daemon and its host: sessions, authentication, storage, timers.

use crate::{Duration, Message, Time};
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

    /// Whether the peer has opened the session.
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
    /// Addresses at which the peer listens.
    pub addrs: EntityAddrVec,
    /// Features (`CEPH_FEATURE_*`) that both ends have.
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
    /// Where it listens.
    pub addrs: EntityAddrVec,
    /// Treatment of a lost connection.
    pub policy: Policy,
}

/// An authentication frame that reached an accepting daemon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AuthRequest {
    /// AUTH_REQUEST: a method (`CEPH_AUTH_*`), the connection modes the client prefers (1 crc,
    /// 2 secure), and the method's payload.
    Start {
        /// Method (`CEPH_AUTH_*`).
        method: u32,
        /// Connection modes, the best first.
        preferred_modes: Vec<u32>,
        /// Encoded by the method.
        payload: Bytes,
        /// Address of the peer as seen here.
        seen_addr: types::EntityAddr,
    },
    /// AUTH_REQUEST_MORE
    More {
        /// Encoded by the method.
        payload: Bytes,
    },
}

/// Answer of an accepting daemon.
#[derive(Clone, PartialEq, Eq)]
pub enum AuthVerdict {
    /// AUTH_REPLY_MORE
    More {
        /// Encoded by the method.
        payload: Bytes,
    },
    /// AUTH_DONE. `connection_secret` keys secure mode; both secrets are empty for method none.
    Done {
        /// The authenticated name.
        name: EntityName,
        /// Id of the client in the cluster.
        global_id: u64,
        /// The chosen connection mode.
        mode: u32,
        /// Encoded by the method.
        payload: Bytes,
        /// Key that signs further messages of the method.
        session_key: Bytes,
        /// Keys of secure mode.
        connection_secret: Bytes,
        /// Copied to [`Peer::caps`].
        caps: Bytes,
    },
    /// AUTH_BAD_METHOD: a negative errno and the acceptable methods and modes.
    BadMethod {
        /// A negative errno.
        result: i32,
        /// Methods that are accepted.
        allowed_methods: Vec<u32>,
        /// Connection modes that are accepted.
        allowed_modes: Vec<u32>,
    },
}

/// Step in the authentication of a session that the daemon opens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConnectingStep {
    /// The connection is there.
    Begin,
    /// AUTH_REPLY_MORE
    More {
        /// Encoded by the method.
        payload: Bytes,
    },
    /// AUTH_DONE
    Done {
        /// Id of the client in the cluster.
        global_id: u64,
        /// Encoded by the method.
        payload: Bytes,
    },
    /// AUTH_BAD_METHOD: a negative errno.
    BadMethod {
        /// A negative errno.
        result: i32,
    },
}

/// Answer of the connecting daemon.
#[derive(Clone, PartialEq, Eq)]
pub enum ConnectingAnswer {
    /// AUTH_REQUEST
    Start {
        /// Method (`CEPH_AUTH_*`).
        method: u32,
        /// Connection modes, the best first.
        preferred_modes: Vec<u32>,
        /// Encoded by the method.
        payload: Bytes,
    },
    /// AUTH_REQUEST_MORE
    More {
        /// Encoded by the method.
        payload: Bytes,
    },
    /// Both secrets are empty for method none.
    Finish {
        /// Key that signs further messages of the method.
        session_key: Bytes,
        /// Keys of secure mode.
        connection_secret: Bytes,
    },
    /// The session must not be opened.
    Refuse,
}

/// Work of a core since it was started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CoreLoad {
    /// CPU time of the core, divided by the number of its daemons.
    pub cpu: Duration,
    /// Turns.
    pub turns: u64,
    /// Turns in which the core worked for longer than 50 ms: meanwhile none of its daemons answered.
    pub stalls: u64,
}

/// Output of a daemon. `R` is its type of storage request.
#[derive(Debug)]
pub enum Output<R> {
    /// Sends a message; dropped silently if the session has ended.
    Send {
        /// The session.
        conn: ConnId,
        /// The message.
        message: Message,
    },
    /// Opens a session; `handle_opened` or `handle_closed` follows. `conn` is chosen by the daemon
    /// below [`ConnId::ACCEPTED`] and never reused.
    Connect {
        /// The session.
        conn: ConnId,
        /// The peer.
        target: ConnectTarget,
    },
    /// Ends a session; no `handle_closed` follows.
    Close {
        /// The session.
        conn: ConnId,
    },
    /// Answers `handle_auth`.
    Auth {
        /// The session.
        conn: ConnId,
        /// The answer.
        verdict: AuthVerdict,
    },
    /// Stops (or resumes) receiving from a session: the daemon's queues are full.
    Pause {
        /// The session.
        conn: ConnId,
        /// False to resume.
        paused: bool,
    },
    /// A storage request; `handle_completion` follows.
    Storage(R),
}

/// A daemon engine. Inputs are `handle_*`; after each, the host drains `poll_output`.
pub trait Daemon {
    /// Requests to storage and their completions.
    type Request;
    /// Completion of a request.
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
    /// A message has arrived on an open session.
    fn handle_message(&mut self, now: Time, conn: ConnId, message: Message);
    /// A session has ended (or could not be opened); nothing more arrives on it.
    fn handle_closed(&mut self, now: Time, conn: ConnId);
    /// A storage request has completed.
    fn handle_completion(&mut self, now: Time, completion: Self::Completion);
    /// Called at or after the time of `poll_timeout`.
    fn handle_timeout(&mut self, now: Time);

    /// The load of the core that runs the daemon, for statistics alone; called about once a second.
    fn handle_load(&mut self, _load: CoreLoad) {}

    /// The next output; `None` if there is none now.
    fn poll_output(&mut self) -> Option<Output<Self::Request>>;
    /// Time at which `handle_timeout` has work to do.
    fn poll_timeout(&self) -> Option<Time>;
}
