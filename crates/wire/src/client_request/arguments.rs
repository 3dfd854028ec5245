//! `ceph_mds_request_args_ext`: arguments of operations, which share 56 bytes.

use crate::CapBits;
use codec::{Decode, Encode, Reader, Result, Writer};
use std::fmt;
use types::UTime;

/// Length of the longest arguments, those of `setattr`, in bytes.
const BYTES: usize = 56;

/// Flags of `open` and `create` as clients of Linux send them (`CEPH_O_*`).
pub mod open_flags {
    /// The bits of the access mode: 0 to read, 1 to write, 2 for both.
    pub const ACCESS: u32 = 3;
    /// Opened to write only.
    pub const WRITE_ONLY: u32 = 1;
    /// Opened to read and write.
    pub const READ_WRITE: u32 = 2;
    /// Creates the file if it does not exist.
    pub const CREATE: u32 = 0o100;
    /// It must not exist.
    pub const EXCLUSIVE: u32 = 0o200;
    /// Cuts it to no bytes.
    pub const TRUNCATE: u32 = 0o1000;
    /// It must be a directory.
    pub const DIRECTORY: u32 = 0o200000;
    /// It must not be a symbolic link.
    pub const NO_FOLLOW: u32 = 0o400000;
}

/// Attributes that `setattr` changes (`CEPH_SETATTR_*`).
pub mod setattr_mask {
    /// Permissions.
    pub const MODE: u32 = 1 << 0;
    /// Owner.
    pub const UID: u32 = 1 << 1;
    /// Group.
    pub const GID: u32 = 1 << 2;
    /// Time of the last change of data.
    pub const MTIME: u32 = 1 << 3;
    /// Time of the last read.
    pub const ATIME: u32 = 1 << 4;
    /// Size.
    pub const SIZE: u32 = 1 << 5;
    /// Time of the last change of the inode.
    pub const CTIME: u32 = 1 << 6;
    /// The modification time is that of the request.
    pub const MTIME_NOW: u32 = 1 << 7;
    /// The access time is that of the request.
    pub const ATIME_NOW: u32 = 1 << 8;
    /// Time of creation.
    pub const BTIME: u32 = 1 << 9;
    /// Set-user-id and set-group-id bits are removed if the file may be executed.
    pub const KILL_SGUID: u32 = 1 << 10;
    /// Encryption context.
    pub const FSCRYPT_AUTH: u32 = 1 << 11;
    /// Encrypted size.
    pub const FSCRYPT_FILE: u32 = 1 << 12;
    /// The set-user-id bit is removed.
    pub const KILL_SUID: u32 = 1 << 13;
    /// The set-group-id bit is removed.
    pub const KILL_SGID: u32 = 1 << 14;
}

/// The arguments as they travel. [`RequestArguments::read`] gives them their meaning.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct RequestArguments([u8; BYTES]);

impl RequestArguments {
    /// Packs arguments.
    pub fn of<T: TypedArguments>(arguments: &T) -> Self {
        let mut w = Writer::with_capacity(BYTES);
        w.value(arguments);
        let mut bytes = [0; BYTES];
        bytes[..w.len()].copy_from_slice(w.as_slice());
        RequestArguments(bytes)
    }

    /// Takes them as they came.
    pub fn from_bytes(bytes: [u8; BYTES]) -> Self {
        RequestArguments(bytes)
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8; BYTES] {
        &self.0
    }

    /// The arguments of an operation that takes a `T`. Any bytes have a meaning.
    pub fn read<T: TypedArguments>(&self) -> T {
        let mut r = Reader::new(&self.0);
        r.value().expect("typed arguments are plain numbers and fit into 56 bytes")
    }
}

impl Default for RequestArguments {
    fn default() -> Self {
        RequestArguments([0; BYTES])
    }
}

/// Without the zeros at the end.
impl fmt::Debug for RequestArguments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let used = self.0.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        write!(f, "{:x?}", &self.0[..used])
    }
}

/// Arguments of an operation: plain numbers, at most 56 bytes.
pub trait TypedArguments: Encode + Decode {}

