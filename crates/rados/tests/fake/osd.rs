//! An OSD that keeps whole objects in memory and executes each request once.

use bytes::Bytes;
use engine::{ConnId, Message};
use maps::OsdMap;
use std::collections::{BTreeMap, BTreeSet};
use types::features::SUPPORTED;
use types::{Errno, HObject};
use wire::listing::{ListedObject, PgListing};
use wire::op::{OpCode, watch_op};
use wire::watch::{NotifyAck, NotifyRequest, NotifyResult, WatchEvent};
use wire::*;

/// Version of requests as OSDs of Ceph 16 to 18 read them.
const VERSION_MAX: u16 = 8;

#[derive(Default)]
pub struct FakeOsd {
    pub is_unreachable: bool,
    /// Redirects reads to the primary.
    pub refers: bool,
    /// Drops requests.
    pub is_silent: bool,
    /// Executes requests, and drops the replies.
    pub is_mute: bool,
    pub objects: BTreeMap<HObject, Bytes>,
    /// Replies by transaction id, for duplicates.
    done: BTreeMap<u64, OsdReply>,
    pub executions: usize,
    /// All requests: transaction id and attempt.
    pub requests: Vec<(u64, i32)>,
    pub watchers: BTreeMap<u64, ConnId>,
    pub registrations: Vec<(u8, u32)>,
    notifies: BTreeMap<u64, (ConnId, u64, BTreeSet<u64>, NotifyResult)>,
}

impl FakeOsd {
    pub fn forget(&mut self, conn: ConnId) {
        self.watchers.retain(|_, watcher| *watcher != conn);
    }

    pub fn receive(
        &mut self,
        conn: ConnId,
        message: &Message,
        map: &OsdMap,
    ) -> Vec<(ConnId, Message)> {
        if message.kind == Command::KIND {
            let command = Command::decode(message).unwrap();
            let reply = CommandReply { text: command.command.concat(), ..Default::default() };
            return vec![(conn, reply.encode(SUPPORTED).with_tid(message.tid))];
        }
        if message.kind == OsdBackoff::KIND {
            return Vec::new();
        }
        assert!(message.version <= VERSION_MAX, "older OSDs do not answer what is newer");
        let request = OsdRequest::decode(message).unwrap();
        self.requests.push((message.tid, request.retry_attempt));
        if self.is_silent {
            return Vec::new();
        }
        if self.refers {
            let reply = OsdReply::to(&request, Errno::AGAIN.negative(), map.epoch);
            return vec![(conn, reply.encode(SUPPORTED).with_tid(message.tid))];
        }
        let mut more = Vec::new();
        let mut reply = match self.done.get(&message.tid) {
            Some(reply) => reply.clone(),
            None => self.execute(conn, &request, map, &mut more),
        };
        self.done.insert(message.tid, reply.clone());
        if self.is_mute {
            return Vec::new();
        }
        reply.retry_attempt = request.retry_attempt;
        more.insert(0, (conn, reply.encode(SUPPORTED).with_tid(message.tid)));
        more
    }

    fn execute(
        &mut self,
        conn: ConnId,
        request: &OsdRequest,
        map: &OsdMap,
        more: &mut Vec<(ConnId, Message)>,
    ) -> OsdReply {
        self.executions += 1;
        let mut reply = OsdReply::to(request, 0, map.epoch);
        for (at, op) in request.ops.iter().enumerate() {
            match self.execute_op(conn, request, op, map, more) {
                Ok(output) => reply.ops[at].output = output,
                Err(error) => {
                    reply.result = error.negative();
                    break;
                }
            }
        }
        reply
    }

    fn execute_op(
        &mut self,
        conn: ConnId,
        request: &OsdRequest,
        op: &OsdOp,
        map: &OsdMap,
        more: &mut Vec<(ConnId, Message)>,
    ) -> Result<Bytes, Errno> {
        let object = &request.object;
        match op.code {
            OpCode::WRITEFULL => {
                self.objects.insert(object.clone(), op.input.clone());
                Ok(Bytes::new())
            }
            OpCode::READ => self.objects.get(object).cloned().ok_or(Errno::NOENT),
            OpCode::DELETE => self.objects.remove(object).map(|_| Bytes::new()).ok_or(Errno::NOENT),
            OpCode::PGNLS => Ok(self.list(request, op, map)),
            OpCode::WATCH => self.watch(conn, op),
            OpCode::NOTIFY => Ok(self.notify(conn, op, more)),
            OpCode::NOTIFY_ACK => {
                self.acknowledge(op, more);
                Ok(Bytes::new())
            }
            other => panic!("unexpected {other}"),
        }
    }

    fn list(&self, request: &OsdRequest, op: &OsdOp, map: &OsdMap) -> Bytes {
        let cursor: HObject = codec::decode_all("cursor", &op.input).unwrap();
        let of_pg = |object: &HObject| {
            let pg = map.raw_pg_to_pg(types::PgId { pool: object.pool, seed: object.hash });
            pg == Some(request.pg.pg)
        };
        let (count, _) = op.list_arguments();
        let mut objects = self.objects.range(cursor..).map(|(object, _)| object);
        let mut objects = objects.by_ref().filter(|object| of_pg(object)).peekable();
        let entry = |object: &HObject| ListedObject {
            name: object.name.clone(),
            ..ListedObject::default()
        };
        let entries = objects.by_ref().take(count as usize).map(entry).collect();
        let handle = objects.peek().map_or(HObject::max(), |next| (*next).clone());
        codec::encode_to_bytes(&PgListing { handle, entries })
    }

    fn watch(&mut self, conn: ConnId, op: &OsdOp) -> Result<Bytes, Errno> {
        let arguments = op.watch_arguments();
        match arguments.op {
            watch_op::WATCH | watch_op::RECONNECT => {
                self.registrations.push((arguments.op, arguments.generation));
                self.watchers.insert(arguments.cookie, conn);
            }
            watch_op::UNWATCH => {
                self.watchers.remove(&arguments.cookie);
            }
            _ if !self.watchers.contains_key(&arguments.cookie) => return Err(Errno::NOTCONN),
            _ => {}
        }
        Ok(Bytes::new())
    }

    fn notify(&mut self, conn: ConnId, op: &OsdOp, more: &mut Vec<(ConnId, Message)>) -> Bytes {
        let request: NotifyRequest = codec::decode_all("notify", &op.input).unwrap();
        let notify_id = 1 + self.notifies.len() as u64;
        for (cookie, watcher) in &self.watchers {
            let (cookie, payload) = (*cookie, request.payload.clone());
            let message = WatchNotify { cookie, notify_id, payload, ..Default::default() };
            more.push((*watcher, message.encode(SUPPORTED)));
        }
        let waiting = self.watchers.keys().copied().collect();
        let state = (conn, op.notify_cookie(), waiting, NotifyResult::default());
        self.notifies.insert(notify_id, state);
        codec::encode_to_bytes(&notify_id)
    }

    fn acknowledge(&mut self, op: &OsdOp, more: &mut Vec<(ConnId, Message)>) {
        let ack: NotifyAck = codec::decode_all("ack", &op.input).unwrap();
        let (conn, cookie, waiting, result) = self.notifies.get_mut(&ack.notify_id).unwrap();
        waiting.remove(&ack.cookie);
        result.replies.insert((0, ack.cookie), ack.reply);
        if waiting.is_empty() {
            let outcome = codec::encode_to_bytes(result);
            let event = WatchEvent::NotifyComplete;
            let message = WatchNotify { event, cookie: *cookie, outcome, ..Default::default() };
            more.push((*conn, message.encode(SUPPORTED)));
        }
    }
}
