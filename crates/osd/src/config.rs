//! Configuration of an OSD at its start.

use crate::limits;
use auth::CryptoKey;
use types::{EntityAddrVec, OsdId, Uuid};

/// The version that daemons report. Scripts look for `ceph version X`.
pub const VERSION: &str = concat!(
    "sepiola version ",
    env!("CARGO_PKG_VERSION"),
    ", like ceph version 18.2.0 reef (stable)"
);

/// Configuration of an OSD at its start.
#[derive(Debug, Clone)]
pub struct Config {
    pub id: OsdId,
    /// Of its store's incarnation, as registered at the monitor; zeros if it was not.
    pub uuid: Uuid,
    pub fsid: Uuid,
    /// Public addresses for clients and other OSDs. The nonce should differ at each start.
    pub addrs: EntityAddrVec,
    /// Addresses of each monitor, in the order of their ranks.
    pub monitors: Vec<EntityAddrVec>,
    /// The key by which the monitors authenticate this OSD. May be missing where the host joins
    /// daemons directly.
    pub key: Option<CryptoKey>,
    /// Accept names as asserted (`auth none`).
    pub auth_none: bool,
    /// `CEPH_CON_MODE_*` that are accepted, in any order: 1 is crc, 2 secure.
    pub connection_modes: Vec<u32>,
    pub hostname: String,
    /// Tells the monitor that this OSD keeps shards of erasure-coded pools, which it makes only then.
    pub holds_shards: bool,
    pub sizes: Sizes,
}

/// Sizes of batches. Simulated clusters use small ones, so that little data makes many pieces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sizes {
    pub groups: pg::Sizes,
    /// Bytes in one piece of an object that is copied.
    pub copy_chunk_max: u64,
    /// Groups that handle a new map in one turn.
    pub groups_placed: usize,
    pub budgets: Budgets,
}

/// Bounds of the memory that requests may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budgets {
    /// Message bytes and number of clients' requests in progress, per session and in total.
    pub session_bytes: usize,
    pub session_requests: usize,
    pub all_bytes: usize,
    pub all_requests: usize,
    /// Bytes reserved for requests, copies, and pieces of copies besides their messages.
    pub expansion: u64,
    pub copies: u64,
    pub pieces: u64,
    /// Group messages for newer maps from one session: number and bytes.
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
