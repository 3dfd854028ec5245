//! Numbers by which both ends recognise a session: its cookies, and the sequences of attempts to connect.

use engine::Time;
use stdx::Prng;

pub(crate) struct Numbers {
    prng: Prng,
    /// Ids of the session at the end that started it, and at the other end. Zero: not agreed on yet.
    client_cookie: u64,
    server_cookie: u64,
    /// Orders this end's attempts to connect, also across restarts.
    global_seq: u64,
    peer_global_seq: u64,
    /// Number of connections of the session.
    connect_seq: u64,
}

impl Numbers {
    /// `seed` makes the cookies unlike those of other sessions.
    pub fn new(seed: u64) -> Self {
        Self {
            prng: Prng::new(seed),
            client_cookie: 0,
            server_cookie: 0,
            global_seq: 0,
            peer_global_seq: 0,
            connect_seq: 0,
        }
    }

    /// Id of the session at the end that started it; zero for a lossy one.
    pub fn client_cookie(&self) -> u64 {
        self.client_cookie
    }

    /// Id of the session at the end that accepted it; zero before, and for a lossy one.
    pub fn server_cookie(&self) -> u64 {
        self.server_cookie
    }

    /// Number of this end's last attempt.
    pub fn global_seq(&self) -> u64 {
        self.global_seq
    }

    /// Number of the peer's last attempt that this end has seen.
    pub fn peer_global_seq(&self) -> u64 {
        self.peer_global_seq
    }

    /// Number of connections of the session.
    pub fn connect_seq(&self) -> u64 {
        self.connect_seq
    }

    /// True if the other end has accepted the session, so that it is resumed and not started.
    pub fn is_accepted(&self) -> bool {
        self.server_cookie != 0
    }

    /// This end makes an attempt to connect.
    pub fn begin_attempt(&mut self, now: Time) {
        if self.is_accepted() {
            self.connect_seq = self.connect_seq.saturating_add(1);
        }
        self.next_global_seq(now);
    }

    /// The time serves as the sequence: it grows, also across restarts.
    fn next_global_seq(&mut self, now: Time) {
        self.global_seq = now.0.max(self.global_seq.saturating_add(1));
    }

    /// The cookie with which this end starts a session, the same for each attempt.
    pub fn start(&mut self) -> u64 {
        if self.client_cookie == 0 {
            self.client_cookie = self.new_cookie();
        }
        self.client_cookie
    }

    fn new_cookie(&mut self) -> u64 {
        self.prng.next_u64().max(1)
    }

    /// The peer has accepted the session that this end started.
    pub fn accepted(&mut self, cookie: u64, peer_global_seq: u64) {
        self.server_cookie = cookie;
        self.peer_global_seq = peer_global_seq;
    }

    /// The peer starts the session that this end accepts.
    pub fn accept(&mut self, cookie: u64, peer_global_seq: u64) {
        self.client_cookie = cookie;
        self.peer_global_seq = peer_global_seq;
    }

    /// The peer resumes the session.
    pub fn resumed(&mut self, connect_seq: u64, peer_global_seq: u64) {
        assert!(self.is_accepted(), "only an accepted session is resumed");
        assert!(connect_seq >= self.connect_seq, "stale connections are not admitted");
        self.connect_seq = connect_seq;
        self.peer_global_seq = peer_global_seq;
    }

    /// This end answers with SERVER_IDENT; only a lossless session gets a cookie.
    pub fn answer(&mut self, now: Time, is_lossless: bool) {
        if is_lossless {
            self.server_cookie = self.new_cookie();
        }
        self.next_global_seq(now);
    }

    /// The peer has seen a later connection of the session.
    pub fn connect_after(&mut self, connect_seq: u64) {
        self.connect_seq = connect_seq.saturating_add(1);
    }

    /// The peer has seen a later attempt of this end.
    pub fn attempt_after(&mut self, global_seq: u64) {
        self.global_seq = self.global_seq.max(global_seq.saturating_add(1));
    }

    /// The peer does not know that it has accepted the session: it is started again, with the same cookie.
    pub fn restart(&mut self) {
        self.server_cookie = 0;
        self.connect_seq = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_have_growing_numbers_even_if_time_stands_still() {
        let mut numbers = Numbers::new(1);
        numbers.begin_attempt(Time(5));
        numbers.begin_attempt(Time(5));
        assert_eq!((numbers.global_seq(), numbers.connect_seq()), (6, 0));
        numbers.accepted(9, 1);
        numbers.attempt_after(40);
        numbers.begin_attempt(Time(7));
        assert_eq!((numbers.global_seq(), numbers.connect_seq()), (42, 1));
    }

    #[test]
    fn a_session_that_is_started_again_keeps_its_cookie() {
        let mut numbers = Numbers::new(1);
        let cookie = numbers.start();
        numbers.accepted(9, 1);
        numbers.restart();
        assert!(!numbers.is_accepted());
        assert_eq!(numbers.start(), cookie);
    }

    #[test]
    fn a_peer_cannot_make_the_number_of_connections_overflow() {
        let mut numbers = Numbers::new(1);
        numbers.accepted(9, 1);
        numbers.connect_after(u64::MAX);
        numbers.begin_attempt(Time(5));
        assert_eq!(numbers.connect_seq(), u64::MAX);
    }
}
