//! The client against a monitor and metadata servers of messages.

use crate::inode::{Inode, Step};
use crate::transfers::Cut;
use crate::{Answer, Call, CallId, Config, FsClient, Outcome};
use auth::Entropy;
use bytes::Bytes;
use engine::{ConnId, Daemon, Message, Output, Peer, Time};
use maps::{MdsInfo, MdsMap, MdsState};
use rados::Credentials;
use types::features::SUPPORTED;
use types::{
    EntityAddr, EntityAddrVec, EntityName, EntityType, Epoch, Errno, ParticipantName, PoolId,
    SnapId,
};
use wire::client_request::client_flags;
use wire::{
    CapBits, CapOp, ClientCaps, ClientOp, ClientQuota, ClientReconnect, ClientReply, ClientRequest,
    ClientSession, ClientSnap, Command, CommandReply, FeatureBits, FileLayout, InodeStat,
    MdsMapMessage, MessageBody, QuotaInfo, ReplyCap, ReplyDentry, SessionOp, SnapRealmInfo,
    client_caps_flags,
};

const INO: u64 = 0x100_0000_0001;

struct World {
    client: FsClient,
    now: Time,
    monitor: ConnId,
    server: ConnId,
    epoch: u32,
}

fn peer(kind: EntityType) -> Peer {
    Peer {
        participant: ParticipantName::new(kind, 0),
        name: EntityName::new(kind, "a".to_owned()),
        addrs: EntityAddrVec::default(),
        features: SUPPORTED,
        caps: Bytes::new(),
        seen_addr: EntityAddr::default(),
    }
}

fn map(epoch: u32, gid: u64, state: MdsState) -> Message {
    let info = MdsInfo { gid, rank: 0, state, ..MdsInfo::default() };
    let map = MdsMap {
        epoch: Epoch(epoch),
        mds_info: [(gid, info)].into(),
        up: [(0, gid)].into(),
        ..MdsMap::default()
    };
    let map = codec::encode_to_bytes(&map);
    MdsMapMessage { map, epoch: Epoch(epoch), ..MdsMapMessage::default() }.encode(SUPPORTED)
}

fn file(bits: CapBits) -> InodeStat {
    let cap = ReplyCap { caps: bits, cap_id: 5, seq: 1, realm: 1, ..ReplyCap::default() };
    InodeStat {
        ino: INO,
        snap: SnapId::HEAD.0,
        mode: 0o100_644,
        max_size: 4 << 20,
        layout: FileLayout::simple(PoolId(1)),
        cap,
        ..InodeStat::default()
    }
}

/// Messages that were sent over a connection.
fn sent<T: MessageBody>(outputs: &[Message]) -> Vec<(u64, T)> {
    let of_kind = outputs.iter().filter(|message| message.kind == T::KIND);
    of_kind.map(|message| (message.tid, T::decode(message).expect("it was encoded"))).collect()
}

impl World {
    /// A client with an open session at server 7.
    fn new() -> Self {
        World::with(|config| config)
    }

    /// The same with another configuration.
    fn with(change: impl FnOnce(Config) -> Config) -> Self {
        let config = Config {
            name: EntityName::client("admin"),
            credentials: Credentials::None,
            monitors: vec![EntityAddrVec::default()],
            file_system: None,
            ends_with_session: false,
        };
        let config = change(config);
        let client = FsClient::new(config, Entropy::from_seed([7; 32]));
        let none = ConnId(0);
        let now = Time(1_000_000_000);
        let mut world = World { client, now, monitor: none, server: none, epoch: 0 };
        world.client.handle_timeout(world.now);
        world.monitor = world.connection().expect("it goes to a monitor");
        world.client.handle_opened(world.now, world.monitor, peer(EntityType::MON));
        world.goes_to(7, MdsState::ACTIVE);
        let opens = sent::<ClientSession>(&world.outputs());
        assert_eq!(opens[0].1.op, SessionOp::REQUEST_OPEN);
        let features = FeatureBits(u64::MAX);
        let open = ClientSession { features, ..ClientSession::new(SessionOp::OPEN, 0) };
        world.server_sends(open.encode(SUPPORTED));
        world
    }

