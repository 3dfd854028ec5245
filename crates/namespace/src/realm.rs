//! The part of an inode that makes it a realm.

use crate::snapshot::Snapshot;
use codec::{Decode, Encode, Reader, Result, Writer};
use std::collections::{BTreeMap, BTreeSet};
use types::{SnapId, UTime};

/// Version of the encoding. Version 2 added the attributes of `.snap`.
const VERSION: u8 = 2;
/// The oldest reader that understands it.
const COMPAT: u8 = 1;

/// The part of an inode that makes it a realm. It stays when the quota and the snapshots are removed: clients
/// would keep inodes that they know in the realm.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Realm {
    /// Grows with each change that clients must know; they take only news.
    pub seq: SnapId,
    /// Snapshots of realms above count from this one on: before, it was elsewhere.
    pub parent_since: SnapId,
    /// Snapshots of the directory.
    pub snaps: BTreeMap<SnapId, Snapshot>,
    /// Snapshots of realms in which it was before.
    pub prior: BTreeSet<SnapId>,
    /// When its snapshots last changed: the time of `.snap`.
    pub last_modified: UTime,
    /// Counts changes of its snapshots.
    pub change_attr: u64,
}

impl Default for Realm {
    fn default() -> Self {
        // Clients have zero for a realm that they know nothing of.
        let seq = SnapId(1);
        Realm {
            seq,
            parent_since: SnapId(0),
            snaps: BTreeMap::new(),
            prior: BTreeSet::new(),
            last_modified: UTime::ZERO,
            change_attr: 0,
        }
    }
}

impl Encode for Realm {
    fn encode(&self, w: &mut Writer) {
        w.versioned(VERSION, COMPAT, |w| {
            w.value(&self.seq);
            w.value(&self.parent_since);
            w.value(&self.snaps);
            w.value(&self.prior);
            w.value(&self.last_modified);
            w.u64(self.change_attr);
        });
    }
}

impl Decode for Realm {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        r.versioned("realm", VERSION, |r, version| {
            let realm = Realm {
                seq: r.value()?,
                parent_since: r.value()?,
                snaps: r.value()?,
                prior: r.value()?,
                ..Realm::default()
            };
            if version < 2 {
                return Ok(realm);
            }
            let (last_modified, change_attr) = (r.value()?, r.u64("change attribute")?);
            Ok(Realm { last_modified, change_attr, ..realm })
        })
    }
}
