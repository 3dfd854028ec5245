//! An inode as a value.

use crate::Realm;
use bytes::Bytes;
use codec::{Decode, Encode, Reader, Result, Writer};
use std::collections::BTreeMap;
use std::fmt;
use types::{SnapId, UTime};
use wire::{FileLayout, QuotaInfo};

/// Version of the encoding, and the oldest reader that understands it.
const VERSION: u8 = 1;
/// See `VERSION`.
const COMPAT: u8 = 1;
/// Most bytes of the values of an encrypting client; Linux has 40 and 8.
const ENCRYPTION_MAX_BYTES: usize = 1024;
/// Bits of the mode that tell the type (`S_IFMT`).
const TYPE_MASK: u32 = 0o170_000;

/// Number of an inode.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Ino(pub u64);

impl Ino {
    /// The root directory.
    pub const ROOT: Ino = Ino(1);
    /// Not an inode: the realm of inodes with several names.
    pub const SHARED: Ino = Ino(3);
    /// The first number that rank 0 gives to files.
    pub const FIRST: Ino = Ino(1 << 40);
}

impl fmt::Display for Ino {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

impl fmt::Debug for Ino {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Encode for Ino {
    fn encode(&self, w: &mut Writer) {
        w.u64(self.0);
    }
}

impl Decode for Ino {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        r.u64("ino").map(Ino)
    }
}

/// Type of an inode, from its mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A file with data.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A device, a pipe or a socket.
    Special,
}

impl Kind {
    /// The mode's bits of a directory.
    pub const DIRECTORY_MODE: u32 = 0o040_000;
    /// The mode's bits of a file.
    pub const FILE_MODE: u32 = 0o100_000;
    /// The mode's bits of a symbolic link.
    pub const SYMLINK_MODE: u32 = 0o120_000;

    /// The type that a mode tells.
    pub fn of(mode: u32) -> Kind {
        match mode & TYPE_MASK {
            Kind::DIRECTORY_MODE => Kind::Directory,
            Kind::FILE_MODE => Kind::File,
            Kind::SYMLINK_MODE => Kind::Symlink,
            _ => Kind::Special,
        }
    }
}

/// Owner and group of an inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Owner {
    /// User.
    pub uid: u32,
    /// Group.
    pub gid: u32,
}

/// How often a file was cut, and to which size the last time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Truncation {
    /// Size in bytes; `u64::MAX` if it never was.
    pub size: u64,
    /// Number of truncations, from 1.
    pub seq: u32,
    /// Bytes that the file may have had before: objects up to there may exist.
    pub data_end: u64,
    /// Objects with bytes from `size` up to here are still to be cut; 0 if they were.
    pub cut_until: u64,
}

/// Extended attributes of an inode.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Xattrs {
    /// Their version.
    pub version: u64,
    /// Names and values.
    pub values: BTreeMap<Bytes, Bytes>,
}

/// Opaque values of encrypting clients.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Encryption {
    /// Encryption context.
    pub auth: Bytes,
    /// Encrypted size.
    pub file: Bytes,
}

impl Encryption {
    /// Whether the values are not too long. Longer ones are refused with EINVAL, and not taken from a flush.
    pub(crate) fn fits(&self) -> bool {
        self.auth.len() + self.file.len() <= ENCRYPTION_MAX_BYTES
    }
}

/// Ranks that an administrator has chosen for a directory. One rank serves all directories, so they are only
/// kept and shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pins {
    /// The rank of the directory and of what is below it.
    pub rank: Option<u32>,
    /// Whether its subdirectories are distributed over all ranks.
    pub is_distributed: bool,
    /// Bits of the probability, a double, by which directories below it are; 0 for none.
    pub random: u64,
}

/// Rules of a directory for what is below it, besides its layout, and the snapshots that show an inode.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Policy {
    /// Bounds.
    pub quota: QuotaInfo,
    /// Ranks.
    pub pins: Pins,
    /// Whether it begins a realm, and which.
    pub realm: Option<Realm>,
    /// Snapshots up to this one do not show the inode as it is now.
    pub after: SnapId,
}

/// Bytes that a client may write: up to `end`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WriteRange {
    /// First byte behind the range.
    pub end: u64,
}

