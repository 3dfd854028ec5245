//! A client that appends numbered records to objects, several at a time, and keeps track of those
//! that were acknowledged, and those refused for lack of space.

use super::world::World;
use bytes::Bytes;
use std::collections::BTreeMap;
use stdx::Prng;
use types::{Epoch, Errno};
use wire::OsdOp;
use wire::op::request_flags;

const OBJECTS: u64 = 6;
const OUTSTANDING_MAX: usize = 12;
const RECORD_LEN: usize = 8;

pub fn payload(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

struct Append {
    object: String,
    record: u64,
}

pub struct Client {
    prng: Prng,
    outstanding: BTreeMap<u64, Append>,
    /// Per object, records in the order in which they were sent.
    sent: BTreeMap<String, Vec<u64>>,
    acknowledged: BTreeMap<String, Vec<u64>>,
    records: u64,
    epoch: Epoch,
    may_be_refused: bool,
}

impl Client {
    pub fn new(seed: u64, may_be_refused: bool) -> Self {
        Client {
            prng: Prng::new(seed ^ 0xc11e_u64),
            outstanding: BTreeMap::new(),
            sent: BTreeMap::new(),
            acknowledged: BTreeMap::new(),
            records: 0,
            epoch: Epoch(0),
            may_be_refused,
        }
    }

    /// Handles replies, resends after a new map, and now and then appends a new record.
    pub fn act(&mut self, world: &mut World) {
        for (tid, reply) in std::mem::take(&mut world.replies) {
            let Some(append) = self.outstanding.remove(&tid) else { continue };
            self.answered(append, reply.result);
        }
        if world.monitor.map.epoch != self.epoch {
            self.epoch = world.monitor.map.epoch;
            self.resend(world);
        }
        if self.outstanding.len() < OUTSTANDING_MAX && self.prng.chance(1, 3) {
            self.append(world);
        }
        if self.prng.chance(1, 30) {
            self.repeat(world);
        }
    }

    fn append(&mut self, world: &mut World) {
        let object = format!("object{}", self.prng.below(OBJECTS));
        self.records += 1;
        let record = self.records;
        let tid = world.next_tid();
        self.sent.entry(object.clone()).or_default().push(record);
        self.outstanding.insert(tid, Append { object: object.clone(), record });
        send(world, &object, record, tid);
    }

    /// Resends a request in flight over the same session.
    fn repeat(&mut self, world: &mut World) {
        let count = self.outstanding.len() as u64;
        if count == 0 {
            return;
        }
        let choice = self.prng.below(count) as usize;
        let (tid, append) = self.outstanding.iter().nth(choice).expect("it is one of them");
        send(world, &append.object, append.record, *tid);
    }

    fn resend(&mut self, world: &mut World) {
        for (tid, append) in &self.outstanding {
            send(world, &append.object, append.record, *tid);
        }
    }

    /// Waits until all requests are answered.
    pub fn finish(&mut self, world: &mut World) {
        for _ in 0..30 {
            world.settle();
            self.act_quietly(world);
            if self.outstanding.is_empty() {
                return;
            }
            self.resend(world);
        }
        let states = world.states();
        panic!("{states:?}: {} appends are never answered", self.outstanding.len());
    }

    fn act_quietly(&mut self, world: &mut World) {
        for (tid, reply) in std::mem::take(&mut world.replies) {
            let Some(append) = self.outstanding.remove(&tid) else { continue };
            self.answered(append, reply.result);
        }
    }

    fn answered(&mut self, Append { object, record }: Append, result: i32) {
        if self.may_be_refused && result == Errno::NOSPC.negative() {
            let sent = self.sent.get_mut(&object).expect("it was sent");
            return sent.retain(|other| *other != record);
        }
        assert_eq!(result, 0, "appending {record} to {object}");
        self.acknowledged.entry(object).or_default().push(record);
    }

    /// Checks that every record that was not refused is there exactly once, in order of sending.
    pub fn check(&self, world: &mut World) {
        for (object, sent) in &self.sent {
            let reply = world.call(object, vec![OsdOp::read(0, 0)]);
            let records = reply.ops[0].output.chunks_exact(RECORD_LEN);
            let records: Vec<u64> =
                records.map(|bytes| u64::from_le_bytes(bytes.try_into().unwrap())).collect();
            assert_eq!(&records, sent, "of {object}");
            let acknowledged = self.acknowledged.get(object).map_or(0, Vec::len);
            assert_eq!(acknowledged, sent.len(), "of {object}");
        }
    }
}

fn send(world: &mut World, object: &str, record: u64, tid: u64) {
    let data = Bytes::copy_from_slice(&record.to_le_bytes());
    world.send(None, object, vec![OsdOp::append(data)], request_flags::WRITE, tid);
}
