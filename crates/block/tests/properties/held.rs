//! Held changes in situations that random transactions seldom produce.

use super::harness::generator::{collection, object, one};
use super::harness::history::Tolerance;
use super::harness::life::Life;
use super::harness::shape::Shape;
use super::harness::sound::assert_sound;
use block::device::{BLOCK, Device};
use bytes::Bytes;
use std::collections::BTreeMap;
use store::{
    Change, Collection, HELD_MAX, HoldFault, Outcome, RequestKind, StoreError, Transaction,
    VERSION_MAX,
};
use types::{EVersion, HObject, SnapId};

const ALL: EVersion = EVersion { epoch: types::Epoch(9), version: 0 };

/// Changes that can always be settled at once: each takes pages of two leaves.
const SETTLED_ALWAYS: usize = 8;

fn at() -> Collection {
    collection(0)
}

fn begin(mib: u64) -> (Shape, Life) {
    begin_on(Shape::new(mib, 0))
}

fn begin_on(shape: Shape) -> (Shape, Life) {
    let mut life = Life::begin(&shape, 5);
    let touch = |number| Change::Touch { object: object(number) };
    let changes = [Change::CreateCollection].into_iter().chain((0..8).map(touch));
    let changes = changes.map(|change| (at(), change)).collect();
    assert!(life.commit(Transaction { changes }));
    (shape, life)
}

fn version(number: u64) -> EVersion {
    EVersion::new(1, number)
}

fn hold(number: u64, changes: Vec<Change>) -> Transaction {
    one(at(), Change::Hold { version: version(number), changes })
}

fn write(number: u64, block: u64, blocks: usize) -> Change {
    let data = Bytes::from(vec![((number + block) % 250) as u8 + 1; blocks * BLOCK]);
    Change::Write { object: object(number), offset: block * BLOCK as u64, data }
}

fn settle(through: EVersion) -> Transaction {
    one(at(), Change::Settle { through })
}

/// Metadata that a group writes with each change.
fn info() -> (Collection, Change) {
    let pairs = BTreeMap::from([(Bytes::from("info"), Bytes::from(vec![1; 500]))]);
    (at(), Change::OmapSet { object: HObject::default(), pairs })
}

/// With an entry of the log of the group.
fn recorded(number: u64, change: Change) -> Transaction {
    let entry = (Bytes::from(format!("{number:08}")), Bytes::from(vec![1; 200]));
    let log = Change::OmapSet { object: HObject::default(), pairs: [entry].into() };
    Transaction { changes: vec![(at(), change), (at(), log), info()] }
}

/// Adds pairs until the store refuses.
fn fill_omap(life: &mut Life, length: usize) {
    for number in 0.. {
        let name = Bytes::from(format!("{length}.{number}"));
        let pairs = BTreeMap::from([(name, Bytes::from(vec![1; length]))]);
        if !life.commit_alone(one(at(), Change::OmapSet { object: object(2), pairs })) {
            return;
        }
    }
}

fn used(life: &mut Life) -> u64 {
    let Ok(Outcome::Usage(usage)) = life.execute(RequestKind::Usage) else { panic!("no usage") };
    usage.bytes_used
}

#[test]
fn a_full_device_settles_and_drops_what_it_holds() {
    for (drops, fast_mib) in [(false, 0), (true, 0), (false, 16)] {
        let (shape, life) = begin_on(Shape::new(48, fast_mib));
        let mut life = life.tolerating(Tolerance::NoSpace);
        let mut last = 0;
        // Data first, then metadata, until nothing is admitted any more.
        while last < HELD_MAX as u64 / 2
            && life.commit(hold(last + 1, vec![write(last % 5, last * 20, 16)]))
        {
            last += 1;
        }
        for length in [4000, 100] {
            let attrs = |number| {
                let name = Bytes::from(format!("{length}.{number}"));
                BTreeMap::from([(name, Bytes::from(vec![1; length]))])
            };
            let change = |number| Change::SetAttrs { object: object(number), attrs: attrs(number) };
            while last + 300 < HELD_MAX as u64 && life.commit(hold(last + 1, vec![change(last)])) {
                last += 1;
            }
            fill_omap(&mut life, length);
        }
        assert!(last > 100, "{last} changes are held");
        let before = last;
        while last < HELD_MAX as u64 {
            let changes = vec![Change::Remove { object: object(last % 5) }];
            let hold = Change::Hold { version: version(last + 1), changes };
            if !life.commit(recorded(last + 1, hold)) {
                break;
            }
            last += 1;
        }
        assert!(last >= before + 16, "removals are held on a full device");
        // Many at once may need more pages than the reserves have.
        for through in (0..last).step_by(SETTLED_ALWAYS).skip(1).chain([last]) {
            let from = EVersion::ZERO;
            let change = match drops {
                true => Change::Drop { from, through: version(through) },
                false => Change::Settle { through: version(through) },
            };
            let transaction = Transaction { changes: vec![(at(), change), info()] };
            assert!(life.commit(transaction), "through {through} of {last}");
        }
        life.verify();
        let disk = life.crash().recover().driver.into_disk();
        assert_sound(&shape, &disk, "after all is settled");
    }
}

