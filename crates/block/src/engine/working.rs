//! Objects of a transaction: loaded on first use, written back at its end.

use super::effects::{Effects, Interrupt};
use super::failure::PairFault;
use super::meta::Meta;
use crate::device::Extent;
use crate::keys;
use crate::object::{ExtentSegment, Onode, Replaced, SEGMENT_BLOCKS, SharedExtents};
use crate::table::PointKey;
use bytes::Bytes;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::Bound;
use types::HObject;

/// Extent segments beyond this number are removed as a range, whose cost does not depend on their
/// number.
const SEGMENT_DELETES_MAX: usize = 2;
/// The same for objects that the tree does not have: their pairs leave nothing in memory, a range does.
const FRESH_DELETES_MAX: usize = 64;

/// Objects that are found by looking at each.
const LINEAR_MAX: usize = 16;

/// Stands for the collection in the place of a held change, which is no object.
const HELD: u64 = u64::MAX;

/// A part of the map from an object's blocks to the device's.
#[derive(Debug)]
pub(crate) struct WorkingSegment {
    /// Its runs and checksums, with the changes so far.
    pub segment: Box<ExtentSegment>,
    /// Set if it must be written back.
    pub changed: bool,
    /// Set if the tree has a pair for it.
    is_stored: bool,
}

#[derive(Debug)]
pub(crate) struct WorkingObject {
    /// Id under which the collection keeps the object.
    pub collection: u64,
    /// Full name of the object.
    pub name: HObject,
    /// Key of the onode.
    pub key: PointKey,
    /// The onode with the changes so far.
    pub onode: Option<Onode>,
    existed: bool,
    /// Set if the stored extent segments are pairs of their own.
    has_segment_pairs: bool,
    /// Set if the onode must be written back.
    pub changed: bool,
    /// Extent segments loaded so far, by index.
    pub segments: BTreeMap<u32, WorkingSegment>,
}

/// Reference counts of shared blocks that the transaction changes.
#[derive(Debug)]
struct WorkingShared {
    extents: SharedExtents,
    changed: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Working {
    /// Set if the caller removes the keys of removed objects as ranges, not one by one.
    pub removes_ranges: bool,
    /// The tree has no object with this id or a later one.
    fresh_from: Option<u64>,
    objects: Vec<WorkingObject>,
    /// Indices of objects by key, once they are too many to look at each.
    by_key: BTreeMap<PointKey, usize>,
    shared: BTreeMap<u64, WorkingShared>,
}

impl WorkingObject {
    fn new(collection: u64, name: HObject, key: PointKey, onode: Option<Onode>) -> Self {
        WorkingObject {
            collection,
            name,
            key,
            existed: onode.is_some(),
            has_segment_pairs: onode.as_ref().is_some_and(|onode| onode.inline.is_none()),
            onode,
            changed: false,
            segments: BTreeMap::new(),
        }
    }

    fn is_held(&self) -> bool {
        self.collection == HELD
    }

    /// Size in bytes; 0 if the object does not exist.
    pub fn size(&self) -> u64 {
        self.onode.as_ref().map_or(0, |onode| onode.size)
    }

    /// Id of the object's omap, if the onode is unchanged and says that there may be one.
    pub fn stored_omap(&self) -> Option<u64> {
        let onode = self.onode.as_ref()?;
        (onode.has_omap && self.existed && !self.changed).then_some(onode.id)
    }

    /// Creates the object if it does not exist.
    pub fn onode_mut(&mut self, next_id: &mut u64) -> &mut Onode {
        if self.onode.is_none() {
            self.onode = Some(Onode::new(take_id(next_id)));
        }
        self.changed = true;
        self.onode.as_mut().expect("made above")
    }

    /// A loaded extent segment, to be changed.
    pub fn segment_mut(&mut self, index: u32) -> &mut ExtentSegment {
        let fresh = || WorkingSegment { segment: Box::default(), changed: true, is_stored: false };
        let held = self.segments.entry(index).or_insert_with(fresh);
        held.changed = true;
        &mut held.segment
    }

    fn is_inline(&self) -> bool {
        Onode::fits_inline(self.size())
    }
}

pub(crate) fn take_id(next_id: &mut u64) -> u64 {
    let id = *next_id;
    *next_id += 1;
    id
}

/// Extent segments from `first` to `last` (inclusive) of an object that may be large and sparse.
fn stored_segments(
    meta: &mut Meta,
    id: u64,
    first: u32,
    last: u32,
) -> Result<Vec<(u32, Bytes)>, Interrupt> {
    let (from, end) = (keys::segment(id, first), keys::segment_end(id, last));
    let page = meta.search(Bound::Included(&from), &end, usize::MAX, usize::MAX)?;
    let number =
        |key: &[u8]| keys::read_segment(key).map_err(Interrupt::decoding("extent segment key"));
    page.pairs.into_iter().map(|(key, value)| Ok((number(&key)?.1, value))).collect()
}

/// Index of the extent segment that maps a block of an object, and the block's index in it.
pub(crate) fn segment_of(block: u64) -> (u32, u64) {
    ((block / SEGMENT_BLOCKS) as u32, block % SEGMENT_BLOCKS)
}

impl Working {
    /// No objects. `fresh_from` is [`Meta::fresh_from`].
    pub fn new(fresh_from: Option<u64>) -> Self {
        Working { fresh_from, ..Working::default() }
    }

