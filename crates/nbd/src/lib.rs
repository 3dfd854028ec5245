//! The server's side of the NBD protocol (network block device), one [`Session`] per connection.
//!
//! The fixed newstyle handshake, structured replies, block status of `base:allocation`, and all
//! commands of the baseline and its stable extensions but resizing, as `doc/proto.md` of the reference
//! implementation describes them.
//!
//! ```text
//! Session::new(limits, tls)
//!   handle_received(bytes)            bytes from the socket
//!   receive_hint, take_receive_buffer, handle_filled    for data that goes straight into its buffer
//!   poll_event(exports) -> Event      a command to execute, or the end
//!   complete(id, outcome)
//!   poll_transmit(pieces)             bytes to send
//! ```
//!
//! Invariants:
//! * Every option and command is answered, with an error if it is invalid, or ends the session. Memory is
//!   reserved for it only after its length was compared with its bound, and never more than [`Limits`] allow.
//! * Data is passed on in the slices in which it came, in both directions.
//!
//! It deliberately does not know sockets, images, how commands are executed, or how TLS encrypts: after
//! [`Event::StartTls`] the host decrypts input and encrypts output.

#![warn(missing_docs)]

mod input;
mod negotiation;
mod protocol;
mod reply;
mod session;
mod transmission;

pub use protocol::CommandError;
pub use session::{CloseReason, Event, Limits, Session};
pub use transmission::{Command, CommandId, Data, Outcome};

use bytes::Bytes;

/// Encryption of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tls {
    /// The server has no certificate; STARTTLS is refused.
    Unavailable,
    /// The client may encrypt the session, and may not.
    Offered,
    /// Options other than STARTTLS are refused until the session is encrypted.
    Required,
    /// The session is encrypted.
    Established,
}

/// Properties of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Export {
    /// The host's number of the export.
    pub number: usize,
    /// Bytes of the export.
    pub size: u64,
    /// Commands that change data are refused.
    pub is_read_only: bool,
    /// Preferred block size in bytes: requests aligned to it cost least.
    pub preferred_block: u32,
}

/// The exports of a server, by name.
pub trait Exports {
    /// Finds an export. The empty name is the default export's.
    fn find(&self, name: &[u8]) -> Option<Export>;
    /// Names for the option LIST.
    fn names(&self) -> Vec<Bytes>;
}
