//! Network that delivers messages as values, after a delay.
//!
//! A session of a client begins with the same authentication as a real one, without frames. Sessions
//! between daemons open without authentication, as those within one process do.

use super::context::{Arrival, Context, SILENCE_MS_MAX};
use crate::event::{Event, NetworkEvent};
use crate::node::{NodeId, Way};
use bytes::Bytes;
use engine::{
    AuthRequest, AuthVerdict, ConnId, ConnectTarget, ConnectingAnswer, ConnectingStep, Duration,
    Message, Peer, Policy, Time,
};
use std::collections::{BTreeMap, VecDeque};
use types::{EntityAddr, ParticipantName, features};

/// Time after which connecting to a process that does not answer fails.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest time in which a lossless session reconnects.
const RECONNECT_MS_MAX: u64 = 2_000;
const OPENER: usize = 0;
const ACCEPTOR: usize = 1;

/// Links by number.
#[derive(Default)]
pub struct Direct {
    links: BTreeMap<u64, Link>,
    conns: BTreeMap<(NodeId, ConnId), (u64, usize)>,
    links_made: u64,
}

struct Link {
    ends: [End; 2],
    target: ParticipantName,
    policy: Policy,
    /// The opener, as the acceptor knows it.
    peer: Option<Peer>,
    /// The link is broken; nothing more is sent.
    is_cut: bool,
}

struct End {
    node: NodeId,
    conn: ConnId,
    /// This end has closed the link, or never learned of it.
    is_gone: bool,
    is_paused: bool,
    /// The arrival of the first message is scheduled.
    is_scheduled: bool,
    inbox: VecDeque<(Time, LinkMessage)>,
}

enum LinkMessage {
    Auth(AuthRequest),
    Step(ConnectingStep),
    /// Sent by the acceptor, and then in turn by the opener.
    Opened(Box<Peer>),
    Message(Message),
    Closed,
}

impl End {
    fn new(node: NodeId, conn: ConnId) -> Self {
        let inbox = VecDeque::new();
        End { node, conn, is_gone: false, is_paused: false, is_scheduled: false, inbox }
    }
}

impl Direct {
    /// Opens a session from a process to a target.
    pub fn connect(
        &mut self,
        cx: &mut Context<'_>,
        node: NodeId,
        conn: ConnId,
        target: &ConnectTarget,
    ) {
        self.links_made += 1;
        let id = self.links_made;
        let found = cx.find(target);
        let acceptor = found.unwrap_or(node);
        let accepted = ConnId(ConnId::ACCEPTED + id);
        let mut ends = [End::new(node, conn), End::new(acceptor, accepted)];
        let reachable = found.is_some() && !cx.network_faults.is_cut(node, acceptor);
        ends[ACCEPTOR].is_gone = !reachable;
        let (participant, policy) = (target.participant, target.policy);
        let link = Link { ends, target: participant, policy, peer: None, is_cut: !reachable };
        self.links.insert(id, link);
        self.conns.insert((node, conn), (id, OPENER));
        if !reachable {
            let wait = if found.is_some() { CONNECT_TIMEOUT } else { cx.delay((node, node)) };
            return self.post_after(cx, id, OPENER, LinkMessage::Closed, wait);
        }
        self.conns.insert((acceptor, accepted), (id, ACCEPTOR));
        if cx.presences[node].is_client {
            cx.deliver(node, conn, Arrival::Connecting(ConnectingStep::Begin));
        } else {
            let peer = trusted_peer(cx, node, cx.presences[node].participant());
            self.post(cx, id, ACCEPTOR, LinkMessage::Opened(Box::new(peer)));
        }
    }

    /// Sends a message over a session.
    pub fn send(&mut self, cx: &mut Context<'_>, node: NodeId, conn: ConnId, message: Message) {
        if let Some((link, end)) = self.conns.get(&(node, conn)).copied() {
            self.post(cx, link, 1 - end, LinkMessage::Message(message));
        }
    }

    /// Closes a session at one end.
    pub fn close(&mut self, cx: &mut Context<'_>, node: NodeId, conn: ConnId) {
        if let Some((link, end)) = self.conns.get(&(node, conn)).copied() {
            self.leave(cx, link, end);
        }
    }

