//! The cluster, its links and its time.
//!
//! * [`requests`]: requests of the client. [`groups`]: placement and state of groups.
//! * [`media`]: faults of the media. [`scrubs`]: scrub orders and stamps.

mod groups;
mod media;
mod requests;
mod scrubs;

use super::monitor::Monitor;
use super::ordering::Order;
use crate::{Config, Osd};
use engine::{ConnId, Daemon, Message, Output, Peer, Time};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use stdx::Prng;
use store::ObjectStore;
use store::crash::{CrashOptions, CrashStore};
use types::features::SUPPORTED;
use types::{EntityAddr, EntityAddrVec, EntityName, EntityType, Errno, OsdId, ParticipantName};
use wire::watch::WatchNotify;
use wire::{CommandReply, MessageBody, OsdReply, SnapContext};

const OSDS: i32 = 3;
const SIZE: u8 = 3;
/// More steps than any test needs until the cluster is idle.
const STEPS_MAX: usize = 200_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Node {
    Osd(OsdId),
    Monitor,
    Client,
}

/// One end of a link.
type End = (Node, ConnId);

struct Machine {
    osd: Option<Osd>,
    store: CrashStore,
    starts: u32,
}

pub struct World {
    now: Time,
    prng: Prng,
    machines: Vec<Machine>,
    pub monitor: Monitor,
    links: BTreeMap<End, End>,
    /// Messages in flight, by sender.
    queues: BTreeMap<End, VecDeque<Message>>,
    accepted: u64,
    /// The client's sessions; ids are not reused.
    sessions: BTreeMap<OsdId, ConnId>,
    pub replies: Vec<(u64, OsdReply)>,
    /// Replies to commands.
    pub answers: Vec<CommandReply>,
    /// Checks the order of replies to the client.
    order: Order,
    events: Vec<WatchNotify>,
    tids: u64,
    /// The snapshot context of writes.
    pub snap_context: SnapContext,
}

fn addrs(osd: OsdId, nonce: u32) -> EntityAddrVec {
    let mut addr: EntityAddr = format!("v2:10.0.0.1:{}/0", 6800 + osd.0).parse().unwrap();
    addr.nonce = nonce;
    EntityAddrVec::one(addr)
}

fn peer(node: Node) -> Peer {
    let participant = match node {
        Node::Osd(osd) => ParticipantName::new(EntityType::OSD, osd.0.into()),
        Node::Monitor => ParticipantName::new(EntityType::MON, 0),
        Node::Client => ParticipantName::new(EntityType::CLIENT, 4100),
    };
    let caps = auth::AuthCaps { allow_all: true, text: String::new() };
    Peer {
        participant,
        name: EntityName::new(participant.kind, participant.number.to_string()),
        addrs: EntityAddrVec::default(),
        features: SUPPORTED,
        caps: codec::encode_to_bytes(&caps),
        seen_addr: EntityAddr::default(),
    }
}

impl World {
    pub fn started(seed: u64) -> Self {
        World::with_size(seed, SIZE)
    }

    /// A cluster with a pool of that size.
    pub fn with_size(seed: u64, size: u8) -> Self {
        World::with_stores(seed, size, CrashOptions::default())
    }

    pub fn with_stores(seed: u64, size: u8, options: CrashOptions) -> Self {
        let machine = |id: i32| Machine {
            osd: None,
            store: CrashStore::new(seed * 1000 + id as u64, options.clone()),
            starts: 0,
        };
        let mut world = World {
            now: Time(1_000_000_000),
            prng: Prng::new(seed),
            machines: (0..OSDS).map(machine).collect(),
            monitor: Monitor::new(OSDS, size),
            links: BTreeMap::new(),
            queues: BTreeMap::new(),
            accepted: ConnId::ACCEPTED,
            sessions: BTreeMap::new(),
            replies: Vec::new(),
            answers: Vec::new(),
            order: Order::default(),
            events: Vec::new(),
            tids: 1000,
            snap_context: SnapContext::default(),
        };
        (0..OSDS).for_each(|id| world.restart(OsdId(id)));
        world.settle();
        world
    }

    fn machine(&mut self, osd: OsdId) -> &mut Machine {
        &mut self.machines[osd.0 as usize]
    }

    pub fn is_running(&self, osd: OsdId) -> bool {
        self.machines[osd.0 as usize].osd.is_some()
    }

