//! The map as the disk knows it.
//!
//! An OSD that starts must learn which members its groups had while it was away: in any of those times
//! they may have been written to. So it keeps its map, and goes on from there with the increments that
//! the monitor has. The map lies in a collection of its own, which no group has: a whole one, and the
//! increments since.
//!
//! A map is stored after what the groups store because of it. So what the groups know reaches at least
//! as far as the stored map.

use crate::Osd;
use crate::storage::Pending;
use bytes::Bytes;
use engine::Time;
use maps::{Incremental, OsdMap};
use std::collections::BTreeMap;
use store::{Change, Collection, OmapPage, Outcome, RequestKind, StoreError, Transaction};
use types::features::SUPPORTED;
use types::{Epoch, HObject, PgId, PoolId};

/// No pool has this number.
const OWN_POOL: PoolId = PoolId(-1);
const FULL_KEY: Bytes = Bytes::from_static(b"full");
const INCREMENT_PREFIX: u8 = b'i';
const INCREMENT_PREFIX_END: u8 = INCREMENT_PREFIX + 1;
/// Increments beside one whole map.
const INCREMENTS_MAX: usize = 64;
const PAGE_ENTRIES_MAX: usize = 2 * INCREMENTS_MAX;
const PAGE_BYTES_MAX: usize = 64 << 20;

#[derive(Debug, Default)]
pub(crate) struct StoredMaps {
    exists: bool,
    pub is_loading: bool,
    /// Increments beside the whole map; `None` if that must be stored anew.
    increments: Option<usize>,
    /// The increment that made the present map, if one did.
    latest: Option<Bytes>,
}

impl StoredMaps {
    /// The map has become another by this increment, or without any.
    pub fn note(&mut self, increment: Option<Bytes>) {
        self.latest = increment;
    }

    /// The store did not take one: the next is stored as a whole.
    pub fn failed(&mut self) {
        self.increments = None;
    }
}

pub(crate) fn collection() -> Collection {
    Collection(PgId { pool: OWN_POOL, seed: 0 })
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

impl Osd {
    pub(crate) fn store_map(&mut self) {
        let (collection, object) = (collection(), object());
        let mut transaction = Transaction::new();
        if !std::mem::replace(&mut self.stored_maps.exists, true) {
            transaction.push(collection, Change::CreateCollection);
        }
        let stored = &mut self.stored_maps;
        let room = stored.increments.filter(|count| *count < INCREMENTS_MAX);
        let pair = match (stored.latest.take(), room) {
            (Some(increment), Some(count)) => {
                stored.increments = Some(count + 1);
                (increment_key(self.map.epoch), increment)
            }
            _ => {
                stored.increments = Some(0);
                let first = Bytes::from_static(&[INCREMENT_PREFIX]);
                let last = Bytes::from_static(&[INCREMENT_PREFIX_END]);
                let object = object.clone();
                transaction.push(collection, Change::Touch { object: object.clone() });
                transaction.push(collection, Change::OmapRemoveRange { object, first, last });
                (FULL_KEY, self.map.to_bytes(SUPPORTED))
            }
        };
        transaction.push(collection, Change::OmapSet { object, pairs: BTreeMap::from([pair]) });
        self.ask_store(Pending::MapStored, RequestKind::Commit(transaction));
    }

    pub(crate) fn load_map(&mut self) {
        self.stored_maps.exists = true;
        self.stored_maps.is_loading = true;
        let kind = RequestKind::OmapList {
            collection: collection(),
            object: object(),
            after: None,
            prefix: Bytes::new(),
            entries_max: PAGE_ENTRIES_MAX,
            bytes_max: PAGE_BYTES_MAX,
        };
        self.ask_store(Pending::MapLoaded, kind);
    }

    pub(crate) fn map_loaded(&mut self, now: Time, outcome: Result<Outcome, StoreError>) {
        match outcome {
            Ok(Outcome::OmapPage(page)) => self.take_stored_map(page),
            Err(StoreError::NoObject { .. }) => {}
            other => tracing::error!(osd = %self.config.id, ?other, "the map cannot be read"),
        }
        self.stored_maps.is_loading = false;
        self.finish_loading(now);
    }

    fn take_stored_map(&mut self, page: OmapPage) {
        let Some(full) = page.pairs.get(&FULL_KEY) else { return };
        let mut map = match codec::decode_all::<OsdMap>("stored map", full) {
            Ok(map) => map,
            Err(error) => {
                tracing::error!(osd = %self.config.id, %error, "the stored map is damaged");
                return;
            }
        };
        let increments = page.pairs.iter().filter(|(key, _)| key[0] == INCREMENT_PREFIX);
        for (_, increment) in increments {
            let increment = codec::decode_all::<Incremental>("stored increment", increment);
            let Ok(increment) = increment.map_err(drop) else { break };
            if increment.epoch != map.epoch.next() || map.apply(&increment).is_err() {
                break;
            }
        }
        self.map = map;
    }
}
