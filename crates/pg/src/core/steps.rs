//! Log merges and copy resets in transactions that are small enough for a full store.
//!
//! A copy that was away for long misses much: one transaction for all of it would exceed the limit of a
//! store, and a full store accepts only small ones. So the copy proceeds in steps, each of which leaves it
//! in a state that could have occurred by itself: divergent entries are rolled back from the newest one on,
//! then the entries of the other log follow, oldest first, with the resulting missing objects and removals.
//! Only the last step records that the copy takes part in the interval.

use super::{Core, Tag};
use crate::backend::Undo;
use crate::merge::Merged;
use crate::missing::Item;
use crate::{EntryKind, LogEntry, Missing, PgInfo, info};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::iter::Peekable;
use store::{BOOKKEEPING_BYTES_MAX, Change, Collection, Transaction};
use types::{EVersion, HObject};

/// Bytes of log entries and the like in one transaction. With one more entry the transaction still counts as
/// bookkeeping, for which a full store has space.
pub(crate) const STEP_BYTES_MAX: usize = BOOKKEEPING_BYTES_MAX as usize / 2;

/// Objects that one transaction removes.
pub(crate) const REMOVED_AT_ONCE: usize = 256;

/// The pairs of the next transaction; `None` if none are left.
pub(crate) fn next_step(
    pairs: &mut Peekable<impl Iterator<Item = (Bytes, Bytes)>>,
) -> Option<BTreeMap<Bytes, Bytes>> {
    pairs.peek()?;
    let (mut bytes, mut some) = (0, BTreeMap::new());
    while let Some((key, value)) = pairs.next_if(|_| bytes < STEP_BYTES_MAX) {
        bytes += key.len() + value.len();
        some.insert(key, value);
    }
    assert!(!some.is_empty(), "a step has a pair, however long");
    Some(some)
}

/// The stored key and value of a log entry.
pub(crate) fn log_pair(entry: &LogEntry) -> (Bytes, Bytes) {
    (info::log_key(entry.version), codec::encode_to_bytes(entry))
}

/// The next transaction under construction.
struct Step {
    collection: Collection,
    transaction: Transaction,
    removed: usize,
    bytes: usize,
    pairs: BTreeMap<Bytes, Bytes>,
    /// Items of the missing set after this step; `None` removes the item.
    items: BTreeMap<HObject, Option<Item>>,
}

impl Step {
    fn new(collection: Collection, transaction: Transaction) -> Self {
        let (pairs, items) = (BTreeMap::new(), BTreeMap::new());
        Step { collection, transaction, removed: 0, bytes: 0, pairs, items }
    }

    fn is_full(&self) -> bool {
        self.bytes >= STEP_BYTES_MAX || self.removed >= REMOVED_AT_ONCE
    }

    fn remove(&mut self, object: &HObject) {
        let object = object.clone();
        self.transaction.push(self.collection, Change::Remove { object });
        self.removed += 1;
    }

    fn add_entry(&mut self, entry: &LogEntry) {
        let (key, value) = log_pair(entry);
        self.bytes += key.len() + value.len();
        let before = self.pairs.insert(key, value);
        assert!(before.is_none(), "a log has a version once");
    }

    fn miss(&mut self, missing: &mut Missing, object: &HObject, item: Item) {
        missing.add(object.clone(), item);
        self.bytes += missing.pair(object).map_or(0, |(key, value)| key.len() + value.len());
        self.items.insert(object.clone(), Some(item));
    }

    /// The object is neither missing nor stored any more.
    fn drop_object(&mut self, missing: &mut Missing, object: &HObject) {
        if missing.remove(object) {
            self.items.insert(object.clone(), None);
        }
        self.remove(object);
    }

    /// Applies an entry of the other log.
    fn follow(&mut self, missing: &mut Missing, entry: &LogEntry) {
        match entry.kind {
            EntryKind::Unchanged => {}
            EntryKind::Delete => self.drop_object(missing, &entry.object),
            EntryKind::Modify => {
                let have = missing.get(&entry.object).map_or(entry.prior_version, |item| item.have);
                self.miss(missing, &entry.object, Item { need: entry.version, have });
            }
        }
    }

    /// Rolls back an own entry that is divergent.
    fn undo(&mut self, missing: &mut Missing, entry: &LogEntry, undo: Undo) {
        match undo {
            Undo::Nothing => {}
            Undo::Remove => self.drop_object(missing, &entry.object),
            Undo::Miss(need) => {
                self.miss(missing, &entry.object, Item { need, have: EVersion::ZERO });
            }
            Undo::Drop => unreachable!("a replica applies changes at once"),
        }
    }
}

