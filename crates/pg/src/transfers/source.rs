//! Reads of this copy for other members: objects in pieces, and listings with versions.

use super::jobs::{Ended, Piece, Scan};
use crate::Member;
use crate::core::{Core, settling};
use crate::message::{Body, Cursor, Listing, Push};
use crate::{INFO_ATTR, ObjectInfo, Tag, is_meta_object};
use store::{ObjectMeta, Outcome, RequestKind, StoreError};
use types::{EVersion, HObject};

/// Bytes of omap in one piece; [`crate::Sizes`] bounds the number of pairs, and the data.
const PIECE_OMAP_BYTES_MAX: usize = 1 << 20;
/// Times that a piece is read again before its object counts as unreadable: this may be the only copy.
const REREADS_MAX: u32 = 3;

/// Reads a piece of an object, and pushes it to an OSD.
pub(crate) fn push_piece(core: &mut Core, to: Member, object: HObject, cursor: Cursor) {
    let push = Push { object: object.clone(), cursor, ..Push::default() };
    read_piece(core, Piece { to, meta: ObjectMeta::default(), push, failures: 0 });
}

fn read_piece(core: &mut Core, piece: Piece) {
    let (job, object) = (core.transfers.sources.number(), piece.push.object.clone());
    let before = core.transfers.sources.pieces.insert(job, piece);
    assert!(before.is_none(), "a number belongs to one piece");
    core.ask_store(Tag::Source(job), RequestKind::Meta { collection: core.own.collection, object });
}

/// Takes the outcome of a read of a piece. `is_owed` says whether an OSD is to get an object because it
/// misses it.
pub(crate) fn source_read(
    core: &mut Core,
    job: u64,
    outcome: Result<Outcome, StoreError>,
    is_owed: impl Fn(Member, &HObject) -> bool,
) -> Option<Ended> {
    let mut piece = core.transfers.sources.pieces.remove(&job)?;
    if outcome.as_ref().is_err_and(StoreError::may_heal) && piece.failures < REREADS_MAX {
        let Push { object, cursor, .. } = piece.push;
        let push = Push { object, cursor, ..Push::default() };
        let meta = ObjectMeta::default();
        let failures = piece.failures + 1;
        read_piece(core, Piece { to: piece.to, meta, push, failures });
        return None;
    }
    // The store need not have the object: no piece of it was sent yet, and the log does not require it.
    let may_be_absent = piece.is_first() && !is_owed(piece.to, &piece.push.object);
    let next = match outcome {
        Ok(Outcome::Meta(None)) if may_be_absent => Ok(None),
        Err(StoreError::NoCollection(_)) if may_be_absent => Ok(None),
        Ok(outcome) => next_read(core, &mut piece, outcome),
        Err(error) => Err(error.to_string()),
    };
    match next {
        Ok(Some(kind)) => {
            core.transfers.sources.pieces.insert(job, piece);
            core.ask_store(Tag::Source(job), kind);
            None
        }
        Ok(None) => Some(Ended::Read { to: piece.to, push: Box::new(piece.push) }),
        Err(error) => {
            let version = ObjectInfo::version_in(&piece.meta.attrs);
            let object = piece.push.object;
            tracing::error!(pg = %core.own.id, %object, error, "an object cannot be read");
            Some(Ended::Unreadable { object, to: piece.to, version })
        }
    }
}

/// Takes the outcome of a read, and returns the next one for the same piece; `None` if it is complete.
fn next_read(
    core: &Core,
    piece: &mut Piece,
    outcome: Outcome,
) -> Result<Option<RequestKind>, String> {
    let (collection, object) = (core.own.collection, piece.push.object.clone());
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
                let length = core.own.sizes.piece_data_max.min(push.size - offset);
                let read = RequestKind::Read { collection, object, offset, length };
                return Ok(Some(read));
            }
        }
        Outcome::Read(read) => {
            let offset = push.cursor.data_offset;
            let end = offset + read.data.len() as u64;
            if end < push.size.min(offset + core.own.sizes.piece_data_max) {
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
            return Ok(Some(omap_page(core, piece)));
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
        (true, Some(_)) => Some(omap_page(core, piece)),
    })
}

fn omap_page(core: &Core, piece: &Piece) -> RequestKind {
    RequestKind::OmapList {
        collection: core.own.collection,
        object: piece.push.object.clone(),
        after: piece.push.cursor.omap_after.clone(),
        prefix: bytes::Bytes::new(),
        entries_max: core.own.sizes.piece_omap_entries_max,
        bytes_max: PIECE_OMAP_BYTES_MAX,
    }
}

