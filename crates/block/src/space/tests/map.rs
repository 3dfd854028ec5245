//! Tests of allocation and storage of the map.

use super::*;
use crate::space::{BlockMap, CHUNK_BYTES, SpaceError};
use proptest::prelude::*;
use proptest::sample::select;
use stdx::Prng;

/// Free runs that the map examines before it takes less than the best.
const WINDOW: usize = 64;

#[derive(Debug, Clone)]
enum Step {
    Allocate(u64),
    AllocateRun(u64, u64),
    Take(u64, u64),
    Release(u64, u64),
    SetUsed(u64, u64),
    SetFree(u64, u64),
    /// Fills the device, then frees the used blocks of every n-th run of a length.
    Comb {
        every: u64,
        length: u64,
    },
    Store,
}

fn count() -> impl Strategy<Value = u64> {
    prop_oneof![0u64..4, 0u64..70, 60u64..130, 0u64..1500, 0u64..9000]
}

fn step() -> impl Strategy<Value = Step> {
    let run = || (0u64..9000, count());
    prop_oneof![
        4 => count().prop_map(Step::Allocate),
        2 => (count(), count())
            .prop_map(|(one, other)| Step::AllocateRun(one.min(other).max(1), one.max(other).max(1))),
        1 => run().prop_map(|(start, count)| Step::Take(start, count)),
        1 => run().prop_map(|(start, count)| Step::Release(start, count)),
        1 => run().prop_map(|(start, count)| Step::SetUsed(start, count)),
        2 => run().prop_map(|(start, count)| Step::SetFree(start, count)),
        1 => (1u64..200, 1u64..200).prop_map(|(every, length)| Step::Comb { every, length }),
        1 => Just(Step::Store),
    ]
}

struct Pair {
    first: u64,
    map: BlockMap,
    /// One flag per block, set if it is used.
    used: Vec<bool>,
    stored: Vec<[u8; CHUNK_BYTES]>,
}

impl Pair {
    fn new(first: u64, count: u64) -> Self {
        let map = BlockMap::new(Extent::new(first, count));
        let stored = vec![[0; CHUNK_BYTES]; map.chunk_count() as usize];
        Pair { first, map, used: vec![false; count as usize], stored }
    }

    fn absolute(&self, start: u64, count: u64) -> Extent {
        Extent::new(self.first + start, count)
    }

    fn free_runs(&self) -> Vec<Extent> {
        runs(&self.used, |used| !used)
    }

    fn mark(&mut self, start: u64, count: u64, used: bool) {
        self.used[start as usize..(start + count) as usize].fill(used);
    }

    /// Asserts that the extent was free, and marks it as used.
    fn claim(&mut self, extent: Extent) {
        let start = extent.start.checked_sub(self.first).expect("within the device");
        let blocks = &mut self.used[start as usize..(start + extent.count) as usize];
        assert!(blocks.iter().all(|used| !used), "{extent:?} was in use");
        blocks.fill(true);
    }

    fn apply(&mut self, step: &Step) {
        match *step {
            Step::Allocate(count) => self.allocate(count),
            Step::AllocateRun(min, max) => self.allocate_run(min, max),
            Step::Take(start, count) => self.change_all(start, count, true),
            Step::Release(start, count) => self.change_all(start, count, false),
            Step::SetUsed(start, count) => self.overwrite(start, count, true),
            Step::SetFree(start, count) => self.overwrite(start, count, false),
            Step::Comb { every, length } => self.comb(every, length),
            Step::Store => self.store(),
        }
        let free = self.used.iter().filter(|used| !**used).count() as u64;
        assert_eq!(self.map.free(), free);
        self.map.check_invariants();
    }

    fn allocate(&mut self, count: u64) {
        let before = self.free_runs();
        let Some(extents) = self.map.allocate(count) else {
            assert!(count > total(&before), "{count} blocks of {before:?}");
            return;
        };
        assert_eq!(total(&extents), count);
        assert!(is_normal(&extents), "{extents:?}");
        extents.iter().for_each(|extent| self.claim(*extent));
        if before.len() <= WINDOW && before.iter().any(|run| run.count >= count) {
            assert!(extents.len() <= 1, "{count} blocks in pieces of {before:?}: {extents:?}");
        }
    }

