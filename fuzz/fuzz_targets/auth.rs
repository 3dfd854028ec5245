//! cephx from both sides of a hostile peer: requests, authorizers, replies; keys and keyrings.

#![no_main]

use auth::{
    AuthorizeHandler, CephxClient, CephxPolicy, CephxServer, CryptoKey, EntityAuth, Entropy,
    KeyType, Keyring, RotatingSecrets, ServerContext, ServiceSecrets,
};
use codec::{Decode, Reader};
use libfuzzer_sys::fuzz_target;
use std::collections::BTreeMap;
use types::{EntityName, EntityType, UTime};

const NOW: UTime = UTime { seconds: 1_700_000_000, nanoseconds: 0 };

fuzz_target!(|input: &[u8]| {
    let Some((choice, bytes)) = input.split_first() else { return };
    let entropy = &mut Entropy::from_seed([7; 32]);
    match choice % 6 {
        0 => server(bytes, entropy),
        1 => authorizer(bytes, entropy),
        2 => client(bytes, entropy),
        3 => keyring(bytes),
        4 => stored(bytes),
        _ => {
            let _ = auth::MonAuthRequest::decode(&mut Reader::new(bytes));
            let _ = auth::NoneAuthorizer::decode(&mut Reader::new(bytes));
        }
    }
});

fn key(entropy: &mut Entropy) -> CryptoKey {
    CryptoKey::generate(KeyType::Aes, NOW, entropy)
}

fn server(bytes: &[u8], entropy: &mut Entropy) {
    let name = EntityName::client("admin");
    let entity = EntityAuth::new(key(entropy)).with_caps("mon", "allow *");
    let keys = BTreeMap::from([(name.clone(), entity)]);
    let (mut server, _) = CephxServer::start(name, 7, true, entropy);
    let secrets = ServiceSecrets::default();
    let policy = CephxPolicy::default();
    let context =
        ServerContext { now: NOW, keys: &keys, secrets: &secrets, policy: &policy, entropy };
    let _ = server.handle_request(context, bytes, Some(64));
}

fn authorizer(bytes: &[u8], entropy: &mut Entropy) {
    let mut handler = AuthorizeHandler::new(EntityType::OSD);
    let secrets = RotatingSecrets::decode(&mut Reader::new(bytes)).unwrap_or_default();
    let _ = handler.handle(NOW, &secrets, bytes, 64, entropy);
}

fn client(bytes: &[u8], entropy: &mut Entropy) {
    let key = key(entropy);
    let mut client = CephxClient::new(EntityName::client("admin"), key, &[EntityType::OSD]);
    client.initial_request();
    let middle = bytes.len() / 2;
    let _ = client.handle_challenge(&bytes[..middle], entropy);
    let _ = client.handle_done(NOW, 7, &bytes[middle..]);
    let _ = client.handle_renewal(NOW, bytes);
}

fn keyring(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let _ = text.parse::<CryptoKey>();
    if let Ok(keyring) = text.parse::<Keyring>() {
        assert!(keyring.to_string().parse::<Keyring>().is_ok(), "what was printed is read");
    }
}

fn stored(bytes: &[u8]) {
    let _ = EntityAuth::decode(&mut Reader::new(bytes));
    let _ = ServiceSecrets::decode(&mut Reader::new(bytes));
    let _ = CryptoKey::decode(&mut Reader::new(bytes));
}
