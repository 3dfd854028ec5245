//! How simulated devices are made, what becomes of them in crashes, and how one looks at them.

use crate::device::BLOCK;
use engine::Duration;
use std::ops::RangeInclusive;

/// How large, how slow and how faulty the devices are.
#[derive(Debug, Clone)]
pub struct DiskOptions {
    pub main_blocks: u64,
    /// 0 if there is no fast device.
    pub fast_blocks: u64,
    /// Whether completed writes are volatile until they are flushed.
    pub main_cache: bool,
    pub fast_cache: bool,
    pub read_delay: RangeInclusive<Duration>,
    pub write_delay: RangeInclusive<Duration>,
    pub flush_delay: RangeInclusive<Duration>,
    /// What blocks hold that were never written.
    pub unwritten: Unwritten,
    pub faults: Faults,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unwritten {
    Zeros,
    /// Bytes that depend on the seed and the block.
    Garbage,
}

/// So many of a million operations fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Faults {
    pub read_errors_per_million: u64,
    /// Of such a write each block may be written or not.
    pub write_errors_per_million: u64,
    /// Of what such a flush should have saved, each block may be lost at once.
    pub flush_errors_per_million: u64,
    /// Such writes succeed, but elsewhere.
    pub misdirected_writes_per_million: u64,
}

/// How a single read fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadFault {
    /// With an error.
    Error,
    /// It brings a bit that is not what the medium holds.
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

/// What a crash leaves of writes that were not durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CrashPolicy {
    /// All, of writes in flight too.
    KeepAll,
    KeepNone,
    /// Each block by chance: writes are torn and reordered.
    Blocks,
    /// Each write as a whole by chance.
    Writes,
    /// Only one write, by chance.
    OnlyOne,
    /// Only the write that was submitted last.
    OnlyLast,
    /// All but one write, by chance.
    AllButOne,
}

impl CrashPolicy {
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

/// What a device holds if the power fails now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum View {
    /// All that is volatile or in flight is lost.
    Durable,
    /// All that completed is kept, the rest is lost.
    Completed,
}

/// What a device did so far. Failed operations count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    pub reads: u64,
    pub blocks_read: u64,
    pub writes: u64,
    pub blocks_written: u64,
    pub flushes: u64,
    pub discards: u64,
    pub blocks_discarded: u64,
}

impl Counters {
    pub fn bytes_written(&self) -> u64 {
        self.blocks_written * BLOCK as u64
    }
}
