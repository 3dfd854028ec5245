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

impl Context<'_> {
    pub(super) fn write_op(&mut self, op: &OsdOp) -> Result<i32, Stop> {
        let extent = normalized(op.extent());
        if extent.length != op.input.len() as u64 {
            return Err(Errno::INVAL.into());
        }
        self.write_extent(extent, op.input.clone())
    }

    /// Writes `data` at `extent.offset`, taking account of truncations that arrived out of order:
    /// CephFS clients truncate and write in parallel and number their truncations.
    fn write_extent(&mut self, extent: Extent, mut data: Bytes) -> Result<i32, Stop> {
        let (seq, size) = (self.info.truncate_seq, self.info.size);
        let overtaken = seq != 0 && seq > extent.truncate_seq;
        let end = extent.offset.saturating_add(data.len() as u64);
        if overtaken && end > size {
            data.truncate(size.saturating_sub(extent.offset) as usize);
        }
        check_extent(extent.offset, data.len() as u64)?;
        if extent.truncate_seq > seq {
            self.truncate_early(&extent);
        }
        self.create();
        if !data.is_empty() {
            self.put_data(extent.offset, data);
        } else if extent.offset > self.info.size && !overtaken {
            self.truncate_to(extent.offset);
        } else {
            self.touched = true;
        }
        Ok(0)
    }

    /// Applies a truncation that the writer knows of and that has not arrived yet.
    fn truncate_early(&mut self, extent: &Extent) {
        if self.exists {
            self.truncate_to(extent.truncate_size);
        }
        self.info.truncate_seq = extent.truncate_seq;
        self.info.truncate_size = extent.truncate_size;
    }

    fn put_data(&mut self, offset: u64, data: Bytes) {
        self.info.size = self.info.size.max(offset + data.len() as u64);
        self.changes.push(Change::Write { object: self.input.object.clone(), offset, data });
    }

    fn truncate_to(&mut self, size: u64) {
        self.info.size = size;
        self.changes.push(Change::Truncate { object: self.input.object.clone(), size });
    }

    pub(super) fn write_full_op(&mut self, op: &OsdOp) -> Result<i32, Stop> {
        if op.extent().length != op.input.len() as u64 {
            return Err(Errno::INVAL.into());
        }
        self.write_full(op.input.clone())
    }

    pub(super) fn write_full(&mut self, data: Bytes) -> Result<i32, Stop> {
        let length = data.len() as u64;
        check_extent(0, length)?;
        self.create();
        if length < self.info.size {
            self.truncate_to(length);
        }
        match length {
            0 => self.touched = true,
            _ => self.put_data(0, data),
        }
        Ok(0)
    }

    pub(super) fn append(&mut self, op: &OsdOp) -> Result<i32, Stop> {
        let extent = Extent {
            offset: self.info.size,
            truncate_seq: self.info.truncate_seq,
            ..Extent::default()
        };
        if op.extent().length != op.input.len() as u64 {
            return Err(Errno::INVAL.into());
        }
        self.write_extent(extent, op.input.clone())
    }

    /// Writes at an offset for an object class.
    pub(super) fn write_at(&mut self, offset: u64, data: Bytes) -> Result<i32, Stop> {
        let truncate_seq = self.info.truncate_seq;
        self.write_extent(Extent { offset, truncate_seq, ..Extent::default() }, data)
    }

    pub(super) fn write_same(&mut self, op: &OsdOp) -> Result<i32, Stop> {
        let (offset, length) = repeated_extent(op)?;
        if length == 0 {
            return Ok(0);
        }
        self.count(length);
        self.check_allowance()?;
        let mut data = BytesMut::with_capacity(length as usize);
        while (data.len() as u64) < length {
            data.extend_from_slice(&op.input);
        }
        self.write_extent(Extent { offset, ..Extent::default() }, data.freeze())
    }

    /// Zeroing the end of an object truncates it, as in Ceph.
    pub(super) fn zero(&mut self, op: &OsdOp) -> Result<i32, Stop> {
        let Extent { offset, length, .. } = op.extent();
        let max = crate::limits::OBJECT_SIZE_MAX;
        let to_the_end = self.exists
            && offset < max
            && (1..=max).contains(&length)
            && offset + length >= self.info.size;
        if to_the_end {
            if offset < self.info.size {
                self.truncate_to(offset);
            }
            return Ok(self.result);
        }
        check_extent(offset, length)?;
        if length > 0 && self.exists {
            self.changes.push(Change::Zero { object: self.input.object.clone(), offset, length });
        }
        Ok(0)
    }

    pub(super) fn truncate_op(&mut self, op: &OsdOp) -> Result<i32, Stop> {
        let mut extent = normalized(op.extent());
        if op.code == OpCode::TRIMTRUNC {
            extent.offset = extent.truncate_size;
        }
        if !self.exists {
            return Ok(0);
        }
        check_extent(extent.offset, extent.length)?;
        if extent.truncate_seq != 0 {
            if extent.offset != extent.truncate_size {
                return Err(Errno::INVAL.into());
            }
            if extent.truncate_seq <= self.info.truncate_seq {
                return Ok(0); // a newer one came first
            }
            self.info.truncate_seq = extent.truncate_seq;
            self.info.truncate_size = extent.truncate_size;
        }
        self.truncate_to(extent.offset);
        Ok(0)
    }

    /// Truncates for an object class.
    pub(super) fn truncate(&mut self, size: u64) -> Result<i32, Stop> {
        check_extent(size, 0)?;
        if self.exists {
            self.truncate_to(size);
        }
        Ok(0)
    }

    pub(super) fn create_op(&mut self, op: &OsdOp) -> Result<i32, Stop> {
        if self.exists && op.flags & op_flags::EXCL != 0 {
            return Err(Errno::EXIST.into());
        }
        if !op.input.is_empty() {
            Reader::new(&op.input).blob("category")?; // no longer means anything
        }
        self.create();
        self.touch()
    }

    pub(super) fn delete(&mut self) -> Result<i32, Stop> {
        if !self.exists {
            return Err(Errno::NOENT.into());
        }
        self.changes.push(Change::Remove { object: self.input.object.clone() });
        self.stored_attrs.clear();
        self.attrs.push(AttrDelta::Clear);
        for key in std::mem::take(&mut self.info.watchers).into_keys() {
            self.effects.push(Effect::Disconnect { key, tell_client: true });
        }
        self.exists = false;
        let user_version = self.info.user_version;
        self.info = ObjectInfo { user_version, ..ObjectInfo::default() };
        Ok(0)
    }

    pub(super) fn set_alloc_hint(&mut self, op: &OsdOp) -> Result<i32, Stop> {
        let hint = op.alloc_hint();
        self.create();
        self.info.alloc_hint = AllocHint {
            expected_object_size: hint.expected_object_size,
            expected_write_size: hint.expected_write_size,
            flags: hint.flags,
        };
        self.touch()
    }
}

/// Refuses extents beyond the maximum object size.
fn check_extent(offset: u64, length: u64) -> Result<(), Errno> {
    let max = limits::OBJECT_SIZE_MAX;
    if offset >= max || length > max || offset + length > max {
        return Err(Errno::FBIG);
    }
    Ok(())
}
