//! Transfers in progress, by job: pieces that are stored here, and reads for other members.

use crate::INFO_ATTR;
use crate::Member;
use crate::message::{Cursor, Push, PushRows};
use bytes::Bytes;
use std::collections::BTreeMap;
use store::ObjectMeta;
use types::{EVersion, HObject};

/// The role in which this copy receives an object: a primary pulls it, a replica is given it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Receiver {
    Primary,
    Replica,
}

/// The end of a transfer, or of a step of it.
#[derive(Debug)]
pub(crate) enum Ended {
    /// An object that was pulled is stored.
    Fetched { object: HObject, was_missing: bool },
    /// A piece of our own shard that this primary has decoded is stored, or its disk has no space for it
    /// (`false`). The next one begins there.
    Rebuilt { object: HObject, next: Option<Cursor>, has_space: bool },
    /// The disk has no space for an object that was pulled.
    NotFetched { object: HObject, from: Member },
    /// A piece is read, and goes to this OSD.
    Read { to: Member, push: Box<Push> },
    /// An object cannot be read for this OSD. The version is known if its info could be read.
    Unreadable { object: HObject, to: Member, version: Option<EVersion> },
    /// A page of our own objects is listed, for a comparison. It ends before `next`.
    Listed { objects: Vec<(HObject, EVersion)>, next: Option<HObject> },
    /// Our objects cannot be listed for this primary, or for our own comparison.
    NotListed { to: Option<Member> },
}

/// Objects on their way to this copy, and from it to other members.
#[derive(Debug, Default)]
pub(crate) struct Transfers {
    pub(super) receiving: Receiving,
    pub(super) sources: Sources,
    /// Listings that wait until the store shows more changes.
    pub(super) unsettled: Vec<Unsettled>,
}

/// A page of a listing, for this primary or for our own comparison, from an object on. It waits until the
/// store shows changes up to a version.
pub(super) type Unsettled = (Option<Member>, HObject, EVersion);

impl Transfers {
    /// Ends all of them with the interval. Completions are ignored, so the numbers of jobs go on.
    pub fn clear(&mut self) {
        self.receiving.clear();
        self.sources.clear();
        self.unsettled.clear();
    }

    /// Drops what was received of an object. Completions of its pieces are ignored from now on: a later
    /// transfer may have replaced them by the whole object.
    pub fn stop_receiving(&mut self, object: &HObject) {
        self.receiving.forget(object);
    }

    /// Drops reads of an object that has changed.
    pub fn stop_sending(&mut self, object: &HObject) {
        self.sources.forget(object);
    }

    /// Drops the listing of our own objects.
    pub fn stop_own_listing(&mut self) {
        self.sources.forget_own_scan();
        self.unsettled.retain(|(to, ..)| to.is_some());
    }
}

/// Pieces in flight to the store. The end of an interval drops them.
#[derive(Debug, Default)]
pub(super) struct Receiving {
    /// The number of the newest piece.
    pub last: u64,
    /// Pieces that the store has not completed, by number.
    pub pieces: BTreeMap<u64, Received>,
    /// Changed rows of shards that wait for the version of the stored object, by number.
    pub changed: BTreeMap<u64, (Member, PushRows)>,
    /// Objects with more pieces to come.
    pub begun: BTreeMap<HObject, Begun>,
}

/// An object of which a part was received.
#[derive(Debug)]
pub(super) struct Begun {
    /// The info that is stored with its last piece.
    pub info: Option<Bytes>,
    /// The position at which the next piece must begin.
    pub next: Cursor,
}

/// How to handle a piece.
#[derive(Debug, PartialEq)]
pub(super) enum PieceAction {
    /// Store it, with the object's info if it is the last one of several.
    Store(Option<Bytes>),
    /// It does not continue the piece before it.
    Drop,
    /// The object has changed since its first piece was read.
    Restart,
}

