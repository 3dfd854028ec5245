//! Operations that change data, and create or remove the object.

use super::context::{AttrDelta, Context, Effect, Stop};
use super::read::normalized;
use crate::limits;
use bytes::{Bytes, BytesMut};
use codec::Reader;
use pg::{AllocHint, ObjectInfo};
use store::Change;
use types::Errno;
use wire::OsdOp;
use wire::op::{OpCode, op_flags};
use wire::osd_op::Extent;

/// Offset and length that a `WRITESAME` writes with its repetitions. `EINVAL` or `EFBIG` if it
/// fails on any object.
pub(crate) fn repeated_extent(op: &OsdOp) -> Result<(u64, u64), Errno> {
    let (offset, length, data_length) = op.write_same_arguments();
    if length == 0 {
        return Ok((offset, 0));
    }
    let divides = data_length != 0 && length.is_multiple_of(data_length);
    if !divides || data_length != op.input.len() as u64 {
        return Err(Errno::INVAL);
    }
    check_extent(offset, length)?;
    Ok((offset, length))
}

pub(super) fn write_op(context: &mut Context<'_>, op: &OsdOp) -> Result<i32, Stop> {
    let extent = normalized(op.extent());
    if extent.length != op.input.len() as u64 {
        return Err(Errno::INVAL.into());
    }
    write_extent(context, extent, op.input.clone())
}

/// Writes `data` at `extent.offset`, taking account of truncations that arrived out of order:
/// CephFS clients truncate and write in parallel and number their truncations.
fn write_extent(context: &mut Context<'_>, extent: Extent, mut data: Bytes) -> Result<i32, Stop> {
    let (seq, size) = (context.info.truncate_seq, context.info.size);
    let overtaken = seq != 0 && seq > extent.truncate_seq;
    let end = extent.offset.saturating_add(data.len() as u64);
    if overtaken && end > size {
        data.truncate(size.saturating_sub(extent.offset) as usize);
    }
    check_extent(extent.offset, data.len() as u64)?;
    context.input.pool.check_append(extent.offset, context.info.size)?;
    if extent.truncate_seq > seq {
        truncate_early(context, &extent);
    }
    context.create();
    if !data.is_empty() {
        put_data(context, extent.offset, data);
    } else if extent.offset > context.info.size && !overtaken {
        truncate_to(context, extent.offset);
    } else {
        context.touched = true;
    }
    Ok(0)
}

/// Applies a truncation that the writer knows of and that has not arrived yet.
fn truncate_early(context: &mut Context<'_>, extent: &Extent) {
    if context.exists {
        truncate_to(context, extent.truncate_size);
    }
    context.info.truncate_seq = extent.truncate_seq;
    context.info.truncate_size = extent.truncate_size;
}

fn put_data(context: &mut Context<'_>, offset: u64, data: Bytes) {
    context.info.size = context.info.size.max(offset + data.len() as u64);
    context.changes.push(Change::Write { object: context.input.object.clone(), offset, data });
}

fn truncate_to(context: &mut Context<'_>, size: u64) {
    context.info.size = size;
    context.changes.push(Change::Truncate { object: context.input.object.clone(), size });
}

pub(super) fn write_full_op(context: &mut Context<'_>, op: &OsdOp) -> Result<i32, Stop> {
    if op.extent().length != op.input.len() as u64 {
        return Err(Errno::INVAL.into());
    }
    write_full(context, op.input.clone())
}

pub(super) fn write_full(context: &mut Context<'_>, data: Bytes) -> Result<i32, Stop> {
    let length = data.len() as u64;
    check_extent(0, length)?;
    context.create();
    if length < context.info.size {
        truncate_to(context, length);
    }
    match length {
        0 => context.touched = true,
        _ => put_data(context, 0, data),
    }
    Ok(0)
}

pub(super) fn append(context: &mut Context<'_>, op: &OsdOp) -> Result<i32, Stop> {
    let extent = Extent {
        offset: context.info.size,
        truncate_seq: context.info.truncate_seq,
        ..Extent::default()
    };
    if op.extent().length != op.input.len() as u64 {
        return Err(Errno::INVAL.into());
    }
    write_extent(context, extent, op.input.clone())
}