/// The map of each copy has its pages since the clone was held.
#[test]
fn a_full_device_settles_held_clones_and_removes_objects_afterwards() {
    let (shape, life) = begin_on(Shape::new(48, 0));
    let mut life = life.tolerating(Tolerance::NoSpace);
    let blocks = 2000;
    assert!(life.commit(one(at(), write(1, 0, blocks))));
    let last = 150;
    for number in 1..=last {
        let target = HObject { snap: SnapId(number), ..object(1) };
        let clone = Change::Clone { object: object(1), target };
        assert!(life.commit(hold(number, vec![clone, write(1, number, 1)])));
    }
    for length in [4000, 100] {
        fill_omap(&mut life, length);
    }
    for through in 1..=last {
        let settle = (at(), Change::Settle { through: version(through) });
        let transaction = Transaction { changes: vec![settle, info()] };
        assert!(life.commit(transaction), "{through} of {last}");
    }
    assert!(life.commit(one(at(), Change::Remove { object: object(1) })), "a removal");
    life.verify();
    let disk = life.crash().recover().driver.into_disk();
    assert_sound(&shape, &disk, "after all is settled");
}

/// Each of them goes to another leaf of the tree.
#[test]
fn checkpoints_have_pages_for_held_changes_of_all_hashes() {
    let (shape, mut life) = begin(48);
    let mut versions = 1..;
    for _ in 0..2 {
        for _ in 0..500 {
            let number = versions.next().expect("it has no end");
            let hash = (number as u32).wrapping_mul(0x9e37_79b9);
            let object = HObject { hash, ..object(1) };
            let attrs = BTreeMap::from([(Bytes::from("_"), Bytes::from(vec![1; 1200]))]);
            let touch = Change::Touch { object: object.clone() };
            let changes = vec![touch, Change::SetAttrs { object, attrs }];
            assert!(life.commit(hold(number, changes)));
        }
        life.checkpoint();
    }
    assert!(life.commit(settle(ALL)));
    life.verify();
    let disk = life.crash().recover().driver.into_disk();
    assert_sound(&shape, &disk, "after all is settled");
}

#[test]
fn the_number_of_held_changes_is_bounded_and_all_are_settled_at_once() {
    let (_, mut life) = begin(64);
    for number in 1..=HELD_MAX as u64 {
        assert!(life.commit(hold(number, vec![write(number % 7, number % 300, 1)])));
    }
    let more = life.execute(RequestKind::Commit(hold(5000, vec![write(0, 0, 1)])));
    let fault = HoldFault::TooMany;
    assert_eq!(
        more,
        Err(StoreError::CannotHold { collection: at(), version: version(5000), fault })
    );
    let mut life = life.crash().recover();
    assert!(life.commit(settle(ALL)));
    life.verify();
    assert!(life.commit(hold(7, vec![write(0, 0, 1)])), "all versions may come again");
    life.crash().recover().verify();
}

/// Versions from `first` on, each of one block.
fn hold_many(at: Collection, first: u64, count: u64) -> Transaction {
    let one = |number| {
        let changes = vec![write(number % 7, number % 300, 1)];
        (at, Change::Hold { version: version(number), changes })
    };
    Transaction { changes: (first..first + count).map(one).collect() }
}

/// Contents of 2048 held changes are kept in memory.
#[test]
fn changes_beyond_those_that_are_kept_in_memory_are_settled_like_others() {
    let (_, mut life) = begin(96);
    let all: Vec<Collection> = (0..3).map(collection).collect();
    for at in &all[1..] {
        assert!(life.commit(one(*at, Change::CreateCollection)));
        let touches = (0..7).map(|number| (*at, Change::Touch { object: object(number) }));
        assert!(life.commit(Transaction { changes: touches.collect() }));
    }
    for first in (1..1000).step_by(100) {
        all.iter().for_each(|at| assert!(life.commit(hold_many(*at, first, 100))));
    }
    // Those that are held first are settled last: the others have no content in memory.
    for (at, through) in [(2, 700), (2, 1000), (0, 1000), (1, 1000)] {
        assert!(life.commit(one(all[at], Change::Settle { through: version(through) })));
    }
    life.verify();
    // There is space for contents again.
    all.iter().for_each(|at| assert!(life.commit(hold_many(*at, 2000, 100))));
    all.iter().for_each(|at| assert!(life.commit(one(*at, Change::Settle { through: ALL }))));
    life.verify();
    life.crash().recover().verify();
}

/// Beyond 128 changes of a transaction, the newest one is found in another way.
#[test]
fn a_transaction_that_holds_and_drops_very_many_changes_knows_the_newest_one() {
    let (_, mut life) = begin(64);
    let mut many = hold_many(at(), 1, 200);
    let (from, through) = (version(150), VERSION_MAX);
    many.changes.push((at(), Change::Drop { from, through }));
    let again = |number| Change::Hold { version: version(number), changes: vec![write(1, 0, 1)] };
    let mut refused = many.clone();
    refused.changes.push((at(), again(149)));
    let fault = HoldFault::Order { newest: version(149) };
    assert_eq!(
        life.execute(RequestKind::Commit(refused)),
        Err(StoreError::CannotHold { collection: at(), version: version(149), fault })
    );
    many.changes.push((at(), again(150)));
    assert!(life.commit(many), "those above were dropped");
    life.verify();
    assert!(life.commit(settle(ALL)));
    life.verify();
}

