//! Storing objects that come from another OSD, piece by piece.

use crate::message::{Body, Cursor, Push};
use crate::snaps::{self, SNAPSET_ATTR, SnapSet};
use crate::{INFO_ATTR, ObjectInfo, Pg, State, Tag, info};
use bytes::Bytes;
use std::collections::BTreeMap;
use store::{Change, Transaction};
use types::{HObject, OsdId};

/// Pieces on their way to the store; those of an earlier interval are forgotten.
#[derive(Debug, Default)]
pub(crate) struct Receiving {
    last: u64,
    pieces: BTreeMap<u64, Piece>,
}

#[derive(Debug)]
struct Piece {
    from: OsdId,
    object: HObject,
    next: Option<Cursor>,
}

/// What the index of clones must have if this object is stored.
fn indexed(object: &HObject, attrs: &BTreeMap<Bytes, Bytes>) -> Option<BTreeMap<Bytes, Bytes>> {
    let set = codec::decode_all::<SnapSet>("snapset", attrs.get(&SNAPSET_ATTR)?);
    let pairs = set.map(|set| snaps::index_pairs(object, &set)).ok()?;
    (!pairs.is_empty()).then_some(pairs)
}

impl Receiving {
    pub fn clear(&mut self) {
        self.pieces.clear();
    }
}

impl Pg {
    pub(crate) fn pushed(&mut self, from: OsdId, push: Push) {
        let is_expected = match self.state {
            State::Active | State::Inactive => self.pulled_from(&push.object) == Some(from),
            State::ReplicaActive => self.members.primary == Some(from),
            _ => false,
        };
        if !is_expected {
            return;
        }
        if self.is_primary() && push.cursor.is_start() && !self.is_what_is_needed(&push) {
            tracing::error!(pg = %self.id, %from, object = %push.object, "it has another version");
            return self.not_fetched(&push.object, from, true);
        }
        self.store_piece(from, push);
    }

    /// Whether the object is there in the version that our log names.
    fn is_what_is_needed(&self, push: &Push) -> bool {
        let info = push.attrs.as_ref().and_then(|attrs| attrs.get(&INFO_ATTR));
        let version = info.and_then(|info| codec::decode_all::<ObjectInfo>("info", info).ok());
        version.map(|info: ObjectInfo| info.version) == self.missing.need(&push.object)
    }

    fn store_piece(&mut self, from: OsdId, push: Push) {
        let (object, next) = (push.object.clone(), push.next.clone());
        let mut transaction = self.transaction(8);
        self.write_piece(&mut transaction, push);
        if next.is_none() && self.missing.contains(&object) {
            self.unset_missing(&mut transaction, info::missing_key(&object));
        }
        self.receiving.last += 1;
        let job = self.receiving.last;
        self.receiving.pieces.insert(job, Piece { from, object, next });
        self.commit(Tag::Received(job), transaction);
    }

    fn write_piece(&self, transaction: &mut Transaction, push: Push) {
        let object = push.object;
        let mut change = |change| transaction.push(self.collection, change);
        if push.cursor.is_start() {
            change(Change::Remove { object: object.clone() });
        }
        if push.cursor.is_start() && push.attrs.is_none() {
            return;
        }
        if let Some(attrs) = push.attrs {
            if let Some(pairs) = indexed(&object, &attrs) {
                change(Change::OmapSet { object: self.meta.clone(), pairs });
            }
            change(Change::Touch { object: object.clone() });
            change(Change::SetAttrs { object: object.clone(), attrs });
            // Holes at the end belong to the object.
            change(Change::Truncate { object: object.clone(), size: push.size });
        }
        if !push.data.is_empty() {
            let offset = push.cursor.data_offset;
            change(Change::Write { object: object.clone(), offset, data: push.data });
        }
        if !push.omap_header.is_empty() {
            change(Change::OmapSetHeader { object: object.clone(), header: push.omap_header });
        }
        if !push.omap.is_empty() {
            change(Change::OmapSet { object, pairs: push.omap });
        }
    }

    pub(crate) fn stored_piece(&mut self, job: u64) {
        let Some(Piece { from, object, next }) = self.receiving.pieces.remove(&job) else { return };
        let was_missing = next.is_none() && self.missing.remove(&object);
        if was_missing {
            self.update_last_complete();
        }
        if self.state == State::ReplicaActive {
            return self.send(from, &Body::Pushed(object, next, true));
        }
        match next {
            Some(next) => self.send(from, &Body::Pull(object, next)),
            None => self.fetched(&object, was_missing),
        }
    }

    /// The disk has no room for it. What is there of the object counts for nothing, so it makes room: the
    /// next attempt may succeed.
    pub(crate) fn piece_refused(&mut self, job: u64) {
        let Some(Piece { from, object, .. }) = self.receiving.pieces.remove(&job) else { return };
        let mut transaction = self.transaction(1);
        transaction.push(self.collection, Change::Remove { object: object.clone() });
        self.commit(Tag::Progress, transaction);
        match self.state {
            State::ReplicaActive => self.send(from, &Body::Pushed(object, None, false)),
            _ => self.not_fetched(&object, from, false),
        }
    }

    /// The entry of a write says what becomes of its object: nothing is missing of it any more.
    pub(crate) fn overwrite_missing(&mut self, transaction: &mut Transaction, object: &HObject) {
        if self.missing.remove(object) {
            self.unset_missing(transaction, info::missing_key(object));
            self.update_last_complete();
        }
    }
}
