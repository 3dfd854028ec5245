//! The clone index in a split or merge.
//!
//! The index may be long. So it is read a page at a time, and the pairs of a part are stored for it before
//! it gets its objects. The copy's own index loses those pairs with the objects, as long as they are in few
//! ranges: the pairs of one snapshot and one part are adjacent. Superfluous pairs do no harm. Nor do pairs
//! whose objects come later, so a merged copy gets the pairs of the others before their objects.

use crate::snaps::{decode_index_key, index_range};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use store::{Collection, Hashes, OmapPage};
use types::{HObject, SnapId};

/// Ranges of the copy's own index that are removed with the objects; if there are more, all pairs stay.
const RANGES_MAX: usize = 256;

/// An index that is being split (`Dealt`) or merged (`Gathered`).
#[derive(Debug)]
pub(super) enum Index {
    Dealt(Dealing),
    Gathered(Gathering),
}

/// Meta objects of the copies that are merged into this one; the first one is read up to `after`.
#[derive(Debug)]
pub(super) struct Gathering {
    sources: VecDeque<(Collection, HObject)>,
    after: Option<Bytes>,
}

impl Gathering {
    /// `None` without sources.
    pub fn of(sources: VecDeque<(Collection, HObject)>) -> Option<Index> {
        (!sources.is_empty()).then_some(Index::Gathered(Gathering { sources, after: None }))
    }

    /// Advances past a page; whether there is more to read.
    pub fn advance(&mut self, page: &OmapPage) -> bool {
        self.after = page.pairs.last_key_value().map(|(key, _)| key.clone());
        if !page.more {
            self.sources.pop_front();
            self.after = None;
        }
        !self.sources.is_empty()
    }
}

/// The split of an index, read up to `after`.
#[derive(Debug, Default)]
pub(super) struct Dealing {
    /// The meta objects of the parts, and the hashes of their objects.
    parts: Vec<(HObject, Hashes)>,
    after: Option<Bytes>,
    /// The snapshots that have clones in the index.
    snaps: BTreeSet<SnapId>,
}

impl Dealing {
    /// Adds a part, with the hashes of its objects. Call before the first page.
    pub fn add(&mut self, part: HObject, hashes: Hashes) {
        self.parts.push((part, hashes));
    }

    /// The pairs of a page that each part gets.
    pub fn deal(&mut self, page: &OmapPage) -> Vec<(HObject, BTreeMap<Bytes, Bytes>)> {
        self.after = page.pairs.last_key_value().map(|(key, _)| key.clone());
        let mut dealt: Vec<_> =
            self.parts.iter().map(|(part, _)| (part.clone(), BTreeMap::new())).collect();
        for (key, value) in &page.pairs {
            let Some((snap, clone)) = decode_index_key(key) else { continue };
            self.snaps.insert(snap);
            if let Some(at) = self.parts.iter().position(|(_, hashes)| hashes.holds(&clone)) {
                dealt[at].1.insert(key.clone(), value.clone());
            }
        }
        dealt.retain(|(_, pairs)| !pairs.is_empty());
        dealt
    }

    /// The ranges of keys that belong to parts now; none if they are too many.
    pub fn ranges(&self) -> Vec<(Bytes, Bytes)> {
        if self.snaps.len() * self.parts.len() > RANGES_MAX {
            return Vec::new();
        }
        let of_snap = |snap: &SnapId| {
            let snap = *snap;
            let range =
                move |(part, hashes): &(HObject, Hashes)| index_range(snap, part.pool, *hashes);
            self.parts.iter().map(range)
        };
        self.snaps.iter().flat_map(of_snap).collect()
    }
}

impl Index {
    /// The collection and meta object to read next, and the key after which to read.
    pub fn next(
        &self,
        own: (Collection, &HObject),
    ) -> Option<(Collection, HObject, Option<Bytes>)> {
        match self {
            Index::Dealt(dealing) => Some((own.0, own.1.clone(), dealing.after.clone())),
            Index::Gathered(gathering) => {
                let (collection, object) = gathering.sources.front()?.clone();
                Some((collection, object, gathering.after.clone()))
            }
        }
    }
}
