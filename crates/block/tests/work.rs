//! Bounded work per turn, however much is stored, removed or replaced: counted, not timed.

use block::disk::{DiskOptions, Driver, FaultyDisk};
use block::{BlockStore, Options, Work, format};
use bytes::Bytes;
use engine::Time;
use std::collections::BTreeMap;
use store::{Change, Collection, Outcome, RequestKind, Transaction, VERSION_MAX};
use types::{EVersion, HObject, PgId, PoolId};

const POOL: PoolId = PoolId(1);
/// Entries that a turn passes at most: the budget of one execution, and some that it did not
/// expect.
const PASSED_MAX: u64 = 2048 + 3 * 64;
const POINTS_MAX: u64 = 2048;
const CHUNKS_MAX: u64 = 1024;
/// Pages of a turn at most, including its last step.
const PAGES_MAX: u64 = 256 + 128;

fn at(group: u32) -> Collection {
    Collection::replicated(PgId { pool: POOL, seed: group })
}

fn object(number: u64) -> HObject {
    let name = Bytes::from(format!("rbd_data.10226b8b4567.{number:016x}"));
    let hash = (number as u32).wrapping_mul(0x9e37_79b9);
    HObject::head(POOL, Bytes::new(), Bytes::new(), name, hash)
}

fn key(number: u64) -> Bytes {
    Bytes::from(format!("{number:020}"))
}

struct Store {
    driver: Driver<BlockStore>,
}

impl Store {
    fn new(options: Options) -> Self {
        let devices = DiskOptions { main_blocks: options.main_blocks, ..DiskOptions::default() };
        let mut disk = FaultyDisk::new(1, devices);
        disk.perform(format(&options, [1; 16], b"osd.0", None).unwrap());
        let mut driver = Driver::new(BlockStore::open(options), disk, Time::ZERO);
        driver.run_until_ready();
        Store { driver }
    }

    /// Checkpoints come late: hundreds of thousands of changes fit into memory.
    fn with_much_memory() -> Self {
        let mut store =
            Store::new(Options { main_blocks: 1 << 20, memory: 2 << 30, ..Options::default() });
        store.commit(vec![(at(1), Change::CreateCollection)]);
        store
    }

    fn commit(&mut self, changes: Vec<(Collection, Change)>) {
        let done = self.driver.execute(RequestKind::Commit(Transaction { changes }));
        assert_eq!(done, Ok(Outcome::Committed));
    }

    fn fill_objects(&mut self, count: u64) {
        let attrs: BTreeMap<Bytes, Bytes> = [("_".into(), Bytes::from(vec![1; 250]))].into();
        for first in (0..count).step_by(500) {
            let set =
                |number| (at(1), Change::SetAttrs { object: object(number), attrs: attrs.clone() });
            self.commit((first..count.min(first + 500)).map(set).collect());
        }
    }

    fn fill_omap(&mut self, count: u64) {
        for first in (0..count).step_by(1000) {
            let pair = |number| (key(number), Bytes::from(vec![1; 20]));
            let pairs = (first..count.min(first + 1000)).map(pair).collect();
            self.commit(vec![(at(1), Change::OmapSet { object: object(1), pairs })]);
        }
    }

    fn checkpoint(&mut self) {
        self.driver.with_store(BlockStore::request_checkpoint);
        self.settle();
    }

    fn settle(&mut self) {
        self.driver.run_until_idle();
        assert!(self.driver.store().is_idle());
        self.driver.store().check_invariants();
    }

    fn list(&mut self, entries_max: usize) -> Vec<Bytes> {
        let request = RequestKind::OmapList {
            collection: at(1),
            object: object(1),
            after: None,
            prefix: Bytes::new(),
            entries_max,
            bytes_max: 1 << 20,
        };
        let Ok(Outcome::OmapPage(page)) = self.driver.execute(request) else { panic!("a page") };
        page.pairs.into_keys().collect()
    }

    fn objects(&mut self) -> u64 {
        let Ok(Outcome::Usage(usage)) = self.driver.execute(RequestKind::Usage) else {
            panic!("usage returns usage")
        };
        usage.objects
    }

    fn work(&self) -> Work {
        self.driver.store().work()
    }

    /// Maximum of work in one turn.
    fn check_turns(&self) {
        let most = self.driver.store().most_work();
        assert!(most.passed <= PASSED_MAX, "{most:?}");
        assert!(most.points <= POINTS_MAX, "{most:?}");
        assert!(most.chunks <= CHUNKS_MAX, "{most:?}");
        assert!(most.pages <= PAGES_MAX, "{most:?}");
    }
}

