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

use super::{Ended, Receiver};
use crate::core::Core;
use crate::message::{Body, Cursor, Push};
use crate::missing::Item;
use crate::snaps::{self, SNAPSET_ATTR, SnapSet};
use crate::{INFO_ATTR, ObjectInfo, Tag, info};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::ops::Range;
use store::{Change, Transaction};
use types::{EVersion, HObject, OsdId};

/// Shorter holes are written as zeros: data in many extents is slower to read.
static ZEROS: [u8; 16 << 10] = [0; 16 << 10];

/// Pieces in flight to the store. The end of an interval drops them.
#[derive(Debug, Default)]
pub struct Receiving {
    last: u64,
    pieces: BTreeMap<u64, Piece>,
    /// Objects with more pieces to come.
    begun: BTreeMap<HObject, Begun>,
}

/// An object of which a part was received.
#[derive(Debug)]
struct Begun {
    /// The info that is stored with its last piece.
    info: Option<Bytes>,
    next: Cursor,
}

/// How to handle a piece.
#[derive(Debug, PartialEq)]
enum Verdict {
    /// Store it, with the object's info if it is the last one of several.
    Store(Option<Bytes>),
    /// It does not continue the piece before it.
    Drop,
    /// The object has changed since its first piece was read.
    Restart,
}

#[derive(Debug)]
struct Piece {
    from: OsdId,
    object: HObject,
    next: Option<Cursor>,
}

/// The pairs that the clone index must have for this object.
fn indexed(object: &HObject, attrs: &BTreeMap<Bytes, Bytes>) -> Option<BTreeMap<Bytes, Bytes>> {
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
    let info = push.attrs.as_ref()?.get(&INFO_ATTR)?;
    codec::decode_all::<ObjectInfo>("info", info).ok().map(|info| info.version)
}

impl Receiving {
    pub fn clear(&mut self) {
        self.pieces.clear();
        self.begun.clear();
    }

    /// Drops what was received of the object. Completions of its pieces are ignored from now on: a later
    /// transfer may have replaced them by the whole object.
    pub fn forget(&mut self, object: &HObject) {
        self.begun.remove(object);
        self.pieces.retain(|_, piece| piece.object != *object);
    }

    fn judge(&mut self, push: &Push) -> Verdict {
        let info = push.attrs.as_ref().map(|attrs| attrs.get(&INFO_ATTR));
        if push.cursor.is_start() {
            self.forget(&push.object);
            if let Some(next) = push.next.clone() {
                let info = info.flatten().cloned();
                self.begun.insert(push.object.clone(), Begun { info, next });
            }
            return Verdict::Store(None);
        }
        let Some(begun) = self.begun.get_mut(&push.object) else { return Verdict::Drop };
        if begun.next != push.cursor {
            return Verdict::Drop;
        }
        // Earlier builds send attributes with the first piece only.
        if info.is_some_and(|info| info != begun.info.as_ref()) {
            self.begun.remove(&push.object);
            return Verdict::Restart;
        }
        match push.next.clone() {
            Some(next) => {
                begun.next = next;
                Verdict::Store(None)
            }
            None => Verdict::Store(self.begun.remove(&push.object).and_then(|begun| begun.info)),
        }
    }
}

impl Core {
    /// Takes a piece of an object that this copy wants from this OSD.
    pub fn receive(&mut self, from: OsdId, push: Push, receiver: Receiver) {
        match self.transfers.receiving.judge(&push) {
            Verdict::Store(info) => self.store_piece(from, push, info),
            Verdict::Drop => {}
            Verdict::Restart => self.ask_for_more(from, push.object, Cursor::default(), receiver),
        }
    }

    /// Whether the object has the version that our log names. If the log does not reach back so far (zero),
    /// any version is accepted: the source does not miss the object.
    pub fn is_what_is_needed(&self, push: &Push) -> bool {
        let (Some(need), Some(version)) =
            (self.copy.missing.need(&push.object), pushed_version(push))
        else {
            return false;
        };
        need == version || need == EVersion::ZERO
    }

