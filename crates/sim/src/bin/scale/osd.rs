//! One OSD: what following the map costs it.

use super::cluster::{self, FSID, Shape, addrs, change};
use super::maps::reweight;
use super::report::{Report, bytes, resident, timed};
use bytes::Bytes;
use engine::{ConnId, Daemon, Message, Output, Peer, Time};
use maps::{Incremental, OsdMap};
use osd::{Config, Osd};
use std::collections::BTreeMap;
use store::mem::MemStore;
use store::{Completion, Request};
use types::features::SUPPORTED;
use types::{EntityAddrVec, EntityName, EntityType, OsdId, ParticipantName, PgId, PoolId};
use wire::{MessageBody, OsdMapMessage};

/// An OSD whose store does everything at once, and that is told maps by hand.
pub struct Lone {
    pub osd: Osd,
    pub now: Time,
    store: MemStore,
    monitor: Option<ConnId>,
    /// To whom each of its sessions goes.
    peers: BTreeMap<ConnId, OsdId>,
    accepted: BTreeMap<OsdId, ConnId>,
    /// What it wants sent to other OSDs.
    pub sent: Vec<(OsdId, Message)>,
}

impl Lone {
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
        };
        let mut lone = Lone {
            osd: Osd::new(config, [1; 32]),
            now: Time(1_750_000_000_000_000_000),
            store: MemStore::new(),
            monitor: None,
            peers: BTreeMap::new(),
            accepted: BTreeMap::new(),
            sent: Vec::new(),
        };
        lone.drain();
        lone
    }

    pub fn tell_map(&mut self, map: &OsdMap) {
        let mut message = OsdMapMessage { fsid: FSID, newest: map.epoch, ..Default::default() };
        message.full.insert(map.epoch, map.to_bytes(SUPPORTED));
        self.tell(message.encode(SUPPORTED));
    }

    pub fn tell_increment(&mut self, increment: &Incremental) {
        let newest = increment.epoch;
        let mut message = OsdMapMessage { fsid: FSID, newest, ..Default::default() };
        message.incrementals.insert(newest, increment.to_bytes(SUPPORTED));
        self.tell(message.encode(SUPPORTED));
    }

    fn tell(&mut self, message: Message) {
        let monitor = self.monitor.expect("an OSD connects to its monitor at once");
        self.osd.handle_message(self.now, monitor, message);
        self.drain();
    }

    pub fn hear(&mut self, from: OsdId, message: Message) {
        let conn = match self.accepted.get(&from) {
            Some(conn) => *conn,
            None => {
                let conn = ConnId(ConnId::ACCEPTED + from.0 as u64);
                self.accepted.insert(from, conn);
                self.open(conn, ParticipantName::new(EntityType::OSD, from.0.into()), addrs(from));
                conn
            }
        };
        self.osd.handle_message(self.now, conn, message);
        self.drain();
    }

    fn open(&mut self, conn: ConnId, participant: ParticipantName, addrs: EntityAddrVec) {
        let name = EntityName::new(participant.kind, participant.number.to_string());
        let seen_addr = addrs.msgr2().unwrap_or_default();
        let caps = Bytes::new();
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
                    }
                }
                Output::Close { conn } => drop(self.peers.remove(&conn)),
                Output::Auth { .. } | Output::Pause { .. } => {}
            }
        }
    }
}

/// An OSD whose rack stays, which follows the map through a rack's failure.
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
