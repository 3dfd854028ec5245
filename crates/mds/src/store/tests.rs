//! A rank over a model of the metadata pool that may lose, at a crash, any write that it has not answered.

mod purges;

use super::{Failure, Setup, Store, Task};
use crate::rank::{evictions, reconnect};
use crate::{ClientPeer, Rank};
use bytes::Bytes;
use codec::{Reader, Writer};
use engine::{Duration, Message, Time};
use fsjournal::Limits;
use namespace::{Ino, PageStart};
use proptest::prelude::*;
use rados::{ClusterRequest, ClusterRequestId, Operation, OperationReply, Reply, RequestSource};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use types::{EntityAddrVec, EntityName, EntityType, Epoch, Errno, PoolId, UTime};
use wire::client_request::{
    FileLockArguments, GetattrArguments, MkdirArguments, OpenArguments, SetattrArguments,
    setattr_mask,
};
use wire::op::{OpCode, op_flags};
use wire::*;

const START: Time = Time(1_000_000_000);
/// The pool of the clients' data.
const DATA_POOL: PoolId = PoolId(3);
/// The newest OSD map that the monitor has. It shuts out those that were evicted, and predecessors.
const NEWEST_MAP: Epoch = Epoch(12);
/// Sizes at which segments and frames end after a few records.
const SMALL: Limits =
    Limits { frame_bytes: 600, segment_bytes: 3_000, frames_in_flight: 3, bytes_in_flight: 4_000 };

#[derive(Debug, Clone, Default)]
struct Object {
    data: Vec<u8>,
    pairs: BTreeMap<Bytes, Bytes>,
}

/// Objects by name.
#[derive(Debug, Clone, Default)]
struct Pool {
    objects: BTreeMap<Bytes, Object>,
    /// Names of the objects in the data pool.
    data: BTreeSet<String>,
    /// Those that cannot be removed.
    fixed: BTreeSet<String>,
}

impl Pool {
    /// Executes operations on an object: all, or none.
    fn execute(&mut self, operation: &Operation) -> Result<Reply, Errno> {
        if operation.place.pool == DATA_POOL {
            assert_eq!(operation.ops, [OsdOp::remove()], "the server writes no data");
            let name = String::from_utf8_lossy(&operation.place.object).into_owned();
            if self.fixed.contains(&name) {
                return Err(Errno::PERM);
            }
            let removed = self.data.remove(&name).then(OperationReply::default);
            return removed.map(Reply::Operation).ok_or(Errno::NOENT);
        }
        assert_eq!(&operation.place.namespace[..], b"sepiola");
        let name = operation.place.object.clone();
        let mut object = self.objects.get(&name).cloned();
        let mut ops = Vec::new();
        for op in &operation.ops {
            let output = execute(&mut object, op)?;
            ops.push(OpResult::new(op, 0, output));
        }
        match object {
            Some(object) => self.objects.insert(name, object),
            None => self.objects.remove(&name),
        };
        Ok(Reply::Operation(OperationReply { ops, ..OperationReply::default() }))
    }

    fn names(&self, prefix: &str) -> Vec<String> {
        let names = self.objects.keys().map(|name| String::from_utf8_lossy(name).into_owned());
        names.filter(|name| name.starts_with(prefix)).collect()
    }
}

fn execute(object: &mut Option<Object>, op: &OsdOp) -> Result<Bytes, Errno> {
    let mut r = Reader::new(&op.input);
    let blob = |r: &mut Reader<'_>| Ok(Bytes::copy_from_slice(r.blob("bytes")?));
    let existing = object.as_ref().ok_or(Errno::NOENT);
    match op.code {
        OpCode::READ => return Ok(existing?.data.clone().into()),
        OpCode::CREATE if object.is_some() && op.flags & op_flags::EXCL != 0 => {
            return Err(Errno::EXIST);
        }
        OpCode::CREATE => drop(object.get_or_insert_default()),
        OpCode::WRITEFULL => object.get_or_insert_default().data = op.input.to_vec(),
        OpCode::WRITE => {
            let data = &mut object.get_or_insert_default().data;
            let offset = op.extent().offset as usize;
            data.resize(data.len().max(offset + op.input.len()), 0);
            data[offset..offset + op.input.len()].copy_from_slice(&op.input);
        }
        OpCode::DELETE => {
            existing?;
            *object = None;
        }
        OpCode::OMAPSETVALS => {
            let pairs: BTreeMap<Bytes, Bytes> = codec::decode_all("pairs", &op.input).unwrap();
            object.get_or_insert_default().pairs.extend(pairs);
        }
        OpCode::OMAPRMKEYS => {
            existing?;
            for key in r.list("keys", blob).unwrap() {
                object.as_mut().expect("it was checked").pairs.remove(&key);
            }
        }
        OpCode::OMAPGETVALS => {
            let after = blob(&mut r).unwrap();
            let mut rest = existing?.pairs.iter().filter(|(key, _)| **key > after).peekable();
            // A short page, so that readers ask for more.
            let page: BTreeMap<_, _> = rest.by_ref().take(3).collect();
            let page = page.into_iter().map(|(key, value)| (key.clone(), value.clone()));
            let mut w = Writer::new();
            w.value(&page.collect::<BTreeMap<_, _>>());
            w.bool(existing?.pairs.range(after..).count() > 3);
            return Ok(w.into_bytes());
        }
        OpCode::OMAPGETVALSBYKEYS => {
            let keys = r.list("keys", blob).unwrap();
            let pairs = &existing?.pairs;
            let found = keys.iter().filter_map(|key| Some((key.clone(), pairs.get(key)?.clone())));
            return Ok(codec::encode_to_bytes(&found.collect::<BTreeMap<_, _>>()));
        }
        code => panic!("{code:?} is not modelled"),
    }
    Ok(Bytes::new())
}

