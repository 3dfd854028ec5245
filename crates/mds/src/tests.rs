//! Clients against a rank, by messages.

mod asynchronous;
mod attributes;
mod layouts;
mod permissions;
mod quotas;
mod reclaims;
mod sharing;
mod snapshots;

use crate::layouts::DataPools;
use crate::rank::reconnect;
use crate::{ClientPeer, Rank};
use bytes::Bytes;
use engine::{Duration, Message, Time};
use types::{EntityName, Epoch, Errno, PoolId, UTime};
use wire::client_request::{MkdirArguments, OpenArguments, ReaddirArguments, SetattrArguments};
use wire::*;

/// Clients, and messages to them that they have not read.
struct World {
    rank: Rank,
    now: Time,
    inboxes: std::collections::BTreeMap<u64, Vec<Message>>,
    tid: u64,
    /// Clients that may not do everything.
    limited: std::collections::BTreeMap<u64, ClientPeer>,
}

fn peer(client: u64) -> ClientPeer {
    let name = EntityName::new(types::EntityType::CLIENT, client.to_string());
    ClientPeer {
        client,
        name,
        addrs: "v2:10.0.0.1:0/77".parse().map(types::EntityAddrVec::one).expect("an address"),
        address: None,
        caps: std::sync::Arc::new(auth::MdsCaps::allow_all()),
    }
}

/// The data pools, by maps of an epoch.
fn pools(epoch: u32) -> DataPools {
    let names = [(PoolId(3), "data".to_owned()), (PoolId(5), "fast".to_owned())].into();
    DataPools { names, map_epoch: epoch, osd_epoch: Epoch(epoch), ..DataPools::default() }
}

impl World {
    fn new(clients: &[u64]) -> Self {
        let rank = Rank::new(Time(1_000_000_000), PoolId(3));
        let mut world = World {
            rank,
            now: Time(2_000_000_000),
            inboxes: Default::default(),
            tid: 0,
            limited: Default::default(),
        };
        world.rank.set_data_pools(&pools(1));
        for client in clients {
            world.open(*client);
        }
        world
    }

    fn open(&mut self, client: u64) {
        self.open_with(client, u64::MAX - session_features::DELEG_INO);
    }

    fn open_with(&mut self, client: u64, features: u64) {
        let features = FeatureBits(features);
        let open = ClientSession { features, ..ClientSession::new(SessionOp::REQUEST_OPEN, 0) };
        self.send(client, &open.encode(0));
        let answer: ClientSession = self.take(client);
        assert_eq!(answer.op, SessionOp::OPEN);
    }

    fn send(&mut self, client: u64, message: &Message) {
        let peer = self.limited.get(&client).cloned().unwrap_or_else(|| peer(client));
        reconnect::handle_message(&mut self.rank, self.now, &peer, message).unwrap();
        self.take_outputs();
    }

    /// Time passes, and the rank's timeouts with it.
    fn pass(&mut self, duration: Duration) {
        let until = self.now + duration;
        while let Some(due) = self.rank.poll_timeout().filter(|due| *due <= until) {
            self.now = self.now.max(due);
            self.rank.handle_timeout(self.now);
        }
        self.now = until;
        self.take_outputs();
    }

    fn take_outputs(&mut self) {
        self.rank.check_invariants();
        while let Some((to, message)) = self.rank.poll_output() {
            self.inboxes.entry(to).or_default().push(message);
        }
    }

    /// The first message of a kind that a client has not read.
    fn try_take<T: MessageBody>(&mut self, client: u64) -> Option<(u64, T)> {
        let inbox = self.inboxes.entry(client).or_default();
        let at = inbox.iter().position(|message| message.kind == T::KIND)?;
        let message = inbox.remove(at);
        Some((message.tid, T::decode(&message).unwrap()))
    }

    fn take<T: MessageBody>(&mut self, client: u64) -> T {
        self.try_take(client).expect("there is a message").1
    }

