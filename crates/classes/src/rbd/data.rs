//! Methods of the objects that hold an image's data.

use crate::method::{Flags, Method, methods};
use crate::object::{ObjectContext, Result, exists, require_existing};
use bytes::Bytes;
use codec::{Decode, Reader};
use std::collections::BTreeMap;
use std::ops::Range;
use types::{Errno, SnapId};

pub(super) const METHODS: &[Method] = &[
    Method { name: "copyup", flags: Flags::READ_WRITE, function: copy_up },
    Method { name: "sparse_copyup", flags: Flags::READ_WRITE, function: sparse_copy_up },
    ASSERT_SNAPSHOTS[0],
    ASSERT_SNAPSHOTS[1],
];

const ASSERT_SNAPSHOTS: &[Method; 2] = methods! {
    "assert_snapc_seq": READ_WRITE => assert_snapshot_sequence,
    "sparsify": READ_WRITE => sparsify,
};

/// Writes the parent's data unless the object exists.
fn copy_up(object: &mut dyn ObjectContext, data: &Bytes, _: &mut Vec<u8>) -> Result<i32> {
    if !exists(object)? {
        object.write(0, data.clone())?;
    }
    Ok(0)
}

/// The same for sparse data: extents, and their data concatenated.
fn sparse_copy_up(object: &mut dyn ObjectContext, input: &Bytes, _: &mut Vec<u8>) -> Result<i32> {
    let mut r = Reader::new(input);
    let extents = BTreeMap::<u64, u64>::decode(&mut r).map_err(|_| Errno::INVAL)?;
    let data = r.blob("data").map_err(|_| Errno::INVAL)?;
    let mut data = input.slice_ref(data);
    if exists(object)? {
        return Ok(0);
    }
    object.create(true)?;
    for (offset, length) in extents {
        if length > data.len() as u64 {
            return Err(Errno::INVAL.into());
        }
        object.write(offset, data.split_to(length as usize))?;
    }
    Ok(0)
}

/// Required relation of a write's snapshot sequence to the object's.
const GREATER: u8 = 0;
const NOT_GREATER: u8 = 1;

fn assert_snapshot_sequence(
    object: &mut dyn ObjectContext,
    (sequence, relation): (SnapId, u8),
) -> Result<()> {
    let greater = !exists(object)? || sequence > object.snapshot_sequence()?;
    match relation {
        GREATER if greater => Ok(()),
        NOT_GREATER if !greater => Ok(()),
        GREATER | NOT_GREATER => Err(Errno::RANGE.into()),
        _ => Err(Errno::NOTSUPP.into()),
    }
}

/// Punches pieces that are all zeros.
fn sparsify(object: &mut dyn ObjectContext, (piece, remove_empty): (u64, bool)) -> Result<()> {
    require_existing(object)?;
    let piece = usize::try_from(piece).ok().filter(|piece| *piece > 0).ok_or(Errno::INVAL)?;
    let size = object.size()?;
    let data = object.read(0, size)?;
    let filled = filled_ranges(&data, piece);
    if filled.is_empty() && remove_empty {
        return object.remove();
    }
    let is_filled = filled.first().is_some_and(|range| *range == (0..data.len()));
    if data.is_empty() || is_filled {
        return Ok(());
    }
    object.truncate(0)?;
    for range in filled {
        object.write(range.start as u64, data.slice(range))?;
    }
    Ok(())
}

/// Ranges that contain other bytes than zeros, in whole pieces; adjacent ones are joined.
fn filled_ranges(data: &[u8], piece: usize) -> Vec<Range<usize>> {
    let mut ranges: Vec<Range<usize>> = Vec::new();
    for (number, bytes) in data.chunks(piece).enumerate() {
        if bytes.iter().all(|byte| *byte == 0) {
            continue;
        }
        let range = number * piece..number * piece + bytes.len();
        match ranges.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => ranges.push(range),
        }
    }
    ranges
}
