//! Parts of log entries, group infos and object infos that only groups with shards have.
//!
//! A shard keeps a change beside its object until the change is known to be durable on all members; then the
//! change is settled. An entry that is not settled is rolled back by dropping its change.

use codec::{Decode, DecodeError, Encode, Reader, Result, Writer};
use std::collections::BTreeMap;
use types::{EVersion, Epoch, ShardId};

/// Versions of shards; those that are not listed have the object's own.
pub type ShardVersions = BTreeMap<ShardId, EVersion>;

/// A set of shards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ShardSet(u32);

impl ShardSet {
    /// Adds a shard. [`ShardId::NONE`] is no shard.
    pub fn insert(&mut self, shard: ShardId) {
        let position = shard.position().expect("a member of a set is a shard");
        self.0 |= 1 << position;
    }

    /// Whether the shard is in the set; false for [`ShardId::NONE`].
    pub fn contains(self, shard: ShardId) -> bool {
        shard.position().is_some_and(|position| self.0 & 1 << position != 0)
    }

    /// Whether the set has no shards.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// The part of a write's log entry that groups with shards need.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ShardChange {
    /// The shards whose data the write changes.
    pub written: ShardSet,
    /// The changed ranges of each of them, as offset and length in bytes, in order.
    pub rows: Vec<(u64, u64)>,
    /// The versions before the write of shards that earlier writes left out.
    pub prior: ShardVersions,
}

impl ShardChange {
    /// All rows, as an offset and a length.
    pub(crate) const WHOLE: (u64, u64) = (0, u64::MAX);

    /// Whether the data may be replaced, perhaps by that of another object.
    pub fn is_whole(&self) -> bool {
        self.rows.first() == Some(&Self::WHOLE)
    }
}

/// The part of a group's info that a shard needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ShardState {
    /// The shard whose state this is.
    pub shard: ShardId,
    /// Changes up to this version are in the objects; later ones are kept beside them.
    pub settled: EVersion,
    /// The first interval, since the last one in which it took part in an activation, in which the map had
    /// the shard act although its OSD did not run, or may have had: it crashed just then, or its disk is an
    /// older one, or the maps of the time before the OSD came up were not available. Zero if there is none.
    pub absent_since: Epoch,
}

impl ShardState {
    /// The state of a shard that has nothing.
    pub(crate) fn of_new_copy(shard: ShardId) -> Self {
        ShardState { shard, ..ShardState::default() }
    }
}

pub(crate) fn encode_versions(w: &mut Writer, versions: &ShardVersions) {
    w.count(versions.len());
    for (shard, version) in versions {
        w.value(shard);
        w.value(version);
    }
}

/// Refuses versions that are not in the order of shards.
pub(crate) fn decode_versions(r: &mut Reader<'_>) -> Result<ShardVersions> {
    let at = *r;
    let list = r.list("shard versions", |r| Ok((decode_shard(r)?, r.value()?)))?;
    match list.is_sorted_by(|(one, _), (next, _)| one < next) {
        true => Ok(list.into_iter().collect()),
        false => Err(at.invalid("shard versions", list.len() as u64)),
    }
}

/// A shard of a group that has some.
fn decode_shard(r: &mut Reader<'_>) -> Result<ShardId> {
    let at = *r;
    let shard: ShardId = r.value()?;
    shard.position().map(|_| shard).ok_or_else(|| at.invalid("shard", shard.number() as u8 as u64))
}

/// The error for flags that this build does not know; `None` if it knows them all.
pub(crate) fn unknown_flags(
    at: &Reader<'_>,
    field: &'static str,
    flags: u8,
    known: u8,
) -> Option<DecodeError> {
    (flags & !known != 0).then(|| at.invalid(field, flags.into()))
}

impl Encode for ShardChange {
    fn encode(&self, w: &mut Writer) {
        w.u32(self.written.0);
        w.list(&self.rows, |w, (offset, length)| {
            w.u64(*offset);
            w.u64(*length);
        });
        encode_versions(w, &self.prior);
    }
}

impl Decode for ShardChange {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let written = ShardSet(r.u32("written shards")?);
        let rows = r.list("changed rows", |r| Ok((r.u64("offset")?, r.u64("length")?)))?;
        Ok(ShardChange { written, rows, prior: decode_versions(r)? })
    }
}

impl Encode for ShardState {
    fn encode(&self, w: &mut Writer) {
        w.value(&self.shard);
        w.value(&self.settled);
        w.value(&self.absent_since);
    }
}

impl Decode for ShardState {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let shard = decode_shard(r)?;
        Ok(ShardState { shard, settled: r.value()?, absent_since: r.value()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use codec::{decode_all, encode_to_bytes};

    fn shard(position: usize) -> ShardId {
        ShardId::at(position).unwrap()
    }

    #[test]
    fn a_set_has_the_shards_that_were_inserted() {
        let mut set = ShardSet::default();
        assert!(set.is_empty() && !set.contains(ShardId::NONE));
        set.insert(shard(31));
        assert!(set.contains(shard(31)) && !set.contains(shard(0)) && !set.is_empty());
    }

    #[test]
    fn a_change_round_trips_and_disordered_or_impossible_shards_are_refused() {
        let prior = [1, 4].map(|position| (shard(position), EVersion::new(2, 7))).into();
        let mut change = ShardChange { rows: vec![(4096, 8192)], prior, ..ShardChange::default() };
        change.written.insert(shard(4));
        let bytes = encode_to_bytes(&change);
        assert_eq!(decode_all::<ShardChange>("change", &bytes), Ok(change));
        for end in 0..bytes.len() {
            assert!(decode_all::<ShardChange>("change", &bytes[..end]).is_err());
        }
        let len = bytes.len();
        // Each version ends with its 13 bytes, the shard first.
        for (first, second) in [(4, 4), (4, 1), (-1, 4), (1, 32)] {
            let mut wrong = bytes.to_vec();
            (wrong[len - 26], wrong[len - 13]) = (first as u8, second as u8);
            assert!(decode_all::<ShardChange>("change", &wrong).is_err(), "{first} {second}");
        }
    }
}
