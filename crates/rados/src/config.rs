//! Configuration of a client.

use auth::CryptoKey;
use engine::{ConnId, Duration};
use types::{EntityAddrVec, EntityName};

/// Credentials of the client.
#[derive(Debug, Clone)]
pub enum Credentials {
    /// cephx with this key.
    Key(CryptoKey),
    /// `auth none`: the name is asserted.
    None,
}

/// Configuration of a client, fixed for its lifetime.
#[derive(Debug, Clone)]
pub struct Config {
    /// Name of the entity, such as `client.admin`.
    pub name: EntityName,
    /// Proof of the name.
    pub credentials: Credentials,
    /// Initial monitors; the monitor map names the others.
    pub monitors: Vec<EntityAddrVec>,
    /// Time after which an operation or command completes with [`types::Errno::TIMEDOUT`].
    pub timeout: Option<Duration>,
    /// Prefers secure mode over crc mode.
    pub prefers_secure: bool,
    /// Number of the client's first session; the others follow. A daemon that embeds the client, and passes
    /// its sessions on, numbers its own below.
    pub first_conn: ConnId,
}

impl Config {
    /// A client without a timeout, which prefers crc mode and numbers its sessions from 1.
    pub fn new(name: EntityName, credentials: Credentials, monitors: Vec<EntityAddrVec>) -> Self {
        Config {
            name,
            credentials,
            monitors,
            timeout: None,
            prefers_secure: false,
            first_conn: ConnId(1),
        }
    }
}
