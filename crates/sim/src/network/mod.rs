//! Links between processes: order is kept within a link, and never between links.
//!
//! Two networks carry the same sessions. [`direct`] delivers messages as values; [`wired`] puts a `msgr`
//! session and a stream of bytes, cut anywhere, between the two ends. Either way a process sees the events
//! of a real host: authentication, sessions opened, messages, sessions closed.
//!
//! The network knows no process: it returns arrivals ([`Delivery`]), and processes act on it by calls.

mod context;
mod direct;
mod faults;
mod wired;

pub use context::{Arrival, Context, Delivery, Presence};
pub use direct::Direct;
pub use faults::NetworkFaults;
pub use wired::Wired;

use crate::event::NetworkEvent;
use crate::node::NodeId;
use engine::{AuthVerdict, ConnId, ConnectTarget, ConnectingAnswer, Message};

/// One of the two networks.
pub enum Network {
    Direct(Direct),
    Wired(Wired),
}

impl Network {
    /// Opens a session from a process to a target.
    pub fn connect(
        &mut self,
        cx: &mut Context<'_>,
        node: NodeId,
        conn: ConnId,
        target: &ConnectTarget,
    ) {
        match self {
            Network::Direct(network) => network.connect(cx, node, conn, target),
            Network::Wired(network) => network.connect(cx, node, conn, target),
        }
    }

    /// Sends a message over a session.
    pub fn send(&mut self, cx: &mut Context<'_>, node: NodeId, conn: ConnId, message: Message) {
        match self {
            Network::Direct(network) => network.send(cx, node, conn, message),
            Network::Wired(network) => network.send(cx, node, conn, message),
        }
    }

    /// Closes a session at one end.
    pub fn close(&mut self, cx: &mut Context<'_>, node: NodeId, conn: ConnId) {
        match self {
            Network::Direct(network) => network.close(cx, node, conn),
            Network::Wired(network) => network.close(cx, node, conn),
        }
    }

    /// Stops or resumes delivery to one end of a session.
    pub fn pause(&mut self, cx: &mut Context<'_>, node: NodeId, conn: ConnId, paused: bool) {
        match self {
            Network::Direct(network) => network.pause(cx, node, conn, paused),
            Network::Wired(network) => network.pause(cx, node, conn, paused),
        }
    }

    /// The acceptor's verdict on an authentication.
    pub fn verdict(
        &mut self,
        cx: &mut Context<'_>,
        node: NodeId,
        conn: ConnId,
        verdict: AuthVerdict,
    ) {
        match self {
            Network::Direct(network) => network.verdict(cx, node, conn, verdict),
            Network::Wired(network) => network.verdict(cx, node, conn, verdict),
        }
    }

    /// The opener's answer to a step of its authentication.
    pub fn answer(
        &mut self,
        cx: &mut Context<'_>,
        node: NodeId,
        conn: ConnId,
        answer: ConnectingAnswer,
    ) {
        match self {
            Network::Direct(network) => network.answer(cx, node, conn, answer),
            Network::Wired(network) => network.answer(cx, node, conn, answer),
        }
    }

    /// Handles an event that the network scheduled.
    pub fn handle(&mut self, cx: &mut Context<'_>, event: NetworkEvent) {
        match self {
            Network::Direct(network) => network.handle(cx, event),
            Network::Wired(network) => network.handle(cx, event),
        }
    }

    /// Removes a process that died. Its peers are notified: soon, or late if its host went silent with it.
    pub fn node_died(&mut self, cx: &mut Context<'_>, node: NodeId, silently: bool) {
        match self {
            Network::Direct(network) => network.node_died(cx, node, silently),
            Network::Wired(network) => network.node_died(cx, node, silently),
        }
    }

    /// Messages of a process that have not arrived are lost, unless byte streams are simulated.
    pub fn forget_sent(&mut self, node: NodeId) {
        if let Network::Direct(network) = self {
            network.forget_sent(node);
        }
    }

    /// Breaks about `share` percent of all connections of `node`.
    pub fn cut(&mut self, cx: &mut Context<'_>, node: NodeId, share: u64) {
        match self {
            Network::Direct(network) => network.cut(cx, node, share),
            Network::Wired(network) => network.cut(cx, node, share),
        }
    }

    /// Called after a partition has begun.
    pub fn partitioned(&mut self, cx: &mut Context<'_>) {
        match self {
            Network::Direct(network) => network.partitioned(cx),
            // `msgr` sessions detect a partition by themselves.
            Network::Wired(_) => {}
        }
    }

    /// Called after faults of the network have changed: messages held back may continue.
    pub fn resume(&mut self, cx: &mut Context<'_>) {
        match self {
            Network::Direct(network) => network.resume(cx),
            Network::Wired(network) => network.resume(cx),
        }
    }
}
