//! Failing devices: requests fail, none hangs, and acknowledged transactions are there when the
//! devices have recovered.

use super::Report;
use super::history::Tolerance;
use super::life::Life;
use super::shape::Shape;
use block::device::Device;
use block::disk::Faults;
use stdx::Prng;

/// Faults per million operations, by chance.
const RATE: u64 = 20_000;
/// A chosen failure hits one of this many next operations.
const FAILING_WITHIN: u64 = 200;

pub fn failing_devices(seed: u64) -> Report {
    failure_run(seed, 6)
}

pub fn failure_run(seed: u64, rounds: u64) -> Report {
    let mut prng = Prng::new(seed);
    let shape = Shape::draw(&mut prng);
    let mut life = Life::begin(&shape, seed);
    let mut generator = life.generator();
    for _ in 0..rounds {
        life = life.tolerating(Tolerance::Faults);
        life.load(&mut generator, 5, 4);
        life.settle();
        break_something(&mut life, &mut prng);
        for _ in 0..40 {
            life.load_one(&mut generator, 6);
            if life.history.is_broken {
                break;
            }
        }
        life.settle();
        life.report.faults += 1;
        // The machine restarts with devices that work, as far as they know.
        let mut crashed = life.crash();
        crashed.disk.heal();
        life = crashed.recover();
    }
    life.tolerating(Tolerance::None).check_health(&mut prng)
}

fn break_something(life: &mut Life, prng: &mut Prng) {
    let disk = life.driver.disk_mut();
    match prng.below(6) {
        0..=2 => disk.fail_operation(prng.range(1..FAILING_WITHIN)),
        3 => disk.set_faults(Faults { read_errors_per_million: RATE, ..Faults::default() }),
        4 => disk.set_faults(Faults {
            write_errors_per_million: RATE,
            flush_errors_per_million: RATE,
            ..Faults::default()
        }),
        _ => {
            let fast = disk.has_device(Device::Fast) && prng.chance(1, 2);
            disk.kill(if fast { Device::Fast } else { Device::Main });
        }
    }
}

impl Life {
    /// On healthy devices everything works again.
    fn check_health(mut self, prng: &mut Prng) -> Report {
        let mut generator = self.generator();
        self.load(&mut generator, 10, prng.range(1..5) as usize);
        self.verify();
        self.report
    }
}
