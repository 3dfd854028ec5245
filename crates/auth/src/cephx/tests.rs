//! Monitor, service and client against each other, and against forgers.

use super::*;
use crate::{
    CONNECTION_SECRET_LENGTH, CryptoKey, Entropy, KeyType, SessionCiphers, Side, crypto::seal,
};
use codec::{Reader, Writer, decode_all, encode_to_bytes};
use proptest::prelude::*;
use std::{collections::BTreeMap, time::Duration};
use types::{EntityName, EntityType, Errno, UTime};

const KINDS: [KeyType; 2] = [KeyType::Aes, KeyType::Aes256k];
const WANTED: [EntityType; 3] = [EntityType::MON, EntityType::OSD, EntityType::MGR];
const SECURE: Option<usize> = Some(CONNECTION_SECRET_LENGTH);

/// A monitor with its keys and secrets, at a time that the test sets.
struct World {
    now: UTime,
    entities: BTreeMap<EntityName, EntityAuth>,
    secrets: ServiceSecrets,
    policy: CephxPolicy,
    entropy: Entropy,
    last_global_id: u64,
}

impl World {
    fn new(kind: KeyType) -> Self {
        let mut world = World {
            now: UTime { seconds: 1_700_000_000, nanoseconds: 5 },
            entities: BTreeMap::new(),
            secrets: ServiceSecrets::default(),
            policy: CephxPolicy::default(),
            entropy: Entropy::from_seed([kind.number() as u8; 32]),
            last_global_id: 4100,
        };
        world.add("client.a", kind, &[("mon", "allow r"), ("osd", "allow rwx pool=p")]);
        world.add("osd.3", kind, &[("mon", "allow profile osd"), ("osd", "allow *")]);
        world.rotate();
        world
    }

    fn add(&mut self, name: &str, kind: KeyType, caps: &[(&str, &str)]) {
        let key = CryptoKey::generate(kind, self.now, &mut self.entropy);
        let entity = caps
            .iter()
            .fold(EntityAuth::new(key), |entity, (service, text)| entity.with_caps(service, text));
        self.entities.insert(name.parse().unwrap(), entity);
    }

    fn rotate(&mut self) {
        self.secrets.rotate(self.now, &self.policy, &mut self.entropy);
    }

    fn pass(&mut self, duration: Duration) {
        self.now = rotating::after(self.now, duration);
        self.rotate();
    }

    fn client(&self, name: &str) -> CephxClient {
        let name: EntityName = name.parse().unwrap();
        let key = self.entities[&name].key.clone();
        CephxClient::new(name, key, &WANTED)
    }

    fn request(
        &mut self,
        server: &mut CephxServer,
        payload: &[u8],
        secret_length: Option<usize>,
    ) -> Result<CephxReply, ServerError> {
        let context = ServerContext {
            now: self.now,
            keys: &self.entities,
            secrets: &self.secrets,
            policy: &self.policy,
            entropy: &mut self.entropy,
        };
        server.handle_request(context, payload, secret_length)
    }

    /// The monitor's side of a handshake up to its challenge.
    fn start(&mut self, initial: &[u8]) -> (CephxServer, Vec<u8>) {
        let request: MonAuthRequest = decode_all("request", initial).unwrap();
        let is_new = request.global_id == 0;
        if is_new {
            self.last_global_id += 1;
        }
        let global_id = if is_new { self.last_global_id } else { request.global_id };
        CephxServer::start(request.name, global_id, is_new, &mut self.entropy)
    }

    fn connect(
        &mut self,
        client: &mut CephxClient,
        secret_length: Option<usize>,
    ) -> Result<(CephxServer, Box<Authenticated>, ClientSession), ServerError> {
        let (mut server, challenge) = self.start(&client.initial_request());
        let answer = client.handle_challenge(&challenge, &mut self.entropy).unwrap();
        let reply = self.request(&mut server, &answer, secret_length)?;
        let session = client.handle_done(self.now, server.global_id(), &reply.payload).unwrap();
        Ok((server, reply.authenticated.unwrap(), session))
    }

