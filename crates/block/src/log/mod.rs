//! The write-ahead log: a ring of batches of records.
//!
//! A *record* is what one transaction changes, physically. A *batch* holds the records of all
//! transactions that share a flush: a header and the records' fields, padded to whole blocks, then
//! the records' small data, a block each. Batches follow each other without gaps and may wrap around
//! the end of the ring. *Positions* count the blocks that were ever used, so that
//! `position % blocks of the ring` is the place.
//!
//! [`Log`] makes batches of records and says where to write them; [`Replay`] finds them again.
//!
//! What makes a replay exact:
//! * A batch is accepted only where its header says that it lies, with the number that follows its
//!   predecessor's, naming its predecessor's checksum; and only if the header, the fields and each
//!   block of data have their checksums. Torn batches and those of earlier turns of the ring fail.
//! * Generations never descend, and each mount has a greater one. Where a mount replaced a batch
//!   that a crash had torn, what the crash had left behind that batch is therefore never taken for a
//!   successor of the replacement, not even if their checksums are equal.
//! * A mount records where its replay ended, and its generation, before it appends
//!   ([`Replay::new`]'s `resumed`). From there on only batches of that generation or a later one
//!   count: what a replay once left out stays out, whatever a later one could read.
//! * Batches before that place were durable then. If they are not found again the log is damaged,
//!   which is told apart from its end.
//!
//! For that an engine, when it mounts, replays; ends the log before the first batch in doubt whose
//! large data is missing; flushes its devices; writes a superblock with the next generation and this
//! end as `resumed`; flushes again; and only then appends.
//!
//! The log does not know what a record means, when a device has flushed, nor what its large data
//! holds: the engine compares that with its checksums if [`Batch::durable`] is not set.

mod append;
mod batch;
mod record;
mod replay;
mod tail;
#[cfg(test)]
mod tests;
mod window;

pub use append::{Log, Room, SealedBatch};
pub use batch::Stop;
pub use record::{Counters, LargeWrite, Record, SmallWrite};
pub(crate) use record::{decode_extent, encode_extent};
pub use replay::{Batch, Damage, Replay, Replayed};
pub use tail::valid_batches;

use codec::{Decode, Encode, Reader, Writer};

/// An open batch with as many blocks of data is sealed before it takes another record.
pub const BATCH_BLOCKS_MAX: usize = 1024;

/// Likewise for the bytes of its records' fields.
pub const BATCH_FIELDS_MAX: usize = 4 << 20;

/// A record takes at most this share of the ring, so that the log goes on while a checkpoint frees
/// what lies behind.
pub const RECORD_SHARE: u64 = 4;

/// What a record takes at most, however large the ring is: a replay holds all of it in memory.
pub const RECORD_BYTES_MAX: u64 = 128 << 20;

/// No log gets as far; refusing more keeps sums of positions within their type.
const POINT_MAX: u64 = 1 << 62;

/// Where a batch begins, and what must be found there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LogPoint {
    /// Blocks since the log began.
    pub position: u64,
    /// The number of the batch.
    pub seq: u64,
    /// The checksum of the batch before.
    pub previous: u32,
}

impl LogPoint {
    /// Of a new log. Batches count from one, so that nought may stand for none.
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
