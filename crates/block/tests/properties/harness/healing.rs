//! Reads that fail once: the failure goes unnoticed, wherever it occurs.
//!
//! A device that fails one read, or returns one flipped bit, and then works again is not damaged:
//! path failovers and marginal sectors look like this.

use super::Report;
use super::compare::observe;
use super::life::Life;
use super::shape::Shape;
use block::StoreFailure;
use block::disk::{FaultyDisk, ReadFault};
use engine::Time;
use stdx::Prng;
use store::mem::MemStore;

/// A failure hits one of this many next reads of a running store.
const FAILING_WITHIN: u64 = 40;

pub fn failed_reads(seed: u64) -> Report {
    healing_run(seed, 60, 30)
}

/// Fails reads of a store at work, then reads of one that opens and shows all contents.
pub fn healing_run(seed: u64, transactions: u64, rounds: u64) -> Report {
    let mut prng = Prng::new(seed);
    let shape = Shape::draw(&mut prng);
    let mut life = Life::begin(&shape, seed);
    let mut generator = life.generator();
    for _ in 0..transactions {
        let fault = *prng.choose(&[ReadFault::Error, ReadFault::Flip]);
        // One at a time: the repeated read succeeds.
        if !life.driver.disk().will_fail_read() {
            life.driver.disk_mut().fail_read(prng.range(1..FAILING_WITHIN), fault);
        }
        life.load_one(&mut generator, 4);
    }
    life.settle();
    life.driver.disk_mut().heal();
    life.verify();
    life.quiesce();
    let mut report = life.report;
    let state = life.history.state();
    let mut opening = Opening { shape: &shape, state, prng, fault: None };
    let disk = life.driver.disk().clone();
    let reads = opening.run(disk.clone());
    for _ in 0..rounds {
        let mut disk = disk.clone();
        let number = opening.prng.range(1..reads + 1);
        let fault = *opening.prng.choose(&[ReadFault::Error, ReadFault::Flip]);
        disk.fail_read(number, fault);
        opening.fault = Some((number, fault));
        opening.run(disk);
        report.faults += 1;
    }
    report
}

struct Opening<'a> {
    shape: &'a Shape,
    state: &'a MemStore,
    prng: Prng,
    fault: Option<(u64, ReadFault)>,
}

impl Opening<'_> {
    /// Opens the store and compares all contents; returns the number of reads.
    fn run(&mut self, mut disk: FaultyDisk) -> u64 {
        disk.reseed(self.prng.next_u64());
        disk.restart();
        let before = disk.reads();
        let mut driver = self.shape.start(disk, Time::ZERO);
        driver.run_until_ready();
        if let Some(failure) = driver.store().failure() {
            // A flipped bit in the bitmap of pages or the label, which are read once and as a
            // whole, cannot be told from damage: the store may refuse to open, and the next start
            // finds it sound. The log is read again.
            let is_flip = matches!(self.fault, Some((_, ReadFault::Flip)));
            let is_of_log = matches!(failure, StoreFailure::Log(_));
            assert!(is_flip && !is_of_log, "{:?}: {failure}", self.fault);
            return 0;
        }
        let observed = observe(&mut driver, &mut self.prng);
        if let Some(difference) = observed.difference(self.state) {
            panic!("{:?}: {difference}", self.fault);
        }
        driver.disk().reads() - before
    }
}
