//! Receiving changed rows of a shard, whose other rows this copy has in an older version.
//!
//! The sender names that version, and the stored object info is compared with it: an interrupted transfer, or
//! a store that went back in time, may have left something else. Then the whole shard is asked for.

use super::jobs::{Ended, Received};
use super::receive::indexed;
use crate::core::Core;
use crate::message::{Body, Cursor, NoRows, PushRows, ShardRows};
use crate::rows::{self, Reader};
use crate::{Member, Tag, info};
use bytes::Bytes;
use std::collections::BTreeMap;
use store::Change;
use types::EVersion;

/// Takes changed rows of an object that this copy misses: reads the version that it has once changes up to
/// `committed` are settled.
pub(crate) fn receive_rows(core: &mut Core, from: Member, push: PushRows, committed: EVersion) {
    core.transfers.receiving.forget(&push.object);
    let job = rows::read_own(core, Reader::Transfer, push.object.clone(), Vec::new(), committed);
    core.transfers.receiving.changed.insert(job, (from, push));
}

/// Takes the version of the object: stores the rows, or asks for the whole shard.
pub(crate) fn base_read(
    core: &mut Core,
    job: u64,
    outcome: Result<ShardRows, NoRows>,
) -> Option<Ended> {
    let (from, push) = core.transfers.receiving.changed.remove(&job)?;
    let attrs = match outcome {
        Ok(ShardRows { version, attrs: Some(attrs), .. }) if version == push.base => attrs,
        _ if from == core.own.whoami => {
            let next = Some(Cursor::default());
            return Some(Ended::Rebuilt { object: push.object, next, has_space: true });
        }
        _ => {
            core.send(from, &Body::Pushed(push.object, Some(Cursor::default()), true));
            return None;
        }
    };
    store_rows(core, from, &attrs, push);
    None
}

/// Stores the rows of an object that has these attributes.
fn store_rows(core: &mut Core, from: Member, old: &BTreeMap<Bytes, Bytes>, push: PushRows) {
    let PushRows { object, attrs, ranges, data, .. } = push;
    let mut transaction = core.transaction(ranges.len() + 4);
    let mut change = |change| transaction.push(core.own.collection, change);
    for name in old.keys().filter(|name| !attrs.contains_key(*name)) {
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
    core.transfers.receiving.last += 1;
    let job = core.transfers.receiving.last;
    let before = core.transfers.receiving.pieces.insert(job, Received { from, object, next: None });
    assert!(before.is_none(), "a number belongs to one piece");
    core.commit(Tag::Received(job), transaction);
}
