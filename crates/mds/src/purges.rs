//! Data of files that are gone, which is still to be removed.
//!
//! A purge is recorded together with the end of its inode, so that a crash loses neither: until the record is
//! durable no object is removed, and from then on a successor goes on where progress was recorded last.

use crate::noted::Noted;
use codec::{Decode, Encode, Reader, Writer};
use namespace::{Inode, TrimPlace};
use std::collections::{BTreeMap, BTreeSet};
use wire::{FileLayout, SnapContext};

/// Version of a purge's row, and the oldest reader that understands it. Version 3 is that of numbers.
const ROW_VERSION: u8 = 3;
const ROW_VERSION_OF_FILE: u8 = 2;

/// Purges in memory. Of more, those that are stored are forgotten, and read again when others have ended.
const KEPT_MAX: usize = if cfg!(test) { 8 } else { 65_536 };

/// Objects that are to be removed: those of a file, or the first ones of files with consecutive numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Purge {
    /// How its data was spread.
    pub layout: FileLayout,
    /// Objects below this number are removed.
    pub next: u64,
    /// Number behind that of its last object.
    pub end: u64,
    /// Whether each object is the first one of another file; then they are counted from the first file.
    pub is_of_numbers: bool,
    /// Snapshots that showed the file when it lost its name: OSDs keep its data for them.
    pub snaps: SnapContext,
}

impl Purge {
    /// The purge of an inode that is forgotten; `None` if it has no data.
    pub fn of(inode: &Inode, snaps: SnapContext) -> Option<Purge> {
        let layout = inode.layout.clone().filter(|_| inode.is_file())?;
        if layout.object_size == 0 || layout.stripe_count == 0 {
            return None;
        }
        let ranges = inode.write_ranges.values().map(|range| range.end);
        let bytes = ranges.fold(inode.size.max(inode.truncation.data_end), u64::max);
        // The first object is always tried: clients make it to test their rights on the pool.
        let end = layout.objects_below(bytes).max(1);
        Some(Purge { layout, next: 0, end, is_of_numbers: false, snaps })
    }

    /// The purge of the first objects of so many numbers, of which it is not known whether files had them.
    pub fn of_numbers(layout: FileLayout, count: u64, snaps: SnapContext) -> Purge {
        Purge { layout, next: 0, end: count, is_of_numbers: true, snaps }
    }
}

impl Encode for Purge {
    fn encode(&self, w: &mut Writer) {
        let version = if self.is_of_numbers { ROW_VERSION } else { ROW_VERSION_OF_FILE };
        w.versioned(version, version, |w| {
            w.value(&self.layout);
            w.u64(self.next);
            w.u64(self.end);
            w.value(&self.snaps);
            if self.is_of_numbers {
                w.bool(true);
            }
        });
    }
}

impl Decode for Purge {
    fn decode(r: &mut Reader<'_>) -> codec::Result<Self> {
        r.versioned("purge", ROW_VERSION, |r, version| {
            Ok(Purge {
                layout: r.value()?,
                next: r.u64("next object")?,
                end: r.u64("last object")?,
                // Version 1 is from before there were snapshots.
                snaps: if version >= 2 { r.value()? } else { SnapContext::default() },
                is_of_numbers: version >= 3 && r.bool("whether it is of numbers")?,
            })
        })
    }
}

/// Removed snapshots.
#[derive(Debug, Default)]
pub(crate) struct SnapRemovals {
    /// Those of which OSDs must hear.
    pub new: Noted,
    /// The place from which on old versions are to be looked at.
    pub trim_from: Option<TrimPlace>,
}

/// Purges by the number of the inode that is gone. Those that are stored need not be in memory.
#[derive(Debug, Default)]
pub(crate) struct Purges {
    left: BTreeMap<u64, Purge>,
    /// Those that were not begun.
    new: Noted,
    /// Snapshots that are gone.
    pub snapshots: SnapRemovals,
    /// Rows of the table that were not read since they were put out of memory.
    unread: Unread,
}

