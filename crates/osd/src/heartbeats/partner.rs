//! One OSD that is pinged: its unanswered pings, and its round trip.
//!
//! Two kinds of time are used: stamps in messages are of the plain clock, ages are measured in time awake.

use engine::{ConnId, Duration, Time};
use std::collections::VecDeque;
use types::{EntityAddrVec, Epoch};

/// Unanswered pings that are kept; further ones are not noted, as only the oldest matters.
const UNANSWERED_MAX: usize = 64;
/// Interval of reports while a partner is silent.
const REPORT_AGAIN: Duration = Duration::from_secs(1);
/// The newest round trip is one part in so many of the average.
const AVERAGE_SHARE: u32 = 8;

/// One OSD that is pinged.
#[derive(Debug)]
pub struct Partner {
    /// As the map has it.
    addrs: EntityAddrVec,
    /// The incarnation that is pinged: the epoch since which it is up.
    up_from: Epoch,
    conn: Option<ConnId>,
    /// When the session was opened, and whether it has brought an answer.
    connected: Time,
    has_answered: bool,
    /// Oldest first.
    unanswered: VecDeque<Question>,
    /// When its silence was last reported to the monitor.
    reported: Option<Time>,
    round_trip: Option<Duration>,
}

#[derive(Debug)]
struct Question {
    stamp: Time,
    asked: Time,
}

/// Whether a partner answers.
#[derive(Debug, PartialEq, Eq)]
pub enum Liveness {
    Answering,
    /// It must be reported. `since` is the age of the oldest unanswered ping.
    Silent {
        since: Duration,
        session_is_old: bool,
    },
    /// It was reported recently.
    KnownSilent,
}

impl Partner {
    /// A partner that was not pinged yet.
    pub fn new(addrs: EntityAddrVec, up_from: Epoch) -> Self {
        Partner {
            addrs,
            up_from,
            conn: None,
            connected: Time::ZERO,
            has_answered: false,
            unanswered: VecDeque::new(),
            reported: None,
            round_trip: None,
        }
    }

    pub fn addrs(&self) -> &EntityAddrVec {
        &self.addrs
    }

    pub fn up_from(&self) -> Epoch {
        self.up_from
    }

    pub fn conn(&self) -> Option<ConnId> {
        self.conn
    }

    /// Average round trip of the last answers.
    pub fn round_trip(&self) -> Option<Duration> {
        self.round_trip
    }

    /// Notes a new session; `awake` is the time awake.
    pub fn connected(&mut self, conn: ConnId, awake: Time) {
        self.conn = Some(conn);
        self.connected = awake;
        self.has_answered = false;
    }

    pub fn has_answered(&self) -> bool {
        self.has_answered
    }

    /// Notes the end of the session, and returns it.
    pub fn closed(&mut self) -> Option<ConnId> {
        self.conn.take()
    }

    /// Notes a ping, even if there is no session to send it over.
    pub fn ask(&mut self, now: Time, awake: Time) {
        if self.unanswered.len() < UNANSWERED_MAX {
            self.unanswered.push_back(Question { stamp: now, asked: awake });
        }
    }

    /// Notes an answer to the ping with that stamp, and to all earlier ones. True if a report must
    /// be withdrawn.
    pub fn answered(&mut self, now: Time, stamp: Time) -> bool {
        let before = self.unanswered.len();
        self.unanswered.retain(|question| question.stamp > stamp);
        if self.unanswered.len() == before {
            return false;
        }
        self.has_answered = true;
        let time = now.since(stamp);
        self.round_trip = Some(match self.round_trip {
            None => time,
            Some(average) => average - average / AVERAGE_SHARE + time / AVERAGE_SHARE,
        });
        self.reported.take().is_some()
    }

    /// Age of the oldest unanswered ping.
    pub fn silence(&self, awake: Time) -> Duration {
        self.unanswered.front().map_or(Duration::ZERO, |oldest| awake.since(oldest.asked))
    }

    /// Checks the partner at the time `awake`; a report is noted as sent.
    pub fn check(&mut self, awake: Time, grace: Duration) -> Liveness {
        let since = self.silence(awake);
        if self.unanswered.is_empty() || since < grace {
            return Liveness::Answering;
        }
        if self.reported.is_some_and(|reported| awake.since(reported) < REPORT_AGAIN) {
            return Liveness::KnownSilent;
        }
        self.reported = Some(awake);
        Liveness::Silent { since, session_is_old: awake.since(self.connected) >= grace }
    }

    /// Makes the next check report the partner again; true if it was reported before.
    pub fn report_again(&mut self) -> bool {
        let was_reported = self.reported.is_some();
        if was_reported {
            self.reported = Some(Time::ZERO);
        }
        was_reported
    }
}
