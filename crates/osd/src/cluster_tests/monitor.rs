//! The parts of a monitor that OSDs need: it marks them up and down and sends maps.

use bytes::Bytes;
use engine::{ConnId, Message};
use maps::{Incremental, OsdMap, OsdState, Pool, PoolType};
use std::collections::BTreeMap;
use types::features::SUPPORTED;
use types::{EntityAddrVec, Epoch, OsdId, PgId, PoolId, UTime, Uuid};
use wire::internal::StatsReport;
use wire::{
    Log, MessageBody, MonSubscribe, OsdAlive, OsdBoot, OsdFailure, OsdMapMessage, OsdPgTemp,
};

pub const POOL: PoolId = PoolId(1);
pub const PG_NUM: u32 = 4;
const PG_NUM_MAX: u32 = 32;

pub struct Monitor {
    pub map: OsdMap,
    increments: BTreeMap<Epoch, Bytes>,
    subscribers: BTreeMap<ConnId, OsdId>,
    /// The states of groups, as their primaries reported them last.
    pub reported: BTreeMap<PgId, u64>,
    /// Repaired copies as reported by each OSD, and the cluster log.
    pub repaired: BTreeMap<OsdId, BTreeMap<OsdId, u64>>,
    pub log: Vec<String>,
}

/// Places groups on OSDs in turn, each with another primary.
fn place(increment: &mut Incremental, seeds: std::ops::Range<u32>, osds: i32, size: u8) {
    for seed in seeds {
        let first = (seed + seed / PG_NUM) as i32;
        let up = (0..i32::from(size)).map(|n| OsdId((first + n) % osds)).collect();
        increment.new_pg_upmap.insert(PgId { pool: POOL, seed }, up);
    }
}

impl Monitor {
    /// A map with one pool whose groups are on all `osds`, each with another primary.
    pub fn new(osds: i32, size: u8) -> Self {
        let fsid = Uuid([7; 16]);
        let mut increment = Incremental::new(fsid, Epoch(1), UTime::ZERO);
        increment.new_max_osd = Some(osds);
        increment.new_pool_max = Some(POOL);
        let pool = Pool::new(PoolType::Replicated, size, PG_NUM, 0);
        increment.new_pools.insert(POOL, pool);
        increment.new_pool_names.insert(POOL, "pool".to_owned());
        place(&mut increment, 0..PG_NUM, osds, size);
        let mut monitor = Monitor {
            map: OsdMap::new(fsid),
            increments: BTreeMap::new(),
            subscribers: BTreeMap::new(),
            reported: BTreeMap::new(),
            repaired: BTreeMap::new(),
            log: Vec::new(),
        };
        monitor.publish(increment);
        monitor
    }

    /// Doubles the number of groups, up to a limit. New ones may be on other OSDs than their parents.
    pub fn divide_groups(&mut self) -> Vec<(ConnId, Message)> {
        let mut pool = self.map.pool(POOL).expect("there is one pool").clone();
        let pg_num = pool.pg_num * 2;
        if pg_num > PG_NUM_MAX {
            return Vec::new();
        }
        let mut increment = self.next();
        place(&mut increment, pool.pg_num..pg_num, self.map.max_osd(), pool.size);
        pool.set_pg_num(pg_num, self.map.epoch.next());
        pool.pgp_num = pg_num;
        increment.new_pools.insert(POOL, pool);
        self.publish(increment);
        self.tell_all()
    }

    /// Announces a merge of the last group, or withdraws it.
    pub fn announce_merge(&mut self, is_on: bool) -> Vec<(ConnId, Message)> {
        let mut pool = self.map.pool(POOL).expect("there is one pool").clone();
        pool.pg_num_pending = pool.pg_num - u32::from(is_on);
        let mut increment = self.next();
        increment.new_pools.insert(POOL, pool);
        self.publish(increment);
        self.tell_all()
    }

    /// Marks the pool as one whose clients take snapshots of their own.
    pub fn allow_snapshots(&mut self) -> Vec<(ConnId, Message)> {
        let mut pool = self.map.pool(POOL).expect("there is one pool").clone();
        pool.flags.insert(maps::PoolFlags::SELFMANAGED_SNAPS);
        let mut increment = self.next();
        increment.new_pools.insert(POOL, pool);
        self.publish(increment);
        self.tell_all()
    }

    pub fn move_group(&mut self, pg: PgId, osds: &[OsdId]) -> Vec<(ConnId, Message)> {
        let mut increment = self.next();
        increment.new_pg_upmap.insert(pg, osds.to_vec());
        self.publish(increment);
        self.tell_all()
    }

