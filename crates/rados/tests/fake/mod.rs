//! A cluster of one monitor and a few OSDs in memory, at the level of messages, and a world that joins it
//! with a client in virtual time.

mod osd;

use bytes::Bytes;
use engine::{ConnId, ConnectTarget, Daemon, Duration, Message, Output, Peer, Time};
use maps::{Incremental, MonInfo, MonMap, OsdMap, Pool, PoolType, WEIGHT_IN};
use osd::FakeOsd;
use rados::{Client, Completion, Config, Credentials, OpId, Reply};
use std::collections::BTreeMap;
use types::features::SUPPORTED;
use types::{EntityAddrVec, EntityName, EntityType, Epoch, Errno, OsdId, PgId, PoolId, Uuid};
use wire::*;

pub const POOL: PoolId = PoolId(1);
pub const OSDS: i32 = 3;
const FSID: Uuid = Uuid([7; 16]);

pub struct World {
    pub now: Time,
    pub client: Client,
    pub map: OsdMap,
    increments: BTreeMap<Epoch, Bytes>,
    pub osds: Vec<FakeOsd>,
    sessions: BTreeMap<ConnId, ConnectTarget>,
    pub completions: BTreeMap<OpId, Result<Reply, Errno>>,
    pub connects: usize,
}

pub fn addrs(port: u16) -> EntityAddrVec {
    EntityAddrVec::one(format!("v2:127.0.0.1:{port}/1").parse().unwrap())
}

impl World {
    pub fn new(pg_num: u32) -> Self {
        Self::with_timeout(pg_num, None)
    }

    pub fn with_timeout(pg_num: u32, timeout: Option<Duration>) -> Self {
        let name = EntityName::client("test");
        let mut config = Config::new(name, Credentials::None, vec![addrs(3300)]);
        config.timeout = timeout;
        let mut world = World {
            now: Time(1_000_000_000),
            client: Client::new(config, auth::Entropy::from_seed([1; 32])),
            map: OsdMap::new(FSID),
            increments: BTreeMap::new(),
            osds: (0..OSDS).map(|_| FakeOsd::default()).collect(),
            sessions: BTreeMap::new(),
            completions: BTreeMap::new(),
            connects: 0,
        };
        world.change_map(|map| {
            map.new_max_osd = Some(OSDS);
            for id in 0..OSDS {
                let port = 6800 + id as u16;
                map.mark_up(OsdId(id), addrs(port), addrs(port), addrs(port), addrs(port));
                map.new_weight.insert(OsdId(id), WEIGHT_IN);
            }
            map.new_pool_max = Some(POOL);
            map.new_pools.insert(POOL, Pool::new(PoolType::Replicated, 1, pg_num, 0));
            map.new_pool_names.insert(POOL, "data".to_owned());
        });
        world.place(pg_num, |seed| OsdId(seed as i32 % OSDS));
        world.client.start(world.now);
        world
    }

    /// Puts each placement group on one OSD.
    pub fn place(&mut self, pg_num: u32, osd: impl Fn(u32) -> OsdId) {
        self.change_map(|map| {
            for seed in 0..pg_num {
                map.new_pg_upmap.insert(PgId { pool: POOL, seed }, vec![osd(seed)]);
            }
        });
    }

    /// Publishes the next epoch to the client, if it has a session with the monitor.
    pub fn change_map(&mut self, change: impl FnOnce(&mut Incremental)) {
        let epoch = self.map.epoch.next();
        let mut increment = Incremental::new(FSID, epoch, self.now.wall());
        change(&mut increment);
        self.map = increment.seal(&self.map).unwrap();
        self.increments.insert(epoch, increment.to_bytes(SUPPORTED));
        let monitor = self.monitor_conn();
        if let Some(conn) = monitor {
            let message = self.maps_from(epoch.0.into());
            self.client.handle_message(self.now, conn, message);
        }
    }

    fn monitor_conn(&self) -> Option<ConnId> {
        let is_monitor = |target: &ConnectTarget| target.participant.kind == EntityType::MON;
        self.sessions.iter().find(|(_, target)| is_monitor(target)).map(|(conn, _)| *conn)
    }

    fn maps_from(&self, start: u64) -> Message {
        let start = Epoch(start as u32);
        let mut maps = OsdMapMessage { fsid: FSID, newest: self.map.epoch, ..Default::default() };
        if start.0 == 0 {
            maps.full.insert(self.map.epoch, self.map.to_bytes(SUPPORTED));
        } else {
            maps.incrementals =
                self.increments.range(start..).map(|(epoch, map)| (*epoch, map.clone())).collect();
        }
        maps.encode(SUPPORTED)
    }

