//! Snapshots: replies that show them, messages that tell of them, and the removal of what they kept.

use super::{MapValues, Rank, realms};
use crate::caps;
use crate::pages::{ShownPage, ShownSnapshot};
use crate::plan::Shown;
use crate::replies::{inode_bytes, no_lease, snapshot_stat};
use bytes::Bytes;
use fscaps::snapshot_caps;
use namespace::snapshots::{inode_at, listed, stale};
use namespace::{Context, Done, Ino, Operation, PageStart};
use std::collections::BTreeSet;
use types::{PoolId, SnapId};
use wire::{
    CapBits, ClientOp, ClientReply, ClientSnap, DirStat, DirectoryEntry, DirectoryPage, InodeStat,
    LeaseStat, MessageBody, ReplyDentry, readdir_flags,
};

/// Old versions that are looked at in one turn, when snapshots are gone.
const TRIMMED_AT_ONCE: usize = 256;

/// Bits for an inode of a snapshot: none that show attributes which a client may still have to write back.
fn snapshot_bits(rank: &Rank, ino: Ino) -> CapBits {
    let changes = CapBits::ANY_EXCL | CapBits::FILE_WRITE | CapBits::FILE_BUFFER;
    let id = caps::inode_id(ino);
    let is_open =
        rank.caps.holders(id).any(|client| rank.caps.issued(id, client).intersects(changes));
    if is_open { CapBits::PIN } else { snapshot_caps() }
}

fn snapshot_inode(rank: &Rank, ino: Ino, snap: SnapId) -> Option<InodeStat> {
    let inode = inode_at(&rank.tree, ino, snap)?;
    Some(snapshot_stat(&rank.tree, inode, snap, snapshot_bits(rank, ino)))
}

/// Adds what a snapshot shows to a reply.
pub(super) fn show(rank: &Rank, reply: &mut ClientReply, snapshot: &ShownSnapshot, shown: &Shown) {
    let page = match (snapshot.snap, &shown.page) {
        (None, Some(page)) => Some(snapshot_page(rank, snapshot.ino, page)),
        (Some(snap), page) => {
            // Others have given back what they had, so the attributes are known.
            let inode = inode_at(&rank.tree, snapshot.ino, snap);
            reply.target =
                inode.map(|inode| snapshot_stat(&rank.tree, inode, snap, snapshot_caps()));
            let looks_up = [ClientOp::LOOKUP, ClientOp::OPEN].contains(&reply.op);
            let entry = snapshot.entry.as_ref().filter(|_| looks_up);
            reply.dentry = entry.and_then(|entry| snapshot_dentry(rank, entry, snap));
            page.as_ref().map(|page| inner_page(rank, snapshot.ino, snap, page))
        }
        (None, None) => None,
    };
    if let Some(page) = page {
        reply.extra = codec::encode_to_bytes(&page);
    }
}

/// An entry of a snapshot, which never changes.
fn snapshot_dentry(
    rank: &Rank,
    (directory, name): &(Ino, Bytes),
    snap: SnapId,
) -> Option<ReplyDentry> {
    let directory = snapshot_inode(rank, *directory, snap)?;
    let (mask, duration_ms) = (LeaseStat::VALID, u32::MAX);
    let lease = LeaseStat { mask, duration_ms, ..LeaseStat::default() };
    Some(ReplyDentry { directory, dirfrag: DirStat::own(), name: name.clone(), lease })
}

fn inner_page(rank: &Rank, directory: Ino, snap: SnapId, wanted: &ShownPage) -> DirectoryPage {
    let page = rank.tree.page_at(directory, snap, &wanted.start, wanted.max);
    let names = page.entries.into_iter().map(|(name, entry)| (name, entry.ino, snap));
    let order = readdir_flags::HASH_ORDER | readdir_flags::OFFSET_HASH;
    fill_page(rank, names, wanted, page.is_last, order)
}

/// Snapshots in `.snap` of a directory, in the order of their names.
fn snapshot_page(rank: &Rank, directory: Ino, wanted: &ShownPage) -> DirectoryPage {
    let snaps = listed(&rank.tree, directory).into_iter();
    let is_behind = |name: &Bytes| match &wanted.start {
        PageStart::After(after) => name > after,
        PageStart::Begin | PageStart::Hash(_) => true,
    };
    let names = snaps.filter(|(name, _)| is_behind(name));
    fill_page(rank, names.map(|(name, snap)| (name, directory, snap)), wanted, true, 0)
}

