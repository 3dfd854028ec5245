//! Splitting a copy in place when its pool gets more groups, and merging two when it gets fewer.
//!
//! The map with the new `pg_num` ends the interval for every copy of the group, including strays. The copy
//! then stops (`State::SplitMerge`) until its store has completed all transactions: only then does the store
//! have the state that is in memory. One transaction gives each new group a collection of its own, with its
//! objects, its part of the log and of the missing set, and the past intervals of the whole. When that is
//! durable, all parts take part in the interval that has begun. Logs are long, and transactions must not be:
//! the meta object of a new group is stored ahead, in the old collection under its new name, and moves with
//! the objects. The dups of a merged group are stored ahead, too; until then they belong to no log, and are
//! not loaded. The clone index is split and merged likewise ([`index`]).
//!
//! New parts exist from the beginning, and are stopped with the copy: queries are answered when the answer
//! is known, because a part whose objects are still in another collection must not be taken for absent.
//! For the same reason the OSD applies no later map before that.
//!
//! Two groups are merged when both are clean on the same members and in premerge: the map then names the
//! versions that they have. A copy that has just these is complete, and so is the merged one. Any other
//! copy contributes nothing but its objects, and is backfilled.

mod divide;
mod index;
mod stopped;

pub use divide::MergedVersions;
pub(crate) use stopped::SplitMerge;
