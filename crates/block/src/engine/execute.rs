//! Executes a transaction as a function of the stored state: it either returns all its effects, or
//! says what it waits for, without having changed anything.

use super::contents::Contents;
use super::effects::{Effects, Interrupt};
use super::held_index::HeldEdit;
use super::meta::Meta;
use super::working::{Working, WorkingObject, take_id};
use crate::device::Extent;
use crate::keys;
use crate::log::Counters;
use crate::object::OBJECT_SIZE_MAX;
use crate::slices::{Slice, Slices};
use crate::space::Space;
use crate::table::{Op, Table, detached};
use crate::tree::VALUE_MAX;
use bytes::Bytes;
use std::collections::BTreeMap;
use std::ops::Bound;
use store::{Change, Collection, Hashes, StoreError, Transaction};
use types::HObject;

/// Changes and freed runs in one step of a cleanup, after which it takes no further object.
const CLEANUP_CHANGES_MAX: usize = 512;
/// Pairs of an omap that are copied in one step.
const OMAP_COPY_ENTRIES: usize = 1000;
const OMAP_COPY_BYTES: usize = 1 << 20;

/// Progress of copying an omap, kept between attempts because the omap may not fit the cache.
#[derive(Debug, Default)]
pub(crate) struct OmapCopy {
    /// Index of the clone within the transaction.
    clone: usize,
    source: u64,
    /// Keys within the omap, and values.
    pairs: Vec<(Bytes, Bytes)>,
    is_complete: bool,
}

/// Data that attempts at one transaction have read.
#[derive(Debug, Default)]
pub(crate) struct Loaded {
    /// Blocks that are changed in part, by place.
    pub blocks: BTreeMap<u64, Bytes>,
    copy: Option<OmapCopy>,
}

pub(crate) struct Executor<'a> {
    /// Metadata, read and not changed.
    pub meta: &'a mut Meta,
    /// Allocates blocks; an attempt that fails gives them back.
    pub space: &'a mut Space,
    /// Data in memory, for blocks that are changed in part.
    pub contents: &'a Contents,
    /// Data that former attempts have read.
    pub loaded: &'a mut Loaded,
    /// Counters of the store before the transaction, then after the changes so far.
    pub counters: Counters,
    /// Writes of at most this number of blocks are deferred.
    pub deferred_blocks: u64,
    /// Objects that the transaction has loaded.
    pub working: Working,
    /// Effects of the changes so far.
    pub effects: Effects,
    /// Collections that were looked up, created, changed or removed.
    collections: Vec<(Collection, Option<Slices>)>,
    /// Held changes that the transaction has added or removed so far.
    pub(super) held: Vec<HeldEdit>,
    clones: usize,
}

impl<'a> Executor<'a> {
    /// One attempt at a transaction. `deferred_blocks` is
    /// [`Options::deferred_blocks`](crate::Options).
    pub fn new(
        meta: &'a mut Meta,
        space: &'a mut Space,
        contents: &'a Contents,
        loaded: &'a mut Loaded,
        counters: Counters,
        deferred_blocks: u64,
    ) -> Self {
        let working = Working::new(meta.fresh_from());
        Executor {
            meta,
            space,
            contents,
            loaded,
            counters,
            deferred_blocks,
            working,
            effects: Effects::default(),
            collections: Vec::new(),
            held: Vec::new(),
            clones: 0,
        }
    }

    /// Executes all changes in order. An interrupted attempt leaves nothing behind but what
    /// `loaded` keeps, and is repeated.
    pub fn run(mut self, transaction: &Transaction) -> Result<Effects, Interrupt> {
        let outcome =
            transaction.changes.iter().try_for_each(|(at, change)| self.apply(*at, change));
        self.conclude(outcome)
    }

    /// Removes some objects of a removed collection, or the `G` pair once none is left.
    pub fn run_cleanup(mut self, slice: Slice, objects_max: usize) -> Result<Effects, Interrupt> {
        let outcome = self.clean_up(slice, objects_max);
        self.conclude(outcome)
    }