    fn allocate_run(&mut self, min: u64, max: u64) {
        let before = self.free_runs();
        let longest = before.iter().map(|run| run.count).max().unwrap_or(0);
        let Some(run) = self.map.allocate_run(min, max) else {
            assert!(longest < min, "no run of {min} in {before:?}");
            return;
        };
        assert!((min..=max).contains(&run.count));
        // A run without a wholly free word may lose to a shorter one that has one.
        let surely_found = before.len() <= WINDOW && (longest >= max || longest >= 127);
        assert!(!surely_found || run.count == max.min(longest), "{run:?} of {before:?}");
        self.claim(run);
    }

    fn change_all(&mut self, start: u64, count: u64, used: bool) {
        let extent = self.absolute(start, count);
        let result = if used { self.map.take(extent) } else { self.map.release(extent) };
        let expected = match self.used.get(start as usize..(start + count) as usize) {
            None => Err(SpaceError::OutOfRange { extent, space: self.map.extent() }),
            Some(blocks) => match blocks.iter().position(|block| *block == used) {
                None => Ok(()),
                Some(wrong) => {
                    let block = extent.start + wrong as u64;
                    Err(if used { SpaceError::Used { block } } else { SpaceError::Free { block } })
                }
            },
        };
        assert_eq!(result, expected);
        if result.is_ok() {
            self.mark(start, count, used);
        }
    }

    fn overwrite(&mut self, start: u64, count: u64, used: bool) {
        let extent = self.absolute(start, count);
        let result = if used { self.map.set_used(extent) } else { self.map.set_free(extent) };
        assert_eq!(result.is_ok(), start + count <= self.used.len() as u64);
        if result.is_ok() {
            self.mark(start, count, used);
        }
    }

    fn comb(&mut self, every: u64, length: u64) {
        let size = self.used.len() as u64;
        self.overwrite(0, size, true);
        for start in (0..size).step_by((every + length) as usize) {
            self.overwrite(start, length.min(size - start), false);
        }
    }

    /// Chunks that are not dirty are stored already.
    fn store(&mut self) {
        for chunk in self.map.take_dirty() {
            self.stored[chunk as usize] = self.map.chunk(chunk);
        }
        assert!(self.map.take_dirty().is_empty());
        let mut loaded = BlockMap::new(self.map.extent());
        for (chunk, bytes) in self.stored.iter().enumerate() {
            assert_eq!(*bytes, self.model_chunk(chunk));
            let mut bytes = *bytes;
            self.spoil_behind_the_end(chunk, &mut bytes);
            loaded.load_chunk(chunk as u32, &bytes).unwrap();
        }
        loaded.check_invariants();
        assert!(loaded.take_dirty().is_empty());
        assert_eq!(loaded.words, self.map.words);
    }

    fn model_chunk(&self, chunk: usize) -> [u8; CHUNK_BYTES] {
        let mut bytes = [0; CHUNK_BYTES];
        for (block, _) in self.used.iter().enumerate().filter(|(_, used)| **used) {
            if block / 4096 == chunk {
                bytes[block % 4096 / 8] |= 1 << (block % 8);
            }
        }
        bytes
    }

