//! Loading of info, log and missing set from the store.

use crate::core::persist::StoredIntervals;
use crate::core::{Core, LocalCopy, Tag};
use crate::scrub::{STAMPS_KEY, Stamps};
use crate::snaps::is_index_key;
use crate::{DupBatch, LogEntry, PgInfo, PgLog, info};
use bytes::Bytes;
use store::{Outcome, RequestKind, StoreError};
use types::Epoch;

const PAGE_ENTRIES_MAX: usize = 512;
const PAGE_BYTES_MAX: usize = 1 << 20;

/// How far the stored state is read.
#[derive(Debug)]
pub(crate) enum Loaded {
    /// Another page is requested.
    InPart,
    Whole,
    /// A pair does not decode.
    Damaged,
    Failed(StoreError),
}

/// Requests the page of pairs after a key.
pub(crate) fn load_page(core: &mut Core, after: Option<Bytes>) {
    let kind = RequestKind::OmapList {
        collection: core.own.collection,
        object: core.own.meta.clone(),
        after,
        prefix: Bytes::new(),
        entries_max: PAGE_ENTRIES_MAX,
        bytes_max: PAGE_BYTES_MAX,
    };
    core.ask_store(Tag::Load, kind);
}

/// Takes a page of pairs.
pub(crate) fn take_page(core: &mut Core, outcome: Result<Outcome, StoreError>) -> Loaded {
    let page = match outcome {
        Ok(Outcome::OmapPage(page)) => page,
        // The collection was created, and nothing else.
        Err(StoreError::NoObject { .. }) => Default::default(),
        // The creation of the collection was refused.
        Err(StoreError::NoCollection(_)) => {
            core.copy.created = false;
            Default::default()
        }
        Ok(other) => unreachable!("an omap page was answered by {other:?}"),
        Err(error) => return Loaded::Failed(error),
    };
    let last = page.pairs.last_key_value().map(|(key, _)| key.clone());
    for (key, value) in page.pairs {
        if let Err(error) = load_pair(core, &key, &value) {
            tracing::error!(pg = %core.own.id, %error, "the stored log is damaged");
            return Loaded::Damaged;
        }
    }
    // The clone index, which is last, may be very long, and is not loaded.
    let is_index = last.as_ref().is_some_and(|last| is_index_key(last));
    if page.more && !is_index {
        load_page(core, last);
        return Loaded::InPart;
    }
    let LocalCopy { info, log, missing, .. } = &mut core.copy;
    if let Some(shard) = info.shard {
        missing.find_superseded(log, shard.settled);
    }
    core.update_last_complete();
    core.copy.begin_committed();
    Loaded::Whole
}

/// Loads one pair. The info sorts before log and dups.
fn load_pair(core: &mut Core, key: &Bytes, value: &Bytes) -> codec::Result<()> {
    if *key == info::INFO_KEY {
        core.copy.info = codec::decode_all::<PgInfo>("group info", value)?;
        core.copy.log = PgLog::new(core.copy.info.log_tail, []);
    } else if *key == info::INTERVALS_KEY {
        let stored: StoredIntervals = codec::decode_all("intervals", value)?;
        // A copy that is reloaded has seen later maps.
        if core.placement.interval == Epoch(0) {
            core.copy.past = stored.past;
            core.placement.interval = stored.first;
            core.placement.set_members(stored.members);
        }
        core.copy.knows_past = true;
    } else if let Some(through) = info::decode_dups_key(key) {
        let (batch, dups) = DupBatch::decode(through, value)?;
        // Batches above the head are left from an interrupted merge or reset, and will be stored again.
        // Batches above the tail are valid: a log that was extended at its tail overlaps them.
        if through <= core.copy.info.last_update {
            core.copy.log.dups_mut().push(batch, &dups);
        }
    } else if info::is_log_key(key) {
        load_entry(core, codec::decode_all("log entry", value)?);
    } else if *key == STAMPS_KEY {
        // Damaged stamps do not fail the group.
        let stamps = codec::decode_all::<Stamps>("scrub stamps", value);
        core.copy.scrub_order =
            core.copy.scrub_order.or(stamps.ok().and_then(|stamps| stamps.order));
    } else if let Some(object) = info::decode_missing_key(key)? {
        core.copy.missing.load(&object, value)?;
    }
    Ok(())
}

fn load_entry(core: &mut Core, entry: LogEntry) {
    if entry.version > core.copy.info.log_tail {
        core.copy.log.push(entry);
    }
}
