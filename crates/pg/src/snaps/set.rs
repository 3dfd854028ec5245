//! The clones of one object (`SnapSet`).

use super::Extents;
use bytes::Bytes;
use codec::{Decode, Encode, Reader, Result, Writer};
use types::{EVersion, SnapId};

/// The attribute of a head that holds its [`SnapSet`]. Attributes of users have other names.
pub const SNAPSET_ATTR: Bytes = Bytes::from_static(b"snapset");
const FORMAT: u8 = 1;

/// The clones of an object; an attribute of its head.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SnapSet {
    /// The newest snapshot that a write of the object knew of.
    pub seq: SnapId,
    /// Ascending by number.
    pub clones: Vec<SnapClone>,
}

/// One clone of an object.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SnapClone {
    /// Its number: the newest snapshot when it was made.
    pub id: SnapId,
    /// The snapshots that it shows, newest first.
    pub snaps: Vec<SnapId>,
    /// Bytes of data.
    pub size: u64,
    /// The data that it shares with the next newer clone, or with the head.
    pub overlap: Extents,
    /// The version of the write that made it.
    pub version: EVersion,
}

impl SnapClone {
    /// Bytes that it does not share with the next newer clone, or with the head.
    fn own_bytes(&self) -> u64 {
        self.size.saturating_sub(self.overlap.bytes())
    }
}

/// The object that has the state at a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum At {
    /// The head.
    Head,
    /// The clone with this id.
    Clone(SnapId),
    /// The object did not exist then, or the snapshot is removed.
    Nowhere,
}

impl SnapSet {
    /// The object that has the state at `snap`.
    pub fn at(&self, snap: SnapId) -> At {
        if snap > self.seq {
            return At::Head;
        }
        match self.clones.iter().find(|clone| clone.id >= snap) {
            Some(clone) if clone.snaps.contains(&snap) => At::Clone(clone.id),
            _ => At::Nowhere,
        }
    }

    /// The clone with this id.
    pub fn clone_of(&self, id: SnapId) -> Option<&SnapClone> {
        self.clones.iter().find(|clone| clone.id == id)
    }

    /// The part of `snaps`, which are newest first, for which a write must preserve the object.
    pub fn to_preserve<'a>(&self, snaps: &'a [SnapId]) -> &'a [SnapId] {
        let newer = snaps.iter().take_while(|snap| **snap > self.seq).count();
        &snaps[..newer]
    }

    /// Adds a clone of the head, which has `size` bytes. `id` is the newest snapshot.
    pub fn add(&mut self, id: SnapId, snaps: &[SnapId], size: u64, version: EVersion) {
        let overlap = Extents::whole(size);
        self.clones.push(SnapClone { id, snaps: snaps.to_vec(), size, overlap, version });
    }

    /// The head's data in `start..end` differs from the newest clone's from now on.
    pub fn modified(&mut self, start: u64, end: u64) {
        if let Some(newest) = self.clones.last_mut() {
            newest.overlap.remove(start, end);
        }
    }

    /// Whether the newest clone shares any byte of `start..end` with the head.
    pub fn shares(&self, start: u64, end: u64) -> bool {
        self.clones.last().is_some_and(|newest| newest.overlap.touches(start, end))
    }

    /// The data that the head shares with a clone, as far as is known.
    pub fn shared_with_head(&self, id: SnapId) -> Extents {
        let newer = self.clones.iter().filter(|clone| clone.id >= id);
        let mut overlaps = newer.map(|clone| &clone.overlap);
        let mut shared = overlaps.next().cloned().unwrap_or_default();
        overlaps.for_each(|overlap| shared.intersect(overlap));
        shared
    }

    /// Whether it is consistent in itself.
    pub fn is_sound(&self) -> bool {
        let is_sound = |clone: &SnapClone| {
            let end =
                clone.overlap.iter().last().map_or(0, |(at, length)| at.saturating_add(length));
            clone.id <= self.seq && !clone.snaps.is_empty() && end <= clone.size
        };
        self.clones.is_sorted_by(|one, next| one.id < next.id) && self.clones.iter().all(is_sound)
    }

    /// Bytes that clones do not share with newer ones.
    pub fn clone_bytes(&self) -> u64 {
        self.clones.iter().map(SnapClone::own_bytes).sum()
    }

    /// Bytes of its encoding, up to a constant for each clone.
    pub fn stored_bytes(&self) -> usize {
        let of = |clone: &SnapClone| {
            size_of::<SnapClone>()
                + clone.snaps.len() * size_of::<SnapId>()
                + clone.overlap.iter().count() * size_of::<(u64, u64)>()
        };
        self.clones.iter().map(of).sum()
    }

    /// Removes snapshots from a clone. If none are left, removes the clone, too, and returns it.
    pub fn forget(&mut self, id: SnapId, is_removed: impl Fn(SnapId) -> bool) -> Option<SnapClone> {
        let index = self.clones.iter().position(|clone| clone.id == id)?;
        self.clones[index].snaps.retain(|snap| !is_removed(*snap));
        if !self.clones[index].snaps.is_empty() {
            return None;
        }
        let gone = self.clones.remove(index);
        assert_eq!(gone.id, id, "this clone loses its snapshots");
        if let Some(older) = index.checked_sub(1) {
            self.clones[older].overlap.intersect(&gone.overlap);
        }
        Some(gone)
    }
}

