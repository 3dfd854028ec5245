//! Tests of the reuse of blocks, and of the stored state.

use super::*;
use crate::space::{CHUNK_BYTES, Extents, Space, SpaceError};
use proptest::prelude::*;
use proptest::sample::{Index, select};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Block {
    Allocatable,
    Used,
    Waiting(u64),
    Held,
}

#[derive(Debug, Clone)]
enum Step {
    Allocate(u64),
    AllocateRun(u64),
    /// A run, and the distance of the record's number from the last one.
    FreeAfter(Index, u64, u64),
    GiveBack(Index, u64),
    Durable(u64),
    Pin(Index, u64),
    Unpin(Index),
    Withdraw(Index, u64),
    Snapshot,
    BeginSnapshot,
    /// Number of chunks to take.
    TakeSnapshot(usize),
    /// Number of records that are replayed although the snapshot contains them.
    Restart(Index),
}

fn step() -> impl Strategy<Value = Step> {
    let count = || prop_oneof![4 => 0u64..4, 2 => 0u64..150, 1 => 0u64..6000];
    let run = || (any::<Index>(), count());
    prop_oneof![
        4 => count().prop_map(Step::Allocate),
        1 => (1u64..200).prop_map(Step::AllocateRun),
        5 => (run(), 0u64..3).prop_map(|((start, count), ahead)| Step::FreeAfter(start, count, ahead)),
        1 => run().prop_map(|(start, count)| Step::GiveBack(start, count)),
        3 => (0u64..5).prop_map(Step::Durable),
        3 => run().prop_map(|(start, count)| Step::Pin(start, count)),
        3 => any::<Index>().prop_map(Step::Unpin),
        1 => run().prop_map(|(start, count)| Step::Withdraw(start, count)),
        2 => Just(Step::Snapshot),
        2 => Just(Step::BeginSnapshot),
        3 => (1usize..3).prop_map(Step::TakeSnapshot),
        1 => any::<Index>().prop_map(Step::Restart),
    ]
}

struct Pair {
    first: u64,
    space: Space,
    blocks: Vec<Block>,
    pins: Vec<u32>,
    /// Extents that are to be unpinned.
    writes: Vec<Extent>,
    seq: u64,
    durable: u64,
    stored: Vec<[u8; CHUNK_BYTES]>,
    /// Effects of records: an extent, and whether it was taken. Then the number of records that are
    /// stored.
    log: Vec<(Extent, bool)>,
    log_stored: usize,
    snapshot: Option<RunningSnapshot>,
}

/// A snapshot that is being taken.
struct RunningSnapshot {
    /// Expected chunks.
    expected: Vec<[u8; CHUNK_BYTES]>,
    taken: Vec<[u8; CHUNK_BYTES]>,
    log: usize,
}

impl Pair {
    fn new(first: u64, count: u64) -> Self {
        let space = Space::new(Extent::new(first, count));
        let stored = vec![[0; CHUNK_BYTES]; space.map().chunk_count() as usize];
        Pair {
            first,
            space,
            blocks: vec![Block::Allocatable; count as usize],
            pins: vec![0; count as usize],
            writes: Vec::new(),
            seq: 0,
            durable: 0,
            stored,
            log: Vec::new(),
            log_stored: 0,
            snapshot: None,
        }
    }

    /// A run within the device, if it is not empty, whose blocks are likely to have one state.
    fn run(&self, start: Index, count: u64) -> (std::ops::Range<usize>, Extent) {
        let start = start.index(self.blocks.len() + 1);
        let alike = self.blocks[start..].iter().take_while(|block| **block == self.blocks[start]);
        // Sometimes one block more than have the same state.
        let count = (count as usize).min(alike.count() + 1).min(self.blocks.len() - start);
        (start..start + count, Extent::new(self.first + start as u64, count as u64))
    }

    fn relative(&self, extent: Extent) -> std::ops::Range<usize> {
        let start = (extent.start - self.first) as usize;
        start..start + extent.count as usize
    }

    fn count(&self, wanted: impl Fn(&Block) -> bool) -> u64 {
        self.blocks.iter().filter(|block| wanted(block)).count() as u64
    }