    fn conclude(mut self, outcome: Result<(), Interrupt>) -> Result<Effects, Interrupt> {
        std::mem::take(&mut self.working).finish(&mut self.effects);
        if let Err(interrupt) = outcome.and_then(|()| self.check_values()) {
            for extent in self.effects.record.taken.drain(..) {
                self.space.give_back(extent).expect("taken by this attempt");
            }
            return Err(interrupt);
        }
        let counters = &mut self.effects.record.counters;
        counters.next_id = self.counters.next_id;
        counters.objects = self.counters.objects.saturating_add_signed(self.effects.objects);
        Ok(self.effects)
    }

    /// Refuses values that the tree could not take, before they get into the log.
    fn check_values(&self) -> Result<(), Interrupt> {
        let too_long = self.effects.record.ops.iter().find_map(|op| match op {
            Op::Put { value, .. } if value.len() > VALUE_MAX => Some(value.len()),
            _ => None,
        });
        match too_long {
            None => Ok(()),
            Some(length) => Err(Interrupt::Refused(StoreError::TooLarge {
                what: "an omap value, or all attributes of an object,",
                size: length as u64,
                limit: VALUE_MAX as u64,
            })),
        }
    }

    fn clean_up(&mut self, slice: Slice, objects_max: usize) -> Result<(), Interrupt> {
        if self.clean_up_held(slice, objects_max)? {
            return Ok(());
        }
        let names = self.meta.objects_within(slice, objects_max)?;
        if names.is_empty() {
            self.effects.delete(keys::garbage(slice));
            self.effects.ends_cleanup = true;
        }
        self.working.removes_ranges = true;
        for (index, name) in names.iter().enumerate() {
            self.remove(slice.id, name)?;
            let is_enough = self.is_enough_cleaned();
            let next = names.get(index + 1).filter(|next| !is_enough && next.pool == name.pool);
            if next.is_none() {
                self.remove_names(slice, name);
            }
            if is_enough {
                break;
            }
        }
        Ok(())
    }

    /// Set if this step of a cleanup takes no further object.
    pub(super) fn is_enough_cleaned(&self) -> bool {
        let record = &self.effects.record;
        record.ops.len() + record.freed.len() >= CLEANUP_CHANGES_MAX
    }

    /// Removes the keys of all objects of a slice and pool up to `last`, as one range that includes
    /// those removed before. So the next step does not pass them again.
    fn remove_names(&mut self, slice: Slice, last: &HObject) {
        let first = keys::object_hash_start(slice.id, last.pool, slice.first);
        let behind = [&keys::object(slice.id, last)[..], &[0]].concat();
        self.effects.delete_range(first, behind.into());
    }

    pub(super) fn apply(&mut self, at: Collection, change: &Change) -> Result<(), Interrupt> {
        match change {
            Change::CreateCollection => return self.create_collection(at),
            Change::RemoveCollection => return self.remove_collection(at),
            Change::MoveObjects { target, hashes } => {
                return self.move_objects(at, *target, *hashes);
            }
            Change::Hold { version, changes } => return self.hold(at, *version, changes),
            Change::Settle { through } => return self.settle(at, *through),
            Change::Drop { from, through } => return self.drop_held(at, *from, *through),
            _ => {}
        }
        let name = change.object().expect("changes of collections are done above");
        let slices = self.existing(at)?;
        let id = slices.id_of(name);
        match change {
            Change::Remove { object } => self.remove(id, object),
            Change::Clone { object, target } => {
                self.clone_object((slices.id_of(object), object), (id, target))
            }
            change if self.change_known_omap(id, name, change) => Ok(()),
            change => {
                let index = self.working.load(self.meta, id, name)?;
                self.change_object(index, change)
            }
        }
    }

