//! The browsers that have signed in.

use auth::{Entropy, TokenDigest};
use bytes::Bytes;
use engine::{ConnId, Time};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;
use types::EntityName;

/// Sessions at a time; beyond it the one that was not used for longest ends.
const SESSIONS_MAX: usize = 64;
/// Sessions of one entity at a time, likewise.
const OF_ENTITY_MAX: usize = 16;
/// A session that is not used for this long ends. A page that is in view uses its session.
const IDLE_MAX: Duration = Duration::from_secs(30 * 60);
/// A session ends after this time in any case.
const AGE_MAX: Duration = Duration::from_secs(12 * 3600);
/// The bit that marks session numbers of the console towards the monitor.
const CONSOLE: u64 = 1 << 61;

/// A browser that has signed in.
#[derive(Debug)]
pub(crate) struct Session {
    /// The entity that its link was made for.
    pub entity: EntityName,
    /// The capabilities at the time of sign-in, as the monitor encodes them.
    pub caps: Bytes,
    /// Where the browser is: another address has to sign in itself.
    pub from: IpAddr,
    cookie: TokenDigest,
    /// The page reads it and sends it with every change: another site can do neither.
    pub csrf: String,
    csrf_digest: TokenDigest,
    began: Time,
    used: Time,
}

impl Session {
    /// When it ends if it is not used before.
    pub fn ends(&self) -> Time {
        (self.began + AGE_MAX).min(self.used + IDLE_MAX)
    }

    /// The latest time at which it ends.
    pub fn ends_at_last(&self) -> Time {
        self.began + AGE_MAX
    }

    /// Whether this is the secret of its page.
    pub fn knows(&self, csrf: &str) -> bool {
        self.csrf_digest.matches(csrf)
    }
}

/// All sessions, by the number of their session with the monitor.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    open: BTreeMap<ConnId, Session>,
    made: u64,
}

impl Sessions {
    /// Begins a session: its number and the secret of its cookie. Sessions that must make room for it are
    /// found by [`Sessions::surplus`] before.
    pub fn begin(
        &mut self,
        now: Time,
        entropy: &mut Entropy,
        entity: EntityName,
        caps: Bytes,
        from: IpAddr,
    ) -> (ConnId, String) {
        assert!(self.open.len() < SESSIONS_MAX, "room was made");
        let (secret, cookie) = TokenDigest::draw(entropy);
        let (csrf, csrf_digest) = TokenDigest::draw(entropy);
        self.made += 1;
        let conn = ConnId(CONSOLE | self.made);
        let (began, used) = (now, now);
        let session = Session { entity, caps, from, cookie, csrf, csrf_digest, began, used };
        self.open.insert(conn, session);
        (conn, secret)
    }

    /// The session that must end before another one of this entity begins.
    pub fn surplus(&self, entity: &EntityName) -> Option<ConnId> {
        let own = || self.open.iter().filter(|(_, session)| session.entity == *entity);
        let oldest = |(_, session): &(&ConnId, &Session)| session.used;
        let found = match own().count() >= OF_ENTITY_MAX {
            true => own().min_by_key(oldest),
            false if self.open.len() >= SESSIONS_MAX => self.open.iter().min_by_key(oldest),
            false => None,
        };
        found.map(|(conn, _)| *conn)
    }

    /// The session of a cookie that comes from this address. All sessions are compared, so that the time
    /// tells nothing.
    pub fn find(&self, cookie: &str, from: IpAddr) -> Option<ConnId> {
        let mut found = None;
        for (conn, session) in &self.open {
            if session.cookie.matches(cookie) && session.from == from {
                found = Some(*conn);
            }
        }
        found
    }

    /// Notes that a session is used.
    pub fn touch(&mut self, now: Time, conn: ConnId) {
        if let Some(session) = self.open.get_mut(&conn) {
            session.used = now;
        }
    }

    /// A session by its number.
    pub fn get(&self, conn: ConnId) -> Option<&Session> {
        self.open.get(&conn)
    }

    /// Removes a session and returns it.
    pub fn end(&mut self, conn: ConnId) -> Option<Session> {
        self.open.remove(&conn)
    }

    /// Sessions whose time is over.
    pub fn expired(&self, now: Time) -> Vec<ConnId> {
        let over = self.open.iter().filter(|(_, session)| session.ends() <= now);
        over.map(|(conn, _)| *conn).collect()
    }

    /// The time at which the next session ends.
    pub fn next_end(&self) -> Option<Time> {
        self.open.values().map(Session::ends).min()
    }

    /// Whether a session number is one of the console.
    pub fn is_own(conn: ConnId) -> bool {
        conn.0 & CONSOLE != 0 && conn.0 & (3 << 62) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    fn name(id: &str) -> EntityName {
        format!("client.{id}").parse().unwrap()
    }

    #[test]
    fn a_session_is_found_by_its_cookie_from_its_address_until_its_time_is_over() {
        let (mut sessions, mut entropy) = (Sessions::default(), Entropy::from_seed([1; 32]));
        let begun = Time(1);
        let (conn, secret) = sessions.begin(begun, &mut entropy, name("a"), Bytes::new(), HERE);
        assert!(Sessions::is_own(conn) && !Sessions::is_own(ConnId(ConnId::ACCEPTED)));
        assert_eq!(sessions.find(&secret, HERE), Some(conn));
        assert_eq!(sessions.find(&secret, "10.0.0.1".parse().unwrap()), None);
        assert_eq!(sessions.find(&secret[1..], HERE), None);
        assert!(sessions.expired(begun + IDLE_MAX - Duration::from_secs(1)).is_empty());
        assert_eq!(sessions.expired(begun + IDLE_MAX), [conn]);
        // It is used, but not for ever.
        let mut now = begun;
        while now < begun + AGE_MAX {
            assert!(sessions.expired(now).is_empty());
            sessions.touch(now, conn);
            now = now + IDLE_MAX / 2;
        }
        assert_eq!(sessions.expired(now), [conn]);
    }

    #[test]
    fn sessions_are_bounded_and_one_entity_does_not_displace_the_others() {
        let (mut sessions, mut entropy) = (Sessions::default(), Entropy::from_seed([1; 32]));
        let mut begin = |second: u64, id: &str| {
            let ended = sessions.surplus(&name(id));
            ended.map(|conn| sessions.end(conn));
            let (conn, _) =
                sessions.begin(Time(second), &mut entropy, name(id), Bytes::new(), HERE);
            (conn, ended)
        };
        let (first, _) = begin(0, "a");
        let (greedy, _) = begin(1, "b");
        for second in 2..=OF_ENTITY_MAX as u64 {
            assert_eq!(begin(second, "b").1, None);
        }
        assert_eq!(begin(90, "b").1, Some(greedy));
        for other in 0..SESSIONS_MAX - OF_ENTITY_MAX - 1 {
            assert_eq!(begin(100, &format!("c{other}")).1, None);
        }
        assert_eq!(begin(101, "d").1, Some(first));
        assert_eq!(sessions.open.len(), SESSIONS_MAX);
    }
}