/// Recursive statistics of what is below a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Statistics {
    /// Bytes of files, modulo 2^64: a client may set any size, and sums must come out when files go.
    pub bytes: u64,
    /// Inodes that are not directories.
    pub files: u64,
    /// Directories, with itself.
    pub directories: u64,
    /// Latest change of an inode.
    pub changed: UTime,
}

impl Statistics {
    pub(crate) fn add(&mut self, other: &Statistics) {
        self.bytes = self.bytes.wrapping_add(other.bytes);
        self.files += other.files;
        self.directories += other.directories;
        self.changed = self.changed.max(other.changed);
    }

    /// Takes a part away. The latest change stays, as in Ceph.
    pub(crate) fn subtract(&mut self, other: &Statistics) {
        let less = |whole: u64, part: u64| whole.checked_sub(part).expect("a part is counted once");
        self.bytes = self.bytes.wrapping_sub(other.bytes);
        self.files = less(self.files, other.files);
        self.directories = less(self.directories, other.directories);
    }
}

/// An inode. Entries of a directory, counts and recursive statistics are the tree's.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Inode {
    /// Number.
    pub ino: Ino,
    /// Counts changes; clients drop what is older than what they have.
    pub version: u64,
    /// Type and permissions.
    pub mode: u32,
    /// Owner and group.
    pub owner: Owner,
    /// Number of links: of a directory 1 while it exists.
    pub nlink: u32,
    /// Device of a special file.
    pub rdev: u32,
    /// Bytes of a file.
    pub size: u64,
    /// Its last truncation.
    pub truncation: Truncation,
    /// Changes when times go back.
    pub time_warp_seq: u32,
    /// Time of creation.
    pub btime: UTime,
    /// Time of the last change of the inode.
    pub ctime: UTime,
    /// Time of the last change of data.
    pub mtime: UTime,
    /// Time of the last read.
    pub atime: UTime,
    /// Grows with each change, for NFS.
    pub change_attr: u64,
    /// Layout: of a file always, of a directory if it has its own.
    pub layout: Option<FileLayout>,
    /// Target of a symbolic link.
    pub symlink: Bytes,
    /// Extended attributes.
    pub xattrs: Xattrs,
    /// Ranges that clients may write, by client.
    pub write_ranges: BTreeMap<u64, WriteRange>,
    /// Rules of a directory, and its meaning for snapshots.
    pub policy: Policy,
    /// Opaque values of encrypting clients.
    pub encryption: Encryption,
}

impl Inode {
    /// Its type.
    pub fn kind(&self) -> Kind {
        Kind::of(self.mode)
    }

    /// Whether it is a directory.
    pub fn is_directory(&self) -> bool {
        self.kind() == Kind::Directory
    }

    /// Whether it is a file with data.
    pub fn is_file(&self) -> bool {
        self.kind() == Kind::File
    }

    /// The inode as snapshots show it.
    pub(crate) fn as_old_version(&self) -> Inode {
        let truncation = Truncation { cut_until: 0, ..self.truncation };
        let write_ranges = BTreeMap::new();
        let policy = Policy { realm: None, ..self.policy.clone() };
        Inode { truncation, write_ranges, policy, ..self.clone() }
    }

    /// Whether there is a bound of what is below a directory.
    pub fn has_quota(&self) -> bool {
        self.policy.quota != QuotaInfo::default()
    }

    /// Counts a change at a time. Times do not go back by it.
    pub(crate) fn touch(&mut self, now: UTime) {
        self.version += 1;
        // Clients that hold an inode exclusively count changes by themselves, and tell their count later.
        // By the time the number is greater in any case. They may also set it to any number.
        let time = u64::from(now.seconds) * 1_000_000 + u64::from(now.nanoseconds) / 1000;
        self.change_attr = self.change_attr.saturating_add(1).max(time);
        self.ctime = self.ctime.max(now);
    }

    /// Its part of the statistics of directories above it; of a directory, itself alone.
    pub(crate) fn statistics(&self) -> Statistics {
        let is_directory = self.is_directory();
        Statistics {
            bytes: if is_directory { 0 } else { self.size },
            files: u64::from(!is_directory),
            directories: u64::from(is_directory),
            changed: self.ctime,
        }
    }