    /// Changes an omap without reading its object, if the object is known to have one.
    fn change_known_omap(&mut self, collection: u64, name: &HObject, change: &Change) -> bool {
        let Some(id) = self.meta.known_omap(collection, name) else { return false };
        if self.working.find(collection, name).is_some() {
            return false;
        }
        match change {
            Change::OmapSet { pairs, .. } => self.put_pairs(id, pairs),
            Change::OmapRemoveRange { first, last, .. } => self.delete_keys(id, first, last),
            _ => return false,
        }
        true
    }

    fn change_object(&mut self, index: usize, change: &Change) -> Result<(), Interrupt> {
        check_end(change)?;
        let size_before = self.working.object(index).onode.as_ref().map(|onode| onode.size);
        match change {
            Change::Touch { .. } => {}
            Change::Write { offset, data, .. } => self.write(index, *offset, data)?,
            Change::Zero { offset, length, .. } => self.zero(index, *offset, *length)?,
            Change::Truncate { size, .. } => self.truncate(index, *size)?,
            Change::SetAttrs { attrs, .. } => {
                let pairs = attrs.iter().map(|(name, value)| (name.clone(), value.clone()));
                self.onode_mut(index).attrs.extend(pairs);
            }
            Change::RemoveAttr { name, .. } => {
                self.onode_mut(index).attrs.remove(name);
            }
            Change::OmapSetHeader { header, .. } => self.set_omap_header(index, header),
            Change::OmapSet { pairs, .. } => self.set_omap(index, pairs),
            Change::OmapRemove { keys, .. } => self.remove_omap_keys(index, keys),
            Change::OmapRemoveRange { first, last, .. } => {
                self.remove_omap_range(index, first, last)
            }
            Change::OmapClear { .. } => self.clear_omap(index),
            Change::CreateCollection
            | Change::RemoveCollection
            | Change::MoveObjects { .. }
            | Change::Remove { .. }
            | Change::Hold { .. }
            | Change::Settle { .. }
            | Change::Drop { .. }
            | Change::Clone { .. } => unreachable!("not a change within one object"),
        }
        if size_before.is_none() {
            self.onode_mut(index);
        }
        Ok(())
    }

    pub(super) fn onode_mut(&mut self, index: usize) -> &mut crate::object::Onode {
        self.working.object(index).onode_mut(&mut self.counters.next_id)
    }

    fn collection(&mut self, at: Collection) -> Result<Option<Slices>, Interrupt> {
        if let Some((_, slices)) = self.collections.iter().find(|(known, _)| *known == at) {
            return Ok(slices.clone());
        }
        let slices = self.meta.collection(at)?;
        self.collections.push((at, slices.clone()));
        Ok(slices)
    }

    pub(super) fn existing(&mut self, at: Collection) -> Result<Slices, Interrupt> {
        Ok(self.collection(at)?.ok_or(StoreError::NoCollection(at))?)
    }

    fn set_collection(&mut self, at: Collection, slices: Option<Slices>) {
        match &slices {
            Some(slices) => self.effects.put(keys::collection(at), slices.encode()),
            None => self.effects.delete(keys::collection(at)),
        }
        self.collections.retain(|(known, _)| *known != at);
        self.collections.push((at, slices));
    }

    fn create_collection(&mut self, at: Collection) -> Result<(), Interrupt> {
        if !at.is_valid() {
            return Err(Interrupt::Refused(StoreError::InvalidCollection(at)));
        }
        if self.collection(at)?.is_none() {
            let id = take_id(&mut self.counters.next_id);
            self.effects.needs_shards |= at.is_shard();
            self.set_collection(at, Some(Slices::Whole(id)));
        }
        Ok(())
    }

    fn remove_collection(&mut self, at: Collection) -> Result<(), Interrupt> {
        if let Some(slices) = self.collection(at)? {
            slices.iter().for_each(|slice| self.discard(slice));
            self.set_collection(at, None);
        }
        Ok(())
    }

