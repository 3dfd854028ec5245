//! Requests in flight of clients that resend them over the session on which they wait for the response, as
//! after a map that says that OSDs may have lost them.

use crate::node::NodeId;
use crate::process::Process;
use engine::{ConnId, Message, NodeOutput};
use std::collections::BTreeMap;
use wire::{MessageBody, OsdReply, OsdRequest};

/// Requests by client and tid.
pub struct Resending {
    is_used: bool,
    sent: BTreeMap<(NodeId, u64), (ConnId, Message)>,
}

impl Resending {
    /// Without `is_used` nothing is noted.
    pub fn new(is_used: bool) -> Self {
        Resending { is_used, sent: BTreeMap::new() }
    }

    /// Notes a request of the history that a client sends.
    pub fn note_sent(&mut self, node: NodeId, process: &dyn Process, output: &NodeOutput) {
        if !self.is_used {
            return;
        }
        let NodeOutput::Send { conn, message } = output else { return };
        let Some(client) = process.as_client() else { return };
        if message.kind == OsdRequest::KIND && client.waits_for_request(message.tid) {
            self.sent.insert((node, message.tid), (*conn, message.clone()));
        }
    }

    /// Forgets a request that is answered.
    pub fn note_reply(&mut self, node: NodeId, message: &Message) {
        if message.kind == OsdReply::KIND {
            self.sent.remove(&(node, message.tid));
        }
    }

    /// Forgets the requests of a session that closed.
    pub fn forget_session(&mut self, node: NodeId, conn: ConnId) {
        self.sent.retain(|(sender, _), (on, _)| (*sender, *on) != (node, conn));
    }

    /// Forgets the requests of a client that died.
    pub fn forget(&mut self, node: NodeId) {
        self.sent.retain(|(sender, _), _| *sender != node);
    }

    /// Requests in flight of a client, in order.
    pub fn of(&self, node: NodeId) -> Vec<(ConnId, Message)> {
        self.sent.range((node, 0)..=(node, u64::MAX)).map(|(_, sent)| sent.clone()).collect()
    }
}