/// A client: the request that is not answered, and the capabilities that it has.
#[derive(Debug, Default)]
struct Client {
    asked: Option<(u64, ClientRequest)>,
    answers: Vec<(u64, i32)>,
    caps: BTreeMap<u64, (u64, CapBits)>,
    sessions: Vec<SessionOp>,
    /// File locks that it claims, as they are encoded.
    locks: BTreeMap<u64, Bytes>,
    /// It answers nothing.
    is_silent: bool,
    /// The newest OSD map without which it may not use its capabilities.
    barrier: u32,
}

/// A server with its pool and its clients.
struct World {
    pool: Pool,
    store: Store,
    rank: Option<Rank>,
    pending: Vec<(Task, ClusterRequestId, Operation)>,
    commands: Vec<String>,
    /// Results of the monitor's next commands; then they succeed.
    results: VecDeque<Result<i32, Errno>>,
    /// Pauses that have not elapsed.
    pauses: Vec<(Task, ClusterRequestId)>,
    clients: BTreeMap<u64, Client>,
    tid: u64,
    now: Time,
    /// Data objects that clients have written.
    written: BTreeSet<String>,
}

fn setup(is_new: bool) -> Setup {
    Setup {
        pool: PoolId(2),
        rank: 0,
        id: [7; 16],
        incarnation: 4409,
        data_pool: PoolId(3),
        osd_epoch: Epoch(9),
        is_new,
        now: UTime::ZERO,
        limits: SMALL,
    }
}

fn addrs(client: u64) -> EntityAddrVec {
    format!("v2:10.0.0.{client}:0/77").parse().map(EntityAddrVec::one).expect("an address")
}

fn peer(client: u64) -> ClientPeer {
    let name = EntityName::new(EntityType::CLIENT, client.to_string());
    ClientPeer {
        client,
        name,
        addrs: addrs(client),
        address: None,
        caps: std::sync::Arc::new(auth::MdsCaps::allow_all()),
    }
}

fn request(op: ClientOp, path: &str) -> ClientRequest {
    let path = FilePath::new(1, Bytes::copy_from_slice(path.as_bytes()));
    ClientRequest { op, path, ..ClientRequest::default() }
}

fn mkdir(path: &str) -> ClientRequest {
    let arguments = RequestArguments::of(&MkdirArguments { mode: 0o755 });
    ClientRequest { arguments, ..request(ClientOp::MKDIR, path) }
}

fn create(path: &str) -> ClientRequest {
    let flags = open_flags::CREATE | open_flags::WRITE_ONLY;
    let arguments = OpenArguments { flags, mode: 0o644, ..OpenArguments::default() };
    let arguments = RequestArguments::of(&arguments);
    ClientRequest { arguments, ..request(ClientOp::CREATE, path) }
}

fn rename(from: &str, to: &str) -> ClientRequest {
    let path2 = FilePath::new(1, Bytes::copy_from_slice(from.as_bytes()));
    ClientRequest { path2, ..request(ClientOp::RENAME, to) }
}

impl World {
    /// A new file system whose server is active.
    fn new(clients: &[u64]) -> Self {
        let mut world = World {
            pool: Pool::default(),
            store: Store::open(START, setup(true)),
            rank: None,
            pending: Vec::new(),
            commands: Vec::new(),
            results: VecDeque::new(),
            pauses: Vec::new(),
            clients: BTreeMap::new(),
            tid: 0,
            now: START,
            written: BTreeSet::new(),
        };
        world.finish();
        world.activate();
        for client in clients {
            world.clients.insert(*client, Client::default());
            let features = FeatureBits(u64::MAX);
            let open = ClientSession { features, ..ClientSession::new(SessionOp::REQUEST_OPEN, 0) };
            world.send(*client, &open.encode(0));
        }
        world.finish();
        world
    }

    fn rank(&mut self) -> &mut Rank {
        self.rank.as_mut().expect("the rank is open")
    }

    fn activate(&mut self) {
        let now = self.now;
        reconnect::activate(self.rank(), now);
        self.pump();
    }

    /// The end of a turn: requests to the pool, messages to clients.
    fn pump(&mut self) {
        loop {
            if let Some(rank) = &mut self.rank {
                rank.check_invariants();
                self.store.pump(self.now, rank);
                if let Some(journal) = rank.log_mut().journal() {
                    journal.check_invariants();
                }
            }
            let mut is_quiet = true;
            let store = &mut self.store;
            let requests = Task::ALL.into_iter().flat_map(|task| {
                let mut source = store.source(task);
                let requests: Vec<_> = std::iter::from_fn(|| source.poll_request()).collect();
                requests.into_iter().map(move |(id, request)| (task, id, request))
            });
            for (task, id, request) in requests.collect::<Vec<_>>() {
                let answer = match request {
                    ClusterRequest::Operate(operation) => {
                        self.pending.push((task, id, operation));
                        continue;
                    }
                    ClusterRequest::NewestMap => Ok(Reply::Map(NEWEST_MAP)),
                    ClusterRequest::Command(command) => {
                        self.commands.push(command);
                        let result = self.results.pop_front().unwrap_or(Ok(0));
                        let output = |result| rados::CommandOutput { result, ..Default::default() };
                        result.map(|result| Reply::Command(output(result)))
                    }
                    ClusterRequest::Wait(_) => {
                        self.pauses.push((task, id));
                        continue;
                    }
                    other => panic!("{other:?}"),
                };
                self.store.handle_response(self.rank.as_mut(), task, id, answer);
                is_quiet = false;
            }
            if let Some(opened) = self.store.poll_opened() {
                self.rank = Some(reconnect::opened(self.now, opened, PoolId(3)));
                is_quiet = false;
            }
            is_quiet &= !self.deliver();
            if is_quiet {
                return;
            }
        }
    }

