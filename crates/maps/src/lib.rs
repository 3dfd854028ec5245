//! The cluster maps: monitors ([`MonMap`]), OSDs and pools ([`OsdMap`]), manager ([`MgrMap`]),
//! file systems ([`FsMap`]); their
//! incrementals, their encodings for peers of different releases, and object placement.
//!
//! All parties compute placement from the [`OsdMap`]: with the same map every client and daemon computes
//! the same OSDs for an object. [`OsdMap::object_to_pg`] and [`OsdMap::pg_to_osds`] therefore agree bit for
//! bit with Ceph's.
//!
//! Invariants:
//! * `Incremental` of epoch n+1 applied to the map of epoch n gives the map of epoch n+1, and its
//!   `full_crc` is the checksum of that map's canonical encoding.
//! * Decoding never panics and never allocates more than the received bytes justify.
//!
//! The crate does not decide when or why a map changes, does not send maps, and does not format them for
//! commands.

#![warn(missing_docs)]

mod bits;
mod checksum;
mod compat_set;
mod erasure_code;
mod fsmap;
mod mds_info;
mod mdsmap;
mod mgrmap;
mod monmap;
pub mod name_hash;
mod osdmap;
mod pool;
mod release;
mod snaps;
mod stable_mod;

pub use compat_set::{CompatSet, FeatureSet};
pub use erasure_code::{
    ErasureCode, ErasureCodeError, STRIPE_UNIT_ALIGNMENT, STRIPE_UNIT_DEFAULT, STRIPE_UNIT_MAX,
};
pub use fsmap::{FileSystem, FsMap, FsMapUser};
pub use mds_info::{FsId, MdsGid, MdsInfo, MdsRank, MdsState, NO_FILE_SYSTEM, NO_RANK};
pub use mdsmap::MdsMap;
pub use mgrmap::{MgrMap, ModuleInfo, ModuleOption, StandbyInfo};
pub use monmap::{AuthCiphers, ElectionStrategy, MonFeatures, MonInfo, MonMap};
pub use osdmap::{
    ApplyError, Blocklist, Domains, ErasureCodeProfile, Incremental, Mapping, Osd, OsdInfo, OsdMap,
    OsdMapFlags, OsdState, OsdXinfo, Placement, RawTable, Room, StretchMode, WEIGHT_IN, exchange,
    reencode_full, reencode_incremental,
};
pub use pool::{
    AutoscaleMode, CacheMode, HitSetParams, MergeMeta, OptionType, PeeringCrush, Pool, PoolFlags,
    PoolOption, PoolOptionValue, PoolOptions, PoolSnap, PoolType,
};
pub use release::Release;
pub use snaps::SnapIntervals;
pub use stable_mod::{stable_bits, stable_mod};
