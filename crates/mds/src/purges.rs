//! Data of files that are gone, which is still to be removed.
//!
//! A purge is recorded together with the end of its inode, so that a crash loses neither: until the record is
//! durable no object is removed, and from then on a successor goes on where progress was recorded last.

use codec::{Decode, Encode, Reader, Writer};
use namespace::Inode;
use std::collections::{BTreeMap, VecDeque};
use wire::FileLayout;

/// Version of a purge's row, and the oldest reader that understands it.
const ROW_VERSION: u8 = 1;

/// Objects of a file that are to be removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Purge {
    /// How its data was spread.
    pub layout: FileLayout,
    /// Objects below this number are removed.
    pub next: u64,
    /// Number behind that of its last object.
    pub end: u64,
}

impl Purge {
    /// The purge of an inode that is forgotten; `None` if it has no data.
    pub fn of(inode: &Inode) -> Option<Purge> {
        let layout = inode.layout.clone().filter(|_| inode.is_file())?;
        if layout.object_size == 0 || layout.stripe_count == 0 {
            return None;
        }
        let ranges = inode.write_ranges.values().map(|range| range.end);
        let bytes = ranges.fold(inode.size.max(inode.truncation.data_end), u64::max);
        // The first object is always tried: clients make it to test their rights on the pool.
        let end = match layout.stripe_count {
            1 => bytes.div_ceil(layout.object_size.into()),
            count => bytes.div_ceil(layout.period_bytes()).saturating_mul(count.into()),
        };
        Some(Purge { layout, next: 0, end: end.max(1) })
    }
}

impl Encode for Purge {
    fn encode(&self, w: &mut Writer) {
        w.versioned(ROW_VERSION, ROW_VERSION, |w| {
            w.value(&self.layout);
            w.u64(self.next);
            w.u64(self.end);
        });
    }
}

impl Decode for Purge {
    fn decode(r: &mut Reader<'_>) -> codec::Result<Self> {
        r.versioned("purge", ROW_VERSION, |r, _| {
            Ok(Purge {
                layout: r.value()?,
                next: r.u64("next object")?,
                end: r.u64("last object")?,
            })
        })
    }
}

/// All purges, by the number of the inode that is gone.
#[derive(Debug, Default)]
pub(crate) struct Purges {
    left: BTreeMap<u64, Purge>,
    /// Those without work in progress, with the LSN that must be durable first; `None` before it is known.
    waiting: VecDeque<(Option<u64>, u64)>,
}

impl Purges {
    /// Those of a predecessor.
    pub fn restored(left: BTreeMap<u64, Purge>) -> Self {
        let waiting = left.keys().map(|ino| (Some(0), *ino)).collect();
        Purges { left, waiting }
    }

    /// A purge was noted in the log.
    pub fn add(&mut self, ino: u64, purge: Purge) {
        self.left.insert(ino, purge);
        self.waiting.push_back((None, ino));
    }

    /// All that was noted so far is in records up to this one.
    pub fn recorded(&mut self, lsn: u64) {
        let unknown = self.waiting.iter_mut().rev().take_while(|(known, _)| known.is_none());
        unknown.for_each(|(known, _)| *known = Some(lsn));
    }

    /// The next purge without work in progress, whose record is durable.
    pub fn take(&mut self, durable: u64) -> Option<(u64, Purge)> {
        let (lsn, ino) = *self.waiting.front()?;
        if lsn.is_none_or(|lsn| lsn > durable) {
            return None;
        }
        self.waiting.pop_front();
        Some((ino, self.left.get(&ino).expect("what waits is left").clone()))
    }

    /// Work at a purge has failed; it waits again.
    pub fn put_back(&mut self, ino: u64) {
        self.waiting.push_front((Some(0), ino));
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

    /// The purge of an inode.
    pub fn get(&self, ino: u64) -> Option<&Purge> {
        self.left.get(&ino)
    }
}
