//! Shards of placement groups: `shard_id_t`, `spg_t`.

use crate::PgId;
use codec::{Decode, Encode, Reader, Result, Writer};
use std::fmt;
use std::str::FromStr;

/// `shard_id_t`: the position of a shard in an erasure-coded group, below [`ShardId::MAX_COUNT`]; or
/// [`ShardId::NONE`] in replicated pools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShardId(i8);

impl ShardId {
    /// `NO_SHARD`: the only value in replicated pools. Sorts before all positions.
    pub const NONE: ShardId = ShardId(-1);
    /// Shards of the largest erasure-coded group.
    pub const MAX_COUNT: usize = 32;

    /// The shard at a position of the acting set; `None` behind the last one that a group can have.
    pub fn at(position: usize) -> Option<ShardId> {
        let number = i8::try_from(position).ok()?;
        (position < Self::MAX_COUNT).then_some(ShardId(number))
    }

    /// The position in the acting set; `None` in replicated pools.
    pub fn position(self) -> Option<usize> {
        usize::try_from(self.0).ok()
    }

    /// The number as Ceph writes it, -1 for [`ShardId::NONE`].
    pub fn number(self) -> i8 {
        self.0
    }

    /// The inverse of [`ShardId::number`].
    pub fn from_number(number: i8) -> Option<ShardId> {
        match usize::try_from(number) {
            Ok(position) => Self::at(position),
            Err(_) => (number == Self::NONE.0).then_some(Self::NONE),
        }
    }
}

impl Default for ShardId {
    fn default() -> Self {
        ShardId::NONE
    }
}

impl Encode for ShardId {
    fn encode(&self, w: &mut Writer) {
        w.i8(self.0);
    }
}

impl Decode for ShardId {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let at = *r;
        let number = r.i8("shard")?;
        ShardId::from_number(number).ok_or_else(|| at.invalid("shard", u64::from(number as u8)))
    }
}

/// `spg_t`: a placement group, and in erasure-coded pools its shard.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct PgShard {
    /// The group.
    pub pg: PgId,
    /// The shard; [`ShardId::NONE`] in replicated pools.
    pub shard: ShardId,
}

impl PgShard {
    /// A group of a replicated pool.
    pub const fn replicated(pg: PgId) -> Self {
        PgShard { pg, shard: ShardId::NONE }
    }
}

impl Encode for PgShard {
    fn encode(&self, w: &mut Writer) {
        w.versioned(1, 1, |w| {
            w.value(&self.pg);
            w.value(&self.shard);
        });
    }
}

impl Decode for PgShard {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        r.versioned("placement group", 1, |r, _| Ok(PgShard { pg: r.value()?, shard: r.value()? }))
    }
}

/// A group of a replicated pool is shown as the group alone.
impl fmt::Debug for PgShard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.shard {
            ShardId::NONE => fmt::Debug::fmt(&self.pg, f),
            shard => f.debug_tuple("PgShard").field(&self.pg).field(&shard).finish(),
        }
    }
}

/// `3.1f` in replicated pools, `3.1fs2` for shard 2.
impl fmt::Display for PgShard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.shard {
            ShardId::NONE => self.pg.fmt(f),
            ShardId(number) => write!(f, "{}s{number}", self.pg),
        }
    }
}

impl FromStr for PgShard {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let Some((pg, shard)) = text.split_once('s') else {
            return Ok(PgShard::replicated(text.parse()?));
        };
        let position = shard.parse().map_err(|_| ())?;
        Ok(PgShard { pg: pg.parse()?, shard: ShardId::at(position).ok_or(())? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PoolId;

    fn pg() -> PgId {
        PgId { pool: PoolId(3), seed: 0x1f }
    }

    #[test]
    fn numbers_are_none_or_below_the_largest_count() {
        let numbers = i8::MIN..=i8::MAX;
        let valid: Vec<i8> = numbers.filter(|n| ShardId::from_number(*n).is_some()).collect();
        assert_eq!(valid, (-1..=31).collect::<Vec<i8>>());
        for number in valid {
            let shard = ShardId::from_number(number).unwrap();
            assert_eq!(shard.number(), number);
            assert_eq!(shard.position().and_then(ShardId::at), shard.position().map(|_| shard));
            assert!(shard >= ShardId::NONE);
        }
        assert_eq!(ShardId::at(ShardId::MAX_COUNT), None);
        assert_eq!(ShardId::at(usize::MAX), None);
    }

    #[test]
    fn shards_print_and_parse_as_ceph_does() {
        let replicated = PgShard::replicated(pg());
        let shard = PgShard { shard: ShardId::at(2).unwrap(), ..replicated };
        assert_eq!(replicated.to_string(), "3.1f");
        assert_eq!(shard.to_string(), "3.1fs2");
        assert_eq!("3.1f".parse(), Ok(replicated));
        assert_eq!("3.1fs2".parse(), Ok(shard));
        for wrong in ["3", "3.1fs", "3.1fs32", "3.1fs-1", "3.1fs2s2", "s2"] {
            assert!(wrong.parse::<PgShard>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_shard_that_no_group_has_is_refused() {
        let bytes = codec::encode_to_bytes(&PgShard::replicated(pg()));
        for number in i8::MIN..=i8::MAX {
            let mut bytes = bytes.to_vec();
            *bytes.last_mut().unwrap() = number as u8;
            let decoded = codec::decode_all::<PgShard>("group", &bytes).ok();
            assert_eq!(decoded.map(|group| group.shard), ShardId::from_number(number));
        }
    }
}