    fn send(&mut self, client: u64, message: &Message) {
        let now = self.now;
        reconnect::handle_message(self.rank(), now, &peer(client), message).unwrap();
        self.pump();
    }

    /// Clients take their messages; whether there were any.
    fn deliver(&mut self) -> bool {
        let Some(rank) = &mut self.rank else { return false };
        let messages: Vec<_> = std::iter::from_fn(|| rank.poll_output()).collect();
        for (to, message) in &messages {
            self.write_data(message);
            if let Some(answer) = self.clients.entry(*to).or_default().take(message) {
                let now = self.now;
                reconnect::handle_message(self.rank(), now, &peer(*to), &answer).unwrap();
            }
        }
        !messages.is_empty()
    }

    /// A client that has created a file writes it at once.
    fn write_data(&mut self, message: &Message) {
        let reply = (message.kind == ClientReply::KIND).then(|| ClientReply::decode(message));
        if let Some(Ok(ClientReply { target: Some(file), .. })) = reply
            && file.cap.caps.contains(CapBits::FILE_WRITE)
            && file.mode & 0o170_000 == 0o100_000
        {
            let name = format!("{:x}.00000000", file.ino);
            if self.written.insert(name.clone()) {
                self.pool.data.insert(name);
            }
        }
    }

    /// A client drops its capabilities on inodes that have no name any more.
    fn release(&mut self, client: u64) {
        let alive: BTreeSet<u64> = self.paths().into_values().chain([1]).collect();
        let caps = &mut self.clients.get_mut(&client).expect("it has a session").caps;
        let gone: Vec<_> = caps.extract_if(.., |ino, _| !alive.contains(ino)).collect();
        let item = |(ino, (cap_id, _))| CapItem { ino, cap_id, mseq: 0, issue_seq: u32::MAX };
        let items = gone.into_iter().map(item).collect();
        self.send(client, &ClientCapRelease { items, ..ClientCapRelease::default() }.encode(0));
    }

    /// Files have their data; an open one without a name may, and `strict` says that there is none.
    fn check_data(&mut self, strict: bool) {
        let alive: BTreeSet<String> =
            self.paths().into_values().map(|ino| format!("{ino:x}.00000000")).collect();
        let kinds = |rank: &Rank, ino: u64| rank.tree().get(Ino(ino)).unwrap().is_file();
        let files: Vec<u64> = self.paths().into_values().collect();
        for ino in files {
            let name = format!("{ino:x}.00000000");
            assert!(!kinds(self.rank(), ino) || self.pool.data.contains(&name), "{name} is lost");
        }
        for client in self.clients.values() {
            for ino in client.caps.keys().filter(|ino| **ino >= Ino::FIRST.0) {
                let name = format!("{ino:x}.00000000");
                let is_file = self.written.contains(&name);
                assert!(!is_file || self.pool.data.contains(&name), "{name} was open");
            }
        }
        let left: Vec<_> = self.pool.data.difference(&alive).collect();
        assert!(!strict || left.is_empty(), "{left:?} are left");
    }

    /// The pool answers a write that is the first on its object.
    fn answer(&mut self, which: usize) {
        let mut objects = BTreeSet::new();
        let is_first = |(_, _, operation): &&(Task, ClusterRequestId, Operation)| {
            objects.insert(operation.place.object.clone())
        };
        let firsts: Vec<_> = self.pending.iter().filter(is_first).map(|(_, id, _)| *id).collect();
        let Some(id) = firsts.get(which % firsts.len().max(1)) else { return };
        let at = self.pending.iter().position(|(_, other, _)| other == id).expect("it is pending");
        let (task, id, operation) = self.pending.remove(at);
        let answer = self.pool.execute(&operation);
        self.store.handle_response(self.rank.as_mut(), task, id, answer);
        self.pump();
    }

    /// The pool answers everything.
    fn finish(&mut self) {
        self.pump();
        while !self.pending.is_empty() {
            self.answer(0);
        }
        assert_eq!(self.store.failure(), None);
    }

    /// Why the rank cannot be served.
    fn reason(&self) -> String {
        match self.store.failure().expect("it cannot be served") {
            Failure::ShutOut => "shut out".to_owned(),
            Failure::Passing(reason) | Failure::Damage(reason) => reason.clone(),
        }
    }

    /// All pauses elapse; returns how many there were.
    fn elapse(&mut self) -> usize {
        let pauses = std::mem::take(&mut self.pauses);
        for (task, id) in &pauses {
            let answer = Ok(Reply::Operation(OperationReply::default()));
            self.store.handle_response(self.rank.as_mut(), *task, *id, answer);
        }
        self.pump();
        pauses.len()
    }

    fn ask(&mut self, client: u64, request: ClientRequest) -> u64 {
        self.tid += 1;
        let stamp = UTime { seconds: 100 + self.tid as u32, nanoseconds: 0 };
        let request = ClientRequest { stamp, uid: 5, gid: 6, ..request };
        let message = request.encode(0).with_tid(self.tid);
        let client_state = self.clients.get_mut(&client).expect("it has a session");
        client_state.asked = Some((self.tid, request));
        self.send(client, &message);
        self.tid
    }

