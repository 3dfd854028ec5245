//! Frames by which the ends introduce themselves to each other: CLIENT_IDENT, SERVER_IDENT and
//! SESSION_RECONNECT, and the checks of those that arrive.

use crate::config::{Config, contains};
use crate::event::CloseReason;
use crate::identity::Identity;
use crate::introduction::{Introduction, IntroductionKind};
use crate::numbers::Numbers;
use engine::{Peer, Policy};
use types::{AddrType, EntityAddr, EntityAddrVec, EntityName, EntityType, ParticipantName};
use wire::frame::{CONNECT_FLAG_LOSSY, ClientIdent, Control, Reconnect, ServerIdent};

pub(crate) fn client_ident(
    config: &Config,
    identity: &Identity,
    numbers: &mut Numbers,
    policy: Policy,
) -> Control {
    let cookie = match policy {
        Policy::Lossy => numbers.client_cookie(),
        Policy::Lossless => numbers.start(),
    };
    let number = match config.kind {
        EntityType::CLIENT => i64::try_from(identity.credentials().global_id).unwrap_or(-1),
        _ => config.number,
    };
    Control::ClientIdent(ClientIdent {
        addrs: own_addrs(config, identity),
        target: identity.seen_addr(),
        number,
        global_seq: numbers.global_seq(),
        supported_features: config.supported_features,
        required_features: config.required_features,
        flags: flags(policy),
        cookie,
    })
}

/// `message_seq` is the number of the last message received.
pub(crate) fn reconnect(
    config: &Config,
    identity: &Identity,
    numbers: &Numbers,
    message_seq: u64,
) -> Control {
    assert!(numbers.is_accepted(), "only an accepted session is resumed");
    Control::SessionReconnect(Reconnect {
        addrs: own_addrs(config, identity),
        client_cookie: numbers.client_cookie(),
        server_cookie: numbers.server_cookie(),
        global_seq: numbers.global_seq(),
        connect_seq: numbers.connect_seq(),
        message_seq,
    })
}

pub(crate) fn server_ident(
    config: &Config,
    identity: &Identity,
    numbers: &Numbers,
    policy: Policy,
) -> Control {
    Control::ServerIdent(ServerIdent {
        addrs: own_addrs(config, identity),
        number: config.number,
        global_seq: numbers.global_seq(),
        supported_features: config.supported_features,
        required_features: config.required_features,
        flags: flags(policy),
        cookie: numbers.server_cookie(),
    })
}

fn flags(policy: Policy) -> u64 {
    if policy == Policy::Lossy { CONNECT_FLAG_LOSSY } else { 0 }
}

/// A client without an address sends the one under which the peer sees it, without the port, which is of no
/// use to others.
fn own_addrs(config: &Config, identity: &Identity) -> EntityAddrVec {
    if !config.addrs.0.is_empty() {
        return config.addrs.clone();
    }
    let mut socket = identity.own_addr().socket;
    if let Some(socket) = &mut socket {
        socket.set_port(0);
    }
    let (kind, nonce) = (AddrType::Msgr2, config.nonce);
    EntityAddrVec::one(EntityAddr { kind, nonce, socket })
}

/// Connecting: the peer is the one that was looked for, and this end has the features that it needs.
pub(crate) fn check_server_ident(
    ident: &ServerIdent,
    config: &Config,
    target: EntityAddr,
) -> Result<(), CloseReason> {
    if !contains(&ident.addrs, &target) {
        return Err(CloseReason::WrongTarget { target });
    }
    match ident.required_features & !config.supported_features {
        0 => Ok(()),
        missing => Err(CloseReason::MissingFeatures(missing)),
    }
}

pub(crate) fn server_peer(ident: ServerIdent, config: &Config, identity: &Identity) -> Peer {
    let kind = identity.kind();
    Peer {
        participant: ParticipantName::new(kind, ident.number),
        name: EntityName::new(kind, ident.number.to_string()),
        addrs: ident.addrs,
        features: ident.supported_features & config.supported_features,
        caps: Default::default(),
        seen_addr: identity.seen_addr(),
    }
}

/// Accepting: the peer has an address.
pub(crate) fn check_addrs(addrs: &EntityAddrVec) -> Result<(), CloseReason> {
    match addrs.0.first() {
        Some(addr) if *addr != EntityAddr::default() => Ok(()),
        _ => Err(CloseReason::NoAddress),
    }
}

/// Accepting: the peer looks for this end.
pub(crate) fn check_target(ident: &ClientIdent, config: &Config) -> Result<(), CloseReason> {
    match config.is_at(&ident.target) {
        true => Ok(()),
        false => Err(CloseReason::WrongTarget { target: ident.target }),
    }
}

pub(crate) fn is_lossy(flags: u64) -> bool {
    flags & CONNECT_FLAG_LOSSY != 0
}

pub(crate) fn of_client(ident: ClientIdent, config: &Config, identity: &Identity) -> Introduction {
    let peer = Peer {
        participant: identity.participant(ident.number),
        name: identity.credentials().name.clone(),
        addrs: ident.addrs.clone(),
        features: ident.supported_features & config.supported_features,
        caps: identity.credentials().caps.clone(),
        seen_addr: identity.seen_addr(),
    };
    let (addrs, global_seq) = (ident.addrs, ident.global_seq);
    Introduction { addrs, global_seq, kind: IntroductionKind::New { cookie: ident.cookie, peer } }
}

pub(crate) fn of_reconnect(reconnect: Reconnect) -> Introduction {
    let Reconnect { addrs, client_cookie, global_seq, connect_seq, message_seq, .. } = reconnect;
    let kind = IntroductionKind::Again { client_cookie, connect_seq, message_seq };
    Introduction { addrs, global_seq, kind }
}
