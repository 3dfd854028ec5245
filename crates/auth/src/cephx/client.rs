//! The client's side of cephx: proves the key to a monitor, keeps tickets, and presents them to services.
//!
//! Order of calls: [`CephxClient::initial_request`], then [`CephxClient::handle_challenge`] with the
//! monitor's AUTH_REPLY_MORE, then [`CephxClient::handle_done`] with its AUTH_DONE. Afterwards
//! [`CephxClient::authorizer`] for each connection to a service, and at [`CephxClient::next_renewal`]
//! [`CephxClient::renewal_request`], whose reply goes to [`CephxClient::handle_renewal`].

use super::{
    AuthCaps, AuthTicket, Authenticate, Authorize, AuthorizeChallenge, AuthorizeReply, Authorizer,
    MonAuthRequest, RequestType, ResponseHeader, RotatingSecrets, ServerChallenge, ServiceTicket,
    ServiceTicketInfo, ServiceTicketRequest, TicketBlob, rotating::after,
};
use crate::{CryptoError, CryptoKey, Entropy, KeyUsage, open, seal};
use bytes::Bytes;
use codec::{DecodeError, Reader, Writer};
use std::{collections::BTreeMap, time::Duration};
use types::{EntityName, EntityType, UTime};

/// Daemons are identified by their names, not by a global id.
const PEER_GLOBAL_ID: u64 = 0;
/// Long enough for one handshake between hosts whose clocks disagree.
const PEER_TICKET_TTL: Duration = Duration::from_secs(600);

