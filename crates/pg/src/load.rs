//! Reading info and log from the store when the OSD starts.

use crate::missing::Item;
use crate::persist::StoredIntervals;
use crate::{LogEntry, Pg, PgInfo, PgLog, State, Tag, info};
use bytes::Bytes;
use std::collections::BTreeMap;
use store::{Change, Outcome, RequestKind, StoreError};
use types::{EVersion, Epoch, OsdId, PgId};

const PAGE_ENTRIES_MAX: usize = 512;
const PAGE_BYTES_MAX: usize = 1 << 20;

impl Pg {
    /// The copy in an existing collection. Ready when [`Pg::is_loaded`].
    pub fn load(id: PgId, whoami: OsdId) -> Self {
        let mut pg = Pg::new(id, whoami);
        pg.created = true;
        pg.state = State::Loading;
        pg.load_page(None);
        pg
    }

    pub fn is_loaded(&self) -> bool {
        self.state != State::Loading
    }

    pub(crate) fn load_page(&mut self, after: Option<Bytes>) {
        let kind = RequestKind::OmapList {
            collection: self.collection,
            object: self.meta.clone(),
            after,
            prefix: Bytes::new(),
            entries_max: PAGE_ENTRIES_MAX,
            bytes_max: PAGE_BYTES_MAX,
        };
        self.ask_store(Tag::Load, kind);
    }

    pub(crate) fn loaded(&mut self, outcome: Result<Outcome, StoreError>) {
        if self.state != State::Loading {
            return; // removed meanwhile
        }
        let page = match outcome {
            Ok(Outcome::OmapPage(page)) => page,
            // A collection that was created, and no more.
            Err(StoreError::NoObject { .. }) => Default::default(),
            // Its creation was refused.
            Err(StoreError::NoCollection(_)) => {
                self.created = false;
                Default::default()
            }
            Ok(other) => unreachable!("an omap page was answered by {other:?}"),
            Err(error) => return self.fail(&error),
        };
        let last = page.pairs.last_key_value().map(|(key, _)| key.clone());
        for (key, value) in page.pairs {
            if let Err(error) = self.load_pair(&key, &value) {
                tracing::error!(pg = %self.id, %error, "the stored log is damaged");
                self.state = State::Failed;
                return;
            }
        }
        match page.more {
            true => self.load_page(last),
            false => self.finish_load(),
        }
    }

    /// The info sorts before the log.
    fn load_pair(&mut self, key: &Bytes, value: &Bytes) -> codec::Result<()> {
        if *key == info::INFO_KEY {
            self.info = codec::decode_all::<PgInfo>("group info", value)?;
            self.log = PgLog::new(self.info.log_tail, []);
        } else if *key == info::INTERVALS_KEY {
            let stored: StoredIntervals = codec::decode_all("intervals", value)?;
            self.past = stored.past;
            self.knows_past = true;
            if self.interval == Epoch(0) {
                (self.interval, self.members) = (stored.first, stored.members);
            }
        } else if info::is_log_key(key) {
            self.load_entry(codec::decode_all("log entry", value)?);
        } else if let Some(object) = info::decode_missing_key(key) {
            let item: Item = codec::decode_all("missing item", value)?;
            self.missing.add(object, item);
        }
        Ok(())
    }

    /// Versions count up by one. Where one is left out, the store refused that write, and this copy
    /// ends before it; the objects that later writes changed are not what they should be.
    fn load_entry(&mut self, entry: LogEntry) {
        if entry.version <= self.info.log_tail {
            return; // its trimming was refused
        }
        if entry.version.version == self.log.head().version + 1 {
            return self.log.push(entry);
        }
        if entry.changes_object() && !self.missing.contains(&entry.object) {
            let item = Item { need: entry.prior_version, have: EVersion::ZERO };
            self.doubtful.push((entry.object, item));
        }
    }

    fn finish_load(&mut self) {
        let (head, last_update) = (self.log.head(), self.info.last_update);
        if head != last_update {
            tracing::warn!(pg = %self.id, %head, %last_update, "the stored log has a hole");
            self.info.last_update = head;
            self.store_doubts();
        }
        self.update_last_complete();
        self.committed = self.info.log_tail;
        self.state = State::Stray;
        if self.epoch.0 > 0 {
            self.join_interval();
        }
    }

    /// Entries behind a hole go, and what they changed goes back to what it was, once a peer tells.
    fn store_doubts(&mut self) {
        let mut transaction = self.transaction(4);
        let mut pairs = BTreeMap::new();
        for (object, item) in std::mem::take(&mut self.doubtful) {
            if self.missing.contains(&object) {
                continue;
            }
            if item.need == EVersion::ZERO {
                transaction.push(self.collection, Change::Remove { object });
                continue;
            }
            self.missing.add(object.clone(), item);
            pairs.extend(self.missing.pair(&object));
        }
        self.update_last_complete();
        pairs.extend([self.info_pair()]);
        let (_, end) = info::log_keys();
        let beyond = EVersion { version: self.log.head().version + 1, ..self.log.head() };
        self.remove_meta(&mut transaction, (info::log_key(beyond), end));
        self.set_meta(&mut transaction, pairs);
        self.commit(Tag::Corrected, transaction);
    }
}
