//! Purges as the owner of the store carries them out.

use super::Rank;
use crate::change::Change;
use crate::purges::Purge;
use namespace::Ino;

/// The next purge that was not begun and can be carried out.
pub(crate) fn next_new(rank: &mut Rank) -> Option<(u64, Purge)> {
    let lsn = rank.log.close();
    rank.purges.recorded(lsn);
    rank.purges.take_new(rank.log.durable())
}

/// The purge of an inode, as far as it was carried out.
pub(crate) fn get(rank: &Rank, ino: u64) -> Option<Purge> {
    rank.purges.get(ino).cloned()
}

/// Objects below `next` are removed; returns whether any are left.
pub(crate) fn advance(rank: &mut Rank, ino: u64, next: u64) -> bool {
    let left = rank.purges.advance(ino, next);
    let is_left = left.is_some();
    let change = left.map_or(Change::Purged(ino), |purge| Change::Purge(ino, purge));
    rank.log.change_purge(ino, &change);
    rank.log.close();
    is_left
}

/// A checkpoint has ended: purges that are stored may go out of memory.
pub(crate) fn checkpointed(rank: &mut Rank) {
    rank.purges.shed(&rank.log.purges);
}

/// The number behind which rows of purges are to be read.
pub(crate) fn wants_rows(rank: &Rank) -> Option<u64> {
    rank.purges.wants_rows()
}

/// Rows that were read, and whether there are more behind them.
pub(crate) fn add_rows(rank: &mut Rank, rows: Vec<(u64, Purge)>, more: bool) {
    let (tree, changed) = (&rank.tree, &rank.log.purges);
    let is_stale = |ino| changed.contains(&ino) || tree.get(Ino(ino)).is_some();
    rank.purges.add_rows(rows, more, is_stale);
}
