//! Sessions with OSDs, and their backoffs.

use crate::effects::{Effects, retry_time};
use engine::{ConnId, Time};
use std::collections::BTreeMap;
use types::{EntityAddrVec, EntityType, HObject, OsdId, ParticipantName, PgShard};
use wire::OsdBackoff;

/// A range `[begin, end)` that must not be sent, or one object if both are equal.
#[derive(Debug)]
struct Backoff {
    begin: HObject,
    end: HObject,
}

impl Backoff {
    fn covers(&self, object: &HObject) -> bool {
        let is_single = self.begin == self.end;
        *object == self.begin || (!is_single && *object >= self.begin && *object < self.end)
    }
}

#[derive(Debug)]
enum State {
    Waiting(Time),
    Opening(ConnId),
    Open(ConnId),
}

#[derive(Debug)]
struct Session {
    addrs: EntityAddrVec,
    state: State,
    failures: u32,
    backoffs: BTreeMap<(PgShard, u64), Backoff>,
}

#[derive(Debug, Default)]
pub(crate) struct Sessions {
    sessions: BTreeMap<OsdId, Session>,
    conns: BTreeMap<ConnId, OsdId>,
}

impl Sessions {
    /// The OSD of a session that is open or opening.
    pub fn osd_of(&self, conn: ConnId) -> Option<OsdId> {
        self.conns.get(&conn).copied()
    }

    /// True if messages can be sent on the session.
    pub fn is_open(&self, conn: ConnId) -> bool {
        let session = self.osd_of(conn).and_then(|osd| self.sessions.get(&osd));
        session.is_some_and(|session| matches!(session.state, State::Open(own) if own == conn))
    }

    /// Returns the open session with `osd`; begins to open one if there is none.
    pub fn open(&mut self, osd: OsdId, addrs: &EntityAddrVec, fx: &mut Effects) -> Option<ConnId> {
        if self.sessions.get(&osd).is_some_and(|session| session.addrs != *addrs) {
            self.close(osd, fx);
        }
        match self.sessions.get(&osd).map(|session| &session.state) {
            Some(State::Open(conn)) => Some(*conn),
            Some(_) => None,
            None => {
                let state = State::Opening(self.connect(osd, addrs, fx));
                let addrs = addrs.clone();
                let backoffs = BTreeMap::new();
                self.sessions.insert(osd, Session { addrs, state, failures: 0, backoffs });
                None
            }
        }
    }

    fn connect(&mut self, osd: OsdId, addrs: &EntityAddrVec, fx: &mut Effects) -> ConnId {
        let name = ParticipantName::new(EntityType::OSD, osd.0.into());
        let conn = fx.connect(name, addrs.clone());
        let former = self.conns.insert(conn, osd);
        assert!(former.is_none(), "{conn:?} was used before");
        conn
    }

    /// Ends the session with an OSD that went down or moved.
    pub fn close(&mut self, osd: OsdId, fx: &mut Effects) {
        let Some(session) = self.sessions.remove(&osd) else { return };
        if let State::Opening(conn) | State::Open(conn) = session.state {
            self.conns.remove(&conn);
            fx.close(conn);
        }
    }

    /// Ends sessions with OSDs that are not `wanted` any more.
    pub fn retain(&mut self, wanted: impl Fn(OsdId, &EntityAddrVec) -> bool, fx: &mut Effects) {
        let gone = self.sessions.iter().filter(|(osd, session)| !wanted(**osd, &session.addrs));
        let gone: Vec<OsdId> = gone.map(|(osd, _)| *osd).collect();
        gone.into_iter().for_each(|osd| self.close(osd, fx));
    }

    /// Returns the OSD; `None` for an unknown session.
    pub fn handle_opened(&mut self, conn: ConnId) -> Option<OsdId> {
        let osd = self.osd_of(conn)?;
        let session = self.sessions.get_mut(&osd)?;
        assert!(
            matches!(session.state, State::Opening(own) if own == conn),
            "{conn:?} opens twice"
        );
        session.state = State::Open(conn);
        Some(osd)
    }

    /// Returns the OSD whose session has ended. A new session is opened after a delay.
    pub fn handle_closed(&mut self, now: Time, conn: ConnId) -> Option<OsdId> {
        let osd = self.conns.remove(&conn)?;
        let session = self.sessions.get_mut(&osd)?;
        session.state = State::Waiting(retry_time(now, session.failures));
        session.failures += 1;
        session.backoffs.clear();
        Some(osd)
    }

