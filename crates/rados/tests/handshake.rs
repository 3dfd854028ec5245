//! The client's side of authentication against `auth`'s monitor and service sides.

use auth::{
    AuthorizeHandler, AuthorizeStep, CephxPolicy, CephxServer, ConnectFailure, CryptoKey,
    EntityAuth, Entropy, KeyType, MonAuthRequest, ServerContext, ServiceSecrets,
};
use bytes::Bytes;
use engine::{
    ConnId, ConnectingAnswer, ConnectingStep, Daemon, Duration, Message, Output, Peer, Time,
};
use rados::{Client, Config, Credentials};
use std::collections::BTreeMap;
use types::features::SUPPORTED;
use types::{EntityAddrVec, EntityName, EntityType, UTime};
use wire::{Auth, AuthReply, MessageBody};

const START: Time = Time(1_700_000_000_000_000_000);
const GLOBAL_ID: u64 = 4123;
const MONITOR: ConnId = ConnId(1);
const OSD: ConnId = ConnId(99);

struct Monitor {
    keys: BTreeMap<EntityName, EntityAuth>,
    secrets: ServiceSecrets,
    policy: CephxPolicy,
    entropy: Entropy,
    session: Option<CephxServer>,
}

impl Monitor {
    fn answer(&mut self, now: UTime, request: &[u8], secret_length: Option<usize>) -> Vec<u8> {
        let context = ServerContext {
            now,
            keys: &self.keys,
            secrets: &self.secrets,
            policy: &self.policy,
            entropy: &mut self.entropy,
        };
        let session = self.session.as_mut().unwrap();
        session.handle_request(context, request, secret_length).unwrap().payload
    }
}

fn pair() -> (Client, Monitor) {
    let mut entropy = Entropy::from_seed([3; 32]);
    let name = EntityName::client("test");
    let key = CryptoKey::generate(KeyType::Aes, START.wall(), &mut entropy);
    let entity =
        EntityAuth::new(key.clone()).with_caps("mon", "allow r").with_caps("osd", "allow *");
    let keys = [(name.clone(), entity)].into();
    let policy = CephxPolicy::default();
    let mut secrets = ServiceSecrets::default();
    secrets.rotate(START.wall(), &policy, &mut entropy);
    let addrs = EntityAddrVec::one("v2:127.0.0.1:3300/0".parse().unwrap());
    let config = Config::new(name, Credentials::Key(key), vec![addrs]);
    let mut client = Client::new(config, entropy.fork());
    client.start(START);
    assert!(matches!(client.poll_output(), Some(Output::Connect { conn: MONITOR, .. })));
    (client, Monitor { keys, secrets, policy, entropy, session: None })
}

/// Keys of an authenticated session; both are empty for method none.
#[derive(Debug, PartialEq, Eq, Default)]
struct Secrets {
    session_key: Bytes,
    connection_secret: Bytes,
}

/// Method, preferred modes and payload of AUTH_REQUEST.
fn begin(client: &mut Client, conn: ConnId) -> (u32, Vec<u32>, Bytes) {
    match client.authenticate(START, conn, ConnectingStep::Begin) {
        ConnectingAnswer::Start { method, preferred_modes, payload } => {
            (method, preferred_modes, payload)
        }
        other => panic!("{other:?}: {:?}", client.take_auth_failure()),
    }
}

/// The payload of AUTH_REQUEST_MORE.
fn proceed(client: &mut Client, conn: ConnId, payload: &[u8]) -> Bytes {
    let payload = Bytes::copy_from_slice(payload);
    match client.authenticate(START, conn, ConnectingStep::More { payload }) {
        ConnectingAnswer::More { payload } => payload,
        other => panic!("{other:?}: {:?}", client.take_auth_failure()),
    }
}

fn finish(client: &mut Client, now: Time, conn: ConnId, global_id: u64, payload: &[u8]) -> Secrets {
    let payload = Bytes::copy_from_slice(payload);
    match client.authenticate(now, conn, ConnectingStep::Done { global_id, payload }) {
        ConnectingAnswer::Finish { session_key, connection_secret } => {
            Secrets { session_key, connection_secret }
        }
        other => panic!("{other:?}: {:?}", client.take_auth_failure()),
    }
}

/// Takes a step that must fail.
fn fail(client: &mut Client, conn: ConnId, step: ConnectingStep) -> ConnectFailure {
    assert_eq!(client.authenticate(START, conn, step), ConnectingAnswer::Refuse);
    client.take_auth_failure().expect("a refusal has a reason")
}

fn more(payload: &'static [u8]) -> ConnectingStep {
    ConnectingStep::More { payload: Bytes::from_static(payload) }
}

fn done(global_id: u64, payload: &'static [u8]) -> ConnectingStep {
    ConnectingStep::Done { global_id, payload: Bytes::from_static(payload) }
}

/// The handshake with the monitor.
fn enter(client: &mut Client, monitor: &mut Monitor) -> Secrets {
    let (method, preferred_modes, payload) = begin(client, MONITOR);
    assert_eq!((method, preferred_modes), (2, vec![1, 2]));
    let request: MonAuthRequest = codec::decode_all("request", &payload).unwrap();
    let entropy = &mut monitor.entropy;
    let (session, challenge) = CephxServer::start(request.name, GLOBAL_ID, true, entropy);
    monitor.session = Some(session);
    let proof = proceed(client, MONITOR, &challenge);
    let done = monitor.answer(START.wall(), &proof, Some(auth::CONNECTION_SECRET_LENGTH));
    let secrets = finish(client, START, MONITOR, GLOBAL_ID, &done);
    client.handle_opened(START, MONITOR, peer());
    secrets
}

