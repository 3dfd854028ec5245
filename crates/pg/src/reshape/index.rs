//! Dealing out the index of clones when a copy is divided.
//!
//! The index may be long. So it is read a page at a time, and what belongs to a part is put in place for it
//! before it gets its objects. The copy's own index loses those pairs with the objects, as long as that is
//! little work: what belongs to one snapshot and one part lies side by side. Pairs that stay do no harm.

use super::STEP_BYTES_MAX;
use crate::snaps::{INDEX_PREFIX, decode_index_key, index_range};
use crate::{Pg, State, Tag};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use store::{Change, Hashes, OmapPage, Outcome, RequestKind, StoreError, Transaction};
use types::{HObject, SnapId};

const PAGE_ENTRIES_MAX: usize = 512;
/// Ranges of the copy's own index that are removed with the objects.
const RANGES_MAX: usize = 256;

#[derive(Debug, Default)]
pub(super) struct Dealing {
    /// What parts will keep about themselves, and which objects are theirs.
    parts: Vec<(HObject, Hashes)>,
    after: Option<Bytes>,
    /// Whose clones were found.
    snaps: BTreeSet<SnapId>,
}

impl Dealing {
    pub fn add(&mut self, part: HObject, hashes: Hashes) {
        self.parts.push((part, hashes));
    }

    /// What of a page each part gets.
    fn deal(&mut self, page: &OmapPage) -> Vec<(HObject, BTreeMap<Bytes, Bytes>)> {
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

    /// From where to where the index is the parts' by now.
    fn ranges(&self) -> Vec<(Bytes, Bytes)> {
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

impl Pg {
    /// Asks for the next page, if there is one.
    pub(super) fn reads_index(&mut self) -> bool {
        let Some(dealing) = self.reshaping.as_ref().and_then(|reshaping| reshaping.index.as_ref())
        else {
            return false;
        };
        let kind = RequestKind::OmapList {
            collection: self.collection,
            object: self.meta.clone(),
            after: dealing.after.clone(),
            prefix: Bytes::from_static(&[INDEX_PREFIX]),
            entries_max: PAGE_ENTRIES_MAX,
            bytes_max: STEP_BYTES_MAX,
        };
        self.ask_store(Tag::Index, kind);
        true
    }

    /// A page has come; what of it is the parts' is stored next.
    pub(crate) fn index_read(&mut self, outcome: Result<Outcome, StoreError>) {
        let page = match outcome {
            Ok(Outcome::OmapPage(page)) => page,
            // Nothing was ever written.
            Err(StoreError::NoObject { .. }) => OmapPage::default(),
            Ok(other) => unreachable!("an omap page was answered by {other:?}"),
            Err(error) => return self.fail(&error),
        };
        let Some(reshaping) = self.reshaping.as_mut().filter(|_| self.state == State::Reshaping)
        else {
            return;
        };
        let Some(dealing) = &mut reshaping.index else { return };
        let mut step = Transaction::new();
        for (object, pairs) in dealing.deal(&page) {
            step.push(self.collection, Change::OmapSet { object, pairs });
        }
        if !page.more {
            let ranges = dealing.ranges();
            reshaping.index = None;
            for (first, last) in ranges {
                let object = self.meta.clone();
                let change = Change::OmapRemoveRange { object, first, last };
                reshaping
                    .steps
                    .back_mut()
                    .expect("the last step waits")
                    .push(self.collection, change);
            }
        }
        if !step.is_empty() {
            reshaping.steps.push_front(step);
        }
        self.take_step();
    }
}
