//! Space of held changes: what is held can be settled, whatever else has filled the store since.

mod common;

use bytes::Bytes;
use common::scratch::Scratch;
use common::{Driver, assert_sound, object, one, options};
use files::Options;
use store::{Change, Collection, Outcome, RequestKind, StoreError, Transaction, Usage};
use types::{EVersion, Epoch, HObject, PgId, PoolId, SnapId};

const PG: Collection = Collection::replicated(PgId { pool: PoolId(1), seed: 0 });
const CAPACITY: u64 = 8 << 20;
const MIB: usize = 1 << 20;

fn small() -> Options {
    Options { capacity: Some(CAPACITY), log_size: 16 << 20, ..options() }
}

fn write(number: u64, offset: usize, length: usize) -> Change {
    let data = Bytes::from(vec![number as u8; length]);
    Change::Write { object: object(number), offset: offset as u64, data }
}

fn hold(number: u64, changes: Vec<Change>) -> Transaction {
    one(PG, Change::Hold { version: EVersion::new(1, number), changes })
}

fn settle(store: &mut Driver) -> Result<Outcome, StoreError> {
    let through = EVersion { epoch: Epoch(9), version: 0 };
    store.commit(one(PG, Change::Settle { through }))
}

fn usage(store: &mut Driver) -> Usage {
    let Ok(Outcome::Usage(usage)) = store.execute(RequestKind::Usage) else { panic!("no usage") };
    usage
}

fn begin(scratch: &Scratch, options: &Options) -> Driver {
    let mut store = Driver::open(scratch.path(), options);
    let changes = [Change::CreateCollection, write(1, 0, MIB)];
    let changes = changes.into_iter().map(|change| (PG, change)).collect();
    store.commit(Transaction { changes }).unwrap();
    store
}

/// Writes until the store is full.
fn fill(store: &mut Driver) {
    let mut length = MIB;
    for number in 100.. {
        match store.commit(one(PG, write(number, 0, length))) {
            Ok(_) => {}
            Err(StoreError::NoSpace { .. }) if length > 4096 => length /= 4,
            refused => return assert!(matches!(refused, Err(StoreError::NoSpace { .. }))),
        }
    }
}

#[test]
fn held_data_counts_as_used_also_after_a_restart_and_is_settled() {
    let scratch = Scratch::new("held-space");
    let mut store = begin(&scratch, &small());
    let mut held = 0;
    while store.commit(hold(held + 1, vec![write(1, held as usize * MIB, MIB)])).is_ok() {
        held += 1;
        assert!(held < 8, "the capacity is {CAPACITY} bytes");
    }
    assert!(held > 4, "{held} are held");
    let bytes_used = (held + 1) << 20;
    assert_eq!(usage(&mut store).bytes_used, bytes_used);
    for checkpoint in [false, true] {
        if checkpoint {
            store.store.checkpoint();
        }
        store.store.abandon();
        store = Driver::open(scratch.path(), &small());
        assert_eq!(usage(&mut store).bytes_used, bytes_used);
        let more = hold(50, vec![write(1, 0, 2 * MIB)]);
        assert!(matches!(store.commit(more), Err(StoreError::NoSpace { .. })));
    }
    fill(&mut store);
    assert_eq!(settle(&mut store), Ok(Outcome::Committed));
    let used = usage(&mut store).bytes_used;
    assert!(used <= CAPACITY, "{used} bytes are used");
    assert_sound(&mut store);
}

#[test]
fn a_held_clone_has_the_space_of_its_copy() {
    let scratch = Scratch::new("held-clone");
    let mut store = begin(&scratch, &small());
    let copy = |number| HObject { snap: SnapId(number), ..object(1) };
    let clone = |number| Change::Clone { object: object(1), target: copy(number) };
    store.commit(hold(1, vec![clone(1), write(1, MIB, MIB)])).unwrap();
    store.commit(hold(2, vec![clone(2)])).unwrap();
    // The object, 1 MiB that is held for it, and copies of 1 and 2 MiB.
    assert_eq!(usage(&mut store).bytes_used, 5 << 20);
    fill(&mut store);
    assert_eq!(settle(&mut store), Ok(Outcome::Committed));
    let used = usage(&mut store).bytes_used;
    assert!(used <= CAPACITY, "{used} bytes are used");
    let size = |store: &mut Driver, object| {
        let meta = store.execute(RequestKind::Meta { collection: PG, object });
        let Ok(Outcome::Meta(Some(meta))) = meta else { panic!("{meta:?}") };
        meta.size
    };
    assert_eq!((size(&mut store, copy(1)), size(&mut store, copy(2))), (1 << 20, 2 << 20));
    assert_sound(&mut store);
}