fn peer() -> Peer {
    Peer {
        participant: types::ParticipantName::new(EntityType::MON, 0),
        name: EntityName::default(),
        addrs: EntityAddrVec::default(),
        features: SUPPORTED,
        caps: Default::default(),
        seen_addr: Default::default(),
    }
}

/// The handshake with an OSD.
fn authorize(client: &mut Client, monitor: &mut Monitor, now: Time) -> Secrets {
    let mut osd = AuthorizeHandler::new(EntityType::OSD);
    let secrets = monitor.secrets.service(EntityType::OSD).unwrap();
    let mut judge = |authorizer: &[u8]| {
        let length = auth::CONNECTION_SECRET_LENGTH;
        osd.handle(now.wall(), secrets, authorizer, length, &mut monitor.entropy).unwrap()
    };
    let (_, _, payload) = begin(client, OSD);
    let AuthorizeStep::Challenge(challenge) = judge(&payload) else { panic!("accepted") };
    let answer = proceed(client, OSD, &challenge);
    let AuthorizeStep::Accepted { peer, reply } = judge(&answer) else { panic!("challenged") };
    assert_eq!((peer.name, peer.global_id), (EntityName::client("test"), GLOBAL_ID));
    let secrets = finish(client, now, OSD, 0, &reply);
    assert_eq!(secrets.session_key, peer.session_key.secret());
    assert_eq!(secrets.connection_secret, peer.connection_secret);
    secrets
}

#[test]
fn a_key_opens_the_monitor_and_its_tickets_open_osds() {
    let (mut client, mut monitor) = pair();
    let secrets = enter(&mut client, &mut monitor);
    assert_eq!(secrets.connection_secret.len(), auth::CONNECTION_SECRET_LENGTH);
    assert!(!secrets.session_key.is_empty());
    let first = authorize(&mut client, &mut monitor, START);
    let second = authorize(&mut client, &mut monitor, START);
    assert_ne!(first.connection_secret, second.connection_secret);
}

#[test]
fn without_a_ticket_no_osd_session_is_begun() {
    let (mut client, _) = pair();
    assert!(matches!(fail(&mut client, OSD, ConnectingStep::Begin), ConnectFailure::Cephx(_)));
    assert!(matches!(fail(&mut client, OSD, more(b"any")), ConnectFailure::NotBegun(OSD)));
    assert!(matches!(fail(&mut client, OSD, done(0, b"any")), ConnectFailure::NotBegun(OSD)));
}

#[test]
fn garbage_from_the_peer_is_an_error() {
    let (mut client, _) = pair();
    begin(&mut client, MONITOR);
    assert!(matches!(fail(&mut client, MONITOR, more(b"short")), ConnectFailure::Cephx(_)));
    let again = fail(&mut client, MONITOR, more(b"short"));
    assert!(matches!(again, ConnectFailure::NotBegun(MONITOR)));
    begin(&mut client, MONITOR);
    assert!(matches!(
        fail(&mut client, MONITOR, done(GLOBAL_ID, b"short")),
        ConnectFailure::Cephx(_)
    ));
}

#[test]
fn tickets_are_renewed_before_they_expire() {
    let (mut client, mut monitor) = pair();
    enter(&mut client, &mut monitor);
    while client.poll_output().is_some() {}
    let mut now = START;
    let end = START + monitor.policy.service_ticket_ttl * 3;
    let mut renewals = 0;
    while now < end {
        now = client.poll_timeout().expect("a renewal is due some time").max(now);
        client.handle_timeout(now);
        monitor.secrets.rotate(now.wall(), &monitor.policy, &mut monitor.entropy);
        while let Some(output) = client.poll_output() {
            let Output::Send { message, .. } = output else { panic!("unexpected {output:?}") };
            let request = Auth::decode(&message).unwrap();
            let payload = monitor.answer(now.wall(), &request.payload, None).into();
            let reply = AuthReply { protocol: 2, payload, ..AuthReply::default() };
            client.handle_message(now, MONITOR, reply.encode(SUPPORTED));
            renewals += 1;
        }
        authorize(&mut client, &mut monitor, now + Duration::from_secs(1));
    }
    assert!((3..50).contains(&renewals), "{renewals} renewals");
}

#[test]
fn auth_none_asserts_the_name() {
    let addrs = EntityAddrVec::one("v2:127.0.0.1:3300/0".parse().unwrap());
    let config = Config::new(EntityName::client("x"), Credentials::None, vec![addrs]);
    let mut client = Client::new(config, Entropy::from_seed([1; 32]));
    client.start(START);
    assert_eq!(begin(&mut client, MONITOR).0, 1);
    assert_eq!(finish(&mut client, START, MONITOR, 7, b""), Secrets::default());
    let (_, _, authorizer) = begin(&mut client, OSD);
    let authorizer: auth::NoneAuthorizer = codec::decode_all("authorizer", &authorizer).unwrap();
    assert_eq!((authorizer.name, authorizer.global_id), (EntityName::client("x"), 7));
}

#[test]
fn messages_of_any_content_are_survived() {
    let (mut client, mut monitor) = pair();
    enter(&mut client, &mut monitor);
    let kinds = [4, 18, 20, 41, 43, 44, 51, 61, 98, 0x7f00];
    for kind in kinds {
        for front in [&b""[..], b"garbage", &[0xff; 300]] {
            let front = bytes::Bytes::copy_from_slice(front);
            client.handle_message(START, MONITOR, Message::new(kind, 1, 1, front));
        }
    }
    assert!(client.osd_map().is_none());
}