    /// Resets the reconnect delay, since the OSD has replied.
    pub fn handle_alive(&mut self, osd: OsdId) {
        if let Some(session) = self.sessions.get_mut(&osd) {
            session.failures = 0;
        }
    }

    /// Opens the sessions whose delay has passed.
    pub fn handle_timeout(&mut self, now: Time, fx: &mut Effects) {
        let due = |session: &Session| matches!(session.state, State::Waiting(at) if at <= now);
        let due: Vec<OsdId> =
            self.sessions.iter().filter(|(_, s)| due(s)).map(|(osd, _)| *osd).collect();
        for osd in due {
            let addrs = self.sessions[&osd].addrs.clone();
            let conn = self.connect(osd, &addrs, fx);
            if let Some(session) = self.sessions.get_mut(&osd) {
                session.state = State::Opening(conn);
            }
        }
    }

    /// Time at which the next session is opened again.
    pub fn poll_timeout(&self) -> Option<Time> {
        let waiting = |session: &Session| match session.state {
            State::Waiting(at) => Some(at),
            _ => None,
        };
        self.sessions.values().filter_map(waiting).min()
    }

    /// Stops sending to a range of objects, until `unblock` or the end of the session.
    pub fn block(&mut self, osd: OsdId, backoff: OsdBackoff) {
        let Some(session) = self.sessions.get_mut(&osd) else { return };
        let OsdBackoff { pg, id, begin, end, .. } = backoff;
        session.backoffs.insert((pg, id), Backoff { begin, end });
    }

    /// Ends a backoff; an unknown one is ignored.
    pub fn unblock(&mut self, osd: OsdId, backoff: &OsdBackoff) {
        let Some(session) = self.sessions.get_mut(&osd) else { return };
        session.backoffs.remove(&(backoff.pg, backoff.id));
    }

    /// True if a backoff of the OSD covers the object.
    pub fn is_blocked(&self, osd: OsdId, pg: PgShard, object: &HObject) -> bool {
        let Some(session) = self.sessions.get(&osd) else { return false };
        let mut of_pg = session.backoffs.range((pg, 0)..=(pg, u64::MAX));
        of_pg.any(|(_, backoff)| backoff.covers(object))
    }

    /// # Panics
    /// If sessions and connections are not the inverse of each other.
    pub fn check_invariants(&self) {
        let conn = |session: &Session| match session.state {
            State::Opening(conn) | State::Open(conn) => Some(conn),
            State::Waiting(_) => None,
        };
        for (conn_id, osd) in &self.conns {
            let own = self.sessions.get(osd).and_then(conn);
            assert_eq!(own, Some(*conn_id), "{conn_id:?} is not the session with {osd}");
        }
        let connected = self.sessions.values().filter_map(conn).count();
        assert_eq!(connected, self.conns.len(), "sessions without an entry by connection");
        let idle =
            self.sessions.values().filter(|session| !matches!(session.state, State::Open(_)));
        let blocked = idle.filter(|session| !session.backoffs.is_empty()).count();
        assert_eq!(blocked, 0, "backoffs of closed sessions");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::catch_unwind;

    fn sessions() -> Sessions {
        let (mut sessions, mut fx) = (Sessions::default(), Effects::new(ConnId(1)));
        (0..3).for_each(|osd| {
            sessions.open(OsdId(osd), &EntityAddrVec::default(), &mut fx);
        });
        sessions.handle_opened(ConnId(1));
        sessions.handle_closed(Time(0), ConnId(2));
        sessions
    }

    #[track_caller]
    fn is_noticed(what: &str, damage: impl FnOnce(&mut Sessions)) {
        let mut sessions = sessions();
        sessions.check_invariants();
        damage(&mut sessions);
        let panic = catch_unwind(|| sessions.check_invariants()).expect_err(what);
        let text = panic.downcast_ref::<String>().expect("a text with values");
        assert!(text.contains(what), "{text}");
    }

    #[test]
    fn contradictions_of_sessions_and_connections_are_noticed() {
        is_noticed("is not the session with", |sessions| {
            sessions.conns.insert(ConnId(9), OsdId(1));
        });
        is_noticed("without an entry by connection", |sessions| {
            sessions.conns.remove(&ConnId(1));
        });
        is_noticed("backoffs of closed sessions", |sessions| {
            let (begin, end) = (HObject::default(), HObject::default());
            let waiting = sessions.sessions.get_mut(&OsdId(1)).unwrap();
            let pg = PgShard::replicated(types::PgId::default());
            waiting.backoffs.insert((pg, 1), Backoff { begin, end });
        });
    }
}
