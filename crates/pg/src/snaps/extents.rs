//! Ranges of an object's data.

use codec::{Decode, Encode, Reader, Result, Writer};

/// Disjoint ranges that are not empty and do not touch, ascending, as (offset, length).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Extents(Vec<(u64, u64)>);

impl Extents {
    /// All of an object of this size.
    pub fn whole(size: u64) -> Self {
        Extents(if size == 0 { Vec::new() } else { vec![(0, size)] })
    }

    /// Offsets and lengths in bytes, in order.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.0.iter().copied()
    }

    /// Offsets and lengths in bytes, in order.
    pub fn to_vec(&self) -> Vec<(u64, u64)> {
        self.0.clone()
    }

    /// Sum of the lengths.
    pub fn bytes(&self) -> u64 {
        self.0.iter().map(|(_, length)| length).sum()
    }

    /// Whether any byte of `start..end` is in it.
    pub fn touches(&self, start: u64, end: u64) -> bool {
        let touches = |&(at, length): &(u64, u64)| at < end && at.saturating_add(length) > start;
        start < end && self.0.iter().any(touches)
    }

    /// Removes `start..end`.
    pub fn remove(&mut self, start: u64, end: u64) {
        if !self.touches(start, end) {
            return;
        }
        let parts = self.0.iter().flat_map(|&(at, length)| {
            let last = at.saturating_add(length);
            [(at, last.min(start)), (at.max(end), last)]
        });
        self.0 = parts.filter(|(a, b)| a < b).map(|(a, b)| (a, b - a)).collect();
    }

    /// Keeps only the ranges that are in both.
    pub fn intersect(&mut self, other: &Extents) {
        let mut common = Vec::new();
        let (mut own, mut others) = (self.0.iter().peekable(), other.0.iter().peekable());
        while let (Some(&&(a, a_length)), Some(&&(b, b_length))) = (own.peek(), others.peek()) {
            let (a_end, b_end) = (a.saturating_add(a_length), b.saturating_add(b_length));
            let (first, last) = (a.max(b), a_end.min(b_end));
            if first < last {
                common.push((first, last - first));
            }
            match a_end < b_end {
                true => own.next(),
                false => others.next(),
            };
        }
        assert!(common.iter().all(|(_, length)| *length > 0), "ranges are not empty");
        self.0 = common;
    }

    /// The ranges of `0..end` that are not in it.
    pub fn gaps(&self, end: u64) -> Extents {
        let mut gaps = Extents::whole(end);
        self.iter().for_each(|(at, length)| gaps.remove(at, at.saturating_add(length)));
        gaps
    }
}

impl Encode for Extents {
    fn encode(&self, w: &mut Writer) {
        w.list(&self.0, |w, (offset, length)| {
            w.u64(*offset);
            w.u64(*length);
        });
    }
}

impl Decode for Extents {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let ranges = r.list("extents", |r| Ok((r.u64("offset")?, r.u64("length")?)))?;
        Ok(Extents(ranges))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    const SIZE: u64 = 24;

    fn bytes_of(extents: &Extents) -> BTreeSet<u64> {
        extents.iter().flat_map(|(at, length)| at..at + length).collect()
    }

    /// `0..SIZE` without the holes.
    fn without(holes: &[(u64, u64)]) -> Extents {
        let mut extents = Extents::whole(SIZE);
        holes.iter().for_each(|(start, length)| extents.remove(*start, start + length));
        extents
    }

    fn holes() -> impl Strategy<Value = Vec<(u64, u64)>> {
        prop::collection::vec((0..SIZE + 4, 0u64..8), 0..6)
    }

    proptest! {
        #[test]
        fn extents_behave_like_sets_of_bytes(a in holes(), b in holes()) {
            let punched: BTreeSet<u64> = a.iter().flat_map(|(at, length)| *at..at + length).collect();
            let (a, b) = (without(&a), without(&b));
            let expected: BTreeSet<u64> = (0..SIZE).filter(|at| !punched.contains(at)).collect();
            prop_assert_eq!(bytes_of(&a), expected);
            let mut both = a.clone();
            both.intersect(&b);
            prop_assert_eq!(bytes_of(&both), &bytes_of(&a) & &bytes_of(&b));
            prop_assert_eq!(bytes_of(&a.gaps(SIZE)), &(0..SIZE).collect() - &bytes_of(&a));
            prop_assert_eq!(both.bytes(), bytes_of(&both).len() as u64);
            let bytes = codec::encode_to_bytes(&both);
            prop_assert_eq!(codec::decode_all::<Extents>("extents", &bytes).unwrap(), both);
        }
    }
}
