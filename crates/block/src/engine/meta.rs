//! Metadata as of now: what changed lately over what the tree holds.

use super::effects::Interrupt;
use crate::keys;
use crate::scan::{self, ScanPage};
use crate::slices::Slices;
use crate::table::{Lookup, Op, PointKey, Table};
use crate::tree::{Fault, Tree};
use bytes::Bytes;
use std::ops::{Bound, Range};
use stdx::FastMap;
use store::Collection;
use types::HObject;

pub(crate) struct Meta {
    /// Changes since the last checkpoint began.
    pub active: Table,
    /// Changes that a running checkpoint takes into the tree.
    pub frozen: Option<Table>,
    pub tree: Tree,
    /// Collections that were looked up since one was made, changed or removed.
    collections: FastMap<Collection, Slices>,
    /// Of each id that objects are under, the object whose omap was changed last. A group keeps its
    /// log in one: with this, a write need not look for it.
    omaps: FastMap<u64, KnownOmap>,
}

struct KnownOmap {
    name: HObject,
    key: PointKey,
    object: u64,
}

impl Meta {
    /// The tree has no object with the id `next_id` or a later one.
    pub fn new(tree: Tree, next_id: u64) -> Self {
        Meta {
            active: Table::above(next_id),
            frozen: None,
            tree,
            collections: FastMap::default(),
            omaps: FastMap::default(),
        }
    }

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

    /// Whether there is any pair in the range.
    pub fn has_any(&mut self, range: &Range<Bytes>) -> Result<bool, Fault> {
        let page = self.scan(None, Bound::Included(&range.start), &range.end, 1, usize::MAX)?;
        Ok(!page.pairs.is_empty())
    }

    pub fn apply(&mut self, ops: Vec<Op>) {
        for op in ops {
            if op.key().first() == Some(&keys::COLLECTION) {
                self.collections.clear();
            }
            self.forget_omap(&op);
            self.active.apply(op);
        }
    }

    /// The id of an object that has an omap, if that is known.
    pub fn known_omap(&self, collection: u64, name: &HObject) -> Option<u64> {
        let known = self.omaps.get(&collection)?;
        (known.name == *name).then_some(known.object)
    }

    /// What is stored of this object says that it may have an omap.
    pub fn remember_omap(&mut self, collection: u64, name: &HObject, key: &PointKey, object: u64) {
        let known = KnownOmap { name: name.clone(), key: key.clone(), object };
        self.omaps.insert(collection, known);
    }

    /// If its object is not as it was.
    fn forget_omap(&mut self, op: &Op) {
        // Objects are removed one by one, never as a range.
        let (Op::Put { key, .. } | Op::Delete { key }) = op else { return };
        if let Some(collection) = keys::collection_id(key)
            && self.omaps.get(&collection).is_some_and(|known| known.key == *key)
        {
            self.omaps.remove(&collection);
        }
    }

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