    /// Stops or resumes delivery to one end of a session.
    pub fn pause(&mut self, cx: &mut Context<'_>, node: NodeId, conn: ConnId, paused: bool) {
        let Some((id, end)) = self.conns.get(&(node, conn)).copied() else { return };
        if let Some(link) = self.links.get_mut(&id) {
            link.ends[end].is_paused = paused;
            self.schedule(cx, id, end);
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
        let Some((id, OPENER)) = self.conns.get(&(node, conn)).copied() else { return };
        let request = match answer {
            ConnectingAnswer::Start { method, preferred_modes, payload } => {
                let seen_addr = seen_addr(cx, node);
                AuthRequest::Start { method, preferred_modes, payload, seen_addr }
            }
            ConnectingAnswer::More { payload } => AuthRequest::More { payload },
            ConnectingAnswer::Finish { .. } => return self.open_client(cx, id),
            ConnectingAnswer::Refuse => {
                self.leave(cx, id, OPENER);
                return cx.deliver(node, conn, Arrival::Closed);
            }
        };
        self.post(cx, id, ACCEPTOR, LinkMessage::Auth(request));
    }

    /// Both ends have authenticated each other.
    fn open_client(&mut self, cx: &mut Context<'_>, id: u64) {
        let Some(link) = self.links.get_mut(&id) else { return };
        let Some(peer) = link.peer.take() else { return };
        let [opener, acceptor] = &link.ends;
        let daemon = trusted_peer(cx, acceptor.node, link.target);
        cx.deliver(opener.node, opener.conn, Arrival::Opened(daemon));
        self.post(cx, id, ACCEPTOR, LinkMessage::Opened(Box::new(peer)));
    }

    /// The acceptor's verdict on an authentication.
    pub fn verdict(
        &mut self,
        cx: &mut Context<'_>,
        node: NodeId,
        conn: ConnId,
        verdict: AuthVerdict,
    ) {
        let Some((id, ACCEPTOR)) = self.conns.get(&(node, conn)).copied() else { return };
        let step = match verdict {
            AuthVerdict::More { payload } => ConnectingStep::More { payload },
            AuthVerdict::Done { name, global_id, payload, caps, .. } => {
                let Some(link) = self.links.get_mut(&id) else { return };
                let opener = link.ends[OPENER].node;
                let number = i64::try_from(global_id).unwrap_or(i64::MAX);
                link.peer = Some(Peer {
                    participant: ParticipantName::new(
                        cx.presences[opener].participant().kind,
                        number,
                    ),
                    name,
                    addrs: cx.presences[opener].addrs.clone(),
                    features: features::SUPPORTED,
                    caps,
                    seen_addr: seen_addr(cx, opener),
                });
                ConnectingStep::Done { global_id, payload }
            }
            AuthVerdict::BadMethod { .. } => {
                self.leave(cx, id, ACCEPTOR);
                return cx.deliver(node, conn, Arrival::Closed);
            }
        };
        self.post(cx, id, OPENER, LinkMessage::Step(step));
    }

    /// Handles an event that the network scheduled.
    pub fn handle(&mut self, cx: &mut Context<'_>, event: NetworkEvent) {
        let (id, end) = match event {
            NetworkEvent::LinkMessage { link, end } => (link, end),
            NetworkEvent::Silence { link } => return self.silent(cx, link),
            _ => return,
        };
        let Some(link) = self.links.get_mut(&id) else { return };
        link.ends[end].is_scheduled = false;
        if link.is_held(cx, end) {
            return;
        }
        let early = link.ends[end].inbox.front().is_some_and(|(due, _)| *due > cx.agenda.now());
        if early {
            return self.schedule(cx, id, end);
        }
        let Some((_, message)) = link.ends[end].inbox.pop_front() else { return };
        self.arrive(cx, id, end, message);
        self.schedule(cx, id, end);
    }

    fn arrive(&mut self, cx: &mut Context<'_>, id: u64, end: usize, message: LinkMessage) {
        let Some(link) = self.links.get_mut(&id) else { return };
        let (node, conn) = (link.ends[end].node, link.ends[end].conn);
        let arrival = match message {
            LinkMessage::Auth(request) => Arrival::Auth(request),
            LinkMessage::Step(step) => Arrival::Connecting(step),
            LinkMessage::Message(message) => Arrival::Message(message),
            LinkMessage::Opened(peer) => {
                let opener = link.ends[OPENER].node;
                if end == ACCEPTOR && !cx.presences[opener].is_client {
                    let daemon = trusted_peer(cx, node, link.target);
                    self.post(cx, id, OPENER, LinkMessage::Opened(Box::new(daemon)));
                }
                Arrival::Opened(*peer)
            }
            LinkMessage::Closed => {
                self.forget(id, end);
                Arrival::Closed
            }
        };
        cx.deliver(node, conn, arrival);
    }

    fn post(&mut self, cx: &mut Context<'_>, id: u64, end: usize, message: LinkMessage) {
        let Some(link) = self.links.get(&id) else { return };
        let delay = cx.delay(link.way(end));
        if !link.is_cut {
            self.post_after(cx, id, end, message, delay);
        }
    }

    fn post_after(
        &mut self,
        cx: &mut Context<'_>,
        id: u64,
        end: usize,
        message: LinkMessage,
        delay: Duration,
    ) {
        let Some(link) = self.links.get_mut(&id) else { return };
        if link.ends[end].is_gone {
            return;
        }
        let due = cx.agenda.now() + delay;
        let inbox = &mut link.ends[end].inbox;
        let due = inbox.back().map_or(due, |(last, _)| due.max(*last));
        inbox.push_back((due, message));
        self.schedule(cx, id, end);
    }

    fn schedule(&mut self, cx: &mut Context<'_>, id: u64, end: usize) {
        let Some(link) = self.links.get_mut(&id) else { return };
        if link.ends[end].is_scheduled || link.is_held(cx, end) {
            return;
        }
        if let Some((due, _)) = link.ends[end].inbox.front() {
            let due = *due;
            link.ends[end].is_scheduled = true;
            cx.agenda.at(due, Event::Network(NetworkEvent::LinkMessage { link: id, end }));
        }
    }

    /// Closes the link at this end; the other end is notified.
    fn leave(&mut self, cx: &mut Context<'_>, id: u64, end: usize) {
        self.leave_after(cx, id, end, Duration::ZERO);
    }

    fn leave_after(&mut self, cx: &mut Context<'_>, id: u64, end: usize, silence: Duration) {
        let keeps_flight = cx.prng.chance(1, 2);
        let Some(link) = self.links.get_mut(&id) else { return };
        link.is_cut = true;
        if !keeps_flight {
            link.ends[1 - end].inbox.clear();
        }
        let delay = cx.delay(link.way(1 - end)) + silence;
        self.post_after(cx, id, 1 - end, LinkMessage::Closed, delay);
        self.forget(id, end);
    }

    fn forget(&mut self, id: u64, end: usize) {
        let Some(link) = self.links.get_mut(&id) else { return };
        link.ends[end].is_gone = true;
        link.ends[end].inbox.clear();
        self.conns.remove(&(link.ends[end].node, link.ends[end].conn));
        if link.ends.iter().all(|end| end.is_gone) {
            self.links.remove(&id);
        }
    }

    /// Ends all sessions of a process that died; peers learn of it soon, or late if its host died with it.
    pub fn node_died(&mut self, cx: &mut Context<'_>, node: NodeId, silently: bool) {
        let conns = self.conns.range((node, ConnId(0))..(node + 1, ConnId(0)));
        let ends: Vec<(u64, usize)> = conns.map(|(_, end)| *end).collect();
        for (id, end) in ends {
            let silence = if silently { cx.prng.below(SILENCE_MS_MAX) } else { 0 };
            self.leave_after(cx, id, end, Duration::from_millis(silence));
        }
    }

    /// Messages of a process that have not arrived are lost.
    pub fn forget_sent(&mut self, node: NodeId) {
        let conns = self.conns.range((node, ConnId(0))..(node + 1, ConnId(0)));
        let ends: Vec<(u64, usize)> = conns.map(|(_, end)| *end).collect();
        for (id, end) in ends {
            if let Some(link) = self.links.get_mut(&id) {
                let inbox = &mut link.ends[1 - end].inbox;
                inbox.retain(|(_, message)| matches!(message, LinkMessage::Closed));
            }
        }
    }

    /// Breaks about `share` percent of all connections of a process.
    pub fn cut(&mut self, cx: &mut Context<'_>, node: NodeId, share: u64) {
        let conns = self.conns.range((node, ConnId(0))..(node + 1, ConnId(0)));
        let links: Vec<u64> = conns.map(|(_, (id, _))| *id).collect();
        for id in links {
            if cx.prng.chance(share, 100) {
                self.cut_link(cx, id);
            }
        }
    }

    fn cut_link(&mut self, cx: &mut Context<'_>, id: u64) {
        let Some(link) = self.links.get_mut(&id) else { return };
        if link.is_cut {
            return;
        }
        if link.policy == Policy::Lossless {
            return self.interrupt_link(cx, id);
        }
        link.is_cut = true;
        link.ends.iter_mut().for_each(|end| end.inbox.clear());
        let ways = [OPENER, ACCEPTOR].map(|end| link.way(end));
        for end in [OPENER, ACCEPTOR] {
            let delay = cx.delay(ways[end]);
            self.post_after(cx, id, end, LinkMessage::Closed, delay);
        }
    }

    /// The session outlives its connection: messages in flight arrive later.
    fn interrupt_link(&mut self, cx: &mut Context<'_>, id: u64) {
        let pause = Duration::from_millis(1 + cx.prng.below(RECONNECT_MS_MAX));
        let resumed = cx.agenda.now() + pause;
        let Some(link) = self.links.get_mut(&id) else { return };
        for end in &mut link.ends {
            end.inbox.iter_mut().for_each(|(due, _)| *due = resumed.max(*due));
        }
    }

    /// Lossy sessions end after a long silence.
    pub fn partitioned(&mut self, cx: &mut Context<'_>) {
        for (id, link) in &self.links {
            if link.policy == Policy::Lossy && link.crosses_partition(cx) {
                let patience = Duration::from_millis(cx.prng.below(SILENCE_MS_MAX));
                let silence = NetworkEvent::Silence { link: *id };
                cx.agenda.after(patience, Event::Network(silence));
            }
        }
    }

    fn silent(&mut self, cx: &mut Context<'_>, id: u64) {
        if self.links.get(&id).is_some_and(|link| link.crosses_partition(cx)) {
            self.cut_link(cx, id);
        }
    }

    /// Delivers what faults held back, as far as they are over.
    pub fn resume(&mut self, cx: &mut Context<'_>) {
        let ids: Vec<u64> = self.links.keys().copied().collect();
        for id in ids {
            self.schedule(cx, id, OPENER);
            self.schedule(cx, id, ACCEPTOR);
        }
    }
}

impl Link {
    /// The direction of messages to that end.
    fn way(&self, end: usize) -> Way {
        (self.ends[1 - end].node, self.ends[end].node)
    }

    fn crosses_partition(&self, cx: &Context<'_>) -> bool {
        cx.network_faults.is_cut(self.ends[OPENER].node, self.ends[ACCEPTOR].node)
    }

    /// True if the next message for that end must wait.
    fn is_held(&self, cx: &Context<'_>, end: usize) -> bool {
        let here = &self.ends[end];
        if cx.network_faults.is_paused(here.node) {
            return true;
        }
        match here.inbox.front() {
            Some((_, LinkMessage::Closed)) => false,
            Some((_, LinkMessage::Message(_))) if here.is_paused => true,
            _ => cx.network_faults.is_blocked(self.way(end)),
        }
    }
}

/// A daemon, for listeners that require no proof.
fn trusted_peer(cx: &Context<'_>, node: NodeId, participant: ParticipantName) -> Peer {
    let presence = &cx.presences[node];
    Peer {
        participant,
        name: presence.name.clone(),
        addrs: presence.addrs.clone(),
        features: features::SUPPORTED,
        caps: Bytes::new(),
        seen_addr: seen_addr(cx, node),
    }
}

fn seen_addr(cx: &Context<'_>, node: NodeId) -> EntityAddr {
    cx.presences[node].addrs.msgr2().unwrap_or_default()
}
