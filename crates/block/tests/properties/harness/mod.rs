//! What the tests of the store and its soak share: random histories on faulty devices, compared with
//! the reference store.
//!
//! * `shape`: which devices and options a store gets.
//! * `generator`: random transactions and reads.
//! * `history`: what was asked, and what the store may therefore hold.
//! * `compare`: what the store holds.
//! * `sound`: what `fsck` says of it.
//! * `life`: a store at work, and one that crashed.
//! * `crashes`, `damage`, `last`, `failures`, `healing`, `races`, `fullness`, `bulk`: the scenarios. Each
//!   runs from a seed and panics at the first wrong answer.
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

/// What was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Report {
    pub transactions: u64,
    pub reads: u64,
    /// Operations of devices, and timers.
    pub steps: u64,
    /// Crashes after which all was compared.
    pub crashes: u64,
    /// Damaged blocks and failing operations that were tried.
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
