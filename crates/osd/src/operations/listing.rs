//! Listing of a group's objects (`PGNLS`, and the older `PGLS`).

use crate::limits;
use crate::operations::checks::ALL_NAMESPACES;
use crate::operations::request::{Page, Request};
use crate::operations::service::Service;
use crate::operations::shards::read_store;
use crate::operations::state::state_of;
use crate::tokens::Token;
use bytes::Bytes;
use codec::{Reader, Writer};
use std::collections::BTreeSet;
use store::{Outcome, RequestKind, StoreError};
use types::{Errno, HObject, PgId, SnapId};
use wire::OsdOp;
use wire::listing::{ListedObject, PgListing};
use wire::op::OpCode;

/// Runs a request for a listing.
pub(crate) fn list(s: &mut Service<'_>, key: u64) {
    if let Err(errno) = try_list(s, key) {
        s.reply_error(key, errno);
    }
}

fn try_list(s: &mut Service<'_>, key: u64) -> Result<(), Errno> {
    if !s.ops.reserve(&s.cx.env.config.sizes.budgets, key, limits::LISTING_COST)? {
        return Ok(());
    }
    let request = s.ops.requests.get(key).expect("the caller has it");
    // Clients send one operation at a time.
    let [op] = request.message.ops.as_slice() else { return Err(Errno::INVAL) };
    match op.code {
        OpCode::PGNLS | OpCode::PGLS => {}
        OpCode::SCRUBLS => {
            let interval = s.group.pg.interval();
            let (result, output) = s.group.scrub.list_inconsistent(interval, &op.input)?;
            reply_listing(s, key, result, output);
            return Ok(());
        }
        OpCode::PGNLS_FILTER | OpCode::PGLS_FILTER => {
            return Err(Errno::NOTSUPP);
        }
        _ => return Err(Errno::INVAL),
    }
    if request.message.object.snap != SnapId::HEAD {
        return Err(Errno::INVAL);
    }
    let pool = s.cx.map.pool(request.pg.pg.pool).ok_or(Errno::NOENT)?;
    let (start, end) = range_of(request.pg.pg, pool.pg_num);
    let cursor: HObject = Reader::new(&op.input).value().map_err(|_| Errno::INVAL)?;
    let is_beginning = cursor.name.is_empty() && cursor.hash == 0 && !cursor.max;
    let from = match is_beginning {
        true => start,
        false if cursor < start || !cursor.max && cursor >= end => return Err(Errno::INVAL),
        false => cursor,
    };
    let entries_max = entries_max(op) as usize;
    let (collection, attempt) = (s.group.pg.collection(), request.attempt);
    let kind = RequestKind::List { collection, from, entries_max };
    read_store(s, Token::Listing { request: key, attempt }, kind);
    Ok(())
}

/// Handles a page of names from the store.
pub(crate) fn listed(
    s: &mut Service<'_>,
    key: u64,
    attempt: u32,
    outcome: Result<Outcome, StoreError>,
) {
    let Some(request) = s.ops.requests.get(key).filter(|r| r.attempt == attempt) else {
        return;
    };
    let (objects, next) = match outcome {
        Ok(Outcome::List(objects, next)) => (objects, next),
        Err(StoreError::NoCollection(_)) => (Vec::new(), None),
        other => {
            tracing::error!(?other, "objects cannot be listed");
            return s.reply_error(key, Errno::IO);
        }
    };
    let objects = with_missing(s, request, objects, next.as_ref());
    let doubtful = if s.may_have_clones() { doubtful(&objects) } else { Vec::new() };
    if doubtful.is_empty() {
        return finish_listing(s, key, objects, next);
    }
    let request = s.ops.requests.get_mut(key).expect("it was just there");
    request.outstanding = doubtful.len();
    let collection = s.group.pg.collection();
    let page = Page { objects, next, whiteouts: BTreeSet::new() };
    request.page = Some(Box::new(page));
    for object in doubtful {
        let token = Token::Listed { request: key, attempt, object: object.clone() };
        let kind = RequestKind::Meta { collection, object: object.clone() };
        read_store(s, token, kind);
    }
}

/// Handles the metadata of a head that may be a whiteout: an object that only keeps its clones.
pub(crate) fn listed_object(
    s: &mut Service<'_>,
    key: u64,
    attempt: u32,
    object: &HObject,
    outcome: Result<Outcome, StoreError>,
) {
    let request = s.ops.requests.get_mut(key).filter(|r| r.attempt == attempt);
    let Some(request) = request else { return };
    let Some(page) = &mut request.page else { return };
    let state = match outcome {
        Ok(Outcome::Meta(Some(meta))) => state_of(&meta),
        _ => None,
    };
    if state.is_some_and(|state| !state.exists) {
        page.whiteouts.insert(object.clone());
    }
    request.outstanding -= 1;
    if request.outstanding > 0 {
        return;
    }
    let Page { mut objects, next, whiteouts } = *request.page.take().expect("it was there");
    objects.retain(|object| !whiteouts.contains(object));
    finish_listing(s, key, objects, next);
}

