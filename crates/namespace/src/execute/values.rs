//! Properties of new inodes, and changes of attributes.

use crate::Ino;
use crate::inode::{Encryption, Pins, WriteRange};
use bytes::Bytes;
use std::collections::BTreeMap;
use types::UTime;
use wire::{FileLayout, QuotaInfo};

/// Properties of a new inode.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NewInode {
    /// Its number, which no other inode has had.
    pub ino: Ino,
    /// Type and permissions.
    pub mode: u32,
    /// Device of a special file.
    pub rdev: u32,
    /// Target of a symbolic link.
    pub symlink: Bytes,
    /// Layout of a file, if not that of its directory.
    pub layout: Option<FileLayout>,
    /// Layout of a file if no directory above has one.
    pub default_layout: FileLayout,
    /// The client that may write to it at once, and up to where.
    pub writer: Option<(u64, WriteRange)>,
    /// Values of an encrypting client.
    pub encryption: Encryption,
    /// Extended attributes.
    pub xattrs: BTreeMap<Bytes, Bytes>,
}

/// A change of one inode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AttributeChange {
    /// Some attributes.
    Set(SetAttributes),
    /// Attributes that a client has changed by its capabilities.
    Flush(Flush),
    /// The client's right to write to a range; `None` takes it away.
    WriteRange {
        /// The client.
        client: u64,
        /// The range.
        range: Option<WriteRange>,
    },
    /// All objects of a file were cut as this truncation says.
    EndCut {
        /// Its number; nothing changes if there was another one.
        seq: u32,
    },
    /// The layout of a file without data, or of files that are created below a directory. `None` of a
    /// directory is that of the directory above it.
    Layout(Option<FileLayout>),
    /// The pins of a directory.
    Pins(Pins),
    /// An extended attribute.
    SetXattr {
        /// Its name.
        name: Bytes,
        /// Its value.
        value: Bytes,
        /// Whether it must not exist.
        must_create: bool,
        /// Whether it must exist.
        must_replace: bool,
    },
    /// Removes an extended attribute.
    RemoveXattr {
        /// Its name.
        name: Bytes,
    },
    /// The quota of a directory, which is a realm from then on.
    SetQuota(QuotaInfo),
}

/// Attributes that `setattr` changes; `None` leaves one as it is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SetAttributes {
    /// Permissions.
    pub mode: Option<u32>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Time of the last change of data.
    pub mtime: Option<UTime>,
    /// Time of the last read.
    pub atime: Option<UTime>,
    /// Time of creation.
    pub btime: Option<UTime>,
    /// Size of a file.
    pub size: Option<u64>,
    /// Whether set-user-id and set-group-id go if the file may be executed.
    pub kill_set_ids: bool,
    /// Whether set-user-id goes.
    pub kill_set_user_id: bool,
    /// Whether set-group-id goes.
    pub kill_set_group_id: bool,
    /// Encryption context.
    pub fscrypt_auth: Option<Bytes>,
    /// Encrypted size.
    pub fscrypt_file: Option<Bytes>,
}

/// Attributes of a client that holds the right to change them. `None` is a group that it has not changed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Flush {
    /// Mode, owner and group.
    pub auth: Option<(u32, u32, u32)>,
    /// Version and value of the extended attributes.
    pub xattrs: Option<(u64, BTreeMap<Bytes, Bytes>)>,
    /// Size, modification and access time, and whether they may go back, by the client's time warp sequence.
    pub file: Option<FlushedFile>,
    /// Change time.
    pub ctime: UTime,
    /// Count of changes.
    pub change_attr: u64,
    /// Time of creation; zero if not known.
    pub btime: UTime,
    /// Values of encrypting clients; an empty one is not changed.
    pub encryption: Encryption,
}

/// State of a file's data as a client that writes it knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FlushedFile {
    /// Size as the client sees it.
    pub size: u64,
    /// Number of truncations that it has seen. A size from before the last one says nothing. Kernels tell 0;
    /// they must have flushed before the file is cut.
    pub truncate_seq: u32,
    /// Modification time.
    pub mtime: UTime,
    /// Access time.
    pub atime: UTime,
    /// Whether it held the times exclusively.
    pub is_exclusive: bool,
    /// Number of times that they went back.
    pub time_warp_seq: u32,
}
