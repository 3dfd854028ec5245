//! The executable definition of an object store.
//!
//! [`MemStore`] holds everything in memory, applies a transaction when it is submitted and answers
//! reads at once. What the interface leaves open is decided here, and other stores follow it:
//! * A commit that names a collection which is absent at that point of the transaction fails with
//!   `NoCollection` and changes nothing; so do reads. Creating a collection that exists and removing
//!   one that does not are no changes.
//! * Creating a collection that is not valid fails with `InvalidCollection` and changes nothing.
//! * A write of no bytes creates the object and leaves its size.
//! * The clone of an absent object is absence: the target is removed.
//! * Objects that move replace all that their target has with such hashes, also if there are none
//!   to move. A move within one collection is no change. Objects move whatever their pool is.
//! * Changes that cannot be held fail with `CannotHold` and change nothing. Versions ascend among the
//!   changes that are held: one that was dropped or settled may come again. Held changes move like objects.
//! * Settled changes of an absent object have no effect, except `Touch`, and `Clone` to it.
//! * A page of omap pairs has at least one pair (if one is left and any were asked for), even if
//!   that pair alone exceeds `bytes_max`.
//! * A commit that adds bytes fails with `NoSpace`, changing nothing, when they would not fit;
//!   commits that add none always succeed.

mod data;

use crate::{
    Change, Collection, Completion, Fence, Hashes, HeldChanges, ObjectMeta, ObjectStore, OmapPage,
    Outcome, ReadData, Request, RequestKind, StoreError, Transaction, Usage, check_changes,
};
use bytes::Bytes;
use data::SparseData;
use engine::Time;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use types::{EVersion, HObject};

/// Capacity in bytes; far more than any test writes.
const CAPACITY_DEFAULT: u64 = 1 << 40;

/// One object.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MemObject {
    /// Data, with holes.
    pub data: SparseData,
    /// Attributes by name.
    pub attrs: BTreeMap<Bytes, Bytes>,
    /// Omap header; empty if there is none.
    pub omap_header: Bytes,
    /// Omap pairs by key.
    pub omap: BTreeMap<Bytes, Bytes>,
}

/// A store in memory.
#[derive(Debug, Clone)]
pub struct MemStore {
    capacity: u64,
    collections: BTreeMap<Collection, BTreeMap<HObject, MemObject>>,
    held: HeldChanges,
    fence: Fence,
    completions: VecDeque<Completion>,
}

/// Two stores are equal if their content is equal.
impl PartialEq for MemStore {
    fn eq(&self, other: &Self) -> bool {
        self.collections == other.collections && self.held.iter().eq(other.held.iter())
    }
}

impl Default for MemStore {
    fn default() -> Self {
        MemStore::new()
    }
}

impl ObjectStore for MemStore {
    fn submit(&mut self, _now: Time, request: Request) {
        let outcome = self.execute(request.kind);
        self.completions.push_back(Completion { token: request.token, outcome });
    }

    fn poll_completion(&mut self) -> Option<Completion> {
        self.completions.pop_front()
    }
}

impl MemStore {
    /// An empty store that is practically never full.
    pub fn new() -> Self {
        MemStore::with_capacity(CAPACITY_DEFAULT)
    }

    /// A store of `capacity` bytes.
    pub fn with_capacity(capacity: u64) -> Self {
        MemStore {
            capacity,
            collections: BTreeMap::new(),
            held: HeldChanges::default(),
            fence: Fence::default(),
            completions: VecDeque::new(),
        }
    }

    /// Executes a request without queueing.
    pub fn execute(&mut self, kind: RequestKind) -> Result<Outcome, StoreError> {
        match kind {
            RequestKind::Commit(transaction) => {
                self.apply(&transaction).map(|()| Outcome::Committed)
            }
            RequestKind::Append(transaction) => {
                let applied = self.apply(&transaction);
                if applied.is_err() {
                    self.close_behind(&transaction);
                }
                applied.map(|()| Outcome::Committed)
            }
            RequestKind::Resume(collection) => {
                self.resume(collection);
                Ok(Outcome::Resumed)
            }
            read => self.answer(&read),
        }
    }

    /// Applies the transaction atomically.
    pub fn apply(&mut self, transaction: &Transaction) -> Result<(), StoreError> {
        self.fence.check(transaction)?;
        self.check(transaction)?;
        for (collection, change) in &transaction.changes {
            self.apply_change(*collection, change);
        }
        Ok(())
    }

    /// Aborts the collections of a refused commit on which others build.
    pub fn close_behind(&mut self, refused: &Transaction) {
        self.fence.close(refused.collections());
    }

    /// Accepts commits of the collection again.
    pub fn resume(&mut self, collection: Collection) {
        self.fence.open(collection);
    }

    /// Drops the state that does not survive a restart.
    pub fn restart(&mut self) {
        self.fence = Fence::default();
        self.completions.clear();
    }