/// Reason why a reply is not accepted, or a request cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClientError {
    /// The reply does not decode.
    #[error("the reply is malformed")]
    Malformed(#[source] DecodeError),
    /// The monitor does not accept the key, the name or the global id.
    #[error("the monitor refused: error {status}")]
    Refused {
        /// Negative errno of the monitor.
        status: i32,
    },
    /// The reply is to a request that was not sent.
    #[error("the reply is to request {found:#06x}")]
    UnexpectedReply {
        /// Type of the request in the reply (`CEPHX_*`).
        found: u16,
    },
    /// The key is empty, or it does not open the reply: it is not the one that the monitor has.
    #[error("a key cannot be used")]
    Crypto(#[from] CryptoError),
    /// A proof without the monitor's challenge.
    #[error("the monitor has not been heard yet")]
    NotStarted,
    /// The monitor gave none, or it has expired.
    #[error("there is no ticket for {0}")]
    NoTicket(EntityType),
    /// The peer could not open the ticket.
    #[error("the service answered nonce {sent} with {found}")]
    WrongNonce {
        /// The nonce in the authorizer.
        sent: u64,
        /// The one in the reply.
        found: u64,
    },
}

/// A ticket with its session key and times.
#[derive(Debug, Clone)]
struct Ticket {
    session_key: CryptoKey,
    blob: TicketBlob,
    renew_after: UTime,
    expires: UTime,
}

/// Result of a completed handshake with a monitor.
#[derive(Clone, PartialEq, Eq)]
pub struct ClientSession {
    /// Shared with the monitor; signs the handshake.
    pub session_key: CryptoKey,
    /// Keys of secure mode; empty in crc mode.
    pub connection_secret: Vec<u8>,
}

/// The tickets of one entity (`CephxClientHandler`).
#[derive(Debug)]
pub struct CephxClient {
    name: EntityName,
    key: CryptoKey,
    global_id: u64,
    wanted: Vec<EntityType>,
    tickets: BTreeMap<EntityType, Ticket>,
    server_challenge: Option<u64>,
}

impl CephxClient {
    /// `wanted` are the services that the client will connect to; the auth ticket is always requested.
    pub fn new(name: EntityName, key: CryptoKey, wanted: &[EntityType]) -> Self {
        let wanted = wanted.iter().copied().filter(|s| *s != EntityType::AUTH).collect();
        let tickets = BTreeMap::new();
        CephxClient { name, key, global_id: 0, wanted, tickets, server_challenge: None }
    }

    /// Name of the entity.
    pub fn name(&self) -> &EntityName {
        &self.name
    }

    /// The global id; zero until a monitor has assigned one.
    pub fn global_id(&self) -> u64 {
        self.global_id
    }

    /// Drops the global id and all tickets, after a monitor refused to let the client keep the id.
    pub fn forget_identity(&mut self) {
        self.global_id = 0;
        self.tickets.clear();
    }

    /// Claims a `global_id` that no monitor assigned to this client.
    #[cfg(test)]
    pub(super) fn claim(&mut self, global_id: u64) {
        self.global_id = global_id;
    }

    /// First payload of a connection to a monitor.
    pub fn initial_request(&mut self) -> Vec<u8> {
        self.server_challenge = None;
        let request = MonAuthRequest { name: self.name.clone(), global_id: self.global_id };
        codec::encode_to_bytes(&request).to_vec()
    }

    /// Answers the monitor's challenge.
    pub fn handle_challenge(
        &mut self,
        payload: &[u8],
        entropy: &mut Entropy,
    ) -> Result<Vec<u8>, ClientError> {
        let challenge: ServerChallenge =
            Reader::new(payload).value().map_err(ClientError::Malformed)?;
        self.server_challenge = Some(challenge.server_challenge);
        self.authenticate(entropy)
    }

    /// Handles the monitor's AUTH_DONE; returns the session and stores the tickets.
    pub fn handle_done(
        &mut self,
        now: UTime,
        global_id: u64,
        payload: &[u8],
    ) -> Result<ClientSession, ClientError> {
        self.global_id = global_id;
        let mut r = Reader::new(payload);
        read_header(&mut r, RequestType::AuthSessionKey)?;
        self.read_auth_reply(now, &mut r)
    }

    /// Request for an `MAuth` message if tickets are due for renewal at `now`, else `None`.
    pub fn renewal_request(
        &mut self,
        now: UTime,
        entropy: &mut Entropy,
    ) -> Result<Option<Vec<u8>>, ClientError> {
        if self.is_due(now, EntityType::AUTH) {
            return self.authenticate(entropy).map(Some);
        }
        let due: Vec<_> =
            self.wanted.iter().filter(|service| self.is_due(now, **service)).collect();
        if due.is_empty() {
            return Ok(None);
        }
        let keys = mask(due);
        let authorizer = self.authorizer(EntityType::AUTH, entropy)?;
        let mut w = Writer::new();
        w.u16(RequestType::PrincipalSessionKey.number());
        w.raw(authorizer.payload());
        w.value(&ServiceTicketRequest { keys });
        Ok(Some(w.into_vec()))
    }

    /// Handles the reply to [`CephxClient::renewal_request`]. The caller then calls that again: a new auth
    /// ticket may have to be followed by requests for service tickets.
    pub fn handle_renewal(&mut self, now: UTime, payload: &[u8]) -> Result<(), ClientError> {
        let mut r = Reader::new(payload);
        let header: ResponseHeader = r.value().map_err(ClientError::Malformed)?;
        check_status(header)?;
        match RequestType::from_number(header.request_type) {
            Some(RequestType::AuthSessionKey) => self.read_auth_reply(now, &mut r).map(|_| ()),
            Some(RequestType::PrincipalSessionKey) => {
                let key = self.ticket(EntityType::AUTH)?.session_key.clone();
                self.read_tickets(now, &key, &mut r)
            }
            _ => Err(ClientError::UnexpectedReply { found: header.request_type }),
        }
    }

    /// Time at which [`CephxClient::renewal_request`] next returns a request.
    pub fn next_renewal(&self) -> Option<UTime> {
        self.tickets.values().map(|ticket| ticket.renew_after).min()
    }

    /// True if there is a ticket for `service` that is valid at `now`.
    pub fn has_ticket(&self, service: EntityType, now: UTime) -> bool {
        self.tickets.get(&service).is_some_and(|ticket| now < ticket.expires)
    }

    /// Creates an authorizer with the ticket for `service`; fails if there is no valid one.
    pub fn authorizer(
        &self,
        service: EntityType,
        entropy: &mut Entropy,
    ) -> Result<ClientAuthorizer, ClientError> {
        let ticket = self.ticket(service)?;
        let nonce = entropy.u64();
        let mut authorizer = ClientAuthorizer {
            global_id: self.global_id,
            service,
            ticket: ticket.blob.clone(),
            session_key: ticket.session_key.clone(),
            nonce,
            payload: Vec::new(),
        };
        authorizer.payload = authorizer.present(None, entropy)?;
        Ok(authorizer)
    }

    /// Request of a daemon for the rotating secrets of its own service.
    pub fn rotating_request(&self) -> Vec<u8> {
        RequestType::RotatingKey.number().to_le_bytes().to_vec()
    }

    /// Opens the reply to [`CephxClient::rotating_request`] with the entity's key.
    pub fn handle_rotating(&self, payload: &[u8]) -> Result<RotatingSecrets, ClientError> {
        let mut r = Reader::new(payload);
        read_header(&mut r, RequestType::RotatingKey)?;
        let sealed = r.blob("rotating secrets").map_err(ClientError::Malformed)?;
        Ok(open("rotating secrets", sealed, &self.key, KeyUsage::RotatingSecret)?)
    }

    fn authenticate(&self, entropy: &mut Entropy) -> Result<Vec<u8>, ClientError> {
        let server_challenge = self.server_challenge.ok_or(ClientError::NotStarted)?;
        let client_challenge = entropy.u64();
        let old_ticket = self.tickets.get(&EntityType::AUTH).map(|ticket| ticket.blob.clone());
        let mut w = Writer::new();
        w.u16(RequestType::AuthSessionKey.number());
        w.value(&Authenticate {
            client_challenge,
            key: self.key.answer(server_challenge, client_challenge)?,
            old_ticket: old_ticket.unwrap_or_default(),
            other_keys: mask(&self.wanted) | u32::from(EntityType::AUTH.0),
            old_ticket_may_be_omitted: false,
        });
        Ok(w.into_vec())
    }

    fn read_auth_reply(
        &mut self,
        now: UTime,
        r: &mut Reader<'_>,
    ) -> Result<ClientSession, ClientError> {
        let key = self.key.clone();
        self.read_tickets(now, &key, r)?;
        let session_key = self.ticket(EntityType::AUTH)?.session_key.clone();
        if r.is_empty() {
            return Ok(ClientSession { session_key, connection_secret: Vec::new() });
        }
        let mut secret = Reader::new(r.blob("connection secret").map_err(ClientError::Malformed)?);
        let mut extra = Reader::new(r.blob("extra tickets").map_err(ClientError::Malformed)?);
        let connection_secret = if secret.is_empty() {
            Vec::new()
        } else {
            let sealed = secret.blob("sealed secret").map_err(ClientError::Malformed)?;
            let usage = KeyUsage::AuthConnectionSecret;
            open::<Bytes>("connection secret", sealed, &session_key, usage)?.to_vec()
        };
        if !extra.is_empty() {
            self.read_tickets(now, &session_key, &mut extra)?;
        }
        Ok(ClientSession { session_key, connection_secret })
    }

    fn read_tickets(
        &mut self,
        now: UTime,
        key: &CryptoKey,
        r: &mut Reader<'_>,
    ) -> Result<(), ClientError> {
        r.u8("ticket reply version").map_err(ClientError::Malformed)?;
        let count = r.count("tickets").map_err(ClientError::Malformed)?;
        for _ in 0..count {
            self.read_ticket(now, key, r)?;
        }
        Ok(())
    }

    fn read_ticket(
        &mut self,
        now: UTime,
        key: &CryptoKey,
        r: &mut Reader<'_>,
    ) -> Result<(), ClientError> {
        let (service, readable, is_sealed, ticket) =
            read_ticket_parts(r).map_err(ClientError::Malformed)?;
        let readable: ServiceTicket =
            open("service ticket", readable, key, KeyUsage::TicketSessionKey)?;
        let ticket = if is_sealed {
            let old_session_key = &self.ticket(service)?.session_key;
            open::<Bytes>("ticket blob", ticket, old_session_key, KeyUsage::TicketBlob)?
        } else {
            Bytes::copy_from_slice(ticket)
        };
        let validity = Duration::from_nanos(readable.validity.as_nanos());
        let ticket = Ticket {
            session_key: readable.session_key,
            blob: Reader::new(&ticket).value().map_err(ClientError::Malformed)?,
            renew_after: after(now, validity / 4 * 3),
            expires: after(now, validity),
        };
        self.tickets.insert(service, ticket);
        Ok(())
    }

    fn ticket(&self, service: EntityType) -> Result<&Ticket, ClientError> {
        self.tickets.get(&service).ok_or(ClientError::NoTicket(service))
    }

    fn is_due(&self, now: UTime, service: EntityType) -> bool {
        self.tickets.get(&service).is_none_or(|ticket| ticket.renew_after <= now)
    }
}

/// One presentation of a ticket, valid for one connection.
#[derive(Debug, Clone)]
pub struct ClientAuthorizer {
    global_id: u64,
    service: EntityType,
    ticket: TicketBlob,
    session_key: CryptoKey,
    nonce: u64,
    payload: Vec<u8>,
}

impl ClientAuthorizer {
    /// Authorizer between two daemons of the same service. Both hold the rotating secrets of the service,
    /// so the daemon seals a ticket itself and needs no monitor.
    pub fn among_peers(
        name: EntityName,
        now: UTime,
        secrets: &RotatingSecrets,
        entropy: &mut Entropy,
    ) -> Result<Self, ClientError> {
        let service = name.kind;
        let secret = secrets.sealing(now).ok_or(ClientError::NoTicket(service))?;
        let session_key = CryptoKey::generate(secret.key.kind(), now, entropy);
        let identity = AuthTicket {
            name,
            global_id: PEER_GLOBAL_ID,
            created: now,
            expires: after(now, secret.ttl_max.min(PEER_TICKET_TTL)),
            caps: AuthCaps { allow_all: true, text: String::new() },
            flags: 0,
        };
        let info = ServiceTicketInfo { ticket: identity, session_key: session_key.clone() };
        let mut authorizer = ClientAuthorizer {
            global_id: PEER_GLOBAL_ID,
            service,
            ticket: info.seal(secret.id, secret.key, entropy)?,
            session_key,
            nonce: entropy.u64(),
            payload: Vec::new(),
        };
        authorizer.payload = authorizer.present(None, entropy)?;
        Ok(authorizer)
    }

    /// The first payload to send.
    pub fn payload(&self) -> &[u8] {
        &self.payload
    }

    /// Key that belongs to the ticket; signs the handshake.
    pub fn session_key(&self) -> &CryptoKey {
        &self.session_key
    }

    /// Answers the service's challenge.
    pub fn handle_challenge(
        &mut self,
        payload: &[u8],
        entropy: &mut Entropy,
    ) -> Result<Vec<u8>, ClientError> {
        let challenge: AuthorizeChallenge =
            open("challenge", payload, &self.session_key, KeyUsage::AuthorizeChallenge)?;
        self.present(Some(challenge.server_challenge.wrapping_add(1)), entropy)
    }

    /// Checks the service's AUTH_DONE and returns the connection secret.
    pub fn handle_done(&self, payload: &[u8]) -> Result<Vec<u8>, ClientError> {
        let sealed =
            Reader::new(payload).blob("authorize reply").map_err(ClientError::Malformed)?;
        let reply: AuthorizeReply =
            open("authorize reply", sealed, &self.session_key, KeyUsage::AuthorizeReply)?;
        if reply.nonce_plus_one != self.nonce.wrapping_add(1) {
            let (sent, found) = (self.nonce, reply.nonce_plus_one);
            return Err(ClientError::WrongNonce { sent, found });
        }
        Ok(reply.connection_secret)
    }

    fn present(
        &self,
        server_challenge_plus_one: Option<u64>,
        entropy: &mut Entropy,
    ) -> Result<Vec<u8>, ClientError> {
        let authorize = Authorize { nonce: self.nonce, server_challenge_plus_one };
        let sealed = seal(&authorize, &self.session_key, KeyUsage::Authorize, entropy)?;
        let authorizer = Authorizer {
            global_id: self.global_id,
            service: self.service,
            ticket: self.ticket.clone(),
            sealed: sealed.into(),
        };
        Ok(codec::encode_to_bytes(&authorizer).to_vec())
    }
}

fn read_header(r: &mut Reader<'_>, expected: RequestType) -> Result<(), ClientError> {
    let header: ResponseHeader = r.value().map_err(ClientError::Malformed)?;
    check_status(header)?;
    if header.request_type != expected.number() {
        return Err(ClientError::UnexpectedReply { found: header.request_type });
    }
    Ok(())
}

fn check_status(header: ResponseHeader) -> Result<(), ClientError> {
    match header.status {
        0.. => Ok(()),
        status => Err(ClientError::Refused { status }),
    }
}

/// Service, sealed session key, true if the ticket is sealed too, ticket.
type TicketParts<'a> = (EntityType, &'a [u8], bool, &'a [u8]);

fn read_ticket_parts<'a>(r: &mut Reader<'a>) -> codec::Result<TicketParts<'a>> {
    let at = *r;
    let service = r.u32("ticket service")?;
    let service =
        u8::try_from(service).map_err(|_| at.invalid("ticket service", service.into()))?;
    r.u8("service ticket version")?;
    let readable = r.blob("session key")?;
    let is_sealed = r.bool("ticket is sealed")?;
    Ok((EntityType(service), readable, is_sealed, r.blob("ticket")?))
}

fn mask<'a>(services: impl IntoIterator<Item = &'a EntityType>) -> u32 {
    services.into_iter().fold(0, |mask, service| mask | u32::from(service.0))
}
