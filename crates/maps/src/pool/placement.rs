//! Hash -> placement group of a pool, and the input of CRUSH for a group.

use super::{Pool, PoolFlags};
use crate::name_hash;
use types::{PgId, PoolId};

impl Pool {
    /// The hash of an object within its namespace. A locator key replaces the name.
    pub fn object_hash(&self, namespace: &[u8], key: &[u8], name: &[u8]) -> u32 {
        let decisive = if key.is_empty() { name } else { key };
        name_hash::object_hash(self.object_hash, namespace, decisive)
    }

    /// The placement group of an object's hash.
    pub fn pg_of_hash(&self, id: PoolId, hash: u32) -> PgId {
        PgId { pool: id, seed: stable_mod(hash, self.pg_num) }
    }

    /// The placement group of a raw id, which has a full hash as its seed.
    pub fn raw_pg_to_pg(&self, pg: PgId) -> PgId {
        self.pg_of_hash(pg.pool, pg.seed)
    }

    /// Input of CRUSH for a placement group. Two groups share it while `pgp_num` is below `pg_num`.
    pub fn placement_seed(&self, pg: PgId) -> u32 {
        let seed = stable_mod(pg.seed, self.pgp_num);
        // The pool id is cut to 32 bits, as in Ceph.
        let pool = pg.pool.0 as u32;
        if self.flags.contains(PoolFlags::HASHPSPOOL) {
            crush::hash::hash2(seed, pool)
        } else {
            seed.wrapping_add(pool)
        }
    }

    /// True if the next OSD takes the place of an absent one. Erasure-coded shards keep their positions.
    pub fn can_shift_osds(&self) -> bool {
        self.is_replicated()
    }

    pub fn is_nonprimary_shard(&self, shard: usize) -> bool {
        self.nonprimary_shards.get(shard / 64).is_some_and(|word| word >> (shard % 64) & 1 == 1)
    }

    pub(crate) fn nonprimary_shard_count(&self) -> usize {
        self.nonprimary_shards.iter().map(|word| word.count_ones() as usize).sum()
    }
}

/// `ceph_stable_mod`: like `x % buckets`, but when `buckets` grows, values only move from the
/// bucket that is split.
pub fn stable_mod(x: u32, buckets: u32) -> u32 {
    let mask = match buckets {
        0 | 1 => 0,
        _ => u32::MAX >> (buckets - 1).leading_zeros(),
    };
    if x & mask < buckets { x & mask } else { x & mask >> 1 }
}

/// Number of lowest bits of `x` that decide that [`stable_mod`] selects this bucket: one less for buckets
/// that are not split yet on the way to a power of two.
pub fn stable_bits(bucket: u32, buckets: u32) -> u8 {
    if buckets <= 1 {
        return 0;
    }
    let bits = u32::BITS - (buckets - 1).leading_zeros();
    let half = 1 << (bits - 1);
    let is_split = bucket >= half || bucket + half < buckets;
    (if is_split { bits } else { bits - 1 }) as u8
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn stable_mod_splits_one_bucket_at_a_time(x: u32, buckets in 1u32..100_000) {
            let before = stable_mod(x, buckets);
            let after = stable_mod(x, buckets + 1);
            prop_assert!(before < buckets);
            prop_assert!(after == before || after == buckets);
        }
    }
}
