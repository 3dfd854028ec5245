//! Segments of a journal that are not removed yet.

use crate::Chain;

/// One object of the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// Its number within the generation.
    pub number: u64,
    /// The chain before its first frame.
    pub start: Chain,
    /// LSN behind its last record.
    pub end: u64,
    /// Bytes of its frames.
    pub bytes: u64,
}

impl Segment {
    /// A segment without a frame.
    pub(crate) fn empty(number: u64, start: Chain) -> Self {
        Segment { number, start, end: start.lsn, bytes: 0 }
    }

    /// Whether no record behind a checkpoint is in it, so that no replay needs it.
    pub(crate) fn is_covered(&self, checkpoint: u64) -> bool {
        self.end <= checkpoint + 1
    }
}
