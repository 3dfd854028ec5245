//! The session with the metadata server, over all servers that the rank has in turn.

use crate::link::{Link, RETRY};
use crate::outputs::Outputs;
use engine::{ConnId, Duration, Policy, Time};
use maps::{MdsInfo, MdsState};
use types::features::SUPPORTED;
use types::{EntityType, ParticipantName};
use wire::{ClientSession, FeatureBits, MessageBody, SessionOp};

/// Time between renewals.
const RENEWAL: Duration = Duration::from_secs(10);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    None,
    Opening,
    Open,
    /// The next server has the client's claims.
    Claiming,
}

/// The first step of a client at a server that it has reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// It claims what it had from another one.
    Claims,
    /// It opens a session; the one before is lost.
    Loses,
    /// It opens its first session.
    Opens,
}

#[derive(Debug)]
pub(crate) struct Session {
    link: Link,
    /// The server that the link leads to.
    gid: u64,
    state: State,
    /// The server that has the session.
    owner: u64,
    renewal: Time,
    renewals: u64,
    lost: u64,
    /// Features that both sides have.
    features: FeatureBits,
}

impl Session {
    pub(crate) fn new() -> Self {
        Session {
            link: Link::Waiting(Time::ZERO),
            gid: 0,
            state: State::None,
            owner: 0,
            renewal: Time::ZERO,
            renewals: 0,
            lost: 0,
            features: FeatureBits::default(),
        }
    }

    pub(crate) fn owns(&self, conn: ConnId) -> bool {
        self.link.owns(conn)
    }

    /// How many sessions were lost.
    pub(crate) fn lost(&self) -> u64 {
        self.lost
    }

    /// The open connection.
    pub(crate) fn connection(&self) -> Option<ConnId> {
        self.link.open()
    }

    /// The connection, if requests may be sent.
    pub(crate) fn ready(&self) -> Option<ConnId> {
        self.link.open().filter(|_| self.state == State::Open)
    }

    /// The connection, if the server knows the client's capabilities.
    pub(crate) fn claimed(&self) -> Option<ConnId> {
        let is_known = self.has_session() && self.owner == self.gid;
        self.link.open().filter(|_| is_known)
    }

    fn has_session(&self) -> bool {
        [State::Open, State::Claiming].contains(&self.state)
    }

    /// Goes to the server of the rank, and renews the session.
    pub(crate) fn tend(&mut self, now: Time, server: Option<&MdsInfo>, outputs: &mut Outputs) {
        let is_late = self.link.due().is_some_and(|due| due <= now);
        match server.filter(|info| serves(info)) {
            Some(info) if info.gid != self.gid || is_late => {
                self.link.conn().into_iter().for_each(|conn| outputs.close(conn));
                self.gid = info.gid;
                let name = ParticipantName::new(EntityType::MDS, 0);
                self.link = outputs.connect(now, name, info.addrs.clone(), Policy::Lossless);
            }
            None if is_late => self.link = Link::Waiting(now + RETRY),
            _ => {}
        }
        if let Some(conn) = self.ready().filter(|_| self.renewal <= now) {
            self.renewal = now + RENEWAL;
            self.renewals += 1;
            let ask = ClientSession::new(SessionOp::REQUEST_RENEWCAPS, self.renewals);
            outputs.send(conn, ask.encode(SUPPORTED));
        }
    }

    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        let renewal = self.ready().map(|_| self.renewal);
        [self.link.due(), renewal].into_iter().flatten().min()
    }

    /// A connection to the server is there.
    pub(crate) fn opened(&mut self, conn: ConnId, server: Option<&MdsInfo>) -> Arrival {
        self.link = Link::Open(conn);
        let is_awaited = server.is_some_and(|info| info.state == MdsState::RECONNECT);
        match (self.has_session(), is_awaited && self.owner != self.gid) {
            (true, true) => {
                (self.state, self.owner) = (State::Claiming, self.gid);
                Arrival::Claims
            }
            (true, false) => Arrival::Loses,
            (false, _) => Arrival::Opens,
        }
    }

    pub(crate) fn closed(&mut self, now: Time, conn: ConnId) {
        if self.link.owns(conn) {
            self.link = Link::Waiting(now + RETRY);
        }
    }

    /// Asks for a session.
    pub(crate) fn open(&mut self, outputs: &mut Outputs) {
        let Some(conn) = self.link.open() else { return };
        self.state = State::Opening;
        let features = FeatureBits(u64::MAX);
        let open = ClientSession { features, ..ClientSession::new(SessionOp::REQUEST_OPEN, 0) };
        outputs.send(conn, open.encode(SUPPORTED));
    }

    /// Features that both sides have.
    pub(crate) fn features(&self) -> u64 {
        self.features.0
    }

    /// The server has opened the session, or taken the claims.
    pub(crate) fn is_granted(&mut self, now: Time, features: FeatureBits) {
        self.features = features;
        (self.owner, self.state) = (self.gid, State::Open);
        self.renewal = now + RENEWAL;
    }

    /// Whether an end that the server tells is that of this session: one that comes before the answer to a
    /// request to open is about an earlier one, or about one of which the client never learned.
    pub(crate) fn may_end(&self) -> bool {
        self.state != State::Opening
    }

    pub(crate) fn lose(&mut self) {
        tracing::info!(gid = self.owner, "the session is lost");
        self.lost += 1;
        self.state = State::None;
    }

    pub(crate) fn reject(&mut self) {
        self.state = State::None;
    }

    /// The session is renewed at once.
    pub(crate) fn hasten_renewal(&mut self, now: Time) {
        self.renewal = now;
    }
}

/// Whether a server may have clients.
fn serves(info: &MdsInfo) -> bool {
    [MdsState::RECONNECT, MdsState::ACTIVE].contains(&info.state)
}