    fn submit(&mut self, client: u64, request: ClientRequest) -> u64 {
        self.tid += 1;
        let stamp = UTime { seconds: 100 + self.tid as u32, nanoseconds: 0 };
        let request = ClientRequest { stamp, uid: 5, gid: 6, ..request };
        self.send(client, &request.encode(0).with_tid(self.tid));
        self.tid
    }

    fn ask(&mut self, client: u64, request: ClientRequest) -> ClientReply {
        let tid = self.submit(client, request);
        let (answered, reply) = self.try_take::<ClientReply>(client).expect("it is answered");
        assert_eq!(answered, tid);
        reply
    }

    fn create(&mut self, client: u64, path: &'static str) -> InodeStat {
        self.ask(client, create(path)).target.expect("it was created")
    }

    /// The first message about an inode that a client has not read.
    fn take_about(&mut self, client: u64, ino: u64) -> ClientCaps {
        let inbox = self.inboxes.entry(client).or_default();
        let is_about = |message: &Message| {
            message.kind == ClientCaps::KIND && ClientCaps::decode(message).unwrap().ino == ino
        };
        let at = inbox.iter().position(is_about).expect("there is a message about it");
        ClientCaps::decode(&inbox.remove(at)).unwrap()
    }

    /// A client that gives back what it is asked for; returns the message.
    fn obey(&mut self, client: u64, change: impl FnOnce(&mut ClientCaps)) -> ClientCaps {
        let asked: ClientCaps = self.take(client);
        self.answer(client, asked, change)
    }

    fn answer(
        &mut self,
        client: u64,
        asked: ClientCaps,
        change: impl FnOnce(&mut ClientCaps),
    ) -> ClientCaps {
        assert_eq!(asked.op, CapOp::REVOKE);
        // The greatest size in a message of a client is one that it asks for.
        let mut answer = ClientCaps { op: CapOp::UPDATE, max_size: 0, ..asked.clone() };
        change(&mut answer);
        self.send(client, &answer.encode(0).with_tid(77));
        asked
    }
}

fn request(op: ClientOp, path: &'static str) -> ClientRequest {
    ClientRequest { op, path: FilePath::new(1, path), ..ClientRequest::default() }
}

/// A lookup of a client that needs all attributes.
fn look_up(path: &'static str) -> ClientRequest {
    let mask = CapBits::PIN | CapBits::ANY_SHARED;
    let arguments = RequestArguments::of(&wire::client_request::GetattrArguments { mask });
    ClientRequest { arguments, ..request(ClientOp::LOOKUP, path) }
}

fn mkdir(path: &'static str) -> ClientRequest {
    let arguments = RequestArguments::of(&MkdirArguments { mode: 0o755 });
    ClientRequest { arguments, ..request(ClientOp::MKDIR, path) }
}

fn create(path: &'static str) -> ClientRequest {
    let flags = open_flags::CREATE | open_flags::WRITE_ONLY;
    let arguments = OpenArguments { flags, mode: 0o644, ..OpenArguments::default() };
    let arguments = RequestArguments::of(&arguments);
    ClientRequest { arguments, ..request(ClientOp::CREATE, path) }
}

fn readdir(path: &'static str, max_entries: u32, after: Bytes) -> ClientRequest {
    let arguments = ReaddirArguments { max_entries, ..ReaddirArguments::default() };
    let arguments = RequestArguments::of(&arguments);
    let path2 = FilePath { ino: 0, path: after };
    ClientRequest { arguments, path2, ..request(ClientOp::READDIR, path) }
}

#[test]
fn a_client_without_the_needed_features_is_rejected() {
    let mut world = World::new(&[]);
    world.send(1, &ClientSession::new(SessionOp::REQUEST_OPEN, 0).encode(0));
    let answer: ClientSession = world.take(1);
    assert_eq!(answer.op, SessionOp::REJECT);
    assert!(answer.metadata["error_string"].contains("too old"));
    world.submit(1, mkdir("a"));
    assert_eq!(world.take::<ClientSession>(1).op, SessionOp::CLOSE);
}

