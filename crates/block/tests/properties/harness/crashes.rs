//! Crashes: the store keeps all acknowledged transactions, and of the others a prefix, each as a
//! whole.

use super::Report;
use super::generator::Generator;
use super::life::{Crashed, Life};
use super::shape::Shape;
use stdx::Prng;
use store::RequestKind;

const IN_FLIGHT_MAX: u64 = 12;

fn draw_depth(prng: &mut Prng) -> usize {
    if prng.chance(1, 4) { 1 } else { prng.range(1..IN_FLIGHT_MAX) as usize }
}

/// Crashes only at the end, when all requests have completed: nothing may be lost.
pub fn equals_the_reference(seed: u64) -> Report {
    let mut prng = Prng::new(seed);
    let shape = Shape::draw(&mut prng);
    model_run(seed, &shape, 120)
}

pub fn model_run(seed: u64, shape: &Shape, transactions: u64) -> Report {
    let mut life = Life::begin(shape, seed);
    let mut generator = life.generator();
    for _ in 0..4 {
        let depth = draw_depth(&mut life.prng);
        life.load(&mut generator, transactions / 4, depth);
        life.verify();
    }
    let mut life = life.crash().recover();
    life.verify();
    life.report
}

/// One history; a copy of the devices crashes and recovers after some of their operations.
pub fn crash_at_boundaries(seed: u64) -> Report {
    boundary_run(seed, 40, 24)
}

/// A shorter history with a crash after each operation.
pub fn crash_at_every_boundary(seed: u64) -> Report {
    boundary_run(seed, 12, 1)
}

/// A crash after one in `interval` operations, from a random one on.
pub fn boundary_run(seed: u64, transactions: u64, interval: u64) -> Report {
    let mut prng = Prng::new(seed);
    let shape = Shape::draw(&mut prng);
    let mut life = Life::begin(&shape, seed);
    let mut generator = life.generator();
    let depth = draw_depth(&mut prng);
    let mut report = Report::default();
    let mut next = prng.below(interval);
    for _ in 0..transactions {
        life.submit(RequestKind::Commit(generator.transaction()));
        if prng.chance(1, 8) {
            life.request_checkpoint();
        }
        while life.history.in_flight() >= depth {
            assert!(life.step(), "requests are unanswered, and nothing is on its way");
            if next == 0 {
                report += crash_and_go_on(life.fork(), &generator);
                next = interval;
            }
            next -= 1;
        }
    }
    life.verify();
    report += life.report;
    report
}

/// Recovers, runs a short load, crashes again.
fn crash_and_go_on(crashed: Crashed, generator: &Generator) -> Report {
    let mut life = crashed.recover();
    if life.prng.chance(1, 2) {
        let depth = draw_depth(&mut life.prng);
        life.load(&mut generator.clone(), 4, depth);
        life = life.crash().recover();
    }
    life.verify();
    life.report
}

/// One store that crashes during its work, repeatedly.
pub fn crash_again_and_again(seed: u64) -> Report {
    lives_run(seed, 12)
}

pub fn lives_run(seed: u64, lives: u64) -> Report {
    let mut prng = Prng::new(seed);
    let shape = Shape::draw(&mut prng);
    let mut disk = shape.format(seed);
    if prng.chance(1, 4) {
        // Remains of an older store on the devices are ignored.
        let mut older = Life::begin_on(&shape, disk, prng.fork());
        let mut generator = older.generator();
        older.load(&mut generator, 60, 8);
        disk = older.crash().disk;
        shape.format_over(&mut disk, 2);
    }
    let mut life = Life::begin_on(&shape, disk, prng.fork());
    let mut generator = life.generator();
    for _ in 0..lives {
        let depth = draw_depth(&mut prng);
        let transactions = *prng.choose(&[0, 0, 1, 5, 20, 60]);
        life.load(&mut generator, transactions, depth);
        life.run(prng.below(20));
        life = life.crash().recover();
    }
    life.load(&mut generator, 20, 4);
    life.verify();
    life.report
}