    /// All collections, in order.
    pub fn collections(&self) -> impl Iterator<Item = Collection> + '_ {
        self.collections.keys().copied()
    }

    /// Objects of a collection in `HObject` order; none if the collection does not exist.
    pub fn objects(&self, collection: Collection) -> impl Iterator<Item = (&HObject, &MemObject)> {
        self.collections.get(&collection).into_iter().flatten()
    }

    /// An object, if it exists.
    pub fn object(&self, collection: Collection, object: &HObject) -> Option<&MemObject> {
        self.collections.get(&collection)?.get(object)
    }

    /// Held changes of all collections.
    pub fn held(&self) -> &HeldChanges {
        &self.held
    }

    /// Use of the space.
    pub fn usage(&self) -> Usage {
        let objects = || self.collections.values().flat_map(BTreeMap::values);
        let data: u64 = objects().map(|object| object.data.allocated()).sum();
        let bytes_omap = objects().map(MemObject::omap_bytes).sum();
        let bytes_meta = objects().map(|object| pairs_len(&object.attrs)).sum();
        let held = self.held.iter().flat_map(|(_, _, changes)| changes);
        let bytes_used =
            data + bytes_omap + bytes_meta + held.map(Change::bytes_added).sum::<u64>();
        Usage {
            bytes_total: self.capacity,
            bytes_available: self.capacity.saturating_sub(bytes_used),
            bytes_used,
            bytes_omap,
            bytes_meta,
            objects: objects().count() as u64,
            ..Usage::default()
        }
    }

    /// Panics if parts of the state contradict each other.
    pub fn check_invariants(&self) {
        for object in self.collections.values().flat_map(BTreeMap::values) {
            object.data.check_invariants();
        }
    }

    fn check(&self, transaction: &Transaction) -> Result<(), StoreError> {
        check_changes(transaction, |at| self.collections.contains_key(&at), &self.held)?;
        self.check_space(transaction)
    }

    fn check_space(&self, transaction: &Transaction) -> Result<(), StoreError> {
        let needed = transaction.bytes_added();
        // A shortcut for the default capacity, which is never reached.
        if needed == 0 || self.capacity == CAPACITY_DEFAULT {
            return Ok(());
        }
        let available = self.usage().bytes_available;
        if needed > available { Err(StoreError::NoSpace { needed, available }) } else { Ok(()) }
    }

    fn apply_change(&mut self, collection: Collection, change: &Change) {
        match change {
            Change::CreateCollection => {
                self.collections.entry(collection).or_default();
                return;
            }
            Change::RemoveCollection => {
                self.collections.remove(&collection);
                return self.held.remove_collection(collection);
            }
            Change::MoveObjects { target, hashes } => {
                return self.move_objects(collection, *target, *hashes);
            }
            Change::Hold { version, changes } => {
                let held = self.held.hold(collection, *version, changes, changes.clone());
                return held.expect("checked before");
            }
            Change::Settle { through } => return self.settle(collection, *through),
            Change::Drop { from, through } => {
                self.held.take(collection, *from, *through);
                return;
            }
            _ => {}
        }
        let objects = self.collections.get_mut(&collection).expect("checked before");
        match change {
            Change::Remove { object } => {
                objects.remove(object);
            }
            Change::Clone { object, target } => match objects.get(object).cloned() {
                Some(copy) => {
                    objects.insert(target.clone(), copy);
                }
                None => {
                    objects.remove(target);
                }
            },
            change => {
                let name = change.object().expect("changes of collections are done above");
                objects.entry(name.clone()).or_default().apply(change);
            }
        }
    }

    fn settle(&mut self, collection: Collection, through: EVersion) {
        for (_, changes) in self.held.take(collection, EVersion::ZERO, through) {
            for change in &changes {
                let object = change.object().expect("changes of collections cannot be held");
                if change.settles_absent() || self.object(collection, object).is_some() {
                    self.apply_change(collection, change);
                }
            }
        }
    }

    fn move_objects(&mut self, source: Collection, target: Collection, hashes: Hashes) {
        if source == target {
            return;
        }
        let objects = self.collections.get_mut(&source).expect("checked before");
        let all = std::mem::take(objects).into_iter();
        let (moved, kept): (BTreeMap<_, _>, _) = all.partition(|(name, _)| hashes.holds(name));
        *objects = kept;
        let objects = self.collections.get_mut(&target).expect("checked before");
        objects.retain(|name, _| !hashes.holds(name));
        objects.extend(moved);
        self.held.move_objects(source, target, hashes);
    }

    fn answer(&self, kind: &RequestKind) -> Result<Outcome, StoreError> {
        match kind {
            RequestKind::Commit(_) | RequestKind::Append(_) | RequestKind::Resume(_) => {
                unreachable!("commits are applied, not answered")
            }
            RequestKind::Meta { collection, object } => {
                let meta = self.members(*collection)?.get(object).map(MemObject::meta);
                Ok(Outcome::Meta(meta))
            }
            RequestKind::Read { collection, object, offset, length } => {
                let object = self.existing(*collection, object)?;
                Ok(Outcome::Read(object.data.read(*offset, *length)))
            }
            RequestKind::OmapHeader { collection, object } => {
                Ok(Outcome::OmapHeader(self.existing(*collection, object)?.omap_header.clone()))
            }
            RequestKind::OmapGet { collection, object, keys } => {
                let omap = &self.existing(*collection, object)?.omap;
                let pair = |key: &Bytes| Some((key.clone(), omap.get(key)?.clone()));
                Ok(Outcome::OmapPairs(keys.iter().filter_map(pair).collect()))
            }
            RequestKind::OmapList { collection, object, after, prefix, entries_max, bytes_max } => {
                let object = self.existing(*collection, object)?;
                let page = object.omap_page(after.as_ref(), prefix, *entries_max, *bytes_max);
                Ok(Outcome::OmapPage(page))
            }
            RequestKind::List { collection, from, entries_max } => {
                let mut names = self.members(*collection)?.range(from..).map(|(name, _)| name);
                let page = names.by_ref().take(*entries_max).cloned().collect();
                Ok(Outcome::List(page, names.next().cloned()))
            }
            RequestKind::Held { collection, after, entries_max } => {
                self.members(*collection)?;
                let (page, more) = self.held.page(*collection, *after, *entries_max);
                Ok(Outcome::Held(page, more))
            }
            RequestKind::ReadHeld { collection, held } => {
                self.members(*collection)?;
                Ok(Outcome::HeldRead(self.held.get(*collection, *held).cloned()))
            }
            RequestKind::Collections => Ok(Outcome::Collections(self.collections().collect())),
            RequestKind::Usage => Ok(Outcome::Usage(self.usage())),
        }
    }

    fn members(&self, at: Collection) -> Result<&BTreeMap<HObject, MemObject>, StoreError> {
        self.collections.get(&at).ok_or(StoreError::NoCollection(at))
    }

    fn existing(&self, at: Collection, object: &HObject) -> Result<&MemObject, StoreError> {
        let absent = || StoreError::NoObject { collection: at, object: object.clone() };
        self.members(at)?.get(object).ok_or_else(absent)
    }
}

