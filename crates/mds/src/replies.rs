//! Inodes and traces as replies show them.

use crate::caps;
use engine::Time;
use fscaps::{Issue, LeaseGrant, LockMachine};
use namespace::{Ino, Inode, PageStart, Tree, realms, snapshots};
use types::SnapId;
use wire::inode_stat::{NO_PIN, encode_xattrs};
use wire::{CapBits, FileLayout, InodeStat, LeaseStat, ReplyCap, SnapContext, SnapRealmInfo};

/// Entries of a changed directory that are counted in a snapshot. Of more, so many are shown.
const COUNTED_MAX: usize = 4096;
/// A client that writes no file.
const NO_WRITER: u64 = 0;

/// A realm and those above it, for a client with these features.
pub(crate) fn snap_trace(tree: &Tree, realm: Ino, features: u64) -> bytes::Bytes {
    let chain: Vec<_> =
        realms::realm_chain(tree, realm).iter().map(|ino| realm_info(tree, *ino)).collect();
    SnapRealmInfo::trace(&chain, features)
}

/// A realm as clients know it.
pub(crate) fn realm_info(tree: &Tree, ino: Ino) -> SnapRealmInfo {
    let numbers = |snaps: &mut dyn Iterator<Item = SnapId>| snaps.map(|snap| snap.0).collect();
    if ino == Ino::SHARED {
        let seq = tree.snap_numbers().last.0.max(1);
        let snaps = numbers(&mut tree.existing_snaps().keys().rev().copied());
        return SnapRealmInfo { ino: ino.0, seq, snaps, ..SnapRealmInfo::default() };
    }
    let none = snapshots::new_realm(tree, ino);
    let own = tree.get(ino).and_then(|inode| inode.policy.realm.as_ref()).unwrap_or(&none);
    let exists = |snap: &SnapId| tree.existing_snaps().contains_key(snap);
    SnapRealmInfo {
        ino: ino.0,
        parent: realms::realm_above(tree, ino).map_or(0, |above| above.0),
        parent_since: own.parent_since.0,
        seq: own.seq.0,
        snaps: numbers(&mut own.snaps.keys().rev().copied()),
        prior_parent_snaps: numbers(&mut own.prior.iter().rev().copied().filter(exists)),
        last_modified: own.last_modified,
        change_attr: own.change_attr,
        ..SnapRealmInfo::default()
    }
}

/// Snapshots that a write of an inode's data must preserve.
pub(crate) fn snap_context(tree: &Tree, ino: Ino) -> SnapContext {
    let snaps: Vec<SnapId> = snapshots::of(tree, ino).into_iter().rev().collect();
    SnapContext { seq: snaps.first().copied().unwrap_or(SnapId(0)), snaps }
}

/// An inode as a snapshot shows it, with bits that say which attributes will not change.
pub(crate) fn snapshot_stat(tree: &Tree, inode: &Inode, snap: SnapId, caps: CapBits) -> InodeStat {
    let cap = ReplyCap { caps, is_auth: true, ..ReplyCap::default() };
    let [files, subdirs] = counts_at(tree, inode, snap);
    let (taken, metadata) = snapshots::get(tree, snap)
        .map(|(_, snapshot)| (snapshot.taken, snapshot.metadata.clone()))
        .unwrap_or_default();
    InodeStat {
        snap: snap.0,
        files,
        subdirs,
        rfiles: files,
        rsubdirs: subdirs + u64::from(inode.is_directory()),
        rbytes: if inode.is_directory() { 0 } else { inode.size },
        rctime: inode.ctime,
        snap_btime: taken,
        snap_metadata: metadata,
        ..inode_stat(tree, inode, NO_WRITER, cap)
    }
}

/// Entries that are not directories, and those that are. The recursive statistics of snapshots are not kept.
fn counts_at(tree: &Tree, inode: &Inode, snap: SnapId) -> [u64; 2] {
    if !inode.is_directory() {
        return [0; 2];
    }
    if tree.get(inode.ino).is_some_and(|live| live.policy.after < snap) {
        return tree.counts(inode.ino);
    }
    let page = tree.page_at(inode.ino, snap, &PageStart::Begin, COUNTED_MAX);
    let is_directory =
        |ino| snapshots::inode_at(tree, ino, snap).is_some_and(|inode| inode.is_directory());
    let subdirs = page.entries.iter().filter(|(_, entry)| is_directory(entry.ino)).count();
    [(page.entries.len() - subdirs) as u64, subdirs as u64]
}

/// An inode with a capability on it for a client.
pub(crate) fn inode_with_cap(
    tree: &Tree,
    caps: &mut LockMachine,
    now: Time,
    inode: &Inode,
    issue: Issue,
) -> InodeStat {
    let client = issue.client;
    let cap = caps::issue(caps, now, inode, realms::realm_of(tree, inode.ino), issue);
    inode_stat(tree, inode, client, cap)
}

/// An inode, as a client learns of it.
pub(crate) fn inode_stat(tree: &Tree, inode: &Inode, client: u64, cap: ReplyCap) -> InodeStat {
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
        max_size: max_size(inode, client),
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

/// Size up to which a client may write a file: the end of its own range, since that of another one ends with
/// its writer.
pub(crate) fn max_size(inode: &Inode, client: u64) -> u64 {
    inode.write_ranges.get(&client).map_or(0, |range| range.end)
}

/// Greatest size that a client can have written without a lie. A client may flush what it wrote after its
/// range has ended, of which the inode keeps the last object, not the last byte.
pub(crate) fn written_max(inode: &Inode) -> u64 {
    let ranges = inode.write_ranges.values().map(|range| range.end);
    let end = ranges.fold(inode.size.max(inode.truncation.data_end), u64::max);
    let period = inode.layout.as_ref().map_or(0, FileLayout::period_bytes).max(1);
    end.max(1).checked_next_multiple_of(period).unwrap_or(u64::MAX)
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