#[test]
fn a_client_that_could_not_be_evicted_is_rejected() {
    for addr in ["v2:-/5", "v2:10.0.0.1:0/0", "cidr:10.0.0.0:0/8", ""] {
        let mut world = World::new(&[]);
        let addrs = match addr {
            "" => types::EntityAddrVec::default(),
            "cidr:10.0.0.0:0/8" => types::EntityAddrVec::one(types::EntityAddr {
                kind: types::AddrType::Cidr,
                ..types::EntityAddr::msgr2("10.0.0.0:0".parse().unwrap(), 8)
            }),
            "v2:-/5" => types::EntityAddrVec::one(types::EntityAddr {
                socket: None,
                ..types::EntityAddr::msgr2("10.0.0.0:0".parse().unwrap(), 5)
            }),
            addr => addr.parse().map(types::EntityAddrVec::one).unwrap(),
        };
        world.limited.insert(1, ClientPeer { addrs, ..peer(1) });
        let features = FeatureBits(u64::MAX);
        let open = ClientSession { features, ..ClientSession::new(SessionOp::REQUEST_OPEN, 0) };
        world.send(1, &open.encode(0));
        let answer: ClientSession = world.take(1);
        assert_eq!(answer.op, SessionOp::REJECT, "{addr}");
        assert!(answer.metadata["error_string"].contains("evicted"));
    }
}

#[test]
fn a_full_metadata_pool_refuses_what_is_new_and_lets_removals_go_on() {
    let mut world = World::new(&[1]);
    world.create(1, "old");
    world.ask(1, mkdir("dir"));
    world.rank.set_data_pools(&DataPools { is_short: true, is_full: true, ..pools(2) });
    let full = Errno::NOSPC.negative();
    assert_eq!(world.ask(1, create("new")).result, full);
    assert_eq!(world.ask(1, mkdir("more")).result, full);
    assert_eq!(world.ask(1, create("old")).result, 0, "an open makes nothing");
    assert_eq!(world.ask(1, request(ClientOp::UNLINK, "old")).result, 0);
    assert_eq!(world.ask(1, request(ClientOp::RMDIR, "dir")).result, 0);
    world.rank.set_data_pools(&pools(3));
    world.create(1, "new");
}

#[test]
fn a_client_that_tells_too_much_about_itself_is_rejected() {
    let mut world = World::new(&[]);
    let open = ClientSession {
        features: FeatureBits(u64::MAX),
        metadata: [("hostname".to_owned(), "x".repeat(20_000))].into(),
        ..ClientSession::new(SessionOp::REQUEST_OPEN, 0)
    };
    world.send(1, &open.encode(0));
    assert_eq!(world.take::<ClientSession>(1).op, SessionOp::REJECT);
}

#[test]
fn attributes_that_do_not_decode_are_not_acknowledged() {
    let mut world = World::new(&[1]);
    let file = world.create(1, "file");
    let flush = ClientCaps {
        op: CapOp::FLUSH,
        ino: file.ino,
        cap_id: file.cap.cap_id,
        seq: file.cap.seq,
        caps: file.cap.caps,
        dirty: CapBits::XATTR_EXCL,
        xattr_version: 9,
        xattrs: "no attributes".into(),
        ..ClientCaps::default()
    };
    let message = flush.encode(0);
    let now = world.now;
    let fault = reconnect::handle_message(&mut world.rank, now, &peer(1), &message).unwrap_err();
    assert!(matches!(fault, PeerFault::Undecodable { .. }), "{fault}");
    assert!(world.rank.poll_output().is_none());
}

#[test]
fn an_open_of_a_name_tells_the_name() {
    let mut world = World::new(&[1, 2]);
    let file = world.create(1, "file");
    let arguments = RequestArguments::of(&OpenArguments::default());
    let by_name = ClientRequest { arguments, ..request(ClientOp::OPEN, "file") };
    let by_number =
        ClientRequest { path: FilePath { ino: file.ino, path: Bytes::new() }, ..by_name.clone() };
    let told = |reply: ClientReply| reply.dentry.map(|dentry| dentry.name);
    assert_eq!(told(world.ask(1, by_name)), Some("file".into()));
    assert_eq!(told(world.ask(1, by_number)), None);
}

