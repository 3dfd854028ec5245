//! Reads of rows in our own store: for jobs of this copy, and for primaries.

use super::ranges::RowSet;
use super::state::Local;
use crate::Member;
use crate::core::{Core, settling};
use crate::message::{Body, NoRows, ReadRows, Rows, ShardRows};
use crate::{INFO_ATTR, ObjectInfo, Tag};
use bytes::Bytes;
use store::{ObjectMeta, Outcome, RequestKind, StoreError};
use types::{EVersion, HObject};

/// Reads that are begun again before the object counts as unreadable: this may be one of the last shards.
const REREADS_MAX: u32 = 3;

/// The place of the metadata among the requests of a read; ranges follow.
const META: usize = 0;

/// The end of a read of our own: its number, and the rows.
pub(super) type Answer = (u64, Result<ShardRows, NoRows>);

/// A primary asks for rows of our shard. `committed` is zero if this copy may not settle anything.
pub(crate) fn handle_read_rows(core: &mut Core, from: Member, asked: ReadRows) {
    let ReadRows { request, committed, object, with_attrs, ranges } = asked;
    if !core.copy.created {
        return answer(core, from, request, Err(NoRows::Absent));
    }
    let number = core.rows.number();
    let local = Local::new(Some((from, request)), object, with_attrs, ranges);
    read_settled(core, (number, local), committed);
}

/// Reads rows of our own shard for a job of our own.
pub(super) fn read_own(
    core: &mut Core,
    number: u64,
    object: HObject,
    with_attrs: bool,
    rows: &RowSet,
    committed: EVersion,
) {
    let local = Local::new(None, object, with_attrs, rows.byte_ranges());
    read_settled(core, (number, local), committed);
}

/// Our store shows more than before: goes on with the reads that wait.
pub(crate) fn settled(core: &mut Core) {
    for (number, local, committed) in std::mem::take(&mut core.rows.unsettled) {
        read_settled(core, (number, local), committed);
    }
}

/// Reads once the store shows all changes of the object up to this version; zero stands for what it shows
/// now.
fn read_settled(core: &mut Core, (number, local): (u64, Local), committed: EVersion) {
    if committed > EVersion::ZERO && !settling::has_settled(core, &local.object, committed) {
        return core.rows.unsettled.push((number, local, committed));
    }
    // Settling removes items of objects that the changes replace.
    if let Some((from, request)) = local.to
        && core.copy.missing.stored(&local.object).is_some()
    {
        return answer(core, from, request, Err(NoRows::Absent));
    }
    (META..=local.ranges.len()).for_each(|index| ask(core, number, &local, index));
    let before = core.rows.local.insert(number, local);
    assert!(before.is_none(), "a number belongs to one read");
}

impl Local {
    fn new(
        to: Option<(Member, u64)>,
        object: HObject,
        with_attrs: bool,
        ranges: Vec<(u64, u64)>,
    ) -> Self {
        let data = vec![None; ranges.len()];
        Local { to, object, ranges, with_attrs, meta: None, data, failures: 0 }
    }
}

fn ask(core: &mut Core, number: u64, local: &Local, index: usize) {
    let (collection, object) = (core.own.collection, local.object.clone());
    let kind = match index.checked_sub(META + 1) {
        None => RequestKind::Meta { collection, object },
        Some(range) => {
            let (offset, length) = local.ranges[range];
            RequestKind::Read { collection, object, offset, length }
        }
    };
    core.ask_store(Tag::Rows(number, index), kind);
}

/// Takes the outcome of a request of a read. Answers the primary, or returns the end of a read of our own.
pub(super) fn advance(
    core: &mut Core,
    number: u64,
    index: usize,
    outcome: Result<Outcome, StoreError>,
) -> Option<Answer> {
    let mut local = core.rows.local.remove(&number)?;
    if outcome.as_ref().is_err_and(StoreError::may_heal) && local.failures < REREADS_MAX {
        local.failures += 1;
        ask(core, number, &local, index);
        core.rows.local.insert(number, local);
        return None;
    }
    let failed = match outcome {
        Ok(Outcome::Meta(Some(meta))) => take_meta(&mut local, meta),
        Ok(Outcome::Read(read)) => {
            local.data[index - META - 1] = Some(read.data);
            Ok(())
        }
        Ok(Outcome::Meta(None))
        | Err(StoreError::NoObject { .. } | StoreError::NoCollection(_)) => Err(NoRows::Absent),
        other => {
            let (pg, object) = (core.own.id, &local.object);
            tracing::error!(%pg, %object, ?other, "rows of an object cannot be read");
            Err(NoRows::Unreadable)
        }
    };
    let outcome = match failed {
        Err(reason) => Err(reason),
        Ok(()) if local.meta.is_some() && local.data.iter().all(Option::is_some) => {
            rows(&mut local)
        }
        Ok(()) => {
            core.rows.local.insert(number, local);
            return None;
        }
    };
    let Some((to, request)) = local.to else { return Some((number, outcome)) };
    answer(core, to, request, outcome);
    None
}

fn answer(core: &mut Core, to: Member, request: u64, outcome: Result<ShardRows, NoRows>) {
    core.send(to, &Body::Rows(Box::new(Rows { request, outcome })));
}

fn take_meta(local: &mut Local, meta: ObjectMeta) -> Result<(), NoRows> {
    let info = meta.attrs.get(&INFO_ATTR).ok_or(NoRows::Unreadable)?;
    let info = codec::decode_all::<ObjectInfo>("info", info).map_err(|_| NoRows::Unreadable)?;
    local.meta = Some((info.version, meta.size, meta.attrs));
    Ok(())
}

/// The rows of a read of which all parts are here.
fn rows(local: &mut Local) -> Result<ShardRows, NoRows> {
    let (version, size, attrs) = local.meta.take().expect("it was read");
    let data: Vec<Bytes> = local.data.drain(..).flatten().collect();
    let is_whole = |(range, data): (&(u64, u64), &Bytes)| {
        let (offset, length) = *range;
        data.len() as u64 >= size.saturating_sub(offset).min(length)
    };
    match local.ranges.iter().zip(&data).all(is_whole) {
        true => Ok(ShardRows { version, attrs: local.with_attrs.then_some(attrs), data }),
        false => Err(NoRows::Unreadable),
    }
}
