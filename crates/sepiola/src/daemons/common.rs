//! Settings that all kinds of daemons share.

use std::net::SocketAddr;
use types::{EntityAddr, EntityAddrVec};

/// crc and secure
pub const CONNECTION_MODES: [u32; 2] = [1, 2];

/// The address of a daemon of which the process runs one at a time.
pub fn msgr2_addrs(addr: SocketAddr) -> EntityAddrVec {
    EntityAddrVec::one(EntityAddr::msgr2(addr, 0))
}
