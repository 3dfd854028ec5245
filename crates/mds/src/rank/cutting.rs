//! Cuts of files' data as the owner of the store carries them out.

use super::Rank;
use crate::cuts::Cut;
use crate::replies::snap_context;
use namespace::{AttributeChange, Ino, Operation};

/// The next cut that was not begun and can be carried out.
pub(crate) fn next_new(rank: &mut Rank) -> Option<(u64, Cut)> {
    let lsn = rank.log.close();
    rank.cuts.recorded(lsn);
    loop {
        let ino = rank.cuts.take_new(rank.log.durable())?;
        if let Some(cut) = get(rank, ino) {
            return Some((ino, cut));
        }
    }
}

/// The cut of a file that is to be tried again; `None` if the file is gone.
pub(crate) fn get(rank: &Rank, ino: u64) -> Option<Cut> {
    let inode = rank.tree.get(Ino(ino))?;
    Cut::of(inode, snap_context(&rank.tree, Ino(ino)))
}

/// All objects of a file are cut.
pub(crate) fn done(rank: &mut Rank, ino: u64, seq: u32) {
    if rank.tree.get(Ino(ino)).is_none() {
        return;
    }
    rank.log.set_author(None);
    let change = Box::new(AttributeChange::EndCut { seq });
    let ended = rank.execute(&Operation::Change { ino: Ino(ino), change }, &Default::default());
    ended.expect("the inode exists, and the end of a cut is not refused");
    rank.log.close();
    let waiting = rank.cuts.end(ino);
    rank.ready.extend(waiting);
    if rank.awaited.is_none() {
        rank.settle();
    }
}