    fn connected(kind: KeyType) -> (World, CephxClient) {
        let mut world = World::new(kind);
        let mut client = world.client("client.a");
        world.connect(&mut client, SECURE).unwrap();
        (world, client)
    }

    fn authorize(
        &mut self,
        handler: &mut AuthorizeHandler,
        payload: &[u8],
    ) -> Result<AuthorizeStep, AuthorizeError> {
        let secrets = self.secrets.service(EntityType::OSD).unwrap();
        let length = CONNECTION_SECRET_LENGTH;
        handler.handle(self.now, secrets, payload, length, &mut self.entropy)
    }

    /// Both sides of a connection to an OSD.
    fn connect_osd(&mut self, client: &CephxClient) -> (AuthorizedPeer, Vec<u8>) {
        let mut handler = AuthorizeHandler::new(EntityType::OSD);
        let mut authorizer = client.authorizer(EntityType::OSD, &mut self.entropy).unwrap();
        let challenge = challenge_of(self.authorize(&mut handler, authorizer.payload()));
        let answer = authorizer.handle_challenge(&challenge, &mut self.entropy).unwrap();
        let step = self.authorize(&mut handler, &answer);
        let Ok(AuthorizeStep::Accepted { peer, reply }) = step else { panic!("{step:?}") };
        let secret = authorizer.handle_done(&reply).unwrap();
        assert_eq!(authorizer.session_key(), &peer.session_key);
        (*peer, secret)
    }
}

