//! Clients as their connections were authenticated.

use auth::{AuthCaps, MdsCaps};
use engine::Peer;
use std::net::IpAddr;
use std::sync::Arc;
use types::{AddrType, EntityAddr, EntityAddrVec, EntityName};

/// A client, as its connection was authenticated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientPeer {
    /// Its global id, which is the id of its session.
    pub client: u64,
    /// Its entity.
    pub name: EntityName,
    /// Its addresses.
    pub addrs: EntityAddrVec,
    /// Its address as it is seen here; `None` if it has no socket.
    pub address: Option<IpAddr>,
    /// Capabilities in its ticket.
    pub caps: Arc<MdsCaps>,
}

impl ClientPeer {
    /// The client with the global id `client` at the other end of a session. Capabilities that cannot be
    /// understood allow nothing.
    pub(crate) fn new(client: u64, peer: Peer) -> Self {
        let caps = codec::decode_all::<AuthCaps>("caps", &peer.caps);
        let caps = caps.map_err(|error| error.to_string());
        let caps = caps.and_then(|caps| MdsCaps::granted(&caps).map_err(|error| error.to_string()));
        let caps = caps.unwrap_or_else(|error| {
            tracing::warn!(name = %peer.name, error, "capabilities cannot be understood");
            MdsCaps::default()
        });
        let address = peer.seen_addr.socket.map(|socket| socket.ip());
        ClientPeer { client, name: peer.name, addrs: peer.addrs, address, caps: Arc::new(caps) }
    }
}

/// Whether an address can be put on the blocklist, and is that of one client: an address without a nonce
/// would shut out a whole host.
pub(crate) fn is_of_one_client(addr: &EntityAddr) -> bool {
    addr.socket.is_some() && addr.kind != AddrType::Cidr && addr.nonce != 0
}
