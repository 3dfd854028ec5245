//! Objects of a file's data: their number, their names, and the part of a file that each has.

use bytes::Bytes;
use rados::Place;
use wire::FileLayout;

/// The first object that may have bytes from `bytes` on.
pub(crate) fn first(layout: &FileLayout, bytes: u64) -> u64 {
    (bytes / layout.period_bytes()).saturating_mul(layout.stripe_count.into())
}

/// Bytes that an object has of the first `bytes` of its file.
pub(crate) fn size_of(layout: &FileLayout, bytes: u64, object: u64) -> u64 {
    let [count, unit] = [layout.stripe_count, layout.stripe_unit].map(u64::from);
    let begin = (object / count).saturating_mul(layout.period_bytes());
    let rest = bytes.saturating_sub(begin).min(layout.period_bytes());
    let stripe = unit * count;
    let last = (rest % stripe).saturating_sub(object % count * unit).min(unit);
    rest / stripe * unit + last
}

/// The place of an object.
pub(crate) fn place(layout: &FileLayout, ino: u64, object: u64) -> Place {
    let name = Bytes::from(format!("{ino:x}.{object:08x}"));
    let namespace = Bytes::from(layout.namespace.clone());
    Place { namespace, ..Place::new(layout.pool, name) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::PoolId;

    #[test]
    fn objects_have_their_parts_of_a_file() {
        let plain = FileLayout::simple(PoolId(3));
        let sizes = |layout: &FileLayout, bytes| [0, 1, 2, 3].map(|at| size_of(layout, bytes, at));
        assert_eq!(sizes(&plain, 5 << 20), [4 << 20, 1 << 20, 0, 0]);
        assert_eq!((first(&plain, 4 << 20), plain.objects_below(5 << 20)), (1, 2));
        // Two objects of two units each, then the next two.
        let striped = FileLayout { stripe_unit: 10, stripe_count: 2, object_size: 20, ..plain };
        assert_eq!(sizes(&striped, 0), [0; 4]);
        assert_eq!(sizes(&striped, 13), [10, 3, 0, 0]);
        assert_eq!(sizes(&striped, 25), [15, 10, 0, 0]);
        assert_eq!(sizes(&striped, 40), [20, 20, 0, 0]);
        assert_eq!(sizes(&striped, 55), [20, 20, 10, 5]);
        assert_eq!([0, 39, 40].map(|at| first(&striped, at)), [0, 0, 2]);
        assert_eq!([0, 10, 11, 40, 41].map(|at| striped.objects_below(at)), [0, 1, 2, 2, 3]);
    }
}
