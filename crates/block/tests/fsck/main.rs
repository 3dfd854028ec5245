//! A check of the devices finds nothing, whatever a store does and whenever it crashes.

#[path = "../properties/harness/mod.rs"]
mod harness;

use block::BlockStore;
use block::device::Extent;
use block::disk::{Driver, FaultyDisk};
use block::dump::{self, DumpError, ObjectFilter};
use block::fsck::{CheckOptions, Image, Repairs, check, repair_ops};
use engine::Time;
use harness::generator::Generator;
use harness::life::Life;
use harness::shape::Shape;
use harness::sound::{DiskImage, assert_sound};
use std::fmt::Write;
use stdx::Prng;
use store::RequestKind;

type Dump = fn(&mut dyn Image, &mut dyn Write) -> Result<(), DumpError>;

const DUMPS: [Dump; 5] = [dump::superblock, dump::log, dump::tree, dump::space, |image, out| {
    dump::objects(image, &ObjectFilter::default(), out)
}];

/// Discards text.
struct Discarding;

impl Write for Discarding {
    fn write_str(&mut self, _: &str) -> std::fmt::Result {
        Ok(())
    }
}

/// A copy of the devices crashes after one in `interval` operations.
fn run(seed: u64, shape: &Shape, transactions: u64, interval: u64) {
    let mut prng = Prng::new(seed);
    let mut life = Life::begin(shape, seed);
    assert_sound(shape, life.driver.disk(), "opened");
    let mut generator = life.generator();
    for number in 0..transactions {
        life.submit(RequestKind::Commit(generator.transaction()));
        if prng.chance(1, 8) {
            life.request_checkpoint();
        }
        while life.history.in_flight() >= 4 {
            assert!(life.step(), "requests are unanswered, and nothing is on its way");
            if prng.chance(1, interval) {
                let crashed = life.fork();
                assert_sound(shape, &crashed.disk, &format!("seed {seed}, crash at {number}"));
            }
        }
    }
    recover_and_check(seed, shape, life, &mut generator);
}

fn recover_and_check(seed: u64, shape: &Shape, life: Life, generator: &mut Generator) {
    let mut life = life.crash().recover();
    life.load(generator, 10, 4);
    life.checkpoint();
    assert_sound(shape, life.driver.disk(), &format!("seed {seed}, after a checkpoint"));
    let mut image = DiskImage::new(shape, life.driver.disk());
    for dump in DUMPS {
        dump(&mut image, &mut Discarding).expect("a sound store is shown");
    }
}

#[test]
fn a_crash_at_any_moment_leaves_a_sound_store() {
    for seed in 0..4 {
        let shape = Shape::draw(&mut Prng::new(seed));
        run(seed, &shape, 60, 20);
    }
}

#[test]
fn a_store_that_does_not_fit_into_memory_is_sound() {
    for seed in 10..12 {
        let mut shape = Shape::new(64, (seed % 2) * 32);
        shape.store.memory = harness::shape::MEMORY_TINY;
        run(seed, &shape, 60, 40);
    }
}

/// Opens the store on these devices, lets it make the repairs, and returns the devices.
fn repaired(shape: &Shape, disk: FaultyDisk, repairs: Repairs) -> FaultyDisk {
    let store = BlockStore::open_for_repair(shape.store.clone(), repairs);
    let mut driver = Driver::new(store, disk, Time::ZERO);
    driver.run_until_ready();
    driver.run_until_idle();
    assert!(driver.store().failure().is_none());
    driver.into_disk()
}

#[test]
fn leaked_blocks_and_lost_marks_are_repaired_by_the_engine() {
    let shape = Shape::new(64, 0);
    let mut life = Life::begin(&shape, 7);
    let mut generator = life.generator();
    life.load(&mut generator, 30, 4);
    life.checkpoint();
    let disk = life.driver.into_disk();
    assert_sound(&shape, &disk, "before");
    // Unused blocks at the end of the device.
    let leaked = Extent::new(shape.store.main_blocks - 1000, 100);
    let disk = repaired(&shape, disk, Repairs { taken: vec![leaked], ..Repairs::default() });
    let report = check(&mut DiskImage::new(&shape, &disk), &CheckOptions::default());
    assert!(!report.is_clean());
    let repairs = repair_ops(&report);
    assert_eq!(repairs.freed, [leaked]);
    let disk = repaired(&shape, disk, repairs);
    assert_sound(&shape, &disk, "after");
}

#[test]
fn a_store_whose_pages_count_as_free_opens_for_repair_only() {
    let shape = Shape::new(64, 0);
    let mut life = Life::begin(&shape, 7);
    let mut generator = life.generator();
    life.load(&mut generator, 30, 4);
    life.checkpoint();
    let disk = life.driver.into_disk();
    let report = check(&mut DiskImage::new(&shape, &disk), &CheckOptions::default());
    let run = report.superblock.expect("a sound store").metadata.runs[0];
    let last = Extent::new(run.end() - 1, 1);
    let disk = repaired(&shape, disk, Repairs { freed: vec![last], ..Repairs::default() });
    let mut driver = shape.start(disk, Time::ZERO);
    driver.run_until_ready();
    let failure = driver.store().failure().expect("data would overwrite pages").to_string();
    assert!(failure.contains(&format!("block {} is free", last.start)), "{failure}");
    assert!(failure.contains("sepiola store fsck --deep DIR"), "{failure}");
    let disk = driver.into_disk();
    let report = check(&mut DiskImage::new(&shape, &disk), &CheckOptions::default());
    let repairs = repair_ops(&report);
    assert_eq!(repairs.taken, [last]);
    let disk = repaired(&shape, disk, repairs);
    assert_sound(&shape, &disk, "after");
    let mut driver = shape.start(disk, Time::ZERO);
    driver.run_until_ready();
    assert_eq!(driver.store().failure(), None);
}
