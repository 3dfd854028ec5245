//! The daemon against a monitor of messages.

mod tell;

use super::*;
use auth::AuthCaps;
use maps::MdsInfo;
use types::{EntityAddr, EntityAddrVec, EntityName, Epoch};
use wire::{ClientSession, FeatureBits, SessionOp};

const CLIENT: ConnId = ConnId(ConnId::ACCEPTED);

fn outputs(mds: &mut Mds) -> Vec<Output<()>> {
    std::iter::from_fn(|| mds.poll_output()).collect()
}

fn sent<T: MessageBody>(outputs: &[Output<()>]) -> Option<(ConnId, T)> {
    outputs.iter().find_map(|output| match output {
        Output::Send { conn, message } if message.kind == T::KIND => {
            Some((*conn, T::decode(message).expect("it was encoded")))
        }
        _ => None,
    })
}

fn peer(kind: EntityType, number: i64) -> Peer {
    Peer {
        participant: ParticipantName::new(kind, number),
        name: EntityName::new(kind, "x".to_owned()),
        addrs: "v2:10.0.0.1:0/77".parse().map(EntityAddrVec::one).expect("an address"),
        features: SUPPORTED,
        caps: codec::encode_to_bytes(&AuthCaps { allow_all: true, text: String::new() }),
        seen_addr: EntityAddr::default(),
    }
}

fn map(epoch: u32, state: MdsState) -> Message {
    map_of(epoch, 0, state)
}

fn map_of(epoch: u32, rank: i32, state: MdsState) -> Message {
    let info = MdsInfo { gid: 4409, rank, state, ..MdsInfo::default() };
    let map = MdsMap {
        epoch: Epoch(epoch),
        mds_info: [(4409, info)].into(),
        data_pools: vec![PoolId(3)],
        ..MdsMap::default()
    };
    let map = codec::encode_to_bytes(&map);
    MdsMapMessage { map, epoch: Epoch(epoch), ..MdsMapMessage::default() }.encode(SUPPORTED)
}

fn open_session() -> Message {
    let features = FeatureBits(u64::MAX);
    ClientSession { features, ..ClientSession::new(SessionOp::REQUEST_OPEN, 0) }.encode(0)
}

/// A server whose monitor's session is open.
fn started(now: Time) -> (Mds, ConnId) {
    let mut mds = Mds::new(Config::for_tests(), [7; 32]);
    mds.handle_timeout(now);
    let first = outputs(&mut mds);
    let [Output::Connect { conn, .. }] = first[..] else { panic!("{first:?}") };
    mds.handle_opened(now, conn, peer(EntityType::MON, 0));
    (mds, conn)
}

#[test]
fn clients_are_served_when_the_map_says_active_and_the_lease_lasts() {
    let now = Time(1_000_000_000);
    let (mut mds, monitor) = started(now);
    let first = outputs(&mut mds);
    assert!(sent::<MonSubscribe>(&first).is_some());
    let (_, boot) = sent::<MdsBeacon>(&first).unwrap();
    assert_eq!((boot.state, boot.gid), (MdsState::BOOT.0, 4409));
    mds.handle_opened(now, CLIENT, peer(EntityType::CLIENT, 4123));
    mds.handle_message(now, CLIENT, open_session());
    mds.handle_message(now, monitor, map(2, MdsState::CREATING));
    let (_, beacon) = sent::<MdsBeacon>(&outputs(&mut mds)).unwrap();
    assert_eq!(beacon.state, MdsState::ACTIVE.0);
    mds.handle_message(now, monitor, map(3, MdsState::ACTIVE));
    let waiting = outputs(&mut mds);
    assert!(sent::<ClientSession>(&waiting).is_none(), "there is no lease yet");
    let (_, beacon) = sent::<MdsBeacon>(&waiting).unwrap();
    mds.handle_message(now, monitor, beacon.encode(SUPPORTED));
    let (conn, open) = sent::<ClientSession>(&outputs(&mut mds)).unwrap();
    assert_eq!((conn, open.op), (CLIENT, SessionOp::OPEN));
}

#[test]
fn a_client_that_sends_much_while_the_server_may_not_answer_is_paused_and_not_dropped() {
    let now = Time(1_000_000_000);
    let (mut mds, monitor) = started(now);
    mds.handle_opened(now, CLIENT, peer(EntityType::CLIENT, 4123));
    mds.handle_message(now, CLIENT, open_session());
    let renewal = ClientSession::new(SessionOp::REQUEST_RENEWCAPS, 1).encode(0);
    (0..HELD_MAX).for_each(|_| mds.handle_message(now, CLIENT, renewal.clone()));
    let paused = |outputs: &[Output<()>]| {
        outputs.iter().find_map(|output| match output {
            Output::Pause { paused, .. } => Some(*paused),
            Output::Close { conn } => panic!("{conn:?} is closed"),
            _ => None,
        })
    };
    assert_eq!(paused(&outputs(&mut mds)), Some(true));
    mds.handle_message(now, monitor, map(3, MdsState::ACTIVE));
    let (_, beacon) = sent::<MdsBeacon>(&outputs(&mut mds)).unwrap();
    mds.handle_message(now, monitor, beacon.encode(SUPPORTED));
    let answered = outputs(&mut mds);
    assert_eq!(paused(&answered), Some(false));
    let renewed = answered.iter().filter(|output| matches!(output, Output::Send { .. })).count();
    assert!(renewed >= HELD_MAX, "{renewed} answers");
}

