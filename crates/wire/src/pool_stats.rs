//! Statistics of pools.

use codec::{Decode, Encode, Reader, Result, Writer};
use std::collections::BTreeMap;
use types::Uuid;

message! {
    /// `MGetPoolStats`
    GetPoolStats = 58, version 1, compat 1, paxos(version) {
        fsid: Uuid;
        /// Names of pools.
        pools: Vec<String>;
    }
}

message! {
    /// `MGetPoolStatsReply`
    GetPoolStatsReply = 59, version 2, compat 1, paxos(version) {
        fsid: Uuid;
        stats: BTreeMap<String, PoolStat>;
        /// Whether usage is counted per pool, rather than derived from that of OSDs.
        per_pool: bool, since 2;
    }
}

structure! {
    /// `pool_stat_t`
    PoolStat, version 7, compat 5 {
        stats: ObjectStatCollection;
        log_size: i64;
        ondisk_log_size: i64;
        /// Members of all its placement groups' sets.
        up: i32, since 6;
        acting: i32, since 6;
        store: StoreStatfs, since 7;
        /// How many OSDs have contributed to `store`.
        store_count: i32, since 7;
    }
}

structure! {
    /// `store_statfs_t`: bytes.
    StoreStatfs, version 1, compat 1 {
        total: u64;
        available: u64;
        internally_reserved: u64;
        allocated: i64;
        data_stored: i64;
        data_compressed: i64;
        data_compressed_allocated: i64;
        data_compressed_original: i64;
        omap_allocated: i64;
        internal_metadata: i64;
    }
}

structure! {
    /// `object_stat_collection_t`
    ObjectStatCollection, version 2, compat 2 {
        sum: ObjectStatSum;
        /// Once sums per category; always 0.
        categories: u32;
    }
}

structure! {
    /// `object_stat_sum_t`
    ObjectStatSum, version 20, compat 14 {
        bytes: i64;
        objects: i64;
        clones: i64;
        copies: i64;
        missing_on_primary: i64;
        degraded: i64;
        unfound: i64;
        reads: i64;
        read_kib: i64;
        writes: i64;
        write_kib: i64;
        scrub_errors: i64;
        objects_recovered: i64;
        bytes_recovered: i64;
        keys_recovered: i64;
        shallow_scrub_errors: i64;
        deep_scrub_errors: i64;
        dirty: i64;
        whiteouts: i64;
        with_omap: i64;
        hit_set_archives: i64;
        misplaced: i64;
        hit_set_archive_bytes: i64;
        flushes: i64;
        flush_kib: i64;
        evictions: i64;
        evict_kib: i64;
        promotions: i64;
        flush_mode: FlushModes;
        pinned: i64;
        missing: i64;
        legacy_snapsets: i64, since 16;
        large_omap: i64, since 17;
        manifests: i64, since 18;
        omap_bytes: i64, since 19;
        omap_keys: i64, since 19;
        repaired: i64, since 20;
    }
}

/// Placement groups in each mode of cache tiering, which we do not have: high and low flush, some
/// and full eviction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FlushModes(pub [i32; 4]);

impl Encode for FlushModes {
    fn encode(&self, w: &mut Writer) {
        self.0.iter().for_each(|mode| w.i32(*mode));
    }
}

impl Decode for FlushModes {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let mut modes = FlushModes::default();
        for mode in &mut modes.0 {
            *mode = r.i32("flush mode")?;
        }
        Ok(modes)
    }
}
