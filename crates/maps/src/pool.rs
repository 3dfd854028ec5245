//! `pg_pool_t`: settings and state of one pool.

mod decode;
mod encode;
mod options;
mod placement;

pub use options::{OptionType, PoolOption, PoolOptionValue, PoolOptions};

use crate::bits::bit_set;
use crate::stable_mod::stable_mod;
use crate::{SnapIntervals, name_hash};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;
use types::{EVersion, Epoch, PgId, PoolId, SnapId, UTime};

/// Placement groups of a pool in a map; more do not decode. A table of CRUSH's results has an entry for each
/// copy of each group, 12 MiB for this many groups of three copies. Ceph's `mon_max_pool_pg_num` is 65,536.
pub(crate) const PG_NUM_MAX: u32 = 1 << 20;

/// `pg_pool_t`
#[derive(Debug, Clone, PartialEq)]
pub struct Pool {
    /// Replicated or erasure-coded.
    pub kind: PoolType,
    /// Number of replicas, or of data and coding shards, of each object.
    pub size: u8,
    /// Writes are refused while fewer members are up.
    pub min_size: u8,
    /// Id of the CRUSH rule.
    pub crush_rule: u8,
    /// See [`name_hash`].
    pub object_hash: u8,
    /// Number of placement groups.
    pub pg_num: u32,
    /// Number of distinct inputs of CRUSH; groups that share one lie on the same OSDs.
    pub pgp_num: u32,
    /// Number of groups that `pg_num` is to reach step by step.
    pub pg_num_target: u32,
    /// Number that `pgp_num` is to reach step by step.
    pub pgp_num_target: u32,
    /// Number of groups after the merge in progress; equal to `pg_num` if there is none.
    pub pg_num_pending: u32,
    /// Mode of the autoscaler.
    pub pg_autoscale_mode: AutoscaleMode,
    /// Time when the pool was created.
    pub create_time: UTime,
    /// Flags of the pool.
    pub flags: PoolFlags,
    /// Epoch of the last change, without changes of snapshots.
    pub last_change: Epoch,
    /// Clients resend operations in flight when a map passes this epoch.
    pub last_force_op_resend: Epoch,
    /// That epoch for clients before Nautilus.
    pub last_force_op_resend_prenautilus: Epoch,
    /// That epoch for clients before Luminous.
    pub last_force_op_resend_preluminous: Epoch,
    /// The last merge, by which the surviving group checks its halves.
    pub last_pg_merge_meta: MergeMeta,
    /// The newest snapshot id of the pool.
    pub snap_seq: SnapId,
    /// Epoch of the last change of snapshots.
    pub snap_epoch: Epoch,
    /// Pool snapshots; excludes self-managed ones.
    pub snaps: BTreeMap<SnapId, PoolSnap>,
    /// Removed self-managed snapshots (kept here by older releases).
    pub removed_snaps: SnapIntervals,
    /// Formerly the owner; always zero.
    pub auid: u64,
    /// Zero: no limit.
    pub quota_max_bytes: u64,
    /// Bound of the number of objects; zero for none.
    pub quota_max_objects: u64,
    /// Name of the erasure code profile; empty for replicated pools.
    pub erasure_code_profile: String,
    /// Bytes of a stripe; zero for replicated pools.
    pub stripe_width: u32,
    /// Number of objects that the pool is expected to have; a hint.
    pub expected_num_objects: u64,
    /// Reads of erasure-coded objects ask all shards.
    pub fast_read: bool,
    /// Optional settings.
    pub options: PoolOptions,
    /// Application -> key -> value.
    pub application_metadata: BTreeMap<String, BTreeMap<String, String>>,
    /// Constraints of stretch mode.
    pub peering_crush: Option<PeeringCrush>,
    /// Shards that cannot become primary, as a bit mask.
    pub nonprimary_shards: [u64; 2],
    /// Obsolete, but part of the encoding.
    pub properties: BTreeMap<String, String>,
    /// Cache pools of this pool.
    pub tiers: BTreeSet<PoolId>,
    /// The pool of which this is a cache.
    pub tier_of: Option<PoolId>,
    /// Cache pool for reads.
    pub read_tier: Option<PoolId>,
    /// Cache pool for writes.
    pub write_tier: Option<PoolId>,
    /// Mode of cache tiering.
    pub cache_mode: CacheMode,
    /// Bytes above which a cache evicts.
    pub target_max_bytes: u64,
    /// Objects above which a cache evicts.
    pub target_max_objects: u64,
    /// Share of dirty objects, in millionths, at which a cache flushes.
    pub cache_target_dirty_ratio_micro: u32,
    /// Share of dirty objects, in millionths, at which a cache flushes faster.
    pub cache_target_dirty_high_ratio_micro: u32,
    /// Share of used space, in millionths, at which a cache evicts.
    pub cache_target_full_ratio_micro: u32,
    /// Age in seconds before which a cache does not flush.
    pub cache_min_flush_age: u32,
    /// Age in seconds before which a cache does not evict.
    pub cache_min_evict_age: u32,
    /// Kind of hit sets.
    pub hit_set_params: HitSetParams,
    /// Seconds that one hit set covers.
    pub hit_set_period: u32,
    /// Number of hit sets that are kept.
    pub hit_set_count: u32,
    /// Decay per hit set, in percent.
    pub hit_set_grade_decay_rate: u32,
    /// Number of hit sets that are searched.
    pub hit_set_search_last_n: u32,
    /// Times of hit sets are in UTC.
    pub use_gmt_hitset: bool,
    /// Hit sets that must have an object before a read promotes it.
    pub min_read_recency_for_promote: u32,
    /// Hit sets that must have an object before a write promotes it.
    pub min_write_recency_for_promote: u32,
}

