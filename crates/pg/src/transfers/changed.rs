//! Receiving changed rows of a shard, whose other rows this copy has in an older version.
//!
//! The sender names that version, and the stored object info is compared with it: an interrupted transfer, or
//! a store that went back in time, may have left something else. Then the whole shard is asked for.

use super::jobs::{Ended, Received, Unsettled};
use super::receive::indexed;
use crate::core::{Core, settling};
use crate::message::{Body, Cursor, PushRows};
use crate::{INFO_ATTR, Member, ObjectInfo, Tag, info};
use store::{Change, ObjectMeta, Outcome, RequestKind, StoreError};
use types::EVersion;

/// Takes changed rows of an object that this copy misses: reads the version that it has once changes up to
/// `committed` are settled.
pub(crate) fn receive_rows(core: &mut Core, from: Member, push: PushRows, committed: EVersion) {
    core.transfers.receiving.last += 1;
    let job = core.transfers.receiving.last;
    core.transfers.receiving.forget(&push.object);
    core.transfers.receiving.changed.insert(job, (from, push));
    read_base(core, job, committed);
}

pub(super) fn read_base(core: &mut Core, job: u64, committed: EVersion) {
    let Some((_, push)) = core.transfers.receiving.changed.get(&job) else { return };
    let (collection, object) = (core.own.collection, push.object.clone());
    if committed > EVersion::ZERO && !settling::has_settled(core, &object, committed) {
        return core.transfers.unsettled.push(Unsettled::Base(job, committed));
    }
    core.ask_store(Tag::Base(job), RequestKind::Meta { collection, object });
}

/// Takes the metadata of the object: stores the rows, or asks for the whole shard.
pub(crate) fn base_read(
    core: &mut Core,
    job: u64,
    outcome: Result<Outcome, StoreError>,
) -> Option<Ended> {
    let (from, push) = core.transfers.receiving.changed.remove(&job)?;
    let meta = match outcome {
        Ok(Outcome::Meta(Some(meta))) if is_base(&meta, &push) => meta,
        _ if from == core.own.whoami => {
            let next = Some(Cursor::default());
            return Some(Ended::Rebuilt { object: push.object, next, has_space: true });
        }
        _ => {
            core.send(from, &Body::Pushed(push.object, Some(Cursor::default()), true));
            return None;
        }
    };
    store_rows(core, job, from, &meta, push);
    None
}

fn is_base(meta: &ObjectMeta, push: &PushRows) -> bool {
    let info = meta.attrs.get(&INFO_ATTR);
    let info = info.and_then(|info| codec::decode_all::<ObjectInfo>("info", info).ok());
    info.is_some_and(|info| info.version == push.base)
}

fn store_rows(core: &mut Core, job: u64, from: Member, meta: &ObjectMeta, push: PushRows) {
    let PushRows { object, attrs, ranges, data, .. } = push;
    let mut transaction = core.transaction(ranges.len() + 4);
    let mut change = |change| transaction.push(core.own.collection, change);
    for name in meta.attrs.keys().filter(|name| !attrs.contains_key(*name)) {
        change(Change::RemoveAttr { object: object.clone(), name: name.clone() });
    }
    for ((offset, _), data) in ranges.into_iter().zip(data) {
        change(Change::Write { object: object.clone(), offset, data });
    }
    if let Some(pairs) = indexed(&object, &attrs) {
        change(Change::OmapSet { object: core.own.meta.clone(), pairs });
    }
    change(Change::SetAttrs { object: object.clone(), attrs });
    if core.copy.missing.contains(&object) {
        core.unset_missing(&mut transaction, info::missing_key(&object));
    }
    let before = core.transfers.receiving.pieces.insert(job, Received { from, object, next: None });
    assert!(before.is_none(), "a number belongs to one piece");
    core.commit(Tag::Received(job), transaction);
}
