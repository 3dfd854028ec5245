//! Applies transactions to memory and the page cache, and collects the changes for a checkpoint.
//!
//! Used by the committing thread, and before it starts by the replay of the log. Replay is deterministic:
//! decisions of the first execution that depended on the medium (ids, copies for clones) are in the record.

use crate::base::{State, Update};
use crate::cache::{Changed, Store};
use crate::clones::{Origin, clone_origins};
use crate::data::{Data, Hand, LOST};
use crate::error::FilesError;
use crate::held::{Expanded, clones, concerns_held, has_holds};
use crate::lock::lock;
use crate::log::LogPosition;
use crate::media::{DirtyFiles, Location};
use crate::object::{Attrs, Body, Object, write_sums};
use crate::omap::{PageRequest, page};
use crate::record::{CloneBase, Record};
use crate::slots::Slots;
use bytes::Bytes;
use codec::Writer;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use store::key::{id_key, object_key};
use store::{Change, Collection, Hashes, SettledSizes, Transaction, check_held};
use types::HObject;

/// Number of objects per step when a collection is removed or moved.
const STEP_OBJECTS: usize = 1000;

type Result<T, E = FilesError> = std::result::Result<T, E>;

/// Applies transactions to the objects in memory and to their files, in the order of the log.
pub struct Applier {
    store: Arc<Store>,
    instance: [u8; 16],
    /// Larger than all ids that are in use or reserved by a record.
    next_id: u64,
    /// The next of the ids reserved by the record that is being applied.
    reserved_id: u64,
    objects: u64,
    blocks: u64,
    slots: Slots,
    replaying: bool,
    /// See [`State::has_shards`].
    has_shards: bool,
    /// Since the last freeze.
    collections: BTreeMap<Collection, bool>,
    dead: Vec<u64>,
    dead_files: Vec<u64>,
}

/// The content of one checkpoint: files are made durable first, then the database.
pub struct Frozen {
    /// Files to sync first.
    pub dirty_files: DirtyFiles,
    /// Content for the database, afterwards.
    pub update: Update,
}

impl Applier {
    /// Continues from the state of the last checkpoint.
    pub fn new(store: Arc<Store>, state: &State, slots: Slots) -> Self {
        let applier = Applier {
            store,
            instance: state.instance,
            next_id: state.next_id,
            reserved_id: 0,
            objects: state.objects,
            blocks: state.blocks,
            slots,
            replaying: false,
            has_shards: state.has_shards,
            collections: BTreeMap::new(),
            dead: Vec::new(),
            dead_files: Vec::new(),
        };
        applier.publish_counts();
        applier
    }

    /// Applies a record of the log that may have been applied before a crash.
    pub fn replay(&mut self, record: &Record) -> Result<()> {
        self.replaying = true;
        let result = self.apply(record);
        self.replaying = false;
        result
    }

    /// Whether a collection is that of a shard.
    pub fn has_shards(&self) -> bool {
        self.has_shards
    }

    /// Lets the following checkpoints say that there are shards.
    pub fn announce_shards(&mut self) {
        self.has_shards = true;
    }

    /// Larger than all ids in use.
    pub fn next_id(&self) -> u64 {
        self.next_id
    }

    /// Prepares the record of a transaction for the log: ids, and copies for clones. The transaction contains
    /// the changes that it settles. If it contains clones, all earlier transactions must have been applied.
    pub fn prepare(&mut self, transaction: &Transaction) -> Result<(u64, Vec<CloneBase>)> {
        let first_id = self.next_id;
        let origins = clone_origins(transaction);
        let clones = origins.iter().map(|origin| self.copy_base(origin)).collect::<Result<_>>();
        match clones {
            Ok(clones) => {
                let reserved_id = self.next_id;
                self.next_id += ids_needed(transaction);
                Ok((reserved_id, clones))
            }
            Err(error) => {
                self.dead_files.extend(first_id..self.next_id);
                Err(error)
            }
        }
    }

