//! Bulk removals, with so much memory that checkpoints come late, or on a device so large that the
//! bitmap takes most of the memory: all objects of a collection, whose name is reused at once, and
//! the keys of a queue one by one. Crashes occur meanwhile.

use super::Report;
use super::generator::{collection, one};
use super::life::Life;
use super::shape::{BLOCKS_PER_MIB, Shape};
use bytes::Bytes;
use stdx::Prng;
use store::{Change, Outcome, RequestKind, Transaction};
use types::{HObject, PoolId};

const OBJECTS_MAX: u64 = 8000;
/// Maximum of entries that a step passes, and of points that it removes from tables.
const PASSED_MAX: u64 = 2048 + 8 * 64;
const POINTS_MAX: u64 = 2048;
/// Maximum of pages of the tree in a step of a checkpoint.
const PAGES_MAX: u64 = 256 + 128;
const BATCH: u64 = 500;

pub fn bulk_removals(seed: u64) -> Report {
    bulk_run(seed, OBJECTS_MAX)
}

fn object(number: u64) -> HObject {
    let hash = (number as u32).wrapping_mul(0x9e37_79b9);
    let name = Bytes::from(format!("bulk.{number:016x}"));
    HObject::head(PoolId(1), Bytes::new(), Bytes::new(), name, hash)
}

fn key(number: u64) -> Bytes {
    Bytes::from(format!("{number:012}"))
}

fn draw(prng: &mut Prng) -> Shape {
    let is_large = prng.chance(1, 4);
    let mut shape = Shape::new(if is_large { 256 << 10 } else { 512 }, 0);
    // The bitmap of 256 GiB takes 9 MB.
    shape.store.memory = if is_large { 24 << 20 } else { 512 << 20 };
    shape.log_blocks = Some(128 * BLOCKS_PER_MIB);
    shape
}

pub fn bulk_run(seed: u64, objects_max: u64) -> Report {
    let mut prng = Prng::new(seed);
    let shape = draw(&mut prng);
    let mut life = Life::begin(&shape, prng.next_u64());
    let count = prng.range(objects_max / 4..objects_max);
    fill(&mut life, count);
    if prng.chance(1, 2) {
        life.checkpoint();
    }
    let mut taken = 0;
    for _ in 0..prng.range(1..4) {
        taken = take_from_queue(&mut life, taken, count, prng.below(count));
        let mut changes = vec![(collection(0), Change::RemoveCollection)];
        changes.push((collection(0), Change::CreateCollection));
        let again = object(prng.below(count));
        changes.push((collection(0), Change::Touch { object: again }));
        assert!(life.commit_alone(Transaction { changes }));
        life.run(prng.below(count / 4));
        check_work(&life);
        if prng.chance(1, 2) {
            life = life.crash().recover();
        }
        if prng.chance(1, 2) {
            life.checkpoint();
        }
    }
    life.verify();
    life.checkpoint();
    let Ok(Outcome::Usage(usage)) = life.execute(RequestKind::Usage) else {
        panic!("usage returns usage")
    };
    assert_eq!(usage.objects, 2, "one in each collection");
    check_work(&life);
    life.report.steps += life.driver.steps();
    life.report
}

fn fill(life: &mut Life, count: u64) {
    assert!(life.commit_alone(one(collection(0), Change::CreateCollection)));
    assert!(life.commit_alone(one(collection(1), Change::CreateCollection)));
    for first in (0..count).step_by(BATCH as usize) {
        let numbers = first..count.min(first + BATCH);
        let set = |number| {
            let attrs = [(Bytes::from_static(b"_"), Bytes::from(vec![number as u8; 100]))].into();
            (collection(0), Change::SetAttrs { object: object(number), attrs })
        };
        let mut changes: Vec<_> = numbers.clone().map(set).collect();
        let data = Bytes::from(vec![first as u8; 5000]);
        changes.push((collection(0), Change::Write { object: object(first), offset: 0, data }));
        let pairs = numbers.map(|number| (key(number), Bytes::from_static(b"value"))).collect();
        changes.push((collection(1), Change::OmapSet { object: object(0), pairs }));
        assert!(life.commit_alone(Transaction { changes }));
    }
}

/// Removes up to `count` keys from the front; returns how many have been removed in total.
fn take_from_queue(life: &mut Life, taken: u64, count: u64, some: u64) -> u64 {
    let end = count.min(taken + some);
    for first in (taken..end).step_by(BATCH as usize) {
        let keys = (first..end.min(first + BATCH)).map(key).collect();
        let remove = Change::OmapRemove { object: object(0), keys };
        assert!(life.commit_alone(one(collection(1), remove)));
    }
    let list = RequestKind::OmapList {
        collection: collection(1),
        object: object(0),
        after: None,
        prefix: Bytes::new(),
        entries_max: 3,
        bytes_max: 1 << 10,
    };
    let Ok(Outcome::OmapPage(page)) = life.execute(list) else { panic!("the object is there") };
    assert!(page.pairs.into_keys().eq((end..count.min(end + 3)).map(key)));
    end
}

fn check_work(life: &Life) {
    let most = life.driver.store().most_work();
    assert!(most.passed <= PASSED_MAX, "{most:?}");
    assert!(most.points <= POINTS_MAX && most.pages <= PAGES_MAX, "{most:?}");
}
