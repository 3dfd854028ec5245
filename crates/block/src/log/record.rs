//! The changes of one transaction, and their encoding in a batch.

use crate::device::{BLOCK, Extent};
use crate::table::Op;
use bytes::Bytes;
use codec::{Decode, Encode, Reader, Writer};
use smallvec::{Array, SmallVec};

const OP_PUT: u8 = 1;
const OP_DELETE: u8 = 2;
const OP_DELETE_RANGE: u8 = 3;

/// Length of the counters and of the lengths of five lists.
const FIXED_LEN: usize = Counters::LEN + 5 * 4;
const EXTENT_LEN: usize = 16;
const SMALL_LEN: usize = 12;
const LARGE_LEN: usize = 12;

/// Physical changes of one transaction: replay computes nothing and may be repeated. A value that
/// is used again (see [`Record::clear`]) costs no allocation.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Record {
    /// Counters after the transaction.
    pub counters: Counters,
    /// Changes of pairs, in order.
    pub ops: Vec<Op>,
    /// Blocks allocated.
    pub taken: SmallVec<[Extent; 2]>,
    /// Blocks freed, which may be reused once the record is durable.
    pub freed: SmallVec<[Extent; 2]>,
    /// Deferred writes, whose data is in the batch in this order.
    pub small: SmallVec<[SmallWrite; 4]>,
    /// Large writes, whose data is written to its place at the same time.
    pub large: SmallVec<[LargeWrite; 1]>,
}

/// Counters of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Next id of a collection, an object or a shared extent.
    pub next_id: u64,
    /// Onodes that exist.
    pub objects: u64,
    /// Bytes of objects' data, as clients see it.
    pub data_bytes: u64,
    /// Bytes of omap keys and values.
    pub omap_bytes: u64,
}

/// A deferred write: one block of data in the batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SmallWrite {
    /// Place of the block.
    pub block: u64,
    /// CRC-32C of the block.
    pub crc: u32,
}

/// A large write: a run of blocks beside the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LargeWrite {
    /// First block on the main device.
    pub start: u64,
    /// One per block.
    pub crcs: Vec<u32>,
}

impl Record {
    /// Empties the record and keeps its memory.
    pub fn clear(&mut self) {
        self.ops.clear();
        self.taken.clear();
        self.freed.clear();
        self.small.clear();
        self.large.clear();
    }

    /// Bytes of the fields in the log.
    pub fn encoded_len(&self) -> usize {
        let ops: usize = self.ops.iter().map(op_len).sum();
        let large: usize = self.large.iter().map(|write| LARGE_LEN + 4 * write.crcs.len()).sum();
        let extents = EXTENT_LEN * (self.taken.len() + self.freed.len());
        FIXED_LEN + ops + extents + SMALL_LEN * self.small.len() + large
    }

    /// Bytes that the record adds to a batch: fields, and data in whole blocks.
    pub fn log_bytes(&self) -> u64 {
        (self.encoded_len() + self.small.len() * BLOCK) as u64
    }
}

impl Counters {
    const LEN: usize = 32;
}

impl Encode for Counters {
    fn encode(&self, w: &mut Writer) {
        w.u64(self.next_id);
        w.u64(self.objects);
        w.u64(self.data_bytes);
        w.u64(self.omap_bytes);
    }
}

impl Decode for Counters {
    fn decode(r: &mut Reader<'_>) -> codec::Result<Self> {
        Ok(Counters {
            next_id: r.u64("next id")?,
            objects: r.u64("number of objects")?,
            data_bytes: r.u64("bytes of data")?,
            omap_bytes: r.u64("bytes of omaps")?,
        })
    }
}

impl Encode for Record {
    fn encode(&self, w: &mut Writer) {
        w.value(&self.counters);
        w.list(&self.ops, encode_op);
        w.list(&self.taken, encode_extent);
        w.list(&self.freed, encode_extent);
        w.list(&self.small, |w, write| {
            w.u64(write.block);
            w.u32(write.crc);
        });
        w.list(&self.large, |w, write| {
            w.u64(write.start);
            w.list(&write.crcs, |w, crc| w.u32(*crc));
        });
    }
}

impl Decode for Record {
    fn decode(r: &mut Reader<'_>) -> codec::Result<Self> {
        Ok(Record {
            counters: r.value()?,
            ops: r.list("number of changes", decode_op)?,
            taken: decode_list(r, "number of taken extents", decode_extent)?,
            freed: decode_list(r, "number of freed extents", decode_extent)?,
            small: decode_list(r, "number of small writes", |r| {
                Ok(SmallWrite { block: r.u64("place")?, crc: r.u32("checksum")? })
            })?,
            large: decode_list(r, "number of large writes", decode_large)?,
        })
    }
}

fn op_len(op: &Op) -> usize {
    match op {
        Op::Put { key, value } => 9 + key.len() + value.len(),
        Op::Delete { key } => 5 + key.len(),
        Op::DeleteRange { first, last } => 9 + first.len() + last.len(),
    }
}

fn encode_op(w: &mut Writer, op: &Op) {
    match op {
        Op::Put { key, value } => {
            w.u8(OP_PUT);
            w.blob(key);
            w.blob(value);
        }
        Op::Delete { key } => {
            w.u8(OP_DELETE);
            w.blob(key);
        }
        Op::DeleteRange { first, last } => {
            w.u8(OP_DELETE_RANGE);
            w.blob(first);
            w.blob(last);
        }
    }
}

/// Copies keys and values, which stay in memory for long and must not keep the buffer alive.
fn decode_op(r: &mut Reader<'_>) -> codec::Result<Op> {
    let at = *r;
    let kind = r.u8("kind of change")?;
    let key = r.blob("key")?;
    match kind {
        OP_PUT => {
            let value = Bytes::copy_from_slice(r.blob("value")?);
            Ok(Op::Put { key: key.into(), value })
        }
        OP_DELETE => Ok(Op::Delete { key: key.into() }),
        OP_DELETE_RANGE => {
            let last = Bytes::copy_from_slice(r.blob("last key")?);
            Ok(Op::DeleteRange { first: Bytes::copy_from_slice(key), last })
        }
        _ => Err(at.invalid("kind of change", kind.into())),
    }
}

fn decode_large(r: &mut Reader<'_>) -> codec::Result<LargeWrite> {
    let at = *r;
    let start = r.u64("start of a large write")?;
    let crcs = r.list("number of checksums", |r| r.u32("checksum"))?;
    match start.checked_add(crcs.len() as u64) {
        Some(_) => Ok(LargeWrite { start, crcs }),
        None => Err(at.invalid("start of a large write", start)),
    }
}

fn decode_list<A: Array>(
    r: &mut Reader<'_>,
    field: &'static str,
    mut element: impl FnMut(&mut Reader<'_>) -> codec::Result<A::Item>,
) -> codec::Result<SmallVec<A>> {
    let count = r.count(field)?;
    let mut items = SmallVec::new();
    for _ in 0..count {
        items.push(element(r)?);
    }
    Ok(items)
}

pub(crate) fn encode_extent(w: &mut Writer, extent: &Extent) {
    w.u64(extent.start);
    w.u64(extent.count);
}

/// Decodes an extent whose end does not overflow.
pub(crate) fn decode_extent(r: &mut Reader<'_>) -> codec::Result<Extent> {
    let at = *r;
    let extent = Extent::new(r.u64("start of an extent")?, r.u64("length of an extent")?);
    match extent.start.checked_add(extent.count) {
        Some(_) => Ok(extent),
        None => Err(at.invalid("start of an extent", extent.start)),
    }
}
