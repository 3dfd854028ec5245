//! Daemons that echo, on cores that are turned by hand: over local links, mailboxes and sockets.

use super::*;
use crate::contract::StorageIo;
use crate::links::Addressing;
use engine::{AuthRequest, AuthVerdict, ConnectingAnswer, ConnectingStep, Message, Node, Policy};
use msgr::MODE_CRC;
use rt::{AlignedBuffer, DIRECT_ALIGNMENT, DiskRequest};
use std::io::{Read, Write};
use std::net::TcpStream;
use types::EntityType;

const KIND: u16 = 0x7fff;
const CONN: ConnId = ConnId(1);
/// CEPH_AUTH_NONE
const METHOD_NONE: u32 = 1;
/// More than any of these tests needs, so that one that fails ends.
const TURNS_MAX: usize = 20_000;

/// Sends messages back, if it is to, and remembers what it was told.
struct EchoNode {
    participant: ParticipantName,
    /// Entity type that is expected of connecting peers.
    expects: EntityType,
    echoes: bool,
    outputs: VecDeque<NodeOutput>,
    opened: Vec<ConnId>,
    received: Vec<Message>,
    closed: Vec<ConnId>,
    refused: Vec<ConnId>,
    wanted: VecDeque<StorageIo>,
    done: Vec<(u64, Bytes)>,
    /// How many were done each time it was asked for more.
    done_when_asked: Vec<usize>,
    /// When it wants to be called, and how often it was.
    due: Option<Time>,
    called: usize,
    /// Completes a request when it is next asked for disk operations.
    completes: bool,
    completed: bool,
}

impl EchoNode {
    fn new(participant: ParticipantName) -> Self {
        EchoNode {
            participant,
            expects: EntityType::CLIENT,
            echoes: false,
            outputs: VecDeque::new(),
            opened: Vec::new(),
            received: Vec::new(),
            closed: Vec::new(),
            refused: Vec::new(),
            wanted: VecDeque::new(),
            done: Vec::new(),
            done_when_asked: Vec::new(),
            due: None,
            called: 0,
            completes: false,
            completed: false,
        }
    }

    fn echoing(participant: ParticipantName) -> Self {
        EchoNode { echoes: true, ..EchoNode::new(participant) }
    }

    fn connect(&mut self, participant: ParticipantName, addrs: EntityAddrVec) {
        self.connect_as(participant, addrs, Policy::Lossy);
    }

    fn connect_as(&mut self, participant: ParticipantName, addrs: EntityAddrVec, policy: Policy) {
        let target = ConnectTarget { participant, addrs, policy };
        self.outputs.push_back(NodeOutput::Connect { conn: CONN, target });
    }

    fn send(&mut self, conn: ConnId, message: Message) {
        self.outputs.push_back(NodeOutput::Send { conn, message });
    }

    fn tids(&self) -> Vec<u64> {
        self.received.iter().map(|message| message.tid).collect()
    }
}

impl Node for EchoNode {
    fn handle_auth(&mut self, _now: Time, conn: ConnId, _request: AuthRequest) {
        let verdict = AuthVerdict::Done {
            name: EntityName::new(self.expects, "test".to_owned()),
            global_id: 4100,
            mode: MODE_CRC,
            payload: Bytes::new(),
            session_key: Bytes::new(),
            connection_secret: Bytes::new(),
            caps: Bytes::new(),
        };
        self.outputs.push_back(NodeOutput::Auth { conn, verdict });
    }

    fn authenticate(&mut self, _: Time, _: ConnId, step: ConnectingStep) -> ConnectingAnswer {
        let nothing = Bytes::new();
        match step {
            ConnectingStep::Begin => ConnectingAnswer::Start {
                method: METHOD_NONE,
                preferred_modes: vec![MODE_CRC],
                payload: nothing,
            },
            ConnectingStep::Done { .. } => ConnectingAnswer::Finish {
                session_key: nothing.clone(),
                connection_secret: nothing,
            },
            ConnectingStep::More { .. } | ConnectingStep::BadMethod { .. } => {
                ConnectingAnswer::Refuse
            }
        }
    }

