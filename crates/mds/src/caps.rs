//! Inodes of the tree as the lock machine knows them.

use fscaps::{Claim, Entry, InodeId, Issue, IssuedCap, Kind, LockMachine, Release, Unit, Update};
use namespace::{Ino, Inode};
use wire::{CapBits, CapItem, CapOp, ClaimedCap, ClientCaps, FileLayout, ReplyCap, RequestRelease};

/// Number of an inode.
pub(crate) fn inode_id(ino: Ino) -> InodeId {
    InodeId(ino.0)
}

/// An entry of a directory.
pub(crate) fn entry(directory: Ino, name: &bytes::Bytes) -> Entry {
    Entry { directory: inode_id(directory), name: name.clone() }
}

/// A capability on an inode that a reply is going to give, of the bits that the client may have at all.
pub(crate) fn issue_of(inode: &Inode, client: u64, wanted: CapBits, allowed: CapBits) -> Issue {
    let kind = if inode.is_directory() { Kind::Directory } else { Kind::File };
    Issue {
        ino: inode_id(inode.ino),
        kind,
        client,
        wanted,
        may_delegate: false,
        allowed,
        is_assumed: false,
    }
}

/// Bits that a client may have at all by a capability that it has; `None` if it has none.
pub(crate) fn held(caps: &LockMachine, client: u64, ino: Ino) -> Option<CapBits> {
    caps.allowed(inode_id(ino), client)
}

/// Sizes of a layout, on which ranges of writers depend.
pub(crate) fn unit_of(layout: &FileLayout) -> Unit {
    Unit { object: layout.object_size, stripe: layout.stripe_unit }
}

/// Gives a client a capability on an inode in a reply; none if memory is short.
pub(crate) fn issue(
    caps: &mut LockMachine,
    now: engine::Time,
    inode: &Inode,
    realm: Ino,
    issue: Issue,
) -> ReplyCap {
    if let Some(range) = inode.write_ranges.get(&issue.client) {
        caps.adopt_range(issue.ino, issue.client, range.end);
    }
    let issued = caps.issue(now, issue);
    issued.map_or_else(ReplyCap::default, |issued| {
        let IssuedCap { cap_id, seq, mseq, caps, wanted } = issued;
        ReplyCap { caps, wanted, cap_id, seq, mseq, realm: realm.0, is_auth: true }
    })
}

/// A capability that a client had from a predecessor.
pub(crate) fn claim_of(
    inode: &Inode,
    client: u64,
    claimed: &ClaimedCap,
    allowed: CapBits,
) -> Claim {
    let kind = if inode.is_directory() { Kind::Directory } else { Kind::File };
    let ClaimedCap { cap_id, issued, wanted, .. } = *claimed;
    Claim { client, ino: inode_id(inode.ino), kind, cap_id, mseq: 0, issued, wanted, allowed }
}

/// Takes a capability from a client, which drops it: there is no other rank that could have it.
pub(crate) fn export(ino: Ino, cap_id: u64, mseq: u32) -> ClientCaps {
    ClientCaps { op: CapOp::EXPORT, ino: ino.0, cap_id, mseq, ..ClientCaps::default() }
}

/// The part of a client's message that is about its capability.
pub(crate) fn update_of(client: u64, message: &ClientCaps) -> Update {
    Update {
        client,
        ino: InodeId(message.ino),
        cap_id: message.cap_id,
        mseq: message.mseq,
        seq: message.seq,
        issue_seq: message.issue_seq,
        kept: message.caps,
        wanted: message.wanted,
    }
}

/// A message by which a client drops its capability.
pub(crate) fn release_of(client: u64, message: &ClientCaps) -> Release {
    let ClientCaps { ino, cap_id, mseq, issue_seq, .. } = *message;
    Release { client, ino: InodeId(ino), cap_id, mseq, issue_seq }
}

/// An item of a list of dropped capabilities.
pub(crate) fn released_item(client: u64, item: &CapItem) -> Release {
    let CapItem { ino, cap_id, mseq, issue_seq } = *item;
    Release { client, ino: InodeId(ino), cap_id, mseq, issue_seq }
}

/// Bits that a client returns within a request.
pub(crate) fn returned_in_request(client: u64, release: &RequestRelease) -> Update {
    Update {
        client,
        ino: InodeId(release.ino),
        cap_id: release.cap_id,
        mseq: release.mseq,
        seq: release.seq,
        issue_seq: release.issue_seq,
        kept: release.caps,
        wanted: release.wanted,
    }
}
