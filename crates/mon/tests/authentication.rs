//! Authentication of clients, and the limits of their capabilities.

mod cluster;

use auth::{CephxClient, CryptoKey, Entropy};
use cluster::{ADMIN, Cluster, settings};
use engine::{AuthRequest, AuthVerdict, ConnId, Daemon};
use mon::{AuthMode, Monitor};
use serde_json::json;
use types::{EntityName, EntityType};

const CONN: ConnId = ConnId(ConnId::ACCEPTED + 7);

fn start(payload: &[u8], method: u32) -> AuthRequest {
    AuthRequest::Start {
        method,
        preferred_modes: vec![2, 1],
        payload: payload.to_vec().into(),
        seen_addr: "v2:127.0.0.1:9/9".parse().unwrap(),
    }
}

fn answer(cluster: &mut Cluster, request: AuthRequest) -> AuthVerdict {
    cluster.monitor.handle_auth(cluster.now, CONN, request);
    cluster.drain();
    let (conn, verdict) = cluster.verdicts.pop().unwrap();
    assert_eq!(conn, CONN);
    verdict
}

/// Authenticates with a key, and returns the outcome.
fn log_in(cluster: &mut Cluster, name: &str, key: CryptoKey) -> AuthVerdict {
    let name: EntityName = name.parse().unwrap();
    let mut client = client(name, key);
    log_in_as(cluster, &mut client)
}

fn client(name: EntityName, key: CryptoKey) -> CephxClient {
    CephxClient::new(name, key, &[EntityType::MON, EntityType::OSD, EntityType::MGR])
}

fn log_in_as(cluster: &mut Cluster, client: &mut CephxClient) -> AuthVerdict {
    let mut entropy = Entropy::from_seed([3; 32]);
    let hello = client.initial_request();
    let AuthVerdict::More { payload } = answer(cluster, start(&hello, 2)) else {
        panic!("no challenge")
    };
    let proof = client.handle_challenge(&payload, &mut entropy).unwrap();
    answer(cluster, AuthRequest::More { payload: proof.into() })
}

fn key_of(cluster: &Cluster, name: &str) -> CryptoKey {
    cluster.monitor.state().entities[&name.parse().unwrap()].key.clone()
}

#[test]
fn the_right_key_opens_a_session_with_its_capabilities() {
    let mut cluster = Cluster::new();
    let key = key_of(&cluster, "client.admin");
    let AuthVerdict::Done { name, global_id, mode, caps, connection_secret, .. } =
        log_in(&mut cluster, "client.admin", key)
    else {
        panic!("refused")
    };
    assert_eq!((name.to_string().as_str(), mode), ("client.admin", 2));
    assert!(global_id > 0 && !connection_secret.is_empty());
    assert_eq!(&caps[..], b"Mallow *");
}

/// A client that has its tickets.
fn ticketed(cluster: &mut Cluster) -> CephxClient {
    let key = key_of(cluster, "client.admin");
    let mut client = client("client.admin".parse().unwrap(), key);
    let AuthVerdict::Done { global_id, payload, session_key, .. } = log_in_as(cluster, &mut client)
    else {
        panic!("refused")
    };
    let session = client.handle_done(cluster.now.wall(), global_id, &payload).unwrap();
    assert_eq!(session.session_key.secret(), &session_key[..]);
    client
}

#[test]
fn a_ticket_opens_a_session_with_the_manager() {
    let mut cluster = Cluster::new();
    let client = ticketed(&mut cluster);
    let mut entropy = Entropy::from_seed([4; 32]);
    let mut authorizer = client.authorizer(EntityType::MGR, &mut entropy).unwrap();
    let AuthVerdict::More { payload } = answer(&mut cluster, start(authorizer.payload(), 2)) else {
        panic!("no challenge")
    };
    let proof = authorizer.handle_challenge(&payload, &mut entropy).unwrap();
    let verdict = answer(&mut cluster, AuthRequest::More { payload: proof.into() });
    let AuthVerdict::Done { payload, connection_secret, caps, .. } = verdict else {
        panic!("refused")
    };
    assert_eq!(&authorizer.handle_done(&payload).unwrap()[..], &connection_secret[..]);
    assert_eq!(&caps[..], b"Gallow *");
    // A ticket for another service is refused.
    let osd = client.authorizer(EntityType::OSD, &mut entropy).unwrap();
    let verdict = answer(&mut cluster, start(osd.payload(), 2));
    assert!(matches!(verdict, AuthVerdict::BadMethod { .. }));
}

#[test]
fn commands_reach_the_manager_by_its_own_messages() {
    let mut cluster = Cluster::healthy();
    let conn = ConnId(ConnId::ACCEPTED + 8);
    cluster.open_with(conn, "client.admin", 5, "Gallow *");
    let command = vec![json!({ "prefix": "pg stat", "format": "json" }).to_string()];
    let message =
        wire::MgrCommand { fsid: cluster.monitor.fsid(), command, input: Default::default() };
    cluster.send(conn, 9, &message);
    let reply = cluster.take::<wire::MgrCommandReply>(conn).remove(0);
    assert_eq!(reply.result, 0);
    assert!(!reply.output.is_empty());
}