    fn encode_plain(&self, w: &mut Writer) {
        w.value(&self.ino);
        w.u64(self.version);
        let numbers = [self.mode, self.owner.uid, self.owner.gid, self.nlink, self.rdev];
        numbers.iter().for_each(|number| w.u32(*number));
        w.u64(self.size);
        w.u64(self.truncation.size);
        w.u32(self.truncation.seq);
        w.u32(self.time_warp_seq);
        let times = [self.btime, self.ctime, self.mtime, self.atime];
        times.iter().for_each(|time| w.value(time));
        w.u64(self.change_attr);
        w.u64(self.xattrs.version);
    }

    fn decode_plain(r: &mut Reader<'_>) -> Result<Self> {
        Ok(Inode {
            ino: r.value()?,
            version: r.u64("version")?,
            mode: r.u32("mode")?,
            owner: Owner { uid: r.u32("uid")?, gid: r.u32("gid")? },
            nlink: r.u32("nlink")?,
            rdev: r.u32("rdev")?,
            size: r.u64("size")?,
            truncation: Truncation {
                size: r.u64("truncate size")?,
                seq: r.u32("truncate seq")?,
                ..Truncation::default()
            },
            time_warp_seq: r.u32("time warp seq")?,
            btime: r.value()?,
            ctime: r.value()?,
            mtime: r.value()?,
            atime: r.value()?,
            change_attr: r.u64("change attribute")?,
            xattrs: Xattrs { version: r.u64("xattr version")?, ..Xattrs::default() },
            ..Inode::default()
        })
    }
}

/// Sections that an inode has only if they are not empty, one bit each.
mod section {
    pub(super) const LAYOUT: u16 = 1 << 0;
    pub(super) const SYMLINK: u16 = 1 << 1;
    pub(super) const XATTRS: u16 = 1 << 2;
    pub(super) const WRITE_RANGES: u16 = 1 << 3;
    pub(super) const QUOTA: u16 = 1 << 4;
    pub(super) const FSCRYPT: u16 = 1 << 5;
    pub(super) const DATA_END: u16 = 1 << 6;
    pub(super) const CUT: u16 = 1 << 7;
    pub(super) const REALM: u16 = 1 << 8;
    pub(super) const AFTER: u16 = 1 << 9;
    pub(super) const PINS: u16 = 1 << 10;
    pub(super) const ALL: u16 = (1 << 11) - 1;
}

impl Inode {
    fn sections(&self) -> u16 {
        let flag = |is_there: bool, section: u16| if is_there { section } else { 0 };
        flag(self.layout.is_some(), section::LAYOUT)
            | flag(!self.symlink.is_empty(), section::SYMLINK)
            | flag(!self.xattrs.values.is_empty(), section::XATTRS)
            | flag(!self.write_ranges.is_empty(), section::WRITE_RANGES)
            | flag(self.has_quota(), section::QUOTA)
            | flag(self.encryption != Encryption::default(), section::FSCRYPT)
            | flag(self.truncation.data_end != 0, section::DATA_END)
            | flag(self.truncation.cut_until != 0, section::CUT)
            | flag(self.policy.realm.is_some(), section::REALM)
            | flag(self.policy.after != SnapId(0), section::AFTER)
            | flag(self.policy.pins != Pins::default(), section::PINS)
    }
}

impl Encode for Inode {
    fn encode(&self, w: &mut Writer) {
        w.versioned(VERSION, COMPAT, |w| {
            self.encode_plain(w);
            let sections = self.sections();
            w.u16(sections);
            self.layout.iter().for_each(|layout| w.value(layout));
            if sections & section::SYMLINK != 0 {
                w.value(&self.symlink);
            }
            if sections & section::XATTRS != 0 {
                w.value(&self.xattrs.values);
            }
            if sections & section::WRITE_RANGES != 0 {
                w.count(self.write_ranges.len());
                self.write_ranges.iter().for_each(|(client, range)| {
                    w.u64(*client);
                    w.u64(range.end);
                });
            }
            if sections & section::QUOTA != 0 {
                w.value(&self.policy.quota);
            }
            if sections & section::FSCRYPT != 0 {
                w.value(&self.encryption.auth);
                w.value(&self.encryption.file);
            }
            if sections & section::DATA_END != 0 {
                w.u64(self.truncation.data_end);
            }
            if sections & section::CUT != 0 {
                w.u64(self.truncation.cut_until);
            }
            self.policy.realm.iter().for_each(|realm| w.value(realm));
            if sections & section::AFTER != 0 {
                w.value(&self.policy.after);
            }
            if sections & section::PINS != 0 {
                w.value(&self.policy.pins.rank);
                w.bool(self.policy.pins.is_distributed);
                w.u64(self.policy.pins.random);
            }
        });
    }
}

