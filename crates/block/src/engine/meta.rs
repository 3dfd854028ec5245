//! Current metadata: recent changes over the pairs of the tree.

use super::effects::Interrupt;
use super::empty_ranges::EmptyRanges;
use super::held_index::{CONTENTS_MAX, Held, HeldContent, HeldEntry, HeldIndex};
use crate::keys;
use crate::scan::{self, ScanPage, Walk};
use crate::slices::Slices;
use crate::space::CHUNK_BYTES;
use crate::table::{Lookup, Op, PointKey, Table};
use crate::tree::{
    self, Applied, Apply, ApplyError, Fault, Load, PageFlaw, PageSource, PagesBound, Root, Step,
    Tree, TreeSize,
};
use bytes::Bytes;
use smallvec::SmallVec;
use std::collections::{VecDeque, btree_map};
use std::ops::{Bound, Range};
use std::sync::Arc;
use stdx::FastMap;
use store::Collection;
use types::HObject;

/// Removed entries that one execution may pass.
pub(crate) const WALK_MAX: usize = 2048;

pub(crate) struct Meta {
    /// Changes since the last checkpoint began.
    active: Table,
    /// Changes that a running checkpoint takes into the tree.
    frozen: Option<Table>,
    tree: Tree,
    /// Lookups of collections since one was last created, changed or removed.
    collections: FastMap<Collection, Slices>,
    /// For each collection id, the object whose omap was changed last. A group keeps its log in one
    /// object: with this entry, a write need not look it up.
    omaps: FastMap<u64, KnownOmap>,
    /// Held changes by collection id, once they were looked up.
    held: FastMap<u64, HeldIndex>,
    /// Contents in `held`.
    held_contents: usize,
    /// Key ranges that scans found empty.
    empty_ranges: EmptyRanges,
    /// Entries that the execution in progress may still pass.
    walk_left: usize,
    /// Entries that scans passed without finding a pair.
    passed: u64,
    /// Changes that are in the log and not yet in the table, because a removed range covers many
    /// points.
    applying: VecDeque<Op>,
    /// Points and ranges of tables that the tree contains now; freed in pieces.
    retired: VecDeque<Retired>,
    /// Points that were removed from tables in pieces.
    points: u64,
}

enum Retired {
    Points(btree_map::IntoIter<PointKey, Option<Bytes>>),
    Ranges(btree_map::IntoIter<Bytes, Bytes>),
}

struct KnownOmap {
    name: HObject,
    key: PointKey,
    object: u64,
}

impl Meta {
    /// For a tree without objects of id `next_id` and above.
    pub fn new(tree: Tree, next_id: u64) -> Self {
        Meta {
            active: Table::above(next_id),
            frozen: None,
            tree,
            collections: FastMap::default(),
            omaps: FastMap::default(),
            held: FastMap::default(),
            held_contents: 0,
            empty_ranges: EmptyRanges::default(),
            walk_left: WALK_MAX,
            passed: 0,
            applying: VecDeque::new(),
            retired: VecDeque::new(),
            points: 0,
        }
    }

    /// Starts an execution, which is repeated as a whole if it is interrupted before [`Meta::end`].
    pub fn begin(&mut self) {
        self.walk_left = WALK_MAX;
        self.tree.begin();
    }

    /// Ends an execution. If it will be repeated, its pages stay in the cache.
    pub fn end<T>(&mut self, outcome: &Result<T, Interrupt>) {
        self.tree.end(matches!(outcome, Err(Interrupt::Pages(_) | Interrupt::Turn)));
    }

    /// First id that neither the tree nor a running checkpoint has.
    pub fn fresh_from(&self) -> Option<u64> {
        self.active.fresh_from
    }

    /// Value of a pair, from the newest layer that knows the key.
    pub fn get(&mut self, key: &PointKey) -> Result<Option<Bytes>, Fault> {
        let frozen = self.frozen.iter();
        for table in std::iter::once(&self.active).chain(frozen) {
            match table.get(key) {
                Lookup::Value(value) => return Ok(Some(value)),
                Lookup::Removed => return Ok(None),
                Lookup::Unknown => {}
            }
        }
        self.tree.get(key)
    }