    /// Loads an object and returns its index in the working set.
    pub fn load(
        &mut self,
        meta: &mut Meta,
        collection: u64,
        name: &HObject,
    ) -> Result<usize, Interrupt> {
        if let Some(index) = self.find(collection, name) {
            return Ok(index);
        }
        self.load_pair(meta, collection, name.clone(), keys::object_point(collection, name))
    }

    /// Loads a held change by its key and returns its index in the working set.
    pub fn load_held(&mut self, meta: &mut Meta, key: PointKey) -> Result<usize, Interrupt> {
        match self.find_key(&key) {
            Some(index) => Ok(index),
            None => self.load_pair(meta, HELD, HObject::default(), key),
        }
    }

    fn find_key(&self, key: &PointKey) -> Option<usize> {
        match self.objects.len() > LINEAR_MAX {
            true => self.by_key.get(key).copied(),
            false => self.objects.iter().position(|object| object.key == *key),
        }
    }

    fn push(&mut self, object: WorkingObject) -> usize {
        self.objects.push(object);
        let count = self.objects.len();
        if count > LINEAR_MAX {
            let first = if count == LINEAR_MAX + 1 { 0 } else { count - 1 };
            let keys = self.objects.iter().enumerate().skip(first);
            self.by_key.extend(keys.map(|(index, object)| (object.key.clone(), index)));
        }
        count - 1
    }

    /// Adds a new held change, whose data has this id.
    pub fn create_held(&mut self, key: PointKey, id: u64) -> usize {
        let mut object = WorkingObject::new(HELD, HObject::default(), key, None);
        object.onode = Some(Onode::new(id));
        object.changed = true;
        self.push(object)
    }

    fn load_pair(
        &mut self,
        meta: &mut Meta,
        collection: u64,
        name: HObject,
        key: PointKey,
    ) -> Result<usize, Interrupt> {
        let onode = match meta.get(&key)? {
            Some(value) => Some(Onode::decode(&value).map_err(Interrupt::decoding("onode"))?),
            None => None,
        };
        let mut object = WorkingObject::new(collection, name, key, onode);
        if let Some(segment) = object.onode.as_mut().and_then(|onode| onode.inline.take()) {
            let held = WorkingSegment { segment, changed: false, is_stored: false };
            object.segments.insert(0, held);
        }
        Ok(self.push(object))
    }

    /// Index of the object, if it was loaded.
    pub fn find(&self, collection: u64, name: &HObject) -> Option<usize> {
        if self.objects.len() > LINEAR_MAX {
            return self.by_key.get(&keys::object_point(collection, name)).copied();
        }
        let is_it =
            |object: &WorkingObject| object.collection == collection && object.name == *name;
        self.objects.iter().position(is_it)
    }

    /// The object at an index that [`Working::find`] or a load returned.
    pub fn object(&mut self, index: usize) -> &mut WorkingObject {
        &mut self.objects[index]
    }

    /// Loads the extent segments that map the blocks from `first` to `last` (inclusive).
    pub fn load_segments(
        &mut self,
        meta: &mut Meta,
        index: usize,
        first: u64,
        last: u64,
    ) -> Result<(), Interrupt> {
        let object = &mut self.objects[index];
        let Some(onode) = &object.onode else { return Ok(()) };
        if !object.has_segment_pairs {
            return Ok(());
        }
        let (first, last) = (segment_of(first).0, segment_of(last).0);
        let id = onode.id;
        let stored = match first == last {
            true => {
                let stored = meta.get(&keys::segment_point(id, first))?;
                stored.map(|value| (first, value)).into_iter().collect()
            }
            false => stored_segments(meta, id, first, last)?,
        };
        for (number, value) in stored {
            if let Entry::Vacant(vacant) = object.segments.entry(number) {
                let segment = ExtentSegment::decode(&value)
                    .map_err(Interrupt::decoding("extent segment"))?
                    .into();
                vacant.insert(WorkingSegment { segment, changed: false, is_stored: true });
            }
        }
        Ok(())
    }

    /// Loads all extent segments.
    pub fn load_all_segments(&mut self, meta: &mut Meta, index: usize) -> Result<(), Interrupt> {
        let blocks = self.objects[index].size().div_ceil(crate::device::BLOCK as u64);
        match blocks {
            0 => Ok(()),
            blocks => self.load_segments(meta, index, 0, blocks - 1),
        }
    }