#[test]
fn a_special_file_is_no_directory() {
    let mut world = World::new(&[1]);
    for mode in [0o040_755, 0o120_777, 1 << 20] {
        let arguments =
            RequestArguments::of(&wire::client_request::MknodArguments { mode, rdev: 0 });
        let mknod = ClientRequest { arguments, ..request(ClientOp::MKNOD, "x") };
        assert_eq!(world.ask(1, mknod).result, Errno::INVAL.negative(), "{mode:o}");
    }
}

#[test]
fn a_client_makes_directories_and_files_and_reads_them() {
    let mut world = World::new(&[1]);
    let root = world.ask(1, request(ClientOp::GETATTR, ""));
    let root = root.target.unwrap();
    assert_eq!((root.ino, root.mode, root.cap.is_auth), (1, 0o40755, true));
    let reply = world.ask(1, mkdir("dir"));
    assert!(reply.is_safe && reply.dentry.is_some() && !reply.snap_trace.is_empty());
    let file = world.create(1, "dir/file");
    assert_eq!((file.mode, file.uid, file.gid), (0o100644, 5, 6));
    assert_eq!((file.layout.pool, file.max_size, file.truncate_seq), (PoolId(3), 4 << 20, 1));
    assert!(file.cap.caps.contains(CapBits::FILE_WRITE | CapBits::FILE_BUFFER));
    assert_eq!(world.ask(1, mkdir("dir")).result, Errno::EXIST.negative());
    assert_eq!(world.ask(1, mkdir("none/dir")).result, Errno::NOENT.negative());
    assert_eq!(world.ask(1, request(ClientOp::LOOKUP, "none")).result, Errno::NOENT.negative());
    assert_eq!(world.ask(1, request(ClientOp::RMDIR, "dir")).result, Errno::NOTEMPTY.negative());
    assert_eq!(world.ask(1, request(ClientOp::UNLINK, "dir/file")).result, 0);
    assert_eq!(world.ask(1, request(ClientOp::RMDIR, "dir")).result, 0);
}

#[test]
fn a_directory_is_read_in_pages() {
    let mut world = World::new(&[1]);
    for name in ["a", "b", "c", "d", "e"] {
        world.create(1, name);
    }
    let (mut after, mut names) = (Bytes::new(), Vec::new());
    loop {
        let extra = world.ask(1, readdir("", 2, after)).extra;
        let page: DirectoryPage = codec::decode_all("page", &extra).unwrap();
        names.extend(page.entries.iter().map(|entry| entry.name.clone()));
        assert_eq!(page.flags & readdir_flags::FRAG_COMPLETE, 0, "no page has all entries");
        if page.flags & readdir_flags::FRAG_END != 0 {
            break;
        }
        after = names.last().unwrap().clone();
    }
    assert!(names.is_sorted_by_key(|name| namespace::name_hash(name)));
    names.sort();
    assert_eq!(names, ["a", "b", "c", "d", "e"]);
    let all = world.ask(1, readdir("", 0, Bytes::new())).extra;
    let page: DirectoryPage = codec::decode_all("page", &all).unwrap();
    assert_ne!(page.flags & readdir_flags::FRAG_COMPLETE, 0);
}

#[test]
fn a_page_of_large_entries_is_short() {
    let mut world = World::new(&[1]);
    for name in ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k"] {
        world.create(1, name);
        let path2 = FilePath { ino: 0, path: "user.x".into() };
        let data = Bytes::from(vec![7; 60_000]);
        let set = ClientRequest { path2, data, ..request(ClientOp::SETXATTR, name) };
        world.submit(1, set);
        // Its client could have changed it by itself, and would not take the value from the reply.
        assert!(world.obey_oldest(1));
        assert_eq!(world.take::<ClientReply>(1).result, 0);
    }
    let (mut after, mut pages) = (Bytes::new(), Vec::new());
    loop {
        let extra = world.ask(1, readdir("", 0, after)).extra;
        assert!(extra.len() <= 512 << 10, "{} bytes", extra.len());
        let page: DirectoryPage = codec::decode_all("page", &extra).unwrap();
        assert_eq!(page.flags & readdir_flags::FRAG_COMPLETE, 0, "no page has all entries");
        pages.push(page.entries.len());
        if page.flags & readdir_flags::FRAG_END != 0 {
            break;
        }
        after = page.entries.last().unwrap().name.clone();
    }
    assert_eq!(pages, [8, 3]);
}