fn finish_listing(s: &mut Service<'_>, key: u64, objects: Vec<HObject>, next: Option<HObject>) {
    let Some(request) = s.ops.requests.get(key) else { return };
    let namespace = &request.message.object.namespace;
    let wanted = |object: &&HObject| {
        !pg::is_meta_object(object)
            && object.snap == SnapId::HEAD
            && (*namespace == ALL_NAMESPACES || object.namespace == *namespace)
    };
    let objects: Vec<&HObject> = objects.iter().filter(wanted).collect();
    let is_last = next.is_none();
    let pg_num = s.cx.map.pool(request.pg.pg.pool).map_or(1, |pool| pool.pg_num);
    let handle = next.unwrap_or_else(|| range_of(request.pg.pg, pg_num).1);
    let is_new = request.message.ops[0].code == OpCode::PGNLS;
    let output = match is_new {
        true => encode_listing(&objects, handle),
        false => encode_old_listing(&objects, if is_last { HObject::max() } else { handle }),
    };
    reply_listing(s, key, i32::from(is_last), output);
}

/// Adds the objects that the log knows and the store does not have yet to the page.
fn with_missing(
    s: &Service<'_>,
    request: &Request,
    mut objects: Vec<HObject>,
    next: Option<&HObject>,
) -> Vec<HObject> {
    let missing = s.group.pg.missing();
    if missing.is_empty() {
        return objects;
    }
    let Some(pool) = s.cx.map.pool(request.pg.pg.pool) else { return objects };
    let start = range_of(request.pg.pg, pool.pg_num).0;
    let cursor = Reader::new(&request.message.ops[0].input).value::<HObject>();
    let from = cursor.map_or(start.clone(), |cursor| cursor.max(start));
    let until = |object: &&HObject| next.is_none_or(|next| *object < next);
    objects.extend(missing.range_from(&from).take_while(until).cloned());
    objects.sort_unstable();
    objects.dedup();
    objects
}

/// Replies with an encoded listing; `result` is 1 at its end.
fn reply_listing(s: &mut Service<'_>, key: u64, result: i32, output: Bytes) {
    let info = s.group.pg.info();
    let (version, user_version) = (info.last_update, info.last_user_version);
    let mut execution = crate::execute::Execution { result, ..Default::default() };
    execution.outputs.push((0, output));
    execution.info.user_version = user_version;
    s.ops.reply_written(&mut s.cx, key, &execution, version);
}

/// The heads that follow their clones, and so may be whiteouts.
fn doubtful(objects: &[HObject]) -> Vec<HObject> {
    let clones_before = |index: usize| match index.checked_sub(1) {
        None => true,
        Some(before) => objects[before].is_of_family(&objects[index]),
    };
    let heads = objects.iter().enumerate().filter(|(_, object)| object.snap == SnapId::HEAD);
    let heads = heads.filter(|(index, head)| !pg::is_meta_object(head) && clones_before(*index));
    heads.map(|(_, head)| head.clone()).collect()
}

fn entries_max(op: &OsdOp) -> u64 {
    op.list_arguments().0.clamp(1, limits::LISTING_ENTRIES_MAX)
}

fn encode_listing(objects: &[&HObject], handle: HObject) -> Bytes {
    let entry = |object: &&HObject| ListedObject {
        namespace: object.namespace.clone(),
        name: object.name.clone(),
        key: object.key.clone(),
    };
    let entries = objects.iter().map(entry).collect();
    codec::encode_to_bytes(&PgListing { handle, entries })
}

/// `pg_ls_response_t`
fn encode_old_listing(objects: &[&HObject], handle: HObject) -> Bytes {
    let mut w = Writer::new();
    w.u8(1);
    w.value(&handle);
    w.list(objects, |w, object| {
        w.blob(&object.name);
        w.blob(&object.key);
    });
    w.into_bytes()
}

/// The first object that a group may hold, and the first one after all of its objects: in listing
/// order a group is one range, because that order reverses the bits of the hash.
fn range_of(pg: PgId, pg_num: u32) -> (HObject, HObject) {
    let start = HObject::hash_start(pg.pool, pg.seed);
    let (_, last) = pg::split::hashes_of(pg.seed, pg_num).reversed();
    let end = match last.checked_add(1) {
        Some(end) => {
            HObject { snap: SnapId::HEAD, ..HObject::hash_start(pg.pool, end.reverse_bits()) }
        }
        None => HObject::max(),
    };
    (start, end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::PoolId;

    #[test]
    fn the_ranges_of_all_groups_follow_each_other() {
        for pg_num in [1, 2, 3, 8, 12, 100] {
            let pgs = (0..pg_num).map(|seed| PgId { pool: PoolId(1), seed });
            let mut ranges: Vec<_> = pgs.map(|pg| range_of(pg, pg_num)).collect();
            ranges.sort();
            for pair in ranges.windows(2) {
                assert_eq!(pair[0].1.hash, pair[1].0.hash, "of {pg_num}");
            }
            assert!(ranges.last().unwrap().1.max);
        }
    }
}
