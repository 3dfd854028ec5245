//! Tells clients how much of a quota is used: they enforce it.

use super::{Rank, asynchronous};
use crate::caps;
use namespace::{AttributeChange, Ino, Operation, Record, realms};
use wire::{ClientQuota, MessageBody};

/// Notes the quotas of which records have changed the use, or the bounds.
pub(super) fn note(rank: &mut Rank, operation: &Operation, records: &[Record]) {
    if rank.tree.realms().is_empty() {
        return;
    }
    for record in records {
        let directory = match record {
            Record::Dentry { directory, .. } => Some(*directory),
            Record::Inode(inode) => rank.tree.home(inode.ino).map(|link| link.0),
            _ => None,
        };
        let above = directory.map(|directory| realms::quotas_above(&rank.tree, directory));
        rank.sessions.quotas.note(above.unwrap_or_default());
    }
    // A directory that is moved may be one in which a client creates asynchronously.
    if let Operation::Rename { to, .. } = operation {
        let above = realms::quotas_above(&rank.tree, to.0);
        rank.sessions.quotas.forget_near(above);
    }
    if let Operation::Change { ino, change } = operation
        && matches!(&**change, AttributeChange::SetQuota(_))
    {
        tell_bounds(rank, *ino);
    }
}

/// The bounds of a directory have changed: all know it at once. The reply tells the client that did it.
fn tell_bounds(rank: &mut Rank, ino: Ino) {
    asynchronous::stop_near_quotas(rank, &[ino].into());
    let author = rank.log.author();
    for client in holders(rank, ino).into_iter().filter(|client| Some(*client) != author) {
        push(rank, ino, client);
    }
}

fn holders(rank: &Rank, ino: Ino) -> Vec<u64> {
    rank.caps.holders(caps::inode_id(ino)).collect()
}

/// Tells clients what they must know of the use: the one whose change it was at once, as it may write on,
/// the others each second.
pub(super) fn tell(rank: &mut Rank) {
    if rank.sessions.quotas.is_told() || rank.awaited.is_some() {
        return;
    }
    let is_due = rank.sessions.quotas.is_due(rank.now);
    let author = rank.log.author();
    // Each author was told of its own changes when it made them.
    let fresh = rank.sessions.quotas.take_fresh();
    asynchronous::stop_near_quotas(rank, &fresh);
    let looked_at = if is_due { rank.sessions.quotas.changed() } else { fresh };
    for ino in looked_at {
        let holders = holders(rank, ino).into_iter();
        for client in holders.filter(|client| is_due || Some(*client) == author) {
            tell_one(rank, ino, client);
        }
    }
    if is_due {
        let tree = &rank.tree;
        rank.sessions.quotas.retain_near(|ino| tree.get(ino).is_some());
        let caps = &rank.caps;
        let is_holder = |ino: Ino, client| caps.cap_id(caps::inode_id(ino), client).is_some();
        rank.sessions.quotas.all_told(rank.now, is_holder);
    }
}

fn tell_one(rank: &mut Rank, ino: Ino, client: u64) {
    let Some(inode) = rank.tree.get(ino).filter(|inode| inode.has_quota()) else { return };
    if rank.sessions.quotas.is_news(ino, client, &inode.policy.quota, &rank.tree.statistics(ino)) {
        push(rank, ino, client);
    }
}

fn push(rank: &mut Rank, ino: Ino, client: u64) {
    let Some(inode) = rank.tree.get(ino) else { return };
    let sum = rank.tree.statistics(ino);
    let message = ClientQuota {
        ino: ino.0,
        rctime: sum.changed,
        rbytes: sum.bytes,
        rfiles: sum.files,
        rsubdirs: sum.directories,
        quota: inode.policy.quota.clone(),
    };
    rank.sessions.quotas.told(ino, client, &sum);
    rank.push(client, message.encode(0));
}
