//! Operations on the omap.

use super::context::{Context, Stop};
use super::view::{Answer, Need};
use super::view::{ENTRY_COST, pairs_cost};
use crate::limits;
use bytes::Bytes;
use codec::{Reader, Writer};
use std::collections::BTreeMap;
use store::{Change, OmapPage};
use types::Errno;
use wire::OsdOp;
use wire::op::compare;

/// A string of the input, without a copy.
fn piece(r: &mut Reader<'_>, input: &Bytes, field: &'static str) -> Result<Bytes, Stop> {
    Ok(input.slice_ref(r.blob(field)?))
}

/// A page of pairs after a key and with a prefix; `None` if there is no omap.
pub(super) fn omap_page<'a>(
    context: &mut Context<'a>,
    after: Bytes,
    prefix: Bytes,
    entries_max: u64,
) -> Result<Option<&'a OmapPage>, Stop> {
    if !context.info.has_omap || !context.input.state.exists {
        return Ok(None);
    }
    let entries_max = entries_max.min(limits::OMAP_ENTRIES_PER_REQUEST_MAX) as usize;
    let bytes_max = limits::OMAP_BYTES_PER_REQUEST_MAX;
    match context.load(Need::OmapList { after, prefix, entries_max, bytes_max }) {
        Ok(Answer::OmapPage(page)) => {
            count_answer(context, &page.pairs)?;
            Ok(Some(page))
        }
        Err(stop) => {
            context.count_built(bytes_max as u64 + entries_max as u64 * ENTRY_COST);
            Err(stop)
        }
        Ok(other) => unreachable!("an omap page was answered by {other:?}"),
    }
}

/// The stored pairs of these keys; `None` if there is no omap.
pub(super) fn omap_pairs<'a>(
    context: &mut Context<'a>,
    keys: Vec<Bytes>,
) -> Result<Option<BTreeMap<Bytes, Bytes>>, Stop> {
    if !context.info.has_omap || !context.input.state.exists || keys.is_empty() {
        return Ok(None);
    }
    let mut found = BTreeMap::new();
    // In parts, because the length of values is not known in advance.
    for keys in keys.chunks(limits::OMAP_KEYS_AT_ONCE) {
        match context.load(Need::OmapGet { keys: keys.to_vec() }) {
            Ok(Answer::OmapPairs(pairs)) => {
                count_answer(context, pairs)?;
                found.extend(pairs.iter().map(|(key, value)| (key.clone(), value.clone())));
            }
            Ok(other) => unreachable!("omap values were answered by {other:?}"),
            Err(stop) => {
                context.count_built(keys.len() as u64 * limits::OMAP_VALUE_USUAL);
                return Err(stop);
            }
        }
    }
    Ok(Some(found))
}

/// Counts loaded pairs that become part of an output.
fn count_answer<'a>(context: &mut Context<'a>, pairs: &BTreeMap<Bytes, Bytes>) -> Result<(), Stop> {
    context.count_built(pairs_cost(pairs));
    context.check_allowance()
}

/// The omap's header; empty if there is none.
pub(super) fn stored_omap_header<'a>(context: &mut Context<'a>) -> Result<Bytes, Stop> {
    if !context.info.has_omap || !context.input.state.exists {
        return Ok(Bytes::new());
    }
    match context.load(Need::OmapHeader)? {
        Answer::OmapHeader(header) => Ok(header.clone()),
        other => unreachable!("an omap header was answered by {other:?}"),
    }
}

pub(super) fn omap_keys<'a>(context: &mut Context<'a>, op: &OsdOp) -> Result<i32, Stop> {
    let mut r = Reader::new(&op.input);
    let after = piece(&mut r, &op.input, "start after")?;
    let entries_max = r.u64("entries")?;
    let page = omap_page(context, after, Bytes::new(), entries_max)?;
    let mut w = Writer::new();
    w.count(page.map_or(0, |page| page.pairs.len()));
    page.iter().flat_map(|page| page.pairs.keys()).for_each(|key| w.value(key));
    w.bool(page.is_some_and(|page| page.more));
    context.output = w.into_bytes();
    Ok(context.result)
}

pub(super) fn omap_values<'a>(context: &mut Context<'a>, op: &OsdOp) -> Result<i32, Stop> {
    let mut r = Reader::new(&op.input);
    let after = piece(&mut r, &op.input, "start after")?;
    let entries_max = r.u64("entries")?;
    let prefix = piece(&mut r, &op.input, "prefix")?;
    let page = omap_page(context, after, prefix, entries_max)?;
    let mut w = Writer::new();
    match page {
        Some(page) => w.value(&page.pairs),
        None => w.count(0),
    }
    w.bool(page.is_some_and(|page| page.more));
    context.output = w.into_bytes();
    Ok(context.result)
}

