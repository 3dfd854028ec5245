//! Inodes, directories and dentries in replies to clients.

use crate::{CapBits, FileLayout};
use bytes::Bytes;
use codec::{Decode, Encode, Reader, Result, Writer};
use std::collections::BTreeMap;
use types::UTime;

/// Version of inodes. Version 8 adds metadata of case folding, which no supported client demands.
const INODE_VERSION: u8 = 7;
/// Version of the attributes in `inline_version` that says that data is in objects (`CEPH_INLINE_NONE`).
const NOT_INLINE: u64 = u64::MAX;
/// `ceph_dir_layout`: names are hashed by `rjenkins`.
const HASH_RJENKINS: u8 = 2;
/// A directory without a pin: `-ENODATA`.
pub const NO_PIN: i32 = -61;

/// `ceph_mds_reply_cap`: a capability, as a reply grants it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReplyCap {
    /// The client's capabilities now.
    pub caps: CapBits,
    /// Those that it wants, as far as the server knows.
    pub wanted: CapBits,
    /// Id of the capability; 0 for none.
    pub cap_id: u64,
    /// Number of the last message about it.
    pub seq: u32,
    /// Number of its migrations.
    pub mseq: u32,
    /// The snap realm of the inode.
    pub realm: u64,
    /// Whether the sender has the authority over the inode.
    pub is_auth: bool,
}

impl Encode for ReplyCap {
    fn encode(&self, w: &mut Writer) {
        w.value(&self.caps);
        w.value(&self.wanted);
        w.u64(self.cap_id);
        w.u32(self.seq);
        w.u32(self.mseq);
        w.u64(self.realm);
        w.bool(self.is_auth);
    }
}

impl Decode for ReplyCap {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        Ok(ReplyCap {
            caps: r.value()?,
            wanted: r.value()?,
            cap_id: r.u64("cap id")?,
            seq: r.u32("cap seq")?,
            mseq: r.u32("cap mseq")?,
            realm: r.u64("cap realm")?,
            is_auth: r.bool("cap flags")?,
        })
    }
}

structure! {
    /// `quota_info_t`
    QuotaInfo, version 1, compat 1 {
        /// Bytes below the directory; 0 for no bound.
        max_bytes: u64;
        /// Files and directories below it; 0 for no bound.
        max_files: u64;
    }
}

/// `InodeStat`: what a client learns of an inode.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct InodeStat {
    /// Number.
    pub ino: u64,
    /// Snapshot; `u64::MAX - 1` for none.
    pub snap: u64,
    /// Device of a special file.
    pub rdev: u32,
    /// Version. A client drops attributes that are older than those it has.
    pub version: u64,
    /// Version of the extended attributes.
    pub xattr_version: u64,
    /// Capability of the client.
    pub cap: ReplyCap,
    /// Layout.
    pub layout: FileLayout,
    /// Time of the last change of the inode.
    pub ctime: UTime,
    /// Time of the last change of data.
    pub mtime: UTime,
    /// Time of the last read.
    pub atime: UTime,
    /// Changes when times go back.
    pub time_warp_seq: u32,
    /// Bytes of a file.
    pub size: u64,
    /// Bytes up to which a file may be written.
    pub max_size: u64,
    /// Size to which the file was last cut.
    pub truncate_size: u64,
    /// How often it was cut, from 1.
    pub truncate_seq: u32,
    /// Type and permissions.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Number of links.
    pub nlink: u32,
    /// Entries of a directory that are not directories.
    pub files: u64,
    /// Entries of a directory that are.
    pub subdirs: u64,
    /// Bytes below a directory.
    pub rbytes: u64,
    /// Files below a directory.
    pub rfiles: u64,
    /// Directories below a directory, with itself.
    pub rsubdirs: u64,
    /// Latest change below a directory.
    pub rctime: UTime,
    /// Target of a symbolic link.
    pub symlink: Bytes,
    /// Extended attributes as [`encode_xattrs`] makes them; empty if the client may not see them.
    pub xattrs: Bytes,
    /// Quota of a directory.
    pub quota: QuotaInfo,
    /// Time of creation.
    pub btime: UTime,
    /// Counts changes.
    pub change_attr: u64,
    /// The rank that a directory is pinned to; [`NO_PIN`] for none.
    pub pin: i32,
    /// Time of creation of the snapshot.
    pub snap_btime: UTime,
    /// Snapshots below a directory.
    pub rsnaps: u64,
    /// Facts about the snapshot.
    pub snap_metadata: BTreeMap<String, String>,
    /// Encryption context.
    pub fscrypt_auth: Bytes,
    /// Encrypted size.
    pub fscrypt_file: Bytes,
}

/// Extended attributes in the form of [`InodeStat::xattrs`] and of messages about capabilities.
pub fn encode_xattrs(xattrs: &BTreeMap<Bytes, Bytes>) -> Bytes {
    codec::encode_to_bytes(xattrs)
}

/// Reads them.
pub fn decode_xattrs(bytes: &[u8]) -> Result<BTreeMap<Bytes, Bytes>> {
    codec::decode_all("extended attributes", bytes)
}

impl InodeStat {
    fn encode_plain(&self, w: &mut Writer) {
        w.u64(self.ino);
        w.u64(self.snap);
        w.u32(self.rdev);
        w.u64(self.version);
        w.u64(self.xattr_version);
        w.value(&self.cap);
        self.layout.encode_legacy(w);
        [self.ctime, self.mtime, self.atime].iter().for_each(|time| w.value(time));
        w.u32(self.time_warp_seq);
        [self.size, self.max_size, self.truncate_size].iter().for_each(|size| w.u64(*size));
        w.u32(self.truncate_seq);
        [self.mode, self.uid, self.gid, self.nlink].iter().for_each(|number| w.u32(*number));
        let counts = [self.files, self.subdirs, self.rbytes, self.rfiles, self.rsubdirs];
        counts.iter().for_each(|count| w.u64(*count));
        w.value(&self.rctime);
        w.count(0); // splits of the directory: clients always see one fragment
    }

