//! Damage of the log, as opposed to its end.

use super::LogPoint;
use super::batch::Stop;
use codec::DecodeError;
use thiserror::Error;

/// Reason why the log cannot be the one that was written and flushed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Damage {
    /// A later batch, or the superblock, says that more batches were durable.
    #[error("batches up to {durable} are durable, but {missing} is not found: {stop}")]
    Lost {
        /// Number of the last durable batch.
        durable: u64,
        /// Number of the first batch that is not found.
        missing: u64,
        /// Reason why it is not.
        stop: Stop,
    },
    /// The last mount did not continue this log: its superblock or the batches are those of another
    /// history.
    #[error("the log was resumed at {expected:?}, but its batches lead to {found:?}")]
    OtherHistory {
        /// Log point in the superblock.
        expected: LogPoint,
        /// Log point behind the batches before it.
        found: LogPoint,
    },
    /// Written by a newer version.
    #[error("batch {seq} is intact, but of format {format}")]
    Format {
        /// Number of the batch.
        seq: u64,
        /// Version of its encoding.
        format: u32,
    },
    /// The checksum is right, and the records are not decodable.
    #[error("batch {seq} is intact, but not understood: {error}")]
    Fields {
        /// Number of the batch.
        seq: u64,
        /// The first field that is wrong.
        error: DecodeError,
    },
}

/// Reason why the log cannot be replayed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum LogFault {
    /// The device does not return a block that may hold acknowledged batches.
    #[error("block {block} cannot be read")]
    Unreadable {
        /// The block of the log's device.
        block: u64,
    },
    /// Durable batches are missing or not understood.
    #[error("at block {block}: {damage}")]
    Damaged {
        /// Block where the missing batch should begin.
        block: u64,
        /// Contradiction that no crash causes.
        damage: Damage,
    },
}