    /// The root has a snapshot more, which gives it these.
    fn snapshot(&mut self, snaps: &[u64]) {
        let (seq, snaps) = (snaps[0], snaps.to_vec());
        let realm = SnapRealmInfo { ino: 1, seq, snaps, ..SnapRealmInfo::default() };
        let trace = SnapRealmInfo::trace(&[realm], u64::MAX);
        let told = ClientSnap { op: ClientSnap::CREATE, trace, ..ClientSnap::default() };
        self.server_sends(told.encode(SUPPORTED));
    }

    fn snaps_of_writes(&mut self) -> Vec<Vec<u64>> {
        let buffer = &self.client.inode_mut(INO).buffer;
        let snaps = buffer.iter().map(|write| write.context.snaps.iter().map(|snap| snap.0));
        snaps.map(Iterator::collect).collect()
    }

    /// The connection that the client opens, other than to OSDs.
    fn connection(&mut self) -> Option<ConnId> {
        let outputs = std::iter::from_fn(|| self.client.poll_output());
        let opened = outputs.filter_map(|output| match output {
            Output::Connect { conn, .. } if conn.0 < 1 << 31 => Some(conn),
            _ => None,
        });
        opened.last()
    }

    /// Messages for the server.
    fn outputs(&mut self) -> Vec<Message> {
        let server = self.server;
        let outputs = std::iter::from_fn(|| self.client.poll_output());
        let sent = outputs.filter_map(|output| match output {
            Output::Send { conn, message } if conn == server => Some(message),
            _ => None,
        });
        sent.collect()
    }

    fn sees(&mut self, gid: u64, state: MdsState) {
        self.epoch += 1;
        self.client.handle_message(self.now, self.monitor, map(self.epoch, gid, state));
    }

    /// The rank has another server, and the client connects to it.
    fn goes_to(&mut self, gid: u64, state: MdsState) {
        self.sees(gid, state);
        self.server = self.connection().expect("it goes to the server");
        self.client.handle_opened(self.now, self.server, peer(EntityType::MDS));
    }

    fn server_sends(&mut self, message: Message) {
        self.client.handle_message(self.now, self.server, message);
    }

    fn reply(&mut self, tid: u64, reply: ClientReply) {
        self.server_sends(reply.encode(SUPPORTED).with_tid(tid));
    }

    fn call(&mut self, call: Call) -> CallId {
        self.client.call(self.now, call)
    }

    fn ended(&mut self) -> Vec<(CallId, Outcome)> {
        std::iter::from_fn(|| self.client.poll_completion()).collect()
    }

    /// Creates a file that is answered early; returns the number of the request.
    fn create(&mut self, bits: CapBits) -> u64 {
        let call = self.call(Call::Create("x".to_owned()));
        let [(tid, _)] = sent::<ClientRequest>(&self.outputs())[..] else { panic!("one request") };
        let reply = ClientReply {
            is_safe: false,
            target: Some(file(bits)),
            ..ClientReply::plain(ClientOp::CREATE, 0, 1)
        };
        self.reply(tid, reply);
        let ended = self.ended();
        assert!(matches!(&ended[..], [(id, Ok(Answer::Inode(_)))] if *id == call), "{ended:?}");
        assert_eq!(self.client.poll_durable(), None);
        tid
    }

    fn make_durable(&mut self, tid: u64) {
        self.reply(tid, ClientReply::plain(ClientOp::CREATE, 0, 1));
    }
}

fn asks_for_journal(messages: &[Message]) -> bool {
    let flush = SessionOp::REQUEST_FLUSH_MDLOG;
    sent::<ClientSession>(messages).iter().any(|(_, message)| message.op == flush)
}

