//! Old rows of our own shard for a write: one read of the store, without a job. This is what most small
//! overwrites need.

use super::content::{Content, ShardContent};
use super::local::read_own;
use super::ranges::RowSet;
use super::reader::expected_by_write;
use super::state::Reader;
use crate::backend::erasure::plan::RowRead;
use crate::core::{Core, settling};
use crate::message::{NoRows, ShardRows};
use bytes::Bytes;
use std::collections::BTreeMap;
use types::{EVersion, HObject};

/// Ranges of rows. A write that needs more reads them in a job.
const RANGES_MAX: usize = 8;
/// Rows, for the same reason.
const ROWS_MAX: u64 = 64;

/// A read of old rows of our own shard.
#[derive(Debug)]
pub(crate) struct OwnRead {
    object: HObject,
    position: usize,
    rows: RowSet,
    /// The store must have this version of the object, or a later one: stale rows would spoil the parity.
    least: EVersion,
    /// Whether the object may be absent, because a write before that of the read creates it.
    may_be_absent: bool,
}

/// Begins to read what the write of a version needs, if all of it is of our own shard and not much. The end
/// has [`Reader::Write`].
pub(crate) fn begin_own(
    core: &mut Core,
    version: EVersion,
    object: &HObject,
    wanted: &BTreeMap<usize, RowSet>,
) -> Option<OwnRead> {
    let position = core.own.whoami.shard.position()?;
    let rows = wanted.get(&position).filter(|_| wanted.len() == 1)?;
    if rows.len() > ROWS_MAX || rows.ranges().count() > RANGES_MAX {
        return None;
    }
    let through = settling::settled(core);
    let (least, may_be_absent) = expected_by_write(core, version, object, through);
    // The writer knows the rows that are not settled.
    let (reader, ranges) = (Reader::Write(version), rows.byte_ranges());
    read_own(core, reader, object.clone(), ranges, EVersion::ZERO);
    Some(OwnRead { object: object.clone(), position, rows: rows.clone(), least, may_be_absent })
}

impl OwnRead {
    /// The rows one by one; `None` if they cannot be taken from this read.
    pub fn end(self, outcome: Result<ShardRows, NoRows>) -> Option<BTreeMap<RowRead, Bytes>> {
        let answer = match outcome {
            Ok(answer) if answer.version >= self.least && answer.fits(&self.rows) => answer,
            // Rows that no shard has yet are zeros.
            Err(NoRows::Absent) if self.may_be_absent && self.least == EVersion::ZERO => {
                ShardRows::zeros(&self.rows)
            }
            _ => return None,
        };
        let mut shard = ShardContent::default();
        self.rows.ranges().zip(answer.data).for_each(|(range, data)| shard.add(range, data));
        let content = Content::new(EVersion::ZERO, None, [(self.position, shard)].into());
        Some(content.into_reads(&self.object, &[(self.position, self.rows)].into()))
    }
}
