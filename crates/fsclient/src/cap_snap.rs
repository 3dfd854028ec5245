//! Attributes of an inode as of a snapshot that the client still has to write back ("cap snap" in Ceph).
//!
//! They go to the server when all writes from before the snapshot are on the OSDs, oldest first, and before
//! what has changed since.

use wire::{CapBits, ClientCaps, SnapContext};

/// Attributes as of a snapshot.
#[derive(Debug)]
pub(crate) struct CapSnap {
    /// The last write from before it.
    last_write: u64,
    message: ClientCaps,
}

impl CapSnap {
    /// Attributes, as a message about the inode tells them, behind the snapshots of a context.
    pub(crate) fn new(last_write: u64, attributes: ClientCaps, before: &SnapContext) -> Self {
        let message = ClientCaps {
            // It is about the inode, not about the capability.
            cap_id: 0,
            dirty: CapBits::FILE_WRITE,
            snap_follows: before.seq.0,
            ..attributes
        };
        CapSnap { last_write, message }
    }

    /// The snapshot behind which they are.
    pub(crate) fn follows(&self) -> u64 {
        self.message.snap_follows
    }

    /// Whether they may be told, if this is the oldest write that is not on the OSDs.
    pub(crate) fn is_ready(&self, oldest_write: Option<u64>) -> bool {
        oldest_write.is_none_or(|write| write > self.last_write)
    }

    /// The message that tells them.
    pub(crate) fn into_message(self) -> ClientCaps {
        self.message
    }
}
