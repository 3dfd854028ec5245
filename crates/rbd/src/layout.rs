//! Mapping of an image's bytes to objects (striping).
//!
//! Stripe units are distributed round robin over a set of objects until those are full, then over the next
//! set. With the usual stripe count of one, an object is a contiguous part of the image.

use std::ops::Range;

/// A part of an object, and its offset in the request's buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Number of the data object.
    pub object: u64,
    /// Bytes from the beginning of the object.
    pub offset: u64,
    /// Length in bytes, within one object.
    pub length: u64,
    /// Bytes from the beginning of the request's buffer.
    pub buffer_offset: u64,
}

/// Mapping of an image's bytes to objects: object size, stripe unit and stripe count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    object_size: u64,
    stripe_unit: u64,
    stripe_count: u64,
}

impl Layout {
    /// `None` if the numbers are inconsistent.
    pub fn new(order: u8, stripe_unit: u64, stripe_count: u64) -> Option<Self> {
        let object_size = 1u64.checked_shl(order.into())?;
        let fits = stripe_unit > 0
            && stripe_count > 0
            && object_size.is_multiple_of(stripe_unit)
            && object_size.checked_mul(stripe_count).is_some();
        fits.then_some(Layout { object_size, stripe_unit, stripe_count })
    }

    /// No striping: each object is a contiguous part of the image.
    pub fn plain(order: u8) -> Option<Self> {
        Self::new(order, 1u64.checked_shl(order.into())?, 1)
    }

    /// Size of an object in bytes.
    pub fn object_size(&self) -> u64 {
        self.object_size
    }

    /// Bytes that lie consecutively in one object; the object size if the image is not striped.
    pub fn stripe_unit(&self) -> u64 {
        self.stripe_unit
    }

    /// Number of objects over which stripe units are distributed.
    pub fn stripe_count(&self) -> u64 {
        self.stripe_count
    }

    fn set_size(&self) -> u64 {
        self.object_size * self.stripe_count
    }

    /// Number of objects of an image of this size.
    pub fn objects(&self, size: u64) -> u64 {
        let (whole, rest) = (size / self.set_size(), size % self.set_size());
        // The last set has one object per unit until all of the set's objects are in use.
        whole * self.stripe_count + rest.div_ceil(self.stripe_unit).min(self.stripe_count)
    }

    /// Length in bytes of an object in an image of this size.
    pub fn object_length(&self, object: u64, size: u64) -> u64 {
        let (set, place) = (object / self.stripe_count, object % self.stripe_count);
        let rest = size.saturating_sub(set * self.set_size()).min(self.set_size());
        let (units, tail) = (rest / self.stripe_unit, rest % self.stripe_unit);
        let (rounds, odd) = (units / self.stripe_count, units % self.stripe_count);
        let last = match place {
            place if place < odd => self.stripe_unit,
            place if place == odd => tail,
            _ => 0,
        };
        rounds * self.stripe_unit + last
    }

    /// The extents of a range, in the order of the image. Adjacent bytes of one object make one extent.
    pub fn extents(&self, mut offset: u64, length: u64) -> impl Iterator<Item = Extent> + use<> {
        let layout = *self;
        let (begin, end) = (offset, offset + length);
        std::iter::from_fn(move || {
            if offset >= end {
                return None;
            }
            let buffer_offset = offset - begin;
            let (object, object_offset) = layout.locate(offset);
            let run = match layout.stripe_count {
                1 => layout.object_size - object_offset,
                _ => layout.stripe_unit - offset % layout.stripe_unit,
            };
            let length = run.min(end - offset);
            offset += length;
            Some(Extent { object, offset: object_offset, length, buffer_offset })
        })
    }

    /// The ranges of the image that a part of an object holds, in the order of both.
    pub fn ranges(
        &self,
        object: u64,
        mut offset: u64,
        length: u64,
    ) -> impl Iterator<Item = Range<u64>> + use<> {
        let layout = *self;
        let end = offset + length;
        std::iter::from_fn(move || {
            if offset >= end {
                return None;
            }
            let start = layout.place_in_image(object, offset);
            let run = match layout.stripe_count {
                1 => layout.object_size - offset,
                _ => layout.stripe_unit - offset % layout.stripe_unit,
            };
            let length = run.min(end - offset);
            offset += length;
            Some(start..start + length)
        })
    }

    fn place_in_image(&self, object: u64, offset: u64) -> u64 {
        let (set, place) = (object / self.stripe_count, object % self.stripe_count);
        let (round, in_unit) = (offset / self.stripe_unit, offset % self.stripe_unit);
        set * self.set_size() + (round * self.stripe_count + place) * self.stripe_unit + in_unit
    }

    fn locate(&self, offset: u64) -> (u64, u64) {
        let (set, in_set) = (offset / self.set_size(), offset % self.set_size());
        let (unit, in_unit) = (in_set / self.stripe_unit, in_set % self.stripe_unit);
        let (round, place) = (unit / self.stripe_count, unit % self.stripe_count);
        (set * self.stripe_count + place, round * self.stripe_unit + in_unit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_range_is_cut_at_objects() {
        let layout = Layout::plain(12).unwrap();
        let extents: Vec<Extent> = layout.extents(4000, 200).collect();
        let first = Extent { object: 0, offset: 4000, length: 96, buffer_offset: 0 };
        let second = Extent { object: 1, offset: 0, length: 104, buffer_offset: 96 };
        assert_eq!(extents, [first, second]);
        assert_eq!((layout.objects(0), layout.objects(1), layout.objects(4097)), (0, 1, 2));
    }

    #[test]
    fn numbers_that_do_not_fit_are_refused() {
        assert!(Layout::new(12, 0, 1).is_none() && Layout::new(12, 3000, 1).is_none());
        assert!(Layout::new(64, 4096, 1).is_none() && Layout::new(60, 4096, u64::MAX).is_none());
    }

    proptest! {
        /// Each byte of an image has its own place, objects have no holes, and their number and lengths agree
        /// with the functions.
        #[test]
        fn bytes_have_places_of_their_own(unit_shift in 0u8..4, count in 1u64..5, size in 0u64..300) {
            let layout = Layout::new(4, 1 << unit_shift, count).unwrap();
            let mut places = BTreeSet::new();
            for extent in layout.extents(0, size) {
                for byte in extent.offset..extent.offset + extent.length {
                    prop_assert!(places.insert((extent.object, byte)));
                }
            }
            for extent in layout.extents(0, size) {
                let ranges: Vec<_> = layout.ranges(extent.object, extent.offset, extent.length).collect();
                let mut at = extent.buffer_offset;
                for range in ranges {
                    prop_assert_eq!(range.start, at);
                    at = range.end;
                }
                prop_assert_eq!(at, extent.buffer_offset + extent.length);
            }
            prop_assert_eq!(places.len() as u64, size);
            let objects: BTreeSet<u64> = places.iter().map(|(object, _)| *object).collect();
            prop_assert_eq!(objects.len() as u64, layout.objects(size));
            for object in 0..layout.objects(size) + 2 {
                let length = places.iter().filter(|(at, _)| *at == object).count() as u64;
                prop_assert_eq!(length, layout.object_length(object, size));
            }
        }
    }
}