    pub fn restart(&mut self, osd: OsdId) {
        let fsid = self.monitor.map.fsid;
        let machine = self.machine(osd);
        if machine.osd.is_some() {
            return;
        }
        machine.starts += 1;
        let config = Config {
            id: osd,
            fsid,
            addrs: addrs(osd, machine.starts),
            monitors: vec![EntityAddrVec::default()],
            key: None,
            uuid: types::Uuid::default(),
            auth_none: true,
            connection_modes: vec![1, 2],
            hostname: "host".to_owned(),
            holds_shards: false,
            sizes: crate::Sizes::default(),
        };
        machine.osd = Some(Osd::new(config, [osd.0 as u8; 32]));
        self.drain();
    }

    pub fn crash(&mut self, osd: OsdId) {
        let machine = self.machine(osd);
        if machine.osd.take().is_none() {
            return;
        }
        machine.store.crash();
        let ends: Vec<End> =
            self.links.keys().filter(|(node, _)| *node == Node::Osd(osd)).copied().collect();
        ends.into_iter().for_each(|end| self.cut(end));
        let messages = self.monitor.mark_down(osd);
        self.send_all(Node::Monitor, messages);
        self.drain();
    }

    /// The monitor wrongly marks an OSD down, which boots again immediately.
    pub fn mark_down_wrongly(&mut self, osd: OsdId) {
        let messages = self.monitor.mark_down(osd);
        self.send_all(Node::Monitor, messages);
        self.drain();
    }

    pub fn lose_heartbeat(&mut self, watcher: OsdId, watched: OsdId) {
        let now = self.now;
        let osd = self.machine(watcher).osd.as_mut().expect("it runs");
        osd.heartbeats_mut().lose_question(now, watched);
    }

    /// Age of the oldest ping of `watcher` that `watched` has not answered.
    pub fn silence(&self, watcher: OsdId, watched: OsdId) -> Duration {
        let osd = self.machines[watcher.0 as usize].osd.as_ref().expect("it runs");
        osd.heartbeats().silence(self.now, watched)
    }

    /// Breaks a link; the other end is notified.
    fn cut(&mut self, end: End) {
        self.queues.remove(&end);
        let Some(other) = self.links.remove(&end) else { return };
        self.links.remove(&other);
        self.queues.remove(&other);
        match other.0 {
            Node::Osd(osd) => {
                let now = self.now;
                if let Some(osd) = &mut self.machine(osd).osd {
                    osd.handle_closed(now, other.1);
                }
            }
            Node::Monitor => self.monitor.forget(other.1),
            Node::Client => self.sessions.retain(|_, conn| *conn != other.1),
        }
    }

    fn send_all(&mut self, from: Node, messages: Vec<(ConnId, Message)>) {
        for (conn, message) in messages {
            if self.links.contains_key(&(from, conn)) {
                self.queues.entry((from, conn)).or_default().push_back(message);
            }
        }
    }

    fn connect(&mut self, from: End, to: Node) {
        self.accepted += 1;
        let other = (to, ConnId(self.accepted));
        self.links.insert(from, other);
        self.links.insert(other, from);
        let now = self.now;
        for ((node, conn), at) in [(from, to), (other, from.0)] {
            if let Node::Osd(osd) = node
                && let Some(osd) = &mut self.machine(osd).osd
            {
                osd.handle_opened(now, conn, peer(at));
            }
        }
    }

    fn drain(&mut self) {
        for id in 0..OSDS {
            let node = Node::Osd(OsdId(id));
            let now = self.now;
            while let Some(machine) = self.machines.get_mut(id as usize)
                && let Some(osd) = &mut machine.osd
                && let Some(output) = osd.poll_output()
            {
                match output {
                    Output::Send { conn, message } => self.send_all(node, vec![(conn, message)]),
                    Output::Storage(request) => machine.store.submit(now, request),
                    Output::Close { conn } => self.cut((node, conn)),
                    Output::Connect { conn, target } => {
                        let to = match target.participant.kind {
                            EntityType::MON => Node::Monitor,
                            _ => Node::Osd(OsdId(target.participant.number as i32)),
                        };
                        let reachable = match to {
                            Node::Osd(osd) => self.is_running(osd),
                            _ => true,
                        };
                        match reachable {
                            true => self.connect((node, conn), to),
                            false => {
                                let osd = self.machines[id as usize].osd.as_mut().unwrap();
                                osd.handle_closed(now, conn);
                            }
                        }
                    }
                    Output::Pause { .. } | Output::Auth { .. } => {}
                }
            }
        }
    }