    fn handle_refused(&mut self, _now: Time, conn: ConnId) {
        self.refused.push(conn);
    }

    fn handle_opened(&mut self, _now: Time, conn: ConnId, _peer: Peer) {
        self.opened.push(conn);
    }

    fn handle_message(&mut self, _now: Time, conn: ConnId, message: Message) {
        if self.echoes {
            self.send(conn, message.clone());
        }
        self.received.push(message);
    }

    fn handle_closed(&mut self, _now: Time, conn: ConnId) {
        self.closed.push(conn);
    }

    fn handle_timeout(&mut self, _now: Time) {
        self.due = None;
        self.called += 1;
    }

    fn poll_output(&mut self, _now: Time) -> Option<NodeOutput> {
        self.outputs.pop_front()
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.due
    }
}

impl Hosted for EchoNode {
    fn participant(&self) -> ParticipantName {
        self.participant
    }

    fn pump_storage(&mut self, _now: Time) -> bool {
        let any = std::mem::take(&mut self.completed);
        if any && self.echoes {
            self.send(CONN, message(1, &Bytes::new()));
        }
        any
    }

    fn poll_io(&mut self) -> Option<StorageIo> {
        self.completed |= std::mem::take(&mut self.completes);
        self.done_when_asked.push(self.done.len());
        self.wanted.pop_front()
    }

    fn handle_io(&mut self, _now: Time, token: u64, result: DiskResult) {
        self.done.push((token, result.unwrap()));
    }
}

type TestCore = Core<EchoNode>;

fn osd(number: i64) -> ParticipantName {
    ParticipantName::new(EntityType::OSD, number)
}

fn new_core(index: usize) -> TestCore {
    let mut core = Core::new(CoreConfig { index, seed: index as u64 }, Clock::start()).unwrap();
    core.introduce(Directory::default(), vec![core.sender()]);
    core
}

/// Turns without waiting.
fn turn(core: &mut TestCore) {
    let now = core.clock.now();
    core.turn(now).unwrap();
}

/// Turns the cores one after the other until `is_done`.
fn turn_until(cores: &mut [&mut TestCore], mut is_done: impl FnMut(&mut [&mut TestCore]) -> bool) {
    for _ in 0..TURNS_MAX {
        if is_done(cores) {
            return;
        }
        for core in cores.iter_mut() {
            // The awaited event may depend on another core's work.
            let deadline = core.clock.now() + Duration::from_millis(1);
            core.turn(deadline).unwrap();
        }
    }
    panic!("what was awaited did not happen");
}

fn message(tid: u64, data: &Bytes) -> Message {
    let front = Bytes::from_static(b"front");
    Message::new(KIND, 1, 1, front).with_tid(tid).with_data(data.clone())
}

fn pattern(length: usize) -> Bytes {
    (0..length).map(|i| (i * 31 + i / 251) as u8).collect()
}

/// A core with an OSD that listens, and where.
fn server(echoes: bool) -> (TestCore, SocketAddr) {
    let mut core = new_core(0);
    let node = if echoes { EchoNode::echoing(osd(0)) } else { EchoNode::new(osd(0)) };
    core.add(node);
    let listening = Listening { node: 0, participant: osd(0), nonce: 7 };
    let addr = core.listen("127.0.0.1:0".parse().unwrap(), listening).unwrap();
    (core, addr)
}

/// A core with a client that has a session to it, and the server's number of that session.
fn client(server: &mut TestCore, addr: SocketAddr) -> (TestCore, ConnId) {
    let mut client = new_core(0);
    client.add(EchoNode::new(ParticipantName::new(EntityType::CLIENT, -1)));
    let addrs = EntityAddrVec::one(types::EntityAddr::msgr2(addr, 7));
    client.node_mut(0).connect(osd(0), addrs);
    turn_until(&mut [server, &mut client], |cores| {
        cores.iter_mut().all(|core| !core.node_mut(0).opened.is_empty())
    });
    (client, server.node_mut(0).opened[0])
}