    /// Bytes that the clones of a transaction copy.
    pub fn clone_bytes(&self, transaction: &Transaction) -> Result<u64> {
        let mut bytes = 0;
        for (collection, name) in clone_origins(transaction).iter().filter_map(|o| o.base) {
            bytes += self.load(collection, name)?.lock().data.blocks() * crate::data::BLOCK;
        }
        Ok(bytes)
    }

    /// Bytes that settling allocates, at most, for each `Hold` of a transaction. If these contain clones, all
    /// earlier transactions must have been applied.
    pub fn settled_bytes(&self, transaction: &Transaction) -> Result<Vec<u64>> {
        let changes = &transaction.changes;
        let holds = changes.iter().enumerate().filter_map(|(place, (at, change))| match change {
            Change::Hold { changes, .. } => Some((place, *at, changes)),
            _ => None,
        });
        let bytes = holds.map(|(place, at, held)| {
            let data: u64 = held.iter().map(Change::data_len).sum();
            let copies = match clones(held) {
                true => self.copied_bytes(at, held, &changes[..place])?,
                false => 0,
            };
            Ok(data + copies)
        });
        bytes.collect()
    }

    /// Bytes that held clones will copy, at most. `before` are the changes of their transaction before them.
    fn copied_bytes(
        &self,
        at: Collection,
        held: &[Change],
        before: &[(Collection, Change)],
    ) -> Result<u64> {
        let hash = check_held(held).expect("checked before");
        let mut earlier: Vec<Change> = {
            let held = lock(&self.store.held);
            let same = held.changes().of(at).filter(|(name, _)| name.hash == hash);
            same.flat_map(|(_, value)| value.changes.iter().cloned()).collect()
        };
        for (other, change) in before {
            if let Change::Hold { changes, .. } = change
                && *other == at
            {
                earlier.extend(changes.iter().cloned());
            }
        }
        let size = |object: &HObject| Ok::<_, FilesError>(self.load(at, object)?.lock().data.size);
        let mut sizes = SettledSizes::new(size);
        for change in &earlier {
            sizes.follow(change, change.data_len())?;
        }
        let mut bytes = 0;
        for change in held {
            let source = sizes.follow(change, change.data_len())?;
            bytes += source.unwrap_or(0).next_multiple_of(crate::data::BLOCK);
        }
        Ok(bytes)
    }

    /// Discards a prepared record.
    pub fn discard(&mut self, record: Record) {
        self.dead_files.extend(record.clones.iter().map(|base| base.id));
    }

    fn copy_base(&mut self, origin: &Origin<'_>) -> Result<CloneBase> {
        let id = self.take_id();
        let Some((collection, name)) = origin.base else {
            return Ok(CloneBase { id, size: 0, sums: Vec::new() });
        };
        let source = self.load(collection, name)?;
        let body = source.lock();
        let (runs, mut sums) = (body.data.runs(0, u64::MAX), body.data.sums().to_vec());
        if !runs.is_empty() {
            let copied = self.store.media.copy(body.data.location, id, &runs);
            let unread =
                copied.map_err(|error| FilesError::Io { what: "copying an object", error })?;
            unread.into_iter().for_each(|block| sums[block as usize] = LOST);
        }
        Ok(CloneBase { id, size: body.data.size, sums })
    }

