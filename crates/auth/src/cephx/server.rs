//! The monitor's side of cephx, for the session of one client.
//!
//! ```text
//! client                             monitor
//!   MonAuthRequest             ---->   start: a challenge
//!   AuthSessionKey: answer     ---->   handle_request: auth ticket, connection secret, tickets
//!   PrincipalSessionKey: TGT   ---->   handle_request: tickets for services, also for renewal
//!   RotatingKey                ---->   handle_request: a daemon's own service secrets
//! ```
//!
//! Global ids: a client that names a global id of an earlier session must present the ticket issued for it,
//! or any client could take over another's sessions (CVE-2021-20288). The ticket may have expired, but must
//! be sealed with a secret that the monitor still has.

use super::{
    AuthCaps, AuthTicket, Authenticate, AuthorizeError, Authorizer, CephxPolicy, EntityAuth,
    KeyStore, RequestType, ResponseHeader, RotatingSecrets, ServerChallenge, ServiceSecrets,
    ServiceTicket, ServiceTicketInfo, ServiceTicketRequest, authorize::open_authorizer,
    rotating::after,
};
use crate::{CryptoError, CryptoKey, Entropy, KeyType, KeyUsage, seal};
use codec::{DecodeError, Reader, Writer};
use std::time::Duration;
use types::{EntityName, EntityType, Errno, UTime};

/// Context in which a request is checked.
pub struct ServerContext<'a> {
    /// Wall-clock time, to which lifetimes refer.
    pub now: UTime,
    /// The entities that the monitor knows.
    pub keys: &'a dyn KeyStore,
    /// Secrets with which tickets are sealed.
    pub secrets: &'a ServiceSecrets,
    /// Lifetimes and accepted keys.
    pub policy: &'a CephxPolicy,
    /// For session keys and connection secrets.
    pub entropy: &'a mut Entropy,
}

/// Origin of a session's global id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GlobalIdStatus {
    /// A new id is assigned once the key is proved.
    NewPending,
    /// A new id.
    New,
    /// A new id for a client that is not able to reclaim it.
    NewNotExposed,
    /// The client names an id and has not proved its key.
    ReclaimPending,
    /// The client has shown the ticket that was issued for the id.
    Reclaimed,
    /// The client has shown no ticket, and the policy lets it pass.
    ReclaimedInsecurely,
}

