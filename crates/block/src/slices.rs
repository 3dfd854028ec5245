//! Slices: the ids of a collection's objects, by hash.
//!
//! Objects are keyed by an id and their reversed hash, not by the collection's name. A collection
//! records for each range of reversed hashes the id of its objects. A new one has a single id for
//! all hashes. Moving a range of hashes to another collection exchanges these entries of the two:
//! no object is touched, however many there are, and metadata of objects (extent segments, omaps,
//! shared extents) is keyed by the objects' own ids.
//!
//! Invariants:
//! * The slices of a collection are adjacent and cover all hashes; neighbours have different ids.
//! * No two collections, nor a collection and the garbage, have the same id for a hash.

use bytes::Bytes;
use codec::{Reader, Result, Writer};
use std::sync::Arc;
use types::HObject;

/// Value length of a collection with one slice: id and a mark.
const WHOLE_LEN: usize = 9;
const WHOLE_MARK: u8 = 0xff;
/// Value length per slice of a collection with several: id and last reversed hash.
const PART_LEN: usize = 12;

/// The objects under an id whose reversed hash is in a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Slice {
    /// Id in the keys of the objects.
    pub id: u64,
    /// First reversed hash.
    pub first: u32,
    /// Last reversed hash (inclusive).
    pub last: u32,
}

/// The slices of one collection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Slices {
    /// One slice with all hashes: its id.
    Whole(u64),
    /// At least two, ascending.
    Parts(Arc<[Slice]>),
}

impl Slice {
    /// All objects with this id.
    pub fn whole(id: u64) -> Self {
        Slice { id, first: 0, last: u32::MAX }
    }

    /// Set if the slice has all hashes.
    pub fn is_whole(&self) -> bool {
        (self.first, self.last) == (0, u32::MAX)
    }

    /// Whether the reversed hash lies in it.
    pub fn contains(&self, reversed_hash: u32) -> bool {
        (self.first..=self.last).contains(&reversed_hash)
    }

    /// Part of the slice from `first` to `last` (inclusive).
    fn within(&self, first: u32, last: u32) -> Option<Slice> {
        let (first, last) = (self.first.max(first), self.last.min(last));
        (first <= last).then_some(Slice { first, last, ..*self })
    }
}

impl Slices {
    fn new(parts: Vec<Slice>) -> Self {
        match parts[..] {
            [one] => Slices::Whole(one.id),
            _ => Slices::Parts(parts.into()),
        }
    }

    /// Id in the key of an object.
    pub fn id_of(&self, object: &HObject) -> u64 {
        match self {
            Slices::Whole(id) => *id,
            Slices::Parts(_) => self.slice_of(object.reversed_hash()).id,
        }
    }

    /// The slice that covers a reversed hash.
    pub fn slice_of(&self, reversed_hash: u32) -> Slice {
        match self {
            Slices::Whole(id) => Slice::whole(*id),
            Slices::Parts(parts) => parts[parts.partition_point(|part| part.last < reversed_hash)],
        }
    }

