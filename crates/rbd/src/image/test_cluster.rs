//! Several clients with the same image open, over a header and objects in memory.

use super::{Image, ImageEvent, Outcome, Request};
use crate::notify::Response;
use crate::{
    ClusterRequest, ClusterRequestId, ClusterResponse, Error, Features, Header, ImageSpec, Layout,
    Pool, RequestSource,
};
use bytes::Bytes;
use codec::Reader;
use rados::{CommandOutput, OperationReply, Reply, WatchEvent, WatchId};
use std::collections::{BTreeMap, BTreeSet};
use types::{EntityAddr, EntityType, Errno, ParticipantName, PoolId, SnapId, UTime};
use wire::op::OpCode;
use wire::watch::{NotifyResult, Watcher, WatcherListing};
use wire::{OpResult, OsdOp, SnapContext};

/// Size of the image in bytes.
pub const SIZE: u64 = 1 << 14;
/// Turns after which clients that still send requests are taken for livelocked.
const TURNS_MAX: usize = 10_000;

struct Notification {
    from: usize,
    id: ClusterRequestId,
    waits_for: BTreeSet<usize>,
    result: NotifyResult,
}

/// Clients are numbered; the address and the watch of a client end with its number.
pub struct TestCluster {
    /// Features of the image.
    pub features: Features,
    /// The open image of each client that runs.
    pub images: BTreeMap<usize, Image>,
    /// Watch handle of each client that watches the header.
    pub watches: BTreeMap<usize, u64>,
    /// Owner of the exclusive lock: client, cookie, tag.
    pub holder: Option<(usize, Bytes, Bytes)>,
    /// Addresses that monitor commands have blocklisted.
    pub blocklist: Vec<String>,
    /// Number of monitor commands that will fail because the control store is out of reach.
    pub monitor_failures: u32,
    /// Contents of the data objects, by name.
    pub data: BTreeMap<Bytes, Vec<u8>>,
    /// Clients by the order of their writes.
    pub writers: Vec<usize>,
    notifications: BTreeMap<u64, Notification>,
    waits: Vec<(usize, ClusterRequestId)>,
    /// Payloads of all notifications that clients sent, in order.
    pub notified: Vec<Bytes>,
    last_number: u64,
}

impl TestCluster {
    /// A cluster with this many clients, each with the image open for writing.
    pub fn new(clients: usize, features: Features) -> Self {
        let mut cluster = TestCluster {
            features,
            images: BTreeMap::new(),
            watches: BTreeMap::new(),
            holder: None,
            blocklist: Vec::new(),
            monitor_failures: 0,
            data: BTreeMap::new(),
            writers: Vec::new(),
            notifications: BTreeMap::new(),
            waits: Vec::new(),
            notified: Vec::new(),
            last_number: 0,
        };
        for client in 0..clients {
            cluster.images.insert(client, Image::new(header(features), true).unwrap());
        }
        cluster.settle();
        cluster
    }

    /// Runs until no request is pending. Time passes only if nothing else can happen.
    pub fn settle(&mut self) {
        for _ in 0..TURNS_MAX {
            let clients: Vec<usize> = self.images.keys().copied().collect();
            let asked = clients.into_iter().filter(|client| self.turn(*client)).count();
            if asked == 0 && !self.pass_time() {
                return;
            }
        }
        panic!("the clients are livelocked");
    }

    /// Runs for at most this many turns.
    pub fn run_turns(&mut self, turns: usize) {
        for _ in 0..turns {
            let clients: Vec<usize> = self.images.keys().copied().collect();
            if clients.into_iter().filter(|client| self.turn(*client)).count() == 0 {
                self.pass_time();
            }
        }
    }

    fn turn(&mut self, client: usize) -> bool {
        let Some((id, request)) =
            self.images.get_mut(&client).and_then(RequestSource::poll_request)
        else {
            return false;
        };
        self.respond_to(client, id, request);
        true
    }

    /// Answers one request of a client, unless it is a wait or a notification.
    pub fn respond_to(&mut self, client: usize, id: ClusterRequestId, request: ClusterRequest) {
        if let Some(answer) = self.answer(client, id, request) {
            self.images.get_mut(&client).unwrap().handle_response(id, answer);
            self.images[&client].check_invariants();
        }
    }