/// A piece that is being stored.
#[derive(Debug)]
pub(super) struct Received {
    /// The sender.
    pub from: Member,
    /// The object.
    pub object: HObject,
    /// The position behind the piece; `None` if it is the last one.
    pub next: Option<Cursor>,
}

impl Receiving {
    /// Drops all pieces; their completions are ignored.
    pub fn clear(&mut self) {
        self.pieces.clear();
        self.changed.clear();
        self.begun.clear();
    }

    /// Drops what was received of the object. Completions of its pieces are ignored from now on: a later
    /// transfer may have replaced them by the whole object.
    pub fn forget(&mut self, object: &HObject) {
        self.begun.remove(object);
        self.changed.retain(|_, (_, push)| push.object != *object);
        self.pieces.retain(|_, piece| piece.object != *object);
    }

    /// Decides whether a piece continues what was received of its object, and notes its end.
    pub fn plan_piece(&mut self, push: &Push) -> PieceAction {
        let info = push.attrs.as_ref().map(|attrs| attrs.get(&INFO_ATTR));
        if push.cursor.is_start() {
            self.forget(&push.object);
            if let Some(next) = push.next.clone() {
                let info = info.flatten().cloned();
                self.begun.insert(push.object.clone(), Begun { info, next });
            }
            return PieceAction::Store(None);
        }
        let Some(begun) = self.begun.get_mut(&push.object) else { return PieceAction::Drop };
        if begun.next != push.cursor {
            return PieceAction::Drop;
        }
        // Earlier builds send attributes with the first piece only.
        if info.is_some_and(|info| info != begun.info.as_ref()) {
            self.begun.remove(&push.object);
            return PieceAction::Restart;
        }
        match push.next.clone() {
            Some(next) => {
                begun.next = next;
                PieceAction::Store(None)
            }
            None => {
                PieceAction::Store(self.begun.remove(&push.object).and_then(|begun| begun.info))
            }
        }
    }
}

/// Reads in progress. The end of an interval drops them, and their completions are ignored.
#[derive(Debug, Default)]
pub(super) struct Sources {
    /// The number of the newest job.
    pub last: u64,
    /// Pieces that are being read, by number.
    pub pieces: BTreeMap<u64, Piece>,
    /// Listings that are being read, by number.
    pub scans: BTreeMap<u64, Scan>,
}

impl Sources {
    /// Drops all reads; their completions are ignored.
    pub fn clear(&mut self) {
        self.pieces.clear();
        self.scans.clear();
    }

    /// Drops reads of an object that has changed.
    pub fn forget(&mut self, object: &HObject) {
        self.pieces.retain(|_, piece| piece.push.object != *object);
    }

    /// Drops the listing of our own objects.
    pub fn forget_own_scan(&mut self) {
        self.scans.retain(|_, scan| scan.to.is_some());
    }

    /// The number of a new job.
    pub fn number(&mut self) -> u64 {
        self.last += 1;
        self.last
    }
}

/// A piece of an object that is being read for `to`.
#[derive(Debug)]
pub(super) struct Piece {
    /// The receiver.
    pub to: Member,
    /// The object's metadata.
    pub meta: ObjectMeta,
    /// The piece as far as it is read.
    pub push: Push,
    /// Reads of the whole piece so far that failed.
    pub failures: u32,
}

impl Piece {
    /// Whether nothing of the object was read yet.
    pub fn is_first(&self) -> bool {
        self.push.cursor.is_start() && self.push.attrs.is_none()
    }
}

/// A page of objects and versions that is read for another member, or for our own comparison.
#[derive(Debug)]
pub(super) struct Scan {
    /// The primary that asked for it; `None` for our own comparison.
    pub to: Option<Member>,
    /// The first object that the page may have.
    pub from: HObject,
    /// Objects with their versions; `None` until the info is read, and if the object is gone.
    pub objects: Vec<(HObject, Option<EVersion>)>,
    /// Objects whose infos are not read yet.
    pub left: usize,
    /// The first object of the next page; `None` in the last one.
    pub next: Option<HObject>,
}