macro_rules! arguments {
    ($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $type:ty;)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub struct $name {
            $($(#[$field_doc])* pub $field: $type,)*
        }

        impl Encode for $name {
            fn encode(&self, w: &mut Writer) {
                $(w.value(&self.$field);)*
            }
        }

        impl Decode for $name {
            fn decode(r: &mut Reader<'_>) -> Result<Self> {
                Ok($name { $($field: r.value()?,)* })
            }
        }

        impl TypedArguments for $name {}
    };
}

arguments! {
    /// Arguments of `getattr` and `lookup`.
    GetattrArguments {
        /// Attributes that the reply must have, as the capabilities that show them.
        mask: CapBits;
    }
}

arguments! {
    /// Arguments of `setattr`.
    SetattrArguments {
        /// New permissions.
        mode: u32;
        /// New owner.
        uid: u32;
        /// New group.
        gid: u32;
        /// New modification time.
        mtime: UTime;
        /// New access time.
        atime: UTime;
        /// New size in bytes.
        size: u64;
        /// The size before, as the client knows it.
        old_size: u64;
        /// Which of them count: `setattr_mask`.
        mask: u32;
        /// New time of creation.
        btime: UTime;
    }
}

arguments! {
    /// Arguments of `readdir`. The name behind which it goes on is in the second path.
    ReaddirArguments {
        /// The fragment; all of it is `0`.
        frag: u32;
        /// Entries that the reply may have; 0 for any number.
        max_entries: u32;
        /// Bytes that it may have; 0 for any number.
        max_bytes: u32;
        /// Bit 0: the client understands flags in the reply.
        flags: u16;
        /// Hash of the name behind which it goes on, if the name itself is not known.
        offset_hash: u32;
    }
}

arguments! {
    /// Arguments of `mknod`.
    MknodArguments {
        /// Type and permissions.
        mode: u32;
        /// Device.
        rdev: u32;
    }
}

arguments! {
    /// Arguments of `mkdir`.
    MkdirArguments {
        /// Permissions.
        mode: u32;
    }
}

arguments! {
    /// Arguments of `open` and `create`.
    OpenArguments {
        /// `open_flags`
        flags: u32;
        /// Type and permissions of a new file.
        mode: u32;
        /// Layout of a new file; zeros for that of its directory.
        stripe_unit: u32;
        /// See `stripe_unit`.
        stripe_count: u32;
        /// See `stripe_unit`.
        object_size: u32;
        /// Data pool; 0 or -1 for that of the directory.
        pool: i32;
        /// Attributes that the reply must have.
        mask: CapBits;
        /// Size of the file that is cut, as the client knows it.
        old_size: u64;
    }
}

arguments! {
    /// Arguments of `setlayout` and `setdirlayout`. A number that is 0 stays as it is.
    SetlayoutArguments {
        /// Bytes that follow each other in one object.
        stripe_unit: u32;
        /// Number of objects over which the units of a stripe are spread.
        stripe_count: u32;
        /// Bytes of a full object.
        object_size: u32;
        /// Unused.
        cas_hash: u32;
        /// Unused.
        object_stripe_unit: u32;
        /// Unused.
        unused: u32;
        /// The data pool.
        pool: i32;
    }
}

arguments! {
    /// Arguments of `setxattr` and `rmxattr`. The name is in the second path, the value is the data.
    SetxattrArguments {
        /// Bit 0: must not exist, bit 1: must exist, bit 31: remove.
        flags: u32;
        /// Epoch of the map in which the client has seen the pool of a layout.
        osdmap_epoch: u32;
    }
}

arguments! {
    /// Arguments of `setfilelock` and `getfilelock`.
    FileLockArguments {
        /// 1 `fcntl`, 2 `flock`, 3 and 4 the same, interrupted.
        rule: u8;
        /// 1 shared, 2 exclusive, 4 unlock.
        kind: u8;
        /// The owner at the client.
        owner: u64;
        /// Its process.
        pid: u64;
        /// First byte.
        start: u64;
        /// Number of bytes; 0 for all that follow.
        length: u64;
        /// Whether to wait.
        wait: u8;
    }
}

arguments! {
    /// Arguments of `lookupino` and `lookupparent`.
    LookupInoArguments {
        /// Attributes that the reply must have.
        mask: CapBits;
        /// The snapshot; 0 for none.
        snap: u64;
        /// A directory that may have it.
        parent: u64;
        /// Hash of its name there.
        hash: u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_have_the_places_of_their_structures() {
        let mut bytes = [0; BYTES];
        bytes[44..48].copy_from_slice(&setattr_mask::SIZE.to_le_bytes());
        bytes[28..36].copy_from_slice(&5u64.to_le_bytes());
        let arguments: SetattrArguments = RequestArguments::from_bytes(bytes).read();
        let expected = SetattrArguments { size: 5, mask: setattr_mask::SIZE, ..Default::default() };
        assert_eq!(arguments, expected);
        assert_eq!(RequestArguments::of(&expected).as_bytes(), &bytes);
    }

    #[test]
    fn any_bytes_have_a_meaning() {
        let all = RequestArguments::from_bytes([0xff; BYTES]);
        all.read::<SetattrArguments>();
        all.read::<OpenArguments>();
        all.read::<FileLockArguments>();
        assert_eq!(all.read::<ReaddirArguments>().flags, u16::MAX);
        assert_eq!(all.read::<LookupInoArguments>().hash, u32::MAX);
    }
}
