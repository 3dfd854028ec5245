//! Each identity against the accepting sides of this crate.

use super::*;
use crate::{
    AuthorizeHandler, AuthorizeStep, CONNECTION_SECRET_LENGTH, CephxPolicy, CephxServer,
    EntityAuth, KeyType, MODE_CRC, MODE_SECURE, ServerContext, ServiceSecrets,
};
use std::time::Duration;

const NOW: Time = Time(1_700_000_000_000_000_000);
const CONN: ConnId = ConnId(7);
const GLOBAL_ID: u64 = 4123;

/// The monitor's side: keys, secrets, and the session that is being opened.
struct Monitor {
    keys: BTreeMap<EntityName, EntityAuth>,
    secrets: ServiceSecrets,
    policy: CephxPolicy,
    entropy: Entropy,
}

impl Monitor {
    fn new() -> Self {
        let (mut entropy, policy) = (Entropy::from_seed([3; 32]), CephxPolicy::default());
        let mut secrets = ServiceSecrets::default();
        secrets.rotate(NOW.wall(), &policy, &mut entropy);
        let mut keys = BTreeMap::new();
        for name in [EntityName::client("a"), EntityName::osd(3)] {
            let key = CryptoKey::generate(KeyType::Aes, NOW.wall(), &mut entropy);
            let entity =
                EntityAuth::new(key).with_caps("mon", "allow *").with_caps("osd", "allow *");
            keys.insert(name, entity);
        }
        Monitor { keys, secrets, policy, entropy }
    }

    fn key(&self, name: &EntityName) -> CryptoKey {
        self.keys[name].key.clone()
    }

    fn secrets(&self, service: EntityType) -> RotatingSecrets {
        self.secrets.service(service).unwrap().clone()
    }

    fn handle(
        &mut self,
        server: &mut CephxServer,
        now: Time,
        payload: &[u8],
        secret_length: Option<usize>,
    ) -> Vec<u8> {
        let context = ServerContext {
            now: now.wall(),
            keys: &self.keys,
            secrets: &self.secrets,
            policy: &self.policy,
            entropy: &mut self.entropy,
        };
        server.handle_request(context, payload, secret_length).unwrap().payload
    }

    /// The whole exchange with a monitor, whose side is returned.
    fn admit(&mut self, connector: &mut Connector) -> CephxServer {
        let (method, modes, payload) = begin(connector, Towards::Monitor);
        assert_eq!((method, modes), (METHOD_CEPHX, vec![MODE_CRC, MODE_SECURE]));
        let request: MonAuthRequest = codec::decode_all("request", &payload).unwrap();
        let (mut server, challenge) =
            CephxServer::start(request.name, GLOBAL_ID, true, &mut self.entropy);
        let proof = more(connector, Towards::Monitor, &challenge).unwrap();
        let done = self.handle(&mut server, NOW, &proof, Some(CONNECTION_SECRET_LENGTH));
        let (key, secret) = done_with(connector, Towards::Monitor, GLOBAL_ID, &done).unwrap();
        assert!(!key.is_empty());
        assert_eq!(secret.len(), CONNECTION_SECRET_LENGTH);
        server
    }

    /// The whole exchange with a service; returns the name that it saw.
    fn authorize(&mut self, connector: &mut Connector, to: Towards<'_>) -> EntityName {
        let service = match to {
            Towards::Service(service) => service,
            _ => connector.identity.name().kind,
        };
        let secrets = self.secrets(service);
        let mut handler = AuthorizeHandler::new(service);
        let mut judge = |payload: &[u8]| {
            let length = CONNECTION_SECRET_LENGTH;
            handler.handle(NOW.wall(), &secrets, payload, length, &mut self.entropy).unwrap()
        };
        let (method, _, payload) = begin(connector, to);
        assert_eq!(method, METHOD_CEPHX);
        let AuthorizeStep::Challenge(challenge) = judge(&payload) else { panic!("accepted") };
        let answer = more(connector, to, &challenge).unwrap();
        let AuthorizeStep::Accepted { peer, reply } = judge(&answer) else { panic!("challenged") };
        let (key, secret) = done_with(connector, to, 0, &reply).unwrap();
        assert_eq!(
            (&key[..], &secret[..]),
            (peer.session_key.secret(), &peer.connection_secret[..])
        );
        peer.name
    }
}

fn entropy() -> Entropy {
    Entropy::from_seed([9; 32])
}

fn step(
    connector: &mut Connector,
    to: Towards<'_>,
    step: ConnectingStep,
) -> Result<ConnectingAnswer, ConnectFailure> {
    let answer = connector.step(NOW, CONN, to, step, &mut entropy());
    connector.check_invariants();
    assert!(answer.is_ok() || connector.open.is_empty(), "a failure leaves a proof");
    answer
}