#[test]
fn what_the_log_takes_to_hold_it_takes_to_settle() {
    let scratch = Scratch::new("held-log");
    let mut store = begin(&scratch, &Options { log_size: 4 << 20, ..options() });
    let mut number = 1;
    // The largest hold that a record can have, by bisection in blocks.
    let (mut fits, mut refused) = (0, 4 * MIB / 4096);
    while refused - fits > 1 {
        let middle = (fits + refused) / 2;
        number += 1;
        match store.commit(hold(number, vec![write(1, 0, middle * 4096)])) {
            Ok(_) => fits = middle,
            Err(error) => {
                assert!(matches!(error, StoreError::TooLarge { .. }), "{error}");
                refused = middle;
            }
        }
    }
    assert!(fits > 200, "{fits} blocks");
    assert_eq!(settle(&mut store), Ok(Outcome::Committed), "all of them at once");
    assert_sound(&mut store);
}

/// The rule of the reference, also in what a clone copies and in the replay of the log.
#[test]
fn settled_changes_of_an_absent_object_have_no_effect() {
    let scratch = Scratch::new("held-absent");
    let options = Options { log_size: 4 << 20, ..options() };
    let mut store = begin(&scratch, &options);
    let copy = HObject { snap: SnapId(4), ..object(2) };
    let clone = Change::Clone { object: object(2), target: copy.clone() };
    let touch = Change::Touch { object: object(2) };
    store.commit(hold(1, vec![write(2, 4096, 4096), touch, clone])).unwrap();
    store.commit(hold(2, vec![write(3, 0, 4096)])).unwrap();
    settle(&mut store).unwrap();
    for replays in [false, true] {
        if replays {
            store.store.abandon();
            store = Driver::open(scratch.path(), &options);
        }
        for name in [object(2), copy.clone()] {
            let (collection, offset, length) = (PG, 0, u64::MAX);
            let read = RequestKind::Read { collection, object: name, offset, length };
            let Ok(Outcome::Read(read)) = store.execute(read) else { panic!("it was touched") };
            assert_eq!(read.data.len(), 0);
        }
        let meta = RequestKind::Meta { collection: PG, object: object(3) };
        assert_eq!(store.execute(meta), Ok(Outcome::Meta(None)));
        assert_sound(&mut store);
    }
}

/// A group records what it settles; and a removal, which frees space, has an entry in its log.
#[test]
fn a_full_store_records_what_it_settles_and_holds_removals() {
    let scratch = Scratch::new("held-recorded");
    let mut store = begin(&scratch, &small());
    store.commit(hold(1, vec![write(1, MIB, MIB)])).unwrap();
    fill(&mut store);
    let recorded = |change: Change| {
        let pairs = [(Bytes::from("info"), Bytes::from(vec![1; 1000]))].into();
        let info = Change::OmapSet { object: HObject::default(), pairs };
        Transaction { changes: vec![(PG, change), (PG, info)] }
    };
    let through = EVersion::new(1, 1);
    assert_eq!(store.commit(recorded(Change::Settle { through })), Ok(Outcome::Committed));
    let changes = vec![Change::Remove { object: object(100) }];
    let removal = Change::Hold { version: EVersion::new(1, 2), changes };
    assert_eq!(store.commit(recorded(removal)), Ok(Outcome::Committed));
    assert_eq!(settle(&mut store), Ok(Outcome::Committed));
    store.commit(one(PG, write(7, 0, MIB / 2))).expect("the removal has freed space");
    assert_sound(&mut store);
}
