//! The store equals the reference store, whatever its devices do. Short forms of what the soak runs.

mod harness;

use bytes::Bytes;
use harness::generator::{collection, object, one};
use harness::life::Life;
use harness::shape::Shape;
use harness::{Report, Scenario, crashes, damage, failures, fullness};
use store::{Change, RequestKind, StoreError};

/// Names the seed of a failure.
fn run_seeds(first: u64, count: u64, scenario: impl Fn(u64) -> Report) -> Report {
    let mut report = Report::default();
    for seed in first..first + count {
        let told = std::panic::AssertUnwindSafe(|| scenario(seed));
        match std::panic::catch_unwind(told) {
            Ok(more) => report += more,
            Err(panic) => {
                eprintln!("seed {seed} failed");
                std::panic::resume_unwind(panic);
            }
        }
    }
    report
}

#[test]
fn the_store_equals_the_reference() {
    run_seeds(0, 4, |seed| {
        let mut prng = stdx::Prng::new(seed);
        crashes::model_run(seed, &harness::shape::Shape::draw(&mut prng), 60)
    });
}

#[test]
fn the_store_equals_the_reference_when_nothing_fits_memory() {
    run_seeds(10, 3, |seed| {
        let mut shape = harness::shape::Shape::new(64, (seed % 2) * 32);
        shape.store.memory = harness::shape::MEMORY_TINY;
        crashes::model_run(seed, &shape, 80)
    });
}

#[test]
fn a_crash_after_any_operation_loses_nothing_that_was_acknowledged() {
    let report = run_seeds(20, 3, |seed| crashes::boundary_run(seed, 16, 8));
    assert!(report.crashes > 3, "{report:?}");
}

#[test]
fn a_store_that_crashes_again_and_again_loses_nothing_that_was_acknowledged() {
    run_seeds(30, 3, |seed| crashes::lives_run(seed, 5));
}

#[test]
fn damaged_blocks_give_errors_or_nothing_but_never_wrong_answers() {
    run_seeds(40, 3, |seed| damage::damage_run(seed, 15, 10));
}

#[test]
fn damaged_superblocks_do_no_harm_while_a_copy_of_the_newest_is_left() {
    run_seeds(80, 2, damage::superblock_damage);
}

#[test]
fn damaged_data_is_told_exactly_and_repaired_by_a_write_of_the_whole_block() {
    run_seeds(90, 1, damage::data_damage);
}

#[test]
fn failing_devices_fail_requests_but_lose_nothing_that_was_acknowledged() {
    run_seeds(50, 3, |seed| failures::failure_run(seed, 3));
}

#[test]
fn a_full_device_refuses_writes_but_not_deletes_and_gets_all_space_back() {
    run_seeds(60, 1, |seed| fullness::fullness_run(seed, 1));
}

#[test]
fn what_the_log_cannot_take_at_once_is_refused_by_its_size_and_harms_nothing() {
    let shape = Shape::new(64, 0);
    let mut life = Life::begin(&shape, 70);
    assert!(life.commit(one(collection(0), Change::CreateCollection)));
    let set = |length: usize| {
        let pairs = [(Bytes::from_static(b"key"), Bytes::from(vec![1; length]))].into();
        RequestKind::Commit(one(collection(0), Change::OmapSet { object: object(0), pairs }))
    };
    let refused = life.ask(set(10 << 20));
    assert!(
        matches!(refused, Err(StoreError::TooLarge { size, limit, .. }) if size > limit),
        "{refused:?}"
    );
    life.verify();
    life.submit(set(1 << 20));
    life.verify();
}

#[test]
fn a_seed_replays_exactly() {
    let scenario: Scenario = crashes::crash_again_and_again;
    assert_eq!(run_seeds(1, 1, scenario), run_seeds(1, 1, scenario));
}