fn begin(connector: &mut Connector, to: Towards<'_>) -> (u32, Vec<u32>, Bytes) {
    match step(connector, to, ConnectingStep::Begin) {
        Ok(ConnectingAnswer::Start { method, preferred_modes, payload }) => {
            (method, preferred_modes, payload)
        }
        other => panic!("{other:?}"),
    }
}

fn begin_error(connector: &mut Connector, to: Towards<'_>) -> ConnectFailure {
    step(connector, to, ConnectingStep::Begin).unwrap_err()
}

fn more(
    connector: &mut Connector,
    to: Towards<'_>,
    payload: &[u8],
) -> Result<Bytes, ConnectFailure> {
    let payload = Bytes::copy_from_slice(payload);
    match step(connector, to, ConnectingStep::More { payload })? {
        ConnectingAnswer::More { payload } => Ok(payload),
        other => panic!("{other:?}"),
    }
}

fn done_with(
    connector: &mut Connector,
    to: Towards<'_>,
    global_id: u64,
    payload: &[u8],
) -> Result<(Bytes, Bytes), ConnectFailure> {
    let payload = Bytes::copy_from_slice(payload);
    match step(connector, to, ConnectingStep::Done { global_id, payload })? {
        ConnectingAnswer::Finish { session_key, connection_secret } => {
            Ok((session_key, connection_secret))
        }
        other => panic!("{other:?}"),
    }
}

fn connector(identity: Identity) -> Connector {
    Connector::new(identity, vec![MODE_CRC, MODE_SECURE])
}

fn client(monitor: &Monitor) -> Connector {
    let name = EntityName::client("a");
    let key = monitor.key(&name);
    let wanted = [EntityType::MON, EntityType::OSD];
    connector(Identity::Key(Box::new(CephxClient::new(name, key, &wanted))))
}

fn osd(key: Option<CryptoKey>) -> Connector {
    connector(Identity::Daemon { name: EntityName::osd(3), key })
}

#[test]
fn a_key_opens_monitors_and_its_tickets_open_services() {
    let mut monitor = Monitor::new();
    let mut client = client(&monitor);
    let to = Towards::Service(EntityType::OSD);
    let no_ticket = ClientError::NoTicket(EntityType::OSD).into();
    assert_eq!(begin_error(&mut client, to), no_ticket);
    monitor.admit(&mut client);
    assert_eq!(client.global_id(), GLOBAL_ID);
    assert_eq!(monitor.authorize(&mut client, to), EntityName::client("a"));
}

#[test]
fn tickets_are_renewed_when_they_are_due() {
    let mut monitor = Monitor::new();
    let mut client = client(&monitor);
    let mut server = monitor.admit(&mut client);
    assert_eq!(client.renewal(NOW, &mut entropy()), None);
    let due = client.next_renewal().unwrap();
    assert!(due > NOW);
    let (protocol, request) = client.renewal(due, &mut entropy()).unwrap();
    assert_eq!(protocol, METHOD_CEPHX);
    let reply = monitor.handle(&mut server, due, &request, None);
    client.handle_renewal(due, &reply).unwrap();
    assert!(client.next_renewal().unwrap() > due + Duration::from_secs(60));
    assert!(client.handle_renewal(due, b"any").is_err());
}

#[test]
fn a_daemon_proves_its_key_to_monitors_and_seals_tickets_for_its_peers() {
    let mut monitor = Monitor::new();
    let mut osd = osd(Some(monitor.key(&EntityName::osd(3))));
    monitor.admit(&mut osd);
    assert_eq!((osd.global_id(), osd.next_renewal()), (0, None));
    let secrets = monitor.secrets(EntityType::OSD);
    let to = Towards::Peer(Some(&secrets));
    assert_eq!(monitor.authorize(&mut osd, to), EntityName::osd(3));
    assert_eq!(begin_error(&mut osd, Towards::Peer(None)), ConnectFailure::NoSecrets);
    let to = Towards::Peer(Some(&RotatingSecrets::default()));
    assert!(matches!(begin_error(&mut osd, to), ConnectFailure::Cephx(_)));
    let to = Towards::Service(EntityType::MDS);
    assert!(matches!(begin_error(&mut osd, to), ConnectFailure::Cephx(_)));
}

#[test]
fn a_daemon_without_a_key_opens_no_session_with_a_monitor() {
    let mut osd = osd(None);
    assert_eq!(begin_error(&mut osd, Towards::Monitor), ConnectFailure::NoKey);
    assert_eq!(osd.open_rotating(b"any").unwrap_err(), ConnectFailure::NoKey);
}

#[test]
fn rotating_secrets_open_with_the_key_for_which_they_were_sealed() {
    let mut monitor = Monitor::new();
    let mut osd = osd(Some(monitor.key(&EntityName::osd(3))));
    let mut server = monitor.admit(&mut osd);
    let request = crate::RequestType::RotatingKey.number().to_le_bytes();
    let sealed = monitor.handle(&mut server, NOW, &request, None);
    assert_eq!(osd.open_rotating(&sealed), Ok(monitor.secrets(EntityType::OSD)));
    assert!(osd.open_rotating(&sealed[..sealed.len() - 1]).is_err());
}

