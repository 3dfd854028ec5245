//! Authentication, authorization, and encryption of connections.
//!
//! * [`crypto`]: keys and their ciphers.
//! * [`cephx`]: the exchange of proofs and tickets, for monitor, service and client.
//! * [`Acceptor`]: the tickets that are shown to a service; [`Verifier`]: those of all its connections.
//! * [`Connector`]: the proofs of an entity in all sessions that it opens.
//! * [`session`]: the ciphers of msgr2's secure mode.
//! * [`keyring`]: keyring files.
//! * [`METHOD_CEPHX`], [`MODE_SECURE`] and their like: numbers of methods and modes.
//! * [`caps`]: the languages of capabilities, and the checks against them.
//!
//! Sans-I/O: time and entropy are arguments. The crate knows no frame, no message and no map: the messenger
//! carries its payloads, and daemons call its checks.

#![warn(missing_docs)]

mod acceptor;
pub mod caps;
pub mod cephx;
mod connector;
pub mod crypto;
pub mod keyring;
mod method;
pub mod session;

#[cfg(test)]
mod testing;
mod token;
mod verifier;

pub use acceptor::{
    AcceptFailure, Acceptance, Accepted, Acceptor, Presentation, connection_secret_length,
};
pub use caps::{
    ApplicationMetadata, Caller, CapsError, ClassCall, MdsAccess, MdsCaps, MdsLevel, MgrAccess,
    MgrCaps, MonAccess, MonCaps, OsdAccess, OsdCaps, Ownership, Rwx,
};
pub use cephx::{
    AUTH_MODE_AUTHORIZER, AUTH_MODE_MON, AuthCaps, AuthTicket, Authenticate, Authenticated,
    Authorize, AuthorizeChallenge, AuthorizeError, AuthorizeHandler, AuthorizeReply, AuthorizeStep,
    AuthorizedPeer, Authorizer, CephxClient, CephxPolicy, CephxReply, CephxServer,
    ClientAuthorizer, ClientError, ClientSession, EntityAuth, ExpiringKey, GlobalIdStatus,
    KeyStore, MonAuthRequest, NoneAuthorizer, RequestType, ResponseHeader, RotatingSecrets,
    SERVICES, ServerChallenge, ServerContext, ServerError, ServiceSecrets, ServiceTicket,
    ServiceTicketInfo, ServiceTicketRequest, TicketBlob,
};
pub use connector::{ConnectFailure, Connector, Identity, Towards};
pub use crypto::{CryptoError, CryptoKey, Entropy, KeyTextError, KeyType, KeyUsage, open, seal};
pub use keyring::{Keyring, KeyringError};
pub use method::{METHOD_CEPHX, METHOD_NONE, MODE_CRC, MODE_SECURE};
pub use session::{
    BLOCK_LENGTH, CONNECTION_SECRET_LENGTH, SessionCipher, SessionCiphers, SessionError, Side,
    TAG_LENGTH,
};
pub use token::TokenDigest;
pub use verifier::Verifier;
