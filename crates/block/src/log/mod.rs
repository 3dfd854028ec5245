//! The write-ahead log: a ring of batches of records.
//!
//! A *record* contains the physical changes of one transaction. A *batch* contains the records of
//! all transactions that share a flush: a header and the records' fields, padded to whole blocks,
//! then the data of deferred writes, a block each. Batches follow each other without gaps and may
//! wrap around the end of the ring. *Positions* count the blocks that were ever used; the place in
//! the ring is `position % blocks of the ring`.
//!
//! [`Log`] makes batches of records and returns the writes; [`Replay`] finds the batches again.
//!
//! Reasons why a replay is exact:
//! * A batch is accepted only at the position in its header, with the number after its
//!   predecessor's and with its predecessor's checksum; and only if the header, the fields and each
//!   block of data have the right checksums. Torn batches and those of earlier turns of the ring
//!   fail.
//! * Generations never descend, and each mount has a greater one. If a mount replaced a torn batch,
//!   the batches that a crash left behind it are therefore never accepted as successors of the
//!   replacement, not even if the checksums are equal.
//! * A mount records the end of its replay, and its generation, before it appends
//!   ([`Replay::new`]'s `resumed`). From there on only batches of that generation or a later one
//!   count: a batch that one replay has dropped stays dropped.
//! * Batches before that point were durable then. If they are not found again, the log is damaged,
//!   which is distinguished from its end.
//!
//! Therefore a mount replays; ends the log before the first batch in doubt whose large writes are
//! missing; flushes its devices; writes a superblock with the next generation and this end as
//! `resumed`; flushes again; and only then appends.
//!
//! The log knows neither the meaning of a record, nor when a device was flushed, nor the data of
//! large writes: the engine verifies the latter if [`Batch::durable`] is not set.

mod append;
mod batch;
mod damage;
mod record;
mod replay;
mod tail;
#[cfg(test)]
mod tests;
mod window;

pub use append::{Admission, Log, SealedBatch};
pub use batch::Stop;
pub use damage::{Damage, LogFault};
pub use record::{Counters, LargeWrite, Record, SmallWrite};
pub(crate) use record::{decode_extent, encode_extent};
pub use replay::{Batch, Replay, Replayed};
pub use tail::valid_batches;

use codec::{Decode, Encode, Reader, Writer};

/// An open batch with this number of blocks of data is sealed before it takes another record.
pub const BATCH_BLOCKS_MAX: usize = 1024;

/// The same for the bytes of its records' fields.
pub const BATCH_FIELDS_MAX: usize = 4 << 20;

/// A record takes at most this share of the ring, so that the log continues while a checkpoint
/// trims it.
pub const RECORD_SHARE: u64 = 4;

/// Bytes of a record at most, however large the ring is: a replay keeps all of it in memory.
pub const RECORD_BYTES_MAX: u64 = 128 << 20;

/// No log reaches this position; the bound keeps sums of positions within their type.
const POINT_MAX: u64 = 1 << 62;

/// Where a batch begins, and how its header is validated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LogPoint {
    /// Blocks since the beginning of the log.
    pub position: u64,
    /// Number of the batch.
    pub seq: u64,
    /// Checksum of the batch before.
    pub previous: u32,
}

impl LogPoint {
    /// Beginning of a new log. Batches are numbered from one; zero means none.
    pub const BEGINNING: LogPoint = LogPoint { position: 0, seq: 1, previous: 0 };
}

impl Encode for LogPoint {
    fn encode(&self, w: &mut Writer) {
        w.u64(self.position);
        w.u64(self.seq);
        w.u32(self.previous);
    }
}

impl Decode for LogPoint {
    fn decode(r: &mut Reader<'_>) -> codec::Result<Self> {
        let at = *r;
        let (position, seq) = (r.u64("log position")?, r.u64("log sequence")?);
        if position > POINT_MAX {
            return Err(at.invalid("log position", position));
        }
        if !(LogPoint::BEGINNING.seq..=POINT_MAX).contains(&seq) {
            return Err(at.invalid("log sequence", seq));
        }
        Ok(LogPoint { position, seq, previous: r.u32("checksum of the batch before")? })
    }
}
