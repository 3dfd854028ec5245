//! The kinds of daemons that a cluster's cores run.

use crate::control::Control;
use crate::host::{DaemonNode, Hosted, NodeOutput, Storage};
use engine::{AuthRequest, ConnId, Message, Peer, Time};
use files::FileStore;
use mon::Monitor;
use osd::Osd;
use store::ObjectStore;
use types::ParticipantName;

/// An object store as a daemon's storage.
pub struct Disk(pub FileStore);

impl Storage for Disk {
    type Request = store::Request;
    type Completion = store::Completion;

    fn submit(&mut self, now: Time, request: store::Request) {
        self.0.submit(now, request);
    }

    fn poll_completion(&mut self) -> Option<store::Completion> {
        self.0.poll_completion()
    }
}

pub enum Node {
    Mon(Box<DaemonNode<Monitor, Control>>),
    Osd(Box<DaemonNode<Osd, Disk>>),
}

impl Node {
    fn hosted(&mut self) -> &mut dyn Hosted {
        match self {
            Node::Mon(node) => &mut **node,
            Node::Osd(node) => &mut **node,
        }
    }
}

impl Hosted for Node {
    fn participant(&self) -> ParticipantName {
        match self {
            Node::Mon(node) => node.participant(),
            Node::Osd(node) => node.participant(),
        }
    }

    fn handle_auth(&mut self, now: Time, conn: ConnId, request: AuthRequest) {
        self.hosted().handle_auth(now, conn, request);
    }

    fn handle_opened(&mut self, now: Time, conn: ConnId, peer: Peer) {
        self.hosted().handle_opened(now, conn, peer);
    }

    fn handle_message(&mut self, now: Time, conn: ConnId, message: Message) {
        self.hosted().handle_message(now, conn, message);
    }

    fn handle_closed(&mut self, now: Time, conn: ConnId) {
        self.hosted().handle_closed(now, conn);
    }

    fn handle_timeout(&mut self, now: Time) {
        self.hosted().handle_timeout(now);
    }

    fn pump_storage(&mut self, now: Time) -> bool {
        self.hosted().pump_storage(now)
    }

    fn poll_output(&mut self, now: Time) -> Option<NodeOutput> {
        self.hosted().poll_output(now)
    }

    fn poll_timeout(&self) -> Option<Time> {
        match self {
            Node::Mon(node) => node.poll_timeout(),
            Node::Osd(node) => node.poll_timeout(),
        }
    }
}
