//! The kinds of daemons that a cluster's cores run.

use super::disk::Disk;
use crate::control::Control;
use crate::host::{DaemonNode, Hosted, NodeOutput, StorageIo, sessions_go_to};
use engine::{ConnId, ConnectingAnswer, ConnectingStep, Time};
use mon::Monitor;
use osd::Osd;
use rt::DiskResult;
use types::ParticipantName;

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

    sessions_go_to!(hosted());

    fn authenticate(&mut self, now: Time, conn: ConnId, step: ConnectingStep) -> ConnectingAnswer {
        self.hosted().authenticate(now, conn, step)
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

    fn poll_io(&mut self) -> Option<StorageIo> {
        self.hosted().poll_io()
    }

    fn handle_io(&mut self, now: Time, token: u64, result: DiskResult) {
        self.hosted().handle_io(now, token, result);
    }

    fn is_open(&self) -> anyhow::Result<bool> {
        match self {
            Node::Mon(node) => node.is_open(),
            Node::Osd(node) => node.is_open(),
        }
    }

    fn close_storage(&mut self) {
        self.hosted().close_storage();
    }

    fn is_storage_closed(&self) -> bool {
        match self {
            Node::Mon(node) => node.is_storage_closed(),
            Node::Osd(node) => node.is_storage_closed(),
        }
    }
}