/// Rows of the table that may not be in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Unread {
    #[default]
    None,
    /// Those behind this number.
    Behind(u64),
    /// The same, and others: the table must be read from its beginning after that.
    BehindAndBefore(u64),
}

impl Purges {
    /// Those of a predecessor of which its journal tells. Others may be in the table.
    pub fn restored(left: BTreeMap<u64, Purge>) -> Self {
        let mut new = Noted::default();
        left.keys().for_each(|ino| new.add_stored(*ino));
        Purges { left, new, unread: Unread::Behind(0), ..Purges::default() }
    }

    /// A purge was noted in the log.
    pub fn add(&mut self, ino: u64, purge: Purge) {
        self.left.insert(ino, purge);
        self.new.add(ino);
    }

    /// See [`Noted::recorded`].
    pub fn recorded(&mut self, lsn: u64) {
        self.new.recorded(lsn);
    }

    /// The next purge that was not begun, whose record is durable.
    pub fn take_new(&mut self, durable: u64) -> Option<(u64, Purge)> {
        let ino = self.new.take(durable)?;
        Some((ino, self.left.get(&ino).expect("a new purge is left").clone()))
    }

    /// Objects below `next` are removed; returns the purge if any are left.
    pub fn advance(&mut self, ino: u64, next: u64) -> Option<Purge> {
        let purge = self.left.get_mut(&ino).expect("work at a purge that is left");
        purge.next = next;
        if purge.next < purge.end {
            return Some(purge.clone());
        }
        self.left.remove(&ino);
        None
    }

    /// The purge of an inode, if it is in memory.
    pub fn get(&self, ino: u64) -> Option<&Purge> {
        self.left.get(&ino)
    }

    /// Whether an inode has a purge in memory, or is among the numbers of one.
    pub fn has(&self, ino: u64) -> bool {
        let before = self.left.range(..=ino).next_back();
        before.is_some_and(|(first, purge)| {
            *first == ino || purge.is_of_numbers && ino - first < purge.end
        })
    }

    /// Purges in memory.
    pub fn len(&self) -> usize {
        self.left.len()
    }

    /// A checkpoint has ended: purges that were not begun, and are stored as they are, go out of memory if
    /// there are too many. `changed` are those that are not stored as they are.
    pub fn shed(&mut self, changed: &BTreeSet<u64>) {
        let mut surplus = self.left.len().saturating_sub(KEPT_MAX);
        let before = surplus;
        self.new.retain(|ino| {
            let goes = surplus > 0 && !changed.contains(&ino);
            if goes {
                surplus -= 1;
                self.left.remove(&ino);
            }
            !goes
        });
        if surplus < before {
            self.unread = match self.unread {
                Unread::None => Unread::Behind(0),
                Unread::Behind(at) | Unread::BehindAndBefore(at) => Unread::BehindAndBefore(at),
            };
        }
    }

    /// The number behind which rows of the table are to be read, if there is room for them.
    pub fn wants_rows(&self) -> Option<u64> {
        let (Unread::Behind(at) | Unread::BehindAndBefore(at)) = self.unread else { return None };
        (self.left.len() <= KEPT_MAX / 2).then_some(at)
    }

    /// Rows of the table that were read, and whether there are more behind them. A row may be older than its
    /// purge, and that of a purge which has ended: its objects are removed again. Purges are stale
    /// of which newer rows are still to be written, and those whose number another inode has.
    pub fn add_rows(
        &mut self,
        rows: Vec<(u64, Purge)>,
        more: bool,
        is_stale: impl Fn(u64) -> bool,
    ) {
        let last = rows.last().map(|(ino, _)| *ino);
        for (ino, purge) in rows {
            if !is_stale(ino) && !self.left.contains_key(&ino) {
                self.left.insert(ino, purge);
                self.new.add_stored(ino);
            }
        }
        self.unread = match (self.unread, last.filter(|_| more)) {
            (Unread::BehindAndBefore(_), Some(last)) => Unread::BehindAndBefore(last),
            (Unread::BehindAndBefore(_), None) => Unread::Behind(0),
            (_, Some(last)) => Unread::Behind(last),
            (_, None) => Unread::None,
        };
    }
}