pub(super) fn omap_header<'a>(context: &mut Context<'a>) -> Result<i32, Stop> {
    let header = stored_omap_header(context)?;
    context.count_shared(header.len() as u64);
    context.output = header;
    Ok(context.result)
}

pub(super) fn omap_values_by_keys<'a>(context: &mut Context<'a>, op: &OsdOp) -> Result<i32, Stop> {
    context.count_list(&op.input)?;
    let mut r = Reader::new(&op.input);
    let mut keys = r.list("keys", |r| Ok(op.input.slice_ref(r.blob("key")?)))?;
    keys.sort_unstable();
    keys.dedup();
    context.output = match omap_pairs(context, keys)? {
        Some(pairs) => codec::encode_to_bytes(&pairs),
        None => codec::encode_to_bytes(&0u32),
    };
    Ok(context.result)
}

/// Compares stored values, on the left, with given ones. An absent key has an empty value.
pub(super) fn omap_compare<'a>(context: &mut Context<'a>, op: &OsdOp) -> Result<i32, Stop> {
    if !context.exists {
        return Err(Errno::NOENT.into());
    }
    context.count_list(&op.input)?;
    let mut r = Reader::new(&op.input);
    let assertions = r.list("assertions", |r| {
        let key = op.input.slice_ref(r.blob("key")?);
        let value = op.input.slice_ref(r.blob("value")?);
        Ok((key, (value, r.i32("comparison")?)))
    })?;
    let assertions: BTreeMap<_, _> = assertions.into_iter().collect();
    let stored = omap_pairs(context, assertions.keys().cloned().collect())?;
    let empty = Bytes::new();
    for (key, (value, operator)) in &assertions {
        let stored = stored.as_ref().and_then(|stored| stored.get(key)).unwrap_or(&empty);
        let holds = match u8::try_from(*operator) {
            Ok(compare::EQ) => stored == value,
            Ok(compare::LT) => stored < value,
            Ok(compare::GT) => stored > value,
            _ => return Err(Errno::INVAL.into()),
        };
        if !holds {
            return Err(Errno::CANCELED.into());
        }
    }
    Ok(context.result)
}

pub(super) fn omap_set_op<'a>(context: &mut Context<'a>, op: &OsdOp) -> Result<i32, Stop> {
    context.count_list(&op.input)?;
    let mut r = Reader::new(&op.input);
    let pairs = r.list("pairs", |r| {
        let key = op.input.slice_ref(r.blob("key")?);
        Ok((key, op.input.slice_ref(r.blob("value")?)))
    })?;
    omap_set(context, pairs.into_iter().collect())
}

pub(super) fn omap_set<'a>(
    context: &mut Context<'a>,
    pairs: BTreeMap<Bytes, Bytes>,
) -> Result<i32, Stop> {
    context.create();
    context.touched = true;
    context.info.has_omap = true;
    let object = context.input.object.clone();
    context.changes.push(Change::OmapSet { object, pairs });
    Ok(0)
}

pub(super) fn omap_set_header<'a>(context: &mut Context<'a>, header: Bytes) -> Result<i32, Stop> {
    context.create();
    context.info.has_omap = true;
    let object = context.input.object.clone();
    context.changes.push(Change::OmapSetHeader { object, header });
    Ok(0)
}

fn require_existing<'a>(context: &Context<'a>) -> Result<(), Stop> {
    if context.exists { Ok(()) } else { Err(Errno::NOENT.into()) }
}

pub(super) fn omap_clear<'a>(context: &mut Context<'a>) -> Result<i32, Stop> {
    require_existing(context)?;
    if context.info.has_omap {
        context.info.has_omap = false;
        context.changes.push(Change::OmapClear { object: context.input.object.clone() });
    }
    Ok(0)
}

pub(super) fn omap_remove_op<'a>(context: &mut Context<'a>, op: &OsdOp) -> Result<i32, Stop> {
    require_existing(context)?;
    context.count_list(&op.input)?;
    let mut r = Reader::new(&op.input);
    let keys = r.list("keys", |r| Ok(op.input.slice_ref(r.blob("key")?)))?;
    omap_remove(context, keys)
}

pub(super) fn omap_remove<'a>(context: &mut Context<'a>, keys: Vec<Bytes>) -> Result<i32, Stop> {
    require_existing(context)?;
    let object = context.input.object.clone();
    context.changes.push(Change::OmapRemove { object, keys });
    Ok(0)
}

pub(super) fn omap_remove_range<'a>(context: &mut Context<'a>, op: &OsdOp) -> Result<i32, Stop> {
    require_existing(context)?;
    let mut r = Reader::new(&op.input);
    let first = piece(&mut r, &op.input, "first key")?;
    let last = piece(&mut r, &op.input, "last key")?;
    if first < last {
        let object = context.input.object.clone();
        context.changes.push(Change::OmapRemoveRange { object, first, last });
    } else {
        context.touched = true;
    }
    Ok(0)
}