#[test]
fn a_request_that_was_answered_early_is_told_to_the_next_server_before_the_claims() {
    let mut world = World::new();
    let tid = world.create(CapBits::PIN);
    world.goes_to(8, MdsState::RECONNECT);
    let messages = world.outputs();
    let kinds: Vec<u16> = messages.iter().map(|message| message.kind).collect();
    assert_eq!(kinds, [ClientRequest::KIND, ClientReconnect::KIND]);
    let (again, request) = sent::<ClientRequest>(&messages).remove(0);
    assert_eq!((again, request.ino, request.retries), (tid, INO, 1));
    assert_ne!(request.flags & client_flags::REPLAY, 0);
    let (_, claims) = sent::<ClientReconnect>(&messages).remove(0);
    assert_eq!(claims.caps[0].0, INO);
    world.make_durable(tid);
    assert_eq!(world.client.poll_durable(), Some(CallId(1)));
    assert_eq!(world.ended(), [], "the call has its answer");
    world.goes_to(9, MdsState::RECONNECT);
    assert!(sent::<ClientRequest>(&world.outputs()).is_empty(), "it is durable");
}

#[test]
fn a_request_without_an_answer_is_sent_again_as_it_was() {
    let mut world = World::new();
    world.call(Call::Mkdir("d".to_owned()));
    assert_eq!(sent::<ClientRequest>(&world.outputs()).len(), 1);
    world.goes_to(8, MdsState::RECONNECT);
    let (_, request) = sent::<ClientRequest>(&world.outputs()).remove(0);
    assert_eq!((request.flags & client_flags::REPLAY, request.ino), (0, 0));
}

#[test]
fn fsync_waits_until_the_creation_of_the_file_is_durable() {
    let mut world = World::new();
    let tid = world.create(CapBits::PIN);
    let fsync = world.call(Call::Fsync(INO));
    assert!(asks_for_journal(&world.outputs()));
    assert_eq!(world.ended(), []);
    world.make_durable(tid);
    assert_eq!(world.ended(), [(fsync, Ok(Answer::Done))]);
}

#[test]
fn sync_waits_for_requests_and_for_what_has_changed() {
    let mut world = World::new();
    let tid = world.create(CapBits::PIN | CapBits::FILE_WRITE | CapBits::FILE_BUFFER);
    let write = world.call(Call::Write { ino: INO, offset: 0, data: Bytes::from_static(b"x") });
    assert_eq!(world.ended(), [(write, Ok(Answer::Done))], "it is buffered");
    world.call(Call::Sync);
    world.make_durable(tid);
    assert_eq!(world.ended(), [], "its data is on no OSD");
    world.client.check_invariants();
}

#[test]
fn a_flush_is_sent_again_to_the_next_server_until_it_is_acknowledged() {
    let mut world = World::new();
    let tid = world.create(CapBits::PIN | CapBits::FILE_WRITE);
    world.make_durable(tid);
    let inode = world.client.inode_mut(INO);
    inode.note_write(Time(5).wall(), 3);
    let fsync = world.call(Call::Fsync(INO));
    let (flush, caps) = sent::<ClientCaps>(&world.outputs()).remove(0);
    assert_eq!((caps.size, caps.dirty), (3, CapBits::FILE_WRITE));
    assert_eq!(caps.flags, client_caps_flags::SYNC);
    world.goes_to(8, MdsState::RECONNECT);
    let messages = world.outputs();
    assert_eq!(sent::<ClientCaps>(&messages)[0].0, flush);
    assert_eq!(messages.last().unwrap().kind, ClientReconnect::KIND);
    assert_eq!(world.ended(), []);
    let answer = ClientCaps { op: CapOp::FLUSH_ACK, ino: INO, cap_id: 5, ..caps };
    world.server_sends(answer.encode(SUPPORTED).with_tid(flush));
    assert_eq!(world.ended(), [(fsync, Ok(Answer::Done))]);
}

