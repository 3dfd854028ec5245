//! Content of one simulated device: durable blocks, volatile blocks, and writes in flight.
//!
//! Invariants: the ranges of writes in flight are disjoint. The versions of a block are in the order
//! in which they were written; reads return the last, and a crash keeps one of them or the durable
//! one.
//!
//! `FaultyDisk` owns randomness and time.

use super::blocks::Blocks;
use super::options::{Counters, View};
use crate::device::BLOCK;
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::Hasher;
use stdx::{AlignedBuffer, DIRECT_ALIGNMENT, FastHasher, Prng};

static ZEROS: [u8; BLOCK] = [0; BLOCK];

/// A device without time: the caller decides when operations end and which of them fail.
#[derive(Debug, Clone)]
pub struct Medium {
    blocks: u64,
    /// Set if completed writes are volatile.
    cache: bool,
    /// Seed of the content of unwritten blocks; zeros if absent.
    garbage: Option<u64>,
    durable: Blocks,
    /// Versions since the durable one, by block; no entry is empty.
    volatile: BTreeMap<u64, Vec<Version>>,
    /// By first block.
    writing: BTreeMap<u64, InFlight>,
    completions: u64,
    /// Blocks whose reads fail until they are written again.
    pub unreadable: BTreeSet<u64>,
    /// Set if all operations fail.
    pub dead: bool,
    /// Operations since the device was made, failed ones included.
    pub counters: Counters,
}

#[derive(Debug, Clone)]
struct Version {
    content: Bytes,
    /// Number of the operation that wrote it.
    write: u64,
    /// Number of completed writes of the device, this one included.
    completion: u64,
}

#[derive(Debug, Clone)]
struct InFlight {
    write: u64,
    /// First block after the range.
    end: u64,
    /// Blocks with their new content, ascending.
    contents: Vec<(u64, Bytes)>,
}

impl Medium {
    /// A device of `blocks` blocks that were never written. `garbage` is the seed of their content.
    pub fn new(blocks: u64, cache: bool, garbage: Option<u64>) -> Self {
        Medium {
            blocks,
            cache,
            garbage,
            durable: Blocks::default(),
            volatile: BTreeMap::new(),
            writing: BTreeMap::new(),
            completions: 0,
            unreadable: BTreeSet::new(),
            dead: false,
            counters: Counters::default(),
        }
    }

    // Reads.

    /// Counts a read. Panics unless the range lies on the device.
    pub fn begin_read(&mut self, block: u64, blocks: u32) {
        self.check_range("read", block, blocks.into());
        self.counters.reads += 1;
        self.counters.blocks_read += u64::from(blocks);
    }

    /// A block of a write in flight reads as its old or its new content.
    pub fn read(&self, block: u64, blocks: u32, prng: &mut Prng) -> Bytes {
        let content = |block| match self.being_written(block).filter(|_| prng.chance(1, 2)) {
            Some(content) => content.clone(),
            None => self.completed(block),
        };
        gather(block, blocks, content)
    }

    /// Content after a crash of that kind, whatever is in flight. Does not count as a read.
    pub fn read_now(&self, block: u64, blocks: u32, view: View) -> Bytes {
        self.check_range("read", block, blocks.into());
        gather(block, blocks, |block| match view {
            View::Durable => self.settled(block),
            View::Completed => self.completed(block),
        })
    }

    /// Set if a read of the range must fail.
    pub fn is_unreadable(&self, block: u64, blocks: u32) -> bool {
        self.unreadable.range(block..block + u64::from(blocks)).next().is_some()
    }

    fn completed(&self, block: u64) -> Bytes {
        let last = self.volatile.get(&block).and_then(|versions| versions.last());
        last.map_or_else(|| self.settled(block), |version| version.content.clone())
    }

    fn settled(&self, block: u64) -> Bytes {
        match (self.durable.get(block), self.garbage) {
            (Some(content), _) => content.clone(),
            (None, Some(seed)) => noise(&mut Prng::new(seed ^ block)),
            (None, None) => Bytes::from_static(&ZEROS),
        }
    }