    /// Applies a record that is durable in the log. After an error the store stops.
    pub fn apply(&mut self, record: &Record) -> Result<()> {
        let transaction = &record.transaction;
        debug_assert!(
            self.has_shards || !needs_shards(transaction),
            "announced before it is logged"
        );
        let expanded = self.follow_held(transaction)?;
        let transaction = &*expanded.transaction;
        self.reserved_id = record.reserved_id;
        self.next_id = self.next_id.max(record.reserved_id + ids_needed(transaction));
        let origins =
            if record.clones.is_empty() { Vec::new() } else { clone_origins(transaction) };
        let mut clones = record.clones.iter().zip(&origins);
        let mut touched = Touched::default();
        // Places of settled changes of absent objects.
        let mut ineffective = Vec::new();
        for (place, (collection, change)) in transaction.changes.iter().enumerate() {
            match change {
                Change::CreateCollection => self.set_collection(*collection, true),
                Change::Hold { .. } | Change::Settle { .. } | Change::Drop { .. } => {}
                Change::RemoveCollection => {
                    touched.mark_in(&self.store);
                    self.remove_collection(*collection)?;
                }
                Change::MoveObjects { target, hashes } => {
                    touched.mark_in(&self.store);
                    self.move_objects(*collection, *target, *hashes)?;
                }
                Change::Clone { object, target } => {
                    let (base, origin) = clones.next().ok_or(FilesError::CloneWithoutCopy)?;
                    let source = touched.object(&self.store, *collection, object)?;
                    let target = touched.object(&self.store, *collection, target)?;
                    self.clone_object(&source, &target, base)?;
                    self.repeat(transaction, origin, &ineffective, &target)?;
                }
                change => {
                    let name = change.object().expect("changes of collections are done above");
                    let object = touched.object(&self.store, *collection, name)?;
                    let mut body = object.lock();
                    let creates = change.settles_absent() || !expanded.is_settled(place);
                    match body.exists || creates {
                        true => self.change_object(&mut body, change)?,
                        false => ineffective.push(place),
                    }
                }
            }
        }
        touched.mark_in(&self.store);
        self.publish_counts();
        Ok(())
    }