/// Reason why a request is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ServerError {
    /// The request does not decode.
    #[error("the request is malformed")]
    Malformed(#[source] DecodeError),
    /// A type that cephx does not have.
    #[error("request type {0:#06x} is unknown")]
    UnknownRequest(u16),
    /// The monitor has no such entity.
    #[error("there is no entity {0}")]
    UnknownEntity(EntityName),
    /// The policy does not allow the type of the entity's key.
    #[error("{name} has a key of type {}, which is not allowed", kind.name())]
    KeyTypeRefused {
        /// The entity.
        name: EntityName,
        /// Type of its key.
        kind: KeyType,
    },
    /// The answer to the challenge was made with another key.
    #[error("{0} did not prove its key")]
    WrongKey(EntityName),
    /// A client that gets a new global id has shown a ticket.
    #[error("{name} presents a ticket for the new global id {global_id}")]
    SuperfluousTicket {
        /// The entity.
        name: EntityName,
        /// The id that it was given.
        global_id: u64,
    },
    /// The client must show the ticket that was issued for the id.
    #[error("{name} claims global id {global_id} without its ticket")]
    GlobalIdRefused {
        /// The entity.
        name: EntityName,
        /// The id that it claims.
        global_id: u64,
    },
    /// Without these, nothing could be requested from a monitor.
    #[error("{0} has no monitor capabilities")]
    NoMonCaps(EntityName),
    /// The secrets of that service were not made yet.
    #[error("there are no rotating secrets for {0}")]
    NoServiceSecrets(EntityType),
    /// The auth ticket of a request for tickets.
    #[error("the auth ticket is refused")]
    AuthTicket(#[source] AuthorizeError),
    /// A key of the monitor's own store is empty or damaged.
    #[error("a key cannot be used")]
    Crypto(#[from] CryptoError),
}

impl ServerError {
    /// The error sent to the client; it does not reveal which secret was wrong.
    pub fn errno(&self) -> Errno {
        match self {
            ServerError::Malformed(_) => Errno::PERM,
            ServerError::UnknownRequest(_) | ServerError::SuperfluousTicket { .. } => Errno::INVAL,
            _ => Errno::ACCES,
        }
    }
}

/// Reply to a request.
#[derive(Debug)]
pub struct CephxReply {
    /// Payload of AUTH_DONE or `MAuthReply`.
    pub payload: Vec<u8>,
    /// Set when this request proved the client's key.
    pub authenticated: Option<Box<Authenticated>>,
}

/// A client that has proved its key.
#[derive(Clone, PartialEq, Eq)]
pub struct Authenticated {
    /// Shared with the client; signs the handshake.
    pub session_key: CryptoKey,
    /// Keys of secure mode; empty in crc mode.
    pub connection_secret: Vec<u8>,
    /// Capability text for monitors.
    pub mon_caps: String,
    /// The client used its pending key, which can replace the old one now.
    pub used_pending_key: bool,
}

/// Session of one client at the monitor (`CephxServiceHandler`). Lives as long as the connection, over
/// which tickets are renewed.
#[derive(Debug)]
pub struct CephxServer {
    name: EntityName,
    global_id: u64,
    global_id_status: GlobalIdStatus,
    server_challenge: u64,
}

impl CephxServer {
    /// Opens a session and returns it with the challenge to send (AUTH_REPLY_MORE). `global_id_is_new` is
    /// true if the monitor has just assigned `global_id`, or will with [`CephxServer::assign_global_id`]
    /// before the proof is handled; false if the client named it.
    pub fn start(
        name: EntityName,
        global_id: u64,
        global_id_is_new: bool,
        entropy: &mut Entropy,
    ) -> (Self, Vec<u8>) {
        let server_challenge = entropy.u64().max(1);
        let global_id_status = if global_id_is_new {
            GlobalIdStatus::NewPending
        } else {
            GlobalIdStatus::ReclaimPending
        };
        let server = CephxServer { name, global_id, global_id_status, server_challenge };
        let payload = codec::encode_to_bytes(&ServerChallenge { server_challenge }).to_vec();
        (server, payload)
    }

    /// Name of the client, proved once a request has succeeded.
    pub fn name(&self) -> &EntityName {
        &self.name
    }

    /// Global id of the client; final once its key is proved.
    pub fn global_id(&self) -> u64 {
        self.global_id
    }

    /// Whether the client is to get a new id, and has not proved its key yet.
    pub fn needs_global_id(&self) -> bool {
        self.global_id_status == GlobalIdStatus::NewPending
    }

    /// Sets the id that a client gets which needs one, if it proves its key now.
    pub fn assign_global_id(&mut self, global_id: u64) {
        assert!(self.needs_global_id(), "a client that proved its key keeps its id");
        self.global_id = global_id;
    }

    /// Origin of the global id, for logs.
    pub fn global_id_status(&self) -> GlobalIdStatus {
        self.global_id_status
    }

    /// Handles one request. `connection_secret_length` is `None` for requests in `MAuth` messages, whose
    /// connection has its secret already; in a handshake it is in bytes: 0 in crc mode and
    /// [`crate::CONNECTION_SECRET_LENGTH`] in secure mode.
    pub fn handle_request(
        &mut self,
        mut context: ServerContext<'_>,
        request: &[u8],
        connection_secret_length: Option<usize>,
    ) -> Result<CephxReply, ServerError> {
        let mut r = Reader::new(request);
        let number = r.u16("request type").map_err(ServerError::Malformed)?;
        let context = &mut context;
        match RequestType::from_number(number).ok_or(ServerError::UnknownRequest(number))? {
            RequestType::AuthSessionKey => {
                self.authenticate(context, &mut r, connection_secret_length)
            }
            RequestType::PrincipalSessionKey => service_tickets(context, &mut r),
            RequestType::RotatingKey => self.rotating_key(context),
        }
    }

    fn authenticate(
        &mut self,
        context: &mut ServerContext<'_>,
        r: &mut Reader<'_>,
        connection_secret_length: Option<usize>,
    ) -> Result<CephxReply, ServerError> {
        let request: Authenticate = r.value().map_err(ServerError::Malformed)?;
        let keys = context.keys;
        let entity = keys
            .entity_auth(&self.name)
            .ok_or_else(|| ServerError::UnknownEntity(self.name.clone()))?;
        let key = self.proven_key(context.policy, entity, &request)?;
        let old_session_key = self.check_global_id(context, &request)?;
        let mon_caps = entity.caps_for(EntityType::MON);
        if mon_caps.is_empty() {
            return Err(ServerError::NoMonCaps(self.name.clone()));
        }

        let issuer = Issuer::new(context, EntityType::AUTH)?;
        let identity = AuthTicket {
            name: self.name.clone(),
            global_id: self.global_id,
            ..AuthTicket::default()
        };
        let issued = issuer.issue(identity, key.kind(), context.entropy)?;
        let session_key = issued.info.session_key.clone();

        let mut w = reply_writer(RequestType::AuthSessionKey);
        write_tickets(&mut w, key, &[&issued], old_session_key.as_ref(), context.entropy)?;
        let mut connection_secret = Vec::new();
        if request.other_keys != 0 {
            connection_secret = write_connection_secret(
                &mut w,
                &session_key,
                connection_secret_length,
                context.entropy,
            )?;
            let extra = issue_all(context, &issued.info, key.kind(), request.other_keys)?;
            let mut tickets = Writer::new();
            if !extra.is_empty() {
                let extra: Vec<&Issued<'_>> = extra.iter().collect();
                write_tickets(&mut tickets, &session_key, &extra, None, context.entropy)?;
            }
            w.blob(tickets.as_slice());
        }
        let authenticated = Authenticated {
            session_key,
            connection_secret,
            mon_caps: mon_caps.to_owned(),
            used_pending_key: entity.pending_key.as_ref().is_some_and(|p| std::ptr::eq(p, key)),
        };
        Ok(CephxReply { payload: w.into_vec(), authenticated: Some(Box::new(authenticated)) })
    }

    /// The key of the entity, or its pending key, that answered the challenge.
    fn proven_key<'a>(
        &self,
        policy: &CephxPolicy,
        entity: &'a EntityAuth,
        request: &Authenticate,
    ) -> Result<&'a CryptoKey, ServerError> {
        let kind = entity.key.kind();
        if !policy.allowed_key_types.contains(&kind) {
            return Err(ServerError::KeyTypeRefused { name: self.name.clone(), kind });
        }
        std::iter::once(&entity.key)
            .chain(&entity.pending_key)
            .find(|key| {
                let expected = key.answer(self.server_challenge, request.client_challenge);
                expected.is_ok_and(|expected| expected == request.key)
            })
            .ok_or_else(|| ServerError::WrongKey(self.name.clone()))
    }

    /// Decides on the global id. Returns the session key of the old ticket if the new ticket must be sealed
    /// with it, so that only the owner of the old ticket can read it.
    fn check_global_id(
        &mut self,
        context: &ServerContext<'_>,
        request: &Authenticate,
    ) -> Result<Option<CryptoKey>, ServerError> {
        let (name, global_id) = (self.name.clone(), self.global_id);
        if self.global_id_status == GlobalIdStatus::NewPending {
            if !request.old_ticket.blob.is_empty() {
                return Err(ServerError::SuperfluousTicket { name, global_id });
            }
            self.global_id_status = if request.old_ticket_may_be_omitted {
                GlobalIdStatus::NewNotExposed
            } else {
                GlobalIdStatus::New
            };
            return Ok(None);
        }
        if let Some(old) = open_old_ticket(context.secrets, request, global_id) {
            self.global_id_status = GlobalIdStatus::Reclaimed;
            return Ok(Some(old.session_key));
        }
        if context.policy.allow_insecure_global_id_reclaim && request.old_ticket_may_be_omitted {
            self.global_id_status = GlobalIdStatus::ReclaimedInsecurely;
            return Ok(None);
        }
        Err(ServerError::GlobalIdRefused { name, global_id })
    }

    fn rotating_key(&self, context: &mut ServerContext<'_>) -> Result<CephxReply, ServerError> {
        let keys = context.keys;
        let entity = keys
            .entity_auth(&self.name)
            .ok_or_else(|| ServerError::UnknownEntity(self.name.clone()))?;
        let secrets = context
            .secrets
            .service(self.name.kind)
            .ok_or(ServerError::NoServiceSecrets(self.name.kind))?;
        let sealed = seal(secrets, &entity.key, KeyUsage::RotatingSecret, context.entropy)?;
        let mut w = reply_writer(RequestType::RotatingKey);
        w.blob(&sealed);
        Ok(CephxReply { payload: w.into_vec(), authenticated: None })
    }
}