    /// The server dies; of what is in flight, `stored` says what is stored. A successor opens the rank.
    fn crash(&mut self, stored: u64) {
        let mut lost = BTreeSet::new();
        for (at, (_, _, operation)) in std::mem::take(&mut self.pending).iter().enumerate() {
            if stored & (1 << (at % 64)) != 0 && !lost.contains(&operation.place.object) {
                let _ = self.pool.execute(operation);
            } else {
                lost.insert(operation.place.object.clone());
            }
        }
        self.rank = None;
        self.store = Store::open(self.now, setup(false));
        self.pump();
    }

    /// Clients come back, with requests that were not answered before their claims.
    fn reconnect(&mut self) {
        assert!(self.rank.is_some(), "{:?}", self.store.failure());
        let now = self.now;
        reconnect::begin(self.rank(), now);
        for client in self.clients.keys().copied().collect::<Vec<_>>() {
            self.claim(client);
        }
        assert!(!reconnect::is_reconnected(self.rank(), now), "clients have not seen the state");
        self.now = now + Duration::from_secs(1);
        let now = self.now;
        assert!(reconnect::is_reconnected(self.rank(), now));
        self.activate();
    }

    /// A client comes back, with a request that was not answered before its claims.
    fn claim(&mut self, client: u64) {
        let state = &self.clients[&client];
        let resent = state.asked.clone();
        let claim = |(ino, (cap_id, issued)): (&u64, &(u64, CapBits))| {
            let (cap_id, issued, wanted) = (*cap_id, *issued, *issued);
            let locks = state.locks.get(ino).cloned().unwrap_or_default();
            (*ino, ClaimedCap { cap_id, issued, wanted, locks, ..ClaimedCap::default() })
        };
        let caps = state.caps.iter().map(claim).collect();
        if let Some((tid, request)) = resent {
            self.send(client, &request.encode(0).with_tid(tid));
        }
        let claims = ClientReconnect { caps, realms: Vec::new(), more: false };
        self.send(client, &claims.encode(0));
    }

    fn paths(&mut self) -> BTreeMap<String, u64> {
        let rank = self.rank();
        paths(rank)
    }
}

fn paths(rank: &Rank) -> BTreeMap<String, u64> {
    let tree = rank.tree();
    let (mut found, mut open) = (BTreeMap::new(), vec![(String::new(), Ino::ROOT)]);
    while let Some((path, directory)) = open.pop() {
        for (name, entry) in tree.page(directory, &PageStart::Begin, usize::MAX).unwrap().entries {
            let path = format!("{path}/{}", String::from_utf8_lossy(&name));
            if tree.get(entry.ino).unwrap().is_directory() {
                open.push((path.clone(), entry.ino));
            }
            found.insert(path, entry.ino.0);
        }
    }
    found
}

impl Client {
    /// Takes a message; returns the answer that the server waits for.
    fn take(&mut self, message: &Message) -> Option<Message> {
        match message.kind {
            ClientReply::KIND => {
                let reply = ClientReply::decode(message).unwrap();
                if self.asked.as_ref().is_some_and(|(tid, _)| *tid == message.tid) {
                    self.asked = None;
                    self.answers.push((message.tid, reply.result));
                }
                let directory = reply.dentry.map(|dentry| dentry.directory);
                for inode in reply.target.iter().chain(&directory) {
                    self.caps.insert(inode.ino, (inode.cap.cap_id, inode.cap.caps));
                }
                None
            }
            ClientCaps::KIND => {
                let asked = ClientCaps::decode(message).unwrap();
                self.barrier = self.barrier.max(asked.osd_epoch_barrier);
                match asked.op {
                    CapOp::EXPORT => drop(self.caps.remove(&asked.ino)),
                    _ => drop(self.caps.insert(asked.ino, (asked.cap_id, asked.caps))),
                }
                let answer = ClientCaps { op: CapOp::UPDATE, ..asked.clone() };
                let answers = asked.op == CapOp::REVOKE && !self.is_silent;
                answers.then(|| answer.encode(0).with_tid(77))
            }
            ClientSession::KIND => {
                self.sessions.push(ClientSession::decode(message).unwrap().op);
                None
            }
            _ => None,
        }
    }
}

#[test]
fn no_reply_is_sent_before_its_change_is_durable() {
    let mut world = World::new(&[1]);
    assert_eq!(world.clients[&1].sessions, [SessionOp::OPEN]);
    let tid = world.ask(1, mkdir("a"));
    assert!(world.clients[&1].answers.is_empty());
    let (task, _, operation) = &world.pending[0];
    assert_eq!((*task, &operation.place.object[..]), (Task::Frame, b"journal.0.1.0".as_slice()));
    world.finish();
    assert_eq!(world.clients[&1].answers, [(tid, 0)]);
}

#[test]
fn a_successor_has_all_that_was_answered_and_answers_it_again() {
    let mut world = World::new(&[1]);
    world.ask(1, mkdir("a"));
    world.finish();
    let tid = world.ask(1, create("a/f"));
    let before = world.paths();
    // The frame is stored, but neither its answer nor the reply has arrived.
    world.crash(u64::MAX);
    world.finish();
    assert_eq!(world.paths(), before);
    world.reconnect();
    world.finish();
    assert_eq!(world.clients[&1].answers.last(), Some(&(tid, 0)), "it was not created twice");
    assert_eq!(world.clients[&1].sessions, [SessionOp::OPEN, SessionOp::OPEN]);
    assert_eq!(world.paths(), before);
    let ino = before["/a/f"];
    let (_, caps) = world.clients[&1].caps[&ino];
    assert!(caps.contains(CapBits::FILE_WRITE), "the client may write, as after a create: {caps}");
}