#[test]
fn tickets_are_renewed_over_the_open_session() {
    let mut cluster = Cluster::new();
    let mut client = ticketed(&mut cluster);
    cluster.open_with(CONN, "client.admin", 5, "Mallow *");
    cluster.advance(std::time::Duration::from_secs(3000));
    let now = cluster.now.wall();
    let mut entropy = Entropy::from_seed([5; 32]);
    let request = client.renewal_request(now, &mut entropy).unwrap().expect("a renewal is due");
    let message = wire::Auth { version: 0, protocol: 2, payload: request.into(), monmap_epoch: 1 };
    cluster.send(CONN, 0, &message);
    let reply = cluster.take::<wire::AuthReply>(CONN).remove(0);
    assert_eq!(reply.result, 0);
    client.handle_renewal(now, &reply.payload).unwrap();
    assert!(client.has_ticket(EntityType::OSD, now));
}

#[test]
fn a_session_keeps_its_capabilities_when_its_key_is_removed_and_its_tickets_are_not_renewed() {
    let mut cluster = Cluster::new();
    let made = json!({
        "prefix": "auth get-or-create-key", "entity": "client.user", "caps": ["mon", "allow r"],
    });
    let key: CryptoKey = cluster.json(made)["key"].as_str().unwrap().parse().unwrap();
    let mut user = client("client.user".parse().unwrap(), key.clone());
    let AuthVerdict::Done { global_id, payload, caps, .. } = log_in_as(&mut cluster, &mut user)
    else {
        panic!("refused")
    };
    user.handle_done(cluster.now.wall(), global_id, &payload).unwrap();
    let caps = String::from_utf8(caps.to_vec()).unwrap();
    cluster.open_with(CONN, "client.user", 5, &caps);
    let status = json!({ "prefix": "status" });
    let removed = cluster.command(json!({ "prefix": "auth rm", "entity": "client.user" }));
    assert_eq!(removed.result, 0);
    assert_eq!(cluster.command_on(CONN, &status, b"").result, 0);
    cluster.advance(std::time::Duration::from_secs(3000));
    let mut entropy = Entropy::from_seed([5; 32]);
    let request = user.renewal_request(cluster.now.wall(), &mut entropy).unwrap().unwrap();
    let message = wire::Auth { version: 0, protocol: 2, payload: request.into(), monmap_epoch: 1 };
    cluster.send(CONN, 0, &message);
    assert!(cluster.take::<wire::AuthReply>(CONN).remove(0).result < 0);
    cluster.monitor.handle_closed(cluster.now, CONN);
    assert!(!matches!(log_in(&mut cluster, "client.user", key), AuthVerdict::Done { .. }));
}

#[test]
fn keys_of_both_types_are_accepted() {
    let mut cluster = Cluster::new();
    let command = json!({
        "prefix": "auth get-or-create-key", "entity": "client.strong",
        "caps": ["mon", "allow r"], "key_type": "aes256k", "format": "json",
    });
    let reply = cluster.json(command);
    let key: CryptoKey = reply["key"].as_str().unwrap().parse().unwrap();
    assert_eq!(key.kind(), auth::KeyType::Aes256k);
    assert!(matches!(log_in(&mut cluster, "client.strong", key), AuthVerdict::Done { .. }));
}

#[test]
fn wrong_keys_names_and_methods_are_refused() {
    let mut cluster = Cluster::new();
    let wrong = CryptoKey::from_secret(auth::KeyType::Aes, Default::default(), &[1; 16]).unwrap();
    let refused = |verdict: AuthVerdict| matches!(verdict, AuthVerdict::BadMethod { result, .. } if result < 0);
    assert!(refused(log_in(&mut cluster, "client.admin", wrong.clone())));
    assert!(refused(log_in(&mut cluster, "client.nobody", wrong)));
    assert!(refused(answer(&mut cluster, start(b"", 1))));
    assert!(refused(answer(&mut cluster, start(b"", 2))));
    assert!(refused(answer(&mut cluster, start(b"\x0a\xff", 2))));
    assert!(refused(answer(&mut cluster, AuthRequest::More { payload: b"x"[..].into() })));
}

#[test]
fn many_clients_get_ids_of_their_own_beyond_one_reservation() {
    let mut cluster = Cluster::new();
    let key = key_of(&cluster, "client.admin");
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..1200 {
        let verdict = log_in(&mut cluster, "client.admin", key.clone());
        let AuthVerdict::Done { global_id, .. } = verdict else { panic!("refused") };
        assert!(seen.insert(global_id), "{global_id} was given twice");
        cluster.advance(std::time::Duration::from_millis(10));
    }
}