#[test]
fn a_lost_session_ends_what_was_asked_and_forgets_what_was_answered_early() {
    let mut world = World::new();
    world.create(CapBits::PIN);
    let mkdir = world.call(Call::Mkdir("d".to_owned()));
    world.server_sends(ClientSession::new(SessionOp::CLOSE, 0).encode(SUPPORTED));
    assert_eq!(world.ended(), [(mkdir, Err(Errno::IO))]);
    assert_eq!(world.client.sessions_lost(), 1);
    world.outputs();
    world.server_sends(ClientSession::new(SessionOp::OPEN, 0).encode(SUPPORTED));
    assert!(sent::<ClientRequest>(&world.outputs()).is_empty());
    let fsync = world.call(Call::Fsync(INO));
    assert_eq!(world.ended(), [(fsync, Err(Errno::BADF))]);
}

#[test]
fn a_client_that_opens_a_session_asks_again_when_an_earlier_one_ends() {
    let mut world = World::new();
    let end = ClientSession::new(SessionOp::CLOSE, 0).encode(SUPPORTED);
    world.server_sends(end.clone());
    assert_eq!(sent::<ClientSession>(&world.outputs()).len(), 1);
    let mkdir = world.call(Call::Mkdir("d".to_owned()));
    world.server_sends(end);
    let asked = sent::<ClientSession>(&world.outputs());
    assert_eq!(asked.iter().map(|(_, it)| it.op).collect::<Vec<_>>(), [SessionOp::REQUEST_OPEN]);
    assert_eq!(world.client.sessions_lost(), 1);
    // Each request is answered.
    for _ in 0..2 {
        world.server_sends(ClientSession::new(SessionOp::OPEN, 0).encode(SUPPORTED));
    }
    assert_eq!(sent::<ClientRequest>(&world.outputs()).len(), 1);
    world.reply(1, ClientReply::plain(ClientOp::MKDIR, 0, 1));
    assert_eq!(world.ended(), [(mkdir, Ok(Answer::Done))]);
}

#[test]
fn a_capability_is_given_back_when_nothing_depends_on_it() {
    let mut world = World::new();
    let tid = world.create(CapBits::PIN | CapBits::FILE_READ | CapBits::FILE_SHARED);
    world.make_durable(tid);
    let revoke = ClientCaps {
        op: CapOp::REVOKE,
        ino: INO,
        cap_id: 5,
        seq: 2,
        caps: CapBits::PIN,
        ..ClientCaps::default()
    };
    world.server_sends(revoke.encode(SUPPORTED));
    let (_, answer) = sent::<ClientCaps>(&world.outputs()).remove(0);
    assert_eq!((answer.op, answer.caps, answer.seq), (CapOp::UPDATE, CapBits::PIN, 2));
    assert_eq!(world.client.held_caps().next().unwrap().bits, CapBits::PIN);
}

#[test]
fn a_write_preserves_the_snapshots_that_were_known_when_it_was_made() {
    let mut world = World::new();
    let tid = world.create(CapBits::PIN | CapBits::FILE_WRITE | CapBits::FILE_BUFFER);
    world.make_durable(tid);
    let data = Bytes::from_static(b"x");
    let write = Call::Write { ino: INO, offset: 0, data };
    world.call(write.clone());
    world.snapshot(&[2]);
    assert!(sent::<ClientCaps>(&world.outputs()).is_empty(), "the data is on no OSD");
    world.call(write.clone());
    world.snapshot(&[3, 2]);
    world.call(write);
    assert_eq!(world.snaps_of_writes(), [vec![], vec![2], vec![3, 2]]);
    world.client.check_invariants();
}