/// Redundancy of a pool (`pg_pool_t::TYPE_*`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum PoolType {
    /// Each object is stored whole on several OSDs.
    #[default]
    Replicated,
    /// Each object is cut into data shards and coding shards.
    Erasure,
}

impl PoolType {
    /// Number in the encoding.
    pub fn number(self) -> u8 {
        match self {
            PoolType::Replicated => 1,
            PoolType::Erasure => 3,
        }
    }

    /// The type with this number.
    pub fn from_number(number: u8) -> Option<Self> {
        match number {
            1 => Some(PoolType::Replicated),
            3 => Some(PoolType::Erasure),
            _ => None,
        }
    }

    /// The name that commands and dumps use.
    pub fn name(self) -> &'static str {
        match self {
            PoolType::Replicated => "replicated",
            PoolType::Erasure => "erasure",
        }
    }
}

impl fmt::Display for PoolType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for PoolType {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let both = [PoolType::Replicated, PoolType::Erasure];
        both.into_iter().find(|kind| kind.name() == text).ok_or(())
    }
}

bit_set! {
    /// `pg_pool_t::FLAG_*`
    PoolFlags(u64) {
        /// PGs of different pools are placed independently.
        HASHPSPOOL = 0, "hashpspool";
        FULL = 1, "full";
        EC_OVERWRITES = 2, "ec_overwrites";
        INCOMPLETE_CLONES = 3, "incomplete_clones";
        NODELETE = 4, "nodelete";
        NOPGCHANGE = 5, "nopgchange";
        NOSIZECHANGE = 6, "nosizechange";
        WRITE_FADVISE_DONTNEED = 7, "write_fadvise_dontneed";
        NOSCRUB = 8, "noscrub";
        NODEEP_SCRUB = 9, "nodeep-scrub";
        FULL_QUOTA = 10, "full_quota";
        NEARFULL = 11, "nearfull";
        BACKFILLFULL = 12, "backfillfull";
        SELFMANAGED_SNAPS = 13, "selfmanaged_snaps";
        POOL_SNAPS = 14, "pool_snaps";
        CREATING = 15, "creating";
        EIO = 16, "eio";
        BULK = 17, "bulk";
        CRIMSON = 18, "crimson";
        EC_OPTIMIZATIONS = 19, "ec_optimizations";
    }
}

/// `pg_pool_t::cache_mode_t`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CacheMode(pub u8);