    /// Expires pending notifications and waits.
    fn pass_time(&mut self) -> bool {
        if let Some((_, mut notification)) = self.notifications.pop_first() {
            let missed = std::mem::take(&mut notification.waits_for);
            notification.result.missed = missed.into_iter().map(|at| (at as u64, 0)).collect();
            self.notification_over(notification, Err(Errno::TIMEDOUT));
            return true;
        }
        if self.waits.is_empty() {
            return false;
        }
        let (client, id) = self.waits.remove(0);
        self.give(client, id, done());
        true
    }

    fn give(&mut self, client: usize, id: ClusterRequestId, answer: ClusterResponse) {
        if let Some(image) = self.images.get_mut(&client) {
            image.handle_response(id, answer);
            image.check_invariants();
        }
    }

    fn notification_over(&mut self, notification: Notification, result: Result<(), Errno>) {
        let answer = result.map(|()| Reply::Notified(notification.result));
        self.give(notification.from, notification.id, answer);
    }

    fn answer(
        &mut self,
        client: usize,
        id: ClusterRequestId,
        request: ClusterRequest,
    ) -> Option<ClusterResponse> {
        let is_out = self.blocklist.contains(&format!("{}", addr(client)).replace("v2:", ""));
        Some(match request {
            ClusterRequest::Operate(_) | ClusterRequest::Watch(_) if is_out => {
                Err(Errno::BLOCKLISTED)
            }
            ClusterRequest::Operate(operation) => {
                let name = operation.place.object.clone();
                let outputs = operation.ops.iter().map(|op| self.execute(client, &name, op));
                let outputs: Result<Vec<OpResult>, Errno> = outputs.collect();
                outputs.map(|ops| Reply::Operation(OperationReply { ops, ..Default::default() }))
            }
            ClusterRequest::Watch(_) => {
                self.last_number += 1;
                self.watches.insert(client, self.last_number);
                Ok(Reply::Watching(WatchId(self.last_number)))
            }
            ClusterRequest::Unwatch(_) => {
                self.watches.remove(&client);
                self.gone(client);
                done()
            }
            ClusterRequest::Identify => Ok(Reply::Identity { global_id: client as u64 }),
            ClusterRequest::NewestMap => Ok(Reply::Map(types::Epoch(1))),
            ClusterRequest::Pool(request) => panic!("{request:?} was not expected"),
            ClusterRequest::Command(_) if self.monitor_failures > 0 => {
                self.monitor_failures -= 1;
                let result = Errno::IO.negative();
                Ok(Reply::Command(CommandOutput { result, ..CommandOutput::default() }))
            }
            ClusterRequest::Command(command) => {
                let addr = command.split('"').nth(11).unwrap_or_default();
                self.blocklist.push(addr.to_owned());
                Ok(Reply::Command(CommandOutput::default()))
            }
            ClusterRequest::Wait(_) => {
                self.waits.push((client, id));
                return None;
            }
            ClusterRequest::Notify { payload, .. } => {
                self.notify(client, id, payload);
                return None;
            }
            ClusterRequest::Acknowledge { notify_id, reply, .. } => {
                self.acknowledged(client, notify_id, reply);
                return None;
            }
        })
    }

    fn notify(&mut self, from: usize, id: ClusterRequestId, payload: Bytes) {
        self.last_number += 1;
        self.notified.push(payload.clone());
        let waits_for: BTreeSet<usize> = self.watches.keys().copied().collect();
        let result = NotifyResult::default();
        let notification = Notification { from, id, waits_for, result };
        self.notifications.insert(self.last_number, notification);
        for (client, watch) in self.watches.clone() {
            let event = WatchEvent::Notified {
                watch: WatchId(watch),
                notify_id: self.last_number,
                notifier: from as u64,
                payload: payload.clone(),
            };
            if let Some(image) = self.images.get_mut(&client) {
                image.handle_watch_event(&event);
            }
        }
    }

    fn acknowledged(&mut self, client: usize, notify_id: u64, reply: Bytes) {
        if let Some(notification) = self.notifications.get_mut(&notify_id) {
            notification.waits_for.remove(&client);
            notification.result.replies.insert((client as u64, 0), reply);
        }
        self.end_notifications();
    }

