//! The OSD's map in its store.
//!
//! An OSD that starts must learn which members its groups had while it was down: writes may have
//! been accepted in any of these intervals. So it stores its map and continues from there with the
//! increments of the monitor. The map lies in a collection of its own, which belongs to no group: a
//! full map, and the increments since.
//!
//! A map is stored when the changes are durable that groups store because of it. So the stored state of
//! groups is never older than the stored map. A copy that cannot store the interval that a map began, because
//! its store has refused a transaction or failed, holds back this map and all later ones: it is told of them
//! again after a restart.

use super::features::{self, FEATURES_KEY};
use super::removed_snaps::RemovedSnaps;
use crate::outbox::Outbox;
use crate::tokens::Token;
use bytes::Bytes;
use maps::{Incremental, OsdMap};
use std::collections::{BTreeMap, BTreeSet};
use store::{Change, Collection, OmapPage, Outcome, RequestKind, StoreError, Transaction};
use types::features::SUPPORTED;
use types::{Epoch, HObject, OsdId, PgId, PgShard, PoolId};

/// The id of no real pool.
pub(crate) const OWN_POOL: PoolId = PoolId(-1);
const FULL_KEY: Bytes = Bytes::from_static(b"full");
/// Removed snapshots of pools, up to the full map.
const REMOVED_KEY: Bytes = Bytes::from_static(b"removed");
const INCREMENT_PREFIX: u8 = b'i';
const INCREMENT_PREFIX_END: u8 = INCREMENT_PREFIX + 1;
/// Increments beside one full map, beyond which a new full map is stored.
const INCREMENTS_MAX: usize = 64;
/// Beside the increments there are three other keys.
const PAGE_ENTRIES_MAX: usize = 2 * INCREMENTS_MAX;
const PAGE_BYTES_MAX: usize = 64 << 20;

/// State of the stored map.
#[derive(Debug, Default)]
pub(crate) struct StoredMaps {
    exists: bool,
    is_loading: bool,
    /// Increments beside the full map; `None` if a full map must be stored next.
    increments: Option<usize>,
    /// The increments since the map that was stored last.
    latest: Vec<(Epoch, Bytes)>,
    /// Copies whose interval is not durable yet. The map that the groups handled last is stored behind it.
    awaited: BTreeSet<PgShard>,
}

impl StoredMaps {
    /// Whether the stored map has not been read yet.
    pub fn is_loading(&self) -> bool {
        self.is_loading
    }

    /// The store refused a map: the next one is stored in full.
    pub fn store_failed(&mut self) {
        self.increments = None;
    }

    /// Says behind which copies' intervals the map that the groups handled last is to be stored; whether it
    /// may be stored now.
    pub fn wait_for(&mut self, copies: BTreeSet<PgShard>) -> bool {
        self.awaited = copies;
        self.awaited.is_empty()
    }

    /// Whether the map waits for this copy.
    pub fn waits_for(&self, pg: PgShard) -> bool {
        self.awaited.contains(&pg)
    }

    /// The interval of this copy is durable; whether the map may be stored now.
    pub fn note_interval(&mut self, pg: PgShard) -> bool {
        self.awaited.remove(&pg) && self.awaited.is_empty()
    }

    /// Stores the map, as increments since the last one if there are few.
    pub fn store(&mut self, map: &OsdMap, removed: &RemovedSnaps, out: &mut Outbox) {
        let (collection, object) = (collection(), object());
        let mut transaction = Transaction::new();
        if !std::mem::replace(&mut self.exists, true) {
            transaction.push(collection, Change::CreateCollection);
        }
        let latest = std::mem::take(&mut self.latest);
        let count = self.increments.map(|count| count + latest.len());
        let pairs = match count.filter(|count| !latest.is_empty() && *count <= INCREMENTS_MAX) {
            Some(count) => {
                self.increments = Some(count);
                latest.into_iter().map(|(epoch, map)| (increment_key(epoch), map)).collect()
            }
            None => {
                self.increments = Some(0);
                let first = Bytes::from_static(&[INCREMENT_PREFIX]);
                let last = Bytes::from_static(&[INCREMENT_PREFIX_END]);
                let object = object.clone();
                transaction.push(collection, Change::Touch { object: object.clone() });
                transaction.push(collection, Change::OmapRemoveRange { object, first, last });
                let full = map.to_bytes(SUPPORTED);
                BTreeMap::from([
                    (FULL_KEY, full),
                    (REMOVED_KEY, removed.to_bytes()),
                    (FEATURES_KEY, features::to_bytes()),
                ])
            }
        };
        transaction.push(collection, Change::OmapSet { object, pairs });
        out.ask(Token::MapStored, RequestKind::Commit(transaction));
    }

