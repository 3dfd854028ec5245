//! Outputs of the client's components, collected in order.

use crate::{Completion, OpId, Reply, WatchEvent};
use engine::{ConnId, ConnectTarget, Duration, Message, Output, Policy, Time};
use std::collections::VecDeque;
use types::{EntityAddrVec, Errno, ParticipantName};

/// First delay before a lost session is opened again; it doubles up to the maximum.
const RECONNECT_FIRST: Duration = Duration::from_millis(50);
const RECONNECT_DOUBLINGS: u32 = 6;

#[derive(Debug)]
pub(crate) struct Effects {
    /// For the host, in order.
    pub outputs: VecDeque<Output<()>>,
    /// Completed requests, for the user.
    pub completions: VecDeque<Completion>,
    /// Events of watches, for the user.
    pub watch_events: VecDeque<WatchEvent>,
    next_conn: ConnId,
    last_tid: u64,
}

impl Effects {
    /// `first_conn` is the number of the first session.
    pub fn new(first_conn: ConnId) -> Self {
        Effects {
            outputs: VecDeque::new(),
            completions: VecDeque::new(),
            watch_events: VecDeque::new(),
            next_conn: first_conn,
            last_tid: 0,
        }
    }

    /// Sends a message on a session that is open.
    pub fn send(&mut self, conn: ConnId, message: Message) {
        self.outputs.push_back(Output::Send { conn, message });
    }

    /// Opens a lossy session and returns its number, which is never used again.
    pub fn connect(&mut self, participant: ParticipantName, addrs: EntityAddrVec) -> ConnId {
        let conn = self.next_conn;
        assert!(!conn.is_accepted(), "the numbers of the client's sessions are used up");
        self.next_conn = ConnId(conn.0 + 1);
        let target = ConnectTarget { participant, addrs, policy: Policy::Lossy };
        self.outputs.push_back(Output::Connect { conn, target });
        conn
    }

    /// Closes a session; `handle_closed` is not called for it.
    pub fn close(&mut self, conn: ConnId) {
        self.outputs.push_back(Output::Close { conn });
    }

    /// Allocates an operation id, which is also the transaction id.
    pub fn next_id(&mut self) -> OpId {
        self.last_tid += 1;
        OpId(self.last_tid)
    }

    /// Completes a request. Its id is dropped by the caller.
    pub fn complete(&mut self, id: OpId, outcome: Result<Reply, Errno>) {
        self.completions.push_back((id, outcome));
    }
}

/// Time of the next attempt after `failures` failures in a row.
pub(crate) fn retry_time(now: Time, failures: u32) -> Time {
    now + RECONNECT_FIRST * (1 << failures.min(RECONNECT_DOUBLINGS))
}