    fn ask_for_more(&mut self, from: OsdId, object: HObject, next: Cursor, receiver: Receiver) {
        match receiver {
            Receiver::Replica => self.send(from, &Body::Pushed(object, Some(next), true)),
            Receiver::Primary => self.send(from, &Body::Pull(object, next)),
        }
    }

    fn store_piece(&mut self, from: OsdId, push: Push, info: Option<Bytes>) {
        let (object, next) = (push.object.clone(), push.next.clone());
        let mut transaction = self.transaction(8);
        if next.is_some() && push.cursor.is_start() {
            self.miss_replaced(&mut transaction, &push);
        }
        self.write_piece(&mut transaction, push, info);
        if next.is_none() && self.copy.missing.contains(&object) {
            self.unset_missing(&mut transaction, info::missing_key(&object));
        }
        self.transfers.receiving.last += 1;
        let job = self.transfers.receiving.last;
        self.transfers.receiving.pieces.insert(job, Piece { from, object, next });
        self.commit(Tag::Received(job), transaction);
    }

    /// Keeps an object that is replaced in pieces in the missing set until its last piece is stored.
    fn miss_replaced(&mut self, transaction: &mut Transaction, push: &Push) {
        let object = &push.object;
        if *object >= self.copy.info.last_backfill {
            return;
        }
        if !self.copy.missing.contains(object) {
            let need = pushed_version(push).unwrap_or(EVersion::ZERO);
            self.copy.missing.add(object.clone(), Item { need, have: EVersion::ZERO });
        }
        // Stored even for a missing object: the store may have removed the item, if it had stored the last
        // piece of an earlier attempt and the interval ended before this copy heard of that.
        self.update_last_complete();
        let mut pairs = BTreeMap::from([self.info_pair()]);
        pairs.extend(self.copy.missing.pair(object));
        self.set_meta(transaction, pairs);
    }

    fn write_piece(&self, transaction: &mut Transaction, push: Push, info: Option<Bytes>) {
        let (object, is_last) = (push.object, push.next.is_none());
        let mut change = |change| transaction.push(self.own.collection, change);
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
                change(Change::OmapSet { object: self.own.meta.clone(), pairs });
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
    pub fn stored_piece(&mut self, job: u64, receiver: Receiver) -> Option<Ended> {
        let Piece { from, object, next } = self.transfers.receiving.pieces.remove(&job)?;
        let was_missing = next.is_none() && self.copy.missing.remove(&object);
        if was_missing {
            self.update_last_complete();
        }
        match (receiver, next) {
            (Receiver::Primary, None) => return Some(Ended::Fetched { object, was_missing }),
            (Receiver::Replica, None) => self.send(from, &Body::Pushed(object, None, true)),
            (_, Some(next)) => self.ask_for_more(from, object, next, receiver),
        }
        None
    }

    /// The disk has no room for the piece. The part that is stored is not valid and is removed, which makes
    /// room: the next attempt may succeed.
    pub fn piece_refused(&mut self, job: u64, receiver: Receiver) -> Option<Ended> {
        let Piece { from, object, .. } = self.transfers.receiving.pieces.remove(&job)?;
        self.transfers.receiving.forget(&object);
        let mut transaction = self.transaction(2);
        transaction.push(self.own.collection, Change::Remove { object: object.clone() });
        if let Some(pair) = self.copy.missing.pair(&object) {
            self.set_meta(&mut transaction, BTreeMap::from([pair]));
        }
        self.commit(Tag::Progress, transaction);
        if receiver == Receiver::Primary {
            return Some(Ended::NotFetched { object, from });
        }
        self.send(from, &Body::Pushed(object, None, false));
        None
    }

    /// A write of the primary replaces or removes the object, so it is not missing any more.
    pub fn overwrite_missing(&mut self, transaction: &mut Transaction, object: &HObject) {
        if self.copy.missing.remove(object) {
            self.unset_missing(transaction, info::missing_key(object));
            self.update_last_complete();
        }
    }
}
