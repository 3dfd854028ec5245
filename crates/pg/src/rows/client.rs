//! Reads of clients: logical bytes of an object from its shards.
//!
//! A read within one chunk is that of one shard, and nothing of it is copied. A longer one is put together
//! window by window, so that it takes little more memory than its result.

use super::content::Content;
use super::ranges::RowSet;
use crate::backend::erasure::geometry::{Geometry, ROW};
use bytes::{BufMut, Bytes, BytesMut};
use std::collections::BTreeMap;
use std::ops::Range;
use types::{EVersion, HObject};

/// Bytes of an object that are read at once, besides the rest of a stripe.
const WINDOW_MAX: u64 = 4 << 20;

/// A read of an object's data in a group whose members keep shards.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Read {
    /// Identifies the read in [`crate::Output::Read`]. No other read in progress has it.
    pub ticket: u64,
    /// The object, which is not missing, and of which no write is in flight until the read ends.
    pub object: HObject,
    /// The version in its info.
    pub version: EVersion,
    /// Bytes of the whole object, by its info. A read ends there.
    pub size: u64,
    /// The first byte.
    pub offset: u64,
    /// Bytes; fewer are read at the end of the object.
    pub length: u64,
}

/// The reason why data cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// Fewer shards than it takes can be read.
    #[error("fewer shards than are needed can be read")]
    TooFewShards,
    /// No member has the object.
    #[error("no member has the object")]
    Absent,
}

/// A read that is put together.
#[derive(Debug)]
pub(crate) struct ClientRead {
    /// See there.
    pub read: Read,
    geometry: Geometry,
    /// The first byte of the object that is not in `done`.
    next: u64,
    end: u64,
    done: BytesMut,
}

impl ClientRead {
    /// The beginning of a read.
    pub fn new(geometry: Geometry, read: Read) -> Self {
        let end = read.offset.saturating_add(read.length).min(read.size);
        let (next, done) = (read.offset.min(end), BytesMut::new());
        ClientRead { read, geometry, next, end, done }
    }

    /// Whether nothing is left to read.
    pub fn is_over(&self) -> bool {
        self.next == self.end
    }

    /// The bytes of the object that are read next.
    fn window(&self) -> Range<u64> {
        let end = (self.next + WINDOW_MAX).next_multiple_of(self.geometry.stripe());
        self.next..end.min(self.end)
    }

    /// The rows of each data shard that are read next.
    pub fn wanted(&self) -> BTreeMap<usize, RowSet> {
        let window = self.window();
        let mut wanted: BTreeMap<usize, RowSet> = BTreeMap::new();
        for piece in self.geometry.pieces(window.start, window.end - window.start) {
            let rows = wanted.entry(piece.position).or_default();
            rows.extend(&RowSet::of_bytes(piece.at, piece.length));
        }
        wanted
    }

    /// Takes the rows of [`ClientRead::wanted`]. Returns the result once it is whole.
    pub fn take(&mut self, content: &Content) -> Option<Bytes> {
        let (window, is_first) = (self.window(), self.next == self.read.offset);
        let mut pieces = self.geometry.pieces(window.start, window.end - window.start).peekable();
        self.next = window.end;
        while let Some(piece) = pieces.next() {
            let rows = piece.at / ROW..(piece.at + piece.length).div_ceil(ROW);
            let skip = (piece.at - rows.start * ROW) as usize;
            let data = content.rows(piece.position, rows);
            let data = data.slice(skip..skip + piece.length as usize);
            if is_first && self.done.is_empty() && pieces.peek().is_none() && self.is_over() {
                return Some(data);
            }
            if self.done.is_empty() {
                self.done.reserve((self.end - self.read.offset) as usize);
            }
            self.done.put(data);
        }
        self.is_over().then(|| std::mem::take(&mut self.done).freeze())
    }
}
