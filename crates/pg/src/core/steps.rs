//! Log merges and copy resets in transactions that are small enough for a full store.
//!
//! A copy that was away for long misses much: one transaction for all of it would exceed the limit of a
//! store, and a full store accepts only small ones. So the copy proceeds in steps, each of which leaves it
//! in a state that could have occurred by itself: divergent entries are rolled back from the newest one on,
//! then the entries of the other log follow, oldest first, with the resulting missing objects and removals.
//! Only the last step records that the copy takes part in the interval.

use super::{Core, LocalCopy, Tag, settling};
use crate::backend::{self, Backend, Undo};
use crate::merge::Merged;
use crate::missing::Item;
use crate::shard_merge::{self, Effect};
use crate::{EntryKind, LogEntry, Missing, PgInfo, PgLog, info};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
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
    /// Objects of which this step changes the items in the missing set.
    items: BTreeSet<HObject>,
    backend: Backend,
    /// Entries of the other log up to this version are certain.
    committed: EVersion,
}

impl Step {
    fn new(core: &Core, committed: EVersion, transaction: Transaction) -> Self {
        let (pairs, items) = (BTreeMap::new(), BTreeSet::new());
        let (collection, backend) = (core.own.collection, core.placement.backend);
        Step { collection, transaction, removed: 0, bytes: 0, pairs, items, backend, committed }
    }

    fn is_full(&self) -> bool {
        self.bytes >= STEP_BYTES_MAX || self.removed >= REMOVED_AT_ONCE
    }

    /// Whether the log may end between these entries. Those of one write are held as one change, so the log
    /// of a shard does not end between them.
    fn may_end_between(&self, entry: &LogEntry, next: &LogEntry) -> bool {
        self.backend == Backend::Replicated || !entry.goes_on_in(next)
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
        self.items.insert(object.clone());
    }

    /// The object is neither missing nor stored any more.
    fn drop_object(&mut self, missing: &mut Missing, object: &HObject) {
        if missing.remove(object) {
            self.items.insert(object.clone());
        }
        self.remove(object);
    }

    /// Applies an entry of the other log.
    fn follow(&mut self, missing: &mut Missing, log: &PgLog, entry: &LogEntry) {
        if let Backend::Erasure(_) = self.backend {
            let effect = shard_merge::follow(missing, log, entry, self.committed);
            return self.take_effect(missing, entry, effect);
        }
        match entry.kind {
            EntryKind::Unchanged => {}
            EntryKind::Delete => self.drop_object(missing, &entry.object),
            EntryKind::Modify => {
                let have = missing.get(&entry.object).map_or(entry.prior_version, |item| item.have);
                self.miss(missing, &entry.object, Item { need: entry.version, have });
            }
        }
    }

    /// Rolls back the newest entry of the own log, which is divergent.
    fn undo(&mut self, copy: &mut LocalCopy, log: &PgLog, entry: &LogEntry) {
        let (missing, settled) = (&mut copy.missing, copy.info.settled());
        if let Backend::Erasure(_) = self.backend {
            let effect = shard_merge::undo(missing, log, entry, settled);
            return self.take_effect(missing, entry, effect);
        }
        match backend::undo(entry) {
            Undo::Nothing => {}
            Undo::Remove => self.drop_object(missing, &entry.object),
            Undo::Miss(need) => {
                self.miss(missing, &entry.object, Item { need, have: EVersion::ZERO });
            }
        }
    }

    fn take_effect(&mut self, missing: &Missing, entry: &LogEntry, effect: Effect) {
        let object = &entry.object;
        match effect {
            Effect::Nothing => {}
            Effect::HoldRemoval => {
                let changes = vec![Change::Remove { object: object.clone() }];
                let hold = Change::Hold { version: entry.version, changes };
                self.transaction.push(self.collection, hold);
                self.removed += 1;
            }
            Effect::Item | Effect::Remove => {
                self.bytes +=
                    missing.pair(object).map_or(0, |(key, value)| key.len() + value.len());
                self.items.insert(object.clone());
                if effect == Effect::Remove {
                    self.remove(object);
                }
            }
        }
    }
}

