//! Commands to the metadata server.

use crate::call::{Answer, CallId, Outcome};
use crate::outputs::Outputs;
use bytes::Bytes;
use engine::ConnId;
use std::collections::BTreeMap;
use types::Uuid;
use types::features::SUPPORTED;
use wire::{Command, CommandReply, MessageBody};

/// Commands that were not answered, by number.
#[derive(Debug, Default)]
pub(crate) struct Commands {
    waiting: BTreeMap<u64, (CallId, String)>,
    sent: BTreeMap<u64, CallId>,
}

impl Commands {
    /// Keeps a command until there is a session.
    pub(super) fn add(&mut self, tid: u64, id: CallId, command: String) {
        self.waiting.insert(tid, (id, command));
    }

    /// Sends those that wait.
    pub(super) fn send(&mut self, conn: ConnId, outputs: &mut Outputs) {
        for (tid, (id, command)) in std::mem::take(&mut self.waiting) {
            let (fsid, input) = (Uuid::default(), Bytes::new());
            let message = Command { fsid, command: vec![command], input };
            outputs.send(conn, message.encode(SUPPORTED).with_tid(tid));
            self.sent.insert(tid, id);
        }
    }

    /// A reply has come. An errno is the command's, and not that of the call.
    pub(super) fn answer(&mut self, tid: u64, reply: CommandReply) -> Option<(CallId, Outcome)> {
        let id = self.sent.remove(&tid)?;
        let CommandReply { result, text, output } = reply;
        Some((id, Ok(Answer::Command { result, text, output })))
    }

    /// Forgets all; returns their calls.
    pub(super) fn lose(&mut self) -> Vec<CallId> {
        let waiting = std::mem::take(&mut self.waiting).into_values().map(|(id, _)| id);
        let waiting: Vec<CallId> = waiting.collect();
        [self.lose_sent(), waiting].concat()
    }

    /// Forgets those that were sent; returns their calls.
    pub(super) fn lose_sent(&mut self) -> Vec<CallId> {
        std::mem::take(&mut self.sent).into_values().collect()
    }
}
