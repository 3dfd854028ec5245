//! Outputs that the host has not polled yet, and the requests to the store that are in progress.

use crate::tokens::Token;
use engine::{ConnId, Message, Output};
use std::collections::VecDeque;
use stdx::Slab;
use store::{Request, RequestKind};

/// Outputs in the order in which the host must perform them.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    outputs: VecDeque<Output<Request>>,
    /// Requests to the store that are not complete.
    storage: Slab<Token>,
}

impl Outbox {
    /// Adds an output behind all others.
    pub fn push(&mut self, output: Output<Request>) {
        self.outputs.push_back(output);
    }

    /// Queues a message for a session.
    pub fn send(&mut self, conn: ConnId, message: Message) {
        self.push(Output::Send { conn, message });
    }

    /// Sends a request to the store; `token` returns with its completion.
    pub fn ask(&mut self, token: Token, kind: RequestKind) {
        let token = self.storage.insert(token);
        self.push(Output::Storage(Request { token, kind }));
    }

    /// The token of a request that is complete now; `None` if there was no such request.
    pub fn complete(&mut self, token: u64) -> Option<Token> {
        self.storage.remove(token)
    }

    /// The next output.
    pub fn poll(&mut self) -> Option<Output<Request>> {
        self.outputs.pop_front()
    }
}