    /// Pairs in key order, those of `newer` over all others.
    pub fn scan(
        &mut self,
        newer: Option<&Table>,
        from: Bound<&[u8]>,
        end: &[u8],
        entries_max: usize,
        bytes_max: usize,
    ) -> Result<ScanPage, Fault> {
        let layers: Vec<&Table> =
            newer.into_iter().chain(std::iter::once(&self.active)).chain(&self.frozen).collect();
        scan::scan(&layers, &mut self.tree, from, end, entries_max, bytes_max)
    }

    /// As [`Meta::scan`], with a bound on the removed entries that it passes. Beyond it, the next
    /// turn continues.
    pub fn search(
        &mut self,
        from: Bound<&[u8]>,
        end: &[u8],
        entries_max: usize,
        bytes_max: usize,
    ) -> Result<ScanPage, Interrupt> {
        let mut walk = Walk { left: self.walk_left, ..Walk::default() };
        let page = {
            let layers =
                [Some(self.empty_ranges.table()), Some(&self.active), self.frozen.as_ref()];
            let layers: SmallVec<[&Table; 3]> = layers.into_iter().flatten().collect();
            let tree = &mut self.tree;
            scan::scan_within(&layers, tree, from, end, entries_max, bytes_max, &mut walk)
        };
        self.walk_left = walk.left;
        self.passed += walk.passed;
        self.empty_ranges.learn(&mut walk);
        page?.ok_or(Interrupt::Turn)
    }

    /// Set if there is a pair in the range.
    pub fn has_any(&mut self, range: &Range<Bytes>) -> Result<bool, Interrupt> {
        let page = self.search(Bound::Included(&range.start), &range.end, 1, usize::MAX)?;
        Ok(!page.pairs.is_empty())
    }

    /// Applies changes. If some are left ([`Meta::is_applying`]), no lookup is allowed before
    /// [`Meta::work_on`] has applied all of them.
    pub fn apply(&mut self, ops: Vec<Op>, points_max: usize) {
        debug_assert!(self.applying.is_empty(), "changes take effect one after the other");
        let mut left = points_max;
        let mut ops = ops.into_iter();
        while let Some(op) = ops.next() {
            if let Some(rest) = self.apply_one(op, &mut left) {
                self.applying.push_back(rest);
                self.applying.extend(ops);
                break;
            }
        }
        self.points += (points_max - left) as u64;
    }

    /// Returns the rest of a change that would remove too many points.
    fn apply_one(&mut self, op: Op, left: &mut usize) -> Option<Op> {
        if op.key().first() == Some(&keys::COLLECTION) {
            self.collections.clear();
        }
        self.forget_omap(&op);
        self.follow_held(&op);
        match op {
            Op::DeleteRange { first, last } => {
                let done = self.active.delete_range_within(&first, &last, left);
                (!done).then_some(Op::DeleteRange { first, last })
            }
            op => {
                if let Op::Put { key, .. } = &op {
                    self.empty_ranges.put(key);
                }
                self.active.apply(op);
                None
            }
        }
    }

    /// Set while a large change is taken into the active table in pieces; no other may begin.
    pub fn is_applying(&self) -> bool {
        !self.applying.is_empty()
    }

    /// Set if work is left for [`Meta::work_on`].
    pub fn has_more(&self) -> bool {
        self.is_applying() || !self.retired.is_empty()
    }

    /// Removes at most `points_max` points from tables.
    pub fn work_on(&mut self, points_max: usize) {
        let mut left = points_max;
        while let Some(op) = self.applying.pop_front() {
            if let Some(rest) = self.apply_one(op, &mut left) {
                self.applying.push_front(rest);
                break;
            }
        }
        while left > 0
            && let Some(retired) = self.retired.front_mut()
        {
            let is_empty = match retired {
                Retired::Points(points) => points.next().is_none(),
                Retired::Ranges(ranges) => ranges.next().is_none(),
            };
            left -= 1;
            if is_empty {
                self.retired.pop_front();
            }
        }
        self.points += (points_max - left) as u64;
    }

    /// Root of the tree; `None` while it is empty.
    pub fn root(&self) -> Option<Root> {
        self.tree.root()
    }

    /// Upper bound of the pages for applying changes to the tree as it is.
    pub fn pages_bound(&self, load: &Load) -> PagesBound {
        tree::pages_bound(load, &TreeSize::of(self.root().as_ref()))
    }

    /// Load of the changes since the last checkpoint began.
    pub fn active_load(&self) -> Load {
        self.active.load
    }

    /// Load of the changes that a running checkpoint takes into the tree.
    pub fn frozen_load(&self) -> Option<Load> {
        self.frozen.as_ref().map(|table| table.load)
    }

