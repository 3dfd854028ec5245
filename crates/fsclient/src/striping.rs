//! Objects of a file: units of a stripe lie in the objects of a set in turn, as Ceph's documentation of file
//! layouts says.

use bytes::Bytes;
use rados::Place;
use wire::FileLayout;

/// A part of a range of a file that lies in one object without a gap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Extent {
    /// Number of the object.
    pub(crate) object: u64,
    /// Where it begins in the object.
    pub(crate) offset: u64,
    /// Bytes.
    pub(crate) length: u64,
    /// Where it begins in the range.
    pub(crate) at: u64,
}

/// The object with an offset of a file, and the offset in it.
pub(crate) fn locate(layout: &FileLayout, offset: u64) -> (u64, u64) {
    let unit = u64::from(layout.stripe_unit.max(1));
    let count = u64::from(layout.stripe_count.max(1));
    let units = (u64::from(layout.object_size) / unit).max(1);
    let (block, within) = (offset / unit, offset % unit);
    let (stripe, position) = (block / count, block % count);
    let object = stripe / units * count + position;
    (object, stripe % units * unit + within)
}

/// The extents of a range, in order.
pub(crate) fn extents(layout: &FileLayout, offset: u64, length: u64) -> Vec<Extent> {
    let unit = u64::from(layout.stripe_unit.max(1));
    let mut extents: Vec<Extent> = Vec::new();
    let mut at = 0;
    while at < length {
        let (object, within) = locate(layout, offset + at);
        let piece = (unit - (offset + at) % unit).min(length - at);
        match extents.last_mut() {
            Some(last) if last.object == object && last.offset + last.length == within => {
                last.length += piece;
            }
            _ => extents.push(Extent { object, offset: within, length: piece, at }),
        }
        at += piece;
    }
    extents
}

/// An object of a file.
pub(crate) fn place(layout: &FileLayout, ino: u64, object: u64) -> Place {
    let place = Place::new(layout.pool, Bytes::from(format!("{ino:x}.{object:08x}")));
    Place { namespace: Bytes::from(layout.namespace.clone()), ..place }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::PoolId;

    fn layout(stripe_unit: u32, stripe_count: u32, object_size: u32) -> FileLayout {
        let namespace = String::new();
        FileLayout { stripe_unit, stripe_count, object_size, pool: PoolId(1), namespace }
    }

    #[test]
    fn objects_of_one_unit_follow_each_other() {
        let layout = layout(4, 1, 4);
        let extent = |object, offset, length, at| Extent { object, offset, length, at };
        assert_eq!(
            extents(&layout, 2, 7),
            [extent(0, 2, 2, 0), extent(1, 0, 4, 2), extent(2, 0, 1, 6)]
        );
        assert_eq!(extents(&layout, 2, 0), []);
    }

    #[test]
    fn units_of_a_stripe_lie_in_the_objects_of_a_set_in_turn() {
        // Two units in an object, three objects in a set.
        let layout = layout(2, 3, 4);
        let objects: Vec<(u64, u64)> =
            (0..16).step_by(2).map(|offset| locate(&layout, offset)).collect();
        let expected = [(0, 0), (1, 0), (2, 0), (0, 2), (1, 2), (2, 2), (3, 0), (4, 0)];
        assert_eq!(objects, expected);
        assert_eq!(locate(&layout, 7), (0, 3));
    }

    #[test]
    fn the_extents_of_a_range_cover_it_once() {
        let layout = layout(3, 2, 6);
        for (offset, length) in [(0, 20), (1, 11), (5, 1), (17, 30)] {
            let all = extents(&layout, offset, length);
            let mut next = 0;
            for extent in all {
                assert_eq!(extent.at, next);
                assert_eq!(locate(&layout, offset + next), (extent.object, extent.offset));
                next += extent.length;
            }
            assert_eq!(next, length);
        }
    }
}