impl CacheMode {
    /// No cache tiering.
    pub const NONE: CacheMode = CacheMode(0);

    /// The name that commands and dumps use.
    pub fn name(self) -> &'static str {
        const NAMES: [&str; 7] =
            ["none", "writeback", "forward", "readonly", "readforward", "readproxy", "proxy"];
        NAMES.get(usize::from(self.0)).copied().unwrap_or("unknown")
    }
}

/// `pg_pool_t::pg_autoscale_mode_t`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AutoscaleMode(pub u8);

impl AutoscaleMode {
    /// Does nothing.
    pub const OFF: AutoscaleMode = AutoscaleMode(0);
    /// Raises a health warning.
    pub const WARN: AutoscaleMode = AutoscaleMode(1);
    /// Changes `pg_num`.
    pub const ON: AutoscaleMode = AutoscaleMode(2);
    /// A mode of a newer release.
    pub const UNKNOWN: AutoscaleMode = AutoscaleMode(u8::MAX);

    /// The name that commands and dumps use.
    pub fn name(self) -> &'static str {
        ["off", "warn", "on"].get(usize::from(self.0)).copied().unwrap_or("???")
    }
}

impl FromStr for AutoscaleMode {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        [Self::OFF, Self::WARN, Self::ON].into_iter().find(|mode| mode.name() == text).ok_or(())
    }
}

/// `pool_snap_info_t`
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PoolSnap {
    /// Id of the snapshot.
    pub id: SnapId,
    /// Time when it was taken.
    pub stamp: UTime,
    /// Name of the snapshot.
    pub name: String,
}

/// `pg_merge_meta_t`: state of the two PGs of the last merge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MergeMeta {
    /// The group that was merged into its sibling.
    pub source: PgId,
    /// Epoch in which both halves had stopped writes.
    pub ready_epoch: Epoch,
    /// `last_epoch_started` of the source.
    pub last_epoch_started: Epoch,
    /// `last_epoch_clean` of the source.
    pub last_epoch_clean: Epoch,
    /// Last version of the source's log.
    pub source_version: EVersion,
    /// Last version of the target's log.
    pub target_version: EVersion,
}

/// Constraints of stretch mode on the pool's acting sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeeringCrush {
    /// Number of buckets that the acting set must span.
    pub bucket_count: u32,
    /// Number of buckets that CRUSH aims at.
    pub bucket_target: u32,
    /// CRUSH type of those buckets.
    pub bucket_barrier: u32,
    /// A bucket that must have a member; `ITEM_NONE` for none.
    pub mandatory_member: i32,
}

/// `HitSet::Params`: kept for the encoding; cache tiering is not supported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HitSetParams {
    /// No hit sets.
    #[default]
    None,
    /// Hashes of objects.
    ExplicitHash,
    /// Names of objects.
    ExplicitObject,
    /// A bloom filter.
    Bloom {
        /// Rate of false positives in millionths.
        false_positive_ppm: u32,
        /// Number of objects that the filter is made for.
        target_size: u64,
        /// Seed of its hashes.
        seed: u64,
    },
}

