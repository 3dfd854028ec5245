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

impl<'a> Context<'a> {
    /// Data as it was before the request. It is shorter than `length` at the end of the object, and its
    /// `extents` tell the holes.
    pub(super) fn load_data(
        &mut self,
        offset: u64,
        length: u64,
    ) -> Result<&'a store::ReadData, Stop> {
        if !self.input.state.exists {
            return Err(Errno::NOENT.into());
        }
        match self.load(Need::Data { offset, length })? {
            Answer::Data(read) => Ok(read),
            other => unreachable!("data was answered by {other:?}"),
        }
    }

    /// The object's size, limited by a truncation that the client knows of and that has not arrived yet.
    fn readable_size(&self, extent: &Extent) -> u64 {
        let size = self.info.size;
        let truncated = self.info.truncate_seq < extent.truncate_seq
            && extent.offset.saturating_add(extent.length) > extent.truncate_size;
        if truncated { size.min(extent.truncate_size) } else { size }
    }

    pub(super) fn read(&mut self, op: &OsdOp) -> Result<i32, Stop> {
        let mut extent = normalized(op.extent());
        let size = self.readable_size(&extent);
        if extent.length == 0 {
            extent.length = size; // the whole object
        }
        let length = clipped(extent.offset, extent.length, size);
        if length > 0 {
            self.count_shared(length);
            self.output = self.load_data(extent.offset, length)?.data.clone();
        }
        Ok(0)
    }

    pub(super) fn sparse_read(&mut self, op: &OsdOp) -> Result<i32, Stop> {
        let extent = normalized(op.extent());
        let size = self.readable_size(&extent);
        let length = clipped(extent.offset, extent.length, size);
        let mut w = Writer::new();
        if length == 0 {
            w.count(0);
            w.count(0);
        } else {
            self.count_built(64 + length);
            let read = self.load_data(extent.offset, length)?;
            self.check_allowance()?;
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
        self.output = w.into_bytes();
        Ok(0)
    }

    pub(super) fn map_extents(&mut self, op: &OsdOp) -> Result<i32, Stop> {
        let extent = op.extent();
        let length = clipped(extent.offset, extent.length, self.info.size);
        let mut w = Writer::new();
        match length {
            0 => w.count(0),
            _ => {
                let read = self.load_data(extent.offset, length)?;
                encode_extents(&mut w, &clipped_extents(read, extent.offset));
            }
        }
        self.output = w.into_bytes();
        Ok(self.result)
    }

    pub(super) fn stat(&mut self) -> Result<i32, Stop> {
        if !self.exists {
            return Err(Errno::NOENT.into());
        }
        let mut w = Writer::with_capacity(16);
        w.u64(self.info.size);
        w.value(&self.info.mtime);
        self.output = w.into_bytes();
        Ok(self.result)
    }

    /// Compares the input with the object, which reads as zeros beyond its end.
    pub(super) fn compare_extent(&mut self, op: &OsdOp) -> Result<i32, Stop> {
        let extent = normalized(op.extent());
        let mut size = self.info.size;
        if self.info.truncate_seq < extent.truncate_seq
            && extent.offset.saturating_add(extent.length) > extent.truncate_size
        {
            size = extent.truncate_size;
        }
        let length = clipped(extent.offset, extent.length, size);
        let stored = match length > 0 && self.input.state.exists {
            true => self.load_data(extent.offset, length)?.data.clone(),
            false => Bytes::new(),
        };
        let stored = stored.iter().copied().chain(std::iter::repeat(0));
        match op.input.iter().zip(stored).position(|(given, stored)| *given != stored) {
            None => Ok(0),
            Some(position) => {
                Err(Stop::Code(MISMATCH_BASE.saturating_sub_unsigned(position as u32)))
            }
        }
    }

    pub(super) fn assert_version(&mut self, op: &OsdOp) -> Result<i32, Stop> {
        let (asked, current) = (op.assert_version(), self.info.user_version);
        match asked {
            0 => Err(Errno::INVAL.into()),
            _ if asked < current => Err(Errno::RANGE.into()),
            _ if asked > current => Err(Errno::OVERFLOW.into()),
            _ => Ok(self.result),
        }
    }

    /// Always true: without cache tiers, there is no clean base copy.
    pub(super) fn is_dirty(&mut self) -> Result<i32, Stop> {
        self.output = codec::encode_to_bytes(&true);
        Ok(0)
    }
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
