//! The store equals the reference store, whatever its devices do. Short forms of the soak's
//! scenarios.

mod harness;
mod held;

use block::{BlockStore, Options};
use bytes::Bytes;
use engine::Time;
use harness::generator::{collection, object, one};
use harness::life::Life;
use harness::shape::{BLOCKS_PER_MIB, Shape};
use harness::sound::assert_sound;
use harness::{Report, Scenario, bulk, crashes, damage, failures, fullness};
use store::{Change, Outcome, RequestKind, StoreError, Transaction};

/// Names the seed of a failure.
fn run_seeds(first: u64, count: u64, scenario: impl Fn(u64) -> Report) -> Report {
    let mut report = Report::default();
    for seed in first..first + count {
        let run = std::panic::AssertUnwindSafe(|| scenario(seed));
        match std::panic::catch_unwind(run) {
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
fn a_device_that_is_too_small_is_refused() {
    for main_blocks in [0, 1, 1000] {
        let store = BlockStore::open(Options { main_blocks, ..Options::default() });
        let failure = store.failure().expect("it holds no store").to_string();
        assert!(failure.contains("hold no store"), "{failure}");
    }
}

/// Bytes that one batch may add beyond the replay's share of memory.
const BATCH_MAX: usize = 6 << 20;

#[test]
fn recovery_keeps_to_its_memory_however_much_wrote_the_log() {
    let (mut shape, memory) = (Shape::new(256, 0), 16 << 20);
    shape.store.memory = 512 << 20;
    shape.log_blocks = Some(96 * BLOCKS_PER_MIB);
    shape.store.deferred_blocks = 64;
    let mut life = Life::begin(&shape, 80);
    assert!(life.commit(one(collection(0), Change::CreateCollection)));
    for number in 0..260 {
        let name = || object(number % 240);
        let data = Bytes::from(vec![number as u8; 100 << 10]);
        let mut transaction = one(collection(0), Change::Write { object: name(), offset: 0, data });
        let pair = |key: u32| (Bytes::from(format!("{number}.{key}")), Bytes::from(vec![7; 500]));
        let change = match number % 40 {
            39 => Change::Remove { object: name() },
            _ => Change::OmapSet { object: name(), pairs: (0..40).map(pair).collect() },
        };
        transaction.push(collection(0), change);
        assert!(life.commit(transaction));
    }
    let (tables, deferred) = life.driver.store().buffered();
    assert!(
        tables + deferred > memory as usize + BATCH_MAX,
        "{tables} bytes of metadata, {deferred} of data"
    );
    let mut disk = life.driver.into_disk();
    shape.store.memory = memory;
    // A replay that is interrupted repeatedly still makes progress.
    let mut most = 0;
    for steps in [100, 300, u64::MAX] {
        let mut driver = shape.start(disk, Time::ZERO);
        for _ in 0..steps {
            if driver.store().is_open() || !driver.step() {
                break;
            }
            driver.store().check_invariants();
            let (tables, deferred) = driver.store().buffered();
            most = most.max(tables + deferred);
        }
        assert!(driver.store().failure().is_none(), "{:?}", driver.store().failure());
        disk = driver.into_disk();
        let _ = disk.crash();
    }
    assert!(most < memory as usize + BATCH_MAX, "{most} bytes were buffered");
    let state = life.history.state().clone();
    Life::resume(&shape, disk, state).verify();
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
fn damaged_data_is_reported_exactly_and_repaired_by_a_write_of_the_whole_block() {
    run_seeds(90, 1, damage::data_damage);
}

#[test]
fn failing_devices_fail_requests_but_lose_nothing_that_was_acknowledged() {
    run_seeds(50, 3, |seed| failures::failure_run(seed, 3));
}

#[test]
fn very_much_is_removed_at_once_in_short_steps_and_nothing_else_is() {
    run_seeds(100, 3, |seed| bulk::bulk_run(seed, 2500));
}

#[test]
fn a_full_device_refuses_writes_but_not_deletes_and_gets_all_space_back() {
    run_seeds(60, 1, |seed| fullness::fullness_run(seed, 1));
}

/// On this device a checkpoint takes back runs of pages while additions still count on them.
#[test]
fn pages_that_a_checkpoint_takes_back_are_not_counted_on() {
    run_seeds(834_495_965, 1, fullness::full_devices);
}

#[test]
fn records_too_large_for_the_log_are_refused_without_effect() {
    let shape = Shape::new(64, 0);
    let mut life = Life::begin(&shape, 70);
    assert!(life.commit(one(collection(0), Change::CreateCollection)));
    let set = |length: usize| {
        let pairs = [(Bytes::from_static(b"key"), Bytes::from(vec![1; length]))].into();
        RequestKind::Commit(one(collection(0), Change::OmapSet { object: object(0), pairs }))
    };
    let refused = life.execute(set(10 << 20));
    assert!(
        matches!(refused, Err(StoreError::TooLarge { size, limit, .. }) if size > limit),
        "{refused:?}"
    );
    life.verify();
    life.submit(set(1 << 20));
    life.verify();
}

#[test]
fn nothing_happens_behind_a_refused_append_before_the_caller_resumes() {
    let mut life = Life::begin(&Shape::new(64, 0), 71);
    assert!(life.commit(one(collection(0), Change::CreateCollection)));
    let append = |length: usize| {
        let pairs = [(Bytes::from_static(b"key"), Bytes::from(vec![1; length]))].into();
        RequestKind::Append(one(collection(0), Change::OmapSet { object: object(0), pairs }))
    };
    // Later commits are in flight before the refusal is known.
    let refused = life.execute_all(vec![append(10 << 20), append(10), append(20)]);
    assert!(matches!(refused[0], Err(StoreError::TooLarge { .. })), "{refused:?}");
    let behind = Err(StoreError::Behind(collection(0)));
    assert_eq!(refused[1..], [behind.clone(), behind]);
    life.verify();
    let resumed = life.execute(RequestKind::Resume(collection(0)));
    assert_eq!(resumed, Ok(Outcome::Resumed));
    assert_eq!(life.execute(append(10)), Ok(Outcome::Committed));
}

#[test]
fn a_seed_replays_exactly() {
    let scenario: Scenario = crashes::crash_again_and_again;
    assert_eq!(run_seeds(1, 1, scenario), run_seeds(1, 1, scenario));
}

/// The store remembers an object's omap from one change of it to the next.
#[test]
fn a_cleared_omap_has_none_of_its_former_pairs() {
    let shape = Shape::new(64, 0);
    let mut driver = shape.start(shape.format(1), Time::ZERO);
    driver.run_until_ready();
    let mut ask = |kind: RequestKind| driver.execute(kind).unwrap();
    let (at, name, source) = (collection(0), object(0), object(1));
    let set = |key: &'static str| {
        (at, Change::OmapSet { object: object(0), pairs: [(key.into(), "value".into())].into() })
    };
    let made = [Change::CreateCollection, Change::Touch { object: source.clone() }];
    let changes = made.map(|change| (at, change)).into();
    ask(RequestKind::Commit(Transaction { changes }));
    let endings = [
        Change::Remove { object: name.clone() },
        Change::OmapClear { object: name.clone() },
        Change::Clone { object: source, target: name.clone() },
    ];
    for ending in endings.map(|change| (at, change)) {
        let apart = [vec![ending.clone()], vec![set("d")], vec![set("e")]];
        let together = [vec![set("c"), ending, set("d")], vec![set("e")], vec![]];
        for rest in [apart, together] {
            for changes in [vec![set("a")], vec![set("b")]].into_iter().chain(rest) {
                ask(RequestKind::Commit(Transaction { changes }));
            }
            let keys = ["a", "b", "c", "d", "e"].map(Bytes::from).to_vec();
            let found = ask(RequestKind::OmapGet { collection: at, object: name.clone(), keys });
            let Outcome::OmapPairs(pairs) = found else { panic!("{found:?}") };
            assert_eq!(pairs.into_keys().collect::<Vec<_>>(), ["d", "e"]);
        }
    }
}

/// A crash at any moment leaves no shard in the log of a store whose superblock does not say so, also if
/// there was nothing else to write, or if a checkpoint is running.
#[test]
fn the_superblock_names_shards_before_the_log_does() {
    let shape = Shape::new(64, 0);
    for is_busy in [false, true] {
        let mut driver = shape.start(shape.format(1), Time::ZERO);
        driver.run_until_ready();
        if is_busy {
            let create = one(collection(0), Change::CreateCollection);
            driver.execute(RequestKind::Commit(create)).unwrap();
            driver.with_store(BlockStore::request_checkpoint);
        }
        let shard = collection(2);
        assert!(shard.is_shard());
        driver.submit(RequestKind::Commit(one(shard, Change::CreateCollection)));
        let committed = loop {
            assert_sound(&shape, driver.disk(), "before the shard is durable");
            driver.store().check_invariants();
            match driver.poll_completion() {
                Some(done) => break done.outcome,
                None => assert!(driver.step(), "the store waits for nothing"),
            }
        };
        assert_eq!(committed, Ok(Outcome::Committed));
        assert_sound(&shape, driver.disk(), "when the shard is durable");
        let Ok(Outcome::Collections(all)) = driver.execute(RequestKind::Collections) else {
            panic!("collections return collections")
        };
        assert_eq!(all.last(), Some(&shard));
    }
}
