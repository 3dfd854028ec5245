//! Files that were cut, and whose objects are still to be cut.
//!
//! The intent is in the inode, in the record of the truncation itself, so that a crash loses neither. An OSD
//! cuts an object also by itself when a client that knows of the truncation uses it, but only by the last
//! one: so the next truncation of a file waits until all objects are cut as the one before says.

use crate::data_objects;
use crate::noted::Noted;
use fscaps::RequestId;
use namespace::Inode;
use std::collections::BTreeMap;
use wire::{FileLayout, SnapContext};

/// Objects of a file that are to be cut.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cut {
    /// How its data is spread.
    pub layout: FileLayout,
    /// Size of the file after the truncation.
    pub size: u64,
    /// Number of the truncation.
    pub seq: u32,
    /// The first object that may have bytes behind the size.
    pub first: u64,
    /// Number behind that of the last one.
    pub end: u64,
    /// Snapshots for which OSDs keep what is cut off.
    pub snaps: SnapContext,
}

impl Cut {
    /// The cut that an inode says to be pending.
    pub fn of(inode: &Inode, snaps: SnapContext) -> Option<Cut> {
        let layout = inode.layout.clone().filter(|layout| inode.is_file() && layout.is_valid())?;
        let namespace::Truncation { size, seq, cut_until, .. } = inode.truncation;
        let first = data_objects::first(&layout, size);
        let end = layout.objects_below(cut_until);
        (cut_until != 0).then_some(Cut { layout, size, seq, first, end, snaps })
    }
}

/// Pending cuts, by inode.
#[derive(Debug, Default)]
pub(crate) struct Cuts {
    /// With the requests that wait for the end of each.
    pending: BTreeMap<u64, Vec<RequestId>>,
    /// Those that were not begun.
    new: Noted,
}

impl Cuts {
    /// A predecessor has noted a cut.
    pub fn restore(&mut self, ino: u64) {
        self.pending.insert(ino, Vec::new());
        self.new.add_stored(ino);
    }

    /// A file was cut.
    pub fn add(&mut self, ino: u64) {
        self.pending.insert(ino, Vec::new());
        self.new.add(ino);
    }

    /// Whether a file has a cut that is not done.
    pub fn is_pending(&self, ino: u64) -> bool {
        self.pending.contains_key(&ino)
    }

    /// A request waits for the end of a cut that is pending.
    pub fn wait(&mut self, ino: u64, request: RequestId) {
        self.pending.get_mut(&ino).expect("the cut is pending").push(request);
    }

    /// See [`Noted::recorded`].
    pub fn recorded(&mut self, lsn: u64) {
        self.new.recorded(lsn);
    }

    /// The next file with a cut that was not begun, whose record is durable.
    pub fn take_new(&mut self, durable: u64) -> Option<u64> {
        self.new.take(durable)
    }

    /// A cut is done, or its file is gone; returns the requests that waited.
    pub fn end(&mut self, ino: u64) -> Vec<RequestId> {
        self.pending.remove(&ino).unwrap_or_default()
    }
}