    /// Runs until no event is pending, without waiting for timers.
    pub fn settle(&mut self) {
        while let Some(output) = self.client.poll_output() {
            match output {
                Output::Connect { conn, target } => self.connect(conn, target),
                Output::Send { conn, message } => self.receive(conn, message),
                Output::Close { conn } => {
                    self.sessions.remove(&conn);
                }
                other => panic!("unexpected {other:?}"),
            }
        }
        while let Some((id, outcome)) = self.client.poll_completion() {
            self.completions.insert(id, outcome);
        }
        self.client.check_invariants();
    }

    /// Settles, and fires timers up to the deadline.
    pub fn run_for(&mut self, duration: Duration) {
        let end = self.now + duration;
        self.settle();
        while let Some(at) = self.client.poll_timeout().filter(|at| *at <= end) {
            self.now = at.max(self.now);
            self.client.handle_timeout(self.now);
            self.settle();
        }
        self.now = end;
    }

    pub fn outcome(&mut self, id: OpId) -> Completion {
        self.run_for(Duration::from_secs(20));
        (id, self.completions.remove(&id).unwrap_or_else(|| panic!("{id:?} is not complete")))
    }

    fn connect(&mut self, conn: ConnId, target: ConnectTarget) {
        self.connects += 1;
        let is_up = match target.participant.kind {
            EntityType::MON => true,
            _ => !self.osds[target.participant.number as usize].is_unreachable,
        };
        if !is_up {
            return self.client.handle_closed(self.now, conn);
        }
        let peer = Peer {
            participant: target.participant,
            name: EntityName::default(),
            addrs: target.addrs.clone(),
            features: SUPPORTED,
            caps: Bytes::new(),
            seen_addr: types::EntityAddr::default(),
        };
        self.sessions.insert(conn, target);
        self.client.handle_opened(self.now, conn, peer);
    }

    /// Ends all sessions with an OSD.
    pub fn cut(&mut self, osd: i32) {
        let cut = |target: &ConnectTarget| {
            target.participant.kind == EntityType::OSD
                && target.participant.number == i64::from(osd)
        };
        let conns: Vec<ConnId> =
            self.sessions.iter().filter(|(_, t)| cut(t)).map(|(conn, _)| *conn).collect();
        for conn in conns {
            self.sessions.remove(&conn);
            self.osds[osd as usize].forget(conn);
            self.client.handle_closed(self.now, conn);
        }
    }

    pub fn deliver(&mut self, replies: Vec<(ConnId, Message)>) {
        for (conn, message) in replies {
            if self.sessions.contains_key(&conn) {
                self.client.handle_message(self.now, conn, message);
            }
        }
    }

    fn receive(&mut self, conn: ConnId, message: Message) {
        let Some(target) = self.sessions.get(&conn) else { return };
        let replies = match target.participant.kind {
            EntityType::MON => self.monitor(&message).into_iter().map(|m| (conn, m)).collect(),
            _ => {
                let osd = target.participant.number as usize;
                self.osds[osd].receive(conn, &message, &self.map)
            }
        };
        self.deliver(replies);
    }

    fn monitor(&self, message: &Message) -> Vec<Message> {
        match message.kind {
            MonSubscribe::KIND => {
                let subscribe = MonSubscribe::decode(message).unwrap();
                let info = MonInfo {
                    name: "a".to_owned(),
                    public_addrs: addrs(3300),
                    ..MonInfo::default()
                };
                let map = MonMap::new(FSID, self.now.wall(), vec![info]);
                let monmap = MonMapMessage { map: codec::encode_to_bytes(&map) };
                vec![monmap.encode(SUPPORTED), self.maps_from(subscribe.what["osdmap"].start)]
            }
            MonGetVersion::KIND => {
                let question = MonGetVersion::decode(message).unwrap();
                let version = self.map.epoch.0.into();
                let handle = question.handle;
                vec![MonGetVersionReply { handle, version, oldest_version: 1 }.encode(SUPPORTED)]
            }
            MonCommand::KIND => {
                let command = MonCommand::decode(message).unwrap();
                assert_eq!(command.fsid, FSID);
                let output = command.input.clone();
                let text = command.command.concat();
                let ack = MonCommandAck { output, text, ..Default::default() };
                vec![ack.encode(SUPPORTED).with_tid(message.tid)]
            }
            kind => panic!("unexpected message {kind}"),
        }
    }
}
