//! Operations in flight, and the purpose of each.
//!
//! A failed read is repeated before it counts as failed: a path failover or a marginal sector is
//! not damage.

use crate::device::{Device, Io, IoDone, IoId};
use bytes::Bytes;
use std::collections::VecDeque;
use stdx::FastMap;

/// Attempts to read something, whether the device fails or returns a wrong checksum.
pub(crate) const READ_ATTEMPTS_MAX: u32 = 3;

#[derive(Debug)]
pub(crate) struct IoQueue<U> {
    next: u64,
    counts: IoCounts,
    outputs: VecDeque<Io>,
    uses: FastMap<u64, Pending<U>>,
}

/// Operations that were queued since the store was opened.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct IoCounts {
    /// Reads, with those that were made again.
    pub reads: u64,
    /// Blocks of all reads.
    pub read_blocks: u64,
    /// Reads that had failed and were made again.
    pub repeated_reads: u64,
    /// Writes.
    pub writes: u64,
    /// Bytes of all writes.
    pub write_bytes: u64,
    /// Flushes.
    pub flushes: u64,
}

#[derive(Debug)]
struct Pending<U> {
    what: U,
    /// Parameters of a read, to repeat it.
    read: Option<Read>,
}

#[derive(Debug, Clone, Copy)]
struct Read {
    device: Device,
    block: u64,
    blocks: u32,
    /// Failed attempts before this one.
    failures: u32,
}

impl<U> IoQueue<U> {
    /// Allocates ids from `next` on.
    pub fn new(next: u64) -> Self {
        let counts = IoCounts::default();
        IoQueue { next, counts, outputs: VecDeque::new(), uses: FastMap::default() }
    }

    /// First id that was not allocated yet.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Operations that were queued so far.
    pub fn counts(&self) -> &IoCounts {
        &self.counts
    }

    /// Queues a read, which is repeated if it fails.
    pub fn read(&mut self, what: U, device: Device, block: u64, blocks: u32) {
        self.begin_read(what, Read { device, block, blocks, failures: 0 });
    }

    fn begin_read(&mut self, what: U, read: Read) {
        let Read { device, block, blocks, .. } = read;
        self.counts.reads += 1;
        self.counts.read_blocks += u64::from(blocks);
        let id = self.begin(what, Some(read));
        self.outputs.push_back(Io::Read { id, device, block, blocks });
    }

    /// Queues a write; a failure is returned at once.
    pub fn write(&mut self, what: U, device: Device, block: u64, data: Vec<Bytes>, durable: bool) {
        self.counts.writes += 1;
        self.counts.write_bytes += data.iter().map(Bytes::len).sum::<usize>() as u64;
        let id = self.begin(what, None);
        self.outputs.push_back(Io::Write { id, device, block, data, durable });
    }

    /// Queues a flush.
    pub fn flush(&mut self, what: U, device: Device) {
        self.counts.flushes += 1;
        let id = self.begin(what, None);
        self.outputs.push_back(Io::Flush { id, device });
    }

    /// Queues a discard.
    pub fn discard(&mut self, what: U, device: Device, block: u64, blocks: u64) {
        let id = self.begin(what, None);
        self.outputs.push_back(Io::Discard { id, device, block, blocks });
    }

    /// Next operation to submit.
    pub fn poll(&mut self) -> Option<Io> {
        self.outputs.pop_front()
    }

    /// Purpose of the operation; `None` if it is unknown, or a failed read that is repeated.
    pub fn finish(&mut self, done: &IoDone) -> Option<U> {
        let Pending { what, read } = self.uses.remove(&done.id.0)?;
        match (read, &done.result) {
            (Some(read), Err(error)) if read.failures + 1 < READ_ATTEMPTS_MAX => {
                let Read { device, block, blocks, failures } = read;
                tracing::warn!(?device, block, blocks, %error, "a read failed and is made again");
                self.counts.repeated_reads += 1;
                self.begin_read(what, Read { failures: failures + 1, ..read });
                None
            }
            _ => Some(what),
        }
    }

    /// Purposes of the operations in flight, in no particular order.
    pub fn purposes(&self) -> impl Iterator<Item = &U> {
        self.uses.values().map(|pending| &pending.what)
    }

    /// Operations that were queued or submitted and have not completed.
    pub fn in_flight(&self) -> usize {
        self.uses.len()
    }

    fn begin(&mut self, what: U, read: Option<Read>) -> IoId {
        let id = IoId(self.next);
        self.next += 1;
        self.uses.insert(id.0, Pending { what, read });
        id
    }
}
