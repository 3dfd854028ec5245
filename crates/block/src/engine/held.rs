//! Held changes: stored beside the objects of a collection, and applied later.
//!
//! A held change is stored like an object: an onode, whose data are the blocks of all its writes one after
//! another, and whose only attribute lists the changes. Settling it moves the blocks into the objects' maps;
//! neither is data read or written, nor are blocks allocated. The key has the slice's id and the hash, so
//! splits and merges move held changes with their objects, without touching them.
//!
//! Most changes are short, and settled by one of the next transactions: what was encoded then is kept in
//! memory, so that it is neither looked up nor decoded. The stored pair counts after a restart.
//!
//! A clone needs space in the tree for the map of the copy. Its held change has that space already, as a
//! filler behind the list, and returns it when it is settled.

use super::effects::Interrupt;
use super::execute::{Executor, check_end};
use super::failure::PairFault;
use super::held_index::{
    BlocksLeft, CONTENT_BYTES_MAX, HeldBlocks, HeldContent, HeldEdit, HeldEntry, Taken,
};
use super::meta::Meta;
use super::working::take_id;
use crate::device::{BLOCK, Extent};
use crate::keys;
use crate::object::{ExtentSegment, HeldFields, Onode, SEGMENT_BLOCKS, SEGMENT_SIZE};
use crate::slices::{Slice, Slices};
use crate::table::PointKey;
use crate::tree::{Fault, PageRead};
use bytes::Bytes;
use std::cell::Cell;
use std::ops::Bound;
use store::{
    Change, Collection, HELD_MAX, HELD_UNIT, HeldChange, HoldFault, SettledSizes, StoreError,
    VERSION_MAX, check_held,
};
use types::EVersion;

/// Held changes whose pages are read at once.
const AHEAD_MAX: usize = 256;
/// Changes of the transaction among which the newest held one is looked for one by one.
const EDITS_MAX: usize = 128;
/// Extent segments of one object that are read ahead.
const SEGMENTS_AHEAD_MAX: u64 = 64;
/// Bytes of the tree for each block of a cloned object, at most: in the extent segment of the copy, in that
/// of the source, which gets shared ids, and in the counts of references.
const CLONED_BLOCK_BYTES: u64 = 31;
/// Bytes of the tree for each extent segment of a cloned object besides those of its blocks.
const CLONED_SEGMENT_BYTES: u64 = 100;
/// Bound of a filler in bytes, which is that of a clone of 512 MiB or so. Beyond it the pages may be lacking
/// on a full device, and the settle is refused until some are free.
const FILLER_MAX: u64 = 4 << 20;
const _: () = assert!(HELD_UNIT == BLOCK as u64, "blocks move as a whole");

impl Meta {
    /// Held changes within a slice and a range of versions.
    pub fn held_within(
        &mut self,
        slice: Slice,
        from: EVersion,
        through: EVersion,
    ) -> Result<impl Iterator<Item = HeldEntry>, Interrupt> {
        let names = (Bound::Included(first_of(from)), Bound::Included(last_of(through)));
        // An empty range must not start behind its end.
        let index = (from <= through).then_some(self.held(slice.id)?);
        let held = index.into_iter().flat_map(move |index| index.range(names));
        let held =
            held.map(move |(name, held)| HeldEntry { slice: slice.id, name: *name, id: held.id });
        Ok(held.filter(move |held| slice.contains(held.name.reversed_hash())))
    }

    /// Held changes of a collection in order.
    pub fn held_of(&mut self, slices: &Slices) -> Result<Vec<HeldEntry>, Interrupt> {
        self.held_between(slices, EVersion::ZERO, VERSION_MAX)
    }

    fn held_between(
        &mut self,
        slices: &Slices,
        from: EVersion,
        through: EVersion,
    ) -> Result<Vec<HeldEntry>, Interrupt> {
        let mut found = Vec::new();
        for slice in slices.iter() {
            found.extend(self.held_within(slice, from, through)?);
        }
        found.sort_unstable_by_key(|held| held.name);
        Ok(found)
    }
}

