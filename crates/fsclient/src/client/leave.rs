//! The orderly end of a session. A server does not have to wait for a client that has left.

use crate::outputs::Outputs;
use engine::ConnId;
use types::features::SUPPORTED;
use wire::{
    ClientCaps, ClientLease, ClientQuota, ClientSession, ClientSnap, MessageBody, SessionOp,
};

/// Messages that a server sends by itself, and counts.
const PUSHED: [u16; 4] = [ClientCaps::KIND, ClientLease::KIND, ClientSnap::KIND, ClientQuota::KIND];

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum State {
    #[default]
    Stays,
    Asked,
    Left,
}

/// How far a client is with leaving.
#[derive(Debug, Default)]
pub(crate) struct Leaving {
    state: State,
    /// Messages that the server has sent by itself in this session.
    pushed: u64,
}

impl Leaving {
    /// Asks the server to end the session. It ends that of a client that has seen all that it was sent.
    pub(super) fn ask(&mut self, conn: Option<ConnId>, outputs: &mut Outputs) {
        self.state = State::Asked;
        match conn {
            Some(conn) => {
                let close = ClientSession::new(SessionOp::REQUEST_CLOSE, self.pushed);
                outputs.send(conn, close.encode(SUPPORTED));
            }
            None => self.state = State::Left,
        }
    }

    /// Counts a message of the server; one that has crossed the request leads to another request.
    pub(super) fn count(&mut self, kind: u16, conn: Option<ConnId>, outputs: &mut Outputs) {
        if !PUSHED.contains(&kind) {
            return;
        }
        self.pushed += 1;
        if self.state == State::Asked {
            self.ask(conn, outputs);
        }
    }

    /// A new session begins.
    pub(super) fn begin(&mut self) {
        self.pushed = 0;
    }

    /// The session has ended.
    pub(super) fn end(&mut self) {
        self.state = State::Left;
    }

    pub(super) fn is_begun(&self) -> bool {
        self.state != State::Stays
    }

    pub(super) fn is_over(&self) -> bool {
        self.state == State::Left
    }
}
