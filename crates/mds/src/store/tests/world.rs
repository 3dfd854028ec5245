//! A server over the model of the pools, and its clients.

use super::*;

/// Bits that a client assumes on a file that it has made.
const ASSUMED: CapBits = CapBits(
    CapBits::PIN.0
        | CapBits::ANY_SHARED.0
        | CapBits::AUTH_EXCL.0
        | CapBits::XATTR_EXCL.0
        | CapBits::FILE_EXCL.0
        | CapBits::FILE_CACHE.0
        | CapBits::FILE_READ.0
        | CapBits::FILE_WRITE.0
        | CapBits::FILE_BUFFER.0,
);

/// A client: the request that is not answered, and the capabilities that it has.
#[derive(Debug, Default)]
pub(super) struct Client {
    pub(super) asked: Option<(u64, ClientRequest)>,
    /// Asynchronous requests that are not answered.
    pub(super) sent: Vec<(u64, ClientRequest)>,
    /// Numbers that it may use for files that it creates.
    pub(super) numbers: VecDeque<u64>,
    /// Requests with an early reply, which are not said to be durable.
    pub(super) early: Vec<(u64, ClientRequest)>,
    pub(super) answers: Vec<(u64, i32)>,
    pub(super) caps: BTreeMap<u64, (u64, CapBits)>,
    pub(super) sessions: Vec<SessionOp>,
    /// Messages about realms.
    pub(super) realms: Vec<ClientSnap>,
    /// File locks that it claims, as they are encoded.
    pub(super) locks: BTreeMap<u64, Bytes>,
    /// Capabilities that it was told to drop.
    pub(super) exports: usize,
    /// It answers nothing.
    pub(super) is_silent: bool,
    /// The newest OSD map without which it may not use its capabilities.
    pub(super) barrier: u32,
    /// The same when its last request was answered.
    pub(super) answered_at: u32,
}

/// A server with its pool and its clients.
pub(super) struct World {
    pub(super) pool: Pool,
    pub(super) store: Store,
    pub(super) rank: Option<Rank>,
    pub(super) pending: Vec<(Task, ClusterRequestId, Operation)>,
    pub(super) commands: Vec<String>,
    /// Results of the monitor's next commands; then they succeed.
    pub(super) results: VecDeque<Result<i32, Errno>>,
    /// Pauses that have not elapsed.
    pub(super) pauses: Vec<(Task, ClusterRequestId)>,
    pub(super) clients: BTreeMap<u64, Client>,
    pub(super) tid: u64,
    pub(super) now: Time,
    /// Whether clients fill files that they have made long.
    pub(super) fills: bool,
    /// Truncations of files that clients know of, and their sizes.
    pub(super) cuts: BTreeMap<u64, BTreeMap<u32, u64>>,
    /// Data objects that clients have written.
    pub(super) written: BTreeSet<String>,
    /// Snapshots that the monitor was told to be gone.
    pub(super) removed: BTreeSet<SnapId>,
    /// The request that has created each inode, by client and number.
    pub(super) creators: BTreeMap<u64, (u64, u64)>,
}

impl World {
    /// A new file system whose server is active, with clients that ask before they act.
    pub(super) fn new(clients: &[u64]) -> Self {
        World::with_features(clients, u64::MAX - session_features::DELEG_INO)
    }

    /// The same with clients that create and unlink asynchronously.
    pub(super) fn asynchronous(clients: &[u64]) -> Self {
        World::with_features(clients, u64::MAX)
    }

