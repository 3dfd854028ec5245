//! cephx: a client proves its key to the monitor, gets tickets, and presents them to services.
//!
//! In the order in which a connection uses them:
//! * [`MonAuthRequest`] opens a connection to a monitor; [`CephxServer`] is the monitor's side of the
//!   exchange and [`CephxClient`] the client's.
//! * [`ServiceSecrets`] are the rotating secrets that seal tickets.
//! * [`ClientAuthorizer`] presents a ticket to a service, whose side is [`AuthorizeHandler`].
//!
//! Invariants: no data of a peer is trusted before it has been opened with a key; a refused exchange leaves
//! no state that a later one could use; secrets never appear in errors or `Debug`. Time and randomness are
//! arguments.

mod authorize;
mod client;
mod messages;
mod none;
mod policy;
mod principal;
mod redacted;
mod rotating;
mod server;
mod ticket;

#[cfg(test)]
mod golden;
#[cfg(test)]
mod tests;

pub use authorize::{AuthorizeError, AuthorizeHandler, AuthorizeStep, AuthorizedPeer};
pub use client::{CephxClient, ClientAuthorizer, ClientError, ClientSession};
pub use messages::{
    AUTH_MODE_AUTHORIZER, AUTH_MODE_MON, Authenticate, Authorize, AuthorizeChallenge,
    AuthorizeReply, Authorizer, MonAuthRequest, RequestType, ResponseHeader, ServerChallenge,
    ServiceTicketRequest, TicketBlob,
};
pub use none::NoneAuthorizer;
pub use policy::CephxPolicy;
pub use principal::{EntityAuth, KeyStore};
pub use rotating::{ExpiringKey, RotatingSecrets, SERVICES, ServiceSecrets};
pub use server::{
    Authenticated, CephxReply, CephxServer, GlobalIdStatus, ServerContext, ServerError,
};
pub use ticket::{AuthCaps, AuthTicket, ServiceTicket, ServiceTicketInfo};
