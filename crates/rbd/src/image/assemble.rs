//! Assembles the results of a request's accesses in the order of the image.

use super::request::Piece;
use crate::Extent;
use bytes::Bytes;

/// Result of an access to one extent.
#[derive(Debug, Clone)]
pub(super) enum AccessResult {
    /// A write, or a read of an object that does not exist.
    Nothing,
    Data(Bytes),
    /// Offsets in the object and lengths of its data.
    Extents(Vec<(u64, u64)>),
    /// Data of the parent, from the beginning of the extent.
    Parts(Parts),
}

/// Extents in the order of the image, with their results.
pub(super) type Parts = Vec<(Extent, AccessResult)>;

#[derive(Debug, Default)]
struct Pieces {
    pieces: Vec<Piece>,
    zeros: u64,
}

impl Pieces {
    fn add_zeros(&mut self, length: u64) {
        self.zeros += length;
    }

    fn add_data(&mut self, data: Bytes) {
        if data.is_empty() {
            return;
        }
        self.end_zeros();
        self.pieces.push(Piece::Data(data));
    }

    fn end_zeros(&mut self) {
        if self.zeros > 0 {
            self.pieces.push(Piece::Zeros(std::mem::take(&mut self.zeros)));
        }
    }

    /// Reads end at the last data of an object; the rest of the extent, and all of a missing object, is
    /// zeros.
    fn add(&mut self, extent: Extent, found: AccessResult) {
        let length = match found {
            AccessResult::Data(mut data) => {
                data.truncate(extent.length as usize);
                let length = data.len() as u64;
                self.add_data(data);
                length
            }
            AccessResult::Parts(parts) => {
                let length = total(&parts);
                parts.into_iter().for_each(|(extent, found)| self.add(extent, found));
                length
            }
            AccessResult::Nothing | AccessResult::Extents(_) => 0,
        };
        self.add_zeros(extent.length - length);
    }
}

fn total(parts: &Parts) -> u64 {
    parts.iter().map(|(extent, _)| extent.length).sum()
}

pub(super) fn pieces(parts: impl Iterator<Item = (Extent, AccessResult)>) -> Vec<Piece> {
    let mut all = Pieces::default();
    parts.for_each(|(extent, found)| all.add(extent, found));
    all.end_zeros();
    all.pieces
}

#[derive(Debug, Default)]
struct Map(Vec<(u64, bool)>);

impl Map {
    fn push(&mut self, length: u64, is_data: bool) {
        match self.0.last_mut() {
            _ if length == 0 => {}
            Some((last, same)) if *same == is_data => *last += length,
            _ => self.0.push((length, is_data)),
        }
    }

    fn add(&mut self, extent: Extent, found: AccessResult) {
        match found {
            AccessResult::Extents(extents) => self.add_extents(extent, extents),
            AccessResult::Parts(parts) => {
                let length = total(&parts);
                parts.into_iter().for_each(|(extent, found)| self.add(extent, found));
                self.push(extent.length - length, false);
            }
            AccessResult::Nothing | AccessResult::Data(_) => self.push(extent.length, false),
        }
    }

    fn add_extents(&mut self, extent: Extent, extents: Vec<(u64, u64)>) {
        let (mut at, end) = (extent.offset, extent.offset + extent.length);
        for (offset, length) in extents {
            let (start, stop) =
                (offset.clamp(at, end), offset.saturating_add(length).clamp(at, end));
            self.push(start - at, false);
            self.push(stop - start, true);
            at = stop;
        }
        self.push(end - at, false);
    }
}

/// Consecutive lengths, each with whether it holds data.
pub(super) fn map(parts: impl Iterator<Item = (Extent, AccessResult)>) -> Vec<(u64, bool)> {
    let mut map = Map::default();
    parts.for_each(|(extent, found)| map.add(extent, found));
    map.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extent(offset: u64, length: u64) -> Extent {
        Extent { object: 0, offset, length, buffer_offset: 0 }
    }

    #[test]
    fn missing_parts_of_objects_read_as_zeros() {
        let parts = [
            (extent(0, 4), AccessResult::Nothing),
            (extent(0, 4), AccessResult::Data("ab".into())),
            (extent(0, 2), AccessResult::Nothing),
        ];
        let expected = [Piece::Zeros(4), Piece::Data("ab".into()), Piece::Zeros(4)];
        assert_eq!(pieces(parts.into_iter()), expected);
    }

    #[test]
    fn a_map_joins_equal_neighbours_and_ends_with_the_request() {
        let parts = [
            (extent(10, 10), AccessResult::Extents(vec![(0, 12), (18, 100)])),
            (extent(0, 5), AccessResult::Extents(vec![(0, 5)])),
            (extent(0, 5), AccessResult::Nothing),
        ];
        assert_eq!(map(parts.into_iter()), [(2, true), (6, false), (7, true), (5, false)]);
    }

    #[test]
    fn reads_behind_the_overlap_return_zeros() {
        let of_parent = |found| {
            AccessResult::Parts(vec![(extent(0, 3), found), (extent(9, 2), AccessResult::Nothing)])
        };
        let read = [(extent(100, 8), of_parent(AccessResult::Data("abc".into())))];
        assert_eq!(pieces(read.into_iter()), [Piece::Data("abc".into()), Piece::Zeros(5)]);
        let mapped = [(extent(100, 8), of_parent(AccessResult::Extents(vec![(1, 5)])))];
        assert_eq!(map(mapped.into_iter()), [(1, false), (2, true), (5, false)]);
    }
}
