//! The cluster, its links and its time.

use super::monitor::{Monitor, POOL};
use super::ordering::Order;
use crate::{Config, Osd};
use bytes::Bytes;
use engine::{ConnId, Daemon, Message, Output, Peer, Time};
use pg::is_meta_object;
use pg::scrub::STAMPS_KEY;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use stdx::Prng;
use store::crash::{CrashOptions, CrashStore};
use store::mem::MemObject;
use store::{Collection, ObjectStore};
use types::features::SUPPORTED;
use types::{
    EntityAddr, EntityAddrVec, EntityName, EntityType, Epoch, Errno, HObject, OsdId,
    ParticipantName, PgId, SnapId,
};
use wire::SnapContext;
use wire::internal::ScrubOrder;
use wire::op::{OpCode, request_flags};
use wire::osd_op::CopyFromArguments;
use wire::watch::WatchNotify;
use wire::{
    Command, CommandReply, MessageBody, ObjectLocator, OsdOp, OsdReply, OsdRequest, ShardPgId,
    copy::CopySource, listing::PgListing,
};

const OSDS: i32 = 3;
const SIZE: u8 = 3;
/// More steps than any test needs to become quiet.
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
    /// Messages on their way, by sender.
    queues: BTreeMap<End, VecDeque<Message>>,
    accepted: u64,
    /// The client's sessions; a number is not used again.
    sessions: BTreeMap<OsdId, ConnId>,
    pub replies: Vec<(u64, OsdReply)>,
    /// To commands.
    pub answers: Vec<CommandReply>,
    /// In which order the client asked and was told.
    order: Order,
    events: Vec<WatchNotify>,
    tids: u64,
    /// What writes know of snapshots.
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

    /// A cluster whose pool keeps so many copies.
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
            auth_none: false,
            connection_modes: vec![1, 2],
            hostname: "host".to_owned(),
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

    /// The monitor believes wrongly that an OSD failed, which boots again at once.
    pub fn mark_down_wrongly(&mut self, osd: OsdId) {
        let messages = self.monitor.mark_down(osd);
        self.send_all(Node::Monitor, messages);
        self.drain();
    }

    pub fn lose_heartbeat(&mut self, watcher: OsdId, watched: OsdId) {
        let now = self.now;
        let osd = self.machine(watcher).osd.as_mut().expect("it runs");
        osd.heartbeats.lose_question(now, watched);
    }

    /// For how long one OSD has owed another an answer.
    pub fn silence(&self, watcher: OsdId, watched: OsdId) -> Duration {
        let osd = self.machines[watcher.0 as usize].osd.as_ref().expect("it runs");
        osd.heartbeats.silence(self.now, watched)
    }

    /// Breaks a link; the other end is told.
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
                    // A replica that does not answer says so at once.
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

    /// One thing that could happen now happens; false if time must pass first.
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

    /// Goes on to the next time at which something happens; at most to `limit`.
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

    /// So many things happen.
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

    /// An administrator wants more groups, now and then.
    pub fn divide_groups_sometimes(&mut self) {
        if self.prng.chance(1, 100) {
            self.divide_groups();
        }
    }

    pub fn divide_groups(&mut self) {
        let messages = self.monitor.divide_groups();
        self.send_all(Node::Monitor, messages);
        self.drain();
    }

    pub fn set_flags(&mut self, flags: maps::OsdMapFlags) {
        let messages = self.monitor.set_flags(flags);
        self.send_all(Node::Monitor, messages);
        self.drain();
    }

    pub fn heal(&mut self) {
        self.machines.iter_mut().for_each(|machine| machine.store.stop_refusing());
        (0..OSDS).for_each(|id| self.restart(OsdId(id)));
        self.settle();
    }

    /// Lets everything happen that happens within a second.
    pub fn settle(&mut self) {
        self.wait(1);
    }

    /// Stops at the very moment at which this is so.
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

    pub fn next_tid(&mut self) -> u64 {
        self.tids += 1;
        self.tids
    }

    pub fn object(&self, name: &str) -> (PgId, HObject) {
        let (pg, hash) = self.monitor.map.object_to_pg(POOL, b"", b"", name.as_bytes()).unwrap();
        let name = Bytes::copy_from_slice(name.as_bytes());
        (pg, HObject::head(POOL, Bytes::new(), Bytes::new(), name, hash))
    }

    pub fn primary_of(&self, name: &str) -> OsdId {
        let (pg, _) = self.object(name);
        self.monitor.map.pg_to_osds(pg).acting_primary.expect("the cluster is healthy")
    }

    pub fn replicas_of(&self, name: &str) -> Vec<OsdId> {
        let (pg, _) = self.object(name);
        self.monitor.map.pg_to_osds(pg).acting[1..].to_vec()
    }

    /// Another object of the same group.
    pub fn neighbour_of(&self, name: &str) -> String {
        let mut names = (0..).map(|number| format!("neighbour{number}"));
        names.find(|other| self.object(other).0 == self.object(name).0).expect("there is one")
    }

    /// A primary lends a replica what it holds, as one that has seen so many more maps, or fewer, and with an
    /// echo of a promise that was made at another time.
    pub fn lend(&mut self, from: OsdId, to: OsdId, ahead: i32, in_the_future: Duration) {
        let (now, epoch) = (self.now, self.monitor.map.epoch.0.saturating_add_signed(ahead));
        let epoch = Epoch(epoch);
        let mut w = codec::Writer::new();
        w.value(&epoch);
        w.u64(now.0);
        w.u64((now + in_the_future).0);
        w.u64(Duration::from_millis(500).as_nanos() as u64);
        let message = Message::new(crate::leases::ASK, 1, 1, w.into_bytes());
        let osd = self.machine(to).osd.as_mut().expect("it runs");
        osd.take_lease_message(now, from, &message).unwrap();
        self.drain();
    }

    /// All replicas answer what an object's primary asked them at another time. Whether it may then answer
    /// reads that come later.
    pub fn promise(&mut self, name: &str, in_the_future: Duration, later: Duration) -> bool {
        let (now, epoch, pg) = (self.now, self.monitor.map.epoch, self.object(name).0);
        let (asked_at, later) = (now + in_the_future, now + later);
        let (primary, replicas) = (self.primary_of(name), self.replicas_of(name));
        let osd = self.machine(primary).osd.as_mut().expect("it runs");
        for replica in replicas {
            let front = codec::encode_to_bytes(&(epoch, asked_at.0, now.0));
            let message = Message::new(crate::leases::PROMISE, 1, 1, front);
            osd.take_lease_message(now, replica, &message).unwrap();
        }
        osd.may_read(later, pg)
    }

    /// Sends a request if its target runs.
    pub fn send(&mut self, to: Option<OsdId>, name: &str, ops: Vec<OsdOp>, flags: u32, tid: u64) {
        let (pg, object) = self.object(name);
        let to = to.or(self.monitor.map.pg_to_osds(pg).acting_primary);
        let Some(to) = to.filter(|to| self.is_running(*to)) else { return };
        self.send_request(to, pg, object, ops, flags, tid);
    }

    fn session(&mut self, to: OsdId) -> ConnId {
        if let Some(conn) = self.sessions.get(&to) {
            return *conn;
        }
        self.accepted += 1;
        let conn = ConnId(self.accepted);
        self.sessions.insert(to, conn);
        self.connect((Node::Client, conn), Node::Osd(to));
        conn
    }

    /// A command to the primary of an object's group; its answer comes among `answers`.
    pub fn command(&mut self, name: &str, prefix: &str, mode: &str) {
        let (pg, _) = self.object(name);
        let to = self.primary_of(name);
        let conn = self.session(to);
        let text = format!(r#"{{"prefix": "{prefix}", "pgid": "{pg}", "mulcmd": "{mode}"}}"#);
        let fsid = self.monitor.map.fsid;
        let command = Command { fsid, command: vec![text], input: Bytes::new() };
        self.send_all(Node::Client, vec![(conn, command.encode(SUPPORTED))]);
        self.drain();
    }

    fn send_request(
        &mut self,
        to: OsdId,
        pg: PgId,
        object: HObject,
        ops: Vec<OsdOp>,
        flags: u32,
        tid: u64,
    ) {
        let conn = self.session(to);
        let request = OsdRequest {
            pg: ShardPgId::replicated(pg),
            map_epoch: self.monitor.map.epoch,
            flags,
            request_id: Default::default(),
            client_incarnation: 0,
            mtime: self.now.wall(),
            object,
            ops,
            snap_context: self.snap_context.clone(),
            retry_attempt: 0,
            features: SUPPORTED,
        };
        self.order.sent(conn, &request.object, tid);
        let message = request.encode(SUPPORTED).with_tid(tid);
        self.send_all(Node::Client, vec![(conn, message)]);
        self.drain();
    }

    pub fn call(&mut self, name: &str, ops: Vec<OsdOp>) -> OsdReply {
        let tid = self.next_tid();
        self.call_with_tid(name, ops, tid)
    }

    pub fn call_with_tid(&mut self, name: &str, ops: Vec<OsdOp>, tid: u64) -> OsdReply {
        self.send(None, name, ops, request_flags::READ | request_flags::WRITE, tid);
        self.await_reply(tid)
    }

    pub fn call_at(&mut self, osd: OsdId, name: &str, ops: Vec<OsdOp>, flags: u32) -> OsdReply {
        let tid = self.next_tid();
        self.send(Some(osd), name, ops, flags, tid);
        self.await_reply(tid)
    }

    pub fn await_reply(&mut self, tid: u64) -> OsdReply {
        for _ in 0..STEPS_MAX {
            if let Some(at) = self.replies.iter().position(|(known, _)| *known == tid) {
                return self.replies.remove(at).1;
            }
            if !self.step() {
                assert!(self.pass_time(Time::FAR_FUTURE), "no reply to {tid} comes");
            }
        }
        panic!("no reply to {tid} comes");
    }

    pub fn copy_from(&self, source: &str) -> OsdOp {
        let source = CopySource {
            object: Bytes::copy_from_slice(source.as_bytes()),
            locator: ObjectLocator::pool(POOL),
            truncate: None,
        };
        let arguments = CopyFromArguments { snap: types::SnapId::HEAD, ..Default::default() };
        OsdOp::copy_from(arguments, &source)
    }

    /// The names of all objects, as a client lists them.
    pub fn list_all(&mut self, page: u64) -> Vec<Bytes> {
        let mut names = Vec::new();
        for pg in self.monitor.map.pgs(POOL).collect::<Vec<_>>() {
            let mut cursor = HObject::default();
            loop {
                let tid = self.next_tid();
                let to = self.monitor.map.pg_to_osds(pg).acting_primary.unwrap();
                let object =
                    HObject { snap: types::SnapId::HEAD, ..HObject::hash_start(POOL, pg.seed) };
                let op = OsdOp::list(page, 0, &cursor);
                assert_eq!(op.code, OpCode::PGNLS);
                self.send_request(to, pg, object, vec![op], request_flags::PGOP, tid);
                let reply = self.await_reply(tid);
                assert!(reply.result >= 0, "{}", reply.result);
                let listing: PgListing =
                    codec::decode_all("listing", &reply.ops[0].output).unwrap();
                names.extend(listing.entries.into_iter().map(|entry| entry.name));
                if reply.result == 1 {
                    break;
                }
                cursor = listing.handle;
            }
        }
        names
    }

    /// The configuration database has this and nothing else.
    pub fn set_option(&mut self, name: &str, value: &str) {
        let options = BTreeMap::from([(name.to_owned(), value.to_owned())]);
        for machine in &mut self.machines {
            if let Some(osd) = &mut machine.osd {
                osd.take_config(self.now, &wire::Config { options: options.clone() });
            }
        }
    }

    /// An administrator wants all groups scrubbed.
    pub fn order_scrub(&mut self, level: pg::scrub::Level, repair: bool) {
        let (now, deep) = (self.now, level == pg::scrub::Level::Deep);
        let order = ScrubOrder { fsid: self.monitor.map.fsid, pgs: Vec::new(), deep, repair };
        for machine in &mut self.machines {
            if let Some(osd) = &mut machine.osd {
                osd.take_scrub_order(now, &order);
            }
        }
        self.drain();
    }

    /// A group is scrubbed as the schedule has it, without an order.
    pub fn begin_scrub(&mut self, name: &str, level: pg::scrub::Level) {
        let ((pg, _), primary, now) = (self.object(name), self.primary_of(name), self.now);
        let osd = self.machine(primary).osd.as_mut().expect("it runs");
        osd.begin_scrub(now, pg, level, None);
        self.drain();
    }

    /// What the primary of an object's group remembers of scrubs.
    pub fn stamps_of(&self, name: &str) -> pg::scrub::Stamps {
        let ((pg, _), primary) = (self.object(name), self.primary_of(name));
        let osd = self.machines[primary.0 as usize].osd.as_ref().expect("it runs");
        osd.groups[&pg].scrub.stamps.unwrap_or_default()
    }

    /// What the disk of an OSD has for certain of them.
    pub fn stored_stamps(&self, name: &str, osd: OsdId) -> pg::scrub::Stamps {
        let (pg, _) = self.object(name);
        let store = self.machines[osd.0 as usize].store.durable();
        let mut objects = store.objects(Collection(pg));
        let meta = objects.find(|(object, _)| **object == pg::meta_object(pg));
        let stored = meta.and_then(|(_, meta)| meta.omap.get(&STAMPS_KEY));
        stored.map(|stored| codec::decode_all("stamps", stored).unwrap()).unwrap_or_default()
    }

    /// The disk of an OSD has other stamps than it was told last.
    pub fn tamper_stamps(&mut self, name: &str, osd: OsdId, stamps: pg::scrub::Stamps) {
        let object = pg::meta_object(self.object(name).0);
        let pairs = BTreeMap::from([(STAMPS_KEY, codec::encode_to_bytes(&stamps))]);
        self.tamper(name, osd, |_| store::Change::OmapSet { object, pairs });
    }

    /// An object's group is to be on these OSDs.
    pub fn move_group(&mut self, name: &str, osds: &[OsdId]) {
        let (pg, _) = self.object(name);
        let messages = self.monitor.move_group(pg, osds);
        self.send_all(Node::Monitor, messages);
        self.drain();
    }

    /// The last group is going to be merged, or is not any more.
    pub fn announce_merge(&mut self, is_on: bool) {
        let messages = self.monitor.announce_merge(is_on);
        self.send_all(Node::Monitor, messages);
        self.drain();
    }

    /// An object of a group that is going to be merged.
    pub fn object_that_merges(&self) -> String {
        let pool = self.monitor.map.pool(POOL).expect("there is one pool");
        let names = (0..).map(|number| format!("object{number}"));
        let mut names = names.filter(|name| pool.is_merging(self.object(name).0.seed));
        names.next().expect("there is always one more")
    }

    /// Whether the object's group has said that it rests.
    pub fn has_reported_rest(&self, name: &str) -> bool {
        let states = self.monitor.reported.get(&self.object(name).0);
        states.is_some_and(|states| states & wire::internal::pg_state::PREMERGE != 0)
    }

    /// What each copy remembers of scrubs.
    pub fn scrub_stamps(&self) -> Vec<pg::scrub::Stamps> {
        let osds = self.machines.iter().filter_map(|machine| machine.osd.as_ref());
        osds.flat_map(|osd| osd.groups.values().filter_map(|group| group.scrub.stamps)).collect()
    }

    /// What primaries remember of scrubs.
    pub fn primary_stamps(&self) -> Vec<pg::scrub::Stamps> {
        let osds = self.machines.iter().filter_map(|machine| machine.osd.as_ref());
        let groups = osds.flat_map(|osd| osd.groups.values().filter(|group| group.pg.is_primary()));
        groups.map(|group| group.scrub.stamps.unwrap_or_default()).collect()
    }

    /// Groups of which some copy knows of an order that was not carried out.
    pub fn scrub_orders(&self) -> usize {
        let osds = self.machines.iter().filter_map(|machine| machine.osd.as_ref());
        let groups = osds.flat_map(|osd| osd.groups());
        groups.filter(|pg| pg.scrub_order().is_some()).count()
    }

    /// Errors that were found and not repaired.
    pub fn scrub_errors(&self) -> u64 {
        let osds = self.machines.iter().filter_map(|machine| machine.osd.as_ref());
        let groups = osds.flat_map(|osd| osd.groups.values().filter(|group| group.pg.is_primary()));
        groups.map(|group| group.scrub.stamps.map_or(0, |stamps| stamps.errors.total())).sum()
    }

    /// Asks for an object as it was at a snapshot.
    pub fn read_at(&mut self, name: &str, snap: SnapId) -> u64 {
        let (pg, object) = self.object(name);
        let (tid, to) = (self.next_tid(), self.primary_of(name));
        let ops = vec![OsdOp::read(0, 0)];
        self.send_request(to, pg, object.at(snap), ops, request_flags::READ, tid);
        tid
    }

    /// The medium loses a clone.
    pub fn damage_clone(&mut self, osd: OsdId, name: &str, snap: SnapId) {
        let (pg, object) = self.object(name);
        self.machine(osd).store.damage(Collection(pg), &object.at(snap));
    }

    /// The next read of its store fails, once.
    pub fn fail_read(&mut self, osd: OsdId) {
        self.machine(osd).store.fail_read(0);
    }

    pub fn damage(&mut self, osd: OsdId, name: &str) {
        let (pg, object) = self.object(name);
        self.machine(osd).store.damage(Collection(pg), &object);
    }

    pub fn mend(&mut self, osd: OsdId, name: &str) {
        let (pg, object) = self.object(name);
        self.machine(osd).store.undo_damage(Collection(pg), &object);
    }

    pub fn is_damaged(&self) -> bool {
        self.machines.iter().any(|machine| machine.store.is_damaged())
    }

    /// Something changes an object behind everybody's back.
    pub fn tamper(
        &mut self,
        name: &str,
        osd: OsdId,
        change: impl FnOnce(HObject) -> store::Change,
    ) {
        let (pg, object) = self.object(name);
        let changes = vec![(Collection(pg), change(object))];
        self.machine(osd).store.tamper(&store::Transaction { changes });
    }

    pub fn take_events(&mut self) -> Vec<WatchNotify> {
        self.settle_briefly();
        std::mem::take(&mut self.events)
    }

    /// Delivers what is on its way, without letting timers run.
    fn settle_briefly(&mut self) {
        while self.step() {}
    }

    /// Waits for peace and checks that all groups are whole and all copies equal.
    pub fn finish(&mut self) {
        for _ in 0..30 {
            self.settle();
            if self.is_clean() {
                return self.assert_equal();
            }
        }
        panic!("not all groups become clean: {:?}", self.states());
    }

    pub fn states(&self) -> Vec<(OsdId, PgId, pg::State)> {
        let osds = self.machines.iter().filter_map(|machine| machine.osd.as_ref());
        osds.flat_map(|osd| osd.groups().map(|pg| (osd.id(), pg.id(), pg.state()))).collect()
    }

    /// Whether a copy that the log does not reach is being filled in.
    pub fn is_filling_in(&self) -> bool {
        let osds = self.machines.iter().filter_map(|machine| machine.osd.as_ref());
        osds.flat_map(|osd| osd.groups())
            .any(|pg| pg.backfill_state() == Some(pg::BackfillState::Running))
    }

    fn is_clean(&self) -> bool {
        let osds = || self.machines.iter().filter_map(|machine| machine.osd.as_ref());
        let clean = osds().flat_map(|osd| osd.groups().filter(|pg| pg.is_clean())).count();
        clean == self.monitor.map.pgs(POOL).count()
    }

    fn assert_equal(&self) {
        for pg in self.monitor.map.pgs(POOL) {
            let content = |machine: &Machine| {
                let objects = machine.store.durable().objects(Collection(pg));
                let objects = objects.filter(|(name, _)| !is_meta_object(name));
                objects.map(|(name, object)| (name.clone(), object.clone())).collect::<Vec<_>>()
            };
            let acting = self.monitor.map.pg_to_osds(pg).acting;
            let machines = acting.iter().map(|osd| &self.machines[osd.0 as usize]);
            let contents: Vec<_> = machines.map(content).collect();
            for pair in contents.windows(2) {
                let (ours, theirs) = (&pair[0], &pair[1]);
                let names = |content: &Vec<(HObject, _)>| {
                    content.iter().map(|(name, _)| name.to_string()).collect::<Vec<_>>()
                };
                assert_eq!(names(ours), names(theirs), "objects of {pg}");
                for ((name, ours), (_, theirs)) in ours.iter().zip(theirs) {
                    assert_eq!(ours.attrs, theirs.attrs, "attributes of {name} in {pg}");
                    let data = |object: &MemObject| object.read(0, u64::MAX).data;
                    assert_eq!(data(ours), data(theirs), "data of {name} in {pg}");
                    assert_eq!(ours.omap, theirs.omap, "omap of {name} in {pg}");
                }
            }
        }
    }
}
