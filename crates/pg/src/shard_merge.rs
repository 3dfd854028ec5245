//! The effect on a shard of log entries that it follows or rolls back.
//!
//! A shard does not apply changes when they arrive, but holds them; so a rollback drops them, and the content
//! of its object is as it was. A shard that follows an entry does not have the change: its object becomes
//! missing, unless the entry is a removal, which needs no data and is held like any other. Each entry leaves
//! enough to be rolled back later: it may still be dropped until the group is active. Removals that are
//! certain are applied at once, as very many cannot be held.
//!
//! * The item of an object that is followed names the entry as needed, and the version that is here.
//! * The item of an object that a held change replaces or removes stays, superseded.

use crate::missing::{Item, Missing};
use crate::{EntryKind, LogEntry, PgLog};
use types::EVersion;

/// The part of an effect that is not in the missing set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
    /// The item of the object stays as it was.
    Nothing,
    /// The item is added, changed, or gone.
    Item,
    /// The removal of the object is held. The item stays as it was.
    HoldRemoval,
    /// The item is gone, and so must be the content.
    Remove,
}

/// Follows an entry of the other log. Entries up to `committed` are certain.
pub(crate) fn follow(missing: &mut Missing, entry: &LogEntry, committed: EVersion) -> Effect {
    let object = &entry.object;
    match entry.kind {
        EntryKind::Unchanged => Effect::Nothing,
        EntryKind::Delete if entry.version <= committed => {
            missing.forget(object);
            Effect::Remove
        }
        EntryKind::Delete => {
            missing.supersede(object, entry.version);
            Effect::HoldRemoval
        }
        EntryKind::Modify => {
            let have = missing.stored(object).map_or(entry.prior_version, |item| item.have);
            missing.add(object.clone(), Item { need: entry.version, have });
            Effect::Item
        }
    }
}

/// Rolls back the newest entry of an own log, `log`.
pub(crate) fn undo(missing: &mut Missing, log: &PgLog, entry: &LogEntry) -> Effect {
    if !entry.changes_object() {
        return Effect::Nothing;
    }
    let superseded = missing.take_superseded(&entry.object, entry.version);
    let followed = missing.get(&entry.object).filter(|item| item.need == entry.version);
    match superseded.or(followed) {
        Some(item) => set_back(missing, log, entry, item.have),
        // The change is held, or the object is missing in an older version.
        None => Effect::Nothing,
    }
}

/// Before this entry, the object was needed in the version before.
fn set_back(missing: &mut Missing, log: &PgLog, entry: &LogEntry, have: EVersion) -> Effect {
    let object = &entry.object;
    let older = || {
        let mut older = log.entries().rev().filter(|older| older.version < entry.version);
        older.find(|older| older.changes_object() && older.object == *object)
    };
    match entry.prior_version {
        prior if prior == have => {
            missing.remove(object);
            Effect::Item
        }
        EVersion::ZERO => match older() {
            // A removal before it, which is held.
            Some(removal) => {
                missing.add(object.clone(), Item { need: removal.prior_version, have });
                missing.supersede(object, removal.version);
                Effect::Item
            }
            None => {
                missing.forget(object);
                Effect::Remove
            }
        },
        need => {
            missing.add(object.clone(), Item { need, have });
            Effect::Item
        }
    }
}