fn fill_page(
    rank: &Rank,
    names: impl Iterator<Item = (Bytes, Ino, SnapId)>,
    wanted: &ShownPage,
    mut is_last: bool,
    order: u16,
) -> DirectoryPage {
    let (mut bytes, mut entries) = (0, Vec::new());
    for (name, ino, snap) in names {
        bytes += name.len() + inode_at(&rank.tree, ino, snap).map_or(0, inode_bytes);
        if (bytes > wanted.max_bytes || entries.len() >= wanted.max) && !entries.is_empty() {
            is_last = false;
            break;
        }
        let Some(inode) = snapshot_inode(rank, ino, snap) else { continue };
        entries.push(DirectoryEntry { name, lease: no_lease(false), inode });
    }
    let mut flags = order;
    if is_last {
        flags |= readdir_flags::FRAG_END;
    }
    if is_last && wanted.start == PageStart::Begin {
        flags |= readdir_flags::FRAG_COMPLETE;
    }
    DirectoryPage { dirfrag: DirStat::own(), flags, entries }
}

/// Tells all clients of a change of snapshots, when it is durable: their writes name its number.
pub(super) fn tell(rank: &mut Rank, operation: &Operation, done: &Done) {
    let op = match operation {
        Operation::TakeSnapshot { .. } => ClientSnap::CREATE,
        Operation::RemoveSnapshot { .. } => ClientSnap::DESTROY,
        Operation::RenameSnapshot { .. } => ClientSnap::UPDATE,
        _ => return,
    };
    let Some(directory) = done.target else { return };
    let clients: Vec<u64> = rank.sessions.iter().map(|(client, _)| client).collect();
    for client in clients {
        for realm in [directory, Ino::SHARED] {
            let trace = realms::trace_for(rank, client, realm);
            let snap = ClientSnap { op, trace, ..ClientSnap::default() };
            rank.push_safe(client, snap.encode(0));
        }
    }
    if let (ClientSnap::DESTROY, Some(snap)) = (op, done.snapshot) {
        rank.purges.snapshots.new.add(snap.0);
        // Snapshots before it show as much as before.
        let at = rank.purges.snapshots.trim_from.take();
        rank.purges.snapshots.trim_from = at.into_iter().chain([(snap, None)]).min();
    }
}

/// A predecessor may have left work.
pub(super) fn restore(rank: &mut Rank) {
    for snap in rank.tree.snap_numbers().removed.clone() {
        rank.purges.snapshots.new.add_stored(snap.0);
    }
    rank.purges.snapshots.trim_from = (!rank.tree.snap_numbers().removed.is_empty()
        || namespace::snapshots::kept(&rank.tree) > 0)
        .then_some((SnapId(0), None));
}

/// The next snapshot whose data OSDs should remove, with the pools that may have some.
pub(crate) fn next_removal(rank: &mut Rank) -> Option<(SnapId, Vec<PoolId>)> {
    let lsn = rank.log.close();
    rank.purges.snapshots.new.recorded(lsn);
    let snap = SnapId(rank.purges.snapshots.new.take(rank.log.durable())?);
    let MapValues { layout, pools, .. } = &rank.map;
    let pools: BTreeSet<PoolId> = pools.names.keys().copied().chain([layout.pool]).collect();
    Some((snap, pools.into_iter().collect()))
}

/// OSDs know that data of a snapshot is to be removed.
pub(crate) fn removed(rank: &mut Rank, snap: SnapId) {
    rank.log.set_author(None);
    let confirmed = rank.execute(&Operation::ConfirmRemoved { snap }, &Context::default());
    confirmed.expect("a confirmation is not refused");
    rank.log.close();
}

/// Rows that are kept for snapshots, and removed snapshots of which OSDs may not know.
pub(crate) fn kept(rank: &Rank) -> usize {
    namespace::snapshots::kept(&rank.tree) + rank.tree.snap_numbers().removed.len()
}

/// Forgets a part of what was kept for snapshots that are gone; returns whether there may be more.
pub(crate) fn trim(rank: &mut Rank) -> bool {
    let Some(from) = rank.purges.snapshots.trim_from.take() else { return false };
    let (keys, next) = stale(&rank.tree, &from, TRIMMED_AT_ONCE);
    rank.purges.snapshots.trim_from = next;
    if !keys.is_empty() {
        rank.log.set_author(None);
        let trimmed = rank.execute(&Operation::TrimOldVersions { keys }, &Context::default());
        trimmed.expect("nothing refuses to be forgotten");
        rank.log.close();
    }
    rank.purges.snapshots.trim_from.is_some()
}
