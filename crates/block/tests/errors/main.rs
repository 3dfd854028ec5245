//! Errors of devices: transient ones go unnoticed, permanent ones are reported precisely and affect
//! nothing else.

#[path = "../properties/harness/mod.rs"]
mod harness;
mod stopping;

use block::BlockStore;
use block::disk::{Driver, Faults, ReadFault};
use bytes::Bytes;
use engine::{Duration, Time};
use harness::generator::collection;
use harness::last::{Harm, last_run};
use harness::shape::{MEMORY_TINY, Shape};
use harness::{healing, races};
use store::{Change, Outcome, RequestKind, StoreError, Transaction};
use types::{HObject, PoolId};

const ALL_READS: Faults = Faults {
    read_errors_per_million: 1_000_000,
    write_errors_per_million: 0,
    flush_errors_per_million: 0,
    misdirected_writes_per_million: 0,
};

fn object(number: u32) -> HObject {
    let name = Bytes::from(format!("object {number}"));
    let hash = number.wrapping_mul(0x9e37_79b9);
    HObject::head(PoolId(1), Bytes::new(), Bytes::new(), name, hash)
}

fn attributes(number: u32, value: u8) -> Change {
    let attrs = [("_".into(), Bytes::from(vec![value; 250]))].into();
    Change::SetAttrs { object: object(number), attrs }
}

fn meta(number: u32) -> RequestKind {
    RequestKind::Meta { collection: collection(0), object: object(number) }
}

fn commit(changes: impl IntoIterator<Item = Change>) -> RequestKind {
    let changes = changes.into_iter().map(|change| (collection(0), change)).collect();
    RequestKind::Commit(Transaction { changes })
}

/// A store with these objects, far more than its cache holds, all in the tree.
fn filled(shape: &Shape, objects: u32) -> Driver<BlockStore> {
    let mut driver = shape.start(shape.format(1), Time::ZERO);
    driver.run_until_ready();
    driver.execute(commit([Change::CreateCollection])).unwrap();
    for first in (0..objects).step_by(100) {
        let changes = (first..first + 100).map(|number| attributes(number, 1));
        driver.execute(commit(changes)).unwrap();
    }
    checkpoint(&mut driver);
    driver
}