#[test]
fn a_flood_of_clients_that_prove_nothing_costs_no_ids_and_no_writes() {
    let mut cluster = Cluster::new();
    cluster.advance(std::time::Duration::from_secs(2));
    let (reserved, commits) = (cluster.monitor.state().global_id_next, cluster.commits);
    let wrong = CryptoKey::from_secret(auth::KeyType::Aes, Default::default(), &[1; 16]).unwrap();
    for round in 0..3000 {
        let hello = client("client.admin".parse().unwrap(), wrong.clone()).initial_request();
        answer(&mut cluster, start(&hello, 2));
        if round % 100 == 0 {
            log_in(&mut cluster, "client.admin", wrong.clone());
            cluster.advance(std::time::Duration::from_secs(1));
        }
    }
    assert_eq!((cluster.monitor.state().global_id_next, cluster.commits), (reserved, commits));
    let key = key_of(&cluster, "client.admin");
    assert!(matches!(log_in(&mut cluster, "client.admin", key), AuthVerdict::Done { .. }));
}

/// A client requests an id from a monitor without authentication, and has no answer yet.
fn ask_for_id(cluster: &mut Cluster, conn: ConnId) {
    let mut w = codec::Writer::new();
    w.value(&auth::MonAuthRequest { name: "client.admin".parse().unwrap(), global_id: 0 });
    cluster.monitor.handle_auth(cluster.now, conn, start(w.as_slice(), 1));
}

#[test]
fn an_id_that_is_given_while_more_are_reserved_is_not_given_again() {
    let hour = std::time::Duration::from_secs(3600);
    let earlier = Cluster::new();
    // The clock is behind that of the monitor that made the last reservation, so reservations are contiguous.
    let settings = mon::Settings { auth: AuthMode::None, ..settings() };
    let monitor = Monitor::new(settings, [1; 32]);
    let mut cluster = Cluster::run(monitor, earlier.control.clone(), earlier.now - hour);
    cluster.advance(std::time::Duration::from_millis(100));
    let conns = (1..).map(|number| ConnId(ConnId::ACCEPTED + number));
    conns.clone().take(600).for_each(|conn| ask_for_id(&mut cluster, conn));
    cluster.drain();
    // A reservation is in flight; a client that connects before it is durable gets an id of the former one.
    cluster.now = cluster.monitor.poll_timeout().unwrap();
    cluster.monitor.handle_timeout(cluster.now);
    conns.clone().skip(600).take(100).for_each(|conn| ask_for_id(&mut cluster, conn));
    cluster.drain();
    conns.skip(700).take(100).for_each(|conn| ask_for_id(&mut cluster, conn));
    cluster.drain();
    let mut seen = std::collections::BTreeSet::new();
    for (_, verdict) in cluster.verdicts.drain(..) {
        let AuthVerdict::Done { global_id, .. } = verdict else { panic!("refused") };
        assert!(seen.insert(global_id), "{global_id} was given twice");
    }
    assert_eq!(seen.len(), 800);
}

#[test]
fn without_authentication_names_are_believed() {
    let mut cluster = Cluster::new();
    cluster.monitor = Monitor::new(mon::Settings { auth: AuthMode::None, ..settings() }, [1; 32]);
    cluster.drain();
    let mut w = codec::Writer::new();
    w.value(&auth::MonAuthRequest { name: "client.admin".parse().unwrap(), global_id: 0 });
    let verdict = answer(&mut cluster, start(w.as_slice(), 1));
    assert!(matches!(verdict, AuthVerdict::Done { mode: 1, .. }), "{verdict:?}");
}

#[test]
fn capabilities_limit_commands() {
    let mut cluster = Cluster::healthy();
    let reader = ConnId(ConnId::ACCEPTED + 20);
    cluster.open(reader, "client.reader", 77, "allow r");
    let status = json!({ "prefix": "status" });
    assert_eq!(cluster.command_on(reader, &status, b"").result, 0);
    let denied = [
        json!({ "prefix": "osd pool create", "pool": "x" }),
        json!({ "prefix": "auth ls" }),
        json!({ "prefix": "config-key get", "key": "x" }),
        json!({ "prefix": "osd set", "key": "noout" }),
    ];
    for command in denied {
        let reply = cluster.command_on(reader, &command, b"");
        assert_eq!((reply.result, reply.text.as_str()), (-13, "access denied"), "{command}");
    }
    let nobody = ConnId(ConnId::ACCEPTED + 21);
    cluster.open(nobody, "client.nobody", 78, "no such grammar");
    assert_eq!(cluster.command_on(nobody, &status, b"").result, -13);
    let single = ConnId(ConnId::ACCEPTED + 22);
    cluster.open(single, "client.single", 79, "allow command \"osd lspools\"");
    assert_eq!(cluster.command_on(single, &json!({ "prefix": "osd lspools" }), b"").result, 0);
    assert_eq!(cluster.command_on(single, &status, b"").result, -13);
    assert_eq!(cluster.command_on(ADMIN, &json!({ "prefix": "auth ls" }), b"").result, 0);
}

#[test]
fn osd_messages_are_only_taken_from_osds() {
    let mut cluster = Cluster::healthy();
    let conn = ConnId(ConnId::ACCEPTED + 30);
    cluster.open(conn, "client.reader", 0, "allow r");
    let epoch = cluster.epoch();
    let want = wire::OsdAlive { version: 0, want: epoch };
    cluster.send(conn, 0, &want);
    assert_eq!(cluster.epoch(), epoch);
    cluster.send(Cluster::osd_conn(0), 0, &want);
    assert_eq!(cluster.epoch(), epoch.next());
}
