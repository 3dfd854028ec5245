//! Options of simulated devices, crash policies, and views of their content.

use crate::device::BLOCK;
use engine::Duration;
use std::ops::RangeInclusive;

/// Size, latency and fault rates of the devices.
#[derive(Debug, Clone)]
pub struct DiskOptions {
    /// Size of the main device in blocks.
    pub main_blocks: u64,
    /// 0 without a fast device.
    pub fast_blocks: u64,
    /// Set if completed writes are volatile until a flush.
    pub main_cache: bool,
    /// The same for the fast device.
    pub fast_cache: bool,
    /// Latency of reads.
    pub read_delay: RangeInclusive<Duration>,
    /// Latency of writes and discards.
    pub write_delay: RangeInclusive<Duration>,
    /// Latency of flushes.
    pub flush_delay: RangeInclusive<Duration>,
    /// Content of blocks that were never written.
    pub unwritten: Unwritten,
    /// Rates of random faults; none by default.
    pub faults: Faults,
}

/// Bytes that reads of unwritten blocks return.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unwritten {
    /// All bytes are zero, as on a new sparse file.
    Zeros,
    /// Bytes derived from the seed and the block number.
    Garbage,
}

/// Fault rates per million operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Faults {
    /// The read returns an error; the content is intact.
    pub read_errors_per_million: u64,
    /// Each block of a failed write may be written or not.
    pub write_errors_per_million: u64,
    /// A failed flush may lose each block that it covered.
    pub flush_errors_per_million: u64,
    /// The write succeeds, at another place.
    pub misdirected_writes_per_million: u64,
}

/// Failure mode of a single read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadFault {
    /// The read fails with an error.
    Error,
    /// The read returns one flipped bit.
    Flip,
}

impl Default for DiskOptions {
    fn default() -> Self {
        DiskOptions {
            main_blocks: 16 << 10,
            fast_blocks: 0,
            main_cache: true,
            fast_cache: true,
            read_delay: Duration::from_micros(5)..=Duration::from_micros(200),
            write_delay: Duration::from_micros(5)..=Duration::from_micros(300),
            flush_delay: Duration::from_micros(20)..=Duration::from_millis(1),
            unwritten: Unwritten::Zeros,
            faults: Faults::default(),
        }
    }
}

/// Writes that survive a crash although they were not durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CrashPolicy {
    /// All, including writes in flight.
    KeepAll,
    /// None: exactly what was flushed or written durably.
    KeepNone,
    /// Each block by chance: writes are torn and reordered.
    Blocks,
    /// Each write by chance, as a whole.
    Writes,
    /// One random write.
    OnlyOne,
    /// The write that was submitted last.
    OnlyLast,
    /// All but one random write.
    AllButOne,
}

impl CrashPolicy {
    /// All policies, the most general first; a campaign takes them in turn.
    pub const ALL: [CrashPolicy; 7] = [
        CrashPolicy::Blocks,
        CrashPolicy::KeepAll,
        CrashPolicy::KeepNone,
        CrashPolicy::Writes,
        CrashPolicy::OnlyOne,
        CrashPolicy::OnlyLast,
        CrashPolicy::AllButOne,
    ];
}

/// Content of a device after a power failure at this moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum View {
    /// Volatile blocks and writes in flight are lost.
    Durable,
    /// Completed writes survive, writes in flight are lost.
    Completed,
}

/// Counters of a device. Failed operations count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Reads submitted.
    pub reads: u64,
    /// Blocks of these reads.
    pub blocks_read: u64,
    /// Writes submitted; discards are not among them.
    pub writes: u64,
    /// Blocks of these writes.
    pub blocks_written: u64,
    /// Flushes submitted.
    pub flushes: u64,
    /// Discards submitted.
    pub discards: u64,
    /// Blocks of these discards.
    pub blocks_discarded: u64,
}

impl Counters {
    /// The written blocks in bytes, for write amplification.
    pub fn bytes_written(&self) -> u64 {
        self.blocks_written * BLOCK as u64
    }
}