/// Issues tickets for the services that the bearer of an auth ticket requests.
fn service_tickets(
    context: &mut ServerContext<'_>,
    r: &mut Reader<'_>,
) -> Result<CephxReply, ServerError> {
    let authorizer: Authorizer = r.value().map_err(ServerError::Malformed)?;
    let request: ServiceTicketRequest = r.value().map_err(ServerError::Malformed)?;
    let secrets = service_secrets(context.secrets, EntityType::AUTH)?;
    let (parent, _) = open_authorizer(context.now, &authorizer, EntityType::AUTH, secrets)
        .map_err(ServerError::AuthTicket)?;
    let issued = issue_all(context, &parent, parent.session_key.kind(), request.keys)?;
    let mut w = reply_writer(RequestType::PrincipalSessionKey);
    let issued: Vec<&Issued<'_>> = issued.iter().collect();
    write_tickets(&mut w, &parent.session_key, &issued, None, context.entropy)?;
    Ok(CephxReply { payload: w.into_vec(), authenticated: None })
}

/// Issues tickets for the services in `mask` that have secrets. The auth ticket is excluded: only a proven
/// key gets it.
fn issue_all<'a>(
    context: &mut ServerContext<'a>,
    parent: &ServiceTicketInfo,
    kind: KeyType,
    mask: u32,
) -> Result<Vec<Issued<'a>>, ServerError> {
    let keys = context.keys;
    let entity = keys
        .entity_auth(&parent.ticket.name)
        .ok_or_else(|| ServerError::UnknownEntity(parent.ticket.name.clone()))?;
    let mut issued = Vec::new();
    for service in super::SERVICES {
        if service == EntityType::AUTH || mask & u32::from(service.0) == 0 {
            continue;
        }
        let Ok(issuer) = Issuer::new(context, service) else { continue };
        let caps = AuthCaps::new(entity.caps_for(service));
        let identity = AuthTicket { caps, ..parent.ticket.clone() };
        issued.push(issuer.issue(identity, kind, context.entropy)?);
    }
    Ok(issued)
}