#[test]
fn the_removal_of_a_collection_passes_each_object_once() {
    for is_in_tree in [true, false] {
        let count = 50_000;
        let mut store = Store::with_much_memory();
        store.fill_objects(count);
        if is_in_tree {
            store.checkpoint();
        }
        let before = store.work();
        store.commit(vec![(at(1), Change::RemoveCollection)]);
        store.settle();
        assert_eq!(store.objects(), 0);
        let passed = store.work().passed - before.passed;
        assert!(passed < 2 * count, "{passed} entries are passed");
        store.checkpoint();
        assert_eq!(store.driver.store().buffered(), (0, 0), "nothing is left behind");
        store.check_turns();
    }
}

#[test]
fn the_removal_of_a_collection_goes_on_where_it_was_after_a_restart() {
    let mut store = Store::with_much_memory();
    store.fill_objects(20_000);
    store.checkpoint();
    store.commit(vec![(at(1), Change::RemoveCollection)]);
    while store.objects() > 10_000 {
        assert!(store.driver.step());
    }
    let mut disk = store.driver.into_disk();
    disk.restart();
    let options = Options { main_blocks: 1 << 20, memory: 2 << 30, ..Options::default() };
    let mut driver = Driver::new(BlockStore::open(options), disk, Time::ZERO);
    driver.run_until_ready();
    let mut store = Store { driver };
    store.settle();
    assert_eq!(store.objects(), 0);
    assert!(store.work().passed < 40_000, "{:?}", store.work());
    store.check_turns();
}

#[test]
fn a_queue_is_listed_without_passing_what_was_taken_from_it() {
    let count = 60_000;
    let mut store = Store::with_much_memory();
    store.fill_omap(count);
    store.checkpoint();
    let before = store.work();
    let mut first = 0;
    loop {
        let keys = store.list(1000);
        if keys.is_empty() {
            break;
        }
        assert_eq!(keys[0], key(first));
        first += keys.len() as u64;
        store.commit(vec![(at(1), Change::OmapRemove { object: object(1), keys })]);
    }
    assert_eq!(first, count);
    let passed = store.work().passed - before.passed;
    assert!(passed < 3 * count, "{passed} entries are passed");
    // A pair that is put into an empty range is found.
    let pairs = [(key(17), Bytes::from_static(b"new"))].into();
    store.commit(vec![(at(1), Change::OmapSet { object: object(1), pairs })]);
    assert_eq!(store.list(10), [key(17)]);
    store.check_turns();
}

#[test]
fn a_list_behind_many_removed_keys_takes_several_turns() {
    let count = 60_000;
    let mut store = Store::with_much_memory();
    store.fill_omap(count);
    store.checkpoint();
    for first in (0..count - 1).step_by(1000) {
        let keys = (first..(count - 1).min(first + 1000)).map(key).collect();
        store.commit(vec![(at(1), Change::OmapRemove { object: object(1), keys })]);
    }
    assert_eq!(store.list(10), [key(count - 1)]);
    store.check_turns();
    let before = store.work();
    assert_eq!(store.list(10), [key(count - 1)]);
    assert!(store.work().passed - before.passed < 10, "it is known where nothing is");
}

#[test]
fn an_omap_of_which_all_is_in_memory_is_cleared_in_pieces_and_at_once_for_readers() {
    let count = 50_000;
    let mut store = Store::with_much_memory();
    store.fill_omap(count);
    let clear = Transaction { changes: vec![(at(1), Change::OmapClear { object: object(1) })] };
    let cleared = store.driver.submit(RequestKind::Commit(clear));
    // The commit has taken effect, and the next one is executed after it.
    let pairs = [(key(3), Bytes::from_static(b"new"))].into();
    let changes = vec![(at(1), Change::OmapSet { object: object(1), pairs })];
    let set = store.driver.submit(RequestKind::Commit(Transaction { changes }));
    for token in [cleared, set] {
        assert_eq!(store.driver.next_completion().token, token);
    }
    assert_eq!(store.list(10), [key(3)]);
    store.check_turns();
    store.settle();
    assert_eq!(store.driver.store().buffered().0 / count as usize, 0, "the points are gone");
}

