//! Connections recorded with Ceph's own clients and monitor: the bytes of each peer, replayed to a session
//! that answers as the recorded one did.
//!
//! The signatures in the streams are the real peers' answers to every byte that sessions send in the
//! handshake, and the secure stream is sealed by Ceph's AES-GCM.

use bytes::Bytes;
use engine::{
    AuthRequest, AuthVerdict, ConnectTarget, ConnectingAnswer, ConnectingStep, Message, Policy,
    Time,
};
use msgr::{CloseReason, Config, Event, MODE_CRC, MODE_SECURE, Session};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;
use types::{EntityAddr, EntityAddrVec, EntityName, EntityType, ParticipantName};

const NOW: Time = Time(1_800_000_000_000_000_000);
const CEPH_MSG_MON_MAP: u16 = 4;
const CEPH_MSG_MON_GET_MAP: u16 = 5;
const CEPH_MSG_MON_SUBSCRIBE: u16 = 15;

const CLIENTS: [&str; 3] = [
    include_str!("golden/client-16.2.15-crc.txt"),
    include_str!("golden/client-18.2.7-crc.txt"),
    include_str!("golden/client-20.2.4-crc.txt"),
];
const MONITORS: [(u32, &str); 2] = [
    (MODE_CRC, include_str!("golden/mon-18.2.7-cephx-crc.txt")),
    (MODE_SECURE, include_str!("golden/mon-18.2.7-cephx-secure.txt")),
];

/// The lines `name hex` of a recording.
struct Recording(BTreeMap<String, Bytes>);

impl Recording {
    fn parse(text: &str) -> Self {
        let byte = |pair: &[u8]| {
            u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).expect("hex digits")
        };
        let line = |line: &str| {
            let (name, hex) = line.split_once(' ').expect("a name and a value");
            (name.to_owned(), hex.as_bytes().chunks(2).map(byte).collect())
        };
        Recording(text.lines().map(line).collect())
    }

    fn bytes(&self, name: &str) -> Bytes {
        self.0[name].clone()
    }

    fn stream(&self) -> Bytes {
        self.bytes("stream")
    }
}

/// Result of a session with a stream.
#[derive(Debug, Default, PartialEq)]
struct Outcome {
    opened: bool,
    kinds: Vec<u16>,
    closed: Option<CloseReason>,
}

trait Side {
    fn session(&self) -> Session;
    fn answer(&self, session: &mut Session, event: Event);
}

struct Client(Recording);
struct Monitor(u32, Recording);

impl Side for Client {
    fn session(&self) -> Session {
        let addr = "v2:127.0.0.1:43311/0".parse().unwrap();
        let config = Config::daemon(EntityType::MON, 0, EntityAddrVec::one(addr));
        let from = String::from_utf8(self.0.bytes("from").to_vec()).unwrap();
        Session::accept(Arc::new(config), NOW, from.parse().unwrap(), 9)
    }

    fn answer(&self, session: &mut Session, event: Event) {
        let Event::AuthRequest(AuthRequest::Start { .. }) = event else { return };
        let verdict = AuthVerdict::Done {
            name: EntityName::client("admin"),
            global_id: 4242,
            mode: MODE_CRC,
            payload: Bytes::new(),
            session_key: Bytes::new(),
            connection_secret: Bytes::new(),
            caps: Bytes::new(),
        };
        session.handle_auth_verdict(NOW, verdict);
    }
}

impl Side for Monitor {
    fn session(&self) -> Session {
        let addr: EntityAddr = "v2:127.0.0.1:43310/0".parse().unwrap();
        let target = ConnectTarget {
            participant: ParticipantName::new(EntityType::MON, 0),
            addrs: EntityAddrVec::one(addr),
            policy: Policy::Lossy,
        };
        let mut session = Session::connect(Arc::new(Config::client(777)), NOW, target, 5);
        assert_eq!(session.poll_event(), Some(Event::Connect { addr: addr.socket.unwrap() }));
        session.handle_connected(NOW);
        session
    }

    fn answer(&self, session: &mut Session, event: Event) {
        let Monitor(mode, recording) = self;
        match event {
            Event::Connecting(ConnectingStep::Begin) => session.answer(ConnectingAnswer::Start {
                method: 2,
                preferred_modes: vec![*mode],
                payload: recording.bytes("auth_request"),
            }),
            Event::Connecting(ConnectingStep::More { .. }) => {
                session.answer(ConnectingAnswer::More { payload: recording.bytes("auth_more") });
            }
            Event::Connecting(ConnectingStep::Done { .. }) => {
                session.answer(ConnectingAnswer::Finish {
                    session_key: recording.bytes("session_key"),
                    connection_secret: recording.bytes("connection_secret"),
                });
            }
            Event::Opened(_) => {
                let _ = session.send(Message::new(CEPH_MSG_MON_GET_MAP, 1, 1, Bytes::new()));
            }
            _ => {}
        }
    }
}