#[test]
fn a_size_beyond_the_range_is_cut_and_a_larger_range_is_granted() {
    let mut world = World::new(&[1]);
    let file = world.create(1, "file");
    let update = |max_size, size, dirty| ClientCaps {
        op: CapOp::UPDATE,
        ino: file.ino,
        cap_id: file.cap.cap_id,
        seq: file.cap.seq,
        caps: file.cap.caps,
        wanted: file.cap.wanted,
        truncate_seq: 1,
        max_size,
        size,
        dirty,
        ..ClientCaps::default()
    };
    world.send(1, &update(0, 1 << 40, CapBits::FILE_WRITE).encode(0));
    assert_eq!(world.ask(1, request(ClientOp::GETATTR, "file")).target.unwrap().size, 4 << 20);
    world.take::<ClientCaps>(1);
    world.send(1, &update(10 << 20, 0, CapBits::NONE).encode(0));
    let granted: ClientCaps = world.take(1);
    assert_eq!((granted.op, granted.max_size), (CapOp::GRANT, 24 << 20));
}

#[test]
fn no_file_is_larger_than_the_map_allows() {
    let mut world = World::new(&[1]);
    world.rank.set_max_file_size(1 << 30);
    let file = world.create(1, "file");
    let resize = |size| {
        let set = SetattrArguments { mask: setattr_mask::SIZE, size, ..Default::default() };
        let arguments = RequestArguments::of(&set);
        ClientRequest { arguments, ..request(ClientOp::SETATTR, "file") }
    };
    assert_eq!(world.ask(1, resize((1 << 30) + 1)).result, Errno::FBIG.negative());
    let wants = ClientCaps {
        op: CapOp::UPDATE,
        ino: file.ino,
        cap_id: file.cap.cap_id,
        seq: 9,
        issue_seq: 9,
        caps: file.cap.caps,
        wanted: file.cap.wanted,
        max_size: u64::MAX,
        ..ClientCaps::default()
    };
    world.send(1, &wants.encode(0));
    let inode = world.rank.tree().get(namespace::Ino(file.ino)).unwrap();
    let end = inode.write_ranges[&1].end;
    assert!((1 << 30..8 << 30).contains(&end), "{end:x}");
}

#[test]
fn a_client_that_has_a_file_alone_enlarges_it_beyond_its_range() {
    let mut world = World::new(&[1]);
    let file = world.create(1, "file");
    assert!(file.cap.caps.contains(CapBits::FILE_EXCL));
    let enlarged = ClientCaps {
        op: CapOp::FLUSH,
        ino: file.ino,
        cap_id: file.cap.cap_id,
        seq: file.cap.seq,
        caps: file.cap.caps,
        wanted: file.cap.wanted,
        size: 100 << 20,
        dirty: CapBits::FILE_EXCL,
        ..ClientCaps::default()
    };
    world.send(1, &enlarged.encode(0));
    assert_eq!(world.ask(1, request(ClientOp::GETATTR, "file")).target.unwrap().size, 100 << 20);
    let beyond = ClientCaps { size: 5 << 40, ..enlarged };
    world.send(1, &beyond.encode(0));
    let stat = world.ask(1, request(ClientOp::GETATTR, "file")).target.unwrap();
    assert_eq!(stat.size, 1 << 40, "no file is larger than the map allows");
}