#[test]
fn a_checkpoint_of_very_many_changes_does_some_of_them_in_each_turn() {
    let count = 60_000;
    let mut store = Store::with_much_memory();
    store.fill_objects(count);
    store.fill_omap(count);
    store.checkpoint();
    // All of that is in the cache, and all of it is evicted.
    let last = key(count);
    let change = Change::OmapRemoveRange { object: object(1), first: key(0), last };
    store.commit(vec![(at(1), change)]);
    store.checkpoint();
    // Removed keys that the tree never had cost no page, but time.
    store.fill_omap(count);
    for first in (0..count).step_by(1000) {
        let keys = (first..first + 1000).map(key).collect();
        store.commit(vec![(at(1), Change::OmapRemove { object: object(1), keys })]);
    }
    store.checkpoint();
    assert_eq!(store.objects(), count);
    store.check_turns();
}

#[test]
fn terabytes_and_little_memory_are_served_with_bounded_turns() {
    // Four TB, of which the bitmap takes 140 MB.
    let options = Options { main_blocks: 1 << 30, memory: 192 << 20, ..Options::default() };
    let mut store = Store::new(options);
    store.commit(vec![(at(1), Change::CreateCollection)]);
    for round in 0..3 {
        for number in 0..3000 {
            let write = Change::Write {
                object: object(number),
                offset: (number + round) % 16 * 4096,
                data: Bytes::from(vec![number as u8; 4096]),
            };
            store.commit(vec![(at(1), write)]);
        }
        store.checkpoint();
    }
    let read =
        RequestKind::Read { collection: at(1), object: object(77), offset: 0, length: 1 << 20 };
    let Ok(Outcome::Read(data)) = store.driver.execute(read) else { panic!("data") };
    assert!(!data.data.is_empty());
    store.check_turns();
}

#[test]
fn a_device_whose_bitmap_exceeds_memory_is_refused_with_the_needed_size() {
    let options = Options { main_blocks: 60_000_000_000_000 / 4096, ..Options::default() };
    let refusal = format(&options, [1; 16], b"osd.0", None).unwrap_err().to_string();
    assert!(refusal.contains("for the bitmap of its blocks"), "{refusal}");
    let memory = options.memory_needed();
    assert!((2 << 30..3 << 30).contains(&memory), "{memory}");
    assert!(format(&Options { memory, ..options }, [1; 16], b"osd.0", None).is_ok());
}

/// As many pages as possible are read at once, whatever the changes need.
#[test]
fn settled_changes_of_many_objects_wait_for_few_reads() {
    let count = 1000;
    let options = Options { main_blocks: 1 << 20, ..Options::default() };
    let mut store = Store::new(options.clone());
    store.commit(vec![(at(1), Change::CreateCollection)]);
    let write = |number, block: u64, blocks: usize| {
        let data = Bytes::from(vec![1u8; blocks * 4096]);
        Change::Write { object: object(number), offset: block * 4096, data }
    };
    for number in 0..count {
        // Several extent segments, none of which is in the onode.
        store.commit(vec![(at(1), write(number, number % 200, 1)), (at(1), write(number, 256, 1))]);
        let changes = vec![write(number, 130, 20), write(number, number % 64, 1)];
        let version = EVersion::new(1, number + 1);
        store.commit(vec![(at(1), Change::Hold { version, changes })]);
    }
    store.checkpoint();
    let mut disk = store.driver.into_disk();
    disk.restart();
    let mut driver = Driver::new(BlockStore::open(options), disk, Time::ZERO);
    driver.run_until_ready();
    let mut store = Store { driver };
    let before = store.work().commits;
    store.commit(vec![(at(1), Change::Settle { through: VERSION_MAX })]);
    let attempts = store.work().commits - before;
    assert!(attempts < 12, "{attempts} attempts");
    store.settle();
}

#[test]
fn held_changes_that_end_before_a_checkpoint_leave_nothing_in_memory() {
    let mut store = Store::with_much_memory();
    store.checkpoint();
    for (number, blocks) in (1..).zip([1, 100, 1000]) {
        let data = Bytes::from(vec![1u8; blocks * 4096]);
        let changes = vec![Change::Write { object: object(1), offset: 0, data }];
        store.commit(vec![(at(1), Change::Hold { version: EVersion::new(1, number), changes })]);
    }
    store.commit(vec![(at(1), Change::Drop { from: EVersion::ZERO, through: VERSION_MAX })]);
    assert_eq!(store.driver.store().buffered().0, 0);
    store.settle();
}