    fn being_written(&self, block: u64) -> Option<&Bytes> {
        let (_, write) = self.writing.range(..=block).next_back()?;
        let at = write.contents.binary_search_by_key(&block, |(block, _)| *block).ok()?;
        Some(&write.contents[at].1)
    }

    // Writes.

    /// A `drift` other than zero misdirects the write by as many blocks.
    pub fn begin_write(&mut self, number: u64, block: u64, data: &[Bytes], drift: u64) {
        for piece in data {
            let aligned = (piece.as_ptr() as usize).is_multiple_of(DIRECT_ALIGNMENT);
            assert!(aligned, "write at block {block} from unaligned memory");
            let whole = !piece.is_empty() && piece.len().is_multiple_of(BLOCK);
            assert!(whole, "write at block {block}: a piece of {} bytes", piece.len());
        }
        let count = data.iter().map(|piece| (piece.len() / BLOCK) as u64).sum();
        let target = match drift {
            0 => block,
            drift => drift % (self.blocks + 1).saturating_sub(count).max(1),
        };
        // Copied, because a slice would keep the whole buffer alive.
        let copies = data.iter().flat_map(|piece| piece.chunks(BLOCK)).map(Bytes::copy_from_slice);
        let contents = (target..).zip(copies).collect();
        self.begin("write", block, count, InFlight { write: number, end: block + count, contents });
        self.counters.writes += 1;
        self.counters.blocks_written += count;
    }

    /// Discarded blocks become zeros or noise, or keep their content.
    pub fn begin_discard(&mut self, number: u64, block: u64, blocks: u64, prng: &mut Prng) {
        let written = self.written_within(block, block + blocks);
        let contents = written.into_iter().filter_map(|block| match prng.below(3) {
            0 => Some((block, Bytes::from_static(&ZEROS))),
            1 => Some((block, noise(prng))),
            _ => None,
        });
        let contents = contents.collect();
        let end = block + blocks;
        self.begin("discard", block, blocks, InFlight { write: number, end, contents });
        self.counters.discards += 1;
        self.counters.blocks_discarded += blocks;
    }

    fn begin(&mut self, what: &str, block: u64, blocks: u64, write: InFlight) {
        self.check_range(what, block, blocks);
        if let Some((start, other)) = self.writing.range(..write.end).next_back() {
            let (end, start) = (other.end, *start);
            assert!(
                end <= block,
                "{what} of blocks {block}..{} while {start}..{end} are being written",
                write.end
            );
        }
        self.writing.insert(block, write);
    }

    /// Completes the write or discard that began at `block`; durable at once if `durable` is set or
    /// the device has no cache.
    pub fn finish_write(&mut self, block: u64, durable: bool) {
        self.complete(block, durable || !self.cache, |_| true);
    }

    /// Each block of the failed write may be written.
    pub fn fail_write(&mut self, block: u64, prng: &mut Prng) {
        self.complete(block, !self.cache, |_| prng.chance(1, 2));
    }

    fn complete(&mut self, block: u64, durable: bool, mut keep: impl FnMut(u64) -> bool) {
        let InFlight { write, contents, .. } =
            self.writing.remove(&block).expect("operations end once");
        self.completions += 1;
        for (block, content) in contents.into_iter().filter(|(block, _)| keep(*block)) {
            self.unreadable.remove(&block);
            if durable {
                self.volatile.remove(&block);
                self.durable.set(block, content);
            } else {
                let version = Version { content, write, completion: self.completions };
                self.volatile.entry(block).or_default().push(version);
            }
        }
    }

    // Flushes.

    /// Returns the mark up to which the flush covers completed writes.
    pub fn begin_flush(&mut self) -> u64 {
        self.counters.flushes += 1;
        self.completions
    }

    /// Makes versions durable whose writes completed before `mark` was taken.
    pub fn flush(&mut self, mark: u64) {
        self.settle(|version| version.completion <= mark);
    }

    /// The flush fails: any version of each covered block may become the only one.
    pub fn fail_flush(&mut self, mark: u64, prng: &mut Prng) {
        self.settle(|version| version.completion <= mark && prng.chance(1, 2));
        self.volatile.retain(|_, versions| {
            versions.retain(|version| version.completion > mark);
            !versions.is_empty()
        });
    }

