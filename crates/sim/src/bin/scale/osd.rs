//! Cost of following the map for one OSD.

use super::cluster::{self, FSID, Shape, addrs, change};
use super::maps::reweight;
use super::report::{Report, bytes, resident, timed};
use bytes::Bytes;
use engine::{ConnId, Daemon, Message, Output, Peer, Time};
use maps::{Incremental, OsdMap};
use osd::{Config, Osd};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use store::mem::MemStore;
use store::{Completion, Request};
use types::features::SUPPORTED;
use types::{
    EntityAddrVec, EntityName, EntityType, HObject, OsdId, ParticipantName, PgId, PgShard, PoolId,
};
use wire::op::request_flags;
use wire::{MessageBody, OsdMapMessage, OsdOp, OsdRequest};

/// Upper bound for the bits of a group number.
const HASH_BITS_OF_GROUPS: u32 = 20;
/// First session id of clients; the session of another OSD has the number of that OSD.
const CLIENT: u64 = 1 << 24;
/// Few, so that state of objects does not dominate that of the group.
const OBJECTS: u32 = 4;

/// An OSD whose store completes everything at once, and that receives maps from the benchmark.
pub struct Lone {
    /// The engine.
    pub osd: Osd,
    /// Its clock.
    pub now: Time,
    store: MemStore,
    monitor: Option<ConnId>,
    has_client: bool,
    /// The OSD at the other end of each session.
    peers: BTreeMap<ConnId, OsdId>,
    accepted: BTreeMap<OsdId, ConnId>,
    /// Messages of this OSD to other OSDs, and to the monitor.
    pub sent: Vec<(OsdId, Message)>,
    /// Messages that it has sent.
    pub asked: Vec<Message>,
    /// CPU time spent on maps and messages.
    pub spent: Duration,
}

impl Lone {
    /// An OSD with an empty store.
    pub fn new(id: OsdId) -> Self {
        let config = Config {
            id,
            fsid: FSID,
            addrs: addrs(id),
            monitors: vec![EntityAddrVec::default()],
            key: None,
            uuid: types::Uuid::default(),
            auth_none: true,
            connection_modes: vec![1],
            hostname: "host".to_owned(),
            holds_shards: false,
            sizes: osd::Sizes::default(),
        };
        let mut lone = Lone {
            osd: Osd::new(config, [1; 32]),
            now: Time(1_750_000_000_000_000_000),
            store: MemStore::new(),
            monitor: None,
            has_client: false,
            peers: BTreeMap::new(),
            accepted: BTreeMap::new(),
            sent: Vec::new(),
            asked: Vec::new(),
            spent: Duration::ZERO,
        };
        lone.drain();
        lone
    }

    /// Gives it a full map.
    pub fn tell_map(&mut self, map: &OsdMap) {
        let mut message = OsdMapMessage { fsid: FSID, newest: map.epoch, ..Default::default() };
        message.full.insert(map.epoch, map.to_bytes(SUPPORTED));
        self.tell(message.encode(SUPPORTED));
    }

    /// Gives it a change of the map.
    pub fn tell_increment(&mut self, increment: &Incremental) {
        let newest = increment.epoch;
        let mut message = OsdMapMessage { fsid: FSID, newest, ..Default::default() };
        message.incrementals.insert(newest, increment.to_bytes(SUPPORTED));
        self.tell(message.encode(SUPPORTED));
    }

    fn tell(&mut self, message: Message) {
        let monitor = self.monitor.expect("an OSD connects to its monitor at once");
        self.take(monitor, message);
    }

    /// A write by a client, to one of a few objects of this group.
    pub fn write(&mut self, map: &OsdMap, pg: PgId, number: u32) {
        let client = ConnId(ConnId::ACCEPTED + CLIENT);
        if !std::mem::replace(&mut self.has_client, true) {
            let name = ParticipantName::new(EntityType::CLIENT, 1);
            self.open(client, name, EntityAddrVec::default());
        }
        // The seed of the group is the lowest bits of its objects' hashes.
        let object = number % OBJECTS;
        let hash = pg.seed | object << HASH_BITS_OF_GROUPS;
        let name = format!("rbd_data.5e1f3a.{object:016x}").into();
        let request = OsdRequest {
            pg: PgShard::replicated(PgId { seed: hash, ..pg }),
            map_epoch: map.epoch,
            flags: request_flags::WRITE,
            request_id: Default::default(),
            client_incarnation: 0,
            mtime: self.now.wall(),
            object: HObject::head(pg.pool, Bytes::new(), Bytes::new(), name, hash),
            ops: vec![OsdOp::write(0, Bytes::from_static(b"data"))],
            snap_context: Default::default(),
            retry_attempt: 0,
            features: SUPPORTED,
        };
        let tid = u64::from(pg.seed) << 32 | u64::from(number);
        self.take(client, request.encode(SUPPORTED).with_tid(tid));
    }

    fn take(&mut self, conn: ConnId, message: Message) {
        let started = Instant::now();
        self.osd.handle_message(self.now, conn, message);
        self.drain();
        self.spent += started.elapsed();
    }

