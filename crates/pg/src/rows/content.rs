//! Rows of an object's shards, as they were read or decoded.

use super::ranges::RowSet;
use crate::backend::erasure::geometry::ROW;
use crate::backend::erasure::plan::RowRead;
use bytes::{Bytes, BytesMut};
use erasure::Decoder;
use std::collections::BTreeMap;
use std::ops::Range;
use types::{EVersion, HObject};

/// Rows of the shards of one object. Rows behind the end of a shard are zeros.
#[derive(Debug, Default)]
pub(crate) struct Content {
    /// The version of all of them; zero if rows of different versions were allowed.
    pub version: EVersion,
    /// The object's attributes, if they were asked for.
    pub attrs: Option<BTreeMap<Bytes, Bytes>>,
    shards: BTreeMap<usize, ShardContent>,
}

/// Rows of one shard.
#[derive(Debug, Default)]
pub(super) struct ShardContent {
    /// Parts that were read, by first row: number of rows, and bytes up to the end of the shard.
    parts: BTreeMap<u64, (u64, Bytes)>,
}

impl ShardContent {
    /// The rows that are here.
    pub fn rows(&self) -> RowSet {
        let mut rows = RowSet::default();
        self.parts.iter().for_each(|(first, (count, _))| rows.insert(*first..first + count));
        rows
    }

    /// Adds rows, whose bytes end where the shard does.
    pub fn add(&mut self, rows: Range<u64>, data: Bytes) {
        assert!(data.len() as u64 <= (rows.end - rows.start) * ROW, "no more than was asked for");
        self.parts.insert(rows.start, (rows.end - rows.start, data));
    }

    /// The bytes of rows, which are here. Copied only if they end behind the shard, or are in several parts.
    fn get(&self, rows: Range<u64>) -> Bytes {
        let length = ((rows.end - rows.start) * ROW) as usize;
        let (first, (_, data)) =
            self.parts.range(..=rows.start).next_back().expect("the rows were read");
        let from = ((rows.start - first) * ROW) as usize;
        if from + length <= data.len() {
            return data.slice(from..from + length);
        }
        let read = self.rows();
        assert!(RowSet::of(rows.clone()).without(&read).is_empty(), "the rows were read");
        let mut whole = BytesMut::zeroed(length);
        for (first, (_, data)) in self.parts.range(..rows.end) {
            let start = (*first).max(rows.start);
            let skip = ((start - first) * ROW) as usize;
            let at = ((start - rows.start) * ROW) as usize;
            let some = data.get(skip..).unwrap_or_default();
            let some = &some[..some.len().min(length.saturating_sub(at))];
            whole[at..at + some.len()].copy_from_slice(some);
        }
        whole.freeze()
    }
}

impl Content {
    pub(super) fn new(
        version: EVersion,
        attrs: Option<BTreeMap<Bytes, Bytes>>,
        shards: BTreeMap<usize, ShardContent>,
    ) -> Self {
        Content { version, attrs, shards }
    }

    /// Computes rows of the decoder's outputs from those of its sources, which are here.
    pub(super) fn decode(&mut self, decoder: &Decoder, rows: &RowSet) {
        for range in rows.ranges() {
            let length = ((range.end - range.start) * ROW) as usize;
            let sources: Vec<Bytes> =
                decoder.sources().iter().map(|source| self.rows(source, range.clone())).collect();
            let sources: Vec<&[u8]> = sources.iter().map(|source| &source[..]).collect();
            let mut decoded = vec![BytesMut::zeroed(length); decoder.outputs().len()];
            let mut outputs: Vec<&mut [u8]> = decoded.iter_mut().map(|out| &mut out[..]).collect();
            decoder.decode(&sources, &mut outputs);
            for (position, data) in decoder.outputs().iter().zip(decoded) {
                self.shards.entry(position).or_default().add(range.clone(), data.freeze());
            }
        }
    }

    /// The content of rows of a shard, which were asked for.
    pub fn rows(&self, position: usize, rows: Range<u64>) -> Bytes {
        self.shards.get(&position).expect("the shard was asked for").get(rows)
    }

    /// These rows one by one, for [`crate::backend::erasure::plan::Plan::finish`]. Nothing is copied.
    pub fn into_reads(
        self,
        object: &HObject,
        wanted: &BTreeMap<usize, RowSet>,
    ) -> BTreeMap<RowRead, Bytes> {
        let each = wanted
            .iter()
            .flat_map(|(position, rows)| rows.ranges().flatten().map(move |row| (*position, row)));
        let read = |(position, row)| {
            let data = self.rows(position, row..row + 1);
            (RowRead { object: object.clone(), position, row }, data)
        };
        each.map(read).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_behind_the_end_of_a_shard_are_zeros_and_parts_are_joined() {
        let row = |byte| vec![byte; ROW as usize];
        let mut shard = ShardContent::default();
        shard.add(2..4, [row(2), row(3)].concat().into());
        shard.add(4..6, row(4).into());
        shard.add(9..10, Bytes::new());
        assert_eq!(shard.get(3..4), row(3));
        assert_eq!(shard.get(2..6), [row(2), row(3), row(4), row(0)].concat());
        assert_eq!(shard.get(3..5), [row(3), row(4)].concat());
        assert_eq!(shard.get(5..6), row(0));
        assert_eq!(shard.get(9..10), row(0));
        assert_eq!(shard.rows().ranges().collect::<Vec<_>>(), [2..6, 9..10]);
    }
}
