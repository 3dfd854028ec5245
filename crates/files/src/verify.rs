//! Offline check (fsck) of the store.

use crate::cache::Store;
use crate::error::FilesError;
use crate::media::Location;
use crate::slots::{Slot, Slots};
use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use store::{Collection, HeldChange};
use types::HObject;

/// A violated invariant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// The log is damaged at this transaction: until the next checkpoint, a crash would have lost it and all
    /// later ones.
    Log {
        /// Number of the transaction.
        missing: u64,
    },
    /// A block does not match its checksum.
    Corrupt {
        /// Collection of the object.
        collection: Collection,
        /// Name of the object.
        object: HObject,
        /// Start of the block in bytes.
        offset: u64,
        /// Length in bytes.
        length: u64,
    },
    /// An object in a collection that does not exist.
    NoCollection(Collection, HObject),
    /// A held change of a collection that does not exist.
    HeldWithoutCollection(Collection, HeldChange),
    /// Two objects have the same id.
    IdUsedTwice(u64),
    /// Two objects have the same slot.
    SlotUsedTwice(Slot),
    /// A slot that an object uses is free in the bitmap.
    SlotNotMarked(Slot),
    /// Wrong count of slots, blocks or objects.
    Count {
        /// The things that are counted.
        what: &'static str,
        /// The number found.
        counted: u64,
        /// The number in the store's state.
        recorded: u64,
    },
    /// A file without an object.
    Orphan(u64),
}

/// Compares the database with itself and with the files. No change may be dirty or in progress.
pub fn verify(store: &Store) -> Result<Vec<Fault>, FilesError> {
    let snapshot = store.base.snapshot();
    let mut slots = Slots::default();
    snapshot.slots()?.iter().for_each(|chunk| slots.load(chunk));
    let collections = snapshot.collections()?;
    let mut seen = Seen::default();
    let mut faults = Vec::new();
    for entry in snapshot.bodies()? {
        let (collection, name, body) = entry?;
        if !collections.contains(&collection) {
            faults.push(Fault::NoCollection(collection, name.clone()));
        }
        seen.objects += 1;
        seen.blocks += body.data.blocks();
        if !seen.ids.insert(body.id) {
            faults.push(Fault::IdUsedTwice(body.id));
        }
        match body.data.location {
            Location::Slot(slot) if !seen.slots.insert(slot) => {
                faults.push(Fault::SlotUsedTwice(slot));
            }
            Location::Slot(slot) if !slots.is_used(slot) => {
                faults.push(Fault::SlotNotMarked(slot));
            }
            Location::File(id) => {
                seen.files.insert(id);
            }
            _ => {}
        }
        for (offset, length) in body.data.verify(&store.media) {
            let object = name.clone();
            faults.push(Fault::Corrupt { collection, object, offset, length });
        }
    }
    for (collection, name, _) in snapshot.held()? {
        if !collections.contains(&collection) {
            faults.push(Fault::HeldWithoutCollection(collection, name));
        }
    }
    let count = |what, counted, recorded| Fault::Count { what, counted, recorded };
    let recorded = &store.counts;
    faults.extend(
        [
            count("objects", seen.objects, recorded.objects.load(Ordering::Relaxed)),
            count("blocks", seen.blocks, recorded.blocks.load(Ordering::Relaxed)),
            count("slots", seen.slots.len() as u64, slots.used()),
        ]
        .into_iter()
        .filter(
            |fault| matches!(fault, Fault::Count { counted, recorded, .. } if counted != recorded),
        ),
    );
    let files = store.media.files();
    let files = files.map_err(|error| FilesError::Io { what: "listing files", error })?;
    faults.extend(files.difference(&seen.files).map(|id| Fault::Orphan(*id)));
    Ok(faults)
}

#[derive(Default)]
struct Seen {
    objects: u64,
    blocks: u64,
    ids: BTreeSet<u64>,
    slots: BTreeSet<Slot>,
    files: BTreeSet<u64>,
}
