//! Configuration of a metadata server.

use auth::CryptoKey;
use engine::Duration;
use types::{EntityAddrVec, Uuid};

/// Configuration, fixed for the server's lifetime.
#[derive(Debug, Clone)]
pub struct Config {
    /// Its name without the type: `a` of `mds.a`.
    pub name: String,
    /// Id of the cluster.
    pub fsid: Uuid,
    /// Where it listens.
    pub addrs: EntityAddrVec,
    /// Monitors.
    pub monitors: Vec<EntityAddrVec>,
    /// Proof of its name; not needed where a monitor is in the same process.
    pub key: Option<CryptoKey>,
    /// Whether names are believed.
    pub auth_none: bool,
    /// Name of its host.
    pub hostname: String,
    /// Number of its run, unless a monitor gives it one as it authenticates.
    pub gid: u64,
    /// Whether nothing is stored: the file system ends with the process. For tests.
    pub is_volatile: bool,
    /// A client that does not come back for so long after a take-over is evicted.
    pub reconnect_timeout: Duration,
}

impl Config {
    /// The usual time for clients to come back after a take-over.
    pub const RECONNECT_TIMEOUT: Duration = Duration::from_secs(60);

    #[cfg(test)]
    pub(crate) fn for_tests() -> Self {
        Config {
            name: "a".to_owned(),
            fsid: Uuid([1; 16]),
            addrs: EntityAddrVec::default(),
            monitors: vec![EntityAddrVec::default(); 2],
            key: None,
            auth_none: true,
            hostname: "here".to_owned(),
            gid: 4409,
            is_volatile: true,
            reconnect_timeout: Config::RECONNECT_TIMEOUT,
        }
    }
}
