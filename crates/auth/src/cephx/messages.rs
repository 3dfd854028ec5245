//! Structures that cephx exchanges in the clear or seals.
//!
//! Each begins with a version byte of the old style, without a length: a decoder reads the fields that it
//! knows and ignores the rest.

use bytes::Bytes;
use codec::{Decode, Encode, Reader, Result, Writer};
use types::{EntityName, EntityType};

/// First byte of a connection's first payload: a ticket for a service follows (`AUTH_MODE_*`).
pub const AUTH_MODE_AUTHORIZER: u8 = 1;
/// First byte of a connection's first payload: a client introduces itself to a monitor.
pub const AUTH_MODE_MON: u8 = 10;
const AUTH_MODE_MON_MAX: u8 = 19;

/// First message of a client to a monitor. A `global_id` of zero requests a new one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MonAuthRequest {
    /// Name of the entity, not proved yet.
    pub name: EntityName,
    /// Global id of an earlier session, or zero.
    pub global_id: u64,
}

impl Encode for MonAuthRequest {
    fn encode(&self, w: &mut Writer) {
        w.u8(AUTH_MODE_MON);
        w.value(&self.name);
        w.u64(self.global_id);
    }
}

impl Decode for MonAuthRequest {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let at = *r;
        let mode = r.u8("authentication mode")?;
        if !(AUTH_MODE_MON..=AUTH_MODE_MON_MAX).contains(&mode) {
            return Err(at.invalid("authentication mode", mode.into()));
        }
        Ok(MonAuthRequest { name: r.value()?, global_id: r.u64("global id")? })
    }
}

/// `CEPHX_*`: type of a client's request to the monitor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestType {
    /// Proves a key and returns the auth ticket.
    AuthSessionKey,
    /// Presents the auth ticket and returns tickets for services.
    PrincipalSessionKey,
    /// Returns the rotating secrets of a daemon's own service.
    RotatingKey,
}

impl RequestType {
    /// The number on the wire.
    pub fn number(self) -> u16 {
        match self {
            RequestType::AuthSessionKey => 0x0100,
            RequestType::PrincipalSessionKey => 0x0200,
            RequestType::RotatingKey => 0x0400,
        }
    }

    /// `None` for a request that cephx does not have.
    pub fn from_number(number: u16) -> Option<Self> {
        [RequestType::AuthSessionKey, RequestType::PrincipalSessionKey, RequestType::RotatingKey]
            .into_iter()
            .find(|kind| kind.number() == number)
    }
}

/// `CephXResponseHeader`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResponseHeader {
    /// [`RequestType`] of the request.
    pub request_type: u16,
    /// 0, or a negative errno.
    pub status: i32,
}

impl Encode for ResponseHeader {
    fn encode(&self, w: &mut Writer) {
        w.u16(self.request_type);
        w.i32(self.status);
    }
}

impl Decode for ResponseHeader {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        Ok(ResponseHeader { request_type: r.u16("request type")?, status: r.i32("status")? })
    }
}

