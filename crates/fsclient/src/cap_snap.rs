//! Attributes of an inode as of a snapshot that the client still has to write back ("cap snap" in Ceph).
//!
//! They go to the server when all writes from before the snapshot are on the OSDs, oldest first, and before
//! what has changed since.

use crate::inode::Inode;
use wire::{CapBits, CapOp, ClientCaps, SnapContext};

/// Attributes as of a snapshot.
#[derive(Debug)]
pub(crate) struct CapSnap {
    /// The last write from before it.
    last_write: u64,
    message: ClientCaps,
}

impl Inode {
    /// A snapshot was taken since the writes with this context: it shows what has changed until now.
    pub(crate) fn note_snapshot(&mut self, before: &SnapContext) {
        if !self.is_dirty {
            return;
        }
        let message = ClientCaps {
            // It is about the inode, not about the capability.
            cap_id: 0,
            dirty: CapBits::FILE_WRITE,
            snap_follows: before.seq.0,
            ..self.message(CapOp::FLUSHSNAP)
        };
        self.cap_snaps.push_back(CapSnap { last_write: self.last_write, message });
    }

    /// The snapshot behind which the oldest of them are.
    pub(crate) fn oldest_follows(&self) -> Option<u64> {
        self.cap_snaps.front().map(|snap| snap.message.snap_follows)
    }

    /// The oldest attributes as of a snapshot, if they may be told.
    pub(crate) fn take_cap_snap(&mut self) -> Option<ClientCaps> {
        let snap = self.cap_snaps.front()?;
        let buffered = self.buffer.first().map(|write| write.number);
        let oldest = self.writes.first().copied().into_iter().chain(buffered).min();
        if oldest.is_some_and(|write| write <= snap.last_write) {
            return None;
        }
        self.cap_snaps.pop_front().map(|snap| snap.message)
    }
}
