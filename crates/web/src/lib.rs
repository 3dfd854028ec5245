//! The server's side of HTTP/1.1, one [`Connection`] per socket.
//!
//! ```text
//! Connection::new()
//!   handle_received(bytes)       bytes from the socket
//!   poll_request() -> Request    a request to answer; the next one comes after its answer
//!   respond(Response)            or respond_by_stream(Response), push(bytes), end_stream()
//!   poll_transmit(pieces)        bytes to send
//!   is_over                      close once these are sent
//! ```
//!
//! Invariants:
//! * A request that is malformed or too long is answered with an error, and the connection ends. So is one
//!   with a body, except on connections that were made for bodies.
//! * Memory for input is bounded by [`HEAD_BYTES_MAX`] and the bound of bodies; later bytes are not taken.
//!
//! It does not know sockets, nor what is served under which path.

#![warn(missing_docs)]

mod connection;
mod message;

pub use connection::{Connection, HEAD_BYTES_MAX};
pub use message::{Method, Request, Response, Status};
