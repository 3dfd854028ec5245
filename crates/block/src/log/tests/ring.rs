//! A device with a ring, and a driver of replays.

use crate::device::{BLOCK, Extent};
use crate::log::window::{CHUNK_BLOCKS, READS_MAX};
use crate::log::{Batch, Record, Replay, Replayed, SealedBatch};
use bytes::{Bytes, BytesMut};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use stdx::Prng;

pub type Content = Vec<(Record, Vec<Bytes>)>;

#[derive(Debug, Clone)]
pub struct Ring {
    area: Extent,
    durable: BTreeMap<u64, Bytes>,
    /// Writes since the last flush.
    cached: Vec<(u64, Bytes)>,
    /// Unreadable blocks.
    pub bad: BTreeSet<u64>,
    /// Number of reads of a block that will return a flipped bit.
    pub misread: RefCell<BTreeMap<u64, u32>>,
}

impl Ring {
    pub fn new(area: Extent) -> Ring {
        Ring {
            area,
            durable: BTreeMap::new(),
            cached: Vec::new(),
            bad: BTreeSet::new(),
            misread: RefCell::default(),
        }
    }

    pub fn write(&mut self, batch: SealedBatch) {
        for (first, pieces) in batch.writes {
            let mut block = first;
            for mut piece in pieces {
                while !piece.is_empty() {
                    assert!(block >= self.area.start && block < self.area.end());
                    self.cached.push((block, piece.split_to(BLOCK)));
                    block += 1;
                }
            }
        }
    }

    pub fn flush(&mut self) {
        self.durable.extend(self.cached.drain(..));
    }

    /// Loses each write since the last flush by chance.
    pub fn crash(&mut self, prng: &mut Prng) {
        let (kept, of) = (prng.below(5), 4);
        self.cached.retain(|_| prng.chance(kept, of));
        self.flush();
    }

    pub fn put(&mut self, block: u64, bytes: Bytes) {
        self.durable.insert(block, bytes);
    }

    pub fn flip(&mut self, block: u64, at: usize, bit: u32) {
        let mut bytes = self.durable.get(&block).map_or(vec![0; BLOCK], |bytes| bytes.to_vec());
        bytes[at] ^= 1 << bit;
        self.put(block, bytes.into());
    }

    fn read(&self, first: u64, blocks: u64) -> Option<Bytes> {
        assert!(first >= self.area.start && first + blocks <= self.area.end());
        let mut bytes = BytesMut::zeroed(blocks as usize * BLOCK);
        for (chunk, block) in bytes.chunks_mut(BLOCK).zip(first..) {
            if self.bad.contains(&block) {
                return None;
            }
            let cached = self.cached.iter().rev().find(|(at, _)| *at == block).map(|(_, b)| b);
            if let Some(content) = cached.or_else(|| self.durable.get(&block)) {
                chunk.copy_from_slice(content);
            }
            if let Some(left) = self.misread.borrow_mut().get_mut(&block).filter(|left| **left > 0)
            {
                *left -= 1;
                chunk[20] ^= 1;
            }
        }
        Some(bytes.freeze())
    }
}

/// Completes reads in random order until the replay has ended.
pub fn drive(ring: &Ring, mut replay: Replay, prng: &mut Prng) -> (Vec<Batch>, Replayed) {
    let (mut batches, mut reads) = (Vec::new(), Vec::new());
    loop {
        match replay.poll() {
            Some(Replayed::Batch(batch)) => batches.push(batch),
            Some(last) => {
                assert!(replay.poll().is_none() && replay.next_read().is_none());
                return (batches, last);
            }
            None => {
                while let Some((block, blocks)) = replay.next_read() {
                    assert!(blocks > 0 && blocks <= CHUNK_BLOCKS);
                    reads.push((block, blocks));
                }
                assert!(reads.len() <= READS_MAX);
                assert!(!reads.is_empty(), "a waiting replay has reads in flight");
                let (block, blocks) = reads.remove(prng.below(reads.len() as u64) as usize);
                match ring.read(block, blocks) {
                    Some(bytes) => replay.supply(block, bytes),
                    None => replay.supply_failed(block),
                }
            }
        }
    }
}