#[test]
fn daemons_of_one_core_talk_in_order_and_learn_of_the_end() {
    let mut core = new_core(0);
    core.add(EchoNode::new(osd(0)));
    core.add(EchoNode::echoing(osd(1)));
    let mut directory = Directory::default();
    directory.insert(Addressing::Name(osd(1)), NodeAddress { core: 0, node: 1 });
    core.introduce(directory, vec![core.sender()]);

    core.node_mut(0).connect(osd(1), EntityAddrVec::default());
    (0..100).for_each(|tid| core.node_mut(0).send(CONN, message(tid, &Bytes::new())));
    core.settle();
    assert_eq!(core.node_mut(0).opened, [CONN]);
    assert!(core.node_mut(0).tids().into_iter().eq(0..100));

    core.node_mut(0).outputs.push_back(NodeOutput::Close { conn: CONN });
    core.settle();
    let accepted = core.node_mut(1).opened.clone();
    assert!(accepted[0].is_accepted());
    assert_eq!(core.node_mut(1).closed, accepted);
    assert!(core.slots.iter().all(|slot| slot.links.is_empty()));
}

#[test]
fn a_full_mailbox_loses_nothing_and_keeps_order() {
    let (mut here, mut there) = (new_core(0), new_core(1));
    here.add(EchoNode::new(osd(0)));
    there.add(EchoNode::echoing(osd(1)));
    let mut directory = Directory::default();
    directory.insert(Addressing::Name(osd(0)), NodeAddress { core: 0, node: 0 });
    directory.insert(Addressing::Name(osd(1)), NodeAddress { core: 1, node: 0 });
    let senders = vec![here.sender(), there.sender()];
    here.introduce(directory.clone(), senders.clone());
    there.introduce(directory, senders);

    let count = 3 * MAILBOX_CAPACITY as u64;
    here.node_mut(0).connect(osd(1), EntityAddrVec::default());
    (0..count).for_each(|tid| here.node_mut(0).send(CONN, message(tid, &Bytes::new())));
    here.settle();
    assert!(here.outbox.offer_all(), "the mailbox is full");
    turn_until(&mut [&mut here, &mut there], |cores| {
        cores[0].node_mut(0).received.len() == count as usize
    });
    assert!(there.node_mut(0).tids().into_iter().eq(0..count));
    assert!(here.node_mut(0).tids().into_iter().eq(0..count));
    assert!(!here.outbox.offer_all() && !there.outbox.offer_all());
}

#[test]
fn a_large_message_crosses_a_socket_both_ways_in_one_piece() {
    let (mut server, addr) = server(true);
    let (mut client, _) = client(&mut server, addr);
    let data = pattern(4 << 20);
    client.node_mut(0).send(CONN, message(9, &data));
    turn_until(&mut [&mut server, &mut client], |cores| !cores[1].node_mut(0).received.is_empty());
    for core in [&mut server, &mut client] {
        let received = &core.node_mut(0).received[0];
        assert!(received.data == data);
        // It was received to where it stays, as disks like it.
        assert_eq!(received.data.as_ptr() as usize % rt::DIRECT_ALIGNMENT, 0);
    }
}

#[test]
fn a_connection_that_sends_garbage_is_closed_and_forgotten() {
    let (mut server, addr) = server(false);
    let mut stream = TcpStream::connect(addr).unwrap();
    stream.write_all(&[0xa5; 4096]).unwrap();
    turn_until(&mut [&mut server], |cores| !cores[0].node_mut(0).closed.is_empty());
    assert_eq!((server.wire.sessions(), server.slots[0].links.len()), (0, 0));
    // Our banner, and then the end, one way or the other.
    let _ = stream.read_to_end(&mut Vec::new());
}