    /// Upper bound of the load that a change adds.
    pub fn load_of(&self, op: &Op) -> Load {
        self.active.load_of_op(op)
    }

    /// Bytes of the changes since the last checkpoint began.
    pub fn active_bytes(&self) -> usize {
        self.active.bytes
    }

    /// Bytes of all changes in memory.
    pub fn changed_bytes(&self) -> usize {
        self.active.bytes + self.frozen.as_ref().map_or(0, |table| table.bytes)
    }

    /// Set if nothing has changed since the last checkpoint began.
    pub fn is_unchanged(&self) -> bool {
        self.active.is_empty()
    }

    /// Set from [`Meta::freeze`] to [`Meta::install`]: a checkpoint is running.
    pub fn is_frozen(&self) -> bool {
        self.frozen.is_some()
    }

    /// Applies a change from the log, before the store is open.
    pub fn replay(&mut self, op: Op) {
        self.active.apply(op);
    }

    /// Takes the changes out, to be returned by [`Meta::freeze`]. Ids from `next_id` on are unknown
    /// to them.
    pub fn take_changes(&mut self, next_id: u64) -> Table {
        assert!(self.applying.is_empty(), "changes must be complete");
        std::mem::replace(&mut self.active, Table::above(next_id))
    }

    /// Freezes changes for a checkpoint.
    pub fn freeze(&mut self, changes: Table) {
        assert!(self.frozen.is_none(), "the checkpoint before has not ended");
        self.frozen = Some(changes);
    }

    /// Adds a chunk of the bitmap of the space to the frozen changes, in whose load it was counted.
    pub fn freeze_chunk(&mut self, chunk: u32, bits: &[u8]) {
        let frozen = self.frozen.as_mut().expect("frozen while a checkpoint runs");
        frozen.load.subtract(chunk_load());
        match bits.iter().all(|byte| *byte == 0) {
            true => frozen.delete(&keys::bitmap(chunk)),
            false => frozen.put(&keys::bitmap(chunk), Bytes::copy_from_slice(bits)),
        }
    }

    /// Continues to apply the frozen changes to the tree.
    pub fn apply_frozen(
        &mut self,
        apply: &mut Apply,
        pages: &mut dyn PageSource,
        budget: usize,
    ) -> Result<Step, ApplyError> {
        let frozen = self.frozen.as_ref().expect("frozen while a checkpoint runs");
        apply.step(&mut self.tree, frozen, pages, budget)
    }

    /// Continues to apply a table of a transaction's own to the tree.
    pub fn apply_dry(
        &mut self,
        apply: &mut Apply,
        table: &Table,
        pages: &mut dyn PageSource,
    ) -> Result<Step, ApplyError> {
        apply.step(&mut self.tree, table, pages, usize::MAX)
    }

    /// Takes over the tree of a durable checkpoint, which contains the frozen changes.
    pub fn install(&mut self, applied: &Applied) {
        self.tree.install(applied.root);
        self.retire_frozen();
    }

    /// Supplies pages that were read.
    pub fn supply(&mut self, page: u64, bytes: Bytes) -> Result<(), PageFlaw> {
        self.tree.supply(page, bytes)
    }

    /// Notes that pages cannot be read, until [`Meta::forget_failures`].
    pub fn supply_failed(&mut self, page: u64, flaw: PageFlaw) {
        self.tree.supply_failed(page, flaw);
    }

    /// Set if a page counts as unreadable.
    pub fn has_failures(&self) -> bool {
        self.tree.has_failures()
    }

    /// Lets unreadable pages be read again.
    pub fn forget_failures(&mut self) {
        self.tree.forget_failures();
    }

    /// Drops a page from the cache that no tree refers to.
    pub fn forget_page(&mut self, page: u64) {
        self.tree.forget(page);
    }

    /// Panics if the active table contradicts itself.
    pub fn check_invariants(&self) {
        self.active.check_invariants();
    }

    /// Drops the frozen table, whose changes are in the tree now.
    fn retire_frozen(&mut self) {
        if let Some(Table { points, ranges, .. }) = self.frozen.take() {
            self.retired.push_back(Retired::Points(points.into_iter()));
            self.retired.push_back(Retired::Ranges(ranges.into_iter()));
        }
    }

    /// Entries passed by scans, and points removed from tables in pieces.
    pub fn counted(&self) -> (u64, u64) {
        (self.passed, self.points)
    }

