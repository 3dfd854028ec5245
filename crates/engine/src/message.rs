//! One message between daemons, as the messenger carries it.

use bytes::Bytes;

/// A typed message, encoded. `front` holds the fields, `data` the bulk payload, which is passed
/// on by reference and never copied; `middle` is hardly used by Ceph. Encoding and decoding are
/// the business of crate `wire`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Message {
    /// `CEPH_MSG_*` or `MSG_*`.
    pub kind: u16,
    /// One of [`priority`].
    pub priority: u16,
    /// Version of the encoding of `front`, and the oldest version that can read it.
    pub version: u16,
    /// See `version`.
    pub compat_version: u16,
    /// Transaction id, common to a request and its reply.
    pub tid: u64,
    /// Encoded fields.
    pub front: Bytes,
    /// Encoded fields of a few kinds.
    pub middle: Bytes,
    /// Bulk payload.
    pub data: Bytes,
}

/// `CEPH_MSG_PRIO_*`
pub mod priority {
    /// Background work.
    pub const LOW: u16 = 64;
    /// Most messages.
    pub const DEFAULT: u16 = 127;
    /// Messages on which others wait.
    pub const HIGH: u16 = 196;
    /// Messages that overtake all others.
    pub const HIGHEST: u16 = 255;
}

impl Message {
    /// Makes a message from encoded fields.
    pub fn new(kind: u16, version: u16, compat_version: u16, front: Bytes) -> Self {
        let priority = priority::DEFAULT;
        Message { kind, priority, version, compat_version, front, ..Message::default() }
    }

    /// The message with this transaction id.
    pub fn with_tid(mut self, tid: u64) -> Self {
        self.tid = tid;
        self
    }

    /// The message with this bulk payload.
    pub fn with_data(mut self, data: Bytes) -> Self {
        self.data = data;
        self
    }

    /// Payload bytes in all segments.
    pub fn len(&self) -> usize {
        self.front.len() + self.middle.len() + self.data.len()
    }

    /// Whether no segment has payload.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
