//! Effects of a transaction, and reasons why it cannot be executed.

use super::failure::{MountedFault, PairFault};
use super::held_index::{HeldContent, HeldEntry};
use crate::device::Extent;
use crate::keys;
use crate::log::{LargeWrite, Record, SmallWrite};
use crate::slices::Slice;
use crate::table::{Op, PointKey};
use crate::tree::{Fault, PageRead};
use bytes::Bytes;
use codec::DecodeError;
use store::{DeviceFault, StoreError};

/// Effects collected while a transaction is executed; none has been applied yet.
#[derive(Debug, Default)]
pub(crate) struct Effects {
    /// The record for the log.
    pub record: Record,
    /// Data of the deferred writes of the record.
    pub data: Vec<Bytes>,
    /// Data of large writes.
    pub large: Vec<(Extent, Bytes)>,
    /// Contents of changes that it holds, for the transaction that settles them.
    pub held: Vec<(HeldEntry, HeldContent)>,
    /// Change of the number of objects.
    pub objects: i64,
    /// Slices whose objects must be removed.
    pub garbage: Vec<Slice>,
    /// Set if it creates the collection of a shard, or holds changes.
    pub needs_shards: bool,
    /// Set by the last step of a cleanup.
    pub ends_cleanup: bool,
}

impl Effects {
    /// Sets the value of a pair.
    pub fn put(&mut self, key: impl Into<PointKey>, value: Bytes) {
        self.record.ops.push(Op::Put { key: key.into(), value });
    }

    /// Removes a pair, whether or not it exists.
    pub fn delete(&mut self, key: impl Into<PointKey>) {
        self.record.ops.push(Op::Delete { key: key.into() });
    }

    /// Removes all keys from `first` (inclusive) to `last` (exclusive).
    pub fn delete_range(&mut self, first: Bytes, last: Bytes) {
        self.record.ops.push(Op::DeleteRange { first, last });
    }

    /// Removes header and all pairs of the omap of the object with this id.
    pub fn clear_omap(&mut self, id: u64) {
        self.delete(keys::omap_header(id));
        let range = keys::omap_range(id);
        self.delete_range(range.start, range.end);
    }

    /// Frees blocks; they can be allocated once the record is durable and no write to them is in
    /// flight.
    pub fn free(&mut self, extent: Extent) {
        self.record.freed.push(extent);
    }

    /// Defers the write of one block, whose data goes to the log.
    pub fn write_small(&mut self, block: u64, crc: u32, data: Bytes) {
        self.record.small.push(SmallWrite { block, crc });
        self.data.push(data);
    }

    /// Writes blocks to their place at the same time as the record. `crcs` has one checksum for
    /// each.
    pub fn write_large(&mut self, extent: Extent, crcs: &[u32], data: Bytes) {
        self.record.large.push(LargeWrite { start: extent.start, crcs: crcs.to_vec() });
        self.large.push((extent, data));
    }

    /// New content of a block that this transaction itself has written.
    pub fn written(&self, block: u64) -> Option<Bytes> {
        let small = self.record.small.iter().rposition(|write| write.block == block);
        if let Some(index) = small {
            return Some(self.data[index].clone());
        }
        let holds = |extent: &Extent| extent.start <= block && block < extent.end();
        let (extent, data) = self.large.iter().rfind(|(extent, _)| holds(extent))?;
        let offset = (block - extent.start) as usize * crate::device::BLOCK;
        Some(data.slice(offset..offset + crate::device::BLOCK))
    }
}

/// Reason why a transaction or a request cannot be executed now, or ever.
#[derive(Debug)]
pub(crate) enum Interrupt {
    /// Needs these pages of the tree.
    Pages(Vec<PageRead>),
    /// Needs the content of this block; if it is damaged, the fault is returned.
    Block {
        block: u64,
        fault: StoreError,
    },
    /// Lacks as many blocks, unless some become free.
    NoSpace {
        missing: u64,
    },
    /// Needs the log to be trimmed.
    LogFull,
    /// Uses a feature that the superblock must name before the log may.
    Feature,
    /// Used up the budget of the turn: the next turn continues.
    Turn,
    Refused(StoreError),
}

impl Interrupt {
    /// Refuses the request with an error of the device, because stored pairs contradict each other
    /// or cannot be read.
    pub fn damaged(fault: impl Into<PairFault>) -> Self {
        let fault = MountedFault::Metadata(fault.into());
        Interrupt::Refused(StoreError::Device(DeviceFault::new(fault)))
    }

    /// Refuses the request because a stored `what` is not decodable.
    pub fn decoding(what: &'static str) -> impl Fn(DecodeError) -> Self {
        move |error| Interrupt::damaged(PairFault::Encoding { what, error })
    }
}

impl From<Fault> for Interrupt {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Missing(pages) => Interrupt::Pages(pages),
            other => Interrupt::damaged(other),
        }
    }
}

impl From<StoreError> for Interrupt {
    fn from(error: StoreError) -> Self {
        Interrupt::Refused(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::PageFlaw;

    #[track_caller]
    fn assert_refuses(interrupt: Interrupt, what: &str) {
        let Interrupt::Refused(error) = interrupt else { panic!("it waits") };
        let advice = "`sepiola store fsck --deep DIR` tells what can be repaired";
        let sentence = format!("the device failed: the metadata is damaged: {what}; {advice}");
        assert_eq!(error.to_string(), sentence);
    }

    #[test]
    fn damage_of_the_metadata() {
        let error = codec::decode_all::<u64>("id", &[1]).unwrap_err();
        assert_refuses(
            Interrupt::decoding("onode")(error),
            "onode: u64 at byte 0: needs 8 bytes, 1 are left",
        );
        let flaw = PageFlaw::Number { found: 9 };
        assert_refuses(
            Fault::Damaged { page: 5, flaw }.into(),
            "page 5 of the tree is damaged: it says that it is page 9",
        );
    }
}