    /// Id of an object that is known to have an omap.
    pub fn known_omap(&self, collection: u64, name: &HObject) -> Option<u64> {
        let known = self.omaps.get(&collection)?;
        (known.name == *name).then_some(known.object)
    }

    /// Notes that the stored onode says that the object may have an omap.
    pub fn remember_omap(&mut self, collection: u64, name: &HObject, key: &PointKey, object: u64) {
        let known = KnownOmap { name: name.clone(), key: key.clone(), object };
        self.omaps.insert(collection, known);
    }

    /// Drops the known omap if the change concerns its object.
    fn forget_omap(&mut self, op: &Op) {
        let Some(collection) = keys::collection_id(op.key()) else { return };
        let is_meant = |known: &KnownOmap| match op {
            Op::Put { key, .. } | Op::Delete { key } => known.key == *key,
            Op::DeleteRange { first, last } => {
                first[..] <= known.key[..] && known.key[..] < last[..]
            }
        };
        if self.omaps.get(&collection).is_some_and(is_meant) {
            self.omaps.remove(&collection);
        }
    }

    /// Held changes under a collection id, of all hashes.
    pub fn held(&mut self, collection: u64) -> Result<&HeldIndex, Interrupt> {
        if !self.held.contains_key(&collection) {
            let range = keys::held_range(collection);
            let from = Bound::Included(&range.start[..]);
            let page = self.search(from, &range.end, usize::MAX, usize::MAX)?;
            let names = page.pairs.iter().map(|(key, _)| {
                let (_, name, id) = keys::read_held(key)?;
                Ok((name, Held { id, content: None }))
            });
            let index = names.collect::<codec::Result<HeldIndex>>();
            self.held.insert(collection, index.map_err(Interrupt::decoding("held change key"))?);
        }
        Ok(&self.held[&collection])
    }

    /// Keeps the held changes that were looked up.
    fn follow_held(&mut self, op: &Op) {
        match op.key().first() {
            Some(&keys::HELD) => {}
            Some(&keys::GARBAGE) if matches!(op, Op::Delete { .. }) => return self.clear_held(),
            _ => return,
        }
        let Ok((collection, name, id)) = keys::read_held(op.key()) else {
            return self.clear_held();
        };
        let Some(index) = self.held.get_mut(&collection) else { return };
        let replaced = match op {
            Op::Put { .. } => index.insert(name, Held { id, content: None }),
            Op::Delete { .. } => index.remove(&name),
            Op::DeleteRange { .. } => return self.clear_held(),
        };
        self.held_contents -= usize::from(replaced.is_some_and(|held| held.content.is_some()));
    }

    fn clear_held(&mut self) {
        self.held.clear();
        self.held_contents = 0;
    }

    /// Keeps contents of changes that are held now, as many as the bound allows.
    pub fn keep_held(&mut self, contents: Vec<(HeldEntry, HeldContent)>) {
        for (entry, content) in contents {
            let index = self.held.get_mut(&entry.slice);
            let held = index.and_then(|index| index.get_mut(&entry.name));
            if let Some(held) = held.filter(|held| held.id == entry.id && held.content.is_none())
                && self.held_contents < CONTENTS_MAX
            {
                held.content = Some(Arc::new(content));
                self.held_contents += 1;
            }
        }
    }

    /// Content of a held change, if it is in memory.
    pub fn held_content(&self, entry: &HeldEntry) -> Option<Arc<HeldContent>> {
        let held = self.held.get(&entry.slice)?.get(&entry.name)?;
        held.content.clone().filter(|_| held.id == entry.id)
    }

    /// Slices of a collection; `None` if it does not exist.
    pub fn collection(&mut self, at: Collection) -> Result<Option<Slices>, Interrupt> {
        if let Some(slices) = self.collections.get(&at) {
            return Ok(Some(slices.clone()));
        }
        let Some(value) = self.get(&keys::collection(at).into())? else { return Ok(None) };
        let slices = Slices::decode(&value).map_err(Interrupt::decoding("collection"))?;
        self.collections.insert(at, slices.clone());
        Ok(Some(slices))
    }
}

/// Load of one chunk of the bitmap of the space, until [`Meta::freeze_chunk`] adds it to the changes.
pub(super) fn chunk_load() -> Load {
    Load::point(keys::BITMAP_LEN, Some(CHUNK_BYTES))
}