#[test]
fn a_change_that_is_sent_again_is_not_executed_again() {
    let mut world = World::new(&[1]);
    let first = world.ask(1, create("file"));
    let again = ClientRequest { retries: 1, ..create("file") };
    world.send(1, &again.encode(0).with_tid(world.tid));
    let reply: ClientReply = world.take(1);
    assert_eq!((reply.result, &reply.extra), (0, &first.extra));
    // The client may write at once, as after the first reply, which it has not seen.
    let (shown, first) = (reply.target.expect("it is shown again"), first.target.unwrap());
    assert_eq!(shown.ino, first.ino);
    assert!(shown.cap.caps.contains(CapBits::FILE_WRITE), "{}", shown.cap.caps);
    // When the client has seen the reply, the number may mean another request.
    let later = ClientRequest { oldest_client_tid: world.tid + 1, ..mkdir("dir") };
    world.send(1, &later.encode(0).with_tid(world.tid));
    assert!(world.take::<ClientReply>(1).target.is_some());
}

#[test]
fn a_change_that_is_sent_again_while_it_waits_is_executed_once() {
    let mut world = World::new(&[1, 2]);
    world.create(1, "file");
    world.submit(2, request(ClientOp::UNLINK, "file"));
    let again = ClientRequest { retries: 1, ..request(ClientOp::UNLINK, "file") };
    world.send(2, &again.encode(0).with_tid(world.tid));
    while world.obey_oldest(1) {}
    assert_eq!(world.take::<ClientReply>(2).result, 0);
    assert!(world.try_take::<ClientReply>(2).is_none(), "there is one answer");
}

#[test]
fn a_client_with_too_many_waiting_requests_is_refused_and_others_are_not() {
    let mut world = World::new(&[1, 2, 3]);
    world.create(1, "file");
    for _ in 0..1024 {
        world.submit(2, look_up("file"));
    }
    assert!(world.try_take::<ClientReply>(2).is_none());
    let refused = world.ask(2, look_up("file"));
    assert_eq!(refused.result, Errno::AGAIN.negative());
    world.submit(3, look_up("file"));
    assert!(world.try_take::<ClientReply>(3).is_none(), "it waits");
    while world.obey_oldest(1) {}
    assert_eq!(world.take::<ClientReply>(3).result, 0);
    let answers = std::iter::from_fn(|| world.try_take::<ClientReply>(2)).count();
    assert_eq!(answers, 1024);
}

#[test]
fn an_open_file_outlives_its_name_until_it_is_released() {
    let mut world = World::new(&[1]);
    let file = world.create(1, "file");
    world.ask(1, request(ClientOp::UNLINK, "file"));
    let by_ino = |ino| ClientRequest {
        path: FilePath { ino, path: Bytes::new() },
        ..request(ClientOp::GETATTR, "")
    };
    let stat = world.ask(1, by_ino(file.ino)).target.unwrap();
    assert_eq!(stat.nlink, 0);
    let item = CapItem { ino: file.ino, cap_id: file.cap.cap_id, mseq: 0, issue_seq: stat.cap.seq };
    let release = ClientCapRelease { items: vec![item], osd_epoch_barrier: 0 };
    world.send(1, &release.encode(0));
    assert_eq!(world.ask(1, by_ino(file.ino)).result, Errno::STALE.negative());
}

#[test]
fn a_session_closes_when_the_client_has_seen_all_capabilities() {
    let mut world = World::new(&[1, 2]);
    world.create(1, "file");
    world.submit(2, look_up("file"));
    // A revocation is on its way to the client.
    world.send(1, &ClientSession::new(SessionOp::REQUEST_CLOSE, 0).encode(0));
    assert!(world.try_take::<ClientSession>(1).is_none());
    world.send(1, &ClientSession::new(SessionOp::REQUEST_CLOSE, 1).encode(0));
    assert_eq!(world.take::<ClientSession>(1).op, SessionOp::CLOSE);
    assert_eq!(world.take::<ClientReply>(2).result, 0, "nothing holds the request back any more");
}

