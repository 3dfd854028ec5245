//! Loading of info, log and missing set from the store.

use crate::core::persist::StoredIntervals;
use crate::missing::Item;
use crate::role::{Loading, Role};
use crate::scrub::{STAMPS_KEY, Stamps};
use crate::snaps::is_index_key;
use crate::{DupBatch, LogEntry, Pg, PgInfo, PgLog, State, Tag, info};
use bytes::Bytes;
use store::{Outcome, RequestKind, StoreError};
use types::{Epoch, OsdId, PgId};

const PAGE_ENTRIES_MAX: usize = 512;
const PAGE_BYTES_MAX: usize = 1 << 20;

impl Pg {
    /// The copy in an existing collection. Ready when [`Pg::is_loaded`]; maps may be passed before.
    pub fn load(id: PgId, whoami: OsdId) -> Self {
        let mut pg = Pg::new(id, whoami);
        pg.core.copy.created = true;
        pg.role = Role::Loading(Loading::default());
        pg.load_page(None);
        pg
    }

    pub fn is_loaded(&self) -> bool {
        self.state() != State::Loading
    }

    /// Requests the page of pairs after a key.
    pub(crate) fn load_page(&mut self, after: Option<Bytes>) {
        let kind = RequestKind::OmapList {
            collection: self.core.own.collection,
            object: self.core.own.meta.clone(),
            after,
            prefix: Bytes::new(),
            entries_max: PAGE_ENTRIES_MAX,
            bytes_max: PAGE_BYTES_MAX,
        };
        self.core.ask_store(Tag::Load, kind);
    }

    /// Takes a page of pairs.
    pub(crate) fn loaded(&mut self, outcome: Result<Outcome, StoreError>) {
        if self.state() != State::Loading {
            return; // removed meanwhile
        }
        let page = match outcome {
            Ok(Outcome::OmapPage(page)) => page,
            // The collection was created, and nothing else.
            Err(StoreError::NoObject { .. }) => Default::default(),
            // The creation of the collection was refused.
            Err(StoreError::NoCollection(_)) => {
                self.core.copy.created = false;
                Default::default()
            }
            Ok(other) => unreachable!("an omap page was answered by {other:?}"),
            Err(error) => return self.fail(&error),
        };
        let last = page.pairs.last_key_value().map(|(key, _)| key.clone());
        for (key, value) in page.pairs {
            if let Err(error) = self.load_pair(&key, &value) {
                tracing::error!(pg = %self.core.own.id, %error, "the stored log is damaged");
                self.role = Role::Failed { asked_by: None };
                return;
            }
        }
        // The clone index, which is last, may be very long, and is not loaded.
        let is_index = last.as_ref().is_some_and(|last| is_index_key(last));
        match page.more && !is_index {
            true => self.load_page(last),
            false => self.finish_load(),
        }
    }

    /// Loads one pair. The info sorts before log and dups.
    fn load_pair(&mut self, key: &Bytes, value: &Bytes) -> codec::Result<()> {
        if *key == info::INFO_KEY {
            self.core.copy.info = codec::decode_all::<PgInfo>("group info", value)?;
            self.core.copy.log = PgLog::new(self.core.copy.info.log_tail, []);
        } else if *key == info::INTERVALS_KEY {
            let stored: StoredIntervals = codec::decode_all("intervals", value)?;
            // A copy that is reloaded has seen later maps.
            if self.core.placement.interval == Epoch(0) {
                self.core.copy.past = stored.past;
                (self.core.placement.interval, self.core.placement.members) =
                    (stored.first, stored.members);
            }
            self.core.copy.knows_past = true;
        } else if let Some(through) = info::decode_dups_key(key) {
            let (batch, dups) = DupBatch::decode(through, value)?;
            // Batches above the head are left from an interrupted merge or reset, and will be stored again.
            // Batches above the tail are valid: a log that was extended at its tail overlaps them.
            if through <= self.core.copy.info.last_update {
                self.core.copy.log.dups_mut().push(batch, &dups);
            }
        } else if info::is_log_key(key) {
            self.load_entry(codec::decode_all("log entry", value)?);
        } else if *key == STAMPS_KEY {
            // Damaged stamps do not fail the group.
            let stamps = codec::decode_all::<Stamps>("scrub stamps", value);
            self.core.copy.scrub_order =
                self.core.copy.scrub_order.or(stamps.ok().and_then(|stamps| stamps.order));
        } else if let Some(object) = info::decode_missing_key(key)? {
            let item: Item = codec::decode_all("missing item", value)?;
            self.core.copy.missing.add(object, item);
        }
        Ok(())
    }

    fn load_entry(&mut self, entry: LogEntry) {
        if entry.version > self.core.copy.info.log_tail {
            self.core.copy.log.push(entry);
        }
    }

    fn finish_load(&mut self) {
        self.core.update_last_complete();
        self.core.copy.committed = self.core.copy.info.log_tail;
        if self.is_reshaping() {
            return self.stand_still();
        }
        if let Role::Loading(loading) = std::mem::take(&mut self.role)
            && self.core.placement.epoch.0 > 0
        {
            self.join_interval(loading.asked_by);
        }
    }
}