    /// Loads the stored map; loading of the OSD ends only after it.
    pub fn load(&mut self, out: &mut Outbox) {
        self.exists = true;
        self.is_loading = true;
        out.ask(Token::MapLoaded, stored_map_request());
    }

    /// Handles the loaded map, with the snapshots that were removed before. `None` if none is
    /// stored, or it does not decode: then the OSD starts without a map. Fails with the reason for which this
    /// version must not use the store, or cannot know whether it may.
    pub fn loaded(
        &mut self,
        whoami: OsdId,
        outcome: Result<Outcome, StoreError>,
    ) -> Result<Option<(OsdMap, RemovedSnaps)>, String> {
        self.is_loading = false;
        let page = match outcome {
            Ok(Outcome::OmapPage(page)) => page,
            Err(StoreError::NoObject { .. }) => return Ok(None),
            Err(error) => {
                return Err(format!("the features that the store needs cannot be read: {error}"));
            }
            Ok(other) => unreachable!("a page was requested, and {other:?} came"),
        };
        features::check(page.pairs.get(&FEATURES_KEY))?;
        let removed = page.pairs.get(&REMOVED_KEY);
        let mut removed = removed.map(RemovedSnaps::from_bytes).unwrap_or_default();
        match walk_stored_map(&page, |map| removed.note(map)) {
            Ok(map) => Ok(map.map(|map| (map, removed))),
            Err(error) => {
                tracing::error!(osd = %whoami, %error, "the stored map is damaged");
                Ok(None)
            }
        }
    }

    /// Notes an increment that was applied and led to `epoch`. The map before it is not stored any more.
    pub fn note(&mut self, epoch: Epoch, increment: Bytes) {
        self.awaited.clear();
        self.latest.push((epoch, increment));
        if self.latest.len() > INCREMENTS_MAX {
            self.note_replaced();
        }
    }

    /// The next map is stored in full.
    pub fn note_replaced(&mut self) {
        self.awaited.clear();
        self.latest.clear();
        self.increments = None;
    }
}

/// The collection that holds the map.
pub(crate) fn collection() -> Collection {
    Collection::replicated(PgId { pool: OWN_POOL, seed: 0 })
}

fn object() -> HObject {
    let name = Bytes::from_static(b"osdmap");
    HObject::head(OWN_POOL, Bytes::new(), Bytes::new(), name, 0)
}

fn increment_key(epoch: Epoch) -> Bytes {
    let mut key = vec![INCREMENT_PREFIX];
    key.extend_from_slice(&epoch.0.to_be_bytes());
    key.into()
}

/// The request that reads the map of an OSD from its store.
pub fn stored_map_request() -> RequestKind {
    RequestKind::OmapList {
        collection: collection(),
        object: object(),
        after: None,
        prefix: Bytes::new(),
        entries_max: PAGE_ENTRIES_MAX,
        bytes_max: PAGE_BYTES_MAX,
    }
}

/// The newest map in the answer to [`stored_map_request`]; `None` if there is none.
pub fn stored_map(page: &OmapPage) -> codec::Result<Option<OsdMap>> {
    walk_stored_map(page, |_| {})
}

/// Likewise; calls `look` with each map on the way.
fn walk_stored_map(
    page: &OmapPage,
    mut look: impl FnMut(&OsdMap),
) -> codec::Result<Option<OsdMap>> {
    let Some(full) = page.pairs.get(&FULL_KEY) else { return Ok(None) };
    let mut map = codec::decode_all::<OsdMap>("stored map", full)?;
    look(&map);
    let increments = page.pairs.iter().filter(|(key, _)| key[0] == INCREMENT_PREFIX);
    for (_, increment) in increments {
        let increment = codec::decode_all::<Incremental>("stored increment", increment);
        let Ok(increment) = increment.map_err(drop) else { break };
        if increment.epoch != map.epoch.next() || map.apply(&increment).is_err() {
            break;
        }
        look(&map);
    }
    Ok(Some(map))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A failed read is no proof that there are no features.
    #[test]
    fn a_store_whose_features_cannot_be_read_is_refused_and_one_without_a_map_is_not() {
        let object = HObject::default();
        let damage = StoreError::Corrupt { object: object.clone(), offset: 0, length: 0 };
        let reason = StoredMaps::default().loaded(OsdId(0), Err(damage)).unwrap_err();
        assert!(reason.contains("features"), "{reason}");
        let absent = StoreError::NoObject { collection: collection(), object };
        let absent = StoredMaps::default().loaded(OsdId(0), Err(absent));
        assert!(absent.is_ok_and(|stored| stored.is_none()));
    }
}