    fn decode_plain(r: &mut Reader<'_>) -> Result<Self> {
        let stat = InodeStat {
            ino: r.u64("ino")?,
            snap: r.u64("snap")?,
            rdev: r.u32("rdev")?,
            version: r.u64("version")?,
            xattr_version: r.u64("xattr version")?,
            cap: r.value()?,
            layout: FileLayout::decode_legacy(r)?,
            ctime: r.value()?,
            mtime: r.value()?,
            atime: r.value()?,
            time_warp_seq: r.u32("time warp seq")?,
            size: r.u64("size")?,
            max_size: r.u64("max size")?,
            truncate_size: r.u64("truncate size")?,
            truncate_seq: r.u32("truncate seq")?,
            mode: r.u32("mode")?,
            uid: r.u32("uid")?,
            gid: r.u32("gid")?,
            nlink: r.u32("nlink")?,
            files: r.u64("files")?,
            subdirs: r.u64("subdirs")?,
            rbytes: r.u64("rbytes")?,
            rfiles: r.u64("rfiles")?,
            rsubdirs: r.u64("rsubdirs")?,
            rctime: r.value()?,
            ..InodeStat::default()
        };
        for _ in 0..r.count("splits")? {
            r.skip("split", 8)?;
        }
        Ok(stat)
    }

    fn decode_newer(&mut self, r: &mut Reader<'_>, version: u8) -> Result<()> {
        if version >= 2 {
            self.pin = r.i32("pin")?;
        }
        if version >= 3 {
            self.snap_btime = r.value()?;
        }
        if version >= 4 {
            self.rsnaps = r.u64("rsnaps")?;
        }
        if version >= 5 {
            self.snap_metadata = r.value()?;
        }
        if version >= 6 {
            r.bool("is encrypted")?;
        }
        if version >= 7 {
            self.fscrypt_auth = r.value()?;
            self.fscrypt_file = r.value()?;
        }
        Ok(())
    }
}

impl Encode for InodeStat {
    fn encode(&self, w: &mut Writer) {
        w.versioned(INODE_VERSION, 1, |w| {
            self.encode_plain(w);
            w.value(&self.symlink);
            w.u8(HASH_RJENKINS);
            w.zeros(7); // the rest of the directory's layout
            w.value(&self.xattrs);
            w.u64(NOT_INLINE);
            w.count(0);
            w.value(&self.quota);
            w.value(&self.layout.namespace);
            w.value(&self.btime);
            w.u64(self.change_attr);
            w.i32(self.pin);
            w.value(&self.snap_btime);
            w.u64(self.rsnaps);
            w.value(&self.snap_metadata);
            w.bool(!self.fscrypt_auth.is_empty());
            w.value(&self.fscrypt_auth);
            w.value(&self.fscrypt_file);
        });
    }
}

impl Decode for InodeStat {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        r.versioned("inode", INODE_VERSION, |r, version| {
            let mut stat = InodeStat::decode_plain(r)?;
            stat.symlink = r.value()?;
            r.skip("layout of a directory", 8)?;
            stat.xattrs = r.value()?;
            r.u64("inline version")?;
            r.blob("inline data")?;
            stat.quota = r.value()?;
            stat.layout.namespace = r.value()?;
            stat.btime = r.value()?;
            stat.change_attr = r.u64("change attribute")?;
            stat.pin = NO_PIN;
            stat.decode_newer(r, version)?;
            Ok(stat)
        })
    }
}

structure! {
    /// `DirStat`: who serves a fragment of a directory.
    DirStat, version 1, compat 1 {
        /// The fragment; 0 for the whole directory.
        frag: u32;
        /// Its rank, if it is not that of the directory's inode; else -1.
        auth: i32;
        /// Ranks that have copies; none.
        replicas: Vec<i32>;
    }
}

impl DirStat {
    /// A whole directory that the sender serves.
    pub fn own() -> Self {
        DirStat { frag: 0, auth: -1, replicas: Vec::new() }
    }
}

structure! {
    /// `LeaseStat`: how long a client may use a dentry.
    LeaseStat, version 2, compat 1 {
        /// [`LeaseStat::VALID`], [`LeaseStat::PRIMARY_LINK`]
        mask: u16;
        /// Milliseconds since the reply.
        duration_ms: u32;
        /// Number of the lease.
        seq: u32;
        /// Alternative form of the name.
        alternate_name: Bytes, since 2;
    }
}

impl LeaseStat {
    /// The dentry may be used.
    pub const VALID: u16 = 1 | 2;
    /// It is the only link of its inode, or the one with which the inode is stored.
    pub const PRIMARY_LINK: u16 = 4;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plain_part_has_the_length_of_its_structure() {
        let mut w = Writer::new();
        InodeStat::default().encode_plain(&mut w);
        // `ceph_mds_reply_inode` of Linux, packed.
        assert_eq!(w.len(), 8 + 8 + 4 + 8 + 8 + 33 + 28 + 24 + 4 + 24 + 4 + 16 + 40 + 8 + 4);
    }

    #[test]
    fn xattrs_round_trip() {
        let xattrs: BTreeMap<Bytes, Bytes> = [("user.a".into(), "\u{1}".into())].into();
        assert_eq!(decode_xattrs(&encode_xattrs(&xattrs)).unwrap(), xattrs);
    }
}