    /// Advances time to `until`.
    pub fn wait(&mut self, until: Time) {
        while let Some(due) = self.osd.poll_timeout().filter(|due| *due <= until) {
            self.now = self.now.max(due);
            self.osd.handle_timeout(self.now);
            self.drain();
        }
        self.now = until;
    }

    /// A message of another OSD arrives.
    pub fn hear(&mut self, from: OsdId, message: Message) {
        let conn = match self.accepted.get(&from) {
            Some(conn) => *conn,
            None => {
                let conn = ConnId(ConnId::ACCEPTED + from.0 as u64);
                self.accepted.insert(from, conn);
                // Messages to that OSD may use the same session.
                self.peers.insert(conn, from);
                self.open(conn, ParticipantName::new(EntityType::OSD, from.0.into()), addrs(from));
                conn
            }
        };
        self.take(conn, message);
    }

    fn open(&mut self, conn: ConnId, participant: ParticipantName, addrs: EntityAddrVec) {
        let name = EntityName::new(participant.kind, participant.number.to_string());
        let seen_addr = addrs.msgr2().unwrap_or_default();
        let caps = auth::AuthCaps { allow_all: false, text: "allow *".to_owned() };
        let caps = codec::encode_to_bytes(&caps);
        let peer = Peer { participant, name, addrs, features: SUPPORTED, caps, seen_addr };
        self.osd.handle_opened(self.now, conn, peer);
    }

    fn drain(&mut self) {
        while let Some(output) = self.osd.poll_output() {
            match output {
                Output::Storage(Request { token, kind }) => {
                    let outcome = self.store.execute(kind);
                    self.osd.handle_completion(self.now, Completion { token, outcome });
                }
                Output::Connect { conn, target } => {
                    match target.participant.kind {
                        EntityType::MON => self.monitor = Some(conn),
                        _ => drop(self.peers.insert(conn, OsdId(target.participant.number as i32))),
                    }
                    self.open(conn, target.participant, target.addrs);
                }
                Output::Send { conn, message } => {
                    if let Some(peer) = self.peers.get(&conn) {
                        self.sent.push((*peer, message));
                    } else if self.monitor == Some(conn) {
                        self.asked.push(message);
                    }
                }
                Output::Close { conn } => drop(self.peers.remove(&conn)),
                Output::Auth { .. } | Output::Pause { .. } => {}
            }
        }
    }
}

/// Measures an OSD outside of the failing rack, which follows the map through the failure.
pub fn measure(map: &OsdMap, shape: Shape, report: &mut Report) {
    report.section("One OSD, told of new maps");
    let own = OsdId(shape.osds as i32 - 1);
    let before = resident();
    let mut lone = Lone::new(own);
    let (_, took) = timed(|| lone.tell_map(map));
    report.time("the first map (decode, table, groups begin)", took);
    report.line("groups it has", lone.osd.groups().count());
    report.line("memory with map, table and groups", bytes(resident() - before));
    said(&mut lone, "the first map", report);
    let mut map = map.clone();
    let mut step = |what: &str, increment: Incremental, map: &mut OsdMap| {
        map.apply(&increment).expect("it fits");
        let (_, took) = timed(|| lone.tell_increment(&increment));
        report.time(what, took);
        said(&mut lone, what, report);
    };
    let increment = change(&map, |inc| {
        inc.new_up_thru.insert(OsdId(1), map.epoch);
    })
    .0;
    step("an epoch that concerns nobody", increment, &mut map);
    let increment = cluster::rack_goes_down(&map, shape).0;
    step("a rack goes down", increment, &mut map);
    let increment = cluster::rack_goes_out(&map, shape).0;
    step("a rack goes out", increment, &mut map);
    let increment = upmaps(&map, 30_000);
    step("30,000 upmaps", increment, &mut map);
    let increment = change(&map, |inc| {
        inc.new_up_thru.insert(OsdId(1), map.epoch);
    })
    .0;
    step("an epoch that concerns nobody, with these upmaps", increment, &mut map);
    let increment = reweight(&map);
    step("one OSD's CRUSH weight changes", increment, &mut map);
}

fn said(lone: &mut Lone, what: &str, report: &mut Report) {
    let sent = std::mem::take(&mut lone.sent);
    let size: usize = sent.iter().map(|(_, message)| message.len()).sum();
    report.line(
        format!("{what}: messages to other OSDs"),
        format!("{}, {}", sent.len(), bytes(size)),
    );
}

fn upmaps(map: &OsdMap, count: u32) -> Incremental {
    let max = map.max_osd();
    change(map, |increment| {
        for seed in 0..count.min(map.pool(PoolId(1)).map_or(0, |pool| pool.pg_num)) {
            let pg = PgId { pool: PoolId(1), seed };
            let (from, to) = (OsdId(seed as i32 % max), OsdId((seed as i32 + 500) % max));
            increment.new_pg_upmap_items.insert(pg, vec![(from, to)]);
        }
    })
    .0
}
