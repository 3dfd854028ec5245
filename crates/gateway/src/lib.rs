//! A gateway that serves images to NBD clients.
//!
//! * [`NbdNode`]: NBD clients on one side, the cluster on the other, as a node on a core.
//! * [`ServedImage`]: one image as an export.
//! * [`TlsPolicy`]: TLS of the connections; `client`: one connection.
//!
//! It does not know arguments, nor where a socket lies.

#![warn(missing_docs)]

mod client;
mod node;
mod served;
mod tls;

pub use node::NbdNode;
pub use served::ServedImage;
pub use tls::TlsPolicy;
