//! What an OSD must be told.

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
    pub fsid: Uuid,
    /// Where clients and other OSDs reach this one. The nonce should differ from start to start.
    pub addrs: EntityAddrVec,
    pub mon_addrs: EntityAddrVec,
    /// Accept names as asserted (`auth none`).
    pub auth_none: bool,
    /// `CEPH_CON_MODE_*` that are accepted, in any order: 1 is crc, 2 secure.
    pub connection_modes: Vec<u32>,
    pub hostname: String,
}
