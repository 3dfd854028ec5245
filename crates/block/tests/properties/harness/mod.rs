//! Shared by the tests of the store and its soak: random histories on faulty devices, compared with
//! the reference store.
//!
//! * `shape`: devices and options of a store.
//! * `generator`: random transactions and reads.
//! * `history`: requests, and the states that the store may therefore have.
//! * `compare`: contents of the store.
//! * `sound`: `fsck` of the devices.
//! * `life`: a store at work, and a crashed one.
//! * `crashes`, `damage`, `last`, `failures`, `healing`, `races`, `fullness`, `bulk`: the
//!   scenarios. Each runs from a seed and panics at the first wrong result.
#![allow(dead_code)]

pub mod bulk;
pub mod compare;
pub mod crashes;
pub mod damage;
pub mod failures;
pub mod fullness;
pub mod generator;
pub mod healing;
pub mod history;
pub mod last;
pub mod life;
pub mod races;
pub mod shape;
pub mod sound;

use std::ops::AddAssign;

/// Counters of a scenario.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Report {
    pub transactions: u64,
    pub reads: u64,
    /// Operations of devices, and timers.
    pub steps: u64,
    /// Crashes after which all contents were compared.
    pub crashes: u64,
    /// Damaged blocks and failing operations.
    pub faults: u64,
}

impl AddAssign for Report {
    fn add_assign(&mut self, more: Report) {
        self.transactions += more.transactions;
        self.reads += more.reads;
        self.steps += more.steps;
        self.crashes += more.crashes;
        self.faults += more.faults;
    }
}

pub type Scenario = fn(u64) -> Report;

/// All scenarios, by the name that the soak prints.
pub const SCENARIOS: [(&str, Scenario); 13] = [
    ("model", crashes::equals_the_reference),
    ("boundaries", crashes::crash_at_boundaries),
    ("every-boundary", crashes::crash_at_every_boundary),
    ("lives", crashes::crash_again_and_again),
    ("damage", damage::damaged_blocks),
    ("superblocks", damage::superblock_damage),
    ("data", damage::data_damage),
    ("last-batch", last::damaged_last_batch),
    ("failures", failures::failing_devices),
    ("failed-reads", healing::failed_reads),
    ("races", races::reads_beside_overwrites),
    ("fullness", fullness::full_devices),
    ("bulk", bulk::bulk_removals),
];