#[test]
fn a_daemon_that_keeps_its_global_id_opens_rotating_secrets_too() {
    let mut monitor = Monitor::new();
    let key = monitor.key(&EntityName::osd(3));
    let identity = CephxClient::new(EntityName::osd(3), key, &[]);
    let mut daemon = connector(Identity::Key(Box::new(identity)));
    let mut server = monitor.admit(&mut daemon);
    let request = crate::RequestType::RotatingKey.number().to_le_bytes();
    let sealed = monitor.handle(&mut server, NOW, &request, None);
    assert_eq!(daemon.open_rotating(&sealed), Ok(monitor.secrets(EntityType::OSD)));
    assert_eq!(daemon.global_id(), GLOBAL_ID);
}

#[test]
fn a_monitor_seals_a_ticket_for_another_and_has_no_key() {
    let mut monitor = Monitor::new();
    let name = EntityName::new(EntityType::MON, "b");
    let mut peer = connector(Identity::Peer { name: name.clone() });
    let secrets = monitor.secrets(EntityType::MON);
    assert_eq!(monitor.authorize(&mut peer, Towards::Peer(Some(&secrets))), name);
    assert_eq!(begin_error(&mut peer, Towards::Monitor), ConnectFailure::NoKey);
}

#[test]
fn a_client_without_a_key_repeats_the_global_id_that_it_was_assigned() {
    let name = EntityName::client("x");
    let mut client = connector(Identity::Asserted { name: name.clone(), keeps_global_id: true });
    let (method, _, payload) = begin(&mut client, Towards::Monitor);
    assert_eq!(method, METHOD_NONE);
    let first: MonAuthRequest = codec::decode_all("request", &payload).unwrap();
    assert_eq!((first.name, first.global_id), (name.clone(), 0));
    let keys = done_with(&mut client, Towards::Monitor, GLOBAL_ID, b"").unwrap();
    assert_eq!(keys, (Bytes::new(), Bytes::new()));
    let to = Towards::Service(EntityType::OSD);
    let (_, _, payload) = begin(&mut client, to);
    let second: NoneAuthorizer = codec::decode_all("authorizer", &payload).unwrap();
    assert_eq!((second.name, second.global_id), (name, GLOBAL_ID));
    done_with(&mut client, to, 0, b"").unwrap();
    assert_eq!(client.global_id(), GLOBAL_ID);
}

#[test]
fn a_daemon_without_a_key_shows_its_name_alone() {
    let name = EntityName::osd(3);
    let mut osd = connector(Identity::Asserted { name: name.clone(), keeps_global_id: false });
    for _ in 0..2 {
        let (_, _, payload) = begin(&mut osd, Towards::Monitor);
        let request: MonAuthRequest = codec::decode_all("request", &payload).unwrap();
        assert_eq!((request.name, request.global_id), (name.clone(), 0));
        done_with(&mut osd, Towards::Monitor, GLOBAL_ID, b"").unwrap();
    }
    let (_, _, payload) = begin(&mut osd, Towards::Peer(None));
    let shown: NoneAuthorizer = codec::decode_all("authorizer", &payload).unwrap();
    assert_eq!((shown.name, shown.global_id), (name, 0));
    let challenged = more(&mut osd, Towards::Peer(None), b"any").unwrap_err();
    assert_eq!(challenged, ConnectFailure::Unexpected);
}

#[test]
fn a_step_without_a_first_one_is_an_error() {
    let mut client = client(&Monitor::new());
    let to = Towards::Monitor;
    assert_eq!(more(&mut client, to, b"any").unwrap_err(), ConnectFailure::NotBegun(CONN));
    let done = done_with(&mut client, to, 1, b"any").unwrap_err();
    assert_eq!(done, ConnectFailure::NotBegun(CONN));
    begin(&mut client, to);
    client.forget(CONN);
    assert_eq!(more(&mut client, to, b"any").unwrap_err(), ConnectFailure::NotBegun(CONN));
}

#[test]
fn a_failure_ends_the_proof() {
    let mut client = client(&Monitor::new());
    let to = Towards::Monitor;
    begin(&mut client, to);
    let refused = ConnectingStep::BadMethod { result: -13 };
    assert_eq!(step(&mut client, to, refused).unwrap_err(), ConnectFailure::Refused(Errno::ACCES));
    begin(&mut client, to);
    assert!(matches!(more(&mut client, to, b"short").unwrap_err(), ConnectFailure::Cephx(_)));
    begin(&mut client, to);
    assert!(matches!(
        done_with(&mut client, to, 1, b"short").unwrap_err(),
        ConnectFailure::Cephx(_)
    ));
    assert_eq!(done_with(&mut client, to, 1, b"").unwrap_err(), ConnectFailure::NotBegun(CONN));
    assert_eq!(client.global_id(), 0);
}
