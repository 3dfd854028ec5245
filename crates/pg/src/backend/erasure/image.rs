//! The data of an object as a write leaves it: what the write determines, and what is as before.
//!
//! Whole stripes are kept as runs of shard data, other changes row by row. A row that the write does not
//! change is not here.

use super::cell::Cell;
use super::geometry::{Geometry, Piece, ROW};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::ops::Range;
use stdx::AlignedBuffer;

/// New content of whole stripes.
#[derive(Debug, Clone)]
pub(crate) struct Run {
    /// Rows behind the first.
    pub rows: u64,
    /// Content of each data shard; `None` for zeros.
    pub shards: Option<Vec<Bytes>>,
}

/// New content of a row, by data shard; `None` where it is as before.
pub(crate) type Row = Vec<Option<Cell>>;

/// The changes of one object's data. See the module.
#[derive(Debug, Clone)]
pub(crate) struct Image {
    geometry: Geometry,
    /// Size before the write.
    before: u64,
    /// Rows from here on were cut off on all shards: nothing is left of their old content.
    cut: u64,
    /// The smallest size that the write gave the object; the shards are cut to it first.
    low: u64,
    runs: BTreeMap<u64, Run>,
    rows: BTreeMap<u64, Row>,
}

impl Image {
    /// An object of this size, unchanged.
    pub fn new(geometry: Geometry, size: u64) -> Self {
        let (runs, rows) = (BTreeMap::new(), BTreeMap::new());
        Image { geometry, before: size, cut: u64::MAX, low: size, runs, rows }
    }

    /// Whether the write leaves all data as it was.
    pub fn is_unchanged(&self) -> bool {
        self.low == self.before && self.runs.is_empty() && self.rows.is_empty()
    }

    /// The size to which the shards are cut before rows are written; `None` if nothing is cut.
    pub fn cut_to(&self) -> Option<u64> {
        (self.low < self.before).then_some(self.low)
    }

    /// Whole stripes, by their first row.
    pub fn runs(&self) -> &BTreeMap<u64, Run> {
        &self.runs
    }

    /// Other changed rows.
    pub fn rows(&self) -> &BTreeMap<u64, Row> {
        &self.rows
    }

    /// Whether the old parity of a row contains content of this data shard.
    pub fn has_old(&self, position: usize, row: u64) -> bool {
        row < self.cut && self.geometry.row_offset(position, row) < self.before
    }

    /// Whether the row of a data shard is zero unless it is written: it was cut off, or never there.
    pub fn is_empty_before(&self, position: usize, row: u64) -> bool {
        self.geometry.row_offset(position, row) >= self.low
    }

    /// Writes data.
    pub fn write(&mut self, offset: u64, data: &Bytes) {
        let stripe = self.geometry.stripe();
        let end = offset + data.len() as u64;
        let (first, last) = (offset.next_multiple_of(stripe), end / stripe * stripe);
        let slice =
            |from: u64, to: u64| data.slice((from - offset) as usize..(to - offset) as usize);
        if first >= last {
            return self.edit(offset, data);
        }
        self.edit(offset, &slice(offset, first));
        let rows = first / stripe * self.geometry.unit_rows();
        let run = self.run_of(&slice(first, last));
        self.put_run(rows, run);
        self.edit(last, &slice(last, end));
    }

    /// Makes a range read as zeros. The object has this size and keeps it.
    pub fn zero(&mut self, offset: u64, length: u64, size: u64) {
        let stripe = self.geometry.stripe();
        // Bytes behind the end are zeros already.
        let end = match offset.saturating_add(length) {
            end if end >= size => size.next_multiple_of(stripe),
            end => end,
        };
        if offset >= end {
            return;
        }
        let (first, last) = (offset.next_multiple_of(stripe), end / stripe * stripe);
        if first >= last {
            return self.clear(offset, end);
        }
        self.clear(offset, first);
        let rows = (last - first) / stripe * self.geometry.unit_rows();
        self.put_run(first / stripe * self.geometry.unit_rows(), Run { rows, shards: None });
        self.clear(last, end);
    }

    /// Truncates or extends the object.
    pub fn truncate(&mut self, size: u64) {
        self.clear(size, size.next_multiple_of(self.geometry.stripe()));
        // No shard is longer than a parity.
        let row = self.geometry.shard_len(size, self.geometry.data()) / ROW;
        self.remove_runs(row..u64::MAX);
        self.rows.split_off(&row);
        if size < self.low {
            self.low = size;
            self.cut = self.cut.min(row);
        }
    }

