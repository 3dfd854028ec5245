//! Reference counts of shared blocks: for one shared id, the number of extent segments that refer
//! to each extent.
//!
//! Extents are ascending, disjoint, and merged where they are adjacent and have equal counts. An
//! extent whose count falls to one stays here: its last owner continues to treat it as shared, and
//! only loses the ability to overwrite it in place.

use super::PHYSICAL_END;
use super::varint::{self, VARINT_LEN_MAX};
use crate::device::Extent;
use bytes::Bytes;
use codec::{Reader, Result};
use smallvec::SmallVec;
use thiserror::Error;

const VERSION: u8 = 1;

/// Far above the number of possible clones, far below an overflow.
const REFERENCES_MAX: u64 = 1 << 48;

/// The value of an `R` pair.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SharedExtents {
    counted: Vec<Counted>,
}

/// An extent whose blocks all have the same count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counted {
    /// The blocks on the main device.
    pub extent: Extent,
    /// Extent segments that refer to each of them; at least one.
    pub references: u64,
}

/// Block map and reference counts contradict each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum SharedError {
    /// A reference to blocks that this shared id does not count.
    #[error("blocks {start}..{end} are mapped as shared, but block {missing} has no references")]
    NotCounted {
        /// First block of the reference.
        start: u64,
        /// First block after the reference.
        end: u64,
        /// First block of it without a count.
        missing: u64,
    },
    /// Two extents of an object have a common block.
    #[error("block {block} is mapped twice by an object that does not share it")]
    Overlap {
        /// The first such block.
        block: u64,
    },
}

type Pieces = SmallVec<[Counted; 5]>;

impl SharedExtents {
    /// Counts of extents, in any order.
    pub fn new(
        extents: impl IntoIterator<Item = Extent>,
        references: u64,
    ) -> Result<Self, SharedError> {
        assert!(references > 0, "extents have references");
        let mut extents: Vec<Extent> = extents.into_iter().collect();
        extents.sort_unstable();
        if let Some(pair) = extents.windows(2).find(|pair| pair[0].end() > pair[1].start) {
            return Err(SharedError::Overlap { block: pair[1].start });
        }
        let mut counted = Pieces::new();
        for extent in extents {
            push_merged(&mut counted, Counted { extent, references });
        }
        Ok(SharedExtents { counted: counted.into_vec() })
    }

    /// Set if no references are left and the pair must be removed.
    pub fn is_empty(&self) -> bool {
        self.counted.is_empty()
    }

    /// The extents, ascending.
    pub fn iter(&self) -> impl Iterator<Item = Counted> {
        self.counted.iter().copied()
    }

    /// Adds a reference to all of `extent`. An error changes nothing.
    pub fn add(&mut self, extent: Extent) -> Result<(), SharedError> {
        self.change(extent, |references| references + 1).map(|_| ())
    }

    /// Removes a reference to all of `extent`; returns the parts without further references. An
    /// error changes nothing.
    pub fn reduce(&mut self, extent: Extent) -> Result<SmallVec<[Extent; 4]>, SharedError> {
        self.change(extent, |references| references - 1)
    }

    /// Panics unless the extents are ascending, disjoint, merged and counted.
    pub fn check_invariants(&self) {
        for counted in &self.counted {
            assert!(counted.extent.count > 0 && counted.references > 0, "{counted:?}");
        }
        for pair in self.counted.windows(2) {
            assert!(pair[0].extent.end() <= pair[1].extent.start, "{pair:?} overlap");
            assert!(!is_continued(&pair[0], &pair[1]), "{pair:?} are one");
        }
    }

    /// Encodes the value of an `R` pair.
    pub fn encode(&self) -> Bytes {
        // Most numbers are small: distances, lengths and few references.
        let mut out = Vec::with_capacity(1 + VARINT_LEN_MAX + self.counted.len() * 8);
        out.push(VERSION);
        varint::push(&mut out, self.counted.len() as u64);
        let mut expected = 0;
        for Counted { extent, references } in &self.counted {
            varint::push(&mut out, extent.start - expected);
            varint::push(&mut out, extent.count);
            varint::push(&mut out, *references);
            expected = extent.end();
        }
        out.into()
    }

