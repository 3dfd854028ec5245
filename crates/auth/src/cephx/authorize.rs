//! The service's side of cephx: opens a client's ticket, challenges the client and checks the answer.
//!
//! ```text
//! client                          service
//!   authorizer (no answer)  ---->   opens the ticket, stores a challenge
//!   authorizer (answer)     ---->   opens the ticket again, compares the answer
//!                           <----   nonce + 1 and the connection secret, sealed likewise
//! ```
//!
//! The challenge binds an authorizer to one connection (CVE-2018-1128): no authorizer is accepted without
//! it.

use super::{
    AuthCaps, Authorize, AuthorizeChallenge, AuthorizeReply, Authorizer, RotatingSecrets,
    ServiceTicketInfo,
};
use crate::{CryptoError, CryptoKey, Entropy, KeyUsage, open, seal};
use codec::{DecodeError, Reader, Writer};
use types::{EntityName, EntityType, UTime};

/// Reason why an authorizer is refused. All of them are answered with EACCES.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AuthorizeError {
    /// The payload does not decode.
    #[error("the authorizer is malformed")]
    Malformed(#[source] DecodeError),
    /// The ticket is for daemons of another kind.
    #[error("the authorizer is for service {asked}, this is {own}")]
    WrongService {
        /// Service of the ticket.
        asked: EntityType,
        /// Service of this daemon.
        own: EntityType,
    },
    /// The secret was dropped, or this daemon does not have it yet.
    #[error("the ticket was sealed with secret {id}, which is not among the rotating secrets")]
    UnknownSecret {
        /// Id in the ticket.
        id: u64,
    },
    /// The ticket was not sealed with that secret.
    #[error("the ticket cannot be opened")]
    Ticket(#[source] CryptoError),
    /// The ticket is another client's.
    #[error("the authorizer claims global id {claimed}, its ticket is for {ticket}")]
    GlobalIdMismatch {
        /// Global id in the authorizer.
        claimed: u64,
        /// Global id in the ticket.
        ticket: u64,
    },
    /// The client must renew its ticket.
    #[error("the ticket of {name} expired at {}", expired_at.to_iso())]
    Expired {
        /// Holder of the ticket.
        name: EntityName,
        /// End of its lifetime.
        expired_at: UTime,
    },
    /// The sender does not have the key that belongs to the ticket.
    #[error("the authorizer does not show the ticket's session key")]
    SessionKey(#[source] CryptoError),
    /// The first authorizer was sent again.
    #[error("the authorizer answers no challenge")]
    Unanswered,
    /// The authorizer belongs to another connection.
    #[error("the authorizer answers another challenge")]
    WrongAnswer,
}

/// Authorization of one incoming connection (`CephxAuthorizeHandler`). Lives until the connection is
/// authenticated.
#[derive(Debug)]
pub struct AuthorizeHandler {
    service: EntityType,
    challenge: Option<u64>,
}

/// The next step of the handshake.
#[derive(Debug)]
pub enum AuthorizeStep {
    /// Send this payload (AUTH_REPLY_MORE) and wait for another authorizer.
    Challenge(Vec<u8>),
    /// Send `reply` (AUTH_DONE); the peer is authenticated.
    Accepted {
        /// The peer, and the keys of the connection.
        peer: Box<AuthorizedPeer>,
        /// Payload of AUTH_DONE.
        reply: Vec<u8>,
    },
}

/// Identity and rights of an authenticated peer.
#[derive(Clone, PartialEq, Eq)]
pub struct AuthorizedPeer {
    /// Name in the ticket.
    pub name: EntityName,
    /// Global id in the ticket.
    pub global_id: u64,
    /// Capabilities for this service.
    pub caps: AuthCaps,
    /// Shared with the peer; signs the handshake.
    pub session_key: CryptoKey,
    /// Keys of secure mode; empty in crc mode.
    pub connection_secret: Vec<u8>,
    /// End of the ticket's lifetime.
    pub expires: UTime,
}

impl AuthorizeHandler {
    /// `service` is the type of the accepting daemon; tickets for others are refused.
    pub fn new(service: EntityType) -> Self {
        AuthorizeHandler { service, challenge: None }
    }

    /// State after `challenge` was sent.
    #[cfg(test)]
    pub(super) fn resumed(service: EntityType, challenge: u64) -> Self {
        AuthorizeHandler { service, challenge: Some(challenge) }
    }

    /// Checks an authorizer. `connection_secret_length` is in bytes: 0 in crc mode,
    /// [`crate::CONNECTION_SECRET_LENGTH`] in secure mode.
    pub fn handle(
        &mut self,
        now: UTime,
        secrets: &RotatingSecrets,
        authorizer: &[u8],
        connection_secret_length: usize,
        entropy: &mut Entropy,
    ) -> Result<AuthorizeStep, AuthorizeError> {
        let authorizer: Authorizer =
            Reader::new(authorizer).value().map_err(AuthorizeError::Malformed)?;
        let (info, authorize) = open_authorizer(now, &authorizer, self.service, secrets)?;
        let Some(challenge) = self.challenge else {
            return self.challenge(&info.session_key, entropy);
        };
        match authorize.server_challenge_plus_one {
            None => Err(AuthorizeError::Unanswered),
            Some(answer) if answer != challenge.wrapping_add(1) => Err(AuthorizeError::WrongAnswer),
            Some(_) => accept(info, authorize.nonce, connection_secret_length, entropy),
        }
    }

    fn challenge(
        &mut self,
        session_key: &CryptoKey,
        entropy: &mut Entropy,
    ) -> Result<AuthorizeStep, AuthorizeError> {
        let server_challenge = entropy.u64();
        self.challenge = Some(server_challenge);
        seal(
            &AuthorizeChallenge { server_challenge },
            session_key,
            KeyUsage::AuthorizeChallenge,
            entropy,
        )
        .map(AuthorizeStep::Challenge)
        .map_err(AuthorizeError::SessionKey)
    }
}

/// Opens the ticket of an authorizer and checks that the sender has the session key.
pub(super) fn open_authorizer(
    now: UTime,
    authorizer: &Authorizer,
    service: EntityType,
    secrets: &RotatingSecrets,
) -> Result<(ServiceTicketInfo, Authorize), AuthorizeError> {
    if authorizer.service != service {
        return Err(AuthorizeError::WrongService { asked: authorizer.service, own: service });
    }
    let id = authorizer.ticket.secret_id;
    let secret = secrets.secret(id).ok_or(AuthorizeError::UnknownSecret { id })?;
    let info =
        ServiceTicketInfo::open(&authorizer.ticket, secret).map_err(AuthorizeError::Ticket)?;
    let ticket = &info.ticket;
    if ticket.global_id != authorizer.global_id {
        let (claimed, ticket) = (authorizer.global_id, ticket.global_id);
        return Err(AuthorizeError::GlobalIdMismatch { claimed, ticket });
    }
    if ticket.expires < now {
        let (name, expired_at) = (ticket.name.clone(), ticket.expires);
        return Err(AuthorizeError::Expired { name, expired_at });
    }
    let authorize = open("authorize", &authorizer.sealed, &info.session_key, KeyUsage::Authorize)
        .map_err(AuthorizeError::SessionKey)?;
    Ok((info, authorize))
}

fn accept(
    info: ServiceTicketInfo,
    nonce: u64,
    connection_secret_length: usize,
    entropy: &mut Entropy,
) -> Result<AuthorizeStep, AuthorizeError> {
    let reply = AuthorizeReply {
        nonce_plus_one: nonce.wrapping_add(1),
        connection_secret: entropy.bytes(connection_secret_length),
    };
    let sealed = seal(&reply, &info.session_key, KeyUsage::AuthorizeReply, entropy)
        .map_err(AuthorizeError::SessionKey)?;
    let mut w = Writer::new();
    w.blob(&sealed);
    let peer = AuthorizedPeer {
        name: info.ticket.name,
        global_id: info.ticket.global_id,
        caps: info.ticket.caps,
        session_key: info.session_key,
        connection_secret: reply.connection_secret,
        expires: info.ticket.expires,
    };
    Ok(AuthorizeStep::Accepted { peer: Box::new(peer), reply: w.into_vec() })
}
