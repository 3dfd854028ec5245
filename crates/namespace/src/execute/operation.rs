//! Operations and their results.

use super::values::{AttributeChange, Flush, NewInode};
use crate::{Ino, OldKey, Record};
use bytes::Bytes;
use std::collections::BTreeMap;
use types::{SnapId, UTime};

/// On whose behalf and when an operation is executed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Context {
    /// Time of the request, by the client's clock.
    pub now: UTime,
    /// Owner of what is created.
    pub uid: u32,
    /// Group of what is created, unless the directory gives its own.
    pub gid: u32,
}

/// A change of the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operation {
    /// Creates an inode and its name.
    Create {
        /// The directory.
        directory: Ino,
        /// The name.
        name: Bytes,
        /// Its properties.
        new: Box<NewInode>,
    },
    /// Gives an inode one more name.
    Link {
        /// The inode.
        ino: Ino,
        /// The directory.
        directory: Ino,
        /// The name.
        name: Bytes,
    },
    /// Removes a name that is no directory's.
    Unlink {
        /// The directory.
        directory: Ino,
        /// The name.
        name: Bytes,
    },
    /// Removes an empty directory.
    RemoveDirectory {
        /// The directory that has it.
        directory: Ino,
        /// Its name.
        name: Bytes,
    },
    /// Gives an entry another name, and removes what had that.
    Rename {
        /// Directory and name.
        from: (Ino, Bytes),
        /// Directory and name.
        to: (Ino, Bytes),
    },
    /// Changes attributes.
    Change {
        /// The inode.
        ino: Ino,
        /// The change.
        change: Box<AttributeChange>,
    },
    /// Takes a snapshot of a directory.
    TakeSnapshot {
        /// The directory.
        directory: Ino,
        /// The name of the snapshot.
        name: Bytes,
        /// Metadata that its maker adds.
        metadata: BTreeMap<String, String>,
    },
    /// Removes a snapshot of a directory.
    RemoveSnapshot {
        /// The directory.
        directory: Ino,
        /// The name of the snapshot.
        name: Bytes,
    },
    /// Gives a snapshot another name.
    RenameSnapshot {
        /// The directory.
        directory: Ino,
        /// Its name.
        from: Bytes,
        /// Its new name.
        to: Bytes,
    },
    /// Attributes that a client has changed before it knew of newer snapshots.
    FlushBehind {
        /// The inode.
        ino: Ino,
        /// The newest snapshot that the client knew.
        follows: SnapId,
        /// The attributes.
        flush: Box<Flush>,
        /// Whether they are those of the next snapshot, not those of the inode now.
        is_of_snapshot: bool,
    },
    /// OSDs know that data of a removed snapshot is to be removed.
    ConfirmRemoved {
        /// The snapshot.
        snap: SnapId,
    },
    /// Forgets what was kept for snapshots, as far as none shows it.
    TrimOldVersions {
        /// Parts that may be forgotten, with the last snapshot of each.
        keys: Vec<(SnapId, OldKey)>,
    },
    /// Forgets an inode without a name: nothing uses it any more.
    Forget {
        /// The inode.
        ino: Ino,
    },
}

/// Result of an operation.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Done {
    /// The changes; empty if there are none.
    pub records: Vec<Record>,
    /// The inode that it created, changed or moved.
    pub target: Option<Ino>,
    /// The inode that has lost its last name and became an orphan.
    pub orphan: Option<Ino>,
    /// The snapshot that was taken, removed or renamed.
    pub snapshot: Option<SnapId>,
}