#[test]
fn attributes_of_a_snapshot_are_told_before_those_of_today_and_again_to_the_next_server() {
    let mut world = World::new();
    let tid = world.create(CapBits::PIN | CapBits::FILE_WRITE);
    world.make_durable(tid);
    world.outputs();
    world.snapshot(&[2]);
    assert!(sent::<ClientCaps>(&world.outputs()).is_empty(), "nothing has changed");
    world.client.inode_mut(INO).note_write(Time(5).wall(), 3);
    world.snapshot(&[4, 2]);
    world.client.inode_mut(INO).note_write(Time(6).wall(), 7);
    let fsync = world.call(Call::Fsync(INO));
    let brief = |messages: &[Message]| -> Vec<(u64, CapOp, u64, u64)> {
        let all = sent::<ClientCaps>(messages).into_iter();
        all.map(|(tid, caps)| (tid, caps.op, caps.size, caps.snap_follows)).collect()
    };
    let told = brief(&world.outputs());
    let [(first, CapOp::FLUSHSNAP, 3, 2), (last, CapOp::FLUSH, 7, 4)] = told[..] else {
        panic!("{told:?}")
    };
    world.goes_to(8, MdsState::RECONNECT);
    let messages = world.outputs();
    assert_eq!(brief(&messages), told);
    let (_, claims) = sent::<ClientReconnect>(&messages).remove(0);
    assert_eq!((claims.realms[0].ino, claims.realms[0].seq), (1, 4));
    for (tid, op) in [(last, CapOp::FLUSH_ACK), (first, CapOp::FLUSHSNAP_ACK)] {
        assert_eq!(world.ended(), []);
        let answer = ClientCaps { op, ino: INO, cap_id: 5, ..ClientCaps::default() };
        world.server_sends(answer.encode(SUPPORTED).with_tid(tid));
    }
    assert_eq!(world.ended(), [(fsync, Ok(Answer::Done))]);
}

#[test]
fn a_path_into_snapshots_has_an_empty_name() {
    let mut world = World::new();
    let paths = [
        (Call::Stat(".snap/s/f".to_owned()), ClientOp::LOOKUP, "/s/f"),
        (Call::List(".snap".to_owned()), ClientOp::LSSNAP, "/"),
        (Call::List("d/.snap".to_owned()), ClientOp::LSSNAP, "d/"),
        (Call::List("d/.snap/s".to_owned()), ClientOp::READDIR, "d//s"),
        (Call::ReadSnapshot("d/.snap/s/f".to_owned()), ClientOp::OPEN, "d//s/f"),
    ];
    for (call, op, path) in paths {
        world.call(call);
        let (_, request) = sent::<ClientRequest>(&world.outputs()).remove(0);
        assert_eq!((request.op, &request.path.path[..]), (op, path.as_bytes()));
    }
}

#[test]
fn a_name_beyond_a_quota_is_refused() {
    let mut world = World::new();
    let quota = QuotaInfo { max_bytes: 5, max_files: 2 };
    let cap = ReplyCap { caps: CapBits::PIN, cap_id: 4, seq: 1, realm: 1, ..ReplyCap::default() };
    let root =
        InodeStat { ino: 1, snap: SnapId::HEAD.0, mode: 0o040_755, cap, ..InodeStat::default() };
    let root = InodeStat { quota: quota.clone(), rsubdirs: 1, ..root };
    let call = world.call(Call::Create("x".to_owned()));
    let (tid, _) = sent::<ClientRequest>(&world.outputs()).remove(0);
    let dentry = Some(ReplyDentry { directory: root, name: "x".into(), ..ReplyDentry::default() });
    let target = Some(file(CapBits::PIN | CapBits::FILE_WRITE | CapBits::FILE_BUFFER));
    let realm = SnapRealmInfo { ino: 1, seq: 1, ..SnapRealmInfo::default() };
    let snap_trace = SnapRealmInfo::trace(&[realm], u64::MAX);
    world.reply(
        tid,
        ClientReply { dentry, target, snap_trace, ..ClientReply::plain(ClientOp::CREATE, 0, 1) },
    );
    assert_eq!(world.ended()[0].0, call);
    let full = ClientQuota { ino: 1, rfiles: 1, rsubdirs: 1, quota, ..ClientQuota::default() };
    world.server_sends(full.encode(SUPPORTED));
    let write = |data| Call::Write { ino: INO, offset: 0, data: Bytes::from_static(data) };
    let calls = [Call::Mkdir("d".to_owned()), write(b"123456"), write(b"12345")];
    let ids = calls.map(|call| world.call(call));
    let outcomes = [Err(Errno::DQUOT), Err(Errno::DQUOT), Ok(Answer::Done)];
    assert_eq!(world.ended(), ids.into_iter().zip(outcomes).collect::<Vec<_>>());
}