impl Core {
    /// Brings this copy to the result of a merge, with this info.
    pub fn take_merged(&mut self, merged: Merged, info: PgInfo, tag: Tag) {
        assert!(merged.common <= merged.log.head(), "both logs have the common version");
        assert!(tag.is_commit(), "{tag:?} is stored");
        let before = std::mem::replace(&mut self.copy.info, info);
        let own = std::mem::replace(&mut self.copy.log, merged.log);
        let at = |version| PgInfo { last_update: version, ..before.clone() };
        let is_here = |entry: &LogEntry| entry.object < before.last_backfill;
        let (common, backend) = (merged.common, self.placement.backend);
        let mut step = Step::new(self.own.collection, self.transaction(8));
        let mut undone = own.above(common).rev().peekable();
        while let Some(entry) = undone.next() {
            if is_here(entry) {
                step.undo(&mut self.copy.missing, entry, backend.undo(entry));
            }
            if let (true, Some(previous)) = (step.is_full(), undone.peek()) {
                self.forget_entries(&mut step, previous.version);
                self.store_step(&mut step, &at(previous.version));
            }
        }
        self.forget_entries(&mut step, common);
        // Older ones count only when the info has the lower tail.
        let older: Vec<LogEntry> = match self.copy.log.tail() < own.tail() {
            true => {
                let entries = self.copy.log.entries();
                entries.take_while(|entry| entry.version <= own.tail()).cloned().collect()
            }
            false => Vec::new(),
        };
        for entry in &older {
            step.add_entry(entry);
            if step.is_full() {
                self.store_step(&mut step, &at(common));
            }
        }
        let newer: Vec<LogEntry> = self.copy.log.above(common).cloned().collect();
        for entry in &newer {
            step.add_entry(entry);
            if is_here(entry) {
                step.follow(&mut self.copy.missing, entry);
            }
            if step.is_full() {
                self.store_step(&mut step, &at(entry.version));
            }
        }
        self.copy.info.log_tail = self.copy.log.tail();
        self.copy.info.last_update = self.copy.log.head();
        self.update_last_complete();
        let mut transaction = self.take_step_of(&mut step);
        self.set_info_and_intervals(&mut transaction);
        self.commit(tag, transaction);
        debug_assert!(
            self.copy.missing.has_same_needs(&merged.missing),
            "a merge is what it was told"
        );
    }

    /// Removes own entries above `version`.
    fn forget_entries(&self, step: &mut Step, version: EVersion) {
        let beyond = EVersion { version: version.version + 1, ..version };
        self.remove_meta(&mut step.transaction, (info::log_key(beyond), info::log_keys().1));
    }

    fn take_step_of(&self, step: &mut Step) -> Transaction {
        let Step { mut transaction, mut pairs, items, .. } =
            std::mem::replace(step, Step::new(self.own.collection, Transaction::new()));
        let gone = items.iter().filter(|(_, item)| item.is_none());
        let keys: Vec<Bytes> = gone.map(|(object, _)| info::missing_key(object)).collect();
        if !keys.is_empty() {
            let object = self.own.meta.clone();
            transaction.push(self.own.collection, Change::OmapRemove { object, keys });
        }
        let kept = items.iter().filter_map(|(object, item)| Some((object, (*item)?)));
        pairs.extend(
            kept.map(|(object, item)| (info::missing_key(object), codec::encode_to_bytes(&item))),
        );
        if !pairs.is_empty() {
            self.set_meta(&mut transaction, pairs);
        }
        transaction
    }

    fn store_step(&mut self, step: &mut Step, info: &PgInfo) {
        let mut transaction = self.take_step_of(step);
        let pair = (info::INFO_KEY, codec::encode_to_bytes(info));
        self.set_meta(&mut transaction, BTreeMap::from([pair]));
        self.commit(Tag::Progress, transaction);
    }

    /// Transactions that remove the content of missing objects, which is not valid.
    pub fn remove_missing(&self, missing: &Missing) -> Vec<Transaction> {
        let objects: Vec<&HObject> = missing.iter().map(|(object, _)| object).collect();
        let remove =
            |object: &&HObject| (self.own.collection, Change::Remove { object: (*object).clone() });
        let steps = objects.chunks(REMOVED_AT_ONCE);
        steps.map(|step| Transaction { changes: step.iter().map(remove).collect() }).collect()
    }
}
