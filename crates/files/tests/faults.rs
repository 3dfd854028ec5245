//! Damaged data, full stores and failing devices cause the right errors.

mod common;

use bytes::Bytes;
use common::scratch::Scratch;
use common::{Driver, assert_sound, collection, object, one, options};
use files::{Fault, FileStore, FilesError, Options};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use store::{Change, Collection, Outcome, RequestKind, StoreError, Transaction};
use types::HObject;

const PG: fn() -> Collection = || collection(0);

fn write(number: u64, offset: u64, length: usize) -> Change {
    Change::Write { object: object(number), offset, data: Bytes::from(vec![number as u8; length]) }
}

fn read(number: u64, offset: u64, length: u64) -> RequestKind {
    RequestKind::Read { collection: PG(), object: object(number), offset, length }
}

fn open(scratch: &Scratch, options: &Options) -> Driver {
    let mut store = Driver::open(scratch.path(), options);
    store.commit(one(PG(), Change::CreateCollection)).unwrap();
    store
}

fn data(outcome: Result<Outcome, StoreError>) -> Bytes {
    match outcome {
        Ok(Outcome::Read(read)) => read.data,
        other => panic!("{other:?}"),
    }
}

#[test]
fn damage_is_found_with_its_range_and_does_not_become_valid() {
    let scratch = Scratch::new("damage");
    let mut store = open(&scratch, &options());
    store.commit(one(PG(), write(7, 0, 12_288))).unwrap();
    let slots = scratch.path().join("slots-16k");
    let file = std::fs::OpenOptions::new().read(true).write(true).open(slots).unwrap();
    file.write_all_at(b"rot", 5000).unwrap();
    let corrupt = Err(StoreError::Corrupt { object: object(7), offset: 4096, length: 4096 });
    assert_eq!(store.execute(read(7, 0, 12_288)), corrupt);
    assert_eq!(store.execute(read(7, 8191, 1)), corrupt);
    assert_eq!(data(store.execute(read(7, 0, 4096))).len(), 4096);
    // A partial write keeps the block invalid; a write of the whole block repairs it.
    store.commit(one(PG(), write(7, 4100, 10))).unwrap();
    assert_eq!(store.execute(read(7, 4096, 1)), corrupt);
    let faults = store.store.verify().unwrap();
    assert!(
        matches!(faults[..], [Fault::Corrupt { offset: 4096, length: 4096, .. }]),
        "{faults:?}"
    );
    store.commit(one(PG(), write(7, 4096, 4096))).unwrap();
    assert_eq!(data(store.execute(read(7, 0, 12_288))), vec![7; 12_288]);
    assert_sound(&mut store);
}

#[test]
fn damage_in_the_middle_of_the_log_keeps_the_store_from_opening_and_verify_tells_it() {
    let scratch = Scratch::new("log-damage");
    let never = std::time::Duration::from_secs(3600);
    let options = Options { checkpoint_interval: never, sync: true, ..options() };
    let rot = || {
        let path = scratch.path().join("log");
        let file = std::fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
        // The header and the batch of the collection take one block each, writes two.
        file.write_all_at(b"rot", 4096 + 4096 + 3 * 8192 + 600).unwrap();
    };
    let mut store = open(&scratch, &options);
    for number in 0..10 {
        store.commit(one(PG(), write(number, 0, 5000))).unwrap();
    }
    let Driver { store, .. } = store;
    store.abandon();
    let intact = std::fs::read(scratch.path().join("log")).unwrap();
    rot();
    let waker = Arc::new(|| {});
    let Err(error) = FileStore::open(scratch.path(), &options, waker) else {
        panic!("seven acknowledged writes are gone")
    };
    assert!(matches!(error, FilesError::LogDamaged { missing: 4, found: 5, .. }), "{error}");
    std::fs::write(scratch.path().join("log"), intact).unwrap();
    let mut store = Driver::open(scratch.path(), &options);
    rot();
    let faults = store.store.verify().unwrap();
    assert_eq!(faults, [Fault::Log { missing: 4 }]);
    // The checkpoint has made the damage harmless.
    assert_sound(&mut store);
    assert_eq!(data(store.execute(read(9, 0, 10))), vec![9; 10]);
}