#[test]
fn a_client_takes_links_and_attributes_from_the_replies_to_its_requests() {
    let mut world = World::new(&[1]);
    world.create(1, "file");
    let link = ClientRequest { path2: FilePath::new(1, "file"), ..request(ClientOp::LINK, "link") };
    let stat = world.ask(1, link).target.unwrap();
    assert_eq!(stat.nlink, 2);
    assert!(!stat.cap.caps.contains(CapBits::LINK_EXCL), "{}", stat.cap.caps);
    let path2 = FilePath { ino: 0, path: "user.x".into() };
    let set = ClientRequest { path2, data: "1".into(), ..request(ClientOp::SETXATTR, "file") };
    world.submit(1, set);
    // With `Xx` it would not take them.
    let asked = world.obey(1, |_| ());
    assert!(!asked.caps.contains(CapBits::XATTR_EXCL), "{}", asked.caps);
    assert!(!world.take::<ClientReply>(1).target.unwrap().xattrs.is_empty());
}

#[test]
fn a_later_run_takes_other_numbers_for_files() {
    let mut numbers = [1_800_000_000u64, 1_800_000_001].map(|seconds| {
        let mut world = World::new(&[]);
        world.rank = Rank::new(Time(seconds * 1_000_000_000), PoolId(3));
        world.open(1);
        world.create(1, "file").ino
    });
    numbers.sort_unstable();
    assert!(numbers[0] > 1 << 40 && numbers[1] > numbers[0] + 4000, "{numbers:?}");
}

#[test]
fn a_client_tells_the_size_that_it_has_written_before_it_cuts_the_file() {
    let mut world = World::new(&[1]);
    world.create(1, "file");
    let arguments = SetattrArguments { size: 3, mask: setattr_mask::SIZE, ..Default::default() };
    let arguments = RequestArguments::of(&arguments);
    world.submit(1, ClientRequest { arguments, ..request(ClientOp::SETATTR, "file") });
    assert!(world.try_take::<ClientReply>(1).is_none(), "the server does not know the size");
    let asked = world.obey(1, |answer| {
        answer.size = 11;
        answer.dirty = CapBits::FILE_WRITE;
    });
    assert_eq!(asked.caps.to_string(), "pAsxLsXsxFscb");
    let stat = world.take::<ClientReply>(1).target.unwrap();
    assert_eq!((stat.size, stat.truncate_seq, stat.truncate_size), (3, 2, 3));
    // The same by opening it.
    let flags = open_flags::TRUNCATE | open_flags::WRITE_ONLY;
    let arguments = RequestArguments::of(&OpenArguments { flags, ..OpenArguments::default() });
    world.submit(1, ClientRequest { arguments, ..request(ClientOp::OPEN, "file") });
    let reply = match world.try_take::<ClientReply>(1) {
        Some((_, reply)) => reply,
        None => {
            while world.obey_oldest(1) {}
            world.take(1)
        }
    };
    assert_eq!(reply.target.unwrap().truncate_seq, 3);
}

#[test]
fn a_client_that_comes_back_to_an_active_server_gets_a_new_session() {
    let mut world = World::new(&[1, 2]);
    world.create(1, "file");
    world.send(1, &ClientReconnect::default().encode(0));
    assert_eq!(world.take::<ClientSession>(1).op, SessionOp::CLOSE);
    let found = world.ask(2, request(ClientOp::LOOKUP, "file"));
    assert_eq!(found.result, 0, "nothing of the first client's is waited for");
}

#[test]
fn a_directory_has_no_entry_for_itself_or_the_one_above() {
    let mut world = World::new(&[1]);
    world.ask(1, mkdir("dir"));
    for dots in ["dir/.", "dir/.."] {
        let removed = world.ask(1, request(ClientOp::RMDIR, dots)).result;
        assert_eq!(removed, Errno::NOTEMPTY.negative(), "{dots}");
        for (new, old) in [("new", dots), (dots, "dir")] {
            let path2 = FilePath::new(1, old);
            let renamed = world.ask(1, ClientRequest { path2, ..request(ClientOp::RENAME, new) });
            assert_eq!(renamed.result, Errno::BUSY.negative(), "{old} to {new}");
        }
    }
}

