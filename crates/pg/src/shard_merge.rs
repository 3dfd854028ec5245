//! The effect on a shard of log entries that it follows or rolls back.
//!
//! A shard does not apply changes when they arrive, but holds them; so a rollback drops them, and the content
//! of its object is as it was. A shard that follows an entry does not have the change: its object becomes
//! missing, unless the entry is a removal, which needs no data and is held like any other. Each entry leaves
//! enough to be rolled back later: it may still be dropped until the group is active. Removals that are
//! certain are applied at once, as very many cannot be held.
//!
//! * The item of an object that is followed names the entry as needed, and the version that is here or held;
//!   of one that is made again, the version of the removal before it, if the object was not missing then.
//! * The item of an object that a held change replaces or removes stays, superseded, also below the item of a
//!   later entry that is followed: the change before that may be the newest one that was acknowledged, and is
//!   here.

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

/// Follows an entry of `log`, the other one. Entries up to `committed` are certain.
pub(crate) fn follow(
    missing: &mut Missing,
    log: &PgLog,
    entry: &LogEntry,
    committed: EVersion,
) -> Effect {
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
            let have = match missing.get(object) {
                Some(item) => item.have,
                None if entry.prior_version == EVersion::ZERO => {
                    change_before(log, entry).map_or(EVersion::ZERO, |removal| removal.version)
                }
                None => entry.prior_version,
            };
            missing.add_above(object.clone(), Item { need: entry.version, have });
            Effect::Item
        }
    }
}

/// Rolls back the newest entry of an own log, `log`. Changes up to `settled` are in the objects.
pub(crate) fn undo(
    missing: &mut Missing,
    log: &PgLog,
    entry: &LogEntry,
    settled: EVersion,
) -> Effect {
    if !entry.changes_object() {
        return Effect::Nothing;
    }
    let superseded = missing.take_superseded(&entry.object, entry.version);
    let followed = missing.get(&entry.object).filter(|item| item.need == entry.version);
    match superseded.or(followed) {
        Some(item) => set_back(missing, log, entry, (item.have, settled)),
        // The change is held, or the object is missing in an older version.
        None => Effect::Nothing,
    }
}

/// The newest change of the entry's object before it.
fn change_before<'a>(log: &'a PgLog, entry: &LogEntry) -> Option<&'a LogEntry> {
    let mut older = log.entries().rev().skip_while(|older| older.version >= entry.version);
    older.find(|older| older.changes_object() && older.object == entry.object)
}

/// Before this entry, the object was needed in the version before.
fn set_back(
    missing: &mut Missing,
    log: &PgLog,
    entry: &LogEntry,
    (have, settled): (EVersion, EVersion),
) -> Effect {
    let object = &entry.object;
    match entry.prior_version {
        EVersion::ZERO => match change_before(log, entry) {
            // The content is as the removal found it, which is held.
            Some(removal) if removal.version == have => {
                missing.take_item(object);
                Effect::Item
            }
            Some(removal) if removal.version > settled => {
                missing.add(object.clone(), Item { need: removal.prior_version, have });
                missing.supersede(object, removal.version);
                Effect::Item
            }
            // It is absent: it never was there, or the removal is settled.
            _ => {
                missing.forget(object);
                Effect::Remove
            }
        },
        prior if prior == have => {
            missing.take_item(object);
            Effect::Item
        }
        need => {
            missing.add_above(object.clone(), Item { need, have });
            Effect::Item
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::{HObject, PoolId};

    fn version(number: u64) -> EVersion {
        EVersion::new(1, number)
    }

    /// Entries 6 and 7 of an object.
    fn removed_and_made_again() -> (LogEntry, LogEntry) {
        let object = HObject::hash_start(PoolId(1), 1);
        let entry = |number, prior, kind| LogEntry {
            version: version(number),
            prior_version: prior,
            kind,
            object: object.clone(),
            ..LogEntry::default()
        };
        (entry(6, version(5), EntryKind::Delete), entry(7, EVersion::ZERO, EntryKind::Modify))
    }

    /// The object is removed and made again, and both are rolled back.
    #[test]
    fn an_object_that_was_missing_before_its_removal_is_missing_again() {
        let (removal, again) = removed_and_made_again();
        let object = again.object.clone();
        let log = PgLog::new(version(5), [removal.clone(), again.clone()]);
        let mut absent = Missing::default();
        absent.add(object.clone(), Item { need: version(5), have: EVersion::ZERO });
        for before in [absent, Missing::default()] {
            let mut missing = before.clone();
            for entry in [&removal, &again] {
                follow(&mut missing, &log, entry, version(5));
            }
            assert_eq!(missing.need(&object), Some(version(7)));
            for (entry, head) in [(&again, 7), (&removal, 6)] {
                undo(&mut missing, &log.through(version(head)), entry, version(5));
            }
            assert_eq!(missing, before);
        }
    }

    /// Both are held when a later change is followed; what is here below it is told, and all is as before
    /// when that is rolled back.
    #[test]
    fn held_changes_of_a_missing_object_stay_known_below_an_entry_that_is_followed() {
        let (removal, again) = removed_and_made_again();
        let object = again.object.clone();
        let later = LogEntry { version: version(8), prior_version: version(7), ..again.clone() };
        let log = PgLog::new(version(4), [removal.clone(), again.clone(), later.clone()]);
        let mut missing = Missing::default();
        missing.add(object.clone(), Item { need: version(5), have: version(3) });
        missing.find_superseded(&log.through(version(7)), version(5));
        assert_eq!(missing.len(), 0, "the held removal superseded it");
        let before = missing.clone();
        follow(&mut missing, &log, &later, EVersion::ZERO);
        let followed = Item { need: version(8), have: version(7) };
        assert_eq!(missing.get(&object), Some(followed));
        let (_, value) = missing.pair(&object).unwrap();
        let mut loaded = Missing::default();
        loaded.load(&object, &value).unwrap();
        let bytes = codec::encode_to_bytes(&missing);
        let decoded = codec::decode_all::<Missing>("missing", &bytes).unwrap();
        for mut copy in [loaded, decoded] {
            copy.find_superseded(&log, version(5));
            assert_eq!(copy, missing, "it is stored and sent");
            copy.find_superseded(&log, version(7));
            assert_eq!(copy.items_of(&object).collect::<Vec<_>>(), [followed], "it is settled");
        }
        undo(&mut missing, &log, &later, version(5));
        assert_eq!(missing, before);
        undo(&mut missing, &log.through(version(7)), &again, version(5));
        undo(&mut missing, &log.through(version(6)), &removal, version(5));
        let item = Item { need: version(5), have: version(3) };
        assert_eq!(missing.get(&object), Some(item), "it is missing as it was");
    }

    /// It is missing when its removal is held, and made again when that is settled.
    #[test]
    fn an_object_whose_removal_was_settled_is_absent_when_its_new_one_is_rolled_back() {
        let (removal, again) = removed_and_made_again();
        let log = PgLog::new(version(5), [removal.clone(), again.clone()]);
        let mut missing = Missing::default();
        missing.add(again.object.clone(), Item { need: version(5), have: EVersion::ZERO });
        for entry in [&removal, &again] {
            follow(&mut missing, &log, entry, version(5));
        }
        assert_eq!(missing.settle(version(6)), [], "it is missing in a later version");
        let effect = undo(&mut missing, &log, &again, version(6));
        assert_eq!((effect, missing), (Effect::Item, Missing::default()), "the removal is applied");
    }
}
