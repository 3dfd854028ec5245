//! Operations that read data or metadata of the object.

use super::context::{Context, Stop};
use super::view::{Answer, Need};
use bytes::Bytes;
use codec::Writer;
use types::Errno;
use wire::OsdOp;
use wire::osd_op::Extent;

/// Results below this encode the position of a mismatch (`MAX_ERRNO`).
const MISMATCH_BASE: i32 = -4095;

/// Clears the truncate sequence by which older clients express none.
pub(super) fn normalized(mut extent: Extent) -> Extent {
    if extent.truncate_seq == 1 && extent.truncate_size == u64::MAX {
        extent.truncate_seq = 0;
        extent.truncate_size = 0;
    }
    extent
}

/// Data as it was before the request. It is shorter than `length` at the end of the object, and its
/// `extents` tell the holes.
pub(super) fn load_data<'a>(
    context: &mut Context<'a>,
    offset: u64,
    length: u64,
) -> Result<&'a store::ReadData, Stop> {
    if !context.input.state.exists {
        return Err(Errno::NOENT.into());
    }
    match context.load(Need::Data { offset, length })? {
        Answer::Data(read) => Ok(read),
        other => unreachable!("data was answered by {other:?}"),
    }
}

/// The object's size, limited by a truncation that the client knows of and that has not arrived yet.
fn readable_size<'a>(context: &Context<'a>, extent: &Extent) -> u64 {
    let size = context.info.size;
    let truncated = context.info.truncate_seq < extent.truncate_seq
        && extent.offset.saturating_add(extent.length) > extent.truncate_size;
    if truncated { size.min(extent.truncate_size) } else { size }
}

pub(super) fn read<'a>(context: &mut Context<'a>, op: &OsdOp) -> Result<i32, Stop> {
    let mut extent = normalized(op.extent());
    let size = readable_size(context, &extent);
    if extent.length == 0 {
        extent.length = size; // the whole object
    }
    let length = clipped(extent.offset, extent.length, size);
    if length > 0 {
        context.count_shared(length);
        context.output = load_data(context, extent.offset, length)?.data.clone();
    }
    Ok(0)
}

pub(super) fn sparse_read<'a>(context: &mut Context<'a>, op: &OsdOp) -> Result<i32, Stop> {
    let extent = normalized(op.extent());
    let size = readable_size(context, &extent);
    let length = clipped(extent.offset, extent.length, size);
    let mut w = Writer::new();
    if length == 0 {
        w.count(0);
        w.count(0);
    } else {
        context.count_built(64 + length);
        let read = load_data(context, extent.offset, length)?;
        context.check_allowance()?;
        w = Writer::with_capacity(64 + length as usize);
        let extents = clipped_extents(read, extent.offset);
        encode_extents(&mut w, &extents);
        w.sized(|w| {
            for (start, length) in extents {
                let start = (start - extent.offset) as usize;
                w.raw(&read.data[start..start + length as usize]);
            }
        });
    }
    context.output = w.into_bytes();
    Ok(0)
}

pub(super) fn map_extents<'a>(context: &mut Context<'a>, op: &OsdOp) -> Result<i32, Stop> {
    let extent = op.extent();
    let length = clipped(extent.offset, extent.length, context.info.size);
    let mut w = Writer::new();
    match length {
        0 => w.count(0),
        _ => {
            let read = load_data(context, extent.offset, length)?;
            encode_extents(&mut w, &clipped_extents(read, extent.offset));
        }
    }
    context.output = w.into_bytes();
    Ok(context.result)
}

pub(super) fn stat<'a>(context: &mut Context<'a>) -> Result<i32, Stop> {
    if !context.exists {
        return Err(Errno::NOENT.into());
    }
    let mut w = Writer::with_capacity(16);
    w.u64(context.info.size);
    w.value(&context.info.mtime);
    context.output = w.into_bytes();
    Ok(context.result)
}

/// Compares the input with the object, which reads as zeros beyond its end.
pub(super) fn compare_extent<'a>(context: &mut Context<'a>, op: &OsdOp) -> Result<i32, Stop> {
    let extent = normalized(op.extent());
    let mut size = context.info.size;
    if context.info.truncate_seq < extent.truncate_seq
        && extent.offset.saturating_add(extent.length) > extent.truncate_size
    {
        size = extent.truncate_size;
    }
    let length = clipped(extent.offset, extent.length, size);
    let stored = match length > 0 && context.input.state.exists {
        true => load_data(context, extent.offset, length)?.data.clone(),
        false => Bytes::new(),
    };
    let stored = stored.iter().copied().chain(std::iter::repeat(0));
    match op.input.iter().zip(stored).position(|(given, stored)| *given != stored) {
        None => Ok(0),
        Some(position) => Err(Stop::Code(MISMATCH_BASE.saturating_sub_unsigned(position as u32))),
    }
}

pub(super) fn assert_version<'a>(context: &mut Context<'a>, op: &OsdOp) -> Result<i32, Stop> {
    let (asked, current) = (op.assert_version(), context.info.user_version);
    match asked {
        0 => Err(Errno::INVAL.into()),
        _ if asked < current => Err(Errno::RANGE.into()),
        _ if asked > current => Err(Errno::OVERFLOW.into()),
        _ => Ok(context.result),
    }
}

/// Always true: without cache tiers, there is no clean base copy.
pub(super) fn is_dirty<'a>(context: &mut Context<'a>) -> Result<i32, Stop> {
    context.output = codec::encode_to_bytes(&true);
    Ok(0)
}

/// The part of `length` that lies within `size`.
pub(super) fn clipped(offset: u64, length: u64, size: u64) -> u64 {
    length.min(size.saturating_sub(offset))
}

/// The extents of the data, clipped to the range that was read: stores may round them outwards.
fn clipped_extents(read: &store::ReadData, offset: u64) -> Vec<(u64, u64)> {
    let end = offset + read.data.len() as u64;
    let clip = |(start, length): &(u64, u64)| {
        let (first, last) = ((*start).max(offset), (start + length).min(end));
        (first < last).then(|| (first, last - first))
    };
    read.extents.iter().filter_map(clip).collect()
}

fn encode_extents(w: &mut Writer, extents: &[(u64, u64)]) {
    w.list(extents, |w, (offset, length)| {
        w.u64(*offset);
        w.u64(*length);
    });
}