#[test]
fn a_number_is_not_given_twice_although_its_inode_is_gone() {
    let mut world = World::new(&[1]);
    world.ask(1, mkdir("a"));
    world.finish();
    let first = world.paths()["/a"];
    world.ask(1, request(ClientOp::RMDIR, "a"));
    world.finish();
    world.clients.get_mut(&1).unwrap().caps.clear();
    world.crash(0);
    world.finish();
    world.reconnect();
    world.now = world.now + Duration::from_secs(31);
    world.finish();
    world.crash(0);
    world.finish();
    world.reconnect();
    world.ask(1, mkdir("b"));
    world.finish();
    assert!(world.paths()["/b"] > first, "{:x} was {first:x}", world.paths()["/b"]);
}

#[test]
fn checkpoints_bound_the_journal_and_rows_are_all_that_is_left() {
    let mut world = World::new(&[1]);
    for number in 0..20 {
        world.ask(1, mkdir(&format!("d{number}")));
        world.finish();
    }
    assert!(world.pool.names("journal").len() > 2);
    let before = world.paths();
    world.now = world.now + Duration::from_secs(31);
    world.finish();
    assert_eq!(world.pool.names("journal").len(), 1);
    assert_eq!(world.pool.names("dir."), ["dir.1.0.0"]);
    world.crash(0);
    world.finish();
    assert_eq!(world.paths(), before);
    world.reconnect();
    assert_eq!(world.clients[&1].sessions.len(), 2, "the session is in its row");
}

#[test]
fn a_client_that_does_not_come_back_is_blocklisted_before_its_session_ends() {
    let mut world = World::new(&[1, 2]);
    world.crash(0);
    world.finish();
    let now = world.now;
    reconnect::begin(world.rank(), now);
    world.send(1, &ClientReconnect::default().encode(0));
    assert_eq!(evictions::next(world.rank(), now + Duration::from_secs(59)), None);
    let late = now + Duration::from_secs(60);
    let (client, addrs) = evictions::next(world.rank(), late).unwrap();
    assert_eq!(client, 2);
    assert!(!reconnect::is_reconnected(world.rank(), late));
    world.store.evict(client, &addrs);
    world.finish();
    assert!(world.commands[0].contains("10.0.0.2:0/77"), "{:?}", world.commands);
    assert!(reconnect::is_reconnected(world.rank(), late));
    assert_eq!(world.clients[&2].sessions.last(), Some(&SessionOp::CLOSE));
}

#[test]
fn an_eviction_outlives_a_monitor_that_cannot_answer() {
    let mut world = World::new(&[1, 2]);
    world.results = [Err(Errno::TIMEDOUT), Ok(Errno::AGAIN.negative())].into();
    world.store.evict(1, &addrs(1));
    for asked in 1..3 {
        world.finish();
        assert_eq!(world.commands.len(), asked, "it is asked again after a pause");
        assert_eq!(world.elapse(), 1);
    }
    world.finish();
    assert_eq!(world.commands.len(), 3);
    assert_eq!(world.clients[&1].sessions.last(), Some(&SessionOp::CLOSE));
    world.results = [Ok(Errno::ACCES.negative())].into();
    world.store.evict(2, &addrs(2));
    world.pump();
    let failure = world.reason();
    assert!(failure.contains("client 2") && failure.contains("EACCES"), "{failure}");
    assert_eq!(world.clients[&2].sessions.last(), Some(&SessionOp::OPEN));
}

#[test]
fn an_eviction_that_takes_long_does_not_end_the_next_session_of_its_client() {
    let mut world = World::new(&[1]);
    world.results = [Err(Errno::TIMEDOUT)].into();
    // The eviction was of a session from another address, which has ended meanwhile.
    world.store.evict(1, &addrs(9));
    world.finish();
    world.elapse();
    world.finish();
    assert_eq!(world.commands.len(), 2);
    assert_eq!(world.clients[&1].sessions.last(), Some(&SessionOp::OPEN));
}

#[test]
fn a_client_that_came_back_and_is_lost_while_others_are_awaited_opens_a_new_session() {
    let (mut world, ino) = shared_file_after_a_crash(false);
    world.claim(1);
    reconnect::connected_anew(world.rank(), &peer(2));
    world.pump();
    assert_eq!(world.clients[&2].sessions.last(), Some(&SessionOp::OPEN), "it is awaited");
    world.ask(1, mkdir("a"));
    reconnect::connected_anew(world.rank(), &peer(1));
    world.finish();
    let sessions = &world.clients[&1].sessions;
    assert_eq!(sessions.last(), Some(&SessionOp::CLOSE));
    let told = sessions.len();
    world.claim(2);
    world.activate();
    world.finish();
    assert!(world.clients[&2].caps.contains_key(&ino));
    assert_eq!(world.clients[&1].sessions.len(), told, "its messages ended with its session");
}

