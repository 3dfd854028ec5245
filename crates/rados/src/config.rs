//! What a client needs to know before it can ask.

use auth::CryptoKey;
use engine::Duration;
use types::{EntityAddrVec, EntityName};

/// How the client proves who it is.
#[derive(Debug, Clone)]
pub enum Credentials {
    /// cephx with this key.
    Key(CryptoKey),
    /// `auth none`: the name is asserted.
    None,
}

#[derive(Debug, Clone)]
pub struct Config {
    pub name: EntityName,
    pub credentials: Credentials,
    /// Monitors to begin with; their map tells of others.
    pub monitors: Vec<EntityAddrVec>,
    /// After which an operation or command completes with [`types::Errno::TIMEDOUT`].
    pub timeout: Option<Duration>,
    /// Whether secure mode is preferred over crc mode.
    pub prefers_secure: bool,
}

impl Config {
    pub fn new(name: EntityName, credentials: Credentials, monitors: Vec<EntityAddrVec>) -> Self {
        Config { name, credentials, monitors, timeout: None, prefers_secure: false }
    }
}
