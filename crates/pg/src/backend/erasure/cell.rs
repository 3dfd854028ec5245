//! The new content of one row of one data shard, as far as a write determines it.

use super::geometry::ROW;
use bytes::{Bytes, BytesMut};
use std::ops::Range;

const ROW_LEN: usize = ROW as usize;

/// A row's new content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Cell {
    /// All of it.
    Whole(Bytes),
    /// These parts of it; the rest is as before.
    Part(Part),
}

/// Bytes of a row of which only some are known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Part {
    content: BytesMut,
    /// Disjoint and ascending; bytes outside of them are zero in `content`.
    known: Vec<Range<usize>>,
}

impl Cell {
    /// A row of zeros.
    pub fn zeros() -> Self {
        Cell::Whole(zero_row())
    }

    /// Changes bytes of a row whose content before is `base`, or all zeros if `is_absent`.
    pub fn edit(base: Option<Cell>, is_absent: bool, at: usize, data: &Bytes) -> Self {
        assert!(at + data.len() <= ROW_LEN, "an edit lies in one row");
        if data.len() == ROW_LEN {
            return Cell::Whole(data.clone());
        }
        match base {
            Some(Cell::Part(mut part)) => {
                part.edit(at, data);
                part.simplified()
            }
            Some(Cell::Whole(content)) => Cell::Whole(overwritten(&content, at, data)),
            None if is_absent => Cell::Whole(overwritten(&zero_row(), at, data)),
            None => {
                let mut part = Part { content: BytesMut::zeroed(ROW_LEN), known: Vec::new() };
                part.edit(at, data);
                part.simplified()
            }
        }
    }

    /// Whether the old content is needed to know all of it.
    pub fn is_part(&self) -> bool {
        matches!(self, Cell::Part(_))
    }

    /// The new content, given the old one.
    pub fn resolve(&self, old: &Bytes) -> Bytes {
        assert_eq!(old.len(), ROW_LEN, "rows are read whole");
        match self {
            Cell::Whole(content) => content.clone(),
            Cell::Part(part) => part.over(old),
        }
    }
}

impl Part {
    fn edit(&mut self, at: usize, data: &[u8]) {
        let end = at + data.len();
        self.content[at..end].copy_from_slice(data);
        let mut merged = at..end;
        self.known.retain(|range| {
            let is_apart = range.end < merged.start || merged.end < range.start;
            if !is_apart {
                merged = range.start.min(merged.start)..range.end.max(merged.end);
            }
            is_apart
        });
        let place = self.known.partition_point(|range| range.start < merged.start);
        self.known.insert(place, merged);
    }

    fn simplified(self) -> Cell {
        match self.known.first() == Some(&(0..ROW_LEN)) {
            true => Cell::Whole(self.content.freeze()),
            false => Cell::Part(self),
        }
    }

    fn over(&self, old: &Bytes) -> Bytes {
        let mut content = BytesMut::from(&old[..]);
        for range in &self.known {
            content[range.clone()].copy_from_slice(&self.content[range.clone()]);
        }
        content.freeze()
    }
}

/// The content of a row that no shard has.
pub(crate) fn zero_row() -> Bytes {
    static ZEROS: [u8; ROW_LEN] = [0; ROW_LEN];
    Bytes::from_static(&ZEROS)
}

fn overwritten(content: &Bytes, at: usize, data: &[u8]) -> Bytes {
    let mut content = BytesMut::from(&content[..]);
    content[at..at + data.len()].copy_from_slice(data);
    content.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;
    use stdx::Prng;

    /// Random edits of a row, over old content and over none, against a plain array.
    #[test]
    fn edits_of_a_row_equal_those_of_an_array() {
        let mut rng = Prng::new(7);
        for _ in 0..300 {
            let is_absent = rng.below(2) == 0;
            let old: Bytes = match is_absent {
                true => zero_row(),
                false => (0..ROW_LEN).map(|_| rng.below(256) as u8).collect(),
            };
            let (mut expected, mut cell) = (old.to_vec(), None);
            for _ in 0..=rng.below(6) {
                let at = rng.below(ROW) as usize;
                let len = 1 + rng.below((ROW_LEN - at) as u64) as usize;
                let data: Bytes = (0..len).map(|_| rng.below(256) as u8).collect();
                expected[at..at + len].copy_from_slice(&data);
                cell = Some(Cell::edit(cell.take(), is_absent, at, &data));
            }
            let cell = cell.unwrap();
            assert!(!is_absent || !cell.is_part(), "nothing is read where nothing was");
            assert_eq!(cell.resolve(&old), expected);
        }
    }

    #[test]
    fn parts_that_cover_a_row_need_no_old_content() {
        let half = |byte| Bytes::from(vec![byte; ROW_LEN / 2]);
        let cell = Cell::edit(None, false, ROW_LEN / 2, &half(2));
        assert!(cell.is_part());
        let cell = Cell::edit(Some(cell), false, 0, &half(1));
        assert_eq!(cell, Cell::Whole([half(1), half(2)].concat().into()));
    }
}