#[test]
fn a_successor_keeps_evicted_clients_out() {
    let (mut world, ino) = shared_file_after_a_crash(false);
    let (cap_id, issued) = world.clients[&1].caps[&ino];
    let wanted = issued | CapBits::FILE_CACHE | CapBits::FILE_BUFFER | CapBits::FILE_WRITE;
    let claim = ClaimedCap { cap_id, issued, wanted, ..ClaimedCap::default() };
    let caps = [(ino, claim)].into_iter().collect();
    world.send(1, &ClientReconnect { caps, realms: Vec::new(), more: false }.encode(0));
    world.send(2, &ClientReconnect::default().encode(0));
    world.activate();
    world.finish();
    assert!(world.clients[&1].caps[&ino].1.contains(wanted), "it was told of new rights");
    assert_eq!(world.clients[&1].barrier, NEWEST_MAP.0);
}

#[test]
fn a_client_may_be_silent_for_as_long_as_the_map_says() {
    let mut world = World::new(&[1, 2]);
    let minutes = |count: u64| Duration::from_secs(60 * count);
    world.rank().set_session_times(minutes(5), minutes(10));
    world.ask(1, create("f"));
    world.finish();
    world.clients.get_mut(&1).unwrap().is_silent = true;
    let arguments =
        RequestArguments::of(&GetattrArguments { mask: CapBits::PIN | CapBits::ANY_SHARED });
    world.ask(2, ClientRequest { arguments, ..request(ClientOp::GETATTR, "f") });
    world.finish();
    let renewal = ClientSession::new(SessionOp::REQUEST_RENEWCAPS, 1).encode(0);
    for second in 1..=301 {
        let now = world.now;
        assert_eq!(evictions::next(world.rank(), now), None, "in second {second}");
        world.now = now + Duration::from_secs(1);
        world.send(2, &renewal);
        let now = world.now;
        world.rank().handle_timeout(now);
    }
    let now = world.now;
    assert_eq!(evictions::next(world.rank(), now).map(|(client, _)| client), Some(1));
}

#[test]
fn a_silent_client_is_blocklisted_before_another_one_gets_its_file() {
    let mut world = World::new(&[1, 2]);
    world.ask(1, create("f"));
    world.finish();
    world.clients.get_mut(&1).unwrap().is_silent = true;
    let mask = CapBits::PIN | CapBits::ANY_SHARED;
    let arguments = RequestArguments::of(&GetattrArguments { mask });
    let tid = world.ask(2, ClientRequest { arguments, ..request(ClientOp::GETATTR, "f") });
    world.finish();
    let renewal = ClientSession::new(SessionOp::REQUEST_RENEWCAPS, 1).encode(0);
    for _ in 0..61 {
        assert!(world.commands.is_empty(), "a session lasts a minute without a renewal");
        world.now = world.now + Duration::from_secs(1);
        world.send(2, &renewal);
        let now = world.now;
        world.rank().handle_timeout(now);
    }
    let now = world.now;
    let (client, addrs) = evictions::next(world.rank(), now).unwrap();
    assert_eq!(client, 1);
    assert!(world.clients[&2].asked.is_some(), "it waits for the blocklist");
    world.store.evict(client, &addrs);
    world.finish();
    assert!(world.commands[0].contains("10.0.0.1:0/77"), "{:?}", world.commands);
    assert_eq!(world.clients[&1].sessions.last(), Some(&SessionOp::CLOSE));
    assert_eq!(world.clients[&2].answers, [(tid, 0)]);
    assert_eq!(evictions::next(world.rank(), now), None);
    let file = Ino(world.paths()["/f"]);
    let ranges = |world: &mut World| world.rank().tree().get(file).unwrap().write_ranges.len();
    assert_eq!(ranges(&mut world), 1, "what the evicted client may have written is known");
    world.crash(0);
    world.finish();
    world.reconnect();
    assert_eq!(ranges(&mut world), 1);
}

fn lock_request(start: u64) -> ClientRequest {
    let (rule, kind, owner, pid, length, wait) = (1, 2, 9, 77, 10, 0);
    let lock = FileLockArguments { rule, kind, owner, pid, start, length, wait };
    let arguments = RequestArguments::of(&lock);
    ClientRequest { arguments, ..request(ClientOp::SETFILELOCK, "f") }
}

#[test]
fn file_locks_that_a_client_claims_outlive_the_server() {
    let mut world = World::new(&[1, 2]);
    world.ask(1, create("f"));
    world.finish();
    world.ask(1, lock_request(5));
    world.finish();
    let ino = world.paths()["/f"];
    // One POSIX lock, no `flock`, as ceph-fuse writes them.
    let mut w = Writer::new();
    w.u32(1);
    [5, 10, 0, 9, 77].into_iter().for_each(|number| w.u64(number));
    w.u8(2);
    w.u32(0);
    world.clients.get_mut(&1).unwrap().locks.insert(ino, w.into_bytes());
    world.crash(0);
    world.finish();
    world.reconnect();
    for (start, expected) in [(0, Errno::AGAIN.negative()), (15, 0)] {
        let tid = world.ask(2, lock_request(start));
        world.finish();
        assert_eq!(world.clients[&2].answers.last(), Some(&(tid, expected)), "from {start}");
    }
}

#[test]
fn a_range_that_no_client_claims_ends() {
    let mut world = World::new(&[1, 2]);
    for (client, name) in [(1, "f"), (2, "g")] {
        world.ask(client, create(name));
        world.finish();
    }
    let inodes = world.paths();
    world.clients.get_mut(&2).unwrap().caps.remove(&inodes["/g"]);
    world.crash(0);
    world.finish();
    world.reconnect();
    world.finish();
    let ranges = ["/f", "/g"].map(|path| {
        let inode = world.rank().tree().get(Ino(inodes[path])).unwrap();
        inode.write_ranges.len()
    });
    assert_eq!(ranges, [1, 0]);
}

