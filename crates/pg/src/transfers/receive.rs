//! Receiving objects from another OSD, piece by piece.
//!
//! The object's info, and with it its version, is stored with the last piece. So a comparison of versions
//! never takes a part of an object for the whole: an object without info has no version that equals any
//! other, and is replaced. That holds whatever happens to the missing set and to `last_backfill` meanwhile.
//!
//! Pieces are accepted in order only, and as long as they are of one version: each repeats the object's info.
//! A piece of another version restarts the object.
//!
//! A first piece restarts the object, too, whatever came before it: an object is pulled twice if its source
//! went down and came back meanwhile. Completions of pieces that were stored before, perhaps of the last
//! one, then neither ask for more nor complete the object.

use super::jobs::{Ended, PieceAction, Received, Receiver};
use crate::Member;
use crate::core::Core;
use crate::message::{Body, Cursor, Push};
use crate::missing::Item;
use crate::snaps::{self, SNAPSET_ATTR, SnapSet};
use crate::{INFO_ATTR, ObjectInfo, Tag, info};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::ops::Range;
use store::{Change, Transaction};
use types::{EVersion, HObject};

/// Shorter holes are written as zeros: data in many extents is slower to read.
static ZEROS: [u8; 16 << 10] = [0; 16 << 10];

/// The pairs that the clone index must have for this object.
pub(super) fn indexed(
    object: &HObject,
    attrs: &BTreeMap<Bytes, Bytes>,
) -> Option<BTreeMap<Bytes, Bytes>> {
    let set = codec::decode_all::<SnapSet>("snapset", attrs.get(&SNAPSET_ATTR)?);
    let pairs = set.map(|set| snaps::index_pairs(object, &set)).ok()?;
    (!pairs.is_empty()).then_some(pairs)
}

/// The parts of data to write into a hole, without those that are all zeros: otherwise a sparse object would
/// be allocated in full wherever it is copied.
fn without_holes(offset: u64, data: &Bytes) -> impl Iterator<Item = (u64, Bytes)> {
    let mut parts: Vec<Range<usize>> = Vec::new();
    for start in (0..data.len()).step_by(ZEROS.len()) {
        let end = data.len().min(start + ZEROS.len());
        match parts.last_mut() {
            _ if data[start..end] == ZEROS[..end - start] => {}
            Some(part) if part.end == start => part.end = end,
            _ => parts.push(start..end),
        }
    }
    parts.into_iter().map(move |part| (offset + part.start as u64, data.slice(part)))
}

/// The version in the info of a first piece.
fn pushed_version(push: &Push) -> Option<EVersion> {
    ObjectInfo::version_in(push.attrs.as_ref()?)
}

/// Takes a piece of an object that this copy wants from this OSD.
pub(crate) fn receive(core: &mut Core, from: Member, push: Push, receiver: Receiver) {
    match core.transfers.receiving.plan_piece(&push) {
        PieceAction::Store(info) => store_piece(core, from, push, info),
        PieceAction::Drop => {}
        PieceAction::Restart => ask_for_more(core, from, push.object, Cursor::default(), receiver),
    }
}

/// Whether the object has the version that our log names. If the log does not reach back so far (zero),
/// any version is accepted: the source does not miss the object.
pub(crate) fn is_what_is_needed(core: &Core, push: &Push) -> bool {
    let (Some(need), Some(version)) = (core.copy.missing.need(&push.object), pushed_version(push))
    else {
        return false;
    };
    need == version || need == EVersion::ZERO
}

fn ask_for_more(core: &mut Core, from: Member, object: HObject, next: Cursor, receiver: Receiver) {
    match receiver {
        Receiver::Replica => core.send(from, &Body::Pushed(object, Some(next), true)),
        Receiver::Primary => core.send(from, &Body::Pull(object, next)),
    }
}

fn store_piece(core: &mut Core, from: Member, push: Push, info: Option<Bytes>) {
    let (object, next) = (push.object.clone(), push.next.clone());
    let mut transaction = core.transaction(8);
    if next.is_some() && push.cursor.is_start() {
        miss_replaced(core, &mut transaction, &push);
    }
    write_piece(core, &mut transaction, push, info);
    if next.is_none() && core.copy.missing.contains(&object) {
        core.unset_missing(&mut transaction, info::missing_key(&object));
    }
    core.transfers.receiving.last += 1;
    let job = core.transfers.receiving.last;
    let before = core.transfers.receiving.pieces.insert(job, Received { from, object, next });
    assert!(before.is_none(), "a number belongs to one piece");
    core.commit(Tag::Received(job), transaction);
}

