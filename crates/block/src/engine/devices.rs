//! Operations of an open store on its devices: where they go, what they are for, and which of them
//! need a flush.

use super::io::{IoCounts, IoQueue};
use crate::device::{Device, Extent, Io, IoDone};
use crate::options::Options;
use crate::superblock::{self, Superblock};
use crate::tree::PageRead;
use bytes::Bytes;

/// Purpose of an operation on a device.
#[derive(Debug)]
pub(crate) enum Use {
    Page {
        read: PageRead,
        /// Attempts that did not return the page.
        failures: u32,
    },
    /// A block that the first commit of the queue changes in part.
    Block {
        block: u64,
    },
    /// A part of the data of a query.
    Data {
        query: u64,
        part: usize,
    },
    Log {
        seq: u64,
    },
    Large {
        seq: u64,
        start: u64,
    },
    /// Makes a batch with large writes durable.
    Flush {
        seq: u64,
    },
    Deferred {
        extent: Extent,
    },
    /// Pages, flush or superblock of a checkpoint.
    Checkpoint,
    Discard {
        extent: Extent,
    },
}

pub(crate) struct Devices {
    io: IoQueue<Use>,
    main_blocks: u64,
    log: Device,
    metadata: Device,
    has_fast: bool,
    /// Set if completed writes of the device are volatile until a flush.
    flushes_main: bool,
    flushes_fast: bool,
    discards: bool,
    /// Bytes that were written to the log.
    log_bytes: u64,
}

impl Devices {
    /// Ids of operations begin at `next_io`.
    pub fn new(options: &Options, superblock: &Superblock, next_io: u64) -> Self {
        Devices {
            io: IoQueue::new(next_io),
            main_blocks: options.main_blocks,
            log: superblock.geometry.log_device,
            metadata: superblock.metadata.device,
            has_fast: options.fast_blocks > 0,
            flushes_main: options.flush_main,
            flushes_fast: options.flush_fast,
            discards: options.discard,
            log_bytes: 0,
        }
    }

    /// Id of the next operation; smaller ones were given out.
    pub fn next_io(&self) -> u64 {
        self.io.next()
    }

    /// Operations that were queued so far.
    pub fn counts(&self) -> &IoCounts {
        self.io.counts()
    }

    /// Bytes that were written to the log so far.
    pub fn log_bytes(&self) -> u64 {
        self.log_bytes
    }

    /// Set if no operation was submitted without its completion.
    pub fn is_idle(&self) -> bool {
        self.io.in_flight() == 0
    }

    /// Purposes of the operations in flight, in no particular order.
    pub fn in_flight(&self) -> impl Iterator<Item = &Use> {
        self.io.purposes()
    }

    /// Next operation to submit.
    pub fn poll(&mut self) -> Option<Io> {
        self.io.poll()
    }

    /// Purpose of a completed operation; `None` if it is unknown, or a failed read that is repeated.
    pub fn finish(&mut self, done: &IoDone) -> Option<Use> {
        self.io.finish(done)
    }

    /// Reads pages of the tree after as many attempts that did not return them.
    pub fn read_page(&mut self, read: PageRead, failures: u32) {
        let what = Use::Page { read, failures };
        self.io.read(what, self.metadata, read.page, read.pages);
    }

    /// Reads a block that a commit changes in part.
    pub fn read_block(&mut self, block: u64) {
        self.io.read(Use::Block { block }, Device::Main, block, 1);
    }

    /// Reads a part of the data of a query.
    pub fn read_data(&mut self, query: u64, part: usize, block: u64, blocks: u32) {
        self.io.read(Use::Data { query, part }, Device::Main, block, blocks);
    }

    /// Writes a batch to the log. If a flush follows anyhow, the write itself need not be durable.
    pub fn write_log(
        &mut self,
        seq: u64,
        writes: impl IntoIterator<Item = (u64, Vec<Bytes>)>,
        flush_follows: bool,
    ) {
        let durable = self.needs_flush(self.log) && !flush_follows;
        let before = self.io.counts().write_bytes;
        for (block, pieces) in writes {
            self.io.write(Use::Log { seq }, self.log, block, pieces, durable);
        }
        self.log_bytes += self.io.counts().write_bytes - before;
    }

    /// Writes data of batch `seq` to its place.
    pub fn write_large(&mut self, seq: u64, start: u64, data: Bytes) {
        self.io.write(Use::Large { seq, start }, Device::Main, start, vec![data], false);
    }

    /// Flushes all devices that need it for batch `seq`; returns the number of flushes.
    pub fn flush_batch(&mut self, seq: u64) -> usize {
        self.flush_all(|| Use::Flush { seq })
    }

    /// Writes data that the log already holds to its place; the next flush makes it durable there.
    pub fn write_deferred(&mut self, extent: Extent, data: Vec<Bytes>) {
        self.io.write(Use::Deferred { extent }, Device::Main, extent.start, data, false);
    }

    /// Writes pages of a checkpoint.
    pub fn write_pages(&mut self, page: u64, data: Vec<Bytes>) {
        self.io.write(Use::Checkpoint, self.metadata, page, data, false);
    }

    /// Flushes all devices that need it for a checkpoint; returns the number of flushes.
    pub fn flush_checkpoint(&mut self) -> usize {
        self.flush_all(|| Use::Checkpoint)
    }

    /// Writes the copies of a superblock of this sequence; returns their number.
    pub fn write_superblock(&mut self, superblock: &Superblock) -> usize {
        let slots = superblock::slots(self.main_blocks, superblock.sequence);
        let block = superblock.encode();
        for slot in slots {
            let durable = self.flushes_main;
            self.io.write(Use::Checkpoint, Device::Main, slot, vec![block.clone()], durable);
        }
        slots.len()
    }

    /// Set if the host allows discards of the main device.
    pub fn can_discard(&self) -> bool {
        self.discards
    }

    /// Discards blocks of the main device, which must not be allocated before it completes.
    pub fn discard(&mut self, extent: Extent) {
        self.io.discard(Use::Discard { extent }, Device::Main, extent.start, extent.count);
    }

    fn flush_all(&mut self, what: impl Fn() -> Use) -> usize {
        let devices = self.devices_to_flush();
        let count = devices.clone().count();
        devices.for_each(|device| self.io.flush(what(), device));
        count
    }

    /// Devices whose completed writes are volatile.
    fn devices_to_flush(&self) -> impl Iterator<Item = Device> + Clone + use<> {
        let main = self.flushes_main.then_some(Device::Main);
        let fast = (self.has_fast && self.flushes_fast).then_some(Device::Fast);
        main.into_iter().chain(fast)
    }

    fn needs_flush(&self, device: Device) -> bool {
        match device {
            Device::Main => self.flushes_main,
            Device::Fast => self.flushes_fast,
        }
    }
}
