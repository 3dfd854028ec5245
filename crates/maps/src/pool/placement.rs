//! Hash -> placement group of a pool, and the input of CRUSH for a group.

use super::{Pool, PoolFlags};
use crate::name_hash;
use crate::stable_mod::stable_mod;
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

    /// True if the shard cannot become primary.
    pub fn is_nonprimary_shard(&self, shard: usize) -> bool {
        self.nonprimary_shards.get(shard / 64).is_some_and(|word| word >> (shard % 64) & 1 == 1)
    }

    pub(crate) fn nonprimary_shard_count(&self) -> usize {
        self.nonprimary_shards.iter().map(|word| word.count_ones() as usize).sum()
    }
}
