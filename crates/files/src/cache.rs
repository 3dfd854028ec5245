//! Objects in memory, changes that the database does not have yet, and the store's other shared state.
//!
//! Invariants:
//! * There is at most one [`Object`] per name. An object that is dirty, frozen or in use is not evicted.
//! * Under the lock, the database snapshot, overlaid with `frozen`, overlaid with `dirty`, is the state.
//! * Locks are taken in the order body, cache, snapshot; nothing else is locked under the held changes.

use crate::base::{Base, Snapshot};
use crate::error::{Chain, FilesError};
use crate::held::Held;
use crate::lock::lock;
use crate::media::Media;
use crate::object::{Body, Object};
use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use store::{Collection, DeviceFault, StoreError};
use types::HObject;

/// Objects that one insertion considers for eviction.
const EVICTION_TRIES: usize = 8;
const EVICTION_STEP: usize = 256;
/// References to an object that only the cache knows: from its map and from its queue.
const REFERENCES_IDLE: usize = 2;

/// State that the threads of one store share.
pub struct Store {
    /// The database.
    pub base: Base,
    /// The files.
    pub media: Media,
    /// Objects in memory.
    pub cache: Mutex<Cache>,
    /// Held changes of all collections.
    pub held: Mutex<Held>,
    /// For reports of usage.
    pub counts: Counts,
    /// Bound in bytes for the store's use of the file system.
    pub capacity: Option<u64>,
    /// Bytes of the file system that stay free.
    pub reserve: u64,
    /// Set once a device has failed; all later requests fail.
    failure: OnceLock<DeviceFault>,
}

/// Published by the thread that applies transactions.
#[derive(Debug, Default)]
pub struct Counts {
    /// Number of objects.
    pub objects: AtomicU64,
    /// Blocks in use.
    pub blocks: AtomicU64,
}

/// Changed objects, with whether they exist.
pub type Changed = BTreeMap<(Collection, HObject), (Arc<Object>, bool)>;

/// Objects in memory, with the changes that the database does not have.
#[derive(Debug, Default)]
pub struct Cache {
    /// Collections that exist.
    pub collections: BTreeSet<Collection>,
    objects: HashMap<Collection, HashSet<ByName>>,
    /// Candidates for eviction with their weights, oldest first.
    queue: VecDeque<(Arc<Object>, usize)>,
    weight: usize,
    weight_max: usize,
    /// Changed since the last freeze.
    pub dirty: Changed,
    /// Changed before it; the running checkpoint writes them.
    pub frozen: Changed,
    /// Number of finished checkpoints.
    pub checkpoints: u64,
}

/// An object, ordered by its name.
#[derive(Debug)]
struct ByName(Arc<Object>);

impl Borrow<HObject> for ByName {
    fn borrow(&self) -> &HObject {
        &self.0.name
    }
}

impl Hash for ByName {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.name.hash(state);
    }
}

impl PartialEq for ByName {
    fn eq(&self, other: &Self) -> bool {
        self.0.name == other.0.name
    }
}

impl Eq for ByName {}

impl Store {
    /// A store that has not failed.
    pub fn new(
        base: Base,
        media: Media,
        cache: Cache,
        held: Held,
        capacity: Option<u64>,
        reserve: u64,
    ) -> Self {
        let cache = Mutex::new(cache);
        let (held, counts) = (Mutex::new(held), Counts::default());
        Store { base, media, cache, held, counts, capacity, reserve, failure: OnceLock::new() }
    }

    /// The object of that name, which may be absent; `None` if it is not in memory and `may_wait`
    /// is false.
    pub fn object(
        &self,
        collection: Collection,
        name: &HObject,
        may_wait: bool,
    ) -> Result<Option<Arc<Object>>, FilesError> {
        loop {
            let checkpoints = {
                let cache = lock(&self.cache);
                if let Some(object) = cache.find(collection, name) {
                    return Ok(Some(object));
                }
                cache.checkpoints
            };
            if !may_wait {
                return Ok(None);
            }
            let body = self.base.snapshot().body(collection, name)?;
            let mut cache = lock(&self.cache);
            if let Some(object) = cache.find(collection, name) {
                return Ok(Some(object));
            }
            // A checkpoint that finished meanwhile makes the loaded state stale.
            if cache.checkpoints == checkpoints {
                return Ok(Some(cache.insert(collection, name, body)));
            }
        }
    }

    /// Names in a collection from `from` on, and the next one if there are more.
    pub fn names(
        &self,
        collection: Collection,
        from: &HObject,
        entries_max: usize,
    ) -> Result<(Vec<HObject>, Option<HObject>), FilesError> {
        if from.max {
            return Ok((Vec::new(), None));
        }
        let wanted = entries_max.saturating_add(1);
        let (snapshot, changed) = {
            let cache = lock(&self.cache);
            (self.base.snapshot(), cache.changed_from(collection, from, wanted))
        };
        let mut names = merge_names(&snapshot, collection, from, changed, wanted)?;
        let next = (names.len() > entries_max).then(|| names.swap_remove(entries_max));
        Ok((names, next))
    }

    /// Ends a checkpoint: its objects are in the database now.
    pub fn thaw(&self) -> Changed {
        let mut cache = lock(&self.cache);
        cache.checkpoints += 1;
        std::mem::take(&mut cache.frozen)
    }

    /// Considers every object for eviction once; called after a checkpoint, when many have become clean.
    pub fn evict(&self) {
        let mut left = lock(&self.cache).queue.len();
        while left > 0 {
            // In steps, so that other threads get the lock in between.
            lock(&self.cache).evict(EVICTION_STEP);
            left = left.saturating_sub(EVICTION_STEP);
        }
    }