    pub fn set_flags(&mut self, flags: maps::OsdMapFlags) -> Vec<(ConnId, Message)> {
        let mut increment = self.next();
        increment.new_flags = Some(flags);
        self.publish(increment);
        self.tell_all()
    }

    fn next(&self) -> Incremental {
        Incremental::new(self.map.fsid, self.map.epoch.next(), UTime::ZERO)
    }

    fn publish(&mut self, mut increment: Incremental) {
        self.map = increment.seal(&self.map).expect("the change fits the map");
        self.increments.insert(self.map.epoch, increment.to_bytes(SUPPORTED));
    }

    pub fn mark_down(&mut self, osd: OsdId) -> Vec<(ConnId, Message)> {
        if !self.map.is_up(osd) {
            return Vec::new();
        }
        let mut increment = self.next();
        increment.new_state.insert(osd, OsdState::UP);
        self.publish(increment);
        self.tell_all()
    }

    fn mark_up(&mut self, osd: OsdId, addrs: &EntityAddrVec) -> Vec<(ConnId, Message)> {
        let mut increment = self.next();
        increment.mark_up(osd, addrs.clone(), addrs.clone(), addrs.clone(), addrs.clone());
        increment.new_weight.insert(osd, maps::WEIGHT_IN);
        self.publish(increment);
        self.tell_all()
    }

    fn tell_all(&self) -> Vec<(ConnId, Message)> {
        let newest = self.map.epoch;
        self.subscribers.keys().map(|conn| (*conn, self.maps_from(newest))).collect()
    }

    fn maps_from(&self, first: Epoch) -> Message {
        let increments = self.increments.range(first..);
        let mut message = OsdMapMessage {
            fsid: self.map.fsid,
            incrementals: increments.map(|(epoch, bytes)| (*epoch, bytes.clone())).collect(),
            oldest: Epoch(1),
            newest: self.map.epoch,
            ..OsdMapMessage::default()
        };
        if first.0 == 0 {
            message.incrementals.clear();
            message.full.insert(self.map.epoch, self.map.to_bytes(SUPPORTED));
        }
        message.encode(SUPPORTED)
    }

    pub fn forget(&mut self, conn: ConnId) {
        self.subscribers.remove(&conn);
    }

    pub fn handle(
        &mut self,
        conn: ConnId,
        from: OsdId,
        message: &Message,
    ) -> Vec<(ConnId, Message)> {
        match message.kind {
            MonSubscribe::KIND => {
                let subscribe = MonSubscribe::decode(message).unwrap();
                let start = subscribe.what["osdmap"].start;
                self.subscribers.insert(conn, from);
                match start > u64::from(self.map.epoch.0) {
                    true => Vec::new(),
                    false => vec![(conn, self.maps_from(Epoch(start as u32)))],
                }
            }
            OsdBoot::KIND => {
                let addrs = OsdBoot::decode(message).unwrap().cluster_addrs;
                let mut messages = Vec::new();
                if self.map.client_addrs(from) != Some(&addrs) {
                    messages.extend(self.mark_down(from));
                    messages.extend(self.mark_up(from, &addrs));
                }
                messages
            }
            OsdFailure::KIND => {
                let failure = OsdFailure::decode(message).unwrap();
                let is_current =
                    self.map.client_addrs(failure.target) == Some(&failure.target_addrs);
                match is_current && self.map.is_up(from) {
                    true => self.mark_down(failure.target),
                    false => Vec::new(),
                }
            }
            StatsReport::KIND => {
                let report = StatsReport::decode(message).unwrap();
                self.reported.extend(report.pgs.into_iter().map(|(pg, stat)| (pg, stat.state)));
                self.repaired.insert(from, report.repaired_copies);
                Vec::new()
            }
            Log::KIND => {
                let log = Log::decode(message).unwrap();
                self.log.extend(log.entries.into_iter().map(|entry| entry.text));
                Vec::new()
            }
            OsdAlive::KIND => {
                let mut increment = self.next();
                increment.new_up_thru.insert(from, self.map.epoch);
                self.publish(increment);
                self.tell_all()
            }
            OsdPgTemp::KIND => {
                let mut increment = self.next();
                increment.new_pg_temp = OsdPgTemp::decode(message).unwrap().pg_temp;
                self.publish(increment);
                self.tell_all()
            }
            _ => Vec::new(),
        }
    }
}
