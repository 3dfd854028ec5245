//! Realms as clients know them: by traces in replies, and by messages when inodes go from one to another.

use super::Rank;
use crate::caps;
use crate::replies::{realm_info, snap_trace};
use bytes::Bytes;
use namespace::{AttributeChange, Ino, Operation, realms};
use std::collections::BTreeMap;
use wire::{ClaimedRealm, ClientSnap, MessageBody};

/// Inodes that one message moves. More go by several messages.
const INODES_MAX: usize = 4096;

/// An inode, its realm, and the realm above that one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    ino: Ino,
    realm: Ino,
    above: Option<Ino>,
}

fn realm_place(rank: &Rank, ino: Ino) -> Place {
    let realm = realms::realm_of(&rank.tree, ino);
    Place { ino, realm, above: realms::realm_above(&rank.tree, realm) }
}

/// Places of the inodes that an operation may move to another realm.
pub(super) fn before(rank: &Rank, operation: &Operation) -> Vec<Place> {
    let makes_realm = |change: &AttributeChange| matches!(change, AttributeChange::SetQuota(_));
    let entry = |(directory, name): &(Ino, Bytes)| rank.tree.entry(*directory, name);
    let inodes = match operation {
        Operation::Change { ino, change } if makes_realm(change) => vec![*ino],
        Operation::TakeSnapshot { directory, .. } => vec![*directory],
        Operation::Link { ino, .. } => vec![*ino],
        _ if rank.tree.realms().is_empty() => return Vec::new(),
        Operation::Rename { from, to } => {
            [from, to].into_iter().filter_map(entry).map(|entry| entry.ino).collect()
        }
        Operation::Unlink { directory, name } => {
            entry(&(*directory, name.clone())).into_iter().map(|entry| entry.ino).collect()
        }
        _ => return Vec::new(),
    };
    inodes.into_iter().map(|ino| realm_place(rank, ino)).collect()
}

/// Tells clients of inodes that are in another realm now, and of realms that are below another one.
pub(super) fn tell_moved(rank: &mut Rank, before: &[Place]) {
    for old in before {
        // Without a name it stays in the realm in which its clients have it, until a reply says more.
        let has_name = rank.tree.home(old.ino).is_some() || old.ino == Ino::ROOT;
        let new = realm_place(rank, old.ino);
        if !has_name || new == *old {
            continue;
        }
        match new.realm == old.realm {
            false => tell_split(rank, old.ino, new.realm),
            true if new.realm == old.ino => tell_update(rank, old.ino),
            true => {}
        }
    }
}

/// Inodes at and below `top` on which clients have capabilities, by client.
fn held_within(rank: &Rank, top: Ino) -> BTreeMap<u64, Vec<Ino>> {
    let held = rank.caps.inodes();
    let inodes = realms::all_within(&rank.tree, top, held.len() as u64).unwrap_or_else(|| {
        held.map(|ino| Ino(ino.0)).filter(|ino| rank.tree.is_within(*ino, top)).collect()
    });
    let mut found: BTreeMap<u64, Vec<Ino>> = BTreeMap::new();
    for ino in inodes {
        for client in rank.caps.holders(caps::inode_id(ino)) {
            found.entry(client).or_default().push(ino);
        }
    }
    found
}

/// Inodes at and below `top` are in `realm` now.
fn tell_split(rank: &mut Rank, top: Ino, realm: Ino) {
    let is_below = |ino: &Ino| {
        realms::realm_above(&rank.tree, *ino) == Some(realm) && rank.tree.is_within(*ino, top)
    };
    let is_directory = rank.tree.get(top).is_some_and(|inode| inode.is_directory());
    let all = rank.tree.realms().iter().copied().filter(|_| is_directory);
    let realms: Vec<u64> = all.filter(is_below).map(|ino| ino.0).collect();
    for (client, mut inodes) in held_within(rank, top) {
        inodes.retain(|ino| realms::realm_of(&rank.tree, *ino) == realm);
        push_split(rank, client, realm, &inodes, realms.clone());
    }
}

fn push_split(rank: &mut Rank, client: u64, realm: Ino, inodes: &[Ino], mut realms: Vec<u64>) {
    for part in inodes.chunks(INODES_MAX) {
        let split = ClientSnap {
            op: ClientSnap::SPLIT,
            split: realm.0,
            inodes: part.iter().map(|ino| ino.0).collect(),
            realms: std::mem::take(&mut realms),
            trace: trace_for(rank, client, realm),
        };
        rank.push_safe(client, split.encode(0));
    }
}

/// A realm is below another one.
fn tell_update(rank: &mut Rank, realm: Ino) {
    for client in held_within(rank, realm).into_keys() {
        push_update(rank, client, realm);
    }
}

fn push_update(rank: &mut Rank, client: u64, realm: Ino) {
    let trace = trace_for(rank, client, realm);
    let update = ClientSnap { op: ClientSnap::UPDATE, trace, ..ClientSnap::default() };
    rank.push_safe(client, update.encode(0));
}

/// The trace of a realm in the encoding of a client.
pub(super) fn trace_for(rank: &Rank, client: u64, realm: Ino) -> Bytes {
    let features = rank.sessions.get(client).map_or(0, |session| session.features());
    snap_trace(&rank.tree, realm, features)
}

/// A client has claimed inodes in realms in which they are not: its messages about that were lost with the
/// predecessor. Realms that it knows may be below others.
pub(super) fn correct(rank: &mut Rank, client: u64, inodes: &[Ino], known: &[ClaimedRealm]) {
    let mut moved: BTreeMap<Ino, Vec<Ino>> = BTreeMap::new();
    let holds = |ino: &&Ino| rank.caps.cap_id(caps::inode_id(**ino), client).is_some();
    for ino in inodes.iter().filter(|ino| rank.tree.home(**ino).is_some()).filter(holds) {
        moved.entry(realms::realm_of(&rank.tree, *ino)).or_default().push(*ino);
    }
    for (realm, inodes) in moved {
        push_split(rank, client, realm, &inodes, Vec::new());
    }
    for ClaimedRealm { ino, seq, parent } in known {
        let realm = Ino(*ino);
        let is_root = [Ino::ROOT, Ino::SHARED].contains(&realm);
        let now = realm_info(&rank.tree, realm);
        let is_old = now.parent != *parent || now.seq > *seq;
        if is_old && (is_root || rank.tree.realms().contains(&realm)) {
            push_update(rank, client, realm);
        }
    }
}
