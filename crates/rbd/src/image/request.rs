//! Requests on an open image, and their outcomes.

use bytes::Bytes;

/// Id of a request, unique within one image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// A request on an open image. Offsets and lengths are in bytes of the image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// Reads a range; answered by [`Outcome::Data`].
    Read {
        /// First byte.
        offset: u64,
        /// Length in bytes.
        length: u64,
    },
    /// Overwrites a range.
    Write {
        /// First byte.
        offset: u64,
        /// The new content; its slices are sent without being copied.
        data: Bytes,
    },
    /// The range reads as zeros afterwards, and its space is freed where whole objects allow it.
    Discard {
        /// First byte.
        offset: u64,
        /// Length in bytes.
        length: u64,
    },
    /// Asks which parts of a range hold data.
    Map {
        /// First byte.
        offset: u64,
        /// Length in bytes.
        length: u64,
    },
    /// Copies the parent's data in the range into the image.
    CopyUp {
        /// First byte.
        offset: u64,
        /// Length in bytes.
        length: u64,
    },
    /// Completes at once: everything that has completed is durable already.
    Flush,
}

impl Request {
    pub(super) fn range(&self) -> (u64, u64) {
        match self {
            Request::Read { offset, length }
            | Request::Discard { offset, length }
            | Request::Map { offset, length }
            | Request::CopyUp { offset, length } => (*offset, *length),
            Request::Write { offset, data } => (*offset, data.len() as u64),
            Request::Flush => (0, 0),
        }
    }

    pub(super) fn writes(&self) -> bool {
        matches!(self, Request::Write { .. } | Request::Discard { .. } | Request::CopyUp { .. })
    }
}

/// A part of a range that was read; parts are consecutive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// Bytes as stored.
    Data(Bytes),
    /// This many zeros, for which no memory is held.
    Zeros(u64),
}

impl Piece {
    /// Bytes of the part as the reader sees it.
    pub fn len(&self) -> u64 {
        match self {
            Piece::Data(data) => data.len() as u64,
            Piece::Zeros(length) => *length,
        }
    }

    /// True for a part without bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Outcome of a request that succeeded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The request has no result.
    Done,
    /// Outcome of [`Request::Read`].
    Data(Vec<Piece>),
    /// Outcome of [`Request::Map`]: consecutive lengths, each with whether it holds data.
    Map(Vec<(u64, bool)>),
}
