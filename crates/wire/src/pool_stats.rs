//! Statistics of pools.

use codec::{Decode, Encode, Reader, Result, Writer};
use std::collections::BTreeMap;
use types::Uuid;

message! {
    /// `MGetPoolStats`
    GetPoolStats = 58, version 1, compat 1, paxos(version) {
        /// Id of the cluster.
        fsid: Uuid;
        /// Names of pools.
        pools: Vec<String>;
    }
}

message! {
    /// `MGetPoolStatsReply`
    GetPoolStatsReply = 59, version 2, compat 1, paxos(version) {
        /// Id of the cluster.
        fsid: Uuid;
        /// Statistics by name of the pool; pools that do not exist are left out.
        stats: BTreeMap<String, PoolStat>;
        /// Whether usage is counted per pool, rather than derived from that of OSDs.
        per_pool: bool, since 2;
    }
}

structure! {
    /// `pool_stat_t`
    PoolStat, version 7, compat 5 {
        /// Objects and operations.
        stats: ObjectStatCollection;
        /// Entries of the logs of all groups.
        log_size: i64;
        /// Entries of these logs on disks.
        ondisk_log_size: i64;
        /// Members of all its placement groups' sets.
        up: i32, since 6;
        /// Members of all acting sets.
        acting: i32, since 6;
        /// Space that the pool uses.
        store: StoreStatfs, since 7;
        /// How many OSDs have contributed to `store`.
        store_count: i32, since 7;
    }
}

structure! {
    /// `store_statfs_t`: bytes.
    StoreStatfs, version 1, compat 1 {
        /// Size.
        total: u64;
        /// Bytes that can still be written.
        available: u64;
        /// Bytes that the store keeps for itself.
        internally_reserved: u64;
        /// Bytes allocated for data.
        allocated: i64;
        /// Bytes of data as users wrote it.
        data_stored: i64;
        /// Bytes of compressed data after compression.
        data_compressed: i64;
        /// Bytes allocated for compressed data.
        data_compressed_allocated: i64;
        /// Bytes of compressed data before compression.
        data_compressed_original: i64;
        /// Bytes allocated for omaps.
        omap_allocated: i64;
        /// Bytes allocated for other metadata.
        internal_metadata: i64;
    }
}

structure! {
    /// `object_stat_collection_t`
    ObjectStatCollection, version 2, compat 2 {
        /// The sums.
        sum: ObjectStatSum;
        /// Once sums per category; always 0.
        categories: u32;
    }
}

structure! {
    /// `object_stat_sum_t`
    ObjectStatSum, version 20, compat 14 {
        /// Bytes of objects.
        bytes: i64;
        /// Number of objects, with clones.
        objects: i64;
        /// Number of clones.
        clones: i64;
        /// Number of copies that should exist.
        copies: i64;
        /// Number of objects that primaries lack.
        missing_on_primary: i64;
        /// Number of copies that are missing.
        degraded: i64;
        /// Number of objects of which no reachable copy has the needed version.
        unfound: i64;
        /// Number of read operations.
        reads: i64;
        /// KiB read.
        read_kib: i64;
        /// Number of write operations.
        writes: i64;
        /// KiB written.
        write_kib: i64;
        /// Number of inconsistencies that scrubs found.
        scrub_errors: i64;
        /// Number of copies recovered.
        objects_recovered: i64;
        /// Bytes recovered.
        bytes_recovered: i64;
        /// Omap keys recovered.
        keys_recovered: i64;
        /// Inconsistencies of metadata.
        shallow_scrub_errors: i64;
        /// Inconsistencies of data.
        deep_scrub_errors: i64;
        /// Dirty objects of a cache tier.
        dirty: i64;
        /// Objects that a cache tier keeps as deleted.
        whiteouts: i64;
        /// Number of objects with an omap.
        with_omap: i64;
        /// Hit sets of a cache tier.
        hit_set_archives: i64;
        /// Number of copies that lie on other OSDs than the up set.
        misplaced: i64;
        /// Bytes of hit sets.
        hit_set_archive_bytes: i64;
        /// Flushes of a cache tier.
        flushes: i64;
        /// KiB flushed.
        flush_kib: i64;
        /// Evictions of a cache tier.
        evictions: i64;
        /// KiB evicted.
        evict_kib: i64;
        /// Promotions into a cache tier.
        promotions: i64;
        /// Modes of a cache tier.
        flush_mode: FlushModes;
        /// Pinned objects of a cache tier.
        pinned: i64;
        /// Number of objects that some member lacks.
        missing: i64;
        /// Snapshot sets in a format before Luminous.
        legacy_snapsets: i64, since 16;
        /// Objects with an omap that is larger than it should be.
        large_omap: i64, since 17;
        /// Objects with a manifest.
        manifests: i64, since 18;
        /// Bytes of omaps.
        omap_bytes: i64, since 19;
        /// Number of omap keys.
        omap_keys: i64, since 19;
        /// Number of objects repaired by scrubs.
        repaired: i64, since 20;
    }
}

/// Placement groups in each mode of cache tiering, which is not supported: high and low flush, some
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