#[test]
fn a_lost_file_is_damage_too() {
    let scratch = Scratch::new("lost");
    let mut store = open(&scratch, &options());
    store.commit(one(PG(), write(1, 0, 100_000))).unwrap();
    drop(store);
    std::fs::remove_dir_all(scratch.path().join("objects")).unwrap();
    let mut store = Driver::open(scratch.path(), &options());
    assert!(matches!(store.execute(read(1, 0, 10)), Err(StoreError::Corrupt { .. })));
    store.commit(one(PG(), write(1, 0, 102_400))).unwrap();
    assert_eq!(data(store.execute(read(1, 0, 102_400))), vec![1; 102_400]);
    assert_sound(&mut store);
}

/// Its reads and writes fail with EIO, where nothing of this process is mapped.
const BROKEN: &str = "/proc/self/mem";

/// A store with an object in a slot whose file cannot be read any more.
fn with_broken_slot(scratch: &Scratch, options: &Options) -> Driver {
    let mut store = open(scratch, options);
    store.commit(one(PG(), write(1, 0, 12_288))).unwrap();
    drop(store);
    let slots = scratch.path().join("slots-16k");
    std::fs::remove_file(&slots).unwrap();
    std::os::unix::fs::symlink(BROKEN, &slots).unwrap();
    Driver::open(scratch.path(), options)
}

#[test]
fn an_object_that_cannot_be_read_moves_to_a_larger_place_and_its_damage_stays_visible() {
    [false, true].into_iter().for_each(move_what_cannot_be_read);
}

fn move_what_cannot_be_read(is_stored: bool) {
    let scratch = Scratch::new("broken-move");
    let never = std::time::Duration::from_secs(3600);
    let options = Options { checkpoint_interval: never, ..options() };
    let mut store = with_broken_slot(&scratch, &options);
    store.commit(one(PG(), write(1, 20_000, 10_000))).unwrap();
    if is_stored {
        let Driver { store: process, .. } = store;
        drop(process); // its end is a checkpoint
        store = Driver::open(scratch.path(), &options);
    }
    // A part of a block that was not copied.
    store.commit(one(PG(), write(1, 4100, 10))).unwrap();
    for _ in 0..2 {
        assert_eq!(data(store.execute(read(1, 20_480, 9_000))), vec![1; 9_000]);
        for offset in [0, 4096, 4100, 8192] {
            let outcome = store.execute(read(1, offset, 1));
            assert!(matches!(outcome, Err(StoreError::Corrupt { .. })), "{offset}: {outcome:?}");
        }
        let Driver { store: process, .. } = store;
        process.abandon();
        // A replay does not copy either what was not copied.
        store = Driver::open(scratch.path(), &options);
    }
    store.commit(one(PG(), write(1, 0, 20_480))).unwrap();
    assert_eq!(data(store.execute(read(1, 0, 30_000))), vec![1; 30_000]);
    assert_sound(&mut store);
}

#[test]
fn a_clone_of_an_object_that_cannot_be_read_is_damaged_like_it() {
    let scratch = Scratch::new("broken-clone");
    let mut store = with_broken_slot(&scratch, &options());
    let clone = Change::Clone { object: object(1), target: object(2) };
    store.commit(one(PG(), clone)).unwrap();
    // A part of a block that was not copied.
    store.commit(one(PG(), write(2, 4100, 10))).unwrap();
    for _ in 0..2 {
        for offset in [0, 4096, 4100] {
            let outcome = store.execute(read(2, offset, 1));
            assert!(matches!(outcome, Err(StoreError::Corrupt { .. })), "{offset}: {outcome:?}");
        }
        let Driver { store: process, .. } = store;
        process.abandon();
        store = Driver::open(scratch.path(), &options());
    }
    store.commit(one(PG(), write(2, 0, 12_288))).unwrap();
    assert_eq!(data(store.execute(read(2, 0, 12_288))), vec![2; 12_288]);
}