impl MemObject {
    /// Its metadata.
    pub fn meta(&self) -> ObjectMeta {
        let has_omap = !self.omap.is_empty() || !self.omap_header.is_empty();
        ObjectMeta { size: self.data.size(), attrs: self.attrs.clone(), has_omap }
    }

    /// Its data in a range.
    pub fn read(&self, offset: u64, length: u64) -> ReadData {
        self.data.read(offset, length)
    }

    fn omap_bytes(&self) -> u64 {
        self.omap_header.len() as u64 + pairs_len(&self.omap)
    }

    fn omap_page(
        &self,
        after: Option<&Bytes>,
        prefix: &Bytes,
        entries_max: usize,
        bytes_max: usize,
    ) -> OmapPage {
        let start = match after {
            Some(after) if after >= prefix => Bound::Excluded(after),
            _ => Bound::Included(prefix),
        };
        let mut page = OmapPage::default();
        let mut bytes = 0;
        for (key, value) in self.omap.range::<Bytes, _>((start, Bound::Unbounded)) {
            if !key.starts_with(prefix) {
                break;
            }
            bytes += key.len() + value.len();
            let full = page.pairs.len() == entries_max;
            if full || (bytes > bytes_max && !page.pairs.is_empty()) {
                page.more = true;
                break;
            }
            page.pairs.insert(key.clone(), value.clone());
        }
        page
    }

    fn apply(&mut self, change: &Change) {
        match change {
            Change::Touch { .. } => {}
            Change::Write { offset, data, .. } => self.data.write(*offset, data.clone()),
            Change::Zero { offset, length, .. } => self.data.zero(*offset, *length),
            Change::Truncate { size, .. } => self.data.truncate(*size),
            Change::SetAttrs { attrs, .. } => self.attrs.extend(attrs.clone()),
            Change::RemoveAttr { name, .. } => {
                self.attrs.remove(name);
            }
            Change::OmapSetHeader { header, .. } => self.omap_header = header.clone(),
            Change::OmapSet { pairs, .. } => self.omap.extend(pairs.clone()),
            Change::OmapRemove { keys, .. } => keys.iter().for_each(|key| {
                self.omap.remove(key);
            }),
            Change::OmapRemoveRange { first, last, .. } => {
                self.omap.retain(|key, _| key < first || key >= last);
            }
            Change::OmapClear { .. } => {
                self.omap.clear();
                self.omap_header = Bytes::new();
            }
            Change::CreateCollection
            | Change::RemoveCollection
            | Change::MoveObjects { .. }
            | Change::Remove { .. }
            | Change::Hold { .. }
            | Change::Settle { .. }
            | Change::Drop { .. }
            | Change::Clone { .. } => unreachable!("not a change within one object"),
        }
    }
}

fn pairs_len(pairs: &BTreeMap<Bytes, Bytes>) -> u64 {
    pairs.iter().map(|(key, value)| (key.len() + value.len()) as u64).sum()
}

#[cfg(test)]
mod tests;