#[test]
fn a_connection_that_says_nothing_is_dropped_in_time() {
    let (mut server, addr) = server(false);
    let mut stream = TcpStream::connect(addr).unwrap();
    turn_until(&mut [&mut server], |cores| cores[0].wire.sessions() == 1);
    let later = server.now + Duration::from_secs(11);
    server.wire.handle_timeout(later);
    turn_until(&mut [&mut server], |cores| cores[0].wire.sessions() == 0);
    assert_eq!(server.node_mut(0).closed.len(), 1);
    stream.read_to_end(&mut Vec::new()).unwrap();
}

#[test]
fn newcomers_beyond_the_bound_push_out_the_oldest_but_no_session() {
    let (mut server, addr) = server(true);
    let (mut client, _) = client(&mut server, addr);
    let mut streams: Vec<TcpStream> = (0..20).map(|_| TcpStream::connect(addr).unwrap()).collect();
    turn_until(&mut [&mut server], |cores| cores[0].node_mut(0).closed.len() == 12);
    streams[0].read_to_end(&mut Vec::new()).unwrap();
    client.node_mut(0).send(CONN, message(1, &Bytes::new()));
    turn_until(&mut [&mut server, &mut client], |cores| !cores[1].node_mut(0).received.is_empty());
    assert_eq!(server.wire.sessions(), 9);
}

#[test]
fn a_peer_that_vanishes_in_the_middle_of_a_message_leaves_nothing_behind() {
    let (mut server, addr) = server(false);
    let (mut client, conn) = client(&mut server, addr);
    client.node_mut(0).send(CONN, message(1, &pattern(64 << 20)));
    client.settle();
    client.transmit();
    turn(&mut client);
    turn(&mut server);
    drop(client);
    turn_until(&mut [&mut server], |cores| !cores[0].node_mut(0).closed.is_empty());
    assert_eq!(server.node_mut(0).closed, [conn]);
    assert!(server.node_mut(0).received.is_empty());
    assert_eq!((server.wire.sessions(), server.slots[0].links.len()), (0, 0));
}

/// A core with an OSD that other OSDs find at the address.
fn member(number: i64) -> (TestCore, EntityAddrVec) {
    let mut core = new_core(0);
    core.config.seed = number as u64;
    core.wire = Wire::new(number as u64);
    core.add(EchoNode { expects: EntityType::OSD, ..EchoNode::new(osd(number)) });
    let nonce = 100 + number as u32;
    let listening = Listening { node: 0, participant: osd(number), nonce };
    let addr = core.listen("127.0.0.1:0".parse().unwrap(), listening).unwrap();
    (core, EntityAddrVec::one(types::EntityAddr::msgr2(addr, nonce)))
}

#[test]
fn a_session_of_two_osds_outlives_its_connections_and_loses_nothing() {
    let ((mut here, _), (mut there, addrs)) = (member(0), member(1));
    here.node_mut(0).connect_as(osd(1), addrs, Policy::Lossless);
    let data = pattern(100_000);
    for round in 0..5 {
        (0..20).for_each(|i| here.node_mut(0).send(CONN, message(20 * round + i, &data)));
        // It breaks while some of that is on its way.
        here.settle();
        here.transmit();
        turn(&mut there);
        let now = there.now;
        there.wire.break_connections(now, &mut there.reactor);
    }
    turn_until(&mut [&mut here, &mut there], |cores| cores[1].node_mut(0).received.len() >= 100);
    assert!(there.node_mut(0).tids().into_iter().eq(0..100));
    assert_eq!((here.node_mut(0).opened.len(), there.node_mut(0).opened.len()), (1, 1));
    // It is the same session in the other direction.
    let accepted = there.node_mut(0).opened[0];
    there.node_mut(0).send(accepted, message(7, &data));
    turn_until(&mut [&mut here, &mut there], |cores| cores[0].node_mut(0).received.len() == 1);
    assert!(here.node_mut(0).closed.is_empty());
}

