//! One OSD that is watched: what it was asked, what it has answered.
//!
//! Two kinds of time are told apart: stamps travel with questions and answers; ages are measured in
//! time awake.

use engine::{ConnId, Duration, Time};
use std::collections::VecDeque;
use types::{EntityAddrVec, Epoch};

/// Questions without an answer that are remembered; beyond it only the oldest count.
const UNANSWERED_MAX: usize = 64;
/// How often a failure is reported while it lasts.
const REPORT_AGAIN: Duration = Duration::from_secs(1);
/// Of the average of round trips, the newest one is this part.
const AVERAGE_SHARE: u32 = 8;

#[derive(Debug)]
pub struct Partner {
    /// As the map shows it.
    addrs: EntityAddrVec,
    /// Which life of it is watched: since when it is up.
    up_from: Epoch,
    conn: Option<ConnId>,
    /// When the session was begun, and whether it has brought an answer.
    connected: Time,
    has_answered: bool,
    /// Oldest first.
    unanswered: VecDeque<Question>,
    /// When the monitor was last told that it is silent.
    reported: Option<Time>,
    round_trip: Option<Duration>,
}

#[derive(Debug)]
struct Question {
    stamp: Time,
    asked: Time,
}

#[derive(Debug, PartialEq, Eq)]
pub enum Judgement {
    Well,
    /// To be reported.
    Silent {
        since: Duration,
        session_is_old: bool,
    },
    /// As was reported already.
    StillSilent,
}

impl Partner {
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

    /// The average over the last answers.
    pub fn round_trip(&self) -> Option<Duration> {
        self.round_trip
    }

    pub fn connected(&mut self, conn: ConnId, awake: Time) {
        self.conn = Some(conn);
        self.connected = awake;
        self.has_answered = false;
    }

    pub fn has_answered(&self) -> bool {
        self.has_answered
    }

    pub fn closed(&mut self) -> Option<ConnId> {
        self.conn.take()
    }

    /// A question is sent, or would be if there were a session.
    pub fn ask(&mut self, now: Time, awake: Time) {
        if self.unanswered.len() < UNANSWERED_MAX {
            self.unanswered.push_back(Question { stamp: now, asked: awake });
        }
    }

    /// The answer to the question with that stamp, and to all before. Whether a report is to be taken
    /// back.
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

    /// For how long it has owed an answer.
    pub fn silence(&self, awake: Time) -> Duration {
        self.unanswered.front().map_or(Duration::ZERO, |oldest| awake.since(oldest.asked))
    }

    pub fn judge(&mut self, awake: Time, grace: Duration) -> Judgement {
        let since = self.silence(awake);
        if self.unanswered.is_empty() || since < grace {
            return Judgement::Well;
        }
        if self.reported.is_some_and(|reported| awake.since(reported) < REPORT_AGAIN) {
            return Judgement::StillSilent;
        }
        self.reported = Some(awake);
        Judgement::Silent { since, session_is_old: awake.since(self.connected) >= grace }
    }

    /// Whoever was told does not listen any more. Whether there is something to say.
    pub fn report_again(&mut self) -> bool {
        let was_reported = self.reported.is_some();
        if was_reported {
            self.reported = Some(Time::ZERO);
        }
        was_reported
    }
}