fn challenge_of(step: Result<AuthorizeStep, AuthorizeError>) -> Vec<u8> {
    match step {
        Ok(AuthorizeStep::Challenge(challenge)) => challenge,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_client_and_a_monitor_agree_on_keys_and_secrets() {
    for kind in KINDS {
        for length in [0, CONNECTION_SECRET_LENGTH] {
            let mut world = World::new(kind);
            let mut client = world.client("client.a");
            let (server, authenticated, session) =
                world.connect(&mut client, Some(length)).unwrap();
            assert_eq!(server.global_id_status(), GlobalIdStatus::New);
            assert_eq!(client.global_id(), server.global_id());
            assert_eq!(authenticated.mon_caps, "allow r");
            assert_eq!(authenticated.session_key, session.session_key);
            assert_eq!(session.session_key.kind(), kind);
            assert_eq!(authenticated.connection_secret, session.connection_secret);
            assert_eq!(session.connection_secret.len(), length);
            assert!(WANTED.iter().all(|service| client.has_ticket(*service, world.now)));
        }
    }
}

#[test]
fn a_ticket_tells_the_service_the_name_and_capabilities_of_its_peer() {
    for kind in KINDS {
        let (mut world, client) = World::connected(kind);
        let (peer, secret) = world.connect_osd(&client);
        assert_eq!(peer.name, *client.name());
        assert_eq!(peer.global_id, client.global_id());
        assert_eq!(peer.caps.text, "allow rwx pool=p");
        assert_eq!(peer.session_key.kind(), kind);
        assert_eq!(peer.connection_secret, secret);
        let mut ours = SessionCiphers::new(&secret, Side::Connecting).unwrap();
        let mut theirs = SessionCiphers::new(&peer.connection_secret, Side::Accepting).unwrap();
        let mut bytes = *b"the same on both";
        let tag = ours.tx.seal(&mut [&mut bytes]);
        theirs.rx.open(&mut [&mut bytes], &tag).unwrap();
        assert_eq!(&bytes, b"the same on both");
    }
}

#[test]
fn the_weaker_key_type_decides_over_a_session_with_a_service() {
    let mut world = World::new(KeyType::Aes256k);
    world.policy.service_key_type = KeyType::Aes;
    world.secrets = ServiceSecrets::default();
    world.rotate();
    let mut client = world.client("client.a");
    let (_, _, session) = world.connect(&mut client, SECURE).unwrap();
    assert_eq!(session.session_key.kind(), KeyType::Aes256k);
    assert_eq!(world.connect_osd(&client).0.session_key.kind(), KeyType::Aes);
}

#[test]
fn only_the_right_key_gets_in() {
    for kind in KINDS {
        let mut world = World::new(kind);
        let wrong = CryptoKey::generate(kind, world.now, &mut world.entropy);
        let mut client = CephxClient::new(EntityName::client("a"), wrong, &WANTED);
        let error = world.connect(&mut client, SECURE).map(drop).unwrap_err();
        assert_eq!(error, ServerError::WrongKey(EntityName::client("a")));
        assert_eq!(error.errno(), Errno::ACCES);
    }
}

#[test]
fn a_pending_key_gets_in_and_is_reported() {
    let mut world = World::new(KeyType::Aes);
    let pending = CryptoKey::generate(KeyType::Aes256k, world.now, &mut world.entropy);
    let name = EntityName::client("a");
    world.entities.get_mut(&name).unwrap().pending_key = Some(pending.clone());
    let mut old = world.client("client.a");
    assert!(!world.connect(&mut old, SECURE).unwrap().1.used_pending_key);
    let mut new = CephxClient::new(name, pending, &WANTED);
    let (_, authenticated, session) = world.connect(&mut new, SECURE).unwrap();
    assert!(authenticated.used_pending_key);
    assert_eq!(session.session_key.kind(), KeyType::Aes256k);
}

#[test]
fn unknown_entities_weak_keys_and_missing_caps_are_refused() {
    let mut world = World::new(KeyType::Aes);
    world.add("client.nothing", KeyType::Aes, &[("osd", "allow *")]);
    let refused = |world: &mut World, client: &mut CephxClient| {
        world.connect(client, SECURE).map(drop).unwrap_err()
    };
    let mut client = world.client("client.nothing");
    let name = EntityName::client("nothing");
    assert_eq!(refused(&mut world, &mut client), ServerError::NoMonCaps(name.clone()));
    world.entities.remove(&name);
    assert_eq!(refused(&mut world, &mut client), ServerError::UnknownEntity(name));
    world.policy.allowed_key_types = vec![KeyType::Aes256k];
    let mut client = world.client("client.a");
    let error = refused(&mut world, &mut client);
    assert!(matches!(error, ServerError::KeyTypeRefused { kind: KeyType::Aes, .. }));
}

#[test]
fn a_recorded_answer_does_not_fit_another_challenge() {
    let mut world = World::new(KeyType::Aes256k);
    let mut client = world.client("client.a");
    let (_, challenge) = world.start(&client.initial_request());
    let answer = client.handle_challenge(&challenge, &mut world.entropy).unwrap();
    let (mut other, _) = world.start(&client.initial_request());
    let error = world.request(&mut other, &answer, SECURE).unwrap_err();
    assert!(matches!(error, ServerError::WrongKey(_)));
}

#[test]
fn a_global_id_is_reclaimed_with_its_ticket_only() {
    for kind in KINDS {
        let (mut world, mut client) = World::connected(kind);
        let global_id = client.global_id();
        let (server, ..) = world.connect(&mut client, SECURE).unwrap();
        assert_eq!(server.global_id_status(), GlobalIdStatus::Reclaimed);
        assert_eq!((server.global_id(), client.global_id()), (global_id, global_id));
        // The ticket was sealed under the old session key, and is valid.
        world.connect_osd(&client);

        let mut thief = world.client("client.a");
        thief.claim(global_id);
        let error = world.connect(&mut thief, SECURE).map(drop).unwrap_err();
        assert!(matches!(error, ServerError::GlobalIdRefused { .. }), "{error}");

        let mut other = world.client("client.a");
        world.connect(&mut other, SECURE).unwrap();
        other.claim(global_id);
        assert!(world.connect(&mut other, SECURE).is_err());
        other.forget_identity();
        assert!(world.connect(&mut other, SECURE).is_ok());
    }
}

#[test]
fn a_new_global_id_takes_no_old_ticket() {
    let (mut world, mut client) = World::connected(KeyType::Aes);
    client.claim(0);
    let error = world.connect(&mut client, SECURE).map(drop).unwrap_err();
    assert_eq!(error.errno(), Errno::INVAL);
}

#[test]
fn clients_without_reclaim_tickets_are_let_in_by_choice_only() {
    let mut world = World::new(KeyType::Aes);
    for (version, allowed, is_fine) in
        [(3, false, false), (3, true, false), (2, false, false), (2, true, true), (1, true, true)]
    {
        world.policy.allow_insecure_global_id_reclaim = allowed;
        let name = EntityName::client("a");
        let (mut server, challenge) =
            CephxServer::start(name.clone(), 4242, false, &mut world.entropy);
        let server_challenge = Reader::new(&challenge[1..]).u64("challenge").unwrap();
        let mut w = Writer::new();
        w.u16(RequestType::AuthSessionKey.number());
        w.u8(version);
        w.u64(99);
        w.u64(world.entities[&name].key.answer(server_challenge, 99).unwrap());
        w.value(&TicketBlob::default());
        if version >= 2 {
            w.u32(u32::from(EntityType::OSD.0));
        }
        let result = world.request(&mut server, w.as_slice(), SECURE);
        assert_eq!(result.is_ok(), is_fine, "version {version}, allowed {allowed}");
        if is_fine {
            assert_eq!(server.global_id_status(), GlobalIdStatus::ReclaimedInsecurely);
        }
    }
}

#[test]
fn tickets_are_renewed_before_they_expire() {
    for kind in KINDS {
        let mut world = World::new(kind);
        let mut client = world.client("client.a");
        let (mut server, ..) = world.connect(&mut client, SECURE).unwrap();
        let mut renewals = 0;
        for _ in 0..1000 {
            world.pass(Duration::from_secs(600));
            while let Some(request) = client.renewal_request(world.now, &mut world.entropy).unwrap()
            {
                let reply = world.request(&mut server, &request, None).unwrap();
                client.handle_renewal(world.now, &reply.payload).unwrap();
                renewals += 1;
            }
            assert!(WANTED.iter().all(|service| client.has_ticket(*service, world.now)));
            assert!(client.next_renewal().unwrap() > world.now);
            world.connect_osd(&client);
        }
        assert!(renewals > 100);
        assert_eq!(server.global_id_status(), GlobalIdStatus::Reclaimed);
    }
}

#[test]
fn expired_tickets_are_refused_by_services_and_the_monitor() {
    let mut world = World::new(KeyType::Aes256k);
    let mut client = world.client("client.a");
    let (mut server, ..) = world.connect(&mut client, SECURE).unwrap();
    world.now = rotating::after(world.now, Duration::from_secs(3601));
    let authorizer = client.authorizer(EntityType::OSD, &mut world.entropy).unwrap();
    let mut handler = AuthorizeHandler::new(EntityType::OSD);
    let error = world.authorize(&mut handler, authorizer.payload()).unwrap_err();
    assert!(matches!(error, AuthorizeError::Expired { .. }), "{error}");

    let request = client.renewal_request(world.now, &mut world.entropy).unwrap().unwrap();
    assert!(world.request(&mut server, &request, None).is_ok());
    world.now = rotating::after(world.now, Duration::from_secs(80 * 3600));
    let error = world.request(&mut server, &request, None).unwrap_err();
    assert!(matches!(error, ServerError::AuthTicket(AuthorizeError::Expired { .. })), "{error}");
    world.pass(Duration::from_secs(300 * 3600));
    world.pass(Duration::from_secs(300 * 3600));
    let error = world.request(&mut server, &request, None).unwrap_err();
    let unknown = matches!(error, ServerError::AuthTicket(AuthorizeError::UnknownSecret { .. }));
    assert!(unknown, "{error}");
}

#[test]
fn an_authorizer_is_good_for_one_connection() {
    for kind in KINDS {
        let (mut world, client) = World::connected(kind);
        let mut first = AuthorizeHandler::new(EntityType::OSD);
        let mut authorizer = client.authorizer(EntityType::OSD, &mut world.entropy).unwrap();
        let challenge = challenge_of(world.authorize(&mut first, authorizer.payload()));
        let answer = authorizer.handle_challenge(&challenge, &mut world.entropy).unwrap();

        // The answer without a challenge, or to another connection's challenge.
        let mut second = AuthorizeHandler::new(EntityType::OSD);
        challenge_of(world.authorize(&mut second, &answer));
        let error = world.authorize(&mut second, &answer).unwrap_err();
        assert_eq!(error, AuthorizeError::WrongAnswer);
        // A second authorizer without an answer.
        let error = world.authorize(&mut second, authorizer.payload()).unwrap_err();
        assert_eq!(error, AuthorizeError::Unanswered);
        assert!(world.authorize(&mut first, &answer).is_ok());
    }
}

#[test]
fn a_tampered_authorizer_is_refused_at_every_byte() {
    for kind in KINDS {
        let (mut world, client) = World::connected(kind);
        let mut handler = AuthorizeHandler::new(EntityType::OSD);
        let mut authorizer = client.authorizer(EntityType::OSD, &mut world.entropy).unwrap();
        let challenge = challenge_of(world.authorize(&mut handler, authorizer.payload()));
        let answer = authorizer.handle_challenge(&challenge, &mut world.entropy).unwrap();
        // Two version bytes are not checked: the first byte, and that of the ticket.
        for at in (0..answer.len()).filter(|at| ![0, 13].contains(at)) {
            for bit in [1, 0x80] {
                let mut tampered = answer.clone();
                tampered[at] ^= bit;
                let result = world.authorize(&mut handler, &tampered);
                let accepted = matches!(result, Ok(AuthorizeStep::Accepted { .. }));
                // Under `aes` a changed bit of the ticket may go undetected, but never one that changes the
                // identity or the rights of the peer.
                if accepted {
                    assert_eq!(kind, KeyType::Aes, "byte {at}");
                    let Ok(AuthorizeStep::Accepted { peer, .. }) = result else { unreachable!() };
                    assert_eq!(peer.global_id, client.global_id());
                }
            }
        }
        assert!(world.authorize(&mut handler, &answer).is_ok());
    }
}

#[test]
fn a_ticket_for_one_service_is_none_for_another() {
    let (mut world, client) = World::connected(KeyType::Aes256k);
    let authorizer = client.authorizer(EntityType::MGR, &mut world.entropy).unwrap();
    let mut handler = AuthorizeHandler::new(EntityType::OSD);
    let error = world.authorize(&mut handler, authorizer.payload()).unwrap_err();
    let (asked, own) = (EntityType::MGR, EntityType::OSD);
    assert_eq!(error, AuthorizeError::WrongService { asked, own });
    let mut relabelled: Authorizer = decode_all("authorizer", authorizer.payload()).unwrap();
    relabelled.service = EntityType::OSD;
    let result = world.authorize(&mut handler, &encode_to_bytes(&relabelled));
    assert!(matches!(result, Err(AuthorizeError::Ticket(_))));
}

#[test]
fn a_ticket_is_useless_without_its_session_key() {
    let (mut world, client) = World::connected(KeyType::Aes256k);
    let real = client.authorizer(EntityType::OSD, &mut world.entropy).unwrap();
    let mut forged: Authorizer = decode_all("authorizer", real.payload()).unwrap();
    let key = CryptoKey::generate(KeyType::Aes256k, world.now, &mut world.entropy);
    let authorize = Authorize { nonce: 1, server_challenge_plus_one: None };
    let usage = crate::KeyUsage::Authorize;
    forged.sealed = seal(&authorize, &key, usage, &mut world.entropy).unwrap().into();
    let mut handler = AuthorizeHandler::new(EntityType::OSD);
    let result = world.authorize(&mut handler, &encode_to_bytes(&forged));
    assert!(matches!(result, Err(AuthorizeError::SessionKey(_))));
}

#[test]
fn the_client_notices_a_service_that_cannot_open_its_ticket() {
    for kind in KINDS {
        let (mut world, client) = World::connected(kind);
        let authorizer = client.authorizer(EntityType::OSD, &mut world.entropy).unwrap();
        let other = CryptoKey::generate(kind, world.now, &mut world.entropy);
        let usage = crate::KeyUsage::AuthorizeReply;
        let mut reply = |key, nonce_plus_one| {
            let reply = AuthorizeReply { nonce_plus_one, connection_secret: vec![1; 64] };
            let mut w = Writer::new();
            w.blob(&seal(&reply, key, usage, &mut world.entropy).unwrap());
            w.into_vec()
        };
        let forged = reply(&other, 0);
        let stale = reply(authorizer.session_key(), 12345);
        assert!(matches!(authorizer.handle_done(&forged), Err(ClientError::Crypto(_))));
        let result = authorizer.handle_done(&stale);
        assert!(matches!(result, Err(ClientError::WrongNonce { found: 12345, .. })));
    }
}

#[test]
fn a_daemon_gets_the_secrets_of_its_own_service() {
    for kind in KINDS {
        let mut world = World::new(kind);
        let mut osd = world.client("osd.3");
        let (mut server, ..) = world.connect(&mut osd, SECURE).unwrap();
        let reply = world.request(&mut server, &osd.rotating_request(), None).unwrap();
        let secrets = osd.handle_rotating(&reply.payload).unwrap();
        assert_eq!(Some(&secrets), world.secrets.service(EntityType::OSD));
    }
    let mut world = World::new(KeyType::Aes);
    let mut client = world.client("client.a");
    let (mut server, ..) = world.connect(&mut client, SECURE).unwrap();
    let error = world.request(&mut server, &client.rotating_request(), None).unwrap_err();
    assert_eq!(error, ServerError::NoServiceSecrets(EntityType::CLIENT));
}

#[test]
fn daemons_of_a_service_present_themselves_by_the_secrets_they_share() {
    for kind in KINDS {
        let mut world = World::new(kind);
        let name = EntityName::osd(3);
        let secrets = world.secrets.service(EntityType::OSD).unwrap().clone();
        let present = |secrets: &RotatingSecrets, entropy: &mut Entropy| {
            ClientAuthorizer::among_peers(name.clone(), world.now, secrets, entropy)
        };
        let mut authorizer = present(&secrets, &mut world.entropy).unwrap();
        let none = RotatingSecrets::default();
        let error = present(&none, &mut world.entropy).unwrap_err();
        assert_eq!(error, ClientError::NoTicket(EntityType::OSD));

        let mut handler = AuthorizeHandler::new(EntityType::OSD);
        let step = world.authorize(&mut handler, authorizer.payload()).unwrap();
        let AuthorizeStep::Challenge(challenge) = step else { panic!() };
        let answer = authorizer.handle_challenge(&challenge, &mut world.entropy).unwrap();
        let step = world.authorize(&mut handler, &answer).unwrap();
        let AuthorizeStep::Accepted { peer, reply } = step else { panic!() };
        assert_eq!((&peer.name, peer.caps.allow_all), (&name, true));
        assert_eq!(peer.session_key.secret(), authorizer.session_key().secret());
        authorizer.handle_done(&reply).unwrap();
    }
}

#[test]
fn truncated_requests_are_errors() {
    for kind in KINDS {
        let mut world = World::new(kind);
        let mut client = world.client("client.a");
        let (mut server, challenge) = world.start(&client.initial_request());
        assert!(client.handle_challenge(&challenge[..8], &mut world.entropy).is_err());
        let answer = client.handle_challenge(&challenge, &mut world.entropy).unwrap();
        for end in 0..answer.len() {
            let error = world.request(&mut server, &answer[..end], SECURE).unwrap_err();
            assert!(matches!(error, ServerError::Malformed(_)), "{error}");
        }
        let reply = world.request(&mut server, &answer, SECURE).unwrap();
        client.handle_done(world.now, server.global_id(), &reply.payload).unwrap();
        world.pass(Duration::from_secs(3000));
        let renewal = client.renewal_request(world.now, &mut world.entropy).unwrap().unwrap();
        for end in 0..renewal.len() {
            assert!(world.request(&mut server, &renewal[..end], None).is_err());
        }
        let reply = world.request(&mut server, &renewal, None).unwrap();
        for end in 0..reply.payload.len() {
            assert!(client.handle_renewal(world.now, &reply.payload[..end]).is_err());
        }
    }
}

#[test]
fn persistent_state_round_trips() {
    let world = World::new(KeyType::Aes256k);
    let bytes = encode_to_bytes(&world.secrets);
    assert_eq!(decode_all::<ServiceSecrets>("secrets", &bytes).unwrap(), world.secrets);
    for end in 0..bytes.len() {
        assert!(decode_all::<ServiceSecrets>("secrets", &bytes[..end]).is_err());
    }
    for entity in world.entities.values() {
        let bytes = encode_to_bytes(entity);
        assert_eq!(&decode_all::<EntityAuth>("entity", &bytes).unwrap(), entity);
        for end in 0..bytes.len() {
            assert!(decode_all::<EntityAuth>("entity", &bytes[..end]).is_err());
        }
    }
}

#[test]
fn assertions_without_proof_round_trip() {
    let authorizer = NoneAuthorizer { name: EntityName::client("a"), global_id: 7 };
    let bytes = encode_to_bytes(&authorizer);
    assert_eq!(decode_all::<NoneAuthorizer>("authorizer", &bytes).unwrap(), authorizer);
    for end in 0..bytes.len() {
        assert!(decode_all::<NoneAuthorizer>("authorizer", &bytes[..end]).is_err());
    }
}

proptest! {
    #[test]
    fn random_bytes_never_panic(bytes: Vec<u8>, kind in 0u16..8) {
        let (mut world, mut client) = World::connected(KeyType::Aes);
        let (mut server, _) = world.start(&client.initial_request());
        let mut request = (kind << 8).to_le_bytes().to_vec();
        request.extend(&bytes);
        prop_assert!(world.request(&mut server, &request, SECURE).is_err());
        prop_assert!(client.handle_renewal(world.now, &request).is_err());
        let mut handler = AuthorizeHandler::new(EntityType::OSD);
        prop_assert!(world.authorize(&mut handler, &bytes).is_err());
    }
}

#[test]
fn debug_output_shows_no_secrets() {
    let (session_key, connection_secret) = (CryptoKey::default(), vec![0xa5; 64]);
    let client = ClientSession {
        session_key: session_key.clone(),
        connection_secret: connection_secret.clone(),
    };
    let authenticated = Authenticated {
        session_key: session_key.clone(),
        connection_secret: connection_secret.clone(),
        mon_caps: String::new(),
        used_pending_key: false,
    };
    let peer = AuthorizedPeer {
        name: EntityName::osd(3),
        global_id: 4,
        caps: AuthCaps { allow_all: true, text: String::new() },
        session_key,
        connection_secret,
        expires: UTime::default(),
    };
    for text in [format!("{client:?}"), format!("{authenticated:?}"), format!("{peer:?}")] {
        assert!(!text.contains("165") && text.contains("64 bytes"), "{text}");
    }
}
