//! Snapshots as values: their names and numbers.

use bytes::Bytes;
use codec::{Decode, Encode, Reader, Result, Writer};
use std::collections::{BTreeMap, BTreeSet};
use types::{SnapId, UTime};

/// Version of encodings, and the oldest reader that understands them.
const VERSION: u8 = 1;

/// A snapshot of a directory.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Snapshot {
    /// Its name in `.snap` of the directory.
    pub name: Bytes,
    /// When it was taken.
    pub taken: UTime,
    /// Metadata that its maker has added.
    pub metadata: BTreeMap<String, String>,
}

impl Encode for Snapshot {
    fn encode(&self, w: &mut Writer) {
        w.versioned(VERSION, VERSION, |w| {
            w.value(&self.name);
            w.value(&self.taken);
            w.value(&self.metadata);
        });
    }
}

impl Decode for Snapshot {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        r.versioned("snapshot", VERSION, |r, _| {
            Ok(Snapshot { name: r.value()?, taken: r.value()?, metadata: r.value()? })
        })
    }
}

/// Numbers of snapshots of a file system.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SnapNumbers {
    /// The greatest that was used, for a snapshot or for a change of realms. None is used twice.
    pub last: SnapId,
    /// Snapshots that were removed, and whose data the OSDs were not told to remove yet.
    pub removed: BTreeSet<SnapId>,
}

impl Encode for SnapNumbers {
    fn encode(&self, w: &mut Writer) {
        w.versioned(VERSION, VERSION, |w| {
            w.value(&self.last);
            w.value(&self.removed);
        });
    }
}

impl Decode for SnapNumbers {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        r.versioned("snapshot numbers", VERSION, |r, _| {
            Ok(SnapNumbers { last: r.value()?, removed: r.value()? })
        })
    }
}
