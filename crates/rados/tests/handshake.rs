//! The client's side of authentication against `auth`'s monitor and service sides.

use auth::{
    AuthorizeHandler, AuthorizeStep, CephxPolicy, CephxServer, CryptoKey, EntityAuth, Entropy,
    KeyType, MonAuthRequest, ServerContext, ServiceSecrets,
};
use engine::{ConnId, Daemon, Duration, Message, Output, Peer, Time};
use rados::{AuthSecrets, Client, Config, Credentials};
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

/// The handshake with the monitor.
fn enter(client: &mut Client, monitor: &mut Monitor) -> AuthSecrets {
    let start = client.begin_auth(MONITOR).unwrap();
    assert_eq!((start.method, start.preferred_modes), (2, vec![1, 2]));
    let request: MonAuthRequest = codec::decode_all("request", &start.payload).unwrap();
    let entropy = &mut monitor.entropy;
    let (session, challenge) = CephxServer::start(request.name, GLOBAL_ID, true, entropy);
    monitor.session = Some(session);
    let proof = client.continue_auth(MONITOR, &challenge).unwrap();
    let done = monitor.answer(START.wall(), &proof, Some(auth::CONNECTION_SECRET_LENGTH));
    let secrets = client.finish_auth(START, MONITOR, GLOBAL_ID, &done).unwrap();
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
fn authorize(client: &mut Client, monitor: &mut Monitor, now: Time) -> AuthSecrets {
    let mut osd = AuthorizeHandler::new(EntityType::OSD);
    let secrets = monitor.secrets.service(EntityType::OSD).unwrap();
    let mut judge = |authorizer: &[u8]| {
        let length = auth::CONNECTION_SECRET_LENGTH;
        osd.handle(now.wall(), secrets, authorizer, length, &mut monitor.entropy).unwrap()
    };
    let start = client.begin_auth(OSD).unwrap();
    let AuthorizeStep::Challenge(challenge) = judge(&start.payload) else { panic!("accepted") };
    let answer = client.continue_auth(OSD, &challenge).unwrap();
    let AuthorizeStep::Accepted { peer, reply } = judge(&answer) else { panic!("challenged") };
    assert_eq!((peer.name, peer.global_id), (EntityName::client("test"), GLOBAL_ID));
    let secrets = client.finish_auth(now, OSD, 0, &reply).unwrap();
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
    assert!(client.begin_auth(OSD).is_err());
    assert!(client.continue_auth(OSD, b"anything").is_err());
    assert!(client.finish_auth(START, OSD, 0, b"anything").is_err());
}

#[test]
fn garbage_from_the_peer_is_an_error() {
    let (mut client, _) = pair();
    client.begin_auth(MONITOR).unwrap();
    assert!(client.continue_auth(MONITOR, b"short").is_err());
    assert!(client.finish_auth(START, MONITOR, GLOBAL_ID, b"short").is_err());
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
    assert_eq!(client.begin_auth(MONITOR).unwrap().method, 1);
    assert_eq!(client.finish_auth(START, MONITOR, 7, b"").unwrap(), AuthSecrets::default());
    let authorizer = client.begin_auth(OSD).unwrap();
    let authorizer: auth::NoneAuthorizer =
        codec::decode_all("authorizer", &authorizer.payload).unwrap();
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