/// Defines a structure of one version byte and a few plain fields.
macro_rules! plain {
    (
        $(#[$doc:meta])*
        $name:ident v $version:literal { $($(#[$of_field:meta])* $field:ident: $type:ident),* }
    ) => {
        $(#[$doc])*
        ///
        /// Encoded behind a version byte of the old style.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        pub struct $name {
            $($(#[$of_field])* pub $field: $type,)*
        }

        impl Encode for $name {
            fn encode(&self, w: &mut Writer) {
                w.u8($version);
                $(w.$type(self.$field);)*
            }
        }

        impl Decode for $name {
            fn decode(r: &mut Reader<'_>) -> Result<Self> {
                r.u8("version")?;
                Ok($name { $($field: r.$type(stringify!($field))?,)* })
            }
        }
    };
}

plain! {
    /// `CephXServerChallenge`: the monitor's first reply.
    ServerChallenge v 1 {
        /// Random number of the monitor, which [`crate::CryptoKey::answer`] takes.
        server_challenge: u64
    }
}
plain! {
    /// `CephXServiceTicketRequest`: bit mask of [`EntityType`]s.
    ServiceTicketRequest v 1 {
        /// The services for which tickets are requested.
        keys: u32
    }
}
plain! {
    /// `CephXAuthorizeChallenge`: binds an authorizer to one connection.
    AuthorizeChallenge v 1 {
        /// Random number of the service, which the second authorizer answers.
        server_challenge: u64
    }
}

/// `CephXTicketBlob`: a sealed ticket with the id of the secret that sealed it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TicketBlob {
    /// Id among the rotating secrets of the service.
    pub secret_id: u64,
    /// The sealed [`crate::ServiceTicketInfo`]; empty if there is no ticket.
    pub blob: Bytes,
}

impl Encode for TicketBlob {
    fn encode(&self, w: &mut Writer) {
        w.u8(1);
        w.u64(self.secret_id);
        w.blob(&self.blob);
    }
}

impl Decode for TicketBlob {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        r.u8("ticket version")?;
        let secret_id = r.u64("secret id")?;
        Ok(TicketBlob { secret_id, blob: Bytes::copy_from_slice(r.blob("ticket")?) })
    }
}

/// `CephXAuthenticate`: the client's answer to the challenge.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Authenticate {
    /// Random number of the client.
    pub client_challenge: u64,
    /// [`crate::CryptoKey::answer`] to both challenges.
    pub key: u64,
    /// The previous auth ticket, which proves the right to keep a global id.
    pub old_ticket: TicketBlob,
    /// Bit mask of the services for which tickets are requested at once.
    pub other_keys: u32,
    /// Clients before version 3 present no ticket when they reconnect.
    pub old_ticket_may_be_omitted: bool,
}

impl Encode for Authenticate {
    fn encode(&self, w: &mut Writer) {
        w.u8(if self.old_ticket_may_be_omitted { 2 } else { 3 });
        w.u64(self.client_challenge);
        w.u64(self.key);
        w.value(&self.old_ticket);
        w.u32(self.other_keys);
    }
}

impl Decode for Authenticate {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let version = r.u8("authenticate version")?;
        Ok(Authenticate {
            client_challenge: r.u64("client challenge")?,
            key: r.u64("challenge answer")?,
            old_ticket: r.value()?,
            other_keys: if version >= 2 { r.u32("other keys")? } else { 0 },
            old_ticket_may_be_omitted: version < 3,
        })
    }
}

/// `CephXAuthorizer`: a ticket with a sealed [`Authorize`], which proves possession of the session key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Authorizer {
    /// Global id of the client, as in the ticket.
    pub global_id: u64,
    /// Service of the ticket.
    pub service: EntityType,
    /// The ticket, which the client cannot open.
    pub ticket: TicketBlob,
    /// An [`Authorize`], sealed with the session key.
    pub sealed: Bytes,
}

impl Encode for Authorizer {
    fn encode(&self, w: &mut Writer) {
        w.u8(AUTH_MODE_AUTHORIZER);
        w.u64(self.global_id);
        w.u32(self.service.0.into());
        w.value(&self.ticket);
        w.blob(&self.sealed);
    }
}

impl Decode for Authorizer {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        r.u8("authorizer version")?;
        let global_id = r.u64("global id")?;
        let at = *r;
        let service = r.u32("service")?;
        let service = u8::try_from(service).map_err(|_| at.invalid("service", service.into()))?;
        Ok(Authorizer {
            global_id,
            service: EntityType(service),
            ticket: r.value()?,
            sealed: Bytes::copy_from_slice(r.blob("sealed authorize")?),
        })
    }
}

/// `CephXAuthorize`
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Authorize {
    /// Random number of the client, which the service answers.
    pub nonce: u64,
    /// One more than the service's challenge; `None` in the first authorizer.
    pub server_challenge_plus_one: Option<u64>,
}

impl Encode for Authorize {
    fn encode(&self, w: &mut Writer) {
        w.u8(2);
        w.u64(self.nonce);
        w.bool(self.server_challenge_plus_one.is_some());
        w.u64(self.server_challenge_plus_one.unwrap_or(0));
    }
}

impl Decode for Authorize {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let version = r.u8("authorize version")?;
        let nonce = r.u64("nonce")?;
        let server_challenge_plus_one = match version {
            0 | 1 => None,
            _ => {
                let have_challenge = r.bool("have challenge")?;
                let answer = r.u64("server challenge plus one")?;
                have_challenge.then_some(answer)
            }
        };
        Ok(Authorize { nonce, server_challenge_plus_one })
    }
}

/// `CephXAuthorizeReply`: proves that the service could open the ticket.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct AuthorizeReply {
    /// One more than the client's nonce.
    pub nonce_plus_one: u64,
    /// Keys of secure mode; empty in crc mode.
    pub connection_secret: Vec<u8>,
}

impl Encode for AuthorizeReply {
    fn encode(&self, w: &mut Writer) {
        w.u8(if self.connection_secret.is_empty() { 1 } else { 2 });
        w.u64(self.nonce_plus_one);
        if !self.connection_secret.is_empty() {
            w.blob(&self.connection_secret);
        }
    }
}

impl Decode for AuthorizeReply {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let version = r.u8("authorize reply version")?;
        let nonce_plus_one = r.u64("nonce plus one")?;
        let connection_secret =
            if version >= 2 { r.blob("connection secret")?.to_vec() } else { Vec::new() };
        Ok(AuthorizeReply { nonce_plus_one, connection_secret })
    }
}