    /// Notifications no longer wait for a client that does not watch.
    fn gone(&mut self, client: usize) {
        for notification in self.notifications.values_mut() {
            notification.waits_for.remove(&client);
        }
        self.end_notifications();
    }

    fn end_notifications(&mut self) {
        let is_over = |_: &u64, notification: &mut Notification| notification.waits_for.is_empty();
        let over: Vec<(u64, Notification)> = self.notifications.extract_if(.., is_over).collect();
        over.into_iter().for_each(|(_, notification)| self.notification_over(notification, Ok(())));
    }

    /// Sends a notification from outside to all clients and collects their answers.
    pub fn say(&mut self, payload: Bytes) -> Vec<i32> {
        self.last_number += 1;
        let mut responses = Vec::new();
        for (client, watch) in self.watches.clone() {
            let (watch, payload) = (WatchId(watch), payload.clone());
            let (notify_id, notifier) = (self.last_number, 0);
            let event = WatchEvent::Notified { watch, notify_id, notifier, payload };
            let image = self.images.get_mut(&client).unwrap();
            assert!(image.handle_watch_event(&event));
            let replies =
                std::iter::from_fn(|| image.poll_request()).filter_map(
                    |(_, request)| match request {
                        ClusterRequest::Acknowledge { reply, .. } if !reply.is_empty() => {
                            Some(reply)
                        }
                        _ => None,
                    },
                );
            let decoded = replies.map(|reply| codec::decode_all::<Response>("it", &reply));
            responses.extend(decoded.map(|response| response.unwrap().0));
        }
        responses
    }

    fn execute(&mut self, client: usize, name: &Bytes, op: &OsdOp) -> Result<OpResult, Errno> {
        let output = match op.code {
            OpCode::CALL => self.call(client, op)?,
            OpCode::LIST_WATCHERS => codec::encode_to_bytes(&self.watchers()),
            OpCode::READ => Bytes::from(self.data.get(name).cloned().ok_or(Errno::NOENT)?),
            OpCode::WRITE => {
                self.writers.push(client);
                self.data.insert(name.clone(), op.input.to_vec());
                Bytes::new()
            }
            other => panic!("{other} was not expected"),
        };
        Ok(OpResult::new(op, 0, output))
    }

    fn watchers(&self) -> WatcherListing {
        let watcher = |(client, watch): (&usize, &u64)| Watcher {
            name: name(*client),
            cookie: *watch,
            timeout_seconds: 30,
            addr: addr(*client),
        };
        WatcherListing { entries: self.watches.iter().map(watcher).collect() }
    }

    fn call(&mut self, client: usize, op: &OsdOp) -> Result<Bytes, Errno> {
        let (class, method, input) = op.call_input().unwrap();
        match &class[..] {
            b"lock" => self.call_lock(client, &method, &input),
            _ => Ok(call_header(&method, self.features)),
        }
    }

    fn call_lock(&mut self, client: usize, method: &[u8], input: &[u8]) -> Result<Bytes, Errno> {
        let mut reader = Reader::new(input);
        let input = reader.versioned("input", 1, |r, _| {
            let _name: Bytes = r.value()?;
            Ok(Bytes::copy_from_slice(r.rest()))
        });
        let input = input.unwrap();
        let mut r = Reader::new(&input);
        let holds = |holder: &Option<(usize, Bytes, Bytes)>, cookie: &Bytes| {
            holder.as_ref().is_some_and(|(by, with, _)| *by == client && with == cookie)
        };
        match method {
            b"lock" => {
                let (_, cookie, tag): (u8, Bytes, Bytes) = r.value().unwrap();
                match &self.holder {
                    Some(_) if holds(&self.holder, &cookie) => return Err(Errno::EXIST),
                    Some(_) => return Err(Errno::BUSY),
                    None => self.holder = Some((client, cookie, tag)),
                }
            }
            b"unlock" => {
                let cookie: Bytes = r.value().unwrap();
                if !holds(&self.holder, &cookie) {
                    return Err(Errno::NOENT);
                }
                self.holder = None;
            }
            b"break_lock" => {
                let locker: ParticipantName = r.value().unwrap();
                assert_eq!(self.holder.take().map(|(by, _, _)| name(by)), Some(locker));
            }
            b"set_cookie" => {
                let (_, cookie, tag): (u8, Bytes, Bytes) = r.value().unwrap();
                if !holds(&self.holder, &cookie) {
                    return Err(Errno::BUSY);
                }
                self.holder = Some((client, r.value().unwrap(), tag));
            }
            b"get_info" => return Ok(self.lock_info()),
            other => panic!("{} was not expected", String::from_utf8_lossy(other)),
        }
        Ok(Bytes::new())
    }

