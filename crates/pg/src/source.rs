//! Reads of this copy for other members: objects in pieces, and listings with versions.

use crate::message::{Body, Cursor, Listing, Push};
use crate::{INFO_ATTR, ObjectInfo, Pg, Tag, is_meta_object};
use std::collections::BTreeMap;
use store::{ObjectMeta, Outcome, RequestKind, StoreError};
use types::{EVersion, HObject, OsdId};

/// Bytes of omap in one piece; [`crate::Sizes`] bounds the number of pairs, and the data.
const PIECE_OMAP_BYTES_MAX: usize = 1 << 20;
/// Times that a piece is read again before its object counts as unreadable: this may be the only copy.
const REREADS_MAX: u32 = 3;

/// Reads in progress. The end of an interval drops them, and their completions are ignored.
#[derive(Debug, Default)]
pub(crate) struct Sources {
    last: u64,
    pieces: BTreeMap<u64, Piece>,
    scans: BTreeMap<u64, Scan>,
}

impl Sources {
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

    fn number(&mut self) -> u64 {
        self.last += 1;
        self.last
    }
}

/// A piece of an object that is being read for `to`.
#[derive(Debug)]
struct Piece {
    to: OsdId,
    meta: ObjectMeta,
    push: Push,
    /// Reads of the whole piece so far that failed.
    failures: u32,
}

/// A page of objects and versions that is read for another member, or for our own comparison.
#[derive(Debug)]
struct Scan {
    to: Option<OsdId>,
    from: HObject,
    objects: Vec<(HObject, Option<EVersion>)>,
    left: usize,
    next: Option<HObject>,
}

/// The version in the object's info, if that can be decoded.
fn version_of(meta: &ObjectMeta) -> Option<EVersion> {
    let info = meta.attrs.get(&INFO_ATTR)?;
    codec::decode_all::<ObjectInfo>("info", info).ok().map(|info| info.version)
}

impl Pg {
    /// Reads a piece of an object, and pushes it to an OSD.
    pub(crate) fn pulled(&mut self, to: OsdId, object: HObject, cursor: Cursor) {
        let push = Push { object: object.clone(), cursor, ..Push::default() };
        self.read_piece(Piece { to, meta: ObjectMeta::default(), push, failures: 0 });
    }

    fn read_piece(&mut self, piece: Piece) {
        let (job, object) = (self.core.transfers.sources.number(), piece.push.object.clone());
        self.core.transfers.sources.pieces.insert(job, piece);
        self.core.ask_store(
            Tag::Source(job),
            RequestKind::Meta { collection: self.core.own.collection, object },
        );
    }

    /// Takes the outcome of a read of a piece.
    pub(crate) fn source_read(&mut self, job: u64, outcome: Result<Outcome, StoreError>) {
        let Some(mut piece) = self.core.transfers.sources.pieces.remove(&job) else { return };
        if outcome.as_ref().is_err_and(StoreError::may_heal) && piece.failures < REREADS_MAX {
            let Push { object, cursor, .. } = piece.push;
            let push = Push { object, cursor, ..Push::default() };
            let meta = ObjectMeta::default();
            let failures = piece.failures + 1;
            return self.read_piece(Piece { to: piece.to, meta, push, failures });
        }
        let next = match outcome {
            Ok(Outcome::Meta(None)) if self.may_be_absent(&piece) => Ok(None),
            Err(StoreError::NoCollection(_)) if self.may_be_absent(&piece) => Ok(None),
            Ok(outcome) => self.next_read(&mut piece, outcome),
            Err(error) => Err(error.to_string()),
        };
        match next {
            Ok(Some(kind)) => {
                self.core.transfers.sources.pieces.insert(job, piece);
                self.core.ask_store(Tag::Source(job), kind);
            }
            Ok(None) => {
                self.note_sent(piece.to, &piece.push.object, piece.push.next.as_ref());
                self.core.send(piece.to, &Body::Push(Box::new(piece.push)));
            }
            Err(error) => {
                let version = version_of(&piece.meta);
                let object = piece.push.object;
                tracing::error!(pg = %self.core.own.id, %object, error, "an object cannot be read");
                self.source_failed(object, piece.to, version);
            }
        }
    }

    /// Whether it is correct that the store has no such object: no piece of it was sent yet, and the log
    /// does not require it.
    fn may_be_absent(&self, piece: &Piece) -> bool {
        let peer = self.peers.get(&piece.to);
        let is_owed = peer.is_some_and(|peer| peer.missing.contains(&piece.push.object));
        let is_first = piece.push.cursor.is_start() && piece.push.attrs.is_none();
        is_first && !(self.is_primary() && is_owed)
    }

