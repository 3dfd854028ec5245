//! What an OSD must be told.

use crate::limits;
use auth::CryptoKey;
use types::{EntityAddrVec, OsdId, Uuid};

/// What the daemons call themselves. Scripts look for `ceph version X`.
pub const VERSION: &str = concat!(
    "sepiola version ",
    env!("CARGO_PKG_VERSION"),
    ", like ceph version 18.2.0 reef (stable)"
);

#[derive(Debug, Clone)]
pub struct Config {
    pub id: OsdId,
    /// Of its store's incarnation, as it was registered; zeros if it was not.
    pub uuid: Uuid,
    pub fsid: Uuid,
    /// Where clients and other OSDs reach this one. The nonce should differ from start to start.
    pub addrs: EntityAddrVec,
    /// Of each monitor, in the order of their ranks.
    pub monitors: Vec<EntityAddrVec>,
    /// By which monitors know this OSD. It may be missing where the host joins daemons directly.
    pub key: Option<CryptoKey>,
    /// Accept names as asserted (`auth none`).
    pub auth_none: bool,
    /// `CEPH_CON_MODE_*` that are accepted, in any order: 1 is crc, 2 secure.
    pub connection_modes: Vec<u32>,
    pub hostname: String,
    pub sizes: Sizes,
}

/// How much goes at once, of what a host may want less than usual of: simulated clusters, so that little data is
/// many pieces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sizes {
    pub groups: pg::Sizes,
    /// Data in one piece of an object that is copied.
    pub copy_chunk_max: u64,
    /// Groups that are told a new map in one turn.
    pub groups_placed: usize,
    pub budgets: Budgets,
}

/// How much memory requests may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budgets {
    /// Messages of clients' requests in work, of one session and of all together, and how many these are.
    pub session_bytes: usize,
    pub session_requests: usize,
    pub all_bytes: usize,
    pub all_requests: usize,
    /// Bytes that requests, copies, and pieces of copies expand to.
    pub expansion: u64,
    pub copies: u64,
    pub pieces: u64,
    /// Messages of groups that one session has sent from ahead of the map.
    pub early_messages: usize,
    pub early_bytes: usize,
}

impl Default for Budgets {
    fn default() -> Self {
        Budgets {
            session_bytes: limits::SESSION_BYTES_MAX,
            session_requests: limits::SESSION_REQUESTS_MAX,
            all_bytes: limits::REQUESTS_BYTES_MAX,
            all_requests: limits::REQUESTS_MAX,
            expansion: limits::EXPANSION_BYTES_MAX,
            copies: limits::COPY_BYTES_MAX,
            pieces: limits::PIECE_BYTES_MAX,
            early_messages: limits::EARLY_MESSAGES_MAX,
            early_bytes: limits::EARLY_BYTES_MAX,
        }
    }
}

impl Default for Sizes {
    fn default() -> Self {
        Sizes {
            groups: pg::Sizes::default(),
            copy_chunk_max: limits::COPY_CHUNK_MAX,
            groups_placed: limits::GROUPS_PLACED_MAX,
            budgets: Budgets::default(),
        }
    }
}