#[test]
fn a_client_keeps_its_session_with_a_metadata_server_when_its_connection_breaks() {
    let mds = ParticipantName::new(EntityType::MDS, 0);
    let mut server = new_core(0);
    server.add(EchoNode::echoing(mds));
    let listening = Listening { node: 0, participant: mds, nonce: 7 };
    let addr = server.listen("127.0.0.1:0".parse().unwrap(), listening).unwrap();
    let mut client = new_core(0);
    client.add(EchoNode::new(ParticipantName::new(EntityType::CLIENT, -1)));
    let addrs = EntityAddrVec::one(types::EntityAddr::msgr2(addr, 7));
    client.node_mut(0).connect_as(mds, addrs, Policy::Lossless);
    let data = pattern(100_000);
    for round in 0..5 {
        (0..20).for_each(|i| client.node_mut(0).send(CONN, message(20 * round + i, &data)));
        // It breaks while requests and answers are on their way.
        turn_until(&mut [&mut client, &mut server], |cores| {
            assert!(cores[0].node_mut(0).closed.is_empty(), "the client has lost its session");
            cores[1].node_mut(0).received.len() as u64 > 20 * round
        });
        let now = server.now;
        server.wire.break_connections(now, &mut server.reactor);
    }
    turn_until(&mut [&mut client, &mut server], |cores| {
        cores.iter_mut().all(|core| core.node_mut(0).received.len() >= 100)
    });
    for core in [&mut client, &mut server] {
        assert!(core.node_mut(0).tids().into_iter().eq(0..100), "each once, and in order");
        assert_eq!(core.node_mut(0).opened.len(), 1);
    }
}

#[test]
fn two_osds_that_connect_at_the_same_time_share_one_session() {
    let ((mut here, here_addrs), (mut there, there_addrs)) = (member(0), member(1));
    here.node_mut(0).connect_as(osd(1), there_addrs, Policy::Lossless);
    there.node_mut(0).connect_as(osd(0), here_addrs, Policy::Lossless);
    let data = pattern(10);
    for core in [&mut here, &mut there] {
        (0..50).for_each(|tid| core.node_mut(0).send(CONN, message(tid, &data)));
    }
    turn_until(&mut [&mut here, &mut there], |cores| {
        cores.iter_mut().all(|core| core.node_mut(0).received.len() == 50)
    });
    for core in [&mut here, &mut there] {
        assert!(core.node_mut(0).tids().into_iter().eq(0..50));
        assert_eq!(core.node_mut(0).opened, [CONN]);
        assert_eq!((core.wire.sessions(), core.slots[0].links.len()), (1, 1));
    }
}

#[test]
fn a_lossy_session_of_two_osds_stands_beside_the_other() {
    const HEARTBEATS: ConnId = ConnId(2);
    let ((mut here, _), (mut there, addrs)) = (member(0), member(1));
    here.node_mut(0).connect_as(osd(1), addrs.clone(), Policy::Lossless);
    let target = ConnectTarget { participant: osd(1), addrs, policy: Policy::Lossy };
    let connect = NodeOutput::Connect { conn: HEARTBEATS, target };
    here.node_mut(0).outputs.push_back(connect);
    turn_until(&mut [&mut here, &mut there], |cores| {
        cores.iter_mut().all(|core| core.node_mut(0).opened.len() == 2)
    });
    let now = there.now;
    there.wire.break_connections(now, &mut there.reactor);
    turn_until(&mut [&mut here, &mut there], |cores| !cores[0].node_mut(0).closed.is_empty());
    assert_eq!(here.node_mut(0).closed, [HEARTBEATS]);
}

#[test]
fn who_connects_where_nobody_listens_is_told_so() {
    let ((mut here, _), (gone, addrs)) = (member(0), member(1));
    drop(gone);
    here.node_mut(0).connect_as(osd(1), addrs, Policy::Lossless);
    turn_until(&mut [&mut here], |cores| !cores[0].node_mut(0).refused.is_empty());
    assert_eq!(here.node_mut(0).refused, [CONN]);
    assert!(here.node_mut(0).closed.is_empty(), "it goes on trying");
}