fn play(side: &dyn Side, stream: Bytes, chunk_length: usize) -> Outcome {
    let mut session = side.session();
    let mut outcome = Outcome::default();
    for chunk in (0..stream.len()).step_by(chunk_length) {
        session.handle_received(NOW, stream.slice(chunk..stream.len().min(chunk + chunk_length)));
        while let Some(event) = session.poll_event() {
            match &event {
                Event::Opened(_) => outcome.opened = true,
                Event::Message(message) => outcome.kinds.push(message.kind),
                Event::Closed { reason } => outcome.closed = Some(reason.clone()),
                _ => {}
            }
            side.answer(&mut session, event);
        }
        session.poll_transmit(&mut Vec::new());
    }
    outcome
}

fn clients() -> impl Iterator<Item = Client> {
    CLIENTS.into_iter().map(|text| Client(Recording::parse(text)))
}

fn monitors() -> impl Iterator<Item = Monitor> {
    MONITORS.into_iter().map(|(mode, text)| Monitor(mode, Recording::parse(text)))
}

#[test]
fn real_clients_open_sessions_and_ask_for_the_monitor_map() {
    for client in clients() {
        for chunk_length in [1, 13, 1 << 20] {
            let outcome = play(&client, client.0.stream(), chunk_length);
            let kinds = vec![CEPH_MSG_MON_GET_MAP, CEPH_MSG_MON_SUBSCRIBE];
            assert_eq!(outcome, Outcome { opened: true, kinds, closed: None });
        }
    }
}

#[test]
fn a_real_monitor_accepts_the_handshake_and_sends_its_map() {
    for monitor in monitors() {
        for chunk_length in [1, 13, 1 << 20] {
            let outcome = play(&monitor, monitor.1.stream(), chunk_length);
            assert!(outcome.opened && outcome.closed.is_none(), "{outcome:?}");
            assert!(outcome.kinds.contains(&CEPH_MSG_MON_MAP), "{outcome:?}");
        }
    }
}

/// A stream that ends early or has one bit flipped never yields a message that was not sent.
fn check_damaged(side: &dyn Side, stream: &Bytes) {
    let expected = play(side, stream.clone(), 1 << 20);
    for end in 0..stream.len() {
        let outcome = play(side, stream.slice(..end), 1 << 20);
        assert!(expected.kinds.starts_with(&outcome.kinds) && outcome.closed.is_none());
    }
    for bit in 0..stream.len() * 8 {
        let mut damaged = stream.to_vec();
        damaged[bit / 8] ^= 1 << (bit % 8);
        let outcome = play(side, damaged.into(), 1 << 20);
        assert!(expected.kinds.starts_with(&outcome.kinds), "bit {bit}: {outcome:?}");
    }
}

#[test]
fn damaged_streams_are_errors_or_waits() {
    let client = clients().next().expect("recordings exist");
    check_damaged(&client, &client.0.stream());
    for monitor in monitors() {
        check_damaged(&monitor, &monitor.1.stream());
    }
}

#[test]
fn a_changed_handshake_is_noticed_by_its_signature() {
    for Monitor(mode, mut recording) in monitors() {
        let mut request = recording.bytes("auth_request").to_vec();
        request.push(0);
        recording.0.insert("auth_request".into(), request.into());
        let stream = recording.stream();
        let outcome = play(&Monitor(mode, recording), stream, 1 << 20);
        assert_eq!(outcome.closed, Some(CloseReason::Signature));
    }
}

#[test]
fn strangers_are_told_apart() {
    for (stream, expected) in [
        (&b"GET / HTTP/1.1\r\n\r\n"[..], wire::frame::BannerError::NotMsgr2),
        (b"ceph v027\0\0\0\0\0\0", wire::frame::BannerError::Msgr1),
    ] {
        let client = clients().next().expect("recordings exist");
        let outcome = play(&client, Bytes::from_static(stream), 1 << 20);
        assert_eq!(outcome.closed, Some(CloseReason::Banner(expected)));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn garbage_in_any_phase_never_panics(at in 0..1300usize, garbage: Vec<u8>, which in 0..5usize) {
        let side: Box<dyn Side> = match which {
            0..3 => Box::new(clients().nth(which).unwrap()),
            _ => Box::new(monitors().nth(which - 3).unwrap()),
        };
        let text = if which < 3 { CLIENTS[which] } else { MONITORS[which - 3].1 };
        let mut stream = Recording::parse(text).stream().to_vec();
        stream.truncate(at);
        stream.extend(garbage);
        play(side.as_ref(), stream.into(), 1 << 20);
    }
}
