//! The copies in progress: what each has got of its source, and what it asks for next.

use crate::execute::{CopiedObject, CopyRequest};
use crate::limits;
use bytes::Bytes;
use codec::{Reader, Writer};
use engine::Time;
use std::collections::BTreeMap;
use types::features::SUPPORTED;
use types::{Epoch, HObject, OsdId, PgId, PgShard};
use wire::copy::{CopyCursor, CopyData};
use wire::op::{OpCode, request_flags};
use wire::{OsdOp, OsdRequest};

/// The copies in progress.
#[derive(Debug, Default)]
pub(crate) struct Copies {
    last: u64,
    /// By the tid of the request for the present piece, so that a reply to an earlier one is ignored.
    pub(super) active: BTreeMap<u64, Copy>,
    /// The epoch at which targets were last compared.
    pub(super) epoch: Epoch,
}

/// One copy, for an attempt of a request.
#[derive(Debug)]
pub(super) struct Copy {
    pub request: u64,
    pub attempt: u32,
    pub wanted: CopyRequest,
    /// The source with its hash.
    pub source: HObject,
    cursor: CopyCursor,
    pub copied: CopiedObject,
    /// Bytes reserved for it.
    pub reserved: u64,
    /// The target of the request for the present piece; `None` if it must be sent again.
    pub asked: Option<Target>,
    /// When the piece is requested again if no reply has come, and how often it was.
    pub retry_at: Time,
    pub tries: u32,
}

/// The OSD that should answer, with the epoch since which it is up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Target {
    pub osd: OsdId,
    pub up_from: Epoch,
    pub pg: PgId,
}

impl Copies {
    /// Whether a request waits for a copy.
    pub fn waits(&self, request: u64) -> bool {
        self.active.values().any(|copy| copy.request == request)
    }

    /// When the next piece must be requested again.
    pub fn due(&self) -> Option<Time> {
        self.active.values().map(|copy| copy.retry_at).min()
    }

    /// Adds a copy under a new number.
    pub(super) fn insert(&mut self, copy: Copy) -> u64 {
        self.last += 1;
        self.active.insert(self.last, copy);
        self.last
    }

    /// Number of requests for pieces so far.
    pub fn fetches(&self) -> u64 {
        self.last
    }

    /// The tids of all current requests for pieces.
    #[cfg(test)]
    pub fn questions(&self) -> Vec<u64> {
        self.active.keys().copied().collect()
    }

    /// The request for a piece was dropped: it is sent again with the next map, or soon.
    pub fn interrupt(&mut self, id: u64, now: Time) {
        if let Some(copy) = self.active.get_mut(&id) {
            copy.interrupt(now);
        }
    }

    /// The session with an OSD has ended: its pieces are requested again soon, when a new session
    /// may be known.
    pub fn interrupt_at(&mut self, osd: OsdId, now: Time) {
        let is_asked = |copy: &&mut Copy| copy.asked.is_some_and(|target| target.osd == osd);
        self.active.values_mut().filter(is_asked).for_each(|copy| copy.interrupt(now));
    }

    /// Whether a request for a piece is still current.
    pub fn is_known(&self, copy: u64) -> bool {
        self.active.contains_key(&copy)
    }
}

impl Copy {
    /// A copy that has nothing yet, with so many bytes reserved for its first piece.
    pub fn new(
        (request, attempt): (u64, u32),
        wanted: CopyRequest,
        source: HObject,
        reserved: u64,
        now: Time,
    ) -> Self {
        Copy {
            request,
            attempt,
            wanted,
            source,
            cursor: CopyCursor::default(),
            copied: CopiedObject::default(),
            reserved,
            asked: None,
            retry_at: now + limits::COPY_RETRY,
            tries: 0,
        }
    }

    fn interrupt(&mut self, now: Time) {
        self.asked = None;
        self.retry_at = self.retry_at.min(now + limits::RETRY_PAUSE);
    }

    /// Bytes that it needs: for what it has, and a next piece of so many bytes; the source has `size`.
    pub fn needed(&self, next: u64, size: u64) -> u64 {
        (self.copied.bytes() + next).max(size).max(self.reserved)
    }

    /// The request for the next piece.
    pub fn question(&self, map_epoch: Epoch, pg: PgId, chunk_max: u64) -> OsdRequest {
        OsdRequest {
            pg: PgShard::replicated(pg),
            map_epoch,
            flags: request_flags::READ | request_flags::ACK | self.wanted.request_flags,
            request_id: Default::default(),
            client_incarnation: 0,
            mtime: Default::default(),
            object: self.source.clone(),
            ops: self.ops(chunk_max),
            snap_context: Default::default(),
            retry_attempt: 0,
            features: SUPPORTED,
        }
    }

    fn ops(&self, chunk_max: u64) -> Vec<OsdOp> {
        let mut ops = Vec::with_capacity(2);
        // Later pieces must be of the same version as the first.
        let version = match self.copied.user_version {
            0 => self.wanted.version,
            known => known,
        };
        if version != 0 {
            let mut assert = OsdOp::new(OpCode::ASSERT_VER);
            assert.arguments[8..16].copy_from_slice(&version.to_le_bytes());
            ops.push(assert);
        }
        let mut w = Writer::new();
        w.value(&self.cursor);
        w.u64(chunk_max);
        ops.push(OsdOp::new(OpCode::COPY_GET).with_input(w.into_bytes()));
        ops
    }

    /// Adds a piece; true if it was the last one.
    pub fn take(&mut self, piece: CopyData, user_version: u64) -> codec::Result<bool> {
        let copied = &mut self.copied;
        if !self.cursor.attrs_complete {
            copied.user_version = user_version;
            copied.mtime = piece.mtime;
            copied.truncate_seq = piece.truncate_seq as u32;
            copied.truncate_size = piece.truncate_size;
            copied.xattrs = piece.attrs;
        }
        if !piece.data.is_empty() {
            copied.data.push(piece.data);
        }
        if !piece.omap_header.is_empty() {
            copied.omap_header = piece.omap_header;
        }
        if !piece.omap.is_empty() {
            let pairs: BTreeMap<Bytes, Bytes> = Reader::new(&piece.omap).value()?;
            copied.omap.extend(pairs);
        }
        self.cursor = piece.cursor;
        Ok(self.cursor.is_complete())
    }
}