/// Answers with a page of our objects and versions, once changes up to `committed` are settled.
pub(crate) fn handle_list(core: &mut Core, to: Member, from: HObject, committed: EVersion) {
    match core.copy.created {
        true => scan(core, Some(to), from, committed),
        false => core.send(to, &Body::Listing(Listing { from, ..Listing::default() })),
    }
}

/// Lists objects with their versions from `from` on, for `to`, or for our own comparison, once changes up to
/// `committed` are settled.
pub(crate) fn scan(core: &mut Core, to: Option<Member>, from: HObject, committed: EVersion) {
    if settling::settled(core) < committed {
        settling::settle(core, committed);
        return core.transfers.unsettled.push((to, from, committed));
    }
    let job = core.transfers.sources.number();
    let scan = Scan { to, from: from.clone(), objects: Vec::new(), left: 0, next: None };
    let before = core.transfers.sources.scans.insert(job, scan);
    assert!(before.is_none(), "a number belongs to one listing");
    let (collection, entries_max) = (core.own.collection, core.own.sizes.page_objects_max);
    core.ask_store(Tag::ScanPage(job), RequestKind::List { collection, from, entries_max });
}

/// Our store shows more changes than before: goes on with the listings that wait.
pub(crate) fn settled(core: &mut Core) {
    for (to, from, committed) in std::mem::take(&mut core.transfers.unsettled) {
        scan(core, to, from, committed);
    }
}

/// Takes the names of a page, and reads the version of each.
pub(crate) fn scan_page(
    core: &mut Core,
    job: u64,
    outcome: Result<Outcome, StoreError>,
) -> Option<Ended> {
    let scan = core.transfers.sources.scans.get_mut(&job)?;
    match outcome {
        Ok(Outcome::List(objects, next)) => {
            scan.next = next;
            let objects = objects.into_iter().filter(|object| !is_meta_object(object));
            scan.objects = objects.map(|object| (object, None)).collect();
            scan.left = scan.objects.len();
        }
        // Nothing was ever written, or nothing is backfilled yet.
        Err(StoreError::NoCollection(_)) if scan.to.is_some() || core.copy.info.is_empty() => {}
        other => {
            let to = scan.to;
            core.transfers.sources.scans.remove(&job);
            tracing::error!(pg = %core.own.id, ?other, "objects cannot be listed");
            return Some(Ended::NotListed { to });
        }
    }
    let names: Vec<HObject> = scan.objects.iter().map(|(object, _)| object.clone()).collect();
    for (index, object) in names.into_iter().enumerate() {
        let kind = RequestKind::Meta { collection: core.own.collection, object };
        core.ask_store(Tag::ScanObject(job, index), kind);
    }
    end_scan(core, job)
}

/// Takes the version of one object of a page.
pub(crate) fn scan_object(
    core: &mut Core,
    job: u64,
    index: usize,
    outcome: Result<Outcome, StoreError>,
) -> Option<Ended> {
    let scan = core.transfers.sources.scans.get_mut(&job)?;
    assert!(scan.left > 0 && index < scan.objects.len(), "each info is read once");
    scan.left -= 1;
    // An object whose info is damaged, incomplete or unreadable has version zero: it counts as
    // present, but never as equal.
    scan.objects[index].1 = match outcome {
        Ok(Outcome::Meta(Some(meta))) => {
            Some(ObjectInfo::version_in(&meta.attrs).unwrap_or(EVersion::ZERO))
        }
        Ok(Outcome::Meta(None)) => None,
        other => {
            let object = &scan.objects[index].0;
            tracing::error!(pg = %core.own.id, %object, ?other, "an object's info cannot be read");
            Some(EVersion::ZERO)
        }
    };
    end_scan(core, job)
}

fn end_scan(core: &mut Core, job: u64) -> Option<Ended> {
    if core.transfers.sources.scans.get(&job).is_none_or(|scan| scan.left > 0) {
        return None;
    }
    let Scan { to, from, objects, next, .. } =
        core.transfers.sources.scans.remove(&job).expect("it was just there");
    let objects = objects.into_iter().filter_map(|(object, version)| Some((object, version?)));
    let objects = objects.collect();
    let Some(to) = to else { return Some(Ended::Listed { objects, next }) };
    core.send(to, &Body::Listing(Listing { from, objects, next }));
    None
}
