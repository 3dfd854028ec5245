//! A copy that follows another log, or begins anew, in transactions that a full store takes, too.
//!
//! Who was away for long misses much: one transaction that says all of it would be larger than a store takes at once,
//! and a full store takes none but small ones. So the copy goes its way in steps, each of which leaves it in a state
//! in which it might have been found: own entries that never happened are undone from the newest one back, then those
//! of the other log follow, oldest first, with what the copy lacks and what goes because of them. Only the last step
//! says that the copy takes part in the interval.

use crate::merge::Merged;
use crate::missing::Item;
use crate::reshape::{STEP_BYTES_MAX, log_pair};
use crate::{EntryKind, LogEntry, Missing, Pg, PgInfo, Tag, info};
use bytes::Bytes;
use std::collections::BTreeMap;
use store::{Change, Collection, Transaction};
use types::{EVersion, HObject};

/// Objects that one transaction removes.
pub(crate) const REMOVED_AT_ONCE: usize = 256;

/// What is to be stored next.
struct Step {
    collection: Collection,
    transaction: Transaction,
    removed: usize,
    bytes: usize,
    pairs: BTreeMap<Bytes, Bytes>,
    /// Items of what is missing, as they are after this step.
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
        self.pairs.insert(key, value);
    }

    fn miss(&mut self, missing: &mut Missing, object: &HObject, item: Item) {
        missing.add(object.clone(), item);
        self.bytes += missing.pair(object).map_or(0, |(key, value)| key.len() + value.len());
        self.items.insert(object.clone(), Some(item));
    }

    /// Nothing of the object is wanted any more.
    fn drop_object(&mut self, missing: &mut Missing, object: &HObject) {
        if missing.remove(object) {
            self.items.insert(object.clone(), None);
        }
        self.remove(object);
    }

    /// Something happened elsewhere.
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

    /// Something happened only here.
    fn undo(&mut self, missing: &mut Missing, entry: &LogEntry) {
        match (entry.changes_object(), entry.prior_version) {
            (false, _) => {}
            (true, EVersion::ZERO) => self.drop_object(missing, &entry.object),
            (true, need) => {
                self.miss(missing, &entry.object, Item { need, have: EVersion::ZERO });
            }
        }
    }
}

impl Pg {
    /// Our copy becomes what a merge says it is, with this info.
    pub(crate) fn take_merged(&mut self, merged: Merged, info: PgInfo, tag: Tag) {
        let before = std::mem::replace(&mut self.info, info);
        let own = std::mem::replace(&mut self.log, merged.log);
        let at = |version| PgInfo { last_update: version, ..before.clone() };
        let is_here = |entry: &LogEntry| entry.object < before.last_backfill;
        let common = merged.common;
        let mut step = Step::new(self.collection, self.transaction(8));
        let mut undone = own.above(common).rev().peekable();
        while let Some(entry) = undone.next() {
            if is_here(entry) {
                step.undo(&mut self.missing, entry);
            }
            if let (true, Some(previous)) = (step.is_full(), undone.peek()) {
                self.forget_entries(&mut step, previous.version);
                self.store_step(&mut step, &at(previous.version));
            }
        }
        self.forget_entries(&mut step, common);
        // Older ones count once the info says so.
        let older: Vec<LogEntry> = match self.log.tail() < own.tail() {
            true => self
                .log
                .entries()
                .take_while(|entry| entry.version <= own.tail())
                .cloned()
                .collect(),
            false => Vec::new(),
        };
        for entry in &older {
            step.add_entry(entry);
            if step.is_full() {
                self.store_step(&mut step, &at(common));
            }
        }
        let newer: Vec<LogEntry> = self.log.above(common).cloned().collect();
        for entry in &newer {
            step.add_entry(entry);
            if is_here(entry) {
                step.follow(&mut self.missing, entry);
            }
            if step.is_full() {
                self.store_step(&mut step, &at(entry.version));
            }
        }
        self.info.log_tail = self.log.tail();
        self.info.last_update = self.log.head();
        self.update_last_complete();
        let mut transaction = self.take_step_of(&mut step);
        self.set_info_and_intervals(&mut transaction);
        self.commit(tag, transaction);
        debug_assert!(self.missing.has_same_needs(&merged.missing), "a merge is what it was told");
    }

    /// Own entries above `version` give way.
    fn forget_entries(&self, step: &mut Step, version: EVersion) {
        let beyond = EVersion { version: version.version + 1, ..version };
        self.remove_meta(&mut step.transaction, (info::log_key(beyond), info::log_keys().1));
    }

    fn take_step_of(&self, step: &mut Step) -> Transaction {
        let Step { mut transaction, mut pairs, items, .. } =
            std::mem::replace(step, Step::new(self.collection, Transaction::new()));
        let gone = items.iter().filter(|(_, item)| item.is_none());
        let keys: Vec<Bytes> = gone.map(|(object, _)| info::missing_key(object)).collect();
        if !keys.is_empty() {
            let object = self.meta.clone();
            transaction.push(self.collection, Change::OmapRemove { object, keys });
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

    /// Removes what lies under the names of missing objects, and counts for nothing, in as many transactions as
    /// that takes.
    pub(crate) fn remove_missing(&self, missing: &Missing) -> Vec<Transaction> {
        let objects: Vec<&HObject> = missing.iter().map(|(object, _)| object).collect();
        let remove =
            |object: &&HObject| (self.collection, Change::Remove { object: (*object).clone() });
        let steps = objects.chunks(REMOVED_AT_ONCE);
        steps.map(|step| Transaction { changes: step.iter().map(remove).collect() }).collect()
    }
}