#[test]
fn a_paused_session_brings_nothing_until_it_is_resumed() {
    let (mut server, addr) = server(false);
    let (mut client, conn) = client(&mut server, addr);
    server.node_mut(0).outputs.push_back(NodeOutput::Pause { conn, paused: true });
    turn(&mut server);
    let data = pattern(100_000);
    (0..200).for_each(|tid| client.node_mut(0).send(CONN, message(tid, &data)));
    for _ in 0..200 {
        turn(&mut client);
        turn(&mut server);
    }
    assert!(server.node_mut(0).received.is_empty());
    server.node_mut(0).outputs.push_back(NodeOutput::Pause { conn, paused: false });
    turn_until(&mut [&mut server, &mut client], |cores| cores[0].node_mut(0).received.len() == 200);
    assert!(server.node_mut(0).tids().into_iter().eq(0..200));
    assert!(server.node_mut(0).received.iter().all(|message| message.data == data));
}

#[test]
fn a_peer_that_does_not_read_is_not_listened_to_until_it_does() {
    let (mut server, addr) = server(true);
    let (mut client, _) = client(&mut server, addr);
    let data = pattern(1 << 20);
    let count = 100;
    (0..count).for_each(|tid| client.node_mut(0).send(CONN, message(tid, &data)));
    client.node_mut(0).outputs.push_back(NodeOutput::Pause { conn: CONN, paused: true });
    for _ in 0..1000 {
        turn(&mut client);
        turn(&mut server);
    }
    let heard = server.node_mut(0).received.len();
    assert!(
        (32..64).contains(&heard),
        "{heard} messages were taken from a peer that is not reading"
    );
    client.node_mut(0).outputs.push_back(NodeOutput::Pause { conn: CONN, paused: false });
    turn_until(&mut [&mut server, &mut client], |cores| {
        cores[1].node_mut(0).received.len() == count as usize
    });
    assert!(client.node_mut(0).tids().into_iter().eq(0..count));
}

#[test]
fn a_peer_that_never_reads_is_let_go() {
    let (mut server, addr) = server(false);
    let (_client, conn) = client(&mut server, addr);
    let data = pattern(4 << 20);
    (0..200).for_each(|tid| server.node_mut(0).send(conn, message(tid, &data)));
    turn_until(&mut [&mut server], |cores| !cores[0].node_mut(0).closed.is_empty());
    assert_eq!((server.wire.sessions(), server.slots[0].links.len()), (0, 0));
}

#[test]
fn a_session_that_its_daemon_closes_still_says_what_it_had_to() {
    let (mut server, addr) = server(false);
    let (mut client, conn) = client(&mut server, addr);
    server.node_mut(0).send(conn, message(5, &pattern(1000)));
    server.node_mut(0).outputs.push_back(NodeOutput::Close { conn });
    turn(&mut server);
    turn_until(&mut [&mut client], |cores| !cores[0].node_mut(0).closed.is_empty());
    assert_eq!(client.node_mut(0).tids(), [5]);
    assert!(server.node_mut(0).closed.is_empty());
    assert_eq!(server.wire.sessions(), 0);
}

#[test]
fn a_daemon_that_was_told_nothing_is_not_asked_anything_until_its_time_has_come() {
    let mut core = new_core(0);
    core.add(EchoNode::new(osd(0)));
    core.add(EchoNode::new(osd(1)));
    turn(&mut core);
    let asked = |core: &TestCore, node: usize| core.slots[node].node.done_when_asked.len();
    let before = [0, 1].map(|node| asked(&core, node));
    core.node_mut(0);
    turn(&mut core);
    assert!(asked(&core, 0) > before[0]);
    assert_eq!(asked(&core, 1), before[1]);

    core.node_mut(1).due = Some(core.clock.now() + Duration::from_millis(1));
    turn_until(&mut [&mut core], |cores| cores[0].slots[1].node.called == 1);
    assert_eq!(core.slots[0].node.called, 0);
}

#[test]
fn a_request_that_is_completed_when_operations_are_asked_for_is_answered_at_once() {
    let mut core = new_core(0);
    core.add(EchoNode::echoing(osd(0)));
    turn(&mut core);
    core.node_mut(0).completes = true;
    turn(&mut core);
    assert_eq!(core.slots[0].node.outputs.len(), 1);
    assert!(core.wake_time() <= core.now);
    turn(&mut core);
    assert!(core.slots[0].node.outputs.is_empty() && core.wake_time() > core.now);
}

