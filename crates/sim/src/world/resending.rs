//! Clients that resend requests over the session on which they wait for the response, as after a map that
//! says that OSDs may have lost them.

use super::{Body, World};
use crate::network::NodeId;
use engine::{ConnId, Message, NodeOutput};
use wire::{MessageBody, OsdReply, OsdRequest};

impl World {
    pub(super) fn note_sent(&mut self, node: NodeId, output: &NodeOutput) {
        if !self.scenario.trials.resends {
            return;
        }
        let NodeOutput::Send { conn, message } = output else { return };
        let Body::Client(client) = &self.nodes[node].body else { return };
        if message.kind == OsdRequest::KIND && client.waits_for_request(message.tid) {
            self.sent.insert((node, message.tid), (*conn, message.clone()));
        }
    }

    pub(super) fn note_reply(&mut self, node: NodeId, message: &Message) {
        if message.kind == OsdReply::KIND {
            self.sent.remove(&(node, message.tid));
        }
    }

    pub(super) fn forget_sent(&mut self, node: NodeId, conn: ConnId) {
        self.sent.retain(|(sender, _), (on, _)| (*sender, *on) != (node, conn));
    }

    /// Resends all requests in flight of a client, in order.
    pub(super) fn resend(&mut self, node: NodeId) {
        if self.network_faults.is_paused(node) {
            return;
        }
        let of_node = self.sent.range((node, 0)..=(node, u64::MAX));
        let again: Vec<(ConnId, Message)> = of_node.map(|(_, sent)| sent.clone()).collect();
        for (conn, message) in again {
            self.line(format_args!("client {node} sends tid {} again", message.tid));
            self.network(|network, cx| network.send(cx, node, conn, message));
        }
    }
}
