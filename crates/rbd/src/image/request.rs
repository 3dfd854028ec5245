//! Requests on an open image, and their outcomes.

use bytes::Bytes;

/// Id of a request, unique within one image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// A request on an open image. Offsets and lengths are in bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// Reads a range.
    Read {
        /// Start of the range.
        offset: u64,
        /// Length of the range.
        length: u64,
    },
    /// Writes `data`; it is durable when the request completes.
    Write {
        /// Start of the range.
        offset: u64,
        /// The bytes, which are not copied.
        data: Bytes,
    },
    /// The range reads as zeros afterwards, and its space is freed where whole objects allow it.
    Discard {
        /// Start of the range.
        offset: u64,
        /// Length of the range.
        length: u64,
    },
    /// Asks which parts of a range hold data.
    Map {
        /// Start of the range.
        offset: u64,
        /// Length of the range.
        length: u64,
    },
    /// Copies the parent's data in the range into the image.
    CopyUp {
        /// Start of the range.
        offset: u64,
        /// Length of the range.
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
    /// Bytes that the image holds.
    Data(Bytes),
    /// A hole of that length.
    Zeros(u64),
}

impl Piece {
    /// Length in bytes.
    pub fn len(&self) -> u64 {
        match self {
            Piece::Data(data) => data.len() as u64,
            Piece::Zeros(length) => *length,
        }
    }

    /// True for an empty part.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Outcome of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Outcome of requests that return no data.
    Done,
    /// Outcome of [`Request::Read`].
    Data(Vec<Piece>),
    /// Outcome of [`Request::Map`]: consecutive lengths, each with whether it holds data.
    Map(Vec<(u64, bool)>),
}
