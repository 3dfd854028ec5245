//! Recorded handshakes of real clients, monitors and OSDs.
//!
//! Each file has the payloads of one client and its two peers, with the keys of the client and of the OSD.
//! The OSD's reply with rotating secrets lets these tests play each side of the exchange against the
//! recording of the other.

use super::{authorize::open_authorizer, *};
use crate::{
    CONNECTION_SECRET_LENGTH, CryptoKey, Entropy, KeyType, KeyUsage, SessionCiphers, Side, open,
    seal, testing::hex,
};
use codec::{Encode, Reader, encode_to_bytes};
use std::collections::BTreeMap;
use types::{EntityName, EntityType, UTime};

const PACIFIC: &str = include_str!("../../tests/golden/cephx-16.2.15-aes.txt");
const TENTACLE: &str = include_str!("../../tests/golden/cephx-20.2.4-aes256k.txt");

/// A sealed AUTH_SIGNATURE frame begins with `preamble 32 | HMAC 32`.
const SIGNATURE: std::ops::Range<usize> = 32..64;

struct Recording(BTreeMap<&'static str, &'static str>);

impl Recording {
    fn both() -> [Recording; 2] {
        [PACIFIC, TENTACLE]
            .map(|text| Recording(text.lines().filter_map(|line| line.split_once(" = ")).collect()))
    }

    fn bytes(&self, name: &str) -> Vec<u8> {
        hex(self.0[name])
    }

    fn key(&self, name: &str) -> CryptoKey {
        self.0[name].parse().unwrap()
    }

    fn global_id(&self, peer: &str) -> u64 {
        Reader::new(&self.bytes(&format!("{peer}_global_id"))).u64("global id").unwrap()
    }

    fn client(&self) -> CephxClient {
        let wanted = [EntityType::MON, EntityType::OSD, EntityType::MGR, EntityType::MDS];
        CephxClient::new(EntityName::client("admin"), self.key("client_key"), &wanted)
    }

    fn osd_secrets(&self) -> RotatingSecrets {
        let osd = CephxClient::new(EntityName::osd(0), self.key("osd_key"), &[]);
        osd.handle_rotating(&self.bytes("rotating_reply")).unwrap()
    }

    fn osd_authorizer(&self, name: &str) -> (Authorizer, ServiceTicketInfo, Authorize) {
        let authorizer: Authorizer = Reader::new(&self.bytes(name)).value().unwrap();
        let secrets = self.osd_secrets();
        let (info, authorize) =
            open_authorizer(UTime::ZERO, &authorizer, EntityType::OSD, &secrets).unwrap();
        (authorizer, info, authorize)
    }
}

fn entropy() -> Entropy {
    Entropy::from_seed([7; 32])
}

#[test]
fn the_client_proves_its_key_with_the_number_that_we_compute() {
    for recording in Recording::both() {
        let challenge: ServerChallenge =
            Reader::new(&recording.bytes("mon_challenge")).value().unwrap();
        let answer = recording.bytes("mon_answer");
        let mut r = Reader::new(&answer);
        assert_eq!(r.u16("type").unwrap(), RequestType::AuthSessionKey.number());
        let request: Authenticate = r.value().unwrap();
        let key = recording.key("client_key");
        let expected = key.answer(challenge.server_challenge, request.client_challenge).unwrap();
        assert_eq!(request.key, expected);
        assert!(r.is_empty() && !request.old_ticket_may_be_omitted);
        assert_eq!(encode_to_bytes(&request), answer[2..]);
    }
}

#[test]
fn the_client_introduces_itself_as_ours_would() {
    for recording in Recording::both() {
        assert_eq!(recording.client().initial_request(), recording.bytes("mon_request"));
    }
}

#[test]
fn our_client_accepts_the_monitors_reply_and_signatures() {
    for recording in Recording::both() {
        let mut client = recording.client();
        let global_id = recording.global_id("mon");
        let session =
            client.handle_done(UTime::ZERO, global_id, &recording.bytes("mon_done")).unwrap();
        assert_eq!(session.connection_secret.len(), CONNECTION_SECRET_LENGTH);
        for service in [EntityType::MON, EntityType::OSD, EntityType::MGR, EntityType::AUTH] {
            assert!(client.has_ticket(service, UTime::ZERO), "{service}");
        }
        check_signatures(&recording, "mon", &session.session_key, &session.connection_secret);
    }
}