    fn apply(&mut self, step: &Step) {
        match *step {
            Step::Allocate(count) => self.allocate(count),
            Step::AllocateRun(max) => {
                let run = self.space.allocate_run(1, max);
                assert_eq!(run.is_none(), self.count(|block| *block == Block::Allocatable) == 0);
                run.into_iter().for_each(|run| self.claim(run));
            }
            Step::FreeAfter(start, count, ahead) => self.free_after(start, count, ahead),
            Step::GiveBack(start, count) => self.give_back(start, count),
            Step::Durable(ahead) => self.durable(ahead),
            Step::Pin(start, count) => self.pin(start, count),
            Step::Unpin(write) if !self.writes.is_empty() => {
                self.unpin(write.index(self.writes.len()));
            }
            Step::Unpin(_) => {}
            Step::Withdraw(start, count) => self.withdraw(start, count),
            Step::Snapshot => self.snapshot(),
            Step::BeginSnapshot => self.begin_snapshot(),
            Step::TakeSnapshot(chunks) => self.take_snapshot(chunks),
            Step::Restart(replayed) => self.restart(replayed),
        }
        let allocatable = self.count(|block| *block == Block::Allocatable);
        assert_eq!(self.space.allocatable(), allocatable);
        assert_eq!(self.space.free(), self.count(|block| *block != Block::Used));
        self.space.check_invariants();
    }

    fn claim(&mut self, extent: Extent) {
        let range = self.relative(extent);
        assert!(self.blocks[range.clone()].iter().all(|block| *block == Block::Allocatable));
        self.blocks[range].fill(Block::Used);
        self.log.push((extent, true));
    }

    fn allocate(&mut self, count: u64) {
        match self.space.allocate(count) {
            None => assert!(count > self.count(|block| *block == Block::Allocatable)),
            Some(extents) => {
                assert_eq!(total(&extents), count);
                extents.into_iter().for_each(|extent| self.claim(extent));
            }
        }
    }

    /// Expected result for a run of which all blocks must be in use.
    fn all_used(&self, range: std::ops::Range<usize>) -> Result<(), SpaceError> {
        let wrong = range.clone().find(|block| self.blocks[*block] != Block::Used);
        wrong.map_or(Ok(()), |block| Err(SpaceError::Free { block: self.first + block as u64 }))
    }

    fn free_after(&mut self, start: Index, count: u64, ahead: u64) {
        let (range, extent) = self.run(start, count);
        self.seq += ahead;
        let result = self.space.free_after(self.seq, extent);
        assert_eq!(result, self.all_used(range.clone()));
        if result.is_ok() {
            self.blocks[range].fill(Block::Waiting(self.seq));
            self.log.push((extent, false));
        }
    }

    fn give_back(&mut self, start: Index, count: u64) {
        let (range, extent) = self.run(start, count);
        let result = self.space.give_back(extent);
        assert_eq!(result, self.all_used(range.clone()));
        if result.is_ok() {
            self.log.push((extent, false));
            self.make_ready(range);
        }
    }

    /// Makes blocks ready, which only pins can hold now.
    fn make_ready(&mut self, range: impl Iterator<Item = usize>) {
        for block in range {
            let pinned = self.pins[block] > 0;
            self.blocks[block] = if pinned { Block::Held } else { Block::Allocatable };
        }
    }

    /// Asserts that the extents are the blocks that became allocatable since `before`.
    fn check_released(&self, before: &[Block], released: &Extents) {
        let pairs: Vec<_> = before.iter().zip(&self.blocks).collect();
        let became =
            |(before, now): &(&Block, &Block)| before != now && **now == Block::Allocatable;
        let mut expected = runs(&pairs, became);
        expected.iter_mut().for_each(|run| run.start += self.first);
        assert_eq!(released[..], expected[..]);
    }

    fn durable(&mut self, ahead: u64) {
        self.durable = (self.durable + ahead).min(self.seq);
        let before = self.blocks.clone();
        let durable =
            |block: &usize| matches!(before[*block], Block::Waiting(seq) if seq <= self.durable);
        let ready: Vec<usize> = (0..before.len()).filter(durable).collect();
        self.make_ready(ready.into_iter());
        let released = self.space.durable(self.durable);
        self.check_released(&before, &released);
    }

    fn pin(&mut self, start: Index, count: u64) {
        let (range, extent) = self.run(start, count);
        let free = range.clone().find(|block| self.blocks[*block] == Block::Allocatable);
        match self.space.pin(extent) {
            Ok(()) => {
                assert_eq!(free, None);
                self.pins[range].iter_mut().for_each(|pins| *pins += 1);
                self.writes.push(extent);
            }
            Err(error) => {
                let block = self.first + free.expect("a block is free") as u64;
                assert_eq!(error, SpaceError::Free { block });
            }
        }
    }