/// Two clients that have `f`, and a successor to which neither has come back.
fn shared_file_after_a_crash(is_unlinked: bool) -> (World, u64) {
    let mut world = World::new(&[1, 2]);
    world.ask(1, create("f"));
    world.finish();
    let ino = world.paths()["/f"];
    let mask = CapBits::PIN | CapBits::ANY_SHARED;
    let arguments = RequestArguments::of(&GetattrArguments { mask });
    world.ask(2, ClientRequest { arguments, ..request(ClientOp::GETATTR, "f") });
    world.finish();
    if is_unlinked {
        world.ask(1, request(ClientOp::UNLINK, "f"));
        world.finish();
    }
    assert!(world.clients[&1].caps.contains_key(&ino) && world.clients[&2].caps.contains_key(&ino));
    world.crash(0);
    world.finish();
    let now = world.now;
    reconnect::begin(world.rank(), now);
    (world, ino)
}

#[test]
fn an_open_file_without_a_name_outlives_a_session_that_ends_before_all_have_claimed() {
    let (mut world, ino) = shared_file_after_a_crash(true);
    world.claim(1);
    world.send(1, &ClientReconnect::default().encode(0));
    world.finish();
    assert_eq!(world.clients[&1].sessions.last(), Some(&SessionOp::CLOSE));
    world.claim(2);
    world.finish();
    assert!(world.clients[&2].caps.contains_key(&ino), "the claim of its holder is accepted");
    world.activate();
    world.finish();
    assert!(world.rank().tree().get(Ino(ino)).is_some());
}

#[test]
fn nothing_is_granted_before_all_clients_have_claimed() {
    let (mut world, ino) = shared_file_after_a_crash(false);
    let issued = CapBits::PIN | CapBits::FILE_READ | CapBits::FILE_WRITE;
    let wanted = issued | CapBits::FILE_CACHE | CapBits::FILE_BUFFER;
    for client in [1, 2] {
        let (cap_id, _) = world.clients[&client].caps[&ino];
        world.clients.get_mut(&client).unwrap().caps.insert(ino, (cap_id, issued));
        let claim = ClaimedCap { cap_id, issued, wanted, ..ClaimedCap::default() };
        let caps = [(ino, claim)].into_iter().collect();
        let claims = ClientReconnect { caps, realms: Vec::new(), more: false };
        world.send(client, &claims.encode(0));
    }
    // The first one loses its connection again, and its session.
    world.send(1, &ClientReconnect::default().encode(0));
    world.finish();
    assert_eq!(world.clients[&2].caps[&ino].1, issued, "others could have claims, too");
    world.activate();
    world.finish();
    assert!(world.clients[&2].caps[&ino].1.contains(wanted));
}

#[test]
fn a_session_with_large_inodes_ends_by_records_that_fit_into_frames() {
    let mut world = World::new(&[1]);
    for number in 0..80 {
        let name = format!("f{number}");
        world.ask(1, create(&name));
        world.finish();
        let path2 = FilePath::new(0, "user.x");
        let data = Bytes::from(vec![7; 60_000]);
        world.ask(1, ClientRequest { path2, data, ..request(ClientOp::SETXATTR, &name) });
        world.finish();
    }
    reconnect::connected_anew(world.rank(), &peer(1));
    world.finish();
    assert_eq!(world.clients[&1].sessions.last(), Some(&SessionOp::CLOSE));
}

#[test]
fn what_a_client_wrote_by_rights_that_it_gave_back_is_taken_after_a_crash() {
    let mut world = World::new(&[1]);
    world.ask(1, create("f"));
    world.finish();
    let ino = world.paths()["/f"];
    let (cap_id, _) = world.clients[&1].caps[&ino];
    let kept = CapBits::PIN | CapBits::AUTH_SHARED;
    let flush = ClientCaps {
        op: CapOp::FLUSH,
        ino,
        cap_id,
        seq: 1,
        caps: kept,
        dirty: CapBits::FILE_WRITE,
        size: 5,
        truncate_seq: 1,
        ..ClientCaps::default()
    };
    world.send(1, &flush.encode(0).with_tid(3));
    // The frame is lost; the client sends the flush again before its claims, which do not have the bit.
    world.crash(0);
    world.finish();
    world.send(1, &flush.encode(0).with_tid(3));
    world.clients.get_mut(&1).unwrap().caps.insert(ino, (cap_id, kept));
    world.reconnect();
    world.finish();
    assert_eq!(world.rank().tree().get(Ino(ino)).unwrap().size, 5);
}

#[test]
fn a_claim_of_an_inode_that_is_gone_is_dropped() {
    let mut world = World::new(&[1]);
    world.crash(0);
    world.finish();
    world.clients.get_mut(&1).unwrap().caps.insert(0x999, (5, CapBits::PIN));
    world.reconnect();
    assert!(!world.clients[&1].caps.contains_key(&0x999));
}

#[test]
fn a_failed_write_ends_the_server_without_a_reply() {
    for (error, told) in [(Errno::IO, "journal"), (Errno::BLOCKLISTED, "shut out")] {
        let mut world = World::new(&[1]);
        world.ask(1, mkdir("a"));
        let (task, id, _) = world.pending.remove(0);
        world.store.handle_response(world.rank.as_mut(), task, id, Err(error));
        world.pump();
        assert!(world.reason().contains(told), "{}", world.reason());
        assert!(world.clients[&1].answers.is_empty());
    }
}

