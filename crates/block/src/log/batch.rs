//! The header of a batch, and its validation by a replay.

use super::LogPoint;
use crate::device::BLOCK;
use codec::{Reader, Writer};
use thiserror::Error;
use types::Uuid;

pub(super) const HEADER_LEN: usize = 80;
pub(super) const FORMAT: u32 = 1;

const MAGIC: [u8; 8] = *b"sepiowal";
const CHECKSUM_AT: usize = 8;
/// The checksum covers the bytes from here to the end of the fields.
const CHECKED_FROM: usize = 12;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    /// CRC-32C of the rest of header and fields.
    pub checksum: u32,
    /// Version of the encoding.
    pub format: u32,
    /// Id of the store, so that remains of former stores are not replayed.
    pub store: Uuid,
    /// Number of the mount that wrote the batch.
    pub generation: u64,
    /// Log point of the batch; `previous` is the checksum of the batch before.
    pub start: LogPoint,
    /// All batches up to this one are known to be durable.
    pub durable_through: u64,
    /// Bytes of the records' fields after the header.
    pub fields_len: u32,
    /// Records in the fields.
    pub records: u32,
    /// Blocks of data after the fields.
    pub data_blocks: u32,
}

/// Reason why no further batch was found. None is an error: each log ends with one of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Stop {
    /// All blocks of the ring were read; the next batch would be the first again.
    #[error("the batches fill the ring")]
    RingFull,
    /// No header: the block does not begin with the magic.
    #[error("no batch begins there")]
    NoBatch,
    /// Left by a store that had the device before.
    #[error("the batch there belongs to store {0}")]
    OtherStore(Uuid),
    /// Written for another place: misdirected, or of an earlier pass of the ring.
    #[error("the batch there was written for position {0}")]
    OtherPosition(u64),
    /// Another number than the predecessor's plus one.
    #[error("the batch there has number {0}")]
    OtherNumber(u64),
    /// The chain of checksums is interrupted: it belongs to a history that a crash discarded.
    #[error("the batch there follows one with checksum {0:#010x}")]
    OtherPredecessor(u32),
    /// Written by a mount that a later one has replaced.
    #[error("the batch there is of generation {found}, and {least} has begun")]
    OldGeneration {
        /// Generation in the header.
        found: u64,
        /// Generation of the last mount.
        least: u64,
    },
    /// Longer than what is left of the ring.
    #[error("the batch there has {0} blocks, more than the ring holds")]
    Length(u64),
    /// Torn: only a part of it was written.
    #[error("the fields of the batch there do not have its checksum")]
    Checksum,
    /// Torn: index of a block of deferred data with a wrong checksum.
    #[error("block {0} of the data of the batch there does not have its checksum")]
    Data(usize),
}

/// Blocks of a batch with this content after its header.
pub(super) fn batch_blocks(fields_len: usize, data_blocks: usize) -> u64 {
    ((HEADER_LEN + fields_len).div_ceil(BLOCK) + data_blocks) as u64
}

impl Header {
    /// Length of the whole batch in blocks.
    pub fn blocks(&self) -> u64 {
        batch_blocks(self.fields_len as usize, self.data_blocks as usize)
    }

    /// Writes the header to the space reserved at the start of `batch`, which contains all fields,
    /// and returns the checksum.
    pub fn write(&self, batch: &mut [u8]) -> u32 {
        let mut w = Writer::with_capacity(HEADER_LEN);
        w.raw(&MAGIC);
        w.u32(0);
        w.u32(self.format);
        w.value(&self.store);
        w.u64(self.generation);
        w.u64(self.start.seq);
        w.u64(self.start.position);
        w.u64(self.durable_through);
        w.u32(self.fields_len);
        w.u32(self.records);
        w.u32(self.data_blocks);
        w.u32(self.start.previous);
        batch[..HEADER_LEN].copy_from_slice(w.as_slice());
        let checksum = crc_fast::crc32_iscsi(&batch[CHECKED_FROM..]);
        batch[CHECKSUM_AT..CHECKED_FROM].copy_from_slice(&checksum.to_le_bytes());
        checksum
    }

    /// Decodes the header in the first block of a batch without validating it; `None` without
    /// magic.
    pub fn read(block: &[u8]) -> Option<Header> {
        let mut r = Reader::new(block);
        (r.array("magic").ok()? == MAGIC).then_some(())?;
        Header::read_fields(&mut r).ok()
    }

    fn read_fields(r: &mut Reader<'_>) -> codec::Result<Header> {
        let checksum = r.u32("checksum")?;
        let (format, store) = (r.u32("format")?, r.value()?);
        let (generation, seq) = (r.u64("generation")?, r.u64("number")?);
        let (position, durable_through) = (r.u64("position")?, r.u64("durable through")?);
        let (fields_len, records) = (r.u32("length of the fields")?, r.u32("records")?);
        let (data_blocks, previous) = (r.u32("blocks of data")?, r.u32("previous checksum")?);
        let start = LogPoint { position, seq, previous };
        Ok(Header {
            checksum,
            format,
            store,
            generation,
            start,
            durable_through,
            fields_len,
            records,
            data_blocks,
        })
    }

    /// Validates that this is the batch of `store` at `start`, of at least this generation, and
    /// that it ends before `limit`.
    pub fn follows(
        &self,
        store: Uuid,
        start: LogPoint,
        least: u64,
        limit: u64,
    ) -> Result<(), Stop> {
        if self.store != store {
            return Err(Stop::OtherStore(self.store));
        }
        if self.start.position != start.position {
            return Err(Stop::OtherPosition(self.start.position));
        }
        if self.start.seq != start.seq {
            return Err(Stop::OtherNumber(self.start.seq));
        }
        if self.start.previous != start.previous {
            return Err(Stop::OtherPredecessor(self.start.previous));
        }
        if self.generation < least {
            return Err(Stop::OldGeneration { found: self.generation, least });
        }
        if self.blocks() > limit - start.position {
            return Err(Stop::Length(self.blocks()));
        }
        Ok(())
    }

    /// Set if `batch`, header and all fields, has the right checksum.
    pub fn is_intact(&self, batch: &[u8]) -> bool {
        crc_fast::crc32_iscsi(&batch[CHECKED_FROM..]) == self.checksum
    }
}