#[test]
fn a_rename_names_the_new_path_first() {
    let mut world = World::new(&[1]);
    let file = world.create(1, "old");
    let rename =
        ClientRequest { path2: FilePath::new(1, "old"), ..request(ClientOp::RENAME, "new") };
    let reply = world.ask(1, rename);
    assert_eq!((reply.target.unwrap().ino, reply.dentry.unwrap().name), (file.ino, "new".into()));
    assert_eq!(world.ask(1, request(ClientOp::LOOKUP, "old")).result, Errno::NOENT.negative());
}

fn random_request(step: u8, name: &'static str, other: &'static str) -> ClientRequest {
    let size = SetattrArguments { size: 9, mask: setattr_mask::SIZE, ..Default::default() };
    match step {
        0 => create(name),
        1 => mkdir(name),
        2 => look_up(name),
        3 => request(ClientOp::UNLINK, name),
        4 => request(ClientOp::RMDIR, name),
        5 => readdir("", 0, Bytes::new()),
        6 => ClientRequest {
            arguments: RequestArguments::of(&size),
            ..request(ClientOp::SETATTR, name)
        },
        _ => ClientRequest { path2: FilePath::new(1, other), ..request(ClientOp::RENAME, name) },
    }
}

impl World {
    /// The client gives back what its oldest revocation asks for, of a lease first; false if there is none.
    fn obey_oldest(&mut self, client: u64) -> bool {
        if let Some((_, asked)) = self.try_take::<ClientLease>(client) {
            assert_eq!(asked.action, ClientLease::REVOKE);
            let answer = ClientLease { action: ClientLease::REVOKE_ACK, ..asked };
            self.send(client, &answer.encode(0));
            return true;
        }
        while let Some((_, message)) = self.try_take::<ClientCaps>(client) {
            if message.op == CapOp::REVOKE {
                let answer = ClientCaps { op: CapOp::UPDATE, ..message };
                self.send(client, &answer.encode(0));
                return true;
            }
        }
        false
    }

    fn answers(&mut self) -> usize {
        let clients = [1, 2, 3];
        let count = |client| std::iter::from_fn(|| self.try_take::<ClientReply>(client)).count();
        clients.map(count).into_iter().sum()
    }
}

proptest::proptest! {
    #[test]
    fn every_request_is_answered_once_when_clients_give_back(
        steps in proptest::collection::vec((1u64..4, 0u8..10, 0usize..4, 0usize..4), 1..60)
    ) {
        const NAMES: [&str; 4] = ["a", "b", "c", "d/e"];
        let mut world = World::new(&[1, 2, 3]);
        let (mut submitted, mut answered) = (0, 0);
        for (client, step, name, other) in steps {
            match step {
                8.. => drop(world.obey_oldest(client)),
                _ => {
                    world.submit(client, random_request(step, NAMES[name], NAMES[other]));
                    submitted += 1;
                }
            }
            answered += world.answers();
        }
        while [1, 2, 3].map(|client| world.obey_oldest(client)).contains(&true) {
            answered += world.answers();
        }
        proptest::prop_assert_eq!(answered, submitted);
    }
}

#[test]
fn one_message_asks_for_the_right_to_write_and_for_a_range() {
    let mut world = World::new(&[1]);
    let file = world.create(1, "f");
    let none = CapBits::PIN | CapBits::AUTH_SHARED;
    let update = |caps, wanted, max_size| ClientCaps {
        op: CapOp::UPDATE,
        ino: file.ino,
        cap_id: file.cap.cap_id,
        seq: file.cap.seq,
        caps,
        wanted,
        max_size,
        ..ClientCaps::default()
    };
    // The file is closed, and what it may write is over; then it is opened without a request.
    world.send(1, &update(none, CapBits::NONE, 0).encode(0));
    world.send(1, &update(none, CapBits::FILE_WRITE, 9_000_000).encode(0));
    let sizes: Vec<u64> = std::iter::from_fn(|| world.try_take::<ClientCaps>(1))
        .map(
            |(_, granted)| {
                if granted.caps.contains(CapBits::FILE_WRITE) { granted.max_size } else { 0 }
            },
        )
        .collect();
    assert!(sizes.iter().any(|size| *size >= 9_000_000), "{sizes:?}");
}
