//! Re-encoding of stored maps for peers with fewer features than the cluster requires of OSDs.

use super::{Incremental, OsdMap};
use bytes::Bytes;
use codec::{Result, decode_all};

/// Re-encodes the full map in `canonical` for a peer with `features`.
pub fn reencode_full(canonical: &[u8], features: u64) -> Result<Bytes> {
    Ok(decode_all::<OsdMap>("osdmap", canonical)?.to_bytes(features))
}

/// Re-encodes the incremental in `canonical`, and a full map within it, for a peer with `features`.
pub fn reencode_incremental(canonical: &[u8], features: u64) -> Result<Bytes> {
    let mut inc: Incremental = decode_all("incremental", canonical)?;
    if let Some(full) = &inc.fullmap {
        inc.fullmap = Some(reencode_full(full, features)?);
    }
    Ok(inc.to_bytes(features))
}
