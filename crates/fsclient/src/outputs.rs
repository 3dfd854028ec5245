//! Requests of the client to its host.

use crate::link::{Link, OPEN_TIMEOUT};
use engine::{ConnId, ConnectTarget, Message, Output, Policy, Time};
use std::collections::VecDeque;
use types::{EntityAddrVec, ParticipantName};

/// Outputs in order, and numbers of connections.
#[derive(Debug, Default)]
pub(crate) struct Outputs {
    queue: VecDeque<Output<()>>,
    last_conn: u64,
}

impl Outputs {
    pub(crate) fn send(&mut self, conn: ConnId, message: Message) {
        self.queue.push_back(Output::Send { conn, message });
    }

    pub(crate) fn close(&mut self, conn: ConnId) {
        self.queue.push_back(Output::Close { conn });
    }

    /// Opens a connection.
    pub(crate) fn connect(
        &mut self,
        now: Time,
        participant: ParticipantName,
        addrs: EntityAddrVec,
        policy: Policy,
    ) -> Link {
        self.last_conn += 1;
        let conn = ConnId(self.last_conn);
        let target = ConnectTarget { participant, addrs, policy };
        self.queue.push_back(Output::Connect { conn, target });
        Link::Opening(conn, now + OPEN_TIMEOUT)
    }

    pub(crate) fn push(&mut self, output: Output<()>) {
        self.queue.push_back(output);
    }

    pub(crate) fn poll(&mut self) -> Option<Output<()>> {
        self.queue.pop_front()
    }
}