    /// Loads the reference counts of shared blocks in the loaded extent segments.
    pub fn load_shared(&mut self, meta: &mut Meta, index: usize) -> Result<(), Interrupt> {
        let segments = self.objects[index].segments.values();
        let mut ids: Vec<u64> = segments.flat_map(|held| held.segment.shared_ids()).collect();
        ids.sort_unstable();
        ids.dedup();
        for id in ids {
            if self.shared.contains_key(&id) {
                continue;
            }
            let value = meta.get(&keys::shared(id).into())?;
            let value =
                value.ok_or_else(|| Interrupt::damaged(PairFault::NoSharedExtents { id }))?;
            let extents =
                SharedExtents::decode(&value).map_err(Interrupt::decoding("shared extents"))?;
            self.shared.insert(id, WorkingShared { extents, changed: false });
        }
        Ok(())
    }

    /// Releases blocks that the object does not refer to any more.
    pub fn release(&mut self, effects: &mut Effects, replaced: Replaced) -> Result<(), Interrupt> {
        if replaced.shared == 0 {
            effects.free(replaced.physical);
            return Ok(());
        }
        let shared = self.shared.get_mut(&replaced.shared);
        let shared = shared.expect("loaded with the extent segments that refer to it");
        shared.changed = true;
        let freed = shared.extents.reduce(replaced.physical).map_err(Interrupt::damaged)?;
        freed.into_iter().for_each(|extent| effects.free(extent));
        Ok(())
    }

    /// Adds a reference to blocks that are shared already.
    pub fn add_reference(&mut self, id: u64, extent: Extent) -> Result<(), Interrupt> {
        let shared =
            self.shared.get_mut(&id).expect("loaded with the extent segments that refer to it");
        shared.changed = true;
        shared.extents.add(extent).map_err(Interrupt::damaged)
    }

    /// Shares blocks that two objects refer to from now on.
    pub fn begin_sharing(
        &mut self,
        id: u64,
        extents: impl IntoIterator<Item = Extent>,
    ) -> Result<(), Interrupt> {
        let extents = SharedExtents::new(extents, 2).map_err(Interrupt::damaged)?;
        self.shared.insert(id, WorkingShared { extents, changed: true });
        Ok(())
    }

    /// Drops the object's data and removes its pairs from the tree; it may be created again.
    pub fn remove(&mut self, effects: &mut Effects, index: usize) -> Result<(), Interrupt> {
        for working in self.detach(effects, index).into_values() {
            for replaced in working.segment.extents() {
                self.release(effects, replaced)?;
            }
        }
        Ok(())
    }

    /// The same, but keeps the data, whose map it returns.
    pub fn detach(&mut self, effects: &mut Effects, index: usize) -> BTreeMap<u32, WorkingSegment> {
        let object = &mut self.objects[index];
        let Some(onode) = object.onode.take() else { return BTreeMap::new() };
        object.changed = true;
        object.has_segment_pairs = false;
        let segments = std::mem::take(&mut object.segments);
        let stored =
            || segments.iter().filter(|(_, held)| held.is_stored).map(|(number, _)| *number);
        let is_fresh = self.fresh_from.is_some_and(|from| onode.id >= from);
        let deletes_max = if is_fresh { FRESH_DELETES_MAX } else { SEGMENT_DELETES_MAX };
        if stored().count() > deletes_max {
            let range = keys::segment_range(onode.id, 0);
            effects.delete_range(range.start, range.end);
        } else {
            stored().for_each(|number| effects.delete(keys::segment_point(onode.id, number)));
        }
        if onode.has_omap {
            effects.clear_omap(onode.id);
        }
        segments
    }

    /// Writes all changes to `effects`.
    pub fn finish(self, effects: &mut Effects) {
        for object in self.objects {
            object.finish(effects, self.removes_ranges);
        }
        for (id, shared) in self.shared {
            match (shared.changed, shared.extents.is_empty()) {
                (false, _) => {}
                (true, false) => effects.put(keys::shared(id), shared.extents.encode()),
                (true, true) => effects.delete(keys::shared(id)),
            }
        }
    }
}

impl WorkingObject {
    fn finish(mut self, effects: &mut Effects, is_in_range: bool) {
        let is_inline = self.is_inline();
        let Some(mut onode) = self.onode.take() else {
            if self.existed {
                effects.objects -= i64::from(!self.is_held());
                if !is_in_range || self.is_held() {
                    effects.delete(self.key);
                }
            }
            return;
        };
        onode.inline = is_inline.then(Box::default);
        for (number, held) in std::mem::take(&mut self.segments) {
            let is_empty = held.segment.is_empty();
            if is_inline && number == 0 {
                self.changed |= held.changed || held.is_stored;
                if held.is_stored {
                    effects.delete(keys::segment_point(onode.id, 0));
                }
                onode.inline = Some(held.segment);
            } else if is_empty && held.is_stored {
                effects.delete(keys::segment_point(onode.id, number));
            } else if !is_empty && (held.changed || !held.is_stored) {
                effects.put(keys::segment_point(onode.id, number), held.segment.encode());
            }
        }
        if !self.existed && !self.is_held() {
            effects.objects += 1;
        }
        if self.changed {
            effects.put(self.key, onode.encode());
        }
    }
}