#[test]
fn disk_operations_are_begun_together_and_each_answer_finds_its_daemon() {
    const WRITES: u64 = 4;
    let mut core = Core::new(CoreConfig::default(), Clock::start()).unwrap();
    let (mut paths, mut files) = (Vec::new(), Vec::new());
    for node in 0..2 {
        core.add(EchoNode::new(ParticipantName::new(EntityType::OSD, node)));
        let name = format!("sepiola-core-{}-{node}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let length = WRITES * DIRECT_ALIGNMENT as u64;
        files.push(core.add_file(DiskFile::create(&path, length).unwrap()).unwrap());
        paths.push(path);
    }
    let run = |core: &mut Core<EchoNode>, request: &dyn Fn(u8, u64) -> DiskRequest| {
        for (node, &file) in files.iter().enumerate() {
            let io = |token| StorageIo { file, token, request: request(node as u8, token) };
            core.node_mut(node).wanted.extend((0..WRITES).map(io));
        }
        let is_done = |core: &mut Core<EchoNode>| {
            (0..2).all(|node| core.node_mut(node).done.len() == WRITES as usize)
        };
        for _ in 0..TURNS_MAX {
            if is_done(core) {
                break;
            }
            core.turn(Time::FAR_FUTURE).unwrap();
        }
        [0, 1].map(|node| {
            let mut done = std::mem::take(&mut core.node_mut(node).done);
            done.sort_by_key(|(token, _)| *token);
            assert_eq!(done.len(), WRITES as usize);
            done
        })
    };
    let offset = |token| token * DIRECT_ALIGNMENT as u64;
    run(&mut core, &|node, token| {
        let mut buffer = AlignedBuffer::zeroed(DIRECT_ALIGNMENT);
        buffer.fill(16 * node + token as u8);
        DiskRequest::Write { offset: offset(token), pieces: vec![buffer.into()], durable: false }
    });
    // In the turn in which it was asked first, it was asked until it wanted no more.
    assert_eq!(core.node_mut(0).done_when_asked[..WRITES as usize], [0; WRITES as usize]);
    let read = run(&mut core, &|_, token| DiskRequest::Read {
        offset: offset(token),
        length: DIRECT_ALIGNMENT,
    });
    paths.iter().for_each(|path| std::fs::remove_file(path).unwrap());
    for (node, done) in read.iter().enumerate() {
        for (token, bytes) in done {
            assert!(bytes.iter().all(|&byte| byte == 16 * node as u8 + *token as u8));
        }
    }
}

#[test]
fn a_monitor_of_this_process_is_found_by_its_address_and_not_by_a_rank_that_another_one_may_have() {
    let mon = |rank| ParticipantName::new(EntityType::MON, rank);
    let addrs = |text: &str| EntityAddrVec::one(text.parse().unwrap());
    let mut core = new_core(0);
    core.add(EchoNode::new(mon(1)));
    let mut directory = Directory::default();
    let here = Addressing::Listening(EntityType::MON, "127.0.0.1:3300".parse().unwrap());
    directory.insert(here, NodeAddress { core: 0, node: 0 });
    let find = |rank, text: &str| {
        let target = ConnectTarget {
            participant: mon(rank),
            addrs: addrs(text),
            policy: engine::Policy::Lossy,
        };
        directory.find(&target)
    };
    // A monitor before it in the map was removed, so the leader has its rank of before.
    assert_eq!(find(1, "v2:127.0.0.2:3300/0"), None);
    assert_eq!(find(0, "v2:127.0.0.1:3300/0"), Some(NodeAddress { core: 0, node: 0 }));
    core.introduce(directory.clone(), vec![core.sender()]);
    core.node_mut(0).connect(mon(1), addrs("v2:127.0.0.2:1/0"));
    core.settle();
    assert!(core.node_mut(0).opened.is_empty(), "it took itself for the leader");
}