/// Whether no write of this log has entries at or below the version and above it. The changes of a write of a
/// shard are held, settled and dropped together.
fn ends_write(backend: Backend, log: &PgLog, version: EVersion) -> bool {
    let last = log.entries().rev().find(|entry| entry.version <= version);
    let next = log.above(version).next();
    backend == Backend::Replicated
        || last.zip(next).is_none_or(|(last, next)| !last.goes_on_in(next))
}

impl Core {
    /// Brings this copy to the result of a merge, with this info. `settled` is what the other copy has
    /// settled.
    pub fn take_merged(&mut self, merged: Merged, info: PgInfo, settled: EVersion, tag: Tag) {
        assert!(merged.common <= merged.log.head(), "both logs have the common version");
        assert!(tag.is_commit(), "{tag:?} is stored");
        // Changes that the other copy has settled were committed. Older held changes must not be applied over
        // what follows from it.
        settling::settle(self, settled.min(merged.common));
        let info = PgInfo { shard: self.copy.info.shard, ..info };
        let before = std::mem::replace(&mut self.copy.info, info);
        let own = std::mem::replace(&mut self.copy.log, merged.log);
        let at = |version| PgInfo { last_update: version, ..before.clone() };
        let is_here = |entry: &LogEntry| entry.object < before.last_backfill;
        let common = merged.common;
        let transaction = self.transaction(8);
        let mut step = Step::new(self, settled, transaction);
        debug_assert!(ends_write(step.backend, &own, common), "a write is dropped as a whole");
        let mut undone = own.above(common).rev().peekable();
        while let Some(entry) = undone.next() {
            if is_here(entry) {
                step.undo(&mut self.copy, &own, entry);
            }
            let previous = undone.peek().filter(|previous| step.may_end_between(previous, entry));
            if let (true, Some(previous)) = (step.is_full(), previous) {
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
        for (index, entry) in newer.iter().enumerate() {
            step.add_entry(entry);
            if is_here(entry) {
                step.follow(&mut self.copy.missing, &self.copy.log, entry);
            }
            let may_end = newer.get(index + 1).is_none_or(|next| step.may_end_between(entry, next));
            if step.is_full() && may_end {
                self.store_step(&mut step, &at(entry.version));
            }
        }
        self.copy.info.log_tail = self.copy.log.tail();
        self.copy.info.last_update = self.copy.log.head();
        // If OSDs were given up, what was committed may be gone.
        self.copy.committed = self.copy.committed.min(self.copy.info.last_update);
        let mark = settling::note_merged(self, settled);
        self.update_last_complete();
        let transaction = self.take_step_of(&mut step);
        self.commit_interval(tag, transaction, mark);
        debug_assert!(
            self.copy.missing.has_same_needs(&merged.missing),
            "a merge is what it was told"
        );
    }

    /// Removes own entries above `version`, and their held changes.
    fn forget_entries(&mut self, step: &mut Step, version: EVersion) {
        let beyond = EVersion { version: version.version + 1, ..version };
        if let Backend::Erasure(_) = step.backend {
            self.settling.forget_above(version);
            let drop = Change::Drop { from: beyond, through: EVersion::MAX };
            step.transaction.push(step.collection, drop);
        }
        self.remove_meta(&mut step.transaction, (info::log_key(beyond), info::log_keys().1));
    }

    fn take_step_of(&self, step: &mut Step) -> Transaction {
        let next = Step::new(self, step.committed, Transaction::new());
        let Step { mut transaction, mut pairs, items, .. } = std::mem::replace(step, next);
        let missing = &self.copy.missing;
        let gone = items.iter().filter(|object| missing.stored(object).is_none());
        let keys: Vec<Bytes> = gone.map(info::missing_key).collect();
        if !keys.is_empty() {
            let object = self.own.meta.clone();
            transaction.push(self.own.collection, Change::OmapRemove { object, keys });
        }
        pairs.extend(items.iter().filter_map(|object| missing.pair(object)));
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
        let objects: Vec<&HObject> = missing.all_stored().collect();
        let remove =
            |object: &&HObject| (self.own.collection, Change::Remove { object: (*object).clone() });
        let steps = objects.chunks(REMOVED_AT_ONCE);
        steps.map(|step| Transaction { changes: step.iter().map(remove).collect() }).collect()
    }
}