    fn deliver(&mut self, from: End) {
        let queue = self.queues.get_mut(&from).expect("the caller found it");
        let message = queue.pop_front().expect("queues are not empty");
        if queue.is_empty() {
            self.queues.remove(&from);
        }
        let (to, conn) = self.links[&from];
        match to {
            Node::Osd(osd) => {
                let now = self.now;
                if let Some(osd) = &mut self.machine(osd).osd {
                    osd.handle_message(now, conn, message);
                }
            }
            Node::Monitor => {
                let Node::Osd(osd) = from.0 else { return };
                let messages = self.monitor.handle(conn, osd, &message);
                self.send_all(Node::Monitor, messages);
            }
            Node::Client => match message.kind {
                OsdReply::KIND => {
                    let reply = OsdReply::decode(&message).unwrap();
                    // `EAGAIN` of a replica is not part of the order of replies.
                    if reply.result != Errno::AGAIN.negative() {
                        self.order.replied(conn, message.tid);
                    }
                    self.replies.push((message.tid, reply));
                }
                CommandReply::KIND => self.answers.push(CommandReply::decode(&message).unwrap()),
                WatchNotify::KIND => self.events.push(WatchNotify::decode(&message).unwrap()),
                _ => {}
            },
        }
        self.drain();
    }

    /// Performs one of the possible events; false if time must pass first.
    fn step(&mut self) -> bool {
        let busy: Vec<End> = self.queues.keys().copied().collect();
        let mut stores = Vec::new();
        for (id, machine) in self.machines.iter_mut().enumerate() {
            machine.store.advance(self.now);
            if machine.osd.is_some() && machine.store.next_event() == Some(Time::ZERO) {
                stores.push(id);
            }
        }
        let choices = busy.len() + stores.len();
        if choices == 0 {
            return false;
        }
        let choice = self.prng.below(choices as u64) as usize;
        match busy.get(choice) {
            Some(end) => self.deliver(*end),
            None => {
                let now = self.now;
                let machine = &mut self.machines[stores[choice - busy.len()]];
                if let Some(completion) = machine.store.poll_completion() {
                    machine.osd.as_mut().unwrap().handle_completion(now, completion);
                }
                self.drain();
            }
        }
        let osds = self.machines.iter().filter_map(|machine| machine.osd.as_ref());
        osds.for_each(Osd::check_invariants);
        true
    }

    /// Advances to the next timer or event of a store; false if that is later than `limit`.
    fn pass_time(&mut self, limit: Time) -> bool {
        let running = self.machines.iter().filter(|machine| machine.osd.is_some());
        let events = running.filter_map(|machine| machine.store.next_event()).min();
        let timers = self.machines.iter().filter_map(|m| m.osd.as_ref()?.poll_timeout()).min();
        let Some(next) = events.into_iter().chain(timers).min() else { return false };
        if next > limit {
            return false;
        }
        self.now = self.now.max(next);
        let now = self.now;
        for machine in &mut self.machines {
            if let Some(osd) = &mut machine.osd
                && osd.poll_timeout().is_some_and(|due| due <= now)
            {
                osd.handle_timeout(now);
            }
        }
        self.drain();
        true
    }

    /// Performs a number of events.
    pub fn steps(&mut self, count: u64) {
        for _ in 0..count {
            if !self.step() {
                self.pass_time(Time::FAR_FUTURE);
            }
        }
    }

    pub fn random_step(&mut self) {
        match self.prng.below(60) {
            0 => {
                let osd = OsdId(self.prng.below(OSDS as u64) as i32);
                self.crash(osd);
            }
            1..4 => {
                let osd = OsdId(self.prng.below(OSDS as u64) as i32);
                self.restart(osd);
            }
            _ => {
                if !self.step() {
                    self.pass_time(Time::FAR_FUTURE);
                }
            }
        }
    }

    pub fn heal(&mut self) {
        self.machines.iter_mut().for_each(|machine| machine.store.stop_refusing());
        (0..OSDS).for_each(|id| self.restart(OsdId(id)));
        self.settle();
    }

    /// Performs all events of one second.
    pub fn settle(&mut self) {
        self.wait(1);
    }

    /// Stops at the first event after which this is so.
    pub fn wait_until(&mut self, is_so: impl Fn(&World) -> bool) {
        let is_over = (0..STEPS_MAX)
            .any(|_| is_so(self) || !self.step() && !self.pass_time(Time::FAR_FUTURE));
        assert!(is_over && is_so(self), "it is never so");
    }

    pub fn wait(&mut self, seconds: u64) {
        let limit = self.now + Duration::from_secs(seconds);
        for _ in 0..STEPS_MAX {
            if !self.step() && !self.pass_time(limit) {
                self.now = limit;
                return;
            }
        }
        panic!("the cluster does not become quiet");
    }
}
