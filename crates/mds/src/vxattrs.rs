//! Virtual extended attributes: names below `ceph.` that mean something else than a stored value.

use crate::layouts::LayoutField;
use crate::quota_values::QuotaField;
use bytes::Bytes;
use std::collections::BTreeMap;
use types::Errno;
use wire::inode_stat::decode_xattrs;

/// Pins of a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PinField {
    /// The rank.
    Rank,
    /// Whether subdirectories are distributed.
    Distributed,
    /// The probability by which directories below are.
    Random,
}

/// The meaning of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Vxattr {
    /// A part of a directory's layout; `None` is one that there is not.
    DirectoryLayout(Option<LayoutField>),
    /// A part of a file's layout; `None` is one that there is not.
    FileLayout(Option<LayoutField>),
    /// A part of a directory's quota.
    Quota(QuotaField),
    /// A pin.
    Pin(PinField),
    /// The cluster and the file system to which an image of this one is mirrored.
    MirrorInfo,
    /// The snapshot that mirroring works at: stored as any other value.
    MirrorSnapshot,
}

/// Names of the values in which [`Vxattr::MirrorInfo`] is stored: clients read them.
pub(crate) const MIRROR_INFO: [&str; 2] = ["ceph.mirror.info.cluster_id", "ceph.mirror.info.fs_id"];

impl Vxattr {
    /// The meaning of a name; `None` if clients may neither set nor ask for it.
    pub fn named(name: &[u8]) -> Option<Self> {
        let name = std::str::from_utf8(name).ok()?;
        Some(match name {
            "ceph.dir.pin" => Vxattr::Pin(PinField::Rank),
            "ceph.dir.pin.distributed" => Vxattr::Pin(PinField::Distributed),
            "ceph.dir.pin.random" => Vxattr::Pin(PinField::Random),
            "ceph.mirror.info" => Vxattr::MirrorInfo,
            "ceph.mirror.dirty_snap_id" => Vxattr::MirrorSnapshot,
            _ => {
                if let Some(rest) = name.strip_prefix("ceph.quota") {
                    return QuotaField::named(rest).map(Vxattr::Quota);
                }
                let directory = name.strip_prefix("ceph.dir.layout");
                let file = name.strip_prefix("ceph.file.layout");
                let directory =
                    directory.map(|rest| Vxattr::DirectoryLayout(LayoutField::named(rest)));
                directory.or(file.map(|rest| Vxattr::FileLayout(LayoutField::named(rest))))?
            }
        })
    }
}

/// Attributes that a client gives a new inode: access control lists that the directory hands down.
pub(crate) fn new_xattrs(data: &[u8]) -> Result<BTreeMap<Bytes, Bytes>, Errno> {
    if data.is_empty() {
        return Ok(BTreeMap::new());
    }
    let xattrs = decode_xattrs(data).map_err(|_| Errno::INVAL)?;
    let is_virtual = |name: &Bytes| name.starts_with(b"ceph.");
    if xattrs.keys().any(is_virtual) { Err(Errno::INVAL) } else { Ok(xattrs) }
}