    /// Held changes follow a transaction, to which the changes are added that it settles.
    fn follow_held<'a>(&self, transaction: &'a Transaction) -> Result<Expanded<'a>> {
        if !concerns_held(transaction) {
            return Ok(Expanded::plain(transaction));
        }
        let settled_bytes = self.settled_bytes(transaction)?;
        Ok(lock(&self.store.held).follow(transaction, &settled_bytes))
    }

    fn change_object(&mut self, body: &mut Body, change: &Change) -> Result<()> {
        if let Change::Remove { .. } = change {
            self.remove_object(body);
            return Ok(());
        }
        if !body.exists {
            *body = Body::new(self.reserved_id);
            self.reserved_id += 1;
            self.objects += 1;
        }
        match change {
            Change::SetAttrs { attrs, .. } => {
                let mut map = body.attrs.to_map();
                map.extend(attrs.clone());
                body.attrs = Attrs::from_map(&map);
            }
            Change::RemoveAttr { name, .. } => {
                let mut map = body.attrs.to_map();
                if map.remove(name).is_some() {
                    body.attrs = Attrs::from_map(&map);
                }
            }
            Change::OmapSetHeader { header, .. } => {
                body.omap.header = Bytes::copy_from_slice(header);
            }
            Change::OmapSet { pairs, .. } => {
                body.omap.used |= !pairs.is_empty();
                body.omap.current.set(pairs);
            }
            // There are no omap keys to remove.
            Change::OmapRemove { .. } | Change::OmapRemoveRange { .. } if !body.omap.used => {}
            Change::OmapRemove { keys, .. } => {
                keys.iter().for_each(|key| body.omap.current.remove(key));
            }
            Change::OmapRemoveRange { first, last, .. } => {
                body.omap.current.remove_range(first, last);
            }
            Change::OmapClear { .. } => {
                body.omap.header.clear();
                body.omap.current.clear();
            }
            change => self.change_data(body, change)?,
        }
        Ok(())
    }

    fn change_data(&mut self, body: &mut Body, change: &Change) -> Result<()> {
        let id = body.id;
        let hand = &mut Hand {
            media: &self.store.media,
            slots: &mut self.slots,
            blocks: &mut self.blocks,
            replaying: self.replaying,
        };
        let done = match change {
            Change::Write { offset, data, .. } => body.data.write(hand, id, *offset, data),
            Change::Zero { offset, length, .. } => body.data.zero(hand, *offset, *length),
            Change::Truncate { size, .. } => body.data.truncate(hand, *size),
            _ => Ok(()),
        };
        done.map_err(|error| FilesError::Io { what: "writing object data", error })
    }

    fn remove_object(&mut self, body: &mut Body) {
        if !body.exists {
            return;
        }
        self.objects -= 1;
        if body.omap.used || body.data.is_chunked() {
            self.dead.push(body.id);
        }
        if let Location::File(id) = body.data.location {
            self.dead_files.push(id);
        }
        body.data.release(&mut Hand {
            media: &self.store.media,
            slots: &mut self.slots,
            blocks: &mut self.blocks,
            replaying: self.replaying,
        });
        *body = Body::absent();
    }

    fn clone_object(&mut self, source: &Object, target: &Object, base: &CloneBase) -> Result<()> {
        let copy = self.copy_metadata(&source.lock(), base)?;
        let mut body = target.lock();
        self.remove_object(&mut body);
        let Some(copy) = copy else {
            self.dead_files.push(base.id);
            return Ok(());
        };
        self.objects += 1;
        self.blocks += copy.data.blocks();
        *body = copy;
        Ok(())
    }

    /// Copies the source's metadata; its data is that of the clone's base.
    fn copy_metadata(&self, source: &Body, base: &CloneBase) -> Result<Option<Body>> {
        if !source.exists {
            return Ok(None);
        }
        let mut copy = Body::new(base.id);
        let mut data = Data::new(base.size, Location::Nowhere, base.sums.clone());
        if data.blocks() > 0 {
            data.location = Location::File(base.id);
        }
        data.mark_all_dirty();
        copy.data = data;
        copy.attrs = source.attrs.clone();
        copy.omap.header = source.omap.header.clone();
        if source.omap.used {
            copy.omap.used = true;
            let request = PageRequest::everything();
            let snapshot = self.store.base.snapshot();
            let stored = snapshot.omap_pairs(source.id, request.start())?;
            copy.omap.current.set(&page(&source.omap.layers(), stored, &request)?.pairs);
        }
        Ok(Some(copy))
    }

    /// Applies to a clone the earlier changes of the transaction to its source.
    fn repeat(
        &mut self,
        transaction: &Transaction,
        origin: &Origin<'_>,
        ineffective: &[usize],
        target: &Object,
    ) -> Result<()> {
        let mut body = target.lock();
        if !body.exists {
            return Ok(());
        }
        for place in origin.changes.iter().filter(|place| !ineffective.contains(place)) {
            self.change_data(&mut body, &transaction.changes[*place].1)?;
        }
        Ok(())
    }

    fn set_collection(&mut self, collection: Collection, exists: bool) {
        let mut cache = lock(&self.store.cache);
        if exists {
            cache.collections.insert(collection);
        } else {
            cache.collections.remove(&collection);
        }
        self.collections.insert(collection, exists);
    }

    fn remove_collection(&mut self, collection: Collection) -> Result<()> {
        self.set_collection(collection, false);
        self.each_object(collection, None, |this, object| {
            this.remove_object(&mut object.lock());
            Ok(())
        })
    }

    /// Changes all objects of a collection, or those of a set of hashes.
    fn each_object(
        &mut self,
        collection: Collection,
        hashes: Option<Hashes>,
        mut change: impl FnMut(&mut Self, &Object) -> Result<()>,
    ) -> Result<()> {
        let mut from = Some(HObject { pool: types::PoolId(i64::MIN), ..HObject::default() });
        while let Some(start) = from {
            let (names, next) = self.store.names(collection, &start, STEP_OBJECTS)?;
            let mut touched = Touched::default();
            for name in names.iter().filter(|name| hashes.is_none_or(|set| set.holds(name))) {
                let object = touched.object(&self.store, collection, name)?;
                change(self, &object)?;
            }
            touched.mark_in(&self.store);
            from = next;
        }
        Ok(())
    }

    /// Objects keep their ids, and with them their data, checksums and omaps; only their keys change.
    fn move_objects(
        &mut self,
        source: Collection,
        target: Collection,
        hashes: Hashes,
    ) -> Result<()> {
        if source == target {
            return Ok(());
        }
        self.each_object(target, Some(hashes), |this, object| {
            this.remove_object(&mut object.lock());
            Ok(())
        })?;
        self.each_object(source, Some(hashes), |this, object| {
            let body = std::mem::replace(&mut *object.lock(), Body::absent());
            let mut touched = Touched::default();
            *touched.object(&this.store, target, &object.name)?.lock() = body;
            touched.mark_in(&this.store);
            Ok(())
        })
    }

    fn load(&self, collection: Collection, name: &HObject) -> Result<Arc<Object>> {
        let object = self.store.object(collection, name, true)?;
        Ok(object.expect("waiting for an object always brings one"))
    }

    fn take_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id - 1
    }

    fn publish_counts(&self) {
        self.store.counts.objects.store(self.objects, Ordering::Relaxed);
        self.store.counts.blocks.store(self.blocks, Ordering::Relaxed);
    }

    /// Takes the changes since the last freeze. They lead to the state at log position `log`.
    pub fn freeze(&mut self, log: LogPosition) -> Frozen {
        let changed = {
            let mut cache = lock(&self.store.cache);
            debug_assert!(cache.frozen.is_empty(), "one checkpoint at a time");
            cache.frozen = std::mem::take(&mut cache.dirty);
            cache.frozen.clone()
        };
        let mut update = Update {
            state: State {
                instance: self.instance,
                next_id: self.next_id,
                objects: self.objects,
                blocks: self.blocks,
                log,
                has_shards: self.has_shards,
            },
            collections: std::mem::take(&mut self.collections),
            dead: std::mem::take(&mut self.dead),
            dead_files: std::mem::take(&mut self.dead_files),
            slots: self.slots.freeze(),
            held: lock(&self.store.held).freeze(),
            ..Update::default()
        };
        freeze_objects(&changed, &mut update);
        Frozen { dirty_files: self.store.media.take_dirty(), update }
    }

    /// Ends a checkpoint.
    pub fn thaw(&mut self) {
        self.slots.thaw();
    }
}