/// After the handshake each side sends the HMAC of what it received, under the session ciphers.
fn check_signatures(recording: &Recording, peer: &str, key: &CryptoKey, secret: &[u8]) {
    for (side, sealed, received) in [
        (Side::Accepting, "client_sealed", "server_sent"),
        (Side::Connecting, "server_sealed", "client_sent"),
    ] {
        let mut frame = recording.bytes(&format!("{peer}_{sealed}"));
        let (body, tag) = frame.split_last_chunk_mut().unwrap();
        SessionCiphers::new(secret, side).unwrap().rx.open(&mut [body], tag).unwrap();
        let received = recording.bytes(&format!("{peer}_{received}"));
        assert_eq!(body[SIGNATURE], key.hmac_sha256(&received));
    }
}

#[test]
fn our_service_accepts_the_clients_answer_and_replies_like_the_real_one() {
    for recording in Recording::both() {
        let (_, info, first) = recording.osd_authorizer("osd_request");
        assert_eq!(first.server_challenge_plus_one, None);
        let challenge: AuthorizeChallenge = open(
            "challenge",
            &recording.bytes("osd_challenge"),
            &info.session_key,
            KeyUsage::AuthorizeChallenge,
        )
        .unwrap();
        let mut handler = AuthorizeHandler::resumed(EntityType::OSD, challenge.server_challenge);
        let step = handler.handle(
            UTime::ZERO,
            &recording.osd_secrets(),
            &recording.bytes("osd_answer"),
            CONNECTION_SECRET_LENGTH,
            &mut entropy(),
        );
        let Ok(AuthorizeStep::Accepted { peer, reply }) = step else { panic!("{step:?}") };
        assert_eq!(peer.name, EntityName::client("admin"));
        assert_eq!(peer.global_id, recording.global_id("osd"));
        assert_eq!(peer.caps, AuthCaps::new("allow *"));
        let real: AuthorizeReply = open_reply(&recording.bytes("osd_done"), &peer.session_key);
        let ours: AuthorizeReply = open_reply(&reply, &peer.session_key);
        assert_eq!(real.nonce_plus_one, ours.nonce_plus_one);
        assert_eq!(real.connection_secret.len(), ours.connection_secret.len());
        check_signatures(&recording, "osd", &peer.session_key, &real.connection_secret);
    }
}

fn open_reply(reply: &[u8], key: &CryptoKey) -> AuthorizeReply {
    let sealed = Reader::new(reply).blob("reply").unwrap();
    open("reply", sealed, key, KeyUsage::AuthorizeReply).unwrap()
}

/// `aes` sealing is deterministic, so the recorded bytes can be reproduced.
#[test]
fn sealed_structures_are_encoded_as_ceph_encodes_them() {
    let [recording, _] = Recording::both();
    let same = |value: &dyn Encode, key: &CryptoKey, usage, sealed: &[u8]| {
        assert_eq!(key.kind(), KeyType::Aes);
        assert_eq!(seal(value, key, usage, &mut entropy()).unwrap(), sealed);
    };
    let secrets = recording.osd_secrets();
    let reply = recording.bytes("rotating_reply");
    let osd_key = recording.key("osd_key");
    same(&secrets, &osd_key, KeyUsage::RotatingSecret, &reply[10..]);
    for name in ["osd_request", "osd_answer"] {
        let (authorizer, info, authorize) = recording.osd_authorizer(name);
        assert_eq!(encode_to_bytes(&authorizer), recording.bytes(name));
        same(&authorize, &info.session_key, KeyUsage::Authorize, &authorizer.sealed);
        let secret = secrets.secret(authorizer.ticket.secret_id).unwrap();
        same(&info, secret, KeyUsage::TicketInfo, &authorizer.ticket.blob);
    }
    let (_, info, _) = recording.osd_authorizer("osd_request");
    let done = recording.bytes("osd_done");
    let reply = open_reply(&done, &info.session_key);
    same(&reply, &info.session_key, KeyUsage::AuthorizeReply, &done[4..]);
}

#[test]
fn truncated_recordings_are_errors() {
    for recording in Recording::both() {
        let done = recording.bytes("mon_done");
        for end in 0..done.len() {
            // The fields behind the tickets are optional as a whole.
            if let Ok(session) = recording.client().handle_done(UTime::ZERO, 1, &done[..end]) {
                assert!(session.connection_secret.is_empty(), "{end}");
            }
        }
        let secrets = recording.osd_secrets();
        let authorizer = recording.bytes("osd_answer");
        for end in 0..authorizer.len() {
            let mut handler = AuthorizeHandler::resumed(EntityType::OSD, 1);
            let cut = &authorizer[..end];
            assert!(handler.handle(UTime::ZERO, &secrets, cut, 0, &mut entropy()).is_err());
        }
        let reply = recording.bytes("rotating_reply");
        let osd = CephxClient::new(EntityName::osd(0), recording.key("osd_key"), &[]);
        for end in 0..reply.len() {
            assert!(osd.handle_rotating(&reply[..end]).is_err());
        }
    }
}