impl Encode for SnapSet {
    fn encode(&self, w: &mut Writer) {
        w.u8(FORMAT);
        w.value(&self.seq);
        w.list(&self.clones, |w, clone| {
            w.value(&clone.id);
            w.value(&clone.snaps);
            w.u64(clone.size);
            w.value(&clone.overlap);
            w.value(&clone.version);
        });
    }
}

impl Decode for SnapSet {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let at = *r;
        let format = r.u8("snapset format")?;
        if format != FORMAT {
            return Err(at.invalid("snapset format", format.into()));
        }
        let seq = r.value()?;
        let clones = r.list("clones", |r| {
            Ok(SnapClone {
                id: r.value()?,
                snaps: r.value()?,
                size: r.u64("clone size")?,
                overlap: r.value()?,
                version: r.value()?,
            })
        })?;
        Ok(SnapSet { seq, clones })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use codec::{decode_all, encode_to_bytes};

    fn ids(snaps: &[u64]) -> Vec<SnapId> {
        snaps.iter().copied().map(SnapId).collect()
    }

    /// Clones 4 (of snapshots 4 and 3, 100 bytes) and 9 (of 9, 60 bytes).
    fn set() -> SnapSet {
        let mut set = SnapSet { seq: SnapId(4), ..SnapSet::default() };
        set.add(SnapId(4), &ids(&[4, 3]), 100, EVersion::new(1, 2));
        set.modified(60, u64::MAX);
        set.seq = SnapId(9);
        set.add(SnapId(9), &ids(&[9]), 60, EVersion::new(1, 5));
        set
    }

    #[test]
    fn a_snapshot_is_in_the_clone_that_names_it_or_in_the_head_if_it_is_newer() {
        let set = set();
        for (snap, expected) in [
            (2, At::Nowhere),
            (3, At::Clone(SnapId(4))),
            (4, At::Clone(SnapId(4))),
            (7, At::Nowhere),
            (9, At::Clone(SnapId(9))),
            (10, At::Head),
        ] {
            assert_eq!(set.at(SnapId(snap)), expected, "at {snap}");
        }
        assert_eq!(set.to_preserve(&ids(&[12, 10, 9, 3])), ids(&[12, 10]));
    }

    #[test]
    fn overlaps_tell_what_is_shared_also_when_a_clone_between_goes() {
        let mut set = set();
        (0..2).for_each(|_| set.modified(10, 20));
        assert_eq!(set.shared_with_head(SnapId(4)).to_vec(), [(0, 10), (20, 40)]);
        let own: Vec<u64> = set.clones.iter().map(SnapClone::own_bytes).collect();
        assert_eq!(own, [40, 10]);
        assert_eq!(set.forget(SnapId(4), |snap| snap == SnapId(3)), None);
        let gone = set.forget(SnapId(9), |_| true).unwrap();
        assert_eq!(gone.version, EVersion::new(1, 5));
        assert_eq!(set.clone_bytes(), 50, "the older one has more to itself now");
        assert_eq!(set.at(SnapId(9)), At::Nowhere);
    }

    #[test]
    fn a_set_round_trips_and_every_truncation_is_an_error() {
        let bytes = encode_to_bytes(&set());
        assert_eq!(decode_all::<SnapSet>("snapset", &bytes).unwrap(), set());
        for end in 0..bytes.len() {
            assert!(decode_all::<SnapSet>("snapset", &bytes[..end]).is_err());
        }
    }
}