    fn with_features(clients: &[u64], features: u64) -> Self {
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
            fills: false,
            cuts: BTreeMap::new(),
            written: BTreeSet::new(),
            removed: BTreeSet::new(),
            creators: BTreeMap::new(),
        };
        world.finish();
        world.activate();
        for client in clients {
            world.clients.insert(*client, Client::default());
            let features = FeatureBits(features);
            let open = ClientSession { features, ..ClientSession::new(SessionOp::REQUEST_OPEN, 0) };
            world.send(*client, &open.encode(0));
        }
        world.finish();
        world
    }

    pub(super) fn rank(&mut self) -> &mut Rank {
        self.rank.as_mut().expect("the rank is open")
    }

    pub(super) fn activate(&mut self) {
        let now = self.now;
        reconnect::activate(self.rank(), now);
        self.pump();
    }

    /// The end of a turn: requests to the pool, messages to clients.
    pub(super) fn pump(&mut self) {
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
                    ClusterRequest::Pool(request) => {
                        self.removed.insert(request.snap);
                        Ok(Reply::Pool { epoch: NEWEST_MAP, snap: None })
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

    pub(super) fn send(&mut self, client: u64, message: &Message) {
        let now = self.now;
        reconnect::handle_message(self.rank(), now, &peer(client), message).unwrap();
        self.pump();
    }

    /// Clients take their messages; whether there were any.
    pub(super) fn deliver(&mut self) -> bool {
        let Some(rank) = &mut self.rank else { return false };
        let messages: Vec<_> = std::iter::from_fn(|| rank.poll_output()).collect();
        for (to, message) in &messages {
            self.write_data(message);
            self.take_numbers(*to, message);
            if let Some(answer) = self.clients.entry(*to).or_default().take(message) {
                let now = self.now;
                reconnect::handle_message(self.rank(), now, &peer(*to), &answer).unwrap();
            }
        }
        !messages.is_empty()
    }

    /// A client that has created a file writes it at once, and one that has made it long may fill it.
    pub(super) fn write_data(&mut self, message: &Message) {
        let reply = (message.kind == ClientReply::KIND).then(|| ClientReply::decode(message));
        if let Some(Ok(ClientReply { target: Some(file), .. })) = reply
            && file.cap.caps.contains(CapBits::FILE_WRITE)
            && file.mode & 0o170_000 == 0o100_000
        {
            let is_first = self.written.insert(data_name(file.ino, 0));
            let objects = match is_first {
                true => 1,
                false if self.fills && file.size == LONG && message.tid.is_multiple_of(2) => 3,
                false => 0,
            };
            for object in 0..objects {
                let part = |bytes: u64| bytes.saturating_sub(object * OBJECT).min(OBJECT);
                let cut = (file.truncate_seq, part(file.truncate_size));
                self.pool.fill(&data_name(file.ino, object), part(file.size), cut);
            }
            let cuts = self.cuts.entry(file.ino).or_default();
            cuts.insert(file.truncate_seq, file.truncate_size);
        }
    }

    /// A client takes numbers that it is delegated; no inode has two creators.
    fn take_numbers(&mut self, client: u64, message: &Message) {
        let reply = (message.kind == ClientReply::KIND).then(|| ClientReply::decode(message));
        let Some(Ok(ClientReply { op: ClientOp::CREATE, extra, .. })) = reply else { return };
        let features = self.rank().features_of(client);
        if extra.is_empty() || features & session_features::DELEG_INO == 0 {
            return;
        }
        let told: CreatedInode = codec::decode_all("created inode", &extra).unwrap();
        let numbers = told.delegated.iter().flat_map(|(first, count)| *first..first + count);
        // The last ones, so that few steps use all.
        let numbers: Vec<u64> = numbers.filter(|number| number % 512 >= 508).collect();
        let state = self.clients.get_mut(&client).expect("it has a session");
        state.numbers.extend(numbers);
        if told.ino != 0 {
            let creator = (client, message.tid);
            let first = *self.creators.entry(told.ino).or_insert(creator);
            assert_eq!(first, creator, "{:x} is the number of two inodes", told.ino);
        }
    }

    /// No file shows data from before a truncation.
    pub(super) fn check_cuts(&mut self) {
        for ino in self.paths().into_values() {
            for (object, name) in (0..3).map(|object| (object, data_name(ino, object))) {
                let (Some(data), Some(cuts)) = (self.pool.data.get(&name), self.cuts.get(&ino))
                else {
                    continue;
                };
                for (written, length) in &data.fills {
                    let later = cuts.range(written + 1..).map(|(_, size)| *size);
                    let end = later.fold(u64::MAX, u64::min).saturating_sub(object * OBJECT);
                    assert!(*length <= end, "{name} has {data:?} behind {cuts:?}");
                }
            }
        }
    }

    /// A client drops its capabilities on inodes that have no name any more.
    pub(super) fn release(&mut self, client: u64) {
        let alive: BTreeSet<u64> = self.paths().into_values().chain([1]).collect();
        let caps = &mut self.clients.get_mut(&client).expect("it has a session").caps;
        let gone: Vec<_> = caps.extract_if(.., |ino, _| !alive.contains(ino)).collect();
        let item = |(ino, (cap_id, _))| CapItem { ino, cap_id, mseq: 0, issue_seq: u32::MAX };
        let items = gone.into_iter().map(item).collect();
        self.send(client, &ClientCapRelease { items, ..ClientCapRelease::default() }.encode(0));
    }

    /// No number that a client may use is that of an inode.
    pub(super) fn check_numbers(&mut self) {
        let orphans: Vec<u64> = self.rank().tree().orphans().iter().map(|ino| ino.0).collect();
        let used = self.paths().into_values().chain(orphans);
        let delegated = self.rank().delegated_numbers();
        let both: Vec<_> = used.into_iter().filter(|ino| delegated.contains(ino)).collect();
        assert!(both.is_empty(), "{both:x?} are used and delegated");
    }

    /// Files have their data; an open one without a name may, and `strict` says that there is none.
    pub(super) fn check_data(&mut self, strict: bool) {
        let alive: BTreeSet<u64> = self.paths().into_values().collect();
        for ino in &alive {
            let is_file = self.rank().tree().get(Ino(*ino)).unwrap().is_file();
            let name = data_name(*ino, 0);
            assert!(!is_file || self.pool.data.contains_key(&name), "{name} is lost");
        }
        for client in self.clients.values() {
            for ino in client.caps.keys().filter(|ino| **ino >= Ino::FIRST.0) {
                let name = data_name(*ino, 0);
                let is_file = self.written.contains(&name);
                assert!(!is_file || self.pool.data.contains_key(&name), "{name} was open");
            }
        }
        let is_left = |name: &&String| {
            (0..3).all(|object| alive.iter().all(|ino| data_name(*ino, object) != **name))
        };
        let left: Vec<_> = self.pool.data.keys().filter(is_left).collect();
        assert!(!strict || left.is_empty(), "{left:?} are left");
    }

    /// The pool answers a write that is the first on its object.
    pub(super) fn answer(&mut self, which: usize) {
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
    pub(super) fn finish(&mut self) {
        self.pump();
        loop {
            while !self.pending.is_empty() {
                self.answer(0);
            }
            let journal = self.rank.as_mut().and_then(|rank| rank.log_mut().journal());
            if journal.is_none_or(|journal| journal.framed() == journal.last()) {
                break;
            }
            self.collect();
        }
        assert_eq!(self.store.failure(), None);
    }

    /// Records have collected for long enough.
    pub(super) fn collect(&mut self) {
        self.now = self.now + Duration::from_millis(10);
        self.pump();
    }

    /// Why the rank cannot be served.
    pub(super) fn reason(&self) -> String {
        match self.store.failure().expect("it cannot be served") {
            Failure::ShutOut => "shut out".to_owned(),
            Failure::Passing(reason) | Failure::Damage(reason) => reason.clone(),
        }
    }

    /// The next client that must be evicted is; returns it.
    pub(super) fn evict(&mut self) -> u64 {
        let now = self.now;
        let (client, addrs) = evictions::next(self.rank(), now).expect("a client must be evicted");
        self.store.evict(client, &addrs);
        self.finish();
        client
    }

    /// All pauses elapse; returns how many there were.
    pub(super) fn elapse(&mut self) -> usize {
        let pauses = std::mem::take(&mut self.pauses);
        for (task, id) in &pauses {
            let answer = Ok(Reply::Operation(OperationReply::default()));
            self.store.handle_response(self.rank.as_mut(), *task, *id, answer);
        }
        self.pump();
        pauses.len()
    }

    pub(super) fn ask(&mut self, client: u64, request: ClientRequest) -> u64 {
        self.tid += 1;
        let stamp = UTime { seconds: 100 + self.tid as u32, nanoseconds: 0 };
        let request = ClientRequest { stamp, uid: 5, gid: 6, ..request };
        let message = request.encode(0).with_tid(self.tid);
        let client_state = self.clients.get_mut(&client).expect("it has a session");
        client_state.asked = Some((self.tid, request));
        self.send(client, &message);
        self.tid
    }

    /// A client sends a request on which it has acted already, if it can: it has a number for what it
    /// creates.
    pub(super) fn ask_asynchronously(&mut self, client: u64, request: ClientRequest) -> bool {
        let state = self.clients.get_mut(&client).expect("it has a session");
        let ino = match request.op {
            ClientOp::CREATE => state.numbers.pop_front(),
            _ => Some(0),
        };
        let Some(ino) = ino else { return false };
        self.tid += 1;
        let stamp = UTime { seconds: 100 + self.tid as u32, nanoseconds: 0 };
        let flags = client_flags::ASYNC;
        let request = ClientRequest { stamp, uid: 5, gid: 6, flags, ino, ..request };
        state.sent.push((self.tid, request.clone()));
        let message = request.encode(0).with_tid(self.tid);
        self.send(client, &message);
        true
    }

    /// The server dies; of what is in flight, `stored` says what is stored. A successor opens the rank.
    pub(super) fn crash(&mut self, stored: u64) {
        let mut lost = BTreeSet::new();
        for (at, (_, _, operation)) in std::mem::take(&mut self.pending).iter().enumerate() {
            if stored & (1 << (at % 64)) != 0 && !lost.contains(&operation.place.object) {
                let _ = self.pool.execute(operation);
            } else {
                lost.insert(operation.place.object.clone());
            }
        }
        fsck::assert_sound(&self.pool);
        self.rank = None;
        self.store = Store::open(self.now, setup(false));
        self.pump();
    }

    /// Clients come back, with requests that were not answered before their claims.
    pub(super) fn reconnect(&mut self) {
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
    pub(super) fn claim(&mut self, client: u64) {
        let state = self.clients.get_mut(&client).expect("it has a session");
        // Numbers are those of a session with one server.
        state.numbers.clear();
        let mut resent: Vec<_> = state.sent.iter().cloned().chain(state.asked.clone()).collect();
        resent.sort_by_key(|(tid, _)| *tid);
        let claim = |(ino, (cap_id, issued)): (&u64, &(u64, CapBits))| {
            let (cap_id, issued, wanted) = (*cap_id, *issued, *issued);
            let locks = state.locks.get(ino).cloned().unwrap_or_default();
            (*ino, ClaimedCap { cap_id, issued, wanted, locks, ..ClaimedCap::default() })
        };
        let caps = state.caps.iter().map(claim).collect();
        let replayed = state.early.clone().into_iter().map(|(tid, request)| {
            let flags = request.flags | client_flags::REPLAY;
            (tid, ClientRequest { flags, ..request })
        });
        for (tid, request) in replayed.chain(resent).collect::<Vec<_>>() {
            self.send(client, &request.encode(0).with_tid(tid));
        }
        let claims = ClientReconnect { caps, realms: Vec::new(), more: false };
        self.send(client, &claims.encode(0));
    }

    /// Snapshots by directory and name, with the names that they show.
    pub(super) fn snapshots(&mut self) -> BTreeMap<String, Vec<String>> {
        let tree = self.rank().tree();
        let mut found = BTreeMap::new();
        for (snap, directory) in tree.existing_snaps() {
            let (_, snapshot) = snapshots::get(tree, *snap).expect("it exists");
            let name =
                format!("{}/{}", tree.path(*directory), String::from_utf8_lossy(&snapshot.name));
            let mut open = vec![(String::new(), *directory)];
            let mut names = Vec::new();
            while let Some((path, ino)) = open.pop() {
                let inode = snapshots::inode_at(tree, ino, *snap).expect("an entry has an inode");
                let page = tree.page_at(ino, *snap, &PageStart::Begin, 1000);
                for (name, entry) in page.entries.into_iter().filter(|_| inode.is_directory()) {
                    let path = format!("{path}/{}", String::from_utf8_lossy(&name));
                    open.push((path, entry.ino));
                }
                names.push(path);
            }
            names.sort();
            found.insert(name, names);
        }
        found
    }

    /// The number of snapshots of which the monitor was told that they are gone.
    pub(super) fn removed_snapshots(&mut self) -> usize {
        assert!(self.rank().tree().snap_numbers().removed.is_empty(), "all are told");
        self.removed.len()
    }

    pub(super) fn paths(&mut self) -> BTreeMap<String, u64> {
        let rank = self.rank();
        paths(rank)
    }
}

pub(super) fn paths(rank: &Rank) -> BTreeMap<String, u64> {
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
    /// The reply to its last request was lost.
    pub(super) fn lose_reply(&mut self) {
        let (tid, request) = self.early.pop().expect("it has an early reply");
        self.answers.pop();
        self.caps.remove(&request.ino);
        self.asked = Some((tid, ClientRequest { ino: 0, ..request }));
    }

    /// The reply to an asynchronous request was lost, if it was the last one.
    pub(super) fn lose_last_reply(&mut self) {
        let last = self.answers.last().map(|(tid, _)| *tid);
        let is_last = |(tid, request): &mut (u64, ClientRequest)| {
            Some(*tid) == last && request.flags & client_flags::ASYNC != 0
        };
        if let Some((tid, request)) = self.early.pop_if(is_last) {
            self.answers.pop();
            if request.op == ClientOp::CREATE {
                self.caps.insert(request.ino, (1, ASSUMED));
            }
            self.sent.push((tid, request));
        }
    }

    /// Takes a message; returns the answer that the server waits for.
    pub(super) fn take(&mut self, message: &Message) -> Option<Message> {
        match message.kind {
            ClientReply::KIND => {
                let reply = ClientReply::decode(message).unwrap();
                let is_early = |(tid, _): &&(u64, ClientRequest)| *tid == message.tid;
                if self.early.iter().any(|early| is_early(&early)) {
                    self.early.retain(|early| !is_early(&early) || !reply.is_safe);
                    return None;
                }
                let sent = self.sent.extract_if(.., |sent| is_early(&&*sent)).next();
                let asked = sent.or_else(|| self.asked.take_if(|asked| is_early(&&*asked)));
                if let Some((tid, request)) = asked {
                    // It was executed, and its inode is gone.
                    let is_gone = reply.result == Errno::STALE.negative()
                        && request.is_asynchronous()
                        && request.op == ClientOp::CREATE;
                    let result = if is_gone { 0 } else { reply.result };
                    self.answers.push((message.tid, result));
                    self.answered_at = self.barrier;
                    let ino = reply.target.as_ref().map_or(0, |target| target.ino);
                    let is_create = request.op == ClientOp::CREATE && !reply.extra.is_empty();
                    assert!(
                        !is_create || request.ino == 0 || request.ino == ino,
                        "{ino:x} {request:?}"
                    );
                    let cap = reply.target.as_ref().map(|target| target.cap.cap_id);
                    assert!(
                        !is_create || request.ino == 0 || cap == Some(1),
                        "{cap:?} {request:?}"
                    );
                    if !reply.is_safe {
                        self.early.push((tid, ClientRequest { ino, ..request }));
                    }
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
                    CapOp::EXPORT => {
                        self.exports += 1;
                        self.caps.remove(&asked.ino);
                    }
                    CapOp::FLUSH_ACK | CapOp::TRUNC => {}
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
            ClientSnap::KIND => {
                self.realms.push(ClientSnap::decode(message).unwrap());
                None
            }
            _ => None,
        }
    }
}
