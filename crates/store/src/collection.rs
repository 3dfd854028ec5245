//! Names of collections.

use codec::{Decode, Encode, Reader, Result, Writer};
use std::cmp::Ordering;
use std::fmt;
use types::{PgId, PgShard, PoolId, ShardId};

/// The objects of one placement group in this store; in an erasure-coded pool, of one shard of it. Replicated
/// groups sort before shards, and shards by their number first, as their keys do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Collection(pub PgShard);

impl Collection {
    /// Pools from here on have no collections: keys keep the shard in these bits.
    pub const POOL_END: i64 = 1 << 56;

    /// The objects of a group of a replicated pool.
    pub const fn replicated(pg: PgId) -> Self {
        Collection(PgShard::replicated(pg))
    }

    /// Whether stores can hold it. Own collections, whose pools are negative, have no shards.
    pub fn is_valid(self) -> bool {
        let pool = self.0.pg.pool.0;
        pool < Self::POOL_END && (pool >= 0 || !self.is_shard())
    }

    /// Whether it belongs to an erasure-coded pool.
    pub fn is_shard(self) -> bool {
        self.0.shard != ShardId::NONE
    }
}

impl Ord for Collection {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.shard.cmp(&other.0.shard).then_with(|| self.0.pg.cmp(&other.0.pg))
    }
}

impl PartialOrd for Collection {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for Collection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Of a replicated group, the bytes of its [`PgId`]; the last field of that, once the preferred OSD and -1
/// ever since, is the shard.
impl Encode for Collection {
    fn encode(&self, w: &mut Writer) {
        let PgShard { pg, shard } = self.0;
        w.u8(1);
        w.i64(pg.pool.0);
        w.u32(pg.seed);
        w.i32(shard.number().into());
    }
}

impl Decode for Collection {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let at = *r;
        r.u8("collection version")?;
        let pg = PgId { pool: PoolId(r.i64("collection pool")?), seed: r.u32("collection seed")? };
        let collection = Collection(PgShard { pg, shard: decode_shard(r)? });
        match collection.is_valid() {
            true => Ok(collection),
            false => Err(at.invalid("collection", pg.pool.0 as u64)),
        }
    }
}

fn decode_shard(r: &mut Reader<'_>) -> Result<ShardId> {
    let at = *r;
    let number = r.i32("collection shard")?;
    let shard = i8::try_from(number).ok().and_then(ShardId::from_number);
    shard.ok_or_else(|| at.invalid("collection shard", u64::from(number as u32)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use codec::{decode_all, encode_to_bytes};

    fn pg(pool: i64) -> PgId {
        PgId { pool: PoolId(pool), seed: 0x1f }
    }

    #[test]
    fn replicated_groups_keep_their_bytes() {
        for pool in [i64::MIN, -1, 0, 3, Collection::POOL_END - 1] {
            let collection = Collection::replicated(pg(pool));
            assert_eq!(encode_to_bytes(&collection), encode_to_bytes(&pg(pool)));
            assert_eq!(decode_all("collection", &encode_to_bytes(&pg(pool))), Ok(collection));
        }
    }

    #[test]
    fn a_shard_is_the_last_field() {
        let shard = Collection(PgShard { pg: pg(3), shard: ShardId::at(31).unwrap() });
        let bytes = encode_to_bytes(&shard);
        let replicated = encode_to_bytes(&pg(3));
        assert_eq!(bytes[..13], replicated[..13]);
        assert_eq!(bytes[13..], 31i32.to_le_bytes());
        assert_eq!(decode_all("collection", &bytes), Ok(shard));
        assert_eq!(shard.to_string(), "3.1fs31");
    }

    #[test]
    fn names_that_no_store_holds_are_refused() {
        let with = |pool: i64, shard: i32| {
            let mut w = Writer::new();
            w.u8(1);
            w.i64(pool);
            w.u32(0);
            w.i32(shard);
            decode_all::<Collection>("collection", &w.into_vec())
        };
        for shard in [-2, 32, 127, 255, 256, i32::MIN, i32::MAX] {
            assert!(with(3, shard).is_err(), "{shard}");
        }
        assert!(with(3, -1).is_ok() && with(-1, -1).is_ok() && with(0, 0).is_ok());
        assert!(with(-1, 0).is_err());
        assert!(with(Collection::POOL_END, -1).is_err());
        assert!(with(Collection::POOL_END, 0).is_err());
        assert!(with(i64::MAX, 31).is_err());
    }
}