/// Writes at an offset for an object class.
pub(super) fn write_at(context: &mut Context<'_>, offset: u64, data: Bytes) -> Result<i32, Stop> {
    let truncate_seq = context.info.truncate_seq;
    write_extent(context, Extent { offset, truncate_seq, ..Extent::default() }, data)
}

pub(super) fn write_same(context: &mut Context<'_>, op: &OsdOp) -> Result<i32, Stop> {
    let (offset, length) = repeated_extent(op)?;
    if length == 0 {
        return Ok(0);
    }
    context.count(length);
    context.check_allowance()?;
    let mut data = BytesMut::with_capacity(length as usize);
    while (data.len() as u64) < length {
        data.extend_from_slice(&op.input);
    }
    write_extent(context, Extent { offset, ..Extent::default() }, data.freeze())
}

/// Zeroing the end of an object truncates it, as in Ceph.
pub(super) fn zero(context: &mut Context<'_>, op: &OsdOp) -> Result<i32, Stop> {
    let Extent { offset, length, .. } = op.extent();
    let max = crate::limits::OBJECT_SIZE_MAX;
    let to_the_end = context.exists
        && offset < max
        && (1..=max).contains(&length)
        && offset + length >= context.info.size;
    if to_the_end {
        if offset < context.info.size {
            truncate_to(context, offset);
        }
        return Ok(context.result);
    }
    check_extent(offset, length)?;
    if length > 0 && context.exists {
        context.changes.push(Change::Zero { object: context.input.object.clone(), offset, length });
    }
    Ok(0)
}

pub(super) fn truncate_op(context: &mut Context<'_>, op: &OsdOp) -> Result<i32, Stop> {
    let mut extent = normalized(op.extent());
    if op.code == OpCode::TRIMTRUNC {
        extent.offset = extent.truncate_size;
    }
    if !context.exists {
        return Ok(0);
    }
    check_extent(extent.offset, extent.length)?;
    if extent.truncate_seq != 0 {
        if extent.offset != extent.truncate_size {
            return Err(Errno::INVAL.into());
        }
        if extent.truncate_seq <= context.info.truncate_seq {
            return Ok(0); // a newer one came first
        }
        context.info.truncate_seq = extent.truncate_seq;
        context.info.truncate_size = extent.truncate_size;
    }
    truncate_to(context, extent.offset);
    Ok(0)
}

/// Truncates for an object class.
pub(super) fn truncate(context: &mut Context<'_>, size: u64) -> Result<i32, Stop> {
    check_extent(size, 0)?;
    if context.input.pool.append_unit.is_some() {
        return Err(Errno::NOTSUPP.into());
    }
    if context.exists {
        truncate_to(context, size);
    }
    Ok(0)
}

pub(super) fn create_op(context: &mut Context<'_>, op: &OsdOp) -> Result<i32, Stop> {
    if context.exists && op.flags & op_flags::EXCL != 0 {
        return Err(Errno::EXIST.into());
    }
    if !op.input.is_empty() {
        Reader::new(&op.input).blob("category")?; // no longer means anything
    }
    context.create();
    context.touch()
}

pub(super) fn delete(context: &mut Context<'_>) -> Result<i32, Stop> {
    if !context.exists {
        return Err(Errno::NOENT.into());
    }
    context.changes.push(Change::Remove { object: context.input.object.clone() });
    context.stored_attrs.clear();
    context.attrs.push(AttrDelta::Clear);
    for key in std::mem::take(&mut context.info.watchers).into_keys() {
        context.effects.push(Effect::Disconnect { key, tell_client: true });
    }
    context.exists = false;
    let user_version = context.info.user_version;
    context.info = ObjectInfo { user_version, ..ObjectInfo::default() };
    Ok(0)
}

pub(super) fn set_alloc_hint(context: &mut Context<'_>, op: &OsdOp) -> Result<i32, Stop> {
    let hint = op.alloc_hint();
    context.create();
    context.info.alloc_hint = AllocHint {
        expected_object_size: hint.expected_object_size,
        expected_write_size: hint.expected_write_size,
        flags: hint.flags,
    };
    context.touch()
}

/// Refuses extents beyond the maximum object size.
fn check_extent(offset: u64, length: u64) -> Result<(), Errno> {
    let max = limits::OBJECT_SIZE_MAX;
    if offset >= max || length > max || offset + length > max {
        return Err(Errno::FBIG);
    }
    Ok(())
}