#[test]
fn a_full_store_refuses_what_adds_and_allows_what_removes() {
    let scratch = Scratch::new("full");
    let options = Options { capacity: Some(1 << 20), ..options() };
    let mut store = open(&scratch, &options);
    let mut written = 0;
    let refused = loop {
        match store.commit(one(PG(), write(written, 0, 65_536))) {
            Ok(_) => written += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(refused, StoreError::NoSpace { needed: 65_536, .. }), "{refused:?}");
    assert_eq!(written, 16);
    let clone = Change::Clone { object: object(0), target: object(99) };
    assert!(matches!(store.commit(one(PG(), clone)), Err(StoreError::NoSpace { .. })));
    for number in 0..written {
        store.commit(one(PG(), Change::Remove { object: object(number) })).unwrap();
    }
    store.commit(one(PG(), write(1, 0, 65_536))).unwrap();
    let Ok(Outcome::Usage(usage)) = store.execute(RequestKind::Usage) else { panic!() };
    assert_eq!((usage.bytes_used, usage.bytes_total, usage.objects), (65_536, 1 << 20, 1));
    assert_sound(&mut store);
}

#[test]
fn what_does_not_fit_the_log_or_an_object_is_refused() {
    let scratch = Scratch::new("large");
    let mut store = open(&scratch, &options());
    let refused = store.commit(one(PG(), write(1, 0, 1 << 20)));
    assert!(matches!(refused, Err(StoreError::TooLarge { .. })), "{refused:?}");
    let refused = store.commit(one(PG(), write(1, u64::MAX - 5, 5)));
    assert!(matches!(refused, Err(StoreError::TooLarge { .. })), "{refused:?}");
    let truncate = Change::Truncate { object: object(1), size: 1 << 60 };
    let refused = store.commit(one(PG(), truncate));
    assert!(matches!(refused, Err(StoreError::TooLarge { .. })), "{refused:?}");
    assert_eq!(
        store.execute(RequestKind::Meta { collection: PG(), object: object(1) }),
        Ok(Outcome::Meta(None))
    );
}

#[test]
fn nothing_happens_behind_a_refused_append_before_the_caller_resumes() {
    let scratch = Scratch::new("behind");
    let mut store = open(&scratch, &options());
    let append = |number, length| RequestKind::Append(one(PG(), write(number, 0, length)));
    let too_large = store.submit(append(1, 1 << 20));
    let behind = store.submit(append(2, 10));
    let elsewhere = store.submit(RequestKind::Commit(one(collection(9), Change::CreateCollection)));
    let answers: Vec<_> = (0..3).map(|_| store.next()).collect();
    assert_eq!(answers.iter().map(|a| a.token).collect::<Vec<_>>(), [too_large, behind, elsewhere]);
    assert!(matches!(answers[0].outcome, Err(StoreError::TooLarge { .. })));
    assert_eq!(answers[1].outcome, Err(StoreError::Behind(PG())));
    assert_eq!(answers[2].outcome, Ok(Outcome::Committed));
    assert_eq!(store.execute(RequestKind::Resume(PG())), Ok(Outcome::Resumed));
    assert_eq!(store.execute(append(2, 10)), Ok(Outcome::Committed));
    assert_sound(&mut store);
}

#[test]
fn commits_complete_in_order_refused_ones_too() {
    let scratch = Scratch::new("order");
    let mut store = open(&scratch, &options());
    let mut expected = Vec::new();
    for number in 0..200 {
        let good = number % 3 != 0;
        let target = if good { PG() } else { collection(9) };
        let transaction = one(target, write(number % 5, number * 100, 5000));
        expected.push((store.submit(RequestKind::Commit(transaction)), good));
    }
    for (token, good) in expected {
        let completion = store.next();
        assert_eq!((completion.token, completion.outcome.is_ok()), (token, good));
    }
}

#[test]
fn a_failed_device_fails_every_request_and_hangs_none() {
    let scratch = Scratch::new("failed");
    let mut store = open(&scratch, &options());
    std::fs::remove_dir_all(scratch.path().join("objects")).unwrap();
    let tokens = [1, 2, 3]
        .map(|number| store.submit(RequestKind::Commit(one(PG(), write(number, 0, 100_000)))));
    for token in tokens {
        let completion = store.next();
        assert_eq!(completion.token, token);
        assert!(matches!(completion.outcome, Err(StoreError::Device(_))), "{completion:?}");
    }
    assert!(matches!(store.execute(read(1, 0, 1)), Err(StoreError::Device(_))));
    let later = store.commit(Transaction::new());
    assert!(matches!(later, Err(StoreError::Device(_))));
    store.store.checkpoint();
}

#[test]
fn a_log_elsewhere_is_used_and_must_belong_to_the_store() {
    let scratch = Scratch::new("elsewhere");
    let [first, second] = ["first", "second"].map(|name| scratch.path().join(name));
    let with_log = |name| Options { log: Some(scratch.path().join(name)), ..options() };
    let mut store = Driver::open(&first, &with_log("log-1"));
    store.commit(one(PG(), Change::CreateCollection)).unwrap();
    store.commit(one(PG(), write(1, 0, 100))).unwrap();
    store.store.abandon();
    drop(Driver::open(&second, &with_log("log-2")));
    let waker = Arc::new(|| {});
    let wrong = FileStore::open(&first, &with_log("log-2"), waker);
    assert!(matches!(wrong, Err(FilesError::WrongLog { .. })));
    let mut store = Driver::open(&first, &with_log("log-1"));
    assert_eq!(data(store.execute(read(1, 0, 100))), vec![1; 100]);
}

#[test]
fn a_new_store_does_not_take_the_log_of_another_one() {
    let scratch = Scratch::new("taken");
    let [first, second] = ["first", "second"].map(|name| scratch.path().join(name));
    let with_log = || Options { log: Some(scratch.path().join("osd.0.log")), ..options() };
    let mut store = Driver::open(&first, &with_log());
    store.commit(one(PG(), Change::CreateCollection)).unwrap();
    let open_second = || match FileStore::open(&second, &with_log(), Arc::new(|| {})) {
        Ok(_) => panic!("the log is another store's"),
        Err(error) => error,
    };
    assert!(matches!(open_second(), FilesError::LogInUse { .. }));
    store.commit(one(PG(), write(1, 0, 100))).unwrap();
    store.store.abandon();
    assert!(matches!(open_second(), FilesError::LogTaken { .. }));
    let mut store = Driver::open(&first, &with_log());
    assert_eq!(data(store.execute(read(1, 0, 100))), vec![1; 100]);
}

#[test]
fn listing_passes_over_what_was_removed_since_the_checkpoint() {
    let scratch = Scratch::new("listing");
    let mut store = open(&scratch, &options());
    let touch = |n| (PG(), Change::Touch { object: object(n) });
    store.commit(Transaction { changes: (0..3000).map(touch).collect() }).unwrap();
    store.store.checkpoint();
    let remove = |n| (PG(), Change::Remove { object: object(n) });
    let removed = (0..3000).filter(|n| n % 3 != 0);
    store.commit(Transaction { changes: removed.map(remove).collect() }).unwrap();
    let (mut from, mut listed) = (Some(HObject::default()), Vec::new());
    while let Some(start) = from {
        let kind = RequestKind::List { collection: PG(), from: start, entries_max: 100 };
        let Ok(Outcome::List(names, next)) = store.execute(kind) else { panic!() };
        listed.extend(names);
        from = next;
    }
    let mut expected: Vec<HObject> = (0..3000).filter(|n| n % 3 == 0).map(object).collect();
    expected.sort();
    assert_eq!(listed, expected);
}