    fn unpin(&mut self, write: usize) {
        let extent = self.writes.swap_remove(write);
        let before = self.blocks.clone();
        for block in self.relative(extent) {
            self.pins[block] -= 1;
            if self.pins[block] == 0 && self.blocks[block] == Block::Held {
                self.blocks[block] = Block::Allocatable;
            }
        }
        let released = self.space.unpin(extent).unwrap();
        self.check_released(&before, &released);
        let unpinned = self.pins.iter().position(|pins| *pins == 0);
        if let Some(block) = unpinned.map(|block| self.first + block as u64) {
            let error = Err(SpaceError::NotPinned { block });
            assert_eq!(self.space.unpin(Extent::new(block, 1)), error);
        }
    }

    fn withdraw(&mut self, start: Index, count: u64) {
        let (range, extent) = self.run(start, count);
        let wrong = range.clone().find(|block| self.blocks[*block] != Block::Allocatable);
        let block = wrong.map(|block| self.first + block as u64);
        let expected = block.map_or(Ok(()), |block| Err(SpaceError::Used { block }));
        assert_eq!(self.space.withdraw(extent), expected);
        if wrong.is_none() {
            self.blocks[range.clone()].fill(Block::Held);
            self.pins[range].iter_mut().for_each(|pins| *pins += 1);
            self.writes.push(extent);
        }
    }

    fn begin_snapshot(&mut self) {
        if self.snapshot.is_none() {
            self.space.begin_snapshot();
            let (expected, taken) = (self.logical_chunks(), self.stored.clone());
            self.snapshot = Some(RunningSnapshot { expected, taken, log: self.log.len() });
        }
    }

    /// Asserts that chunks have their state at the beginning of the snapshot.
    fn take_snapshot(&mut self, chunks_max: usize) {
        let Some(begun) = &mut self.snapshot else { return };
        let before = self.space.snapshot_chunks();
        let chunks = self.space.take_snapshot(chunks_max);
        assert_eq!(chunks.len() as u64, before.min(chunks_max as u64));
        for (chunk, bytes) in chunks {
            begun.taken[chunk as usize] = bytes;
        }
        if self.space.snapshot_chunks() == 0 {
            assert_eq!(begun.taken, begun.expected);
            let begun = self.snapshot.take().expect("it was just there");
            (self.stored, self.log_stored) = (begun.taken, begun.log);
        }
    }

    fn snapshot(&mut self) {
        self.take_snapshot(usize::MAX);
        let chunks = self.space.snapshot_dirty();
        assert!(chunks.is_sorted_by_key(|(chunk, _)| *chunk));
        for (chunk, bytes) in chunks {
            self.stored[chunk as usize] = bytes;
        }
        self.log_stored = self.log.len();
        assert_eq!(self.stored, self.logical_chunks());
        assert!(self.space.snapshot_dirty().is_empty());
    }

    fn logical_chunks(&self) -> Vec<[u8; CHUNK_BYTES]> {
        let mut chunks = vec![[0; CHUNK_BYTES]; self.stored.len()];
        for (block, _) in self.blocks.iter().enumerate().filter(|(_, state)| **state == Block::Used)
        {
            chunks[block / 4096][block % 4096 / 8] |= 1 << (block % 8);
        }
        chunks
    }