#[test]
fn a_server_that_was_replaced_answers_no_more() {
    let now = Time(1_000_000_000);
    let (mut mds, monitor) = started(now);
    mds.handle_message(now, monitor, map(3, MdsState::ACTIVE));
    let (_, beacon) = sent::<MdsBeacon>(&outputs(&mut mds)).unwrap();
    mds.handle_message(now, monitor, beacon.encode(SUPPORTED));
    let empty = MdsMap { epoch: Epoch(4), ..MdsMap::default() };
    let map = codec::encode_to_bytes(&empty);
    let map = MdsMapMessage { map, epoch: Epoch(4), ..MdsMapMessage::default() };
    mds.handle_message(now, monitor, map.encode(SUPPORTED));
    assert_eq!(mds.end(), Some(&End::Replaced));
    mds.handle_opened(now, CLIENT, peer(EntityType::CLIENT, 4123));
    mds.handle_message(now, CLIENT, open_session());
    assert!(sent::<ClientSession>(&outputs(&mut mds)).is_none());
}

#[test]
fn a_server_that_cannot_read_its_rank_asks_that_none_gets_it() {
    let now = Time(1_000_000_000);
    let (mut mds, monitor) = started(now);
    mds.handle_message(now, monitor, map(3, MdsState::REPLAY));
    outputs(&mut mds);
    mds.fail(now, Failure::Damage("object x does not decode".to_owned()));
    mds.handle_timeout(now);
    let (_, beacon) = sent::<MdsBeacon>(&outputs(&mut mds)).expect("the monitor is told at once");
    assert_eq!(beacon.state, MdsState::DAMAGED.0);
    assert_eq!(mds.end(), None, "it may have to be told again");
    let empty = MdsMap { epoch: Epoch(4), ..MdsMap::default() };
    let map = codec::encode_to_bytes(&empty);
    let map = MdsMapMessage { map, epoch: Epoch(4), ..MdsMapMessage::default() };
    mds.handle_message(now, monitor, map.encode(SUPPORTED));
    let said = mds.end().expect("it is over").to_string();
    assert!(said.contains("object x") && said.contains("ceph mds repaired"), "{said}");
}

/// It would take rank 0 over from a server that lives and is not shut out.
#[test]
fn a_server_does_not_open_the_tree_for_another_rank_than_0() {
    let now = Time(1_000_000_000);
    for state in [MdsState::CREATING, MdsState::REPLAY] {
        let (mut mds, monitor) = started(now);
        mds.handle_message(now, monitor, map_of(3, 1, state));
        let said = mds.end().expect("it is over").to_string();
        assert!(said.contains("rank 1") && said.contains("max_mds 1"), "{said}");
        assert!(mds.rank.is_none());
    }
}

#[test]
fn a_failed_write_is_told_as_such() {
    let now = Time(1_000_000_000);
    let (mut mds, monitor) = started(now);
    mds.handle_message(now, monitor, map(3, MdsState::ACTIVE));
    mds.fail(now, Failure::Passing("the journal cannot be written".to_owned()));
    let said = mds.end().expect("it is over").to_string();
    assert!(said.contains("the journal cannot be written"), "{said}");
}

#[test]
fn a_server_on_the_blocklist_is_told_that_it_was_replaced() {
    let now = Time(1_000_000_000);
    let (mut mds, monitor) = started(now);
    mds.handle_message(now, monitor, map(3, MdsState::ACTIVE));
    mds.fail(now, Failure::ShutOut);
    assert_eq!(mds.end(), Some(&End::Replaced));
}

#[test]
fn a_client_whose_messages_may_be_lost_is_told_to_open_a_new_session() {
    const AGAIN: ConnId = ConnId(ConnId::ACCEPTED + 1);
    let now = Time(1_000_000_000);
    let (mut mds, monitor) = started(now);
    mds.handle_opened(now, CLIENT, peer(EntityType::CLIENT, 4123));
    mds.handle_message(now, CLIENT, open_session());
    mds.handle_message(now, monitor, map(3, MdsState::ACTIVE));
    let (_, beacon) = sent::<MdsBeacon>(&outputs(&mut mds)).unwrap();
    mds.handle_message(now, monitor, beacon.encode(SUPPORTED));
    outputs(&mut mds);
    // Its connection could not be resumed, else it would have the same number.
    mds.handle_closed(now, CLIENT);
    mds.handle_opened(now, AGAIN, peer(EntityType::CLIENT, 4123));
    let (conn, close) = sent::<ClientSession>(&outputs(&mut mds)).expect("an answer");
    assert_eq!((conn, close.op), (AGAIN, SessionOp::CLOSE));
    mds.handle_message(now, AGAIN, open_session());
    let (conn, open) = sent::<ClientSession>(&outputs(&mut mds)).expect("an answer");
    assert_eq!((conn, open.op), (AGAIN, SessionOp::OPEN));
}

#[test]
fn the_next_monitor_is_tried_when_a_session_ends() {
    let now = Time(1_000_000_000);
    let (mut mds, monitor) = started(now);
    outputs(&mut mds);
    mds.handle_closed(now, monitor);
    let due = mds.poll_timeout().unwrap();
    assert_eq!(due, now + MONITOR_RETRY);
    mds.handle_timeout(due);
    let again = outputs(&mut mds);
    let [Output::Connect { conn, target }] = &again[..] else { panic!("{again:?}") };
    assert_eq!((target.participant.number, *conn == monitor), (1, false));
}