/// Why a successor does not open a journal with this record.
fn opened_with(record: fsjournal::RawRecord) -> Failure {
    let mut world = World::new(&[1]);
    world.ask(1, mkdir("a"));
    world.finish();
    let start = fsjournal::Chain { generation: 1, lsn: 1, crc: 0 };
    let (frame, _) = fsjournal::encode_frame(&start, fsjournal::Sealed::No, &[record]);
    let name = Bytes::from_static(b"journal.0.1.0");
    world.pool.objects.get_mut(&name).expect("it was written").data = frame.to_vec();
    world.crash(0);
    while !world.pending.is_empty() {
        world.answer(0);
    }
    assert!(world.reason().contains("journal.0.1.0"), "{}", world.reason());
    world.store.failure().expect("it is not opened").clone()
}

#[test]
fn a_journal_that_does_not_decode_is_damage() {
    let torn = fsjournal::RawRecord { kind: 1, version: 1, body: Bytes::from_static(b"\x05") };
    let failure = opened_with(torn);
    assert!(matches!(failure, Failure::Damage(_)), "{failure:?}");
}

#[test]
fn a_journal_of_a_newer_version_waits_for_a_newer_server() {
    for (kind, version) in [(99, 1), (1, 2)] {
        let failure = opened_with(fsjournal::RawRecord { kind, version, body: Bytes::new() });
        let Failure::Passing(reason) = failure else { panic!("{failure:?}") };
        assert!(reason.contains("too old"), "{reason}");
    }
}

#[test]
fn a_pool_of_another_file_system_is_refused() {
    let world = World::new(&[]);
    let mut other =
        World { store: Store::open(START, Setup { id: [8; 16], ..setup(true) }), ..world };
    other.rank = None;
    other.pump();
    while !other.pending.is_empty() {
        other.answer(0);
    }
    let failure = other.store.failure().expect("it is not opened");
    // The same rank can be made in another pool.
    assert!(matches!(failure, Failure::Passing(reason) if reason.contains("another file system")));
}

#[derive(Debug, Clone)]
enum Step {
    /// A client that waits for nothing sends a request.
    Ask(u64, u8, u8, u8),
    Answer(usize),
    /// A client drops what it has of removed files.
    Release(u64),
    /// 31 s pass, so a checkpoint begins if none runs.
    Wait,
    /// Bits: what is stored of what is in flight. Then how many requests of the opening are answered before
    /// the successor crashes, too.
    Crash(u64, Option<u8>),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (1u64..4, 0u8..8, 0u8..4, 0u8..4).prop_map(|(c, op, a, b)| Step::Ask(c, op, a, b)),
        12 => any::<usize>().prop_map(Step::Answer),
        3 => (1u64..4).prop_map(Step::Release),
        2 => Just(Step::Wait),
        1 => (any::<u64>(), prop::option::of(0u8..20)).prop_map(|(bits, n)| Step::Crash(bits, n)),
    ]
}

/// A request of a client below its own directory.
fn request_of(client: u64, op: u8, a: u8, b: u8) -> ClientRequest {
    let one = format!("c{client}/{a}");
    match op {
        0 => mkdir(&one),
        1 => create(&format!("{one}/{b}")),
        2 => request(ClientOp::UNLINK, &format!("{one}/{b}")),
        3 => request(ClientOp::RMDIR, &one),
        4 => rename(&one, &format!("c{client}/{b}/x")),
        // Few names, so that most removals find a file.
        5 => create(&format!("c{client}/f{}", a % 2)),
        6 => request(ClientOp::UNLINK, &format!("c{client}/f{}", a % 2)),
        _ => rename(&format!("c{client}/f{}", a % 2), &format!("c{client}/f{}", b % 2)),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn crashes_are_not_seen_in_answers_and_names(steps in prop::collection::vec(step(), 1..120)) {
        let clients = [1, 2, 3];
        let mut world = World::new(&clients);
        // The same requests without a crash, each executed when it is first sent.
        let mut plain = World::new(&clients);
        for client in clients {
            for world in [&mut world, &mut plain] {
                world.ask(client, mkdir(&format!("c{client}")));
                world.finish();
            }
        }
        for step in &steps {
            match step {
                Step::Ask(client, op, a, b) if world.clients[client].asked.is_none() => {
                    let request = request_of(*client, *op, *a, *b);
                    plain.tid = world.tid;
                    plain.ask(*client, request.clone());
                    plain.finish();
                    world.ask(*client, request);
                }
                Step::Ask(..) => {}
                Step::Answer(which) => world.answer(*which),
                Step::Release(client) => world.release(*client),
                Step::Wait => {
                    world.now = world.now + Duration::from_secs(31);
                    world.pump();
                }
                Step::Crash(stored, again) => {
                    world.crash(*stored);
                    for _ in 0..again.unwrap_or(0) {
                        world.answer(0);
                    }
                    if again.is_some() {
                        world.crash(*stored);
                    }
                    world.finish();
                    world.reconnect();
                }
            }
        }
        world.finish();
        world.crash(0);
        world.finish();
        world.reconnect();
        world.finish();
        world.check_data(false);
        clients.into_iter().for_each(|client| world.release(client));
        world.finish();
        world.check_data(true);
        let names = |world: &mut World| world.paths().into_keys().collect::<Vec<_>>();
        prop_assert_eq!(names(&mut world), names(&mut plain));
        for client in clients {
            prop_assert!(world.clients[&client].asked.is_none(), "client {} has its answer", client);
            prop_assert_eq!(&world.clients[&client].answers, &plain.clients[&client].answers);
        }
    }
}