    /// Marks the objects under these keys for removal.
    fn discard(&mut self, slice: Slice) {
        self.effects.put(keys::garbage(slice), Bytes::new());
        self.effects.garbage.push(slice);
    }

    /// Gives the source's slices to the target, and a new, empty one to the source. Touches no
    /// object.
    fn move_objects(
        &mut self,
        source: Collection,
        target: Collection,
        hashes: Hashes,
    ) -> Result<(), Interrupt> {
        let (from, to) = (self.existing(source)?, self.existing(target)?);
        if source == target {
            return Ok(());
        }
        let (first, last) = hashes.reversed();
        let moved = from.cut(first, last);
        to.cut(first, last).into_iter().for_each(|slice| self.discard(slice));
        let id = take_id(&mut self.counters.next_id);
        let emptied = from.replace(first, last, &[Slice { id, first, last }]);
        self.set_collection(source, Some(emptied));
        self.set_collection(target, Some(to.replace(first, last, &moved)));
        Ok(())
    }

    fn remove(&mut self, collection: u64, name: &HObject) -> Result<(), Interrupt> {
        let index = self.working.load(self.meta, collection, name)?;
        self.working.load_all_segments(self.meta, index)?;
        self.working.load_shared(self.meta, index)?;
        self.working.remove(&mut self.effects, index)
    }

    fn set_omap_header(&mut self, index: usize, header: &Bytes) {
        let id = self.with_omap(index);
        match header.is_empty() {
            true => self.effects.delete(keys::omap_header(id)),
            false => self.effects.put(keys::omap_header(id), detached(header)),
        }
    }

    fn set_omap(&mut self, index: usize, pairs: &BTreeMap<Bytes, Bytes>) {
        if pairs.is_empty() {
            return;
        }
        if let Some(id) = self.working.object(index).stored_omap() {
            let WorkingObject { collection, name, key, .. } = self.working.object(index);
            self.meta.remember_omap(*collection, name, key, id);
        }
        let id = self.with_omap(index);
        self.put_pairs(id, pairs);
    }

    fn put_pairs(&mut self, id: u64, pairs: &BTreeMap<Bytes, Bytes>) {
        for (key, value) in pairs {
            self.effects.put(keys::omap_point(id, key), detached(value));
        }
    }

    /// Id of the object, which may have an omap from now on.
    fn with_omap(&mut self, index: usize) -> u64 {
        match &self.working.object(index).onode {
            Some(onode) if onode.has_omap => onode.id,
            _ => {
                let onode = self.onode_mut(index);
                onode.has_omap = true;
                onode.id
            }
        }
    }

    /// Id of the object, if it may have an omap.
    fn omap_of(&mut self, index: usize) -> Option<u64> {
        let onode = self.working.object(index).onode.as_ref()?;
        onode.has_omap.then_some(onode.id)
    }

    fn remove_omap_keys(&mut self, index: usize, removed: &[Bytes]) {
        let Some(id) = self.omap_of(index) else { return };
        for key in removed {
            self.effects.delete(keys::omap_point(id, key));
        }
    }

    fn remove_omap_range(&mut self, index: usize, first: &Bytes, last: &Bytes) {
        if let Some(id) = self.omap_of(index) {
            self.delete_keys(id, first, last);
        }
    }

    fn delete_keys(&mut self, id: u64, first: &Bytes, last: &Bytes) {
        if first < last {
            self.effects.delete_range(keys::omap(id, first), keys::omap(id, last));
        }
    }

    fn clear_omap(&mut self, index: usize) {
        let Some(id) = self.omap_of(index) else { return };
        self.effects.clear_omap(id);
        self.onode_mut(index).has_omap = false;
    }

