//! Purges as the owner of the store carries them out.

use super::Rank;
use crate::change::Change;
use crate::purges::Purge;

/// The next purge that can be carried out.
pub(crate) fn next(rank: &mut Rank) -> Option<(u64, Purge)> {
    let lsn = rank.log.close();
    rank.purges.recorded(lsn);
    rank.purges.take(rank.log.durable())
}

/// A purge could not be carried out for now.
pub(crate) fn put_back(rank: &mut Rank, ino: u64) {
    rank.purges.put_back(ino);
}

/// Objects below `next` are removed; returns the purge if any are left.
pub(crate) fn advance(rank: &mut Rank, ino: u64, next: u64) -> Option<Purge> {
    let left = rank.purges.advance(ino, next);
    let change = match &left {
        Some(purge) => Change::Purge(ino, purge.clone()),
        None => Change::Purged(ino),
    };
    rank.log.change_purge(ino, &change);
    rank.log.close();
    left
}