    fn lock_info(&self) -> Bytes {
        let mut w = codec::Writer::new();
        w.versioned(1, 1, |w| {
            w.count(self.holder.iter().count());
            if let Some((client, cookie, _)) = &self.holder {
                w.versioned(1, 1, |w| {
                    w.value(&name(*client));
                    w.value(cookie);
                });
                w.versioned(1, 1, |w| {
                    w.value(&UTime::ZERO);
                    w.value(&addr(*client));
                    w.string("");
                });
            }
            w.u8(1);
            w.value(&self.holder.as_ref().map_or(Bytes::new(), |(_, _, tag)| tag.clone()));
        });
        w.into_bytes()
    }

    /// Submits a write of one byte by a client.
    pub fn write(&mut self, client: usize) {
        let data = Bytes::from(vec![client as u8; 10]);
        self.images.get_mut(&client).unwrap().submit(Request::Write { offset: 0, data });
    }

    /// The next outcome of a client's requests.
    pub fn outcome(&mut self, client: usize) -> Option<Result<Outcome, Error>> {
        self.images.get_mut(&client).unwrap().poll_completion().map(|(_, outcome)| outcome)
    }

    /// All pending events of a client's image.
    pub fn events(&mut self, client: usize) -> Vec<ImageEvent> {
        let image = self.images.get_mut(&client).unwrap();
        std::iter::from_fn(|| image.poll_event()).collect()
    }

    /// The client that owns the exclusive lock.
    pub fn holder(&self) -> Option<usize> {
        self.holder.as_ref().map(|(client, _, _)| *client)
    }
}

fn done() -> ClusterResponse {
    Ok(Reply::Operation(OperationReply::default()))
}

fn name(client: usize) -> ParticipantName {
    ParticipantName::new(EntityType::CLIENT, client as i64)
}

/// Address of a client.
pub fn addr(client: usize) -> EntityAddr {
    EntityAddr::msgr2(([127, 0, 0, 1], 0).into(), client as u32)
}

/// Header of the image, as [`crate::open`] reads it.
pub fn header(features: Features) -> Header {
    let pool = Pool { id: PoolId(1), name: "pool".into(), namespace: String::new() };
    Header {
        spec: ImageSpec { pool, name: "image".into() },
        id: "1a".into(),
        size: SIZE,
        order: 12,
        features,
        flags: 0,
        data_prefix: "rbd_data.1a".into(),
        data_pool: None,
        layout: Layout::plain(12).unwrap(),
        snap_context: SnapContext::default(),
        snap: SnapId::HEAD,
        parent: None,
        ancestors: [].into(),
    }
}

fn call_header(method: &[u8], features: Features) -> Bytes {
    match method {
        b"get_size" => codec::encode_to_bytes(&(12u8, SIZE)),
        b"get_features" => codec::encode_to_bytes(&(features.0, 0u64)),
        b"get_flags" => codec::encode_to_bytes(&0u64),
        b"get_object_prefix" => codec::encode_to_bytes("rbd_data.1a"),
        b"get_data_pool" => codec::encode_to_bytes(&-1i64),
        b"get_snapcontext" => codec::encode_to_bytes(&(0u64, Vec::<SnapId>::new())),
        b"parent_overlap_get" => codec::encode_to_bytes(&None::<u64>),
        b"parent_get" => {
            let mut w = codec::Writer::new();
            w.versioned(1, 1, |w| {
                w.i64(-1);
                w.string("");
                w.string("");
                w.value(&SnapId::HEAD);
            });
            w.into_bytes()
        }
        other => panic!("{} was not expected", String::from_utf8_lossy(other)),
    }
}