    fn spoil_behind_the_end(&self, chunk: usize, bytes: &mut [u8; CHUNK_BYTES]) {
        for block in (chunk * 4096..(chunk + 1) * 4096).filter(|block| *block >= self.used.len()) {
            bytes[block % 4096 / 8] |= u8::from(block % 3 > 0) << (block % 8);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn the_map_allocates_and_stores_as_one_that_knows_each_block(
        first in select(vec![0, 2, 1000, 1 << 40]),
        count in prop_oneof![select(SIZES.to_vec()), 0u64..8192],
        steps in prop::collection::vec(step(), 1..40),
    ) {
        let mut pair = Pair::new(first, count);
        for step in &steps {
            pair.apply(step);
        }
        pair.store();
        for (block, used) in pair.used.iter().enumerate() {
            prop_assert_eq!(pair.map.is_used(first + block as u64), *used);
        }
        prop_assert!(pair.map.is_used(first + count));
        prop_assert!(first == 0 || pair.map.is_used(first - 1));
    }

    #[test]
    fn free_runs_are_counted_by_length(
        count in prop_oneof![select(SIZES.to_vec()), 0u64..8192],
        steps in prop::collection::vec(step(), 1..20),
    ) {
        let mut pair = Pair::new(5, count);
        for step in &steps {
            pair.apply(step);
        }
        let mut by_size = [0; 64];
        let mut largest = Extent::default();
        for run in pair.free_runs() {
            by_size[run.count.ilog2() as usize] += 1;
            if run.count > largest.count {
                largest = pair.absolute(run.start, run.count);
            }
        }
        let counted = pair.map.free_runs();
        prop_assert_eq!(counted.by_size, by_size);
        prop_assert_eq!(counted.largest, largest);
        prop_assert_eq!(counted.count(), pair.free_runs().len() as u64);
    }
}

#[test]
fn a_full_device_gives_each_block_once() {
    let mut pair = Pair::new(3, 4999);
    for _ in 0..4999 {
        pair.allocate(1);
    }
    assert_eq!(pair.map.allocate(1), None);
    assert_eq!(pair.map.allocate_run(1, 5), None);
    assert_eq!(pair.map.allocate(0).unwrap()[..], []);
    pair.map.release(Extent::new(3 + 4998, 1)).unwrap();
    assert_eq!(pair.map.allocate_run(1, 5), Some(Extent::new(3 + 4998, 1)));
}

#[test]
fn scattered_single_blocks_are_all_found() {
    let mut pair = Pair::new(0, 8000);
    pair.overwrite(0, 8000, true);
    let mut prng = Prng::new(1);
    for _ in 0..90 {
        pair.overwrite(prng.below(8000), 1, false);
    }
    let free = pair.map.free();
    assert_eq!(pair.map.allocate(free + 1), None);
    pair.allocate(free - 2);
    pair.allocate(1);
    pair.allocate(1);
    assert_eq!(pair.map.free(), 0);
}

#[test]
fn small_allocations_lie_side_by_side_although_large_ones_come_between() {
    let mut map = BlockMap::new(Extent::new(0, 1 << 16));
    map.allocate(1).unwrap();
    map.allocate(1000).unwrap();
    let mut last = map.allocate(1).unwrap()[0];
    for _ in 0..20 {
        let large = map.allocate(1000).unwrap();
        assert_eq!(large.len(), 1);
        let next = map.allocate(2).unwrap();
        assert_eq!((next.len(), next[0].start), (1, last.end()));
        last = next[0];
    }
}

#[test]
fn large_allocations_follow_each_other_without_gaps() {
    let mut map = BlockMap::new(Extent::new(9, 1 << 16));
    let mut end = map.allocate(64).unwrap()[0].end();
    for count in [100, 1000, 77, 4096, 129, 64, 5000] {
        let extents = map.allocate(count).unwrap();
        assert_eq!(extents[..], [Extent::new(end, count)]);
        end += count;
    }
}

#[test]
fn a_long_run_behind_many_gaps_is_preferred_to_the_gaps() {
    let mut pair = Pair::new(0, 100_000);
    pair.comb(1, 1);
    pair.overwrite(90_000, 200, false);
    for (count, start) in [(60, 90_000), (130, 90_060)] {
        assert_eq!(pair.map.allocate(count).unwrap()[..], [Extent::new(start, count)]);
    }
    assert_eq!(pair.map.allocate_run(9, 20), Some(Extent::new(90_190, 11)));
    assert_eq!(pair.map.allocate_run(2, 20), None);
    assert_eq!(pair.map.allocate(30).unwrap().len(), 30);
}

#[test]
fn a_terabyte_takes_less_than_forty_mebibytes() {
    let map = BlockMap::new(Extent::new(0, 1 << 28));
    assert!(map.memory() < 40 << 20, "{} bytes", map.memory());
    assert_eq!(map.free_runs().largest, Extent::new(0, 1 << 28));
}

#[test]
fn numbers_that_make_no_sense_are_errors() {
    let mut map = BlockMap::new(Extent::new(10, 5000));
    for (start, count) in [(0, 1), (9, 1), (10, 5001), (5010, 1), (11, u64::MAX), (u64::MAX, 2)] {
        let extent = Extent::new(start, count);
        let error = Err(SpaceError::OutOfRange { extent, space: map.extent() });
        assert_eq!(map.take(extent), error);
        assert_eq!(map.set_free(extent), error);
        assert_eq!(map.set_used(extent), error);
        assert_eq!(map.release(extent), error);
    }
    assert_eq!(map.load_chunk(2, &[0; 512]), Err(SpaceError::NoChunk { chunk: 2, chunks: 2 }));
    for length in (0..CHUNK_BYTES).chain([CHUNK_BYTES + 1]) {
        let error = Err(SpaceError::ChunkLength { chunk: 1, length });
        assert_eq!(map.load_chunk(1, &vec![0xff; length]), error);
    }
    assert_eq!(map.free(), 5000);
}