    /// Writes zeros where there is content, row by row.
    fn clear(&mut self, offset: u64, end: u64) {
        for piece in self.geometry.row_pieces(offset, end - offset) {
            if self.has_content(piece.position, piece.at / ROW) {
                let zeros = Bytes::from_static(&[0; ROW as usize]);
                self.edit_row(&piece, &zeros.slice(..piece.length as usize));
            }
        }
    }

    /// Whether a row of a data shard may have bytes that are not zero.
    fn has_content(&self, position: usize, row: u64) -> bool {
        if let Some(cells) = self.rows.get(&row) {
            return cells[position].is_some() || self.has_old(position, row);
        }
        match self.run_at(row) {
            Some((_, run)) => run.shards.is_some(),
            None => self.has_old(position, row),
        }
    }

    fn edit(&mut self, offset: u64, data: &Bytes) {
        for piece in self.geometry.row_pieces(offset, data.len() as u64) {
            let from = (piece.offset - offset) as usize;
            self.edit_row(&piece, &data.slice(from..from + piece.length as usize));
        }
    }

    fn edit_row(&mut self, piece: &Piece, data: &Bytes) {
        let row = piece.at / ROW;
        let is_absent = !self.has_old(piece.position, row);
        if !self.rows.contains_key(&row) {
            let cells = self.cells_of_run(row);
            self.remove_runs(row..row + 1);
            self.rows.insert(row, cells);
        }
        let cells = self.rows.get_mut(&row).expect("it is there");
        let base = cells[piece.position].take();
        cells[piece.position] = Some(Cell::edit(base, is_absent, (piece.at % ROW) as usize, data));
    }

    /// The cells of a row as a run has them; all unchanged outside of runs.
    fn cells_of_run(&self, row: u64) -> Row {
        let data = self.geometry.data();
        match self.run_at(row) {
            None => vec![None; data],
            Some((_, Run { shards: None, .. })) => vec![Some(Cell::zeros()); data],
            Some((first, Run { shards: Some(shards), .. })) => {
                let at = ((row - first) * ROW) as usize;
                let cell = |shard: &Bytes| Some(Cell::Whole(shard.slice(at..at + ROW as usize)));
                shards.iter().map(cell).collect()
            }
        }
    }

    fn run_at(&self, row: u64) -> Option<(u64, &Run)> {
        let (first, run) = self.runs.range(..=row).next_back()?;
        (row - first < run.rows).then_some((*first, run))
    }

    /// The shards of whole stripes.
    fn run_of(&self, data: &Bytes) -> Run {
        let (stripe, unit) = (self.geometry.stripe() as usize, self.geometry.unit() as usize);
        assert!(data.len().is_multiple_of(stripe), "a run has whole stripes");
        let stripes = data.len() / stripe;
        let shard = |position: usize| {
            let chunk = |stripe_number: usize| stripe_number * stripe + position * unit;
            if stripes == 1 {
                return data.slice(chunk(0)..chunk(0) + unit);
            }
            // Stores write aligned memory as it is.
            let chunks = (0..stripes).map(|n| &data[chunk(n)..chunk(n) + unit]);
            AlignedBuffer::gathered(chunks, stripes * unit).into()
        };
        let rows = stripes as u64 * self.geometry.unit_rows();
        Run { rows, shards: Some((0..self.geometry.data()).map(shard).collect()) }
    }

    fn put_run(&mut self, first: u64, run: Run) {
        let rows = first..first + run.rows;
        self.remove_runs(rows.clone());
        let mut behind = self.rows.split_off(&rows.start);
        self.rows.append(&mut behind.split_off(&rows.end));
        self.runs.insert(first, run);
    }

    /// Removes these rows from the runs.
    fn remove_runs(&mut self, rows: Range<u64>) {
        if let Some((first, _)) = self.run_at(rows.start).filter(|(first, _)| *first < rows.start) {
            self.split_run(first, rows.start);
        }
        if let Some((first, _)) = self.run_at(rows.end).filter(|(first, _)| *first < rows.end) {
            self.split_run(first, rows.end);
        }
        self.runs.retain(|first, _| !rows.contains(first));
    }

    /// Divides the run that begins at `first` before the row `at`.
    fn split_run(&mut self, first: u64, at: u64) {
        let run = self.runs.get_mut(&first).expect("the caller found it");
        assert!(first < at && at < first + run.rows, "both parts have rows");
        let bytes = ((at - first) * ROW) as usize;
        let cut = |shard: &mut Bytes| shard.split_off(bytes);
        let shards = run.shards.as_mut().map(|shards| shards.iter_mut().map(cut).collect());
        let behind = Run { rows: run.rows - (at - first), shards };
        run.rows = at - first;
        self.runs.insert(at, behind);
    }
}