#[test]
fn a_client_leaves_when_it_has_seen_all_that_the_server_has_sent() {
    let mut world = World::new();
    let quota = || ClientQuota::default().encode(SUPPORTED);
    let closes = |world: &mut World| -> Vec<(SessionOp, u64)> {
        let sent = sent::<ClientSession>(&world.outputs());
        sent.into_iter().map(|(_, message)| (message.op, message.sequence)).collect()
    };
    world.server_sends(quota());
    world.client.leave(world.now);
    assert_eq!(closes(&mut world), [(SessionOp::REQUEST_CLOSE, 1)]);
    // A message that has crossed the request.
    world.server_sends(quota());
    assert_eq!(closes(&mut world), [(SessionOp::REQUEST_CLOSE, 2)]);
    assert!(!world.client.has_left());
    world.server_sends(ClientSession::new(SessionOp::CLOSE, 2).encode(SUPPORTED));
    assert!(world.client.has_left());
    assert_eq!(closes(&mut world), [], "no session is opened again");
}

#[test]
fn a_file_as_a_snapshot_shows_it_is_not_taken_for_the_file_of_today() {
    let mut world = World::new();
    let open = world.call(Call::Open("x".to_owned()));
    let (tid, _) = sent::<ClientRequest>(&world.outputs())[0];
    let target = Some(InodeStat { size: 7, ..file(CapBits::ANY_SHARED) });
    world.reply(tid, ClientReply { is_safe: true, target, ..ClientReply::default() });
    assert_eq!(world.ended()[0].0, open);
    let request = ClientRequest { op: ClientOp::LOOKUP, ..ClientRequest::default() };
    world.call(Call::Request(Box::new(request)));
    let (tid, _) = sent::<ClientRequest>(&world.outputs())[0];
    let target =
        Some(InodeStat { snap: 5, size: 3, cap: ReplyCap::default(), ..file(CapBits::NONE) });
    world.reply(tid, ClientReply { is_safe: true, target, ..ClientReply::default() });
    assert!(matches!(&world.ended()[0].1, Ok(Answer::Reply(reply)) if reply.target.is_some()));
    assert_eq!(world.client.inode_mut(INO).stat.size, 7);
}

#[test]
fn commands_go_to_the_server_and_fail_when_it_goes() {
    let mut world = World::new();
    let first = world.call(Call::Command("{}".to_owned()));
    let (tid, asked) = sent::<Command>(&world.outputs()).remove(0);
    assert_eq!(asked.command, ["{}"]);
    let (text, output) = ("done".to_owned(), Bytes::from_static(b"1"));
    let reply = CommandReply { result: -1, text: text.clone(), output: output.clone() };
    world.server_sends(reply.encode(SUPPORTED).with_tid(tid));
    let answer = Answer::Command { result: -1, text, output };
    assert_eq!(world.ended(), [(first, Ok(answer))]);
    let second = world.call(Call::Command("{}".to_owned()));
    world.client.handle_closed(world.now, world.server);
    world.goes_to(8, MdsState::ACTIVE);
    assert_eq!(world.ended(), [(second, Err(Errno::IO))]);
}

fn granted(seq: u32, caps: CapBits) -> Message {
    let grant =
        ClientCaps { op: CapOp::GRANT, ino: INO, cap_id: 5, seq, caps, ..Default::default() };
    grant.encode(SUPPORTED)
}