impl Decode for Inode {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        r.versioned("inode", VERSION, |r, _| {
            let mut inode = Inode::decode_plain(r)?;
            let at = *r;
            let sections = r.u16("sections")?;
            if sections & !section::ALL != 0 {
                return Err(at.unknown("sections", sections.into()));
            }
            if sections & section::LAYOUT != 0 {
                inode.layout = Some(r.value()?);
            }
            if sections & section::SYMLINK != 0 {
                inode.symlink = r.value()?;
            }
            if sections & section::XATTRS != 0 {
                inode.xattrs.values = r.value()?;
            }
            if sections & section::WRITE_RANGES != 0 {
                let range = |r: &mut Reader<'_>| {
                    Ok((r.u64("client")?, WriteRange { end: r.u64("end of a range")? }))
                };
                inode.write_ranges = r.list("write ranges", range)?.into_iter().collect();
            }
            if sections & section::QUOTA != 0 {
                inode.policy.quota = r.value()?;
            }
            if sections & section::FSCRYPT != 0 {
                inode.encryption = Encryption { auth: r.value()?, file: r.value()? };
            }
            if sections & section::DATA_END != 0 {
                inode.truncation.data_end = r.u64("end of data")?;
            }
            if sections & section::CUT != 0 {
                inode.truncation.cut_until = r.u64("end of a cut")?;
            }
            if sections & section::REALM != 0 {
                inode.policy.realm = Some(r.value()?);
            }
            if sections & section::AFTER != 0 {
                inode.policy.after = r.value()?;
            }
            if sections & section::PINS != 0 {
                inode.policy.pins = Pins {
                    rank: r.value()?,
                    is_distributed: r.bool("distributed pin")?,
                    random: r.u64("random pin")?,
                };
            }
            Ok(inode)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Snapshot;
    use types::PoolId;

    #[test]
    fn an_inode_has_only_the_sections_that_it_needs() {
        let plain = Inode { ino: Ino::ROOT, mode: 0o40755, nlink: 1, ..Inode::default() };
        let full = Inode {
            layout: Some(FileLayout::simple(PoolId(3))),
            symlink: "there".into(),
            xattrs: Xattrs { version: 0, values: [("user.a".into(), "b".into())].into() },
            write_ranges: [(7, WriteRange { end: 9 })].into(),
            policy: Policy {
                quota: QuotaInfo { max_bytes: 1, max_files: 0 },
                pins: Pins { rank: Some(1), is_distributed: true, random: 0.5f64.to_bits() },
                realm: Some(Realm {
                    snaps: [(SnapId(6), Snapshot::default())].into(),
                    prior: [SnapId(4), SnapId(5)].into(),
                    ..Realm::default()
                }),
                after: SnapId(7),
            },
            encryption: Encryption { auth: Bytes::new(), file: "size".into() },
            truncation: Truncation { data_end: 5, cut_until: 6, ..Truncation::default() },
            ..plain.clone()
        };
        for inode in [&plain, &full] {
            let bytes = codec::encode_to_bytes(inode);
            assert_eq!(&codec::decode_all::<Inode>("inode", &bytes).unwrap(), inode);
            for end in 0..bytes.len() {
                assert!(codec::decode_all::<Inode>("inode", &bytes[..end]).is_err());
            }
        }
        assert_eq!(codec::encode_to_bytes(&plain).len(), 116);
    }

    #[test]
    fn an_unknown_section_is_refused() {
        let mut bytes = codec::encode_to_bytes(&Inode::default()).to_vec();
        let at = bytes.len() - 1;
        bytes[at] = 0x80;
        let error = codec::decode_all::<Inode>("inode", &bytes).unwrap_err();
        assert_eq!(error.field, "sections");
    }
}
