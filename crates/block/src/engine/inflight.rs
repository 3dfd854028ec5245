//! Large writes in flight: reads of these blocks are served from here until the write completes.

use crate::device::{BLOCK, Extent};
use bytes::Bytes;
use std::collections::BTreeMap;

#[derive(Debug, Default)]
pub(crate) struct InflightWrites {
    /// Data by first block.
    writes: BTreeMap<u64, Bytes>,
}

impl InflightWrites {
    /// Begins a write of `extent`, which no other write in flight overlaps.
    pub fn insert(&mut self, extent: Extent, data: Bytes) {
        self.writes.insert(extent.start, data);
    }

    /// Ends the write that began at block `start`.
    pub fn completed(&mut self, start: u64) {
        self.writes.remove(&start);
    }

    /// First blocks and numbers of blocks of the writes, ascending.
    pub fn extents(&self) -> impl Iterator<Item = Extent> {
        self.writes.iter().map(|(start, data)| Extent::new(*start, (data.len() / BLOCK) as u64))
    }

    /// Content of a block that is being written.
    pub fn get(&self, block: u64) -> Option<Bytes> {
        let (start, data) = self.writes.range(..=block).next_back()?;
        let offset = (block - start) as usize * BLOCK;
        (offset < data.len()).then(|| data.slice(offset..offset + BLOCK))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_found_until_the_write_completes() {
        let mut inflight = InflightWrites::default();
        let block = |byte| vec![byte; BLOCK];
        inflight.insert(Extent::new(10, 2), [block(1), block(2)].concat().into());
        assert_eq!(inflight.get(11), Some(block(2).into()));
        assert!(inflight.get(9).is_none() && inflight.get(12).is_none());
        inflight.completed(10);
        assert!(inflight.get(10).is_none());
    }
}