/// Keeps an object that is replaced in pieces in the missing set until its last piece is stored.
fn miss_replaced(core: &mut Core, transaction: &mut Transaction, push: &Push) {
    let object = &push.object;
    if *object >= core.copy.info.last_backfill {
        return;
    }
    let have = EVersion::ZERO;
    match core.copy.missing.need(object) {
        None => {
            let need = pushed_version(push).unwrap_or(EVersion::ZERO);
            core.copy.missing.add(object.clone(), Item { need, have });
        }
        // The version that peering may roll back to is not there any more.
        Some(need) if core.copy.info.shard.is_some() => {
            core.copy.missing.add(object.clone(), Item { need, have });
        }
        Some(_) => {}
    }
    // Stored even for a missing object: the store may have removed the item, if it had stored the last
    // piece of an earlier attempt and the interval ended before this copy heard of that.
    core.update_last_complete();
    let mut pairs = BTreeMap::from([core.info_pair()]);
    pairs.extend(core.copy.missing.pair(object));
    core.set_meta(transaction, pairs);
}

fn write_piece(core: &Core, transaction: &mut Transaction, push: Push, info: Option<Bytes>) {
    let (object, is_last) = (push.object, push.next.is_none());
    let mut change = |change| transaction.push(core.own.collection, change);
    if push.cursor.is_start() {
        change(Change::Remove { object: object.clone() });
    }
    if push.cursor.is_start() && push.attrs.is_none() {
        return;
    }
    if let Some(mut attrs) = push.attrs.filter(|_| push.cursor.is_start()) {
        if !is_last {
            attrs.remove(&INFO_ATTR);
        }
        if let Some(pairs) = indexed(&object, &attrs) {
            change(Change::OmapSet { object: core.own.meta.clone(), pairs });
        }
        change(Change::Touch { object: object.clone() });
        change(Change::SetAttrs { object: object.clone(), attrs });
        // The size includes holes at the end.
        change(Change::Truncate { object: object.clone(), size: push.size });
    }
    for (offset, data) in without_holes(push.cursor.data_offset, &push.data) {
        change(Change::Write { object: object.clone(), offset, data });
    }
    if !push.omap_header.is_empty() {
        change(Change::OmapSetHeader { object: object.clone(), header: push.omap_header });
    }
    if !push.omap.is_empty() {
        change(Change::OmapSet { object: object.clone(), pairs: push.omap });
    }
    if let Some(info) = info {
        let attrs = BTreeMap::from([(INFO_ATTR, info)]);
        change(Change::SetAttrs { object, attrs });
    }
}

/// A piece is durable: asks for the next one, or completes the object.
pub(crate) fn stored_piece(core: &mut Core, job: u64, receiver: Receiver) -> Option<Ended> {
    let Received { from, object, next } = core.transfers.receiving.pieces.remove(&job)?;
    let was_missing = next.is_none() && core.copy.missing.remove(&object);
    if was_missing {
        core.update_last_complete();
    }
    if from == core.own.whoami {
        return Some(Ended::Rebuilt { object, next, has_space: true });
    }
    match (receiver, next) {
        (Receiver::Primary, None) => return Some(Ended::Fetched { object, was_missing }),
        (Receiver::Replica, None) => core.send(from, &Body::Pushed(object, None, true)),
        (_, Some(next)) => ask_for_more(core, from, object, next, receiver),
    }
    None
}

/// The disk has no space for the piece. The part that is stored is not valid and is removed, which makes
/// space: the next attempt may succeed.
pub(crate) fn piece_refused(core: &mut Core, job: u64, receiver: Receiver) -> Option<Ended> {
    let Received { from, object, .. } = core.transfers.receiving.pieces.remove(&job)?;
    core.transfers.receiving.forget(&object);
    let mut transaction = core.transaction(2);
    transaction.push(core.own.collection, Change::Remove { object: object.clone() });
    if let (Some(need), Some(_)) = (core.copy.missing.need(&object), core.copy.info.shard) {
        // Nothing is left that peering could roll back to.
        core.copy.missing.add(object.clone(), Item { need, have: EVersion::ZERO });
    }
    if let Some(pair) = core.copy.missing.pair(&object) {
        core.set_meta(&mut transaction, BTreeMap::from([pair]));
    }
    core.commit(Tag::Progress, transaction);
    if from == core.own.whoami {
        return Some(Ended::Rebuilt { object, next: None, has_space: false });
    }
    if receiver == Receiver::Primary {
        return Some(Ended::NotFetched { object, from });
    }
    core.send(from, &Body::Pushed(object, None, false));
    None
}

/// A write of the primary replaces or removes the object, so it is not missing any more.
pub(crate) fn overwrite_missing(core: &mut Core, transaction: &mut Transaction, object: &HObject) {
    if core.copy.missing.remove(object) {
        core.unset_missing(transaction, info::missing_key(object));
        core.update_last_complete();
    }
}