/// Keys scattered over the omap of one object.
fn pairs(number: u64) -> Change {
    let key =
        |index: u64| format!("{:020}", (number * 40 + index).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let pairs = (0..40).map(|index| (Bytes::from(key(index)), Bytes::from(vec![1; 200])));
    Change::OmapSet { object: object(1), pairs: pairs.collect() }
}

/// A store whose next checkpoint must read many pages that are not cached.
fn with_changed_omap() -> Driver<BlockStore> {
    let shape = small();
    let mut driver = shape.start(shape.format(1), Time::ZERO);
    driver.run_until_ready();
    driver.execute(commit([Change::CreateCollection])).unwrap();
    for number in 0..500 {
        driver.execute(commit([pairs(number)])).unwrap();
    }
    checkpoint(&mut driver);
    for number in 500..502 {
        driver.execute(commit([pairs(number)])).unwrap();
    }
    driver
}

fn small() -> Shape {
    let mut shape = Shape::new(64, 0);
    shape.store.memory = MEMORY_TINY;
    shape
}

fn checkpoint(driver: &mut Driver<BlockStore>) {
    driver.with_store(BlockStore::request_checkpoint);
    driver.run_until_idle();
}

/// Advances time until the store is idle.
fn quiesce(driver: &mut Driver<BlockStore>) {
    while driver.step() {}
}

#[test]
fn a_damaged_block_of_the_last_batch_of_an_idle_store_damages_its_object_alone() {
    for seed in 0..4 {
        last_run(seed, Harm::Flip, true);
        last_run(seed, Harm::Unreadable, true);
    }
}

#[test]
fn a_store_does_not_open_if_data_that_may_have_been_acknowledged_cannot_be_read() {
    for seed in 0..4 {
        last_run(seed, Harm::Unreadable, false);
    }
}

#[test]
fn data_of_a_batch_that_may_never_have_been_durable_ends_the_log_before_it() {
    for seed in 0..4 {
        last_run(seed, Harm::Flip, false);
    }
}

#[test]
fn one_mark_is_written_when_a_store_becomes_idle_and_none_to_one_that_stays_so() {
    let shape = Shape::new(64, 0);
    let mut driver = shape.start(shape.format(1), Time::ZERO);
    driver.run_until_ready();
    let writes = |driver: &Driver<BlockStore>| {
        driver.disk().counters(block::device::Device::Main).blocks_written
    };
    let before = writes(&driver);
    quiesce(&mut driver);
    assert_eq!(writes(&driver), before, "nothing was acknowledged");
    driver.execute(commit([Change::CreateCollection])).unwrap();
    let before = writes(&driver);
    let began = driver.now();
    quiesce(&mut driver);
    assert_eq!(writes(&driver), before + 1);
    assert!(driver.now().since(began) >= Duration::from_secs(1));
    driver.execute(commit([Change::Touch { object: object(1) }])).unwrap();
    checkpoint(&mut driver);
    let before = writes(&driver);
    quiesce(&mut driver);
    assert_eq!(writes(&driver), before, "the superblock says it");
}

#[test]
fn a_store_that_is_closed_needs_no_second() {
    let shape = Shape::new(64, 0);
    let mut driver = shape.start(shape.format(1), Time::ZERO);
    driver.run_until_ready();
    driver.execute(commit([Change::CreateCollection])).unwrap();
    assert!(!driver.store().is_closed());
    let began = driver.now();
    driver.with_store(BlockStore::close);
    while !driver.store().is_closed() {
        assert!(driver.step());
    }
    assert!(driver.now().since(began) < Duration::from_secs(1));
}

#[test]
fn reads_that_fail_once_are_not_noticed() {
    for seed in 0..3 {
        healing::healing_run(seed, 30, 12);
    }
}

#[test]
fn an_unreadable_page_is_read_again() {
    let mut driver = filled(&small(), 3000);
    driver.disk_mut().set_faults(ALL_READS);
    let failed = (0..3000).find(|number| driver.execute(meta(*number)).is_err());
    let failed = failed.expect("not all is in memory");
    driver.disk_mut().heal();
    quiesce(&mut driver);
    for number in 0..3000 {
        let outcome = driver.execute(meta(number));
        assert!(matches!(outcome, Ok(Outcome::Meta(Some(_)))), "{number}, {failed}: {outcome:?}");
    }
}

#[test]
fn a_checkpoint_goes_on_when_its_pages_can_be_read_again() {
    let mut driver = with_changed_omap();
    driver.disk_mut().set_faults(ALL_READS);
    checkpoint(&mut driver);
    assert!(!driver.store().is_idle(), "it waits");
    for _ in 0..3 {
        driver.step();
    }
    driver.disk_mut().heal();
    quiesce(&mut driver);
    assert_eq!(driver.store().failure(), None);
    assert!(driver.store().is_idle());
    driver.store().check_invariants();
}

#[test]
fn a_checkpoint_whose_pages_stay_unreadable_stops_the_store() {
    let mut driver = with_changed_omap();
    driver.disk_mut().set_faults(ALL_READS);
    checkpoint(&mut driver);
    quiesce(&mut driver);
    assert!(driver.store().failure().is_some());
}

#[test]
fn a_wrong_bit_in_a_page_is_read_again() {
    let mut driver = filled(&small(), 3000);
    for number in 0..3000 {
        driver.disk_mut().fail_read(1, ReadFault::Flip);
        let outcome = driver.execute(meta(number));
        assert!(matches!(outcome, Ok(Outcome::Meta(Some(_)))), "{number}: {outcome:?}");
    }
}

#[test]
fn reads_beside_overwrites_show_some_state_of_the_object() {
    for seed in 0..6 {
        races::race_run(seed, 12);
    }
}

#[test]
fn a_removed_collection_is_cleaned_up_though_a_page_could_not_be_read() {
    let mut driver = filled(&small(), 1000);
    driver.execute(commit([Change::RemoveCollection])).unwrap();
    driver.disk_mut().set_faults(ALL_READS);
    for _ in 0..50 {
        driver.step();
    }
    assert_eq!(driver.store().failure(), None);
    driver.disk_mut().heal();
    quiesce(&mut driver);
    let Ok(Outcome::Usage(usage)) = driver.execute(RequestKind::Usage) else { panic!() };
    assert_eq!(usage.objects, 0);
}

#[test]
fn unreadable_data_is_read_a_bounded_number_of_times() {
    let shape = Shape::new(64, 0);
    let mut driver = shape.start(shape.format(1), Time::ZERO);
    driver.run_until_ready();
    let write =
        Change::Write { object: object(1), offset: 0, data: Bytes::from(vec![7; 256 << 10]) };
    driver.execute(commit([Change::CreateCollection, write])).unwrap();
    quiesce(&mut driver);
    driver.disk_mut().set_faults(ALL_READS);
    let before = driver.disk().reads();
    let read =
        RequestKind::Read { collection: collection(0), object: object(1), offset: 0, length: 9 };
    let outcome = driver.execute(read);
    assert!(matches!(outcome, Err(StoreError::Corrupt { .. })), "{outcome:?}");
    assert_eq!(driver.disk().reads() - before, 3);
}

#[test]
fn an_unreadable_block_under_a_partial_overwrite_is_damage_of_its_object() {
    let shape = Shape::new(64, 0);
    let mut driver = shape.start(shape.format(1), Time::ZERO);
    driver.run_until_ready();
    let data = Bytes::from(vec![7; 256 << 10]);
    let write = |offset, data| commit([Change::Write { object: object(1), offset, data }]);
    driver.execute(commit([Change::CreateCollection])).unwrap();
    driver.execute(write(0, data.clone())).unwrap();
    quiesce(&mut driver);
    driver.disk_mut().set_faults(ALL_READS);
    let outcome = driver.execute(write(4096 + 10, Bytes::from_static(b"part")));
    let damage = StoreError::Corrupt { object: object(1), offset: 4096, length: 4096 };
    assert_eq!(outcome, Err(damage));
    // A write of the whole block heals it.
    driver.execute(write(4096, data.slice(..4096))).unwrap();
    driver.execute(commit([Change::Touch { object: object(2) }])).unwrap();
    assert_eq!(driver.store().failure(), None);
    driver.store().check_invariants();
}

#[test]
fn the_store_of_another_owner_is_not_opened_though_only_its_far_superblocks_are_left() {
    let mut shape = Shape::new(64, 0);
    let mut disk = shape.format(1);
    for block in [0, 1] {
        disk.overwrite(block::device::Device::Main, block, &[7; block::device::BLOCK]);
    }
    shape.store.owner = Some(Bytes::from_static(b"osd.6"));
    let mut driver = shape.start(disk.clone(), Time::ZERO);
    driver.run_until_ready();
    let failure = driver.store().failure().expect("it is the store of osd.7").to_string();
    assert!(failure.contains("another owner's"), "{failure}");
    shape.store.owner = Some(Bytes::from_static(b"osd.7"));
    let mut driver = shape.start(disk, Time::ZERO);
    driver.run_until_ready();
    assert_eq!(driver.store().failure(), None);
}

#[test]
fn a_store_that_does_not_open_names_the_next_step() {
    let shape = Shape::new(64, 0);
    let mut disk = shape.format(1);
    for block in [0, shape.store.main_blocks - 2] {
        disk.overwrite(block::device::Device::Main, block, &[0; block::device::BLOCK]);
    }
    let mut driver = shape.start(disk, Time::ZERO);
    driver.run_until_ready();
    let failure = driver.store().failure().expect("a newer superblock may be lost").to_string();
    assert!(failure.contains("may be lost; both places"), "{failure}");
    assert!(failure.contains("sepiola store fsck --deep DIR"), "{failure}");
}