fn open_old_ticket(
    secrets: &ServiceSecrets,
    request: &Authenticate,
    global_id: u64,
) -> Option<ServiceTicketInfo> {
    let secret = secrets.service(EntityType::AUTH)?.secret(request.old_ticket.secret_id)?;
    let old = ServiceTicketInfo::open(&request.old_ticket, secret).ok()?;
    (old.ticket.global_id == global_id).then_some(old)
}

/// Issues tickets for one service with its current secret.
struct Issuer<'a> {
    service: EntityType,
    now: UTime,
    ttl: Duration,
    secret_id: u64,
    secret: &'a CryptoKey,
}

/// A ticket that is not sealed yet.
struct Issued<'a> {
    service: EntityType,
    info: ServiceTicketInfo,
    validity: UTime,
    secret_id: u64,
    secret: &'a CryptoKey,
}

impl<'a> Issuer<'a> {
    fn new(context: &ServerContext<'a>, service: EntityType) -> Result<Self, ServerError> {
        let sealing = service_secrets(context.secrets, service)?
            .sealing(context.now)
            .ok_or(ServerError::NoServiceSecrets(service))?;
        Ok(Issuer {
            service,
            now: context.now,
            ttl: context.policy.ticket_ttl(service).min(sealing.ttl_max),
            secret_id: sealing.id,
            secret: sealing.key,
        })
    }