fn freeze_objects(changed: &Changed, update: &mut Update) {
    for ((collection, name), (object, _)) in changed {
        let mut body = object.lock();
        let key = object_key(*collection, name);
        if !body.exists {
            update.onodes.push((key, None));
            continue;
        }
        update.onodes.push((key, Some(body.onode().to_bytes())));
        for chunk in body.data.take_dirty_chunks() {
            let mut w = Writer::new();
            write_sums(&mut w, body.data.chunk(chunk));
            let sums = (!w.is_empty()).then(|| w.into_vec());
            update.checksums.push((id_key(body.id, &chunk.to_be_bytes()), sums));
        }
        if !body.omap.current.is_empty() && body.omap.used {
            let overlay = Arc::new(std::mem::take(&mut body.omap.current));
            body.omap.frozen = Some(overlay.clone());
            update.omaps.push((body.id, overlay));
        }
    }
}

/// Whether it creates the collection of a shard, or holds changes. An invalid one is refused.
pub fn needs_shards(transaction: &Transaction) -> bool {
    let creates = |(at, change): &(Collection, Change)| {
        at.is_shard() && at.is_valid() && matches!(change, Change::CreateCollection)
    };
    transaction.changes.iter().any(creates) || has_holds(transaction)
}

/// Upper bound of the objects that a transaction creates, without clones.
fn ids_needed(transaction: &Transaction) -> u64 {
    transaction.changes.len() as u64
}

/// Drops the frozen layers, which are in the database now.
pub fn thaw_objects(changed: &Changed) {
    changed.values().for_each(|(object, _)| object.lock().omap.frozen = None);
}

/// Objects that a transaction has changed so far.
#[derive(Default)]
struct Touched {
    objects: Vec<Arc<Object>>,
}

impl Touched {
    fn object(&mut self, store: &Store, at: Collection, name: &HObject) -> Result<Arc<Object>> {
        let known = self.objects.iter().rev().take(8);
        if let Some(object) = known.into_iter().find(|o| o.collection == at && o.name == *name) {
            return Ok(object.clone());
        }
        let object = store.object(at, name, true)?;
        let object = object.expect("waiting for an object always brings one");
        self.objects.push(object.clone());
        Ok(object)
    }

    fn mark_in(&mut self, store: &Store) {
        let objects = std::mem::take(&mut self.objects);
        let exists: Vec<bool> = objects.iter().map(|object| object.lock().exists).collect();
        let mut cache = lock(&store.cache);
        objects.iter().zip(exists).for_each(|(object, exists)| cache.mark(object, exists));
    }
}