    /// Decodes the value of an `R` pair. Only the output of [`SharedExtents::encode`] is accepted.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let mut r = Reader::new(bytes);
        let at = r;
        let version = r.u8("shared extents version")?;
        if version != VERSION {
            return Err(at.invalid("shared extents version", version.into()));
        }
        let count = varint::take(&mut r, "shared extents")?;
        let mut counted: Vec<Counted> = Vec::new();
        for _ in 0..count {
            let at = r;
            let next = take_counted(&mut r, counted.last().map_or(0, |last| last.extent.end()))?;
            if counted.last().is_some_and(|last| is_continued(last, &next)) {
                return Err(at.invalid("extent that continues the one before", next.extent.start));
            }
            counted.push(next);
        }
        r.finish("shared extents")?;
        Ok(SharedExtents { counted })
    }

    fn change(
        &mut self,
        extent: Extent,
        references: impl Fn(u64) -> u64,
    ) -> Result<SmallVec<[Extent; 4]>, SharedError> {
        let first = self.counted.partition_point(|counted| counted.extent.end() <= extent.start);
        let last = self.counted.partition_point(|counted| counted.extent.start < extent.end());
        self.check_counted(extent, first, last)?;
        // Neighbours are included, because they may merge with the changed extents.
        let around = first.saturating_sub(1)..(last + 1).min(self.counted.len());
        let mut pieces = Pieces::new();
        let mut freed = SmallVec::new();
        for counted in &self.counted[around.clone()] {
            let (left, middle, right) = cut(counted, extent);
            left.into_iter().for_each(|left| push_merged(&mut pieces, left));
            if let Some(mut middle) = middle {
                middle.references = references(middle.references);
                match middle.references {
                    0 => freed.push(middle.extent),
                    _ => push_merged(&mut pieces, middle),
                }
            }
            right.into_iter().for_each(|right| push_merged(&mut pieces, right));
        }
        self.counted.splice(around, pieces);
        Ok(freed)
    }

    /// Checks that `first..last`, all of which touch `extent`, cover it.
    fn check_counted(&self, extent: Extent, first: usize, last: usize) -> Result<(), SharedError> {
        let mut missing = extent.start;
        for counted in self.counted.get(first..last).unwrap_or_default() {
            if counted.extent.start > missing {
                break;
            }
            missing = counted.extent.end();
        }
        if missing >= extent.end() {
            return Ok(());
        }
        Err(SharedError::NotCounted { start: extent.start, end: extent.end(), missing })
    }
}

fn is_continued(counted: &Counted, next: &Counted) -> bool {
    counted.extent.end() == next.extent.start && counted.references == next.references
}

fn push_merged(pieces: &mut Pieces, next: Counted) {
    match pieces.last_mut() {
        Some(last) if is_continued(last, &next) => last.extent.count += next.extent.count,
        _ => pieces.push(next),
    }
}

/// Parts before, within and after `extent`.
fn cut(counted: &Counted, extent: Extent) -> (Option<Counted>, Option<Counted>, Option<Counted>) {
    let (start, end) = (counted.extent.start, counted.extent.end());
    let part = |from: u64, to: u64| {
        let part = || Counted { extent: Extent::new(from, to - from), ..*counted };
        (from < to).then(part)
    };
    let left = part(start, end.min(extent.start));
    let middle = part(start.max(extent.start), end.min(extent.end()));
    (left, middle, part(start.max(extent.end()), end))
}