    fn clone_object(
        &mut self,
        source: (u64, &HObject),
        target: (u64, &HObject),
    ) -> Result<(), Interrupt> {
        if source == target {
            return Ok(());
        }
        let from = self.working.load(self.meta, source.0, source.1)?;
        let to = self.working.load(self.meta, target.0, target.1)?;
        for index in [from, to] {
            self.working.load_all_segments(self.meta, index)?;
            self.working.load_shared(self.meta, index)?;
        }
        self.working.remove(&mut self.effects, to)?;
        let Some(onode) = self.working.object(from).onode.as_ref() else { return Ok(()) };
        let (id, size, attrs, has_omap) =
            (onode.id, onode.size, onode.attrs.clone(), onode.has_omap);
        let copy = self.onode_mut(to);
        (copy.size, copy.attrs, copy.has_omap) = (size, attrs, has_omap);
        let copy_id = copy.id;
        self.share_data(from, to)?;
        if has_omap { self.copy_omap(id, copy_id) } else { Ok(()) }
    }

    fn copy_omap(&mut self, source: u64, target: u64) -> Result<(), Interrupt> {
        // Changes of this transaction take precedence over stored pairs.
        let mut own = Table::default();
        self.effects.record.ops.iter().for_each(|op| own.apply(op.clone()));
        self.clones += 1;
        let mut copy = match self.loaded.copy.take() {
            Some(copy) if copy.clone == self.clones => copy,
            _ => OmapCopy { clone: self.clones, source, ..Default::default() },
        };
        let outcome = self.read_omap(&own, &mut copy);
        let header = outcome.and_then(|()| {
            let page = self.meta.scan(
                Some(&own),
                Bound::Included(&keys::omap_header(source)),
                &keys::omap_header(source + 1),
                1,
                usize::MAX,
            )?;
            Ok(page.pairs.into_iter().next())
        });
        let header = match header {
            Ok(header) => header,
            Err(interrupt) => {
                self.loaded.copy = Some(copy);
                return Err(interrupt);
            }
        };
        if let Some((_, value)) = header {
            self.effects.put(keys::omap_header(target), detached(&value));
        }
        for (key, value) in copy.pairs {
            self.effects.put(keys::omap_point(target, &key), detached(&value));
        }
        Ok(())
    }

    fn read_omap(&mut self, own: &Table, copy: &mut OmapCopy) -> Result<(), Interrupt> {
        let range = keys::omap_range(copy.source);
        while !copy.is_complete {
            let last = copy.pairs.last().map(|(key, _)| keys::omap(copy.source, key));
            let from = match &last {
                Some(last) => Bound::Excluded(&last[..]),
                None => Bound::Included(&range.start[..]),
            };
            let page =
                self.meta.scan(Some(own), from, &range.end, OMAP_COPY_ENTRIES, OMAP_COPY_BYTES)?;
            copy.is_complete = !page.more;
            let within = |key: Bytes| key.slice(keys::OMAP_PREFIX_LEN..);
            copy.pairs.extend(page.pairs.into_iter().map(|(key, value)| (within(key), value)));
        }
        Ok(())
    }

    /// Allocates blocks for new data, in as few runs as possible.
    pub(super) fn allocate(
        &mut self,
        count: u64,
    ) -> Result<smallvec::SmallVec<[Extent; 4]>, Interrupt> {
        match self.space.allocate(count) {
            Some(extents) => {
                self.effects.record.taken.extend(extents.iter().copied());
                Ok(extents)
            }
            None => {
                let missing = count.saturating_sub(self.space.allocatable()).max(1);
                Err(Interrupt::NoSpace { missing })
            }
        }
    }
}

/// Refuses a change that makes an object larger than objects can be.
pub(super) fn check_end(change: &Change) -> Result<(), Interrupt> {
    let end = match change {
        Change::Write { offset, data, .. } => offset.saturating_add(data.len() as u64),
        Change::Truncate { size, .. } => *size,
        _ => return Ok(()),
    };
    let (what, limit) = ("an object", OBJECT_SIZE_MAX);
    match end > limit {
        true => Err(Interrupt::Refused(StoreError::TooLarge { what, size: end, limit })),
        false => Ok(()),
    }
}