    /// All slices, ascending.
    pub fn iter(&self) -> impl Iterator<Item = Slice> + '_ {
        let (whole, parts): (_, &[Slice]) = match self {
            Slices::Whole(id) => (Some(Slice::whole(*id)), &[]),
            Slices::Parts(parts) => (None, parts),
        };
        whole.into_iter().chain(parts.iter().copied())
    }

    /// Slices and parts of slices that cover the range.
    pub fn cut(&self, first: u32, last: u32) -> Vec<Slice> {
        self.iter().filter_map(|slice| slice.within(first, last)).collect()
    }

    /// Replaces the range by other slices, which must cover it.
    pub fn replace(&self, first: u32, last: u32, with: &[Slice]) -> Slices {
        let below = first.checked_sub(1).map(|last| self.cut(0, last)).unwrap_or_default();
        let above = last.checked_add(1).map(|first| self.cut(first, u32::MAX)).unwrap_or_default();
        let mut parts: Vec<Slice> = Vec::new();
        for slice in below.iter().chain(with).chain(&above) {
            match parts.last_mut() {
                Some(before) if before.id == slice.id => before.last = slice.last,
                _ => parts.push(*slice),
            }
        }
        Slices::new(parts)
    }

    /// Encodes the value of a `C` pair.
    pub fn encode(&self) -> Bytes {
        let mut w = Writer::new();
        match self {
            Slices::Whole(id) => {
                w.u64(*id);
                w.u8(WHOLE_MARK);
            }
            Slices::Parts(parts) => parts.iter().for_each(|part| {
                w.u64(part.id);
                w.u32(part.last);
            }),
        }
        w.into_vec().into()
    }

    /// Decodes the value of a `C` pair. The slices must be adjacent and cover all hashes.
    pub fn decode(value: &[u8]) -> Result<Slices> {
        let mut r = Reader::new(value);
        if value.len() == WHOLE_LEN {
            let id = r.u64("collection id")?;
            let at = r;
            return match r.u8("collection mark")? {
                WHOLE_MARK => Ok(Slices::Whole(id)),
                other => Err(at.invalid("collection mark", other.into())),
            };
        }
        let mut parts: Vec<Slice> = Vec::with_capacity(value.len() / PART_LEN);
        let mut next = Some(0);
        while let Some(first) = next {
            let id = r.u64("collection id")?;
            let at = r;
            let last = r.u32("last hash of a slice")?;
            let is_joined = parts.last().is_some_and(|before| before.id == id);
            if last < first || is_joined || parts.is_empty() && last == u32::MAX {
                return Err(at.invalid("last hash of a slice", last.into()));
            }
            parts.push(Slice { id, first, last });
            next = last.checked_add(1);
        }
        r.finish("collection")?;
        Ok(Slices::new(parts))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use store::Hashes;

    fn ranges() -> impl Strategy<Value = Vec<(u32, u32)>> {
        let range = (0u8..6, any::<u32>()).prop_map(|(b, r)| Hashes::new(b, r).reversed());
        prop::collection::vec(range, 0..8)
    }

    proptest! {
        #[test]
        fn replaced_ranges_have_their_id_and_the_rest_keeps_its(ranges in ranges(), probe: u32) {
            let mut slices = Slices::Whole(1);
            let mut expected = 1;
            for ((first, last), id) in ranges.into_iter().zip(2..) {
                let slice = Slice { id: id % 3, first, last };
                slices = slices.replace(first, last, &[slice]);
                if (first..=last).contains(&probe) {
                    expected = id % 3;
                }
            }
            prop_assert_eq!(slices.slice_of(probe).id, expected);
            prop_assert_eq!(&Slices::decode(&slices.encode()).unwrap(), &slices);
            prop_assert_eq!(slices.cut(probe, probe), [Slice { id: expected, first: probe, last: probe }]);
        }

        #[test]
        fn no_bytes_make_decoding_panic_and_there_is_one_encoding(raw in prop::collection::vec(any::<u8>(), 0..40)) {
            if let Ok(slices) = Slices::decode(&raw) {
                prop_assert_eq!(&slices.encode()[..], &raw[..]);
            }
        }
    }

    #[test]
    fn adjacent_slices_of_one_id_merge() {
        let (first, last) = Hashes::new(2, 1).reversed();
        let parent = Slices::Whole(1);
        let child = Slices::Whole(2).replace(first, last, &parent.cut(first, last));
        let split = parent.replace(first, last, &[Slice { id: 3, first, last }]);
        assert_eq!((split.iter().count(), child.iter().count()), (3, 3));
        assert_eq!(split.replace(first, last, &child.cut(first, last)), Slices::Whole(1));
    }

    #[test]
    fn the_bytes_are_those_of_the_format() {
        let whole = Slices::Whole(258);
        assert_eq!(&whole.encode()[..], b"\x02\x01\0\0\0\0\0\0\xff");
        let (first, last) = Hashes::new(1, 1).reversed();
        let parts = whole.replace(first, last, &[Slice { id: 3, first, last }]);
        let bytes = b"\x02\x01\0\0\0\0\0\0\xff\xff\xff\x7f\x03\0\0\0\0\0\0\0\xff\xff\xff\xff";
        assert_eq!(&parts.encode()[..], bytes);
        let cut = |end| end != WHOLE_LEN && Slices::decode(&bytes[..end]).is_ok();
        assert!(!(0..bytes.len()).any(cut));
    }
}
