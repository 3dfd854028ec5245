//! TLS on the server's side of a connection, and the certificate that a server makes for itself.
//!
//! * [`Tls`]: bytes of the socket in, bytes of the protocol above out, and the reverse. It has no socket.
//! * [`certificates`], [`private_key`]: files as administrators have them.
//! * [`Identity`]: a certificate and its key, made at the first start and kept.

#![warn(missing_docs)]

mod connection;
mod files;
mod identity;

pub use connection::Tls;
pub use files::{certificates, private_key};
pub use identity::Identity;
