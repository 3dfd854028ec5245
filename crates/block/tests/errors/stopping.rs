//! A store whose metadata is damaged stops: it answers all requests, and writes nothing any more.

use super::harness::generator::collection;
use super::harness::shape::Shape;
use super::{attributes, checkpoint, commit, filled, object, pairs, small};
use block::BlockStore;
use block::device::{BLOCK, Device, Extent};
use block::disk::{Driver, FaultyDisk, View};
use block::fsck::Repairs;
use bytes::Bytes;
use engine::{RequestToken, Time};
use store::{Change, Outcome, RequestKind, StoreError, Transaction};

/// Byte of the data whose blocks are marked as free.
const FREED: u8 = 0xa7;

fn write(number: u32, byte: u8) -> Change {
    let data = Bytes::from(vec![byte; 64 << 10]);
    Change::Write { object: object(number), offset: 0, data }
}

/// A store with these contents, in which blocks that hold [`FREED`] are marked as free.
fn damaged(shape: &Shape, changes: Vec<RequestKind>) -> Driver<BlockStore> {
    let mut driver = shape.start(shape.format(1), Time::ZERO);
    driver.run_until_ready();
    for kind in changes {
        driver.execute(kind).unwrap();
    }
    checkpoint(&mut driver);
    let disk = driver.into_disk();
    let content = |block| disk.read_now(Device::Main, block, 1, View::Completed);
    let mut freed = disk.written_blocks(Device::Main);
    freed.retain(|block| content(*block) == [FREED; BLOCK][..]);
    assert!(!freed.is_empty());
    let freed = freed.into_iter().map(|block| Extent::new(block, 1)).collect();
    let driver = repairing(shape, disk, Repairs { freed, ..Repairs::default() });
    assert_eq!(driver.store().failure(), None);
    let mut driver = shape.start(driver.into_disk(), Time::ZERO);
    driver.run_until_ready();
    driver
}

/// A store that makes repairs as it opens.
fn repairing(shape: &Shape, disk: FaultyDisk, repairs: Repairs) -> Driver<BlockStore> {
    let store = BlockStore::open_for_repair(shape.store.clone(), repairs);
    let mut driver = Driver::new(store, disk, Time::ZERO);
    driver.run_until_ready();
    driver.run_until_idle();
    driver
}

fn answers(driver: &mut Driver<BlockStore>) -> Vec<(RequestToken, Result<Outcome, StoreError>)> {
    let completions = std::iter::from_fn(|| driver.poll_completion());
    completions.map(|completion| (completion.token, completion.outcome)).collect()
}

fn assert_stopped(driver: &mut Driver<BlockStore>) {
    driver.run_until_idle();
    assert!(driver.store().failure().is_some());
    assert!(driver.store().is_idle(), "it continues");
    driver.store().check_invariants();
}

#[test]
fn a_commit_that_frees_free_blocks_fails_in_its_order() {
    let shape = Shape::new(64, 0);
    let mut driver = damaged(&shape, vec![commit([Change::CreateCollection, write(1, FREED)])]);
    let before = driver.submit(commit([attributes(2, 1)]));
    let removal = driver.submit(commit([Change::Remove { object: object(1) }]));
    let behind = driver.submit(commit([attributes(3, 1)]));
    driver.run_until_idle();
    let answers = answers(&mut driver);
    let tokens: Vec<RequestToken> = answers.iter().map(|(token, _)| *token).collect();
    assert_eq!(tokens, [before, removal, behind]);
    let stopped = |outcome: &_| matches!(outcome, Err(StoreError::Device(_)));
    assert!(answers.iter().all(|(_, outcome)| stopped(outcome)), "{answers:?}");
    assert_stopped(&mut driver);
}

#[test]
fn a_store_that_stops_as_a_checkpoint_ends_seals_no_batch() {
    let shape = small();
    let mut driver = damaged(&shape, vec![commit([Change::CreateCollection, write(1, FREED)])]);
    driver.execute(commit([pairs(0)])).unwrap();
    driver.with_store(BlockStore::request_checkpoint);
    // More changes than fit beside a running checkpoint: the last commits wait for its end.
    let mut tokens: Vec<RequestToken> =
        (1..60).map(|number| driver.submit(commit([pairs(number)]))).collect();
    tokens.push(driver.submit(commit([Change::Remove { object: object(1) }])));
    let mut answered = Vec::new();
    while driver.store().failure().is_none() {
        assert!(driver.step(), "the removal frees blocks that are free");
        answered.extend(answers(&mut driver));
    }
    assert_eq!(answered.iter().map(|(token, _)| *token).collect::<Vec<_>>(), tokens);
    assert!(answered[0].1.is_ok() && answered[59].1.is_err());
    assert_stopped(&mut driver);
    let mut driver = shape.start(driver.into_disk(), Time::ZERO);
    driver.run_until_ready();
    assert_eq!(driver.store().failure(), None);
}

#[test]
fn a_store_that_stops_in_a_cleanup_begins_no_other() {
    let shape = Shape::new(64, 0);
    let both = [collection(0), collection(1)];
    let fill = |index: usize, byte| {
        let changes = [Change::CreateCollection, write(1, byte)];
        let changes = changes.into_iter().map(|change| (both[index], change)).collect();
        RequestKind::Commit(Transaction { changes })
    };
    let mut driver = damaged(&shape, vec![fill(0, FREED), fill(1, 1)]);
    let changes = both.map(|collection| (collection, Change::RemoveCollection)).to_vec();
    driver.execute(RequestKind::Commit(Transaction { changes })).unwrap();
    assert_stopped(&mut driver);
}

#[test]
fn a_store_whose_repair_fails_begins_no_cleanup() {
    let shape = small();
    let mut driver = filled(&shape, 1000);
    driver.execute(commit([Change::RemoveCollection])).unwrap();
    let mut disk = driver.into_disk();
    disk.restart();
    let unused = Extent::new(shape.store.main_blocks - 1000, 1);
    let freed = vec![unused];
    let mut driver = repairing(&shape, disk, Repairs { freed, ..Repairs::default() });
    assert_stopped(&mut driver);
}

#[test]
fn a_stopped_store_waits_for_no_checkpoint() {
    let shape = Shape::new(64, 0);
    let mut driver = damaged(&shape, vec![commit([Change::CreateCollection, write(1, FREED)])]);
    driver.execute(commit([Change::Remove { object: object(1) }])).unwrap_err();
    driver.with_store(BlockStore::request_checkpoint);
    assert_stopped(&mut driver);
}