fn first_of(version: EVersion) -> HeldChange {
    HeldChange::of_reversed(version, 0)
}

fn last_of(version: EVersion) -> HeldChange {
    HeldChange::of_reversed(version, u32::MAX)
}

impl Executor<'_> {
    pub(super) fn hold(
        &mut self,
        at: Collection,
        version: EVersion,
        changes: &[Change],
    ) -> Result<(), Interrupt> {
        let slices = self.existing(at)?;
        let refusal = |fault| StoreError::CannotHold { collection: at, version, fault };
        let hash = check_held(changes).map_err(refusal)?;
        changes.iter().try_for_each(check_end)?;
        let name = HeldChange { version, hash };
        let (count, newest) = self.newest_held(&slices)?;
        if let Some(newest) = newest.filter(|newest| name <= *newest) {
            return Err(refusal(HoldFault::Order { newest: newest.version }).into());
        }
        if count >= HELD_MAX {
            return Err(refusal(HoldFault::TooMany).into());
        }
        let filler = self.cloned_bytes(&slices, hash, changes)?;
        let slice = slices.slice_of(name.reversed_hash()).id;
        let entry = HeldEntry { slice, name, id: take_id(&mut self.counters.next_id) };
        self.effects.needs_shards = true;
        self.store_held(entry, changes, filler)?;
        self.held.push(HeldEdit { entry, is_added: true });
        Ok(())
    }

    fn store_held(
        &mut self,
        entry: HeldEntry,
        changes: &[Change],
        filler: u64,
    ) -> Result<(), Interrupt> {
        let index = self.working.create_held(entry.key(), entry.id);
        let mut offset = 0;
        for change in changes {
            if let Change::Write { data, .. } = change {
                self.write(index, offset, data)?;
                offset += data.len() as u64;
            }
        }
        let fields = HeldFields { filler, ..HeldFields::of(changes) };
        let list = fields.encode();
        self.keep_content(entry, index, fields, list.len());
        self.onode_mut(index).attrs.insert(Bytes::new(), list);
        Ok(())
    }

    /// Keeps the content of a new held change for the transaction that settles it.
    fn keep_content(&mut self, entry: HeldEntry, index: usize, fields: HeldFields, length: usize) {
        let mut blocks = HeldBlocks::default();
        let object = self.working.object(index);
        // Segments of longer data are pairs of their own, which settling removes.
        let is_short = Onode::fits_inline(object.size()) && length <= CONTENT_BYTES_MAX;
        if is_short && object.segments.values().all(|working| blocks.add(&working.segment)) {
            self.effects.held.push((entry, HeldContent { fields, blocks }));
        }
    }

    /// Number of held changes, and the newest one.
    fn newest_held(&mut self, slices: &Slices) -> Result<(usize, Option<HeldChange>), Interrupt> {
        if let Slices::Whole(id) = slices
            && self.held.len() <= EDITS_MAX
        {
            return self.newest_held_of(*id);
        }
        if !self.held.is_empty() {
            let all = self.held_between(slices, EVersion::ZERO, VERSION_MAX)?;
            return Ok((all.len(), all.last().map(|held| held.name)));
        }
        let (mut count, mut newest) = (0, None);
        for slice in slices.iter() {
            for held in self.meta.held_within(slice, EVersion::ZERO, VERSION_MAX)? {
                count += 1;
                newest = newest.max(Some(held.name));
            }
        }
        Ok((count, newest))
    }

    /// The same of all changes under an id.
    fn newest_held_of(&mut self, id: u64) -> Result<(usize, Option<HeldChange>), Interrupt> {
        let index = self.meta.held(id)?;
        let edits = || self.held.iter().filter(|edit| edit.entry.slice == id);
        let is_left = |name: &&HeldChange| {
            let last = edits().rev().find(|edit| edit.entry.name == **name);
            last.is_none_or(|edit| edit.is_added)
        };
        let added = edits().filter(|edit| edit.is_added);
        let count =
            index.len() + added.clone().count() - edits().filter(|edit| !edit.is_added).count();
        if count == 0 {
            return Ok((0, None));
        }
        let newest_added = added.map(|edit| &edit.entry.name).filter(is_left).max();
        Ok((count, index.keys().rev().find(is_left).max(newest_added).copied()))
    }

    /// Bytes that the clones among changes of one hash will add to the tree when they are settled, at most.
    fn cloned_bytes(
        &mut self,
        slices: &Slices,
        hash: u32,
        changes: &[Change],
    ) -> Result<u64, Interrupt> {
        if !changes.iter().any(|change| matches!(change, Change::Clone { .. })) {
            return Ok(0);
        }
        let before = self.held_between(slices, EVersion::ZERO, VERSION_MAX)?;
        let before = before.into_iter().filter(|held| held.name.hash == hash);
        let mut lists = Vec::new();
        for entry in before {
            let index = self.working.load_held(self.meta, entry.key())?;
            lists.push(self.held_fields(index, entry.id)?);
        }
        let attrs_max = Cell::new(0);
        let mut sizes = SettledSizes::new(|object| {
            let index = self.working.load(self.meta, slices.id_of(object), object)?;
            let Some(onode) = &self.working.object(index).onode else { return Ok(0) };
            let attrs = onode.attrs.iter().map(|(name, value)| name.len() + value.len());
            attrs_max.set(attrs_max.get().max(attrs.sum::<usize>() as u64));
            Ok::<u64, Interrupt>(onode.size)
        });
        let (mut bytes, mut clones, mut held_attrs) = (0, 0, 0);
        for fields in &lists {
            for (change, length) in fields.with_lengths() {
                sizes.follow(change, length)?;
                held_attrs += attrs_len(change);
            }
        }
        for change in changes {
            held_attrs += attrs_len(change);
            let Some(size) = sizes.follow(change, change.data_len())? else { continue };
            let blocks = size.div_ceil(BLOCK as u64);
            bytes += blocks * CLONED_BLOCK_BYTES
                + blocks.div_ceil(SEGMENT_BLOCKS) * CLONED_SEGMENT_BYTES;
            clones += 1;
        }
        Ok((bytes + clones * (attrs_max.get() + held_attrs)).min(FILLER_MAX))
    }

    /// The list of a loaded held change.
    fn held_fields(&mut self, index: usize, id: u64) -> Result<HeldFields, Interrupt> {
        let damaged = || Interrupt::damaged(PairFault::Held { id });
        let onode = self.working.object(index).onode.as_ref().ok_or_else(damaged)?;
        let list = onode.attrs.get(&Bytes::new()).ok_or_else(damaged)?;
        HeldFields::decode(list).map_err(Interrupt::decoding("held changes"))
    }

    /// As [`Meta::held_between`], with the changes of this transaction.
    fn held_between(
        &mut self,
        slices: &Slices,
        from: EVersion,
        through: EVersion,
    ) -> Result<Vec<HeldEntry>, Interrupt> {
        let mut found = self.meta.held_between(slices, from, through)?;
        for HeldEdit { entry, is_added } in &self.held {
            let is_own = slices.slice_of(entry.name.reversed_hash()).id == entry.slice;
            if *is_added && is_own && (from..=through).contains(&entry.name.version) {
                found.push(*entry);
            } else {
                found.retain(|held| held != entry);
            }
        }
        found.sort_unstable_by_key(|held| held.name);
        Ok(found)
    }

    pub(super) fn settle(&mut self, at: Collection, through: EVersion) -> Result<(), Interrupt> {
        let slices = self.existing(at)?;
        let all = self.held_between(&slices, EVersion::ZERO, through)?;
        for (index, entry) in all.iter().enumerate() {
            match self.settle_one(at, &slices, *entry) {
                Err(Interrupt::Pages(mut pages)) => {
                    self.add_pages_ahead(&slices, &all[index..], &mut pages);
                    return Err(Interrupt::Pages(pages));
                }
                settled => settled?,
            }
        }
        Ok(())
    }

    /// Adds pages that settling the next held changes needs, so that few attempts are interrupted.
    fn add_pages_ahead(&mut self, slices: &Slices, next: &[HeldEntry], pages: &mut Vec<PageRead>) {
        for entry in next.iter().take(AHEAD_MAX) {
            let Some(value) = self.look_ahead(&entry.key(), pages) else { continue };
            let Ok(onode) = Onode::decode(&value) else { continue };
            self.segments_ahead(&onode, 0, u64::MAX, pages);
            let fields = onode.attrs.get(&Bytes::new()).map(|list| HeldFields::decode(list));
            let Some(Ok(fields)) = fields else { continue };
            for (change, length) in fields.with_lengths() {
                self.object_ahead(slices, change, length, pages);
            }
        }
    }

    /// Looks ahead for the pairs of an object that a settled change needs.
    fn object_ahead(
        &mut self,
        slices: &Slices,
        change: &Change,
        length: u64,
        pages: &mut Vec<PageRead>,
    ) {
        let source = match change {
            Change::Clone { object, .. } => Some(object),
            _ => None,
        };
        for object in change.object().into_iter().chain(source) {
            let key = keys::object_point(slices.id_of(object), object);
            let Some(value) = self.look_ahead(&key, pages) else { continue };
            let Ok(onode) = Onode::decode(&value) else { continue };
            let (offset, length) = match change {
                Change::Write { offset, .. } => (*offset, length),
                Change::Zero { offset, length, .. } => (*offset, *length),
                Change::Remove { .. } | Change::Truncate { .. } | Change::Clone { .. } => {
                    (0, u64::MAX)
                }
                _ => continue,
            };
            self.segments_ahead(&onode, offset, length, pages);
        }
    }

    /// Looks ahead for extent segments of a range of an object, and for the references that they share.
    fn segments_ahead(
        &mut self,
        onode: &Onode,
        offset: u64,
        length: u64,
        pages: &mut Vec<PageRead>,
    ) {
        let end = offset.saturating_add(length).min(onode.size);
        if onode.inline.is_some() || offset >= end {
            return;
        }
        let (first, end) = (offset / SEGMENT_SIZE, end.div_ceil(SEGMENT_SIZE));
        for number in first..end.min(first + SEGMENTS_AHEAD_MAX) {
            let key = keys::segment_point(onode.id, number as u32);
            let Some(value) = self.look_ahead(&key, pages) else { continue };
            let Ok(segment) = ExtentSegment::decode(&value) else { continue };
            for id in segment.shared_ids() {
                self.look_ahead(&keys::shared(id).into(), pages);
            }
        }
    }

    /// A pair, or else the pages that it needs are added.
    fn look_ahead(&mut self, key: &PointKey, pages: &mut Vec<PageRead>) -> Option<Bytes> {
        match self.meta.get(key) {
            Ok(value) => value,
            Err(Fault::Missing(more)) => {
                pages.extend(more);
                None
            }
            Err(_) => None,
        }
    }

    fn settle_one(
        &mut self,
        at: Collection,
        slices: &Slices,
        entry: HeldEntry,
    ) -> Result<(), Interrupt> {
        if let Some(content) = self.meta.held_content(&entry) {
            self.effects.delete(entry.key());
            self.settle_changes(at, slices, entry, &content)?;
        } else {
            let content = self.take_content(entry)?;
            self.settle_changes(at, slices, entry, &content)?;
        }
        self.held.push(HeldEdit { entry, is_added: false });
        Ok(())
    }

    /// Removes a held change from the pairs.
    fn take_content(&mut self, entry: HeldEntry) -> Result<HeldContent, Interrupt> {
        let index = self.load_held(entry)?;
        let damaged = || Interrupt::damaged(PairFault::Held { id: entry.id });
        let fields = self.held_fields(index, entry.id)?;
        check_held(&fields.changes).map_err(|_| damaged())?;
        let mut blocks = HeldBlocks::default();
        let segments = self.working.detach(&mut self.effects, index);
        match segments.values().all(|working| blocks.add(&working.segment)) {
            true => Ok(HeldContent { fields, blocks }),
            false => Err(damaged()),
        }
    }

    fn settle_changes(
        &mut self,
        at: Collection,
        slices: &Slices,
        entry: HeldEntry,
        content: &HeldContent,
    ) -> Result<(), Interrupt> {
        let damaged = || Interrupt::damaged(PairFault::Held { id: entry.id });
        let mut left: BlocksLeft<'_> = content.blocks.take();
        for (change, length) in content.fields.with_lengths() {
            let object = change.object().ok_or_else(damaged)?;
            let target = self.working.load(self.meta, slices.id_of(object), object)?;
            let is_there = self.working.object(target).onode.is_some();
            let has_effect = is_there || change.settles_absent();
            if let Change::Write { offset, .. } = change {
                let blocks = left.next((length / BLOCK as u64) as u32).ok_or_else(damaged)?;
                match has_effect {
                    true => self.adopt(target, offset / BLOCK as u64, &blocks)?,
                    false => self.free_blocks(&blocks),
                }
            } else if has_effect {
                self.apply(at, change)?;
            }
        }
        if left.is_empty() { Ok(()) } else { Err(damaged()) }
    }

    fn free_blocks(&mut self, blocks: &Taken<'_>) {
        for (place, crcs) in blocks {
            self.effects.free(Extent::new(*place, crcs.len() as u64));
        }
    }

    /// Maps blocks of an object to those of held data.
    fn adopt(&mut self, index: usize, first: u64, blocks: &Taken<'_>) -> Result<(), Interrupt> {
        let count: u64 = blocks.iter().map(|(_, crcs)| crcs.len() as u64).sum();
        self.onode_mut(index);
        if count == 0 {
            return Ok(());
        }
        self.load_for_change(index, first, first + count - 1)?;
        let mut block = first;
        for (place, crcs) in blocks {
            self.map(index, block, *place, crcs)?;
            block += crcs.len() as u64;
        }
        let onode = self.onode_mut(index);
        onode.size = onode.size.max(block * BLOCK as u64);
        Ok(())
    }

    pub(super) fn drop_held(
        &mut self,
        at: Collection,
        from: EVersion,
        through: EVersion,
    ) -> Result<(), Interrupt> {
        let slices = self.existing(at)?;
        for entry in self.held_between(&slices, from, through)? {
            self.drop_one(entry)?;
        }
        Ok(())
    }

    /// Removes at most `entries_max` held changes of a removed slice; false if there are none.
    pub(super) fn clean_up_held(
        &mut self,
        slice: Slice,
        entries_max: usize,
    ) -> Result<bool, Interrupt> {
        let held = self.meta.held_within(slice, EVersion::ZERO, VERSION_MAX)?;
        let held: Vec<HeldEntry> = held.take(entries_max).collect();
        for entry in &held {
            self.drop_one(*entry)?;
            if self.is_enough_cleaned() {
                break;
            }
        }
        Ok(!held.is_empty())
    }

    fn drop_one(&mut self, entry: HeldEntry) -> Result<(), Interrupt> {
        let index = self.load_held(entry)?;
        self.held.push(HeldEdit { entry, is_added: false });
        self.working.remove(&mut self.effects, index)
    }

    /// Loads a held change with its data's map.
    fn load_held(&mut self, entry: HeldEntry) -> Result<usize, Interrupt> {
        let index = self.working.load_held(self.meta, entry.key())?;
        self.working.load_all_segments(self.meta, index)?;
        Ok(index)
    }
}

/// Bytes of attributes that a change sets.
fn attrs_len(change: &Change) -> u64 {
    match change {
        Change::SetAttrs { attrs, .. } => {
            attrs.iter().map(|(name, value)| (name.len() + value.len()) as u64).sum()
        }
        _ => 0,
    }
}