    /// Bytes of all blocks in use, without metadata, and of those that held changes will use.
    pub fn bytes_used(&self) -> u64 {
        let (held, _) = lock(&self.held).settled_bytes();
        self.counts.blocks.load(Ordering::Relaxed) * crate::data::BLOCK + held
    }

    /// Bytes that can still be written, within the capacity and without the reserve.
    pub fn bytes_available(&self) -> std::io::Result<u64> {
        let (held, undurable) = lock(&self.held).settled_bytes();
        // Settling takes space once; before it, the next checkpoint takes some for those in the log alone.
        let taken = self.reserve + held + undurable;
        let device = self.media.bytes_available()?.saturating_sub(taken);
        let share = self.capacity.map(|capacity| capacity.saturating_sub(self.bytes_used()));
        Ok(share.map_or(device, |share| share.min(device)))
    }

    /// Bytes of the upper half of the reserve, and before it, that metadata may take.
    pub fn reserve_available(&self) -> std::io::Result<u64> {
        let (held, undurable) = lock(&self.held).settled_bytes();
        let taken = self.reserve / 2 + held + undurable;
        Ok(self.media.bytes_available()?.saturating_sub(taken))
    }

    /// Stops the store; only the first error counts, and is logged.
    pub fn fail(&self, error: FilesError) {
        let fault = DeviceFault::new(Chain(error));
        if self.failure.set(fault.clone()).is_ok() {
            tracing::error!("the object store stops: {fault}");
        }
    }

    /// The error of every request after the store has failed.
    pub fn failure(&self) -> Option<StoreError> {
        self.failure.get().cloned().map(StoreError::Device)
    }
}

impl Cache {
    /// An empty cache. `weight_max` is in bytes.
    pub fn new(collections: BTreeSet<Collection>, weight_max: usize) -> Self {
        Cache { collections, weight_max, ..Cache::default() }
    }

    fn find(&self, collection: Collection, name: &HObject) -> Option<Arc<Object>> {
        let ByName(object) = self.objects.get(&collection)?.get(name)?;
        object.referenced.store(true, Ordering::Relaxed);
        Some(object.clone())
    }

    fn insert(&mut self, collection: Collection, name: &HObject, body: Body) -> Arc<Object> {
        let weight = body.weight();
        let object = Object::new(collection, name, body);
        self.objects.entry(collection).or_default().insert(ByName(object.clone()));
        self.queue.push_back((object.clone(), weight));
        self.weight += weight;
        self.evict(EVICTION_TRIES);
        object
    }

    fn evict(&mut self, tries: usize) {
        for _ in 0..tries {
            if self.weight <= self.weight_max {
                return;
            }
            let Some((object, weight)) = self.queue.pop_front() else { return };
            let busy = Arc::strong_count(&object) > REFERENCES_IDLE;
            if busy || object.referenced.swap(false, Ordering::Relaxed) {
                // The weight may have grown; an object whose lock is taken is updated next time.
                let now = object.body.try_lock().map_or(weight, |body| body.weight());
                self.weight = self.weight - weight + now;
                self.queue.push_back((object, now));
                continue;
            }
            self.weight -= weight;
            if let Some(objects) = self.objects.get_mut(&object.collection) {
                objects.remove(&object.name);
                if objects.is_empty() {
                    self.objects.remove(&object.collection);
                }
            }
        }
    }

    /// Marks an object as changed.
    pub fn mark(&mut self, object: &Arc<Object>, exists: bool) {
        let key = (object.collection, object.name.clone());
        self.dirty.insert(key, (object.clone(), exists));
    }

    /// Changed names from `from` on with whether they exist, up to `live_max` existing ones; and the name at
    /// which the search ended.
    fn changed_from(
        &self,
        collection: Collection,
        from: &HObject,
        live_max: usize,
    ) -> ChangedNames {
        let range = || (collection, from.clone())..=(collection, HObject::max());
        let mut dirty = self.dirty.range(range()).peekable();
        let mut frozen = self.frozen.range(range()).peekable();
        let mut names = ChangedNames::default();
        while names.live < live_max {
            let next = dirty.peek().into_iter().chain(frozen.peek()).map(|(key, _)| *key).min();
            let Some(key) = next else { return names };
            let above = dirty.next_if(|(other, _)| *other == key);
            let below = frozen.next_if(|(other, _)| *other == key);
            let exists = above.or(below).is_some_and(|(_, (_, exists))| *exists);
            names.live += usize::from(exists);
            names.exists.insert(key.1.clone(), exists);
        }
        names.end = names.exists.keys().next_back().cloned();
        names
    }
}

#[derive(Debug, Default)]
struct ChangedNames {
    exists: BTreeMap<HObject, bool>,
    live: usize,
    end: Option<HObject>,
}

fn merge_names(
    snapshot: &Snapshot,
    collection: Collection,
    from: &HObject,
    changed: ChangedNames,
    wanted: usize,
) -> Result<Vec<HObject>, FilesError> {
    let mut names = Vec::new();
    let mut stored = snapshot.names(collection, from)?;
    while names.len() < wanted {
        let Some(name) = stored.next().transpose()? else { break };
        if changed.end.as_ref().is_some_and(|end| name > *end) {
            break;
        }
        if !changed.exists.contains_key(&name) {
            names.push(name);
        }
    }
    names.extend(changed.exists.into_iter().filter(|(_, exists)| *exists).map(|(name, _)| name));
    names.sort_unstable();
    names.truncate(wanted);
    Ok(names)
}