    /// Restarts with everything durable and no write in flight.
    fn restart(&mut self, replayed: Index) {
        let extent = self.space.map().extent();
        self.space = Space::new(extent);
        self.snapshot = None;
        for (chunk, bytes) in self.stored.iter().enumerate() {
            self.space.load_chunk(chunk as u32, bytes).unwrap();
        }
        for (extent, taken) in &self.log[replayed.index(self.log_stored + 1)..] {
            match taken {
                true => self.space.replay_taken(*extent).unwrap(),
                false => self.space.replay_freed(*extent).unwrap(),
            }
        }
        for block in self.blocks.iter_mut().filter(|block| **block != Block::Used) {
            *block = Block::Allocatable;
        }
        self.pins.fill(0);
        self.writes.clear();
        self.snapshot();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn blocks_are_used_again_when_record_and_writes_are_done_and_are_stored_as_records_say(
        first in select(vec![0, 2, 777]),
        count in prop_oneof![3 => 1u64..400, 2 => select(SIZES.to_vec())],
        steps in prop::collection::vec(step(), 1..80),
    ) {
        let mut pair = Pair::new(first, count);
        for step in &steps {
            pair.apply(step);
        }
        pair.snapshot();
        while !pair.writes.is_empty() {
            pair.unpin(0);
        }
        pair.durable(pair.seq);
        prop_assert_eq!(pair.space.free(), pair.space.allocatable());
        prop_assert!(pair.space.snapshot_dirty().is_empty(), "reuse is not stored");
    }
}

fn space_in_use() -> Space {
    let mut space = Space::new(Extent::new(0, 100));
    space.allocate(100).unwrap();
    space
}

#[test]
fn a_block_is_not_given_back_twice() {
    let mut space = space_in_use();
    space.free_after(1, Extent::new(10, 5)).unwrap();
    let twice = space.free_after(2, Extent::new(8, 5));
    assert_eq!(twice, Err(SpaceError::Free { block: 10 }));
    space.durable(1);
    assert_eq!(space.give_back(Extent::new(14, 1)), Err(SpaceError::Free { block: 14 }));
    assert_eq!(space.free(), 5);
}

#[test]
fn blocks_freed_by_records_are_released_as_joined_extents() {
    let mut space = space_in_use();
    for (seq, start) in [(1, 20), (2, 10), (2, 12), (3, 16), (4, 14)] {
        space.free_after(seq, Extent::new(start, 2)).unwrap();
    }
    assert_eq!(space.durable(0)[..], []);
    assert_eq!(space.durable(3)[..], [(10, 4), (16, 2), (20, 2)].map(|(s, c)| Extent::new(s, c)));
    assert_eq!(space.durable(4)[..], [Extent::new(14, 2)]);
}

#[test]
fn a_block_that_waits_for_two_writes_is_released_with_the_last() {
    let mut space = space_in_use();
    let (write, both) = (Extent::new(10, 4), Extent::new(12, 1));
    space.pin(write).unwrap();
    space.pin(both).unwrap();
    space.free_after(1, Extent::new(8, 10)).unwrap();
    assert_eq!(space.durable(1)[..], [Extent::new(8, 2), Extent::new(14, 4)]);
    assert_eq!(space.allocate(7), None);
    let released = space.unpin(write).unwrap();
    assert_eq!(released[..], [Extent::new(10, 2), Extent::new(13, 1)]);
    assert_eq!(space.unpin(both).unwrap()[..], [both]);
    assert_eq!(space.unpin(both), Err(SpaceError::NotPinned { block: 12 }));
}

#[test]
#[should_panic(expected = "record 4 frees blocks after record 5")]
fn records_come_in_order() {
    let mut space = space_in_use();
    space.free_after(5, Extent::new(0, 1)).unwrap();
    let _ = space.free_after(4, Extent::new(1, 1));
}

#[test]
fn a_snapshot_is_begun_at_once_and_taken_in_pieces_however_many_chunks_have_changed() {
    // Sixteen TB, with a change in each chunk.
    let blocks = 1 << 32;
    let mut space = Space::new(Extent::new(0, blocks));
    space.allocate(blocks).unwrap();
    space.begin_snapshot();
    let chunks = blocks / 4096;
    assert_eq!(space.snapshot_chunks(), chunks);
    // The work is proportional to the chunks taken and to those that change meanwhile.
    assert_eq!(space.take_snapshot(7).len(), 7);
    space.free_after(1, Extent::new(100 * 4096, 1)).unwrap();
    assert_eq!((space.snapshot_chunks(), space.map().dirty_chunks()), (chunks - 7, 1));
    let kept = space.take_snapshot(1);
    assert_eq!((kept[0].0, kept[0].1[0]), (100, 0xff), "as it was before the block was freed");
    let memory = crate::space::BlockMap::memory_for(blocks);
    assert_eq!(space.map().memory(), memory);
    assert!(memory < (36 * 17) << 20, "{memory} bytes for 17 TB");
}

#[test]
#[should_panic(expected = "wrong number of free blocks")]
fn a_wrong_number_of_free_blocks_is_found() {
    let mut space = Space::new(Extent::new(10, 200));
    space.allocate(7).unwrap();
    space.check_invariants();
    space.map.free += 1;
    space.check_invariants();
}

#[test]
#[should_panic(expected = "blocks are free and")]
fn a_block_that_is_neither_free_nor_in_use_is_found() {
    let mut space = Space::new(Extent::new(10, 200));
    let taken = space.allocate(7).unwrap();
    space.free_after(3, taken[0]).unwrap();
    space.check_invariants();
    // As if it waited for its record and could be allocated already.
    space.map.words[0] |= 1;
    space.map.free += 1;
    space.check_invariants();
}