    /// Makes the newest version for which `is_settled` holds durable, and drops older ones.
    fn settle(&mut self, mut is_settled: impl FnMut(&Version) -> bool) {
        let durable = &mut self.durable;
        self.volatile.retain(|block, versions| {
            if let Some(newest) = versions.iter().rposition(&mut is_settled) {
                let settled = versions.drain(..=newest).next_back();
                durable.set(*block, settled.expect("there is the newest").content);
            }
            !versions.is_empty()
        });
    }

    // Crashes.

    /// Numbers of all writes that a crash may keep or lose.
    pub fn unsettled(&self) -> Vec<u64> {
        let volatile = self.volatile.values().flatten().map(|version| version.write);
        volatile.chain(self.writing.values().map(|write| write.write)).collect()
    }

    /// Keeps the newest version that `keep` accepts as durable, and drops all others.
    pub fn crash(&mut self, mut keep: impl FnMut(u64) -> bool) {
        self.complete_all(false, |_| true);
        self.settle(|version| keep(version.write));
        self.volatile.clear();
    }

    /// Ends writes in flight, each block written by chance; volatile blocks stay volatile.
    pub fn abandon(&mut self, prng: &mut Prng) {
        self.complete_all(!self.cache, |_| prng.chance(1, 2));
    }

    fn complete_all(&mut self, durable: bool, mut keep: impl FnMut(u64) -> bool) {
        while let Some(block) = self.writing.keys().next().copied() {
            self.complete(block, durable, &mut keep);
        }
    }

    // Damage and inspection.

    /// Edits the block in all its versions.
    pub fn change(&mut self, block: u64, edit: impl Fn(&mut [u8])) {
        self.check_range("damage", block, 1);
        let edited = |content: &Bytes| {
            let mut content = content.to_vec();
            edit(&mut content);
            Bytes::from(content)
        };
        let durable = edited(&self.settled(block));
        self.durable.set(block, durable);
        for version in self.volatile.get_mut(&block).into_iter().flatten() {
            version.content = edited(&version.content);
        }
    }

    /// Blocks with durable or volatile content, ascending.
    pub fn written_blocks(&self) -> Vec<u64> {
        self.written_within(0, self.blocks)
    }

    fn written_within(&self, start: u64, end: u64) -> Vec<u64> {
        let durable = self.durable.range(start, end).map(|(block, _)| block);
        let volatile = self.volatile.range(start..end).map(|(block, _)| *block);
        durable.chain(volatile).collect::<BTreeSet<u64>>().into_iter().collect()
    }

    /// Hash of the written blocks and their numbers, as [`Medium::read_now`] returns them.
    pub fn content_hash(&self, view: View) -> u64 {
        let mut hasher = FastHasher::default();
        let volatile = |block| view == View::Completed && self.volatile.contains_key(&block);
        let blocks = self.written_blocks().into_iter();
        for block in blocks.filter(|block| self.durable.get(*block).is_some() || volatile(*block)) {
            hasher.write_u64(block);
            hasher.write(&self.read_now(block, 1, view));
        }
        hasher.finish()
    }

    fn check_range(&self, what: &str, block: u64, blocks: u64) {
        let end = block.checked_add(blocks);
        assert!(
            blocks > 0 && end.is_some_and(|end| end <= self.blocks),
            "{what} of {blocks} blocks at {block} of a device with {}",
            self.blocks
        );
    }
}

fn gather(block: u64, blocks: u32, mut content: impl FnMut(u64) -> Bytes) -> Bytes {
    let mut buffer = AlignedBuffer::zeroed(blocks as usize * BLOCK);
    for (block, target) in (block..).zip(buffer.chunks_mut(BLOCK)) {
        target.copy_from_slice(&content(block));
    }
    buffer.into()
}

fn noise(prng: &mut Prng) -> Bytes {
    let mut content = vec![0; BLOCK];
    prng.fill(&mut content);
    content.into()
}
