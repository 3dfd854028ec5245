//! Places of an object's bytes in its shards.
//!
//! An object is divided into stripes of one chunk for each data shard. A shard keeps its chunks one after
//! another, in whole rows; bytes behind the end of the object are zeros.

use crate::ErasureLayout;

/// Bytes of a row: the unit of reads, of parity, and of held changes. One block of a store.
pub const ROW: u64 = 4096;

/// The arithmetic of a layout. The stripe unit is a multiple of [`ROW`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Geometry {
    data: u64,
    parity: u64,
    unit: u64,
}

/// The part of a range that lies in one chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Piece {
    /// The data shard.
    pub position: usize,
    /// Offset in the shard.
    pub at: u64,
    /// Offset in the object.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
}

impl Geometry {
    /// `None` if the stripe unit does not consist of rows.
    pub fn new(layout: &ErasureLayout) -> Option<Self> {
        let unit = u64::from(layout.unit);
        let is_valid = layout.data > 0 && unit > 0 && unit.is_multiple_of(ROW);
        is_valid.then(|| Geometry { data: layout.data.into(), parity: layout.parity.into(), unit })
    }

    /// Data shards.
    pub fn data(self) -> usize {
        self.data as usize
    }

    /// All shards.
    pub fn shards(self) -> usize {
        (self.data + self.parity) as usize
    }

    /// Bytes of a stripe, without parity.
    pub fn stripe(self) -> u64 {
        self.data * self.unit
    }

    /// Bytes of a chunk.
    pub fn unit(self) -> u64 {
        self.unit
    }

    /// Rows of a chunk.
    pub fn unit_rows(self) -> u64 {
        self.unit / ROW
    }

    /// Bytes of a shard of an object of this size: whole rows.
    pub fn shard_len(self, size: u64, position: usize) -> u64 {
        assert!(position < self.shards(), "shards have positions");
        let (full, rest) = (size / self.stripe(), size % self.stripe());
        let before = self.unit * (position as u64).min(self.data);
        let part = match position < self.data() {
            true => rest.saturating_sub(before).min(self.unit),
            false => rest.min(self.unit),
        };
        (full * self.unit + part).next_multiple_of(ROW)
    }

    /// The offset in the object of the first byte of a row of a data shard.
    pub fn row_offset(self, position: usize, row: u64) -> u64 {
        assert!(position < self.data(), "only data shards have places in the object");
        let (stripe, within) = (row / self.unit_rows(), row % self.unit_rows());
        stripe * self.stripe() + position as u64 * self.unit + within * ROW
    }

    /// The pieces of a range, in order.
    pub fn pieces(self, offset: u64, length: u64) -> impl Iterator<Item = Piece> {
        let end = offset.checked_add(length).expect("ranges of objects are bounded");
        let mut next = offset;
        std::iter::from_fn(move || {
            let (stripe, within) = (next / self.stripe(), next % self.stripe());
            let (position, skip) = (within / self.unit, within % self.unit);
            let length = (self.unit - skip).min(end - next);
            let at = stripe * self.unit + skip;
            let piece = Piece { position: position as usize, at, offset: next, length };
            next += length;
            (length > 0).then_some(piece)
        })
    }

    /// The pieces of a range, cut at rows as well, in order.
    pub fn row_pieces(self, offset: u64, length: u64) -> impl Iterator<Item = Piece> {
        self.pieces(offset, length).flat_map(|piece| {
            let mut rest = piece;
            std::iter::from_fn(move || {
                let length = (ROW - rest.at % ROW).min(rest.length);
                let next = Piece { length, ..rest };
                (rest.at, rest.offset) = (rest.at + length, rest.offset + length);
                rest.length -= length;
                (length > 0).then_some(next)
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErasureCode;

    fn geometry(data: u8, parity: u8, unit: u32) -> Geometry {
        let code = ErasureCode::IsaVandermonde;
        Geometry::new(&ErasureLayout { data, parity, unit, code }).unwrap()
    }

    #[test]
    fn a_unit_consists_of_rows() {
        for (unit, is_valid) in [(0, false), (4096, true), (6144, false), (16384, true)] {
            let code = ErasureCode::IsaCauchy;
            let layout = ErasureLayout { data: 2, parity: 1, unit, code };
            assert_eq!(Geometry::new(&layout).is_some(), is_valid, "{unit}");
        }
    }

    /// Each byte of objects of many sizes lies where a walk through chunks finds it.
    #[test]
    fn places_follow_from_walking_through_the_chunks() {
        for (data, unit) in [(1, 4096), (2, 4096), (3, 8192), (4, 16384)] {
            let geometry = geometry(data, 2, unit);
            for size in (0..200_000u64).step_by(1777) {
                let mut lens = vec![0u64; geometry.shards()];
                for piece in geometry.row_pieces(0, size) {
                    assert_eq!(piece.at, lens[piece.position], "chunks follow each other");
                    let row = geometry.row_offset(piece.position, piece.at / ROW);
                    assert_eq!(row + piece.at % ROW, piece.offset);
                    assert!(piece.at % ROW + piece.length <= ROW, "a piece lies in one row");
                    lens[piece.position] += piece.length;
                }
                assert_eq!(lens.iter().sum::<u64>(), size);
                let longest = lens.iter().copied().max().unwrap();
                lens[usize::from(data)..].fill(longest);
                for (position, len) in lens.iter().enumerate() {
                    let rows = geometry.shard_len(size, position);
                    assert_eq!(rows, len.next_multiple_of(ROW), "{position} of {size}");
                }
            }
        }
    }

    #[test]
    fn pieces_begin_and_end_anywhere() {
        let geometry = geometry(2, 1, 8192);
        let pieces: Vec<_> = geometry.pieces(5000, 13_000).collect();
        let piece = |position, at, offset, length| Piece { position, at, offset, length };
        let expected =
            [piece(0, 5000, 5000, 3192), piece(1, 0, 8192, 8192), piece(0, 8192, 16384, 1616)];
        assert_eq!(pieces, expected);
        assert_eq!(geometry.pieces(5000, 0).count(), 0);
        let whole: u64 = geometry.row_pieces(5000, 13_000).map(|piece| piece.length).sum();
        assert_eq!(whole, 13_000);
    }
}
