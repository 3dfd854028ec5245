//! `OSDMap`: OSDs, pools and everything that placement depends on.

mod apply;
mod blocklist;
mod cleaning;
mod decode;
mod domains;
mod encode;
mod holds;
mod incremental;
mod incremental_decode;
mod incremental_encode;
mod invariants;
mod map;
mod osd;
mod parts;
mod placement;
mod raw_table;
mod reencode;

pub use apply::ApplyError;
pub use domains::{Domains, Room};
pub use incremental::Incremental;
pub use map::{Blocklist, ErasureCodeProfile, OsdMap, OsdMapFlags, StretchMode};
pub use osd::{Osd, OsdInfo, OsdState, OsdXinfo, WEIGHT_IN};
pub use placement::{Mapping, Placement, exchange};
pub use raw_table::RawTable;
pub use reencode::{reencode_full, reencode_incremental};

use bytes::Bytes;
use codec::{EncodeFor, Writer};
use types::{EntityAddr, EntityAddrVec, OsdId};

impl OsdMap {
    /// Makes this the map of the next epoch. A failed incremental changes nothing.
    pub fn apply(&mut self, inc: &Incremental) -> Result<(), ApplyError> {
        apply::apply(self, inc)
    }

    /// Panics if the map contradicts itself. Only for maps that a monitor has made, Ceph's or this project's:
    /// bytes from elsewhere may decode to a map that violates the rules. Takes time proportional to the map.
    pub fn check_invariants(&self) {
        invariants::check(self);
    }

    /// Features of the canonical encoding, whose checksum incrementals carry: those that all OSDs that may
    /// join have.
    pub fn encoding_features(&self) -> u64 {
        encode::canonical_features(self)
    }

    /// The features of a peer that affect the encoding of this map; peers with equal results get equal
    /// bytes.
    pub fn features_for(&self, peer_features: u64) -> u64 {
        encode::effective_features(self.encoding_features(), peer_features)
    }

    /// Encoding for a peer with `features`, restricted to the canonical features.
    pub fn to_bytes(&self, features: u64) -> Bytes {
        let mut w = Writer::new();
        self.encode_for(&mut w, features);
        w.into_bytes()
    }

    /// The checksum of the canonical encoding.
    pub fn checksum(&self) -> u32 {
        encode::checksum(self)
    }

    /// True if an address is listed: its instance, its host, or its network.
    pub fn is_blocklisted(&self, addr: &EntityAddr) -> bool {
        blocklist::is_blocklisted(self, addr)
    }

    /// True if any of the addresses is listed.
    pub fn is_any_blocklisted(&self, addrs: &EntityAddrVec) -> bool {
        addrs.0.iter().any(|addr| self.is_blocklisted(addr))
    }

    /// True if one of the four flags applies to an OSD, at any of the four levels.
    pub fn holds(&self, osd: OsdId, flag: OsdState) -> bool {
        holds::holds(self, osd, flag)
    }

    /// The constraints of this map's CRUSH rules on the members of placement groups.
    pub fn domains(&self) -> Domains<'_> {
        Domains::new(self)
    }
}

impl Incremental {
    /// Encoding for a peer with `features`, restricted to those of the canonical encoding.
    pub fn to_bytes(&self, features: u64) -> Bytes {
        let mut w = Writer::new();
        self.encode_for(&mut w, features);
        w.into_bytes()
    }

    /// Sets the fields that depend on the result, and returns the result: the map of the new epoch.
    pub fn seal(&mut self, base: &OsdMap) -> Result<OsdMap, ApplyError> {
        apply::seal(self, base)
    }

    /// Removes the entries that are obsolete in `next`, the map that this incremental leads to. Returns
    /// true if there were any; the incremental must be sealed again then.
    pub fn clean(&mut self, next: &OsdMap) -> bool {
        cleaning::clean(self, next)
    }
}

#[cfg(test)]
mod tests;