    /// `kind` is the key type that the client supports. The service supports the type of its secret, and
    /// their session uses the weaker of both; the session key of an auth ticket concerns monitors alone.
    fn issue(
        self,
        identity: AuthTicket,
        kind: KeyType,
        entropy: &mut Entropy,
    ) -> Result<Issued<'a>, ServerError> {
        let kind = match self.service {
            EntityType::AUTH => kind,
            _ => kind.min(self.secret.kind()),
        };
        let ticket =
            AuthTicket { created: self.now, expires: after(self.now, self.ttl), ..identity };
        Ok(Issued {
            service: self.service,
            info: ServiceTicketInfo {
                ticket,
                session_key: CryptoKey::generate(kind, self.now, entropy),
            },
            validity: after(UTime::ZERO, self.ttl),
            secret_id: self.secret_id,
            secret: self.secret,
        })
    }
}

fn service_secrets(
    secrets: &ServiceSecrets,
    service: EntityType,
) -> Result<&RotatingSecrets, ServerError> {
    secrets.service(service).ok_or(ServerError::NoServiceSecrets(service))
}

fn reply_writer(request: RequestType) -> Writer {
    let mut w = Writer::new();
    w.value(&ResponseHeader { request_type: request.number(), status: 0 });
    w
}

/// Writes tickets for the holder of `key`: for each the session key, sealed with `key`, and the ticket
/// itself, sealed once more with `ticket_key` if that is given.
fn write_tickets(
    w: &mut Writer,
    key: &CryptoKey,
    tickets: &[&Issued<'_>],
    ticket_key: Option<&CryptoKey>,
    entropy: &mut Entropy,
) -> Result<(), ServerError> {
    w.u8(1);
    w.count(tickets.len());
    for issued in tickets {
        w.u32(issued.service.0.into());
        w.u8(1);
        let readable = ServiceTicket {
            session_key: issued.info.session_key.clone(),
            validity: issued.validity,
        };
        w.blob(&seal(&readable, key, KeyUsage::TicketSessionKey, entropy)?);
        let ticket = issued.info.seal(issued.secret_id, issued.secret, entropy)?;
        let ticket = codec::encode_to_bytes(&ticket);
        w.bool(ticket_key.is_some());
        match ticket_key {
            Some(ticket_key) => w.blob(&seal(&ticket, ticket_key, KeyUsage::TicketBlob, entropy)?),
            None => w.blob(&ticket),
        }
    }
    Ok(())
}

/// Writes and returns a fresh connection secret; writes an empty one if there is no length.
fn write_connection_secret(
    w: &mut Writer,
    session_key: &CryptoKey,
    length: Option<usize>,
    entropy: &mut Entropy,
) -> Result<Vec<u8>, ServerError> {
    let Some(length) = length else {
        w.blob(&[]);
        return Ok(Vec::new());
    };
    let secret = bytes::Bytes::from(entropy.bytes(length));
    let sealed = seal(&secret, session_key, KeyUsage::AuthConnectionSecret, entropy)?;
    w.sized(|w| w.blob(&sealed));
    Ok(secret.to_vec())
}
