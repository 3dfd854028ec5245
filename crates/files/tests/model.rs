//! The store equals `MemStore` across reopening, checkpoints and crashes.

mod common;

use common::scratch::Scratch;
use common::{Driver, Generator, assert_sound, compare, compare_read, object, one, options};
use files::Options;
use store::mem::MemStore;
use store::{Change, Collection, Outcome, RequestKind, StoreError, Transaction};
use types::{EVersion, PgId, PgShard, PoolId, ShardId};

const PG: Collection = Collection::replicated(PgId { pool: PoolId(1), seed: 0 });

fn run(seed: u64, steps: usize, options: &Options) {
    let scratch = Scratch::new("model");
    let mut generator = Generator::new(seed);
    let mut model = MemStore::new();
    let mut store = Driver::open(scratch.path(), options);
    for _ in 0..steps {
        // Concurrent transactions share a batch.
        let burst = generator.prng.range(1..5);
        for _ in 0..burst {
            let transaction = generator.transaction();
            model.apply(&transaction).unwrap();
            store.submit(RequestKind::Commit(transaction));
        }
        (0..burst).for_each(|_| drop(store.next().outcome.unwrap()));
        for _ in 0..2 {
            compare_read(&mut store, &mut model, generator.read());
        }
        match generator.prng.below(60) {
            0 => {
                drop(store);
                store = Driver::open(scratch.path(), options);
                compare(&mut store, &mut model);
            }
            1..=3 => {
                store.store.abandon();
                store = Driver::open(scratch.path(), options);
                compare(&mut store, &mut model);
            }
            4..=6 => store.store.checkpoint(),
            7 => assert_sound(&mut store),
            _ => {}
        }
    }
    compare(&mut store, &mut model);
    assert_sound(&mut store);
}

#[test]
fn a_collection_that_no_store_can_have_is_refused() {
    let scratch = Scratch::new("invalid");
    let mut store = Driver::open(scratch.path(), &options());
    let mut model = MemStore::new();
    let pg = PgId { pool: PoolId(Collection::POOL_END), seed: 0 };
    let own = PgId { pool: PoolId(-1), seed: 0 };
    let invalid = [
        Collection::replicated(pg),
        Collection(PgShard { pg, shard: ShardId::at(0).unwrap() }),
        Collection(PgShard { pg: own, shard: ShardId::at(0).unwrap() }),
    ];
    for at in invalid {
        let create = one(at, Change::CreateCollection);
        assert_eq!(store.commit(create.clone()), Err(StoreError::InvalidCollection(at)));
        assert_eq!(model.apply(&create), Err(StoreError::InvalidCollection(at)));
        let touch = one(at, Change::Touch { object: object(1) });
        assert_eq!(store.commit(touch), Err(StoreError::NoCollection(at)));
    }
    compare(&mut store, &mut model);
}

#[test]
fn changes_that_cannot_be_held_are_refused_as_by_the_reference() {
    let scratch = Scratch::new("hold");
    let mut store = Driver::open(scratch.path(), &options());
    let mut model = MemStore::new();
    let hold = |version, offset| {
        let write = Change::Write { object: object(1), offset, data: vec![7; 4096].into() };
        let touch = Change::Touch { object: object(2) };
        let hold = Change::Hold { version: EVersion::new(2, version), changes: vec![write] };
        Transaction { changes: vec![(PG, Change::CreateCollection), (PG, touch), (PG, hold)] }
    };
    let settle = |version| one(PG, Change::Settle { through: EVersion::new(2, version) });
    let all = [hold(1, 100), hold(3, 0), hold(3, 0), hold(2, 0), settle(9), hold(2, 4096)];
    for transaction in all {
        let expected = model.apply(&transaction).map(|()| Outcome::Committed);
        assert_eq!(store.commit(transaction), expected);
        compare(&mut store, &mut model);
    }
}

#[test]
fn the_store_equals_the_reference_with_a_log_that_wraps_and_a_cache_that_is_too_small() {
    let options = Options { cache_size: 8 << 10, ..options() };
    for seed in 0..6 {
        run(seed, 150, &options);
    }
}

#[test]
fn the_store_equals_the_reference_when_checkpoints_are_rare() {
    let options = Options {
        log_size: 64 << 20,
        checkpoint_interval: std::time::Duration::from_secs(1000),
        sync: false,
        ..options()
    };
    for seed in 100..106 {
        run(seed, 150, &options);
    }
}
