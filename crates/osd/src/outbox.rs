//! Outputs that the host has not polled yet, the requests to the store that are in progress, and messages
//! between two shards on this OSD.

use crate::tokens::Token;
use engine::{ConnId, Message, Output};
use std::collections::{BTreeSet, VecDeque};
use stdx::Slab;
use store::{Request, RequestKind};

/// Outputs in the order in which the host must perform them.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    outputs: VecDeque<Output<Request>>,
    /// Messages from one shard of a group to another one on this OSD, oldest first.
    local: VecDeque<Message>,
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

    /// Queues a message to another shard on this OSD.
    pub fn send_local(&mut self, message: Message) {
        self.local.push_back(message);
    }

    /// Whether there are such messages.
    pub fn has_local(&self) -> bool {
        !self.local.is_empty()
    }

    /// The next message to a shard on this OSD, if its receiver is up; otherwise all are dropped, as those
    /// of broken sessions are.
    pub fn poll_local(&mut self, is_up: bool) -> Option<Message> {
        if !is_up {
            self.local.clear();
        }
        self.local.pop_front()
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

    /// Panics unless each request that the host has not polled has a token of its own.
    pub fn check_invariants(&self) {
        let mut tokens = BTreeSet::new();
        for output in &self.outputs {
            if let Output::Storage(request) = output {
                assert!(
                    self.storage.get(request.token).is_some(),
                    "its completion finds its context"
                );
                assert!(tokens.insert(request.token), "no two requests have the same token");
            }
        }
    }

    /// Bytes of the commits in progress.
    pub fn commit_bytes(&self) -> u64 {
        self.storage.iter().map(|(_, token)| token.commit_bytes()).sum()
    }

    /// The next output.
    pub fn poll(&mut self) -> Option<Output<Request>> {
        self.outputs.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "its completion finds its context")]
    fn a_request_without_its_context_is_seen() {
        let mut outbox = Outbox::default();
        outbox.ask(Token::Usage, RequestKind::Usage);
        outbox.check_invariants();
        let token = outbox.storage.iter().map(|(token, _)| token).next().unwrap();
        outbox.complete(token);
        outbox.check_invariants();
    }
}