impl Default for Pool {
    fn default() -> Self {
        Pool {
            kind: PoolType::Replicated,
            size: 0,
            min_size: 0,
            crush_rule: 0,
            object_hash: name_hash::RJENKINS,
            pg_num: 0,
            pgp_num: 0,
            pg_num_target: 0,
            pgp_num_target: 0,
            pg_num_pending: 0,
            pg_autoscale_mode: AutoscaleMode::OFF,
            create_time: UTime::ZERO,
            flags: PoolFlags::default(),
            last_change: Epoch(0),
            last_force_op_resend: Epoch(0),
            last_force_op_resend_prenautilus: Epoch(0),
            last_force_op_resend_preluminous: Epoch(0),
            last_pg_merge_meta: MergeMeta::default(),
            snap_seq: SnapId(0),
            snap_epoch: Epoch(0),
            snaps: BTreeMap::new(),
            removed_snaps: SnapIntervals::default(),
            auid: 0,
            quota_max_bytes: 0,
            quota_max_objects: 0,
            erasure_code_profile: String::new(),
            stripe_width: 0,
            expected_num_objects: 0,
            fast_read: false,
            options: PoolOptions::default(),
            application_metadata: BTreeMap::new(),
            peering_crush: None,
            nonprimary_shards: [0; 2],
            properties: BTreeMap::new(),
            tiers: BTreeSet::new(),
            tier_of: None,
            read_tier: None,
            write_tier: None,
            cache_mode: CacheMode::NONE,
            target_max_bytes: 0,
            target_max_objects: 0,
            cache_target_dirty_ratio_micro: 0,
            cache_target_dirty_high_ratio_micro: 0,
            cache_target_full_ratio_micro: 0,
            cache_min_flush_age: 0,
            cache_min_evict_age: 0,
            hit_set_params: HitSetParams::None,
            hit_set_period: 0,
            hit_set_count: 0,
            hit_set_grade_decay_rate: 0,
            hit_set_search_last_n: 0,
            use_gmt_hitset: true,
            min_read_recency_for_promote: 0,
            min_write_recency_for_promote: 0,
        }
    }
}

impl Pool {
    /// A pool with the defaults of a new one.
    pub fn new(kind: PoolType, size: u8, pg_num: u32, crush_rule: u8) -> Self {
        Pool {
            kind,
            size,
            min_size: size - size / 2,
            crush_rule,
            flags: PoolFlags::HASHPSPOOL,
            ..Pool::default()
        }
        .with_pg_num(pg_num)
    }

    /// Sets `pg_num` and `pgp_num` of a new pool.
    #[must_use]
    pub fn with_pg_num(mut self, pg_num: u32) -> Self {
        self.pg_num = pg_num;
        self.pgp_num = pg_num;
        self.pg_num_target = pg_num;
        self.pgp_num_target = pg_num;
        self.pg_num_pending = pg_num;
        self
    }

    /// The group that will be merged, and the group that it will be merged into.
    pub fn merging(&self) -> Option<(u32, u32)> {
        let source = self.pg_num.checked_sub(1)?;
        (self.pg_num_pending < self.pg_num && source > 0)
            .then(|| (source, stable_mod(source, source)))
    }

    /// True if a group will be merged, or another one will be merged into it.
    pub fn is_merging(&self, seed: u32) -> bool {
        self.merging().is_some_and(|(source, target)| seed == source || seed == target)
    }

    /// Lowers `pg_num` by one from this epoch on. All clients resend requests in flight.
    pub fn merge_last_group(&mut self, epoch: Epoch) {
        self.pg_num -= 1;
        self.pg_num_pending = self.pg_num;
        self.pgp_num = self.pgp_num.min(self.pg_num);
        self.last_force_op_resend = epoch;
        self.last_force_op_resend_prenautilus = epoch;
        self.last_force_op_resend_preluminous = epoch;
    }

    /// Sets `pg_num` from this epoch on. Clients that do not recognise a split as a change of interval are
    /// told to resend requests in flight.
    pub fn set_pg_num(&mut self, pg_num: u32, epoch: Epoch) {
        self.pg_num = pg_num;
        self.pg_num_pending = pg_num;
        self.last_force_op_resend_preluminous = epoch;
    }

    /// True if the pool has, or had, snapshots.
    pub fn may_have_clones(&self) -> bool {
        self.flags.contains(PoolFlags::SELFMANAGED_SNAPS)
            || self.flags.contains(PoolFlags::POOL_SNAPS)
    }

    /// True if each object is stored whole on several OSDs.
    pub fn is_replicated(&self) -> bool {
        self.kind == PoolType::Replicated
    }

    /// True if each object is cut into shards.
    pub fn is_erasure(&self) -> bool {
        self.kind == PoolType::Erasure
    }

    /// True if objects cannot be overwritten in place, so that appends must be aligned to stripes.
    pub fn requires_aligned_append(&self) -> bool {
        self.is_erasure() && !self.flags.contains(PoolFlags::EC_OVERWRITES)
    }
}
