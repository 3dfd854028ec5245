//! Lists of disjoint extents.

use crate::device::Extent;
use smallvec::SmallVec;

/// Ascending extents, none adjacent to the next.
pub type Extents = SmallVec<[Extent; 4]>;

/// Appends an extent, merging it with the last one if adjacent.
pub(super) fn append(extents: &mut Extents, extent: Extent) {
    match extents.last_mut() {
        Some(last) if last.end() == extent.start => last.count += extent.count,
        _ => extents.push(extent),
    }
}

/// Sorts disjoint extents and merges adjacent ones.
pub(super) fn join(extents: &mut Extents) {
    if extents.len() < 2 {
        return;
    }
    extents.sort_unstable_by_key(|extent| extent.start);
    extents.dedup_by(|next, last| {
        let touching = last.end() == next.start;
        if touching {
            last.count += next.count;
        }
        touching
    });
}