    /// Takes the outcome of a read, and returns the next one for the same piece; `None` if it is complete.
    fn next_read(
        &self,
        piece: &mut Piece,
        outcome: Outcome,
    ) -> Result<Option<RequestKind>, String> {
        let (collection, object) = (self.core.own.collection, piece.push.object.clone());
        let push = &mut piece.push;
        match outcome {
            Outcome::Meta(Some(meta)) => {
                push.size = meta.size;
                // Each piece has the object's info, which tells its version.
                let mut attrs = meta.attrs.clone();
                if !push.cursor.is_start() {
                    attrs.retain(|name, _| *name == INFO_ATTR);
                }
                push.attrs = Some(attrs);
                piece.meta = meta;
                let offset = push.cursor.data_offset;
                if push.cursor.omap_after.is_none() && offset < push.size {
                    let length = self.core.own.sizes.piece_data_max.min(push.size - offset);
                    let read = RequestKind::Read { collection, object, offset, length };
                    return Ok(Some(read));
                }
            }
            Outcome::Read(read) => {
                let offset = push.cursor.data_offset;
                let end = offset + read.data.len() as u64;
                if end < push.size.min(offset + self.core.own.sizes.piece_data_max) {
                    return Err(format!("data ends at {end} of {}", push.size));
                }
                push.data = read.data;
                if end < push.size {
                    push.next = Some(Cursor { data_offset: end, omap_after: None });
                    return Ok(None);
                }
            }
            Outcome::OmapHeader(header) => {
                push.omap_header = header;
                return Ok(Some(self.omap_page(piece)));
            }
            Outcome::OmapPage(page) => {
                if let (true, Some((last, _))) = (page.more, page.pairs.last_key_value()) {
                    let omap_after = Some(last.clone());
                    push.next = Some(Cursor { data_offset: push.size, omap_after });
                }
                push.omap = page.pairs;
                return Ok(None);
            }
            other => return Err(format!("the store answers {other:?}")),
        }
        // All data is read.
        Ok(match (piece.meta.has_omap, &piece.push.cursor.omap_after) {
            (false, _) => None,
            (true, None) => Some(RequestKind::OmapHeader { collection, object }),
            (true, Some(_)) => Some(self.omap_page(piece)),
        })
    }

    fn omap_page(&self, piece: &Piece) -> RequestKind {
        RequestKind::OmapList {
            collection: self.core.own.collection,
            object: piece.push.object.clone(),
            after: piece.push.cursor.omap_after.clone(),
            prefix: bytes::Bytes::new(),
            entries_max: self.core.own.sizes.piece_omap_entries_max,
            bytes_max: PIECE_OMAP_BYTES_MAX,
        }
    }

    /// Answers with a page of our objects and versions.
    pub(crate) fn asked_to_list(&mut self, to: OsdId, from: HObject) {
        match self.core.copy.created {
            true => self.scan(Some(to), from),
            false => self.core.send(to, &Body::Listing(Listing { from, ..Listing::default() })),
        }
    }

    /// Lists objects with their versions from `from` on, for `to`, or for our own comparison.
    pub(crate) fn scan(&mut self, to: Option<OsdId>, from: HObject) {
        let job = self.core.transfers.sources.number();
        let scan = Scan { to, from: from.clone(), objects: Vec::new(), left: 0, next: None };
        self.core.transfers.sources.scans.insert(job, scan);
        let (collection, entries_max) =
            (self.core.own.collection, self.core.own.sizes.page_objects_max);
        self.core
            .ask_store(Tag::ScanPage(job), RequestKind::List { collection, from, entries_max });
    }

    /// Takes the names of a page, and reads the version of each.
    pub(crate) fn scan_page(&mut self, job: u64, outcome: Result<Outcome, StoreError>) {
        let Some(scan) = self.core.transfers.sources.scans.get_mut(&job) else { return };
        match outcome {
            Ok(Outcome::List(objects, next)) => {
                scan.next = next;
                let objects = objects.into_iter().filter(|object| !is_meta_object(object));
                scan.objects = objects.map(|object| (object, None)).collect();
                scan.left = scan.objects.len();
            }
            // Nothing was ever written, or nothing is backfilled yet.
            Err(StoreError::NoCollection(_))
                if scan.to.is_some() || self.core.copy.info.is_empty() => {}
            other => {
                let to = scan.to;
                self.core.transfers.sources.scans.remove(&job);
                tracing::error!(pg = %self.core.own.id, ?other, "objects cannot be listed");
                return match to {
                    Some(primary) => self.cannot_list(primary),
                    None => self.stop_comparing(),
                };
            }
        }
        let names: Vec<HObject> = scan.objects.iter().map(|(object, _)| object.clone()).collect();
        for (index, object) in names.into_iter().enumerate() {
            let kind = RequestKind::Meta { collection: self.core.own.collection, object };
            self.core.ask_store(Tag::ScanObject(job, index), kind);
        }
        self.end_scan(job);
    }

    /// Takes the version of one object of a page.
    pub(crate) fn scan_object(
        &mut self,
        job: u64,
        index: usize,
        outcome: Result<Outcome, StoreError>,
    ) {
        let Some(scan) = self.core.transfers.sources.scans.get_mut(&job) else { return };
        scan.left -= 1;
        // An object whose info is damaged, incomplete or unreadable has version zero: it counts as
        // present, but never as equal.
        scan.objects[index].1 = match outcome {
            Ok(Outcome::Meta(Some(meta))) => Some(version_of(&meta).unwrap_or(EVersion::ZERO)),
            Ok(Outcome::Meta(None)) => None,
            other => {
                let object = &scan.objects[index].0;
                tracing::error!(pg = %self.core.own.id, %object, ?other, "an object's info cannot be read");
                Some(EVersion::ZERO)
            }
        };
        self.end_scan(job);
    }

    fn end_scan(&mut self, job: u64) {
        if self.core.transfers.sources.scans.get(&job).is_none_or(|scan| scan.left > 0) {
            return;
        }
        let Scan { to, from, objects, next, .. } =
            self.core.transfers.sources.scans.remove(&job).expect("it was just there");
        let objects = objects.into_iter().filter_map(|(object, version)| Some((object, version?)));
        let objects = objects.collect();
        match to {
            Some(to) => self.core.send(to, &Body::Listing(Listing { from, objects, next })),
            None => self.scanned_own(objects, next),
        }
    }
}
