//! Inodes and traces as replies show them.

use crate::caps;
use engine::Time;
use fscaps::{Issue, LeaseGrant, LockMachine};
use namespace::{Ino, Inode, Tree};
use types::SnapId;
use wire::inode_stat::{NO_PIN, encode_xattrs};
use wire::{InodeStat, LeaseStat, ReplyCap, SnapRealmInfo};

/// The only realm: that of the root, without snapshots.
pub(crate) fn snap_trace(features: u64) -> bytes::Bytes {
    let root = SnapRealmInfo { ino: Ino::ROOT.0, seq: 1, ..SnapRealmInfo::default() };
    SnapRealmInfo::trace(&[root], features)
}

/// An inode with a capability on it for a client.
pub(crate) fn inode_with_cap(
    tree: &Tree,
    caps: &mut LockMachine,
    now: Time,
    inode: &Inode,
    issue: Issue,
) -> InodeStat {
    let cap = caps::issue(caps, now, inode, issue);
    inode_stat(tree, inode, cap)
}

/// An inode, as clients learn of it.
pub(crate) fn inode_stat(tree: &Tree, inode: &Inode, cap: ReplyCap) -> InodeStat {
    let [files, subdirs] = tree.counts(inode.ino);
    let sum = tree.statistics(inode.ino);
    InodeStat {
        ino: inode.ino.0,
        snap: SnapId::HEAD.0,
        rdev: inode.rdev,
        // Clients take an even version for one that is not about to change.
        version: inode.version * 2,
        xattr_version: inode.xattrs.version,
        cap,
        layout: inode.layout.clone().unwrap_or_default(),
        ctime: inode.ctime,
        mtime: inode.mtime,
        atime: inode.atime,
        time_warp_seq: inode.time_warp_seq,
        size: inode.size,
        max_size: max_size(inode),
        truncate_size: inode.truncation.size,
        truncate_seq: inode.truncation.seq,
        mode: inode.mode,
        uid: inode.owner.uid,
        gid: inode.owner.gid,
        nlink: inode.nlink,
        files,
        subdirs,
        rbytes: sum.bytes,
        rfiles: sum.files,
        rsubdirs: sum.directories,
        rctime: sum.changed,
        symlink: inode.symlink.clone(),
        xattrs: encode_xattrs(&inode.xattrs.values),
        quota: inode.policy.quota.clone(),
        btime: inode.btime,
        change_attr: inode.change_attr,
        pin: pin(inode),
        fscrypt_auth: inode.encryption.auth.clone(),
        fscrypt_file: inode.encryption.file.clone(),
        ..InodeStat::default()
    }
}

/// The rank that a directory is pinned to; -1 for none.
fn pin(inode: &Inode) -> i32 {
    let rank = inode.policy.pins.rank.and_then(|rank| i32::try_from(rank).ok()).unwrap_or(-1);
    if inode.is_directory() { rank } else { NO_PIN }
}

/// Bytes that an entry with an inode has in a page, without its name: not fewer than are sent.
pub(crate) fn inode_bytes(inode: &Inode) -> usize {
    const NUMBERS: usize = 512;
    let xattrs = inode.xattrs.values.iter();
    let xattrs: usize = xattrs.map(|(name, value)| 8 + name.len() + value.len()).sum();
    let encryption = inode.encryption.auth.len() + inode.encryption.file.len();
    let layout = inode.layout.as_ref().map_or(0, |layout| layout.namespace.len());
    NUMBERS + inode.symlink.len() + xattrs + encryption + layout
}

/// Size up to which clients may write a file.
pub(crate) fn max_size(inode: &Inode) -> u64 {
    inode.write_ranges.values().map(|range| range.end).max().unwrap_or(0)
}

/// A dentry that the client may use for a time, as it may not cache the directory's entries.
pub(crate) fn lease(granted: LeaseGrant, is_primary: bool) -> LeaseStat {
    let duration_ms = u32::try_from(granted.duration.as_millis()).unwrap_or(u32::MAX);
    let mask = no_lease(is_primary).mask | LeaseStat::VALID;
    LeaseStat { mask, duration_ms, seq: granted.seq, ..LeaseStat::default() }
}

/// A dentry without a lease of its own: it is valid as long as the client may cache the directory's entries.
pub(crate) fn no_lease(is_primary: bool) -> LeaseStat {
    let mask = if is_primary { LeaseStat::PRIMARY_LINK } else { 0 };
    LeaseStat { mask, ..LeaseStat::default() }
}
