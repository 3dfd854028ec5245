//! What a transaction will change, and what keeps it from being executed.

use crate::device::Extent;
use crate::keys;
use crate::log::{LargeWrite, Record, SmallWrite};
use crate::slices::Slice;
use crate::table::{Op, PointKey};
use crate::tree::{Fault, PageRead};
use bytes::Bytes;
use codec::DecodeError;
use store::StoreError;

/// Collected while a transaction is executed; nothing of it has happened yet.
#[derive(Debug, Default)]
pub(crate) struct Effects {
    pub record: Record,
    /// The data of the record's small writes.
    pub data: Vec<Bytes>,
    /// Data that is written to its place at once.
    pub large: Vec<(Extent, Bytes)>,
    /// Objects that are more afterwards.
    pub objects: i64,
    /// What is to be removed from now on.
    pub garbage: Vec<Slice>,
}

impl Effects {
    pub fn put(&mut self, key: impl Into<PointKey>, value: Bytes) {
        self.record.ops.push(Op::Put { key: key.into(), value });
    }

    pub fn delete(&mut self, key: impl Into<PointKey>) {
        self.record.ops.push(Op::Delete { key: key.into() });
    }

    pub fn delete_range(&mut self, first: Bytes, last: Bytes) {
        self.record.ops.push(Op::DeleteRange { first, last });
    }

    pub fn clear_omap(&mut self, id: u64) {
        self.delete(keys::omap_header(id));
        let range = keys::omap_range(id);
        self.delete_range(range.start, range.end);
    }

    pub fn free(&mut self, extent: Extent) {
        self.record.freed.push(extent);
    }

    pub fn write_small(&mut self, block: u64, crc: u32, data: Bytes) {
        self.record.small.push(SmallWrite { block, crc });
        self.data.push(data);
    }

    pub fn write_large(&mut self, extent: Extent, crcs: &[u32], data: Bytes) {
        self.record.large.push(LargeWrite { start: extent.start, crcs: crcs.to_vec() });
        self.large.push((extent, data));
    }

    /// What this transaction itself has written to a block.
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

/// Why a transaction or a request cannot be executed now, or ever.
#[derive(Debug)]
pub(crate) enum Interrupt {
    /// These pages of the tree are needed.
    Pages(Vec<PageRead>),
    /// The content of this block is needed; if it turns out to be damaged, that is the fault.
    Block {
        block: u64,
        fault: StoreError,
    },
    /// So many blocks are missing, unless some become free.
    Room {
        missing: u64,
    },
    /// The log must be trimmed first.
    LogFull,
    /// Enough was done for one turn: the next goes on.
    Turn,
    Refused(StoreError),
}

impl Interrupt {
    pub fn damaged(what: String) -> Self {
        Interrupt::Refused(StoreError::Device(format!(
            "the metadata is damaged: {what}; `sepiola store fsck --deep DIR` tells what can be \
             repaired"
        )))
    }

    pub fn decoding(what: &'static str) -> impl Fn(DecodeError) -> Self {
        move |error| Interrupt::damaged(format!("{what}: {error}"))
    }

    pub fn inconsistent(error: impl std::fmt::Display) -> Self {
        Interrupt::damaged(error.to_string())
    }
}

impl From<Fault> for Interrupt {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Missing(pages) => Interrupt::Pages(pages),
            other => Interrupt::damaged(other.to_string()),
        }
    }
}

impl From<StoreError> for Interrupt {
    fn from(error: StoreError) -> Self {
        Interrupt::Refused(error)
    }
}
