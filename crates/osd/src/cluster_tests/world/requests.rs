//! The client's requests, and the replies to them.

use super::{Node, STEPS_MAX, World};
use crate::cluster_tests::monitor::POOL;
use bytes::Bytes;
use engine::{ConnId, Time};
use types::features::SUPPORTED;
use types::{HObject, OsdId, PgId, PgShard, SnapId};
use wire::op::{OpCode, request_flags};
use wire::osd_op::CopyFromArguments;
use wire::watch::WatchNotify;
use wire::{
    Command, MessageBody, ObjectLocator, OsdOp, OsdReply, OsdRequest, copy::CopySource,
    listing::PgListing,
};

impl World {
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

    /// Number of objects of an object's group that an OSD has in memory.
    pub fn objects_in_memory(&self, osd: OsdId, name: &str) -> usize {
        let (pg, _) = self.object(name);
        let osd = self.machines[osd.0 as usize].osd.as_ref().expect("it runs");
        osd.hosted().groups().serving(pg, true).expect("it has the group").queues.objects_len()
    }

    /// Another object of the same group.
    pub fn neighbour_of(&self, name: &str) -> String {
        let mut names = (0..).map(|number| format!("neighbour{number}"));
        names.find(|other| self.object(other).0 == self.object(name).0).expect("there is one")
    }

    /// Sends a request if its target is running.
    pub fn send(&mut self, to: Option<OsdId>, name: &str, ops: Vec<OsdOp>, flags: u32, tid: u64) {
        let (pg, object) = self.object(name);
        let to = to.or(self.monitor.map.pg_to_osds(pg).acting_primary);
        let Some(to) = to.filter(|to| self.is_running(*to)) else { return };
        self.send_request(to, pg, object, ops, flags, tid);
    }

    pub(super) fn session(&mut self, to: OsdId) -> ConnId {
        if let Some(conn) = self.sessions.get(&to) {
            return *conn;
        }
        self.accepted += 1;
        let conn = ConnId(self.accepted);
        self.sessions.insert(to, conn);
        self.connect((Node::Client, conn), Node::Osd(to));
        conn
    }

    /// Sends a command to the primary of an object's group; the reply appears in `answers`.
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

    pub(super) fn send_request(
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
            pg: PgShard::replicated(pg),
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

    /// The names of all objects, by `PGNLS`.
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

    /// Sends a read of an object at a snapshot; returns its tid.
    pub fn read_at(&mut self, name: &str, snap: SnapId) -> u64 {
        let (pg, object) = self.object(name);
        let (tid, to) = (self.next_tid(), self.primary_of(name));
        let ops = vec![OsdOp::read(0, 0)];
        self.send_request(to, pg, object.at(snap), ops, request_flags::READ, tid);
        tid
    }

    pub fn take_events(&mut self) -> Vec<WatchNotify> {
        self.settle_briefly();
        std::mem::take(&mut self.events)
    }

    /// Delivers messages in flight, without running timers.
    pub(super) fn settle_briefly(&mut self) {
        while self.step() {}
    }
}
