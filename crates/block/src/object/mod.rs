//! Object metadata: onodes, extent segments, and reference counts of shared blocks.
//!
//! An object's data is divided into blocks, and each [`SEGMENT_BLOCKS`] of them have one
//! [`ExtentSegment`]: for each mapped block its place on the device and its checksum. Up to
//! [`INLINE_SIZE_MAX`] the only segment is stored in the [`Onode`], so that a small object is one
//! pair of the tree. Runs that a clone refers to as well carry a shared id, under which
//! [`SharedExtents`] counts references.
//!
//! These are pure values: no tree, allocator or device is known here. Replaced or freed extents are
//! returned to the caller.
//!
//! Decoding is strict: each value has one encoding, and everything else is an error.

mod held;
mod onode;
mod run;
mod segment;
mod segment_encoding;
mod shared;
pub(crate) mod varint;

pub use held::HeldFields;
pub use onode::Onode;
pub use run::Run;
pub use segment::{ExtentSegment, Mapped, Piece, Pieces, Replaced};
pub use shared::{Counted, SharedError, SharedExtents};

use crate::device::BLOCK;
use std::ops::Range;

/// Blocks of an object that one extent segment maps.
pub const SEGMENT_BLOCKS: u64 = 64;

/// Bytes of an object that one extent segment maps.
pub const SEGMENT_SIZE: u64 = SEGMENT_BLOCKS * BLOCK as u64;

/// Objects up to this size in bytes keep their extent segment in the onode.
pub const INLINE_SIZE_MAX: u64 = 64 << 10;

/// Blocks that an inline extent segment may map.
pub const INLINE_BLOCKS: u64 = INLINE_SIZE_MAX / BLOCK as u64;

/// Maximum size of an object in bytes: extent segments have 32-bit numbers.
pub const OBJECT_SIZE_MAX: u64 = SEGMENT_SIZE << 32;

/// First block beyond any device: byte addresses have 64 bits.
pub const PHYSICAL_END: u64 = 1 << (64 - BLOCK.trailing_zeros());

/// Cuts a range of an object's blocks at the borders of extent segments: index of the segment, and
/// blocks within it.
pub fn by_segment(blocks: Range<u64>) -> impl Iterator<Item = (u32, Range<u64>)> {
    assert!(blocks.end <= OBJECT_SIZE_MAX / BLOCK as u64, "blocks {blocks:?}");
    let first = blocks.start / SEGMENT_BLOCKS;
    let last = if blocks.is_empty() { first } else { blocks.end.div_ceil(SEGMENT_BLOCKS) };
    (first..last).map(move |index| {
        let base = index * SEGMENT_BLOCKS;
        let start = blocks.start.max(base) - base;
        let end = blocks.end.min(base + SEGMENT_BLOCKS) - base;
        (index as u32, start..end)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_cut_at_the_borders_of_segments() {
        let cut = |blocks| by_segment(blocks).collect::<Vec<_>>();
        assert_eq!(cut(5..5), []);
        assert_eq!(cut(64..64), []);
        assert_eq!(cut(3..64), [(0, 3..64)]);
        assert_eq!(cut(63..129), [(0, 63..64), (1, 0..64), (2, 0..1)]);
        let last = OBJECT_SIZE_MAX / BLOCK as u64;
        assert_eq!(cut(last - 1..last), [(u32::MAX, 63..64)]);
    }
}