#[test]
fn the_size_for_a_read_is_asked_when_the_client_may_read() {
    let mut world = World::new();
    let tid = world.create(CapBits::PIN);
    world.make_durable(tid);
    world.call(Call::Read { ino: INO, offset: 0, length: 100 });
    assert!(sent::<ClientRequest>(&world.outputs()).is_empty(), "it would be old when it may");
    for seq in [2, 4] {
        world.server_sends(granted(seq, CapBits::PIN | CapBits::FILE_READ));
        let asked = sent::<ClientRequest>(&world.outputs());
        assert_eq!(asked.iter().map(|(_, it)| it.op).collect::<Vec<_>>(), [ClientOp::GETATTR]);
        // The capability goes before the answer comes, so the size is asked again.
        world.server_sends(granted(seq + 1, CapBits::PIN));
        let target = Some(InodeStat { size: 0, ..file(CapBits::PIN) });
        world.reply(
            asked[0].0,
            ClientReply { target, ..ClientReply::plain(ClientOp::GETATTR, 0, 1) },
        );
        assert_eq!(world.ended(), []);
    }
}

#[test]
fn bytes_are_read_again_if_the_size_has_grown_meanwhile() {
    let may_read = CapBits::PIN | CapBits::FILE_READ;
    let inode = Inode { issued: may_read, held: may_read, opens: 1, ..Inode::default() };
    let cut = Cut { offset: 0, wanted: 100, size: 64 };
    let mut waiting = cut.checked(CallId(1), INO, Bytes::from_static(b"old"));
    assert!(matches!(inode.next(&waiting), Step::AsksSize));
    waiting.size = Some(96);
    assert!(matches!(inode.next(&waiting), Step::Read(96, Some(96))));
    waiting.size = Some(64);
    assert!(matches!(inode.next(&waiting), Step::Ends(Ok(Answer::Data(data))) if data == "old"));
}

#[test]
fn locks_are_claimed_at_the_next_server() {
    let mut world = World::new();
    let tid = world.create(CapBits::PIN);
    world.make_durable(tid);
    for (place, result) in [(3, 0), (4, Errno::AGAIN.negative())] {
        let call = world.call(Call::Lock { ino: INO, place });
        let (tid, asked) = sent::<ClientRequest>(&world.outputs()).remove(0);
        assert_eq!((asked.op, asked.path.ino), (ClientOp::SETFILELOCK, INO));
        world.reply(tid, ClientReply::plain(ClientOp::SETFILELOCK, result, 1));
        let expected = if result == 0 { Ok(Answer::Done) } else { Err(Errno::AGAIN) };
        assert_eq!(world.ended(), [(call, expected)]);
    }
    world.call(Call::Close(INO));
    assert_eq!(world.client.held_caps().count(), 1, "a lock keeps the capability");
    world.goes_to(8, MdsState::RECONNECT);
    let claims = sent::<ClientReconnect>(&world.outputs()).remove(0).1;
    // A count for `fcntl`, one lock of 41 bytes, and a count for `flock`.
    let locks = &claims.caps[0].1.locks;
    assert_eq!((locks.len(), locks[..12].to_vec()), (49, vec![1, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0]));
}

#[test]
fn a_client_that_ends_with_its_session_asks_nothing_in_another_one() {
    let mut world = World::with(|config| Config { ends_with_session: true, ..config });
    world.goes_to(8, MdsState::RECONNECT);
    world.outputs();
    let mkdir = world.call(Call::Mkdir("d".to_owned()));
    world.server_sends(ClientSession::new(SessionOp::CLOSE, 0).encode(SUPPORTED));
    assert!(world.client.is_shut_out());
    let rmdir = world.call(Call::Rmdir("d".to_owned()));
    assert_eq!(world.ended(), [(mkdir, Err(Errno::IO)), (rmdir, Err(Errno::IO))]);
    assert!(sent::<ClientSession>(&world.outputs()).is_empty(), "it opens no other one");
}