fn take_counted(r: &mut Reader<'_>, expected: u64) -> Result<Counted> {
    let at = *r;
    let distance = varint::take(r, "extent's place")?;
    let count = varint::take(r, "extent's length")?;
    let end = expected.checked_add(distance).and_then(|start| start.checked_add(count));
    if count == 0 || end.is_none_or(|end| end > PHYSICAL_END) {
        return Err(at.invalid("extent", distance));
    }
    let at = *r;
    let references = varint::take(r, "references")?;
    if references == 0 || references > REFERENCES_MAX {
        return Err(at.invalid("references", references));
    }
    Ok(Counted { extent: Extent::new(expected + distance, count), references })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BLOCKS: u64 = 40;

    fn any_extent() -> impl Strategy<Value = Extent> {
        (0..BLOCKS, 1..BLOCKS)
            .prop_map(|(start, count)| Extent::new(start, count.min(BLOCKS - start)))
    }

    /// Two references to every third of some random extents, then additions and reductions.
    fn any_history() -> impl Strategy<Value = (Vec<Extent>, Vec<(bool, Extent)>)> {
        let cuts = prop::collection::btree_set(0..BLOCKS, 2..12);
        let extents = cuts.prop_map(|cuts| {
            let cuts: Vec<u64> = cuts.into_iter().collect();
            let kept = cuts.windows(2).enumerate().filter(|(i, _)| i % 3 != 2);
            kept.map(|(_, pair)| Extent::new(pair[0], pair[1] - pair[0])).rev().collect()
        });
        (extents, prop::collection::vec((any::<bool>(), any_extent()), 0..24))
    }

    fn references(shared: &SharedExtents) -> [u64; BLOCKS as usize] {
        let mut counts = [0; BLOCKS as usize];
        for Counted { extent, references } in shared.iter() {
            counts[extent.start as usize..extent.end() as usize].fill(references);
        }
        counts
    }

    fn result_of(history: &(Vec<Extent>, Vec<(bool, Extent)>)) -> SharedExtents {
        let mut shared = SharedExtents::new(history.0.iter().copied(), 2).unwrap();
        for (is_add, extent) in &history.1 {
            let _ = if *is_add { shared.add(*extent) } else { shared.reduce(*extent).map(|_| ()) };
        }
        shared
    }

    proptest! {
        #[test]
        fn references_behave_as_one_count_per_block((extents, steps) in any_history()) {
            let mut shared = SharedExtents::new(extents, 2).unwrap();
            for (is_add, extent) in steps {
                let mut model = references(&shared);
                let blocks = extent.start as usize..extent.end() as usize;
                let is_counted = model[blocks.clone()].iter().all(|&count| count > 0);
                if is_add {
                    prop_assert_eq!(shared.add(extent).is_ok(), is_counted);
                } else if let Ok(freed) = shared.reduce(extent) {
                    prop_assert!(is_counted);
                    let freed = freed.iter().flat_map(|extent| extent.start..extent.end());
                    let expected = (extent.start..extent.end()).filter(|&b| model[b as usize] == 1);
                    prop_assert!(freed.eq(expected));
                } else {
                    prop_assert!(!is_counted);
                }
                if is_counted {
                    let change = if is_add { 1 } else { -1 };
                    model[blocks].iter_mut().for_each(|c| *c = c.wrapping_add_signed(change));
                }
                shared.check_invariants();
                prop_assert_eq!(references(&shared), model);
            }
        }

        #[test]
        fn encodings_round_trip_and_truncations_are_errors(history in any_history()) {
            let shared = result_of(&history);
            let bytes = shared.encode();
            prop_assert_eq!(SharedExtents::decode(&bytes).unwrap(), shared);
            for end in 0..bytes.len() {
                prop_assert!(SharedExtents::decode(&bytes[..end]).is_err());
            }
        }

        #[test]
        fn decodable_values_are_valid_and_encode_to_the_same_bytes(
            history in any_history(), at: prop::sample::Index, bit in 0u8..8
        ) {
            let mut bytes = result_of(&history).encode().to_vec();
            let at = at.index(bytes.len());
            bytes[at] ^= 1 << bit;
            if let Ok(shared) = SharedExtents::decode(&bytes) {
                shared.check_invariants();
                prop_assert_eq!(&shared.encode()[..], &bytes[..]);
            }
        }

        #[test]
        fn no_bytes_make_decoding_panic(raw in prop::collection::vec(any::<u8>(), 0..40)) {
            let _ = SharedExtents::decode(&[&[VERSION], &raw[..]].concat());
        }
    }

    #[test]
    fn the_bytes_are_those_of_the_format() {
        let mut shared = SharedExtents::new([Extent::new(500, 3), Extent::new(100, 8)], 2).unwrap();
        shared.add(Extent::new(100, 2)).unwrap();
        let golden = [1, 3, 100, 2, 3, 0, 6, 2, 0x88, 3, 3, 2];
        assert_eq!(&shared.encode()[..], golden);
    }

    #[test]
    fn contradictions_are_named_and_change_nothing() {
        let mut shared = SharedExtents::new([Extent::new(10, 4)], 2).unwrap();
        let error = shared.reduce(Extent::new(12, 4)).unwrap_err();
        let text = "blocks 12..16 are mapped as shared, but block 14 has no references";
        assert_eq!(error.to_string(), text);
        assert_eq!(shared, SharedExtents::new([Extent::new(10, 4)], 2).unwrap());
        let error = SharedExtents::new([Extent::new(10, 4), Extent::new(13, 1)], 2).unwrap_err();
        assert_eq!(error, SharedError::Overlap { block: 13 });
    }
}