#[test]
fn blocks_of_a_removed_collection_are_free_again() {
    let (shape, mut life) = begin(64);
    life.checkpoint();
    let before = used(&mut life);
    for number in 1..=100 {
        // Some have no data, so that a step of the cleanup may free nothing.
        let change = match number {
            50.. => Change::Remove { object: object(number) },
            _ => write(number, 0, number as usize * 2),
        };
        assert!(life.commit(hold(number, vec![change])));
    }
    assert!(used(&mut life) > before + (4 << 20));
    assert!(life.commit(one(at(), Change::RemoveCollection)));
    life.quiesce();
    life.checkpoint();
    life.quiesce();
    assert!(used(&mut life) <= before + (1 << 20), "{} instead of {before}", used(&mut life));
    assert!(life.commit(one(at(), Change::CreateCollection)));
    assert!(life.commit(hold(1, vec![write(0, 0, 1)])));
    life.verify();
    life.checkpoint();
    let disk = life.driver.into_disk();
    let contents = assert_sound(&shape, &disk, "after the removal");
    assert_eq!((contents.held, contents.removed_collections), (1, 0));
}

/// Bytes that were written to the device so far.
fn written(life: &Life) -> u64 {
    life.driver.disk().counters(Device::Main).bytes_written()
}

#[test]
fn settling_writes_no_data_and_moves_blocks_between_all_layouts() {
    let (_, mut life) = begin(128);
    // Of a size within one segment, of several, and of one that becomes inline by truncation.
    let sizes = [1, 16, 17, 64, 65, 200, 1000];
    for (number, blocks) in (1..).zip(sizes) {
        let cut = Change::Truncate { object: object(number), size: 3 * BLOCK as u64 };
        let second = write(number, 40, blocks / 2);
        let first = write(number, number * 30 % 64, blocks);
        let (even, odd) = (vec![first.clone(), second.clone(), cut], vec![first, second]);
        let changes = if number % 2 == 0 { even } else { odd };
        assert!(life.commit(hold(number, changes)));
    }
    life.checkpoint();
    let before = written(&life);
    assert!(life.commit(settle(ALL)));
    life.checkpoint();
    let after = written(&life) - before;
    assert!(after < 1 << 20, "{after} bytes were written");
    life.verify();
    life.crash().recover().verify();
}

#[test]
fn a_damaged_held_block_is_settled_and_a_read_reports_it() {
    let (shape, mut life) = begin(64);
    assert!(life.commit(hold(1, vec![write(1, 70, 40)])));
    life.checkpoint();
    let mut disk = life.driver.into_disk();
    let place = find(&shape, &disk, 1 + 70 + 1);
    disk.corrupt(Device::Main, place, 77);
    let mut driver = shape.start(disk, engine::Time::ZERO);
    driver.run_until_ready();
    let held = store::HeldChange { version: version(1), hash: object(1).hash };
    let read = RequestKind::ReadHeld { collection: at(), held };
    let whole = driver.execute(read);
    let offset = 70 * BLOCK as u64;
    let corrupt = StoreError::Corrupt { object: object(1), offset, length: BLOCK as u64 };
    assert_eq!(whole, Err(corrupt.clone()));
    assert_eq!(driver.execute(RequestKind::Commit(settle(ALL))), Ok(Outcome::Committed));
    let read =
        |offset, length| RequestKind::Read { collection: at(), object: object(1), offset, length };
    assert_eq!(driver.execute(read(0, u64::MAX)), Err(corrupt));
    assert!(driver.execute(read(offset + BLOCK as u64, u64::MAX)).is_ok());
}

/// The first block of a device whose bytes all have this value.
fn find(shape: &Shape, disk: &block::disk::FaultyDisk, byte: u64) -> u64 {
    let read = |block| disk.read_now(Device::Main, block, 1, block::disk::View::Completed);
    let first = shape.store.main_blocks / 8;
    let mut blocks = first..shape.store.main_blocks;
    let found = blocks.find(|block| read(*block).iter().all(|b| u64::from(*b) == byte));
    found.expect("it was written to its place")
}

#[test]
fn a_change_beyond_the_largest_object_is_refused_before_it_is_held() {
    let (_, mut life) = begin(64);
    let end = block::OBJECT_SIZE_MAX;
    let truncate = Change::Truncate { object: object(1), size: end + BLOCK as u64 };
    for change in [write(1, end / BLOCK as u64 + 1, 1), truncate] {
        for transaction in [hold(1, vec![change.clone()]), one(at(), change)] {
            let refused = life.execute(RequestKind::Commit(transaction));
            assert!(matches!(refused, Err(StoreError::TooLarge { .. })), "{refused:?}");
        }
    }
    assert!(life.commit(hold(1, vec![write(1, 0, 1)])));
}
