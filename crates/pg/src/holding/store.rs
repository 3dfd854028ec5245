//! The transaction that holds a write in this copy's store.

use crate::core::{Core, Mark, Tag, settling};
use crate::{LogEntry, info};
use bytes::Bytes;
use std::collections::BTreeMap;
use store::{Change, Transaction};
use types::EVersion;

/// A write of this copy's shard, for its store.
#[derive(Debug)]
pub(crate) struct Stored {
    /// The encoded entries, which are in the log; the last one is that of the write.
    pub entries: Vec<(EVersion, Bytes)>,
    /// The encoded info of this copy, of just after the write.
    pub info: Bytes,
    /// Trim the log up to this version, unless zero.
    pub trim: EVersion,
    /// The changes of the shard, and those of the clone index.
    pub changes: Vec<Change>,
}

/// A transaction that settles changes, and will hold one.
#[derive(Debug)]
pub(crate) struct Begun {
    transaction: Transaction,
    mark: Option<Mark>,
}

/// The beginning of the transaction: it settles changes up to a committed version.
pub(crate) fn begin(core: &mut Core, committed: EVersion) -> Begun {
    let mut transaction = core.transaction(6);
    let mark = settling::settle_with(core, &mut transaction, committed);
    Begun { transaction, mark }
}

/// Missing objects that a write replaces or removes are not missing any more, unless it is dropped. Their
/// stored items go when the write is settled.
pub(crate) fn supersede(core: &mut Core, entries: &[LogEntry]) {
    let missing = &mut core.copy.missing;
    if missing.is_empty() {
        return;
    }
    let mut was_missing = false;
    for entry in entries.iter().filter(|entry| entry.changes_object()) {
        was_missing |= missing.supersede(&entry.object, entry.version);
    }
    if was_missing {
        core.update_last_complete();
    }
}

/// Submits the transaction. Additions to the clone index are stored at once, because surplus keys are
/// harmless; removals when the change is settled. All else is held.
pub(crate) fn store(core: &mut Core, begun: Begun, write: Stored) {
    let Begun { mut transaction, mark } = begun;
    let (version, _) = *write.entries.last().expect("a write has an entry");
    let collection = core.own.collection;
    let (index, held): (Vec<Change>, Vec<Change>) = write
        .changes
        .into_iter()
        .partition(|change| change.object().is_some_and(crate::is_meta_object));
    for change in index {
        match change {
            Change::OmapRemove { keys, .. } => core.settling.unindex(version, keys),
            other => transaction.push(collection, other),
        }
    }
    if !held.is_empty() {
        transaction.push(collection, Change::Hold { version, changes: held });
    }
    let mut pairs = BTreeMap::from([(info::INFO_KEY, write.info)]);
    pairs.extend(write.entries.into_iter().map(|(at, entry)| (info::log_key(at), entry)));
    core.trim_log(&mut transaction, &mut pairs, write.trim);
    core.set_meta(&mut transaction, pairs);
    core.commit_settling(Tag::Write(version, core.placement.interval), transaction, mark);
}
