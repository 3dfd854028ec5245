//! Clients as their connections were authenticated.

use types::{EntityAddrVec, EntityName};

/// A client, as its connection was authenticated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientPeer {
    /// Its global id, which is the id of its session.
    pub client: u64,
    /// Its entity.
    pub name: EntityName,
    /// Its addresses.
    pub addrs: EntityAddrVec,
}
