//! Damaged blocks: the store returns an error or stops, and never returns wrong data. It was idle
//! before, so that all acknowledged batches are marked; `last` covers unmarked ones.

use super::Report;
use super::compare::{all_requests, brief, is_same};
use super::generator::{Generator, collection, object, one};
use super::life::Life;
use super::shape::Shape;
use block::BlockStore;
use block::device::{BLOCK, Device};
use block::disk::{Driver, FaultyDisk, View};
use bytes::Bytes;
use engine::Time;
use stdx::Prng;
use store::mem::MemStore;
use store::{Change, Outcome, RequestKind, StoreError, Transaction};
use types::HObject;

pub fn damaged_blocks(seed: u64) -> Report {
    damage_run(seed, 30, 25)
}

/// Loads a store, then damages one block after the other, each on a copy of its own.
pub fn damage_run(seed: u64, transactions: u64, rounds: u64) -> Report {
    let mut prng = Prng::new(seed);
    let shape = Shape::draw(&mut prng);
    let mut life = Life::begin(&shape, seed);
    let mut generator = life.generator();
    life.load(&mut generator, transactions, 6);
    if prng.chance(1, 2) {
        life.checkpoint();
    }
    life.verify();
    life.quiesce();
    let state = life.history.state().clone();
    let mut report = life.report;
    let disk = life.driver.disk().clone();
    for _ in 0..rounds {
        let mut damaged = disk.clone();
        damaged.reseed(prng.next_u64());
        damaged.restart();
        let harm = Harm::draw(&damaged, &mut prng);
        harm.apply(&mut damaged);
        let shown = format!("{:?} of {:?} {}", harm.kind, harm.device, harm.block);
        let started = shape.start(damaged, Time::ZERO);
        DamagedCopy { driver: started, shown, report: &mut report }
            .run(&state, &mut generator.clone());
        report.faults += 1;
    }
    report
}

/// Loses one copy of the superblock, or two neighbouring ones.
pub fn superblock_damage(seed: u64) -> Report {
    let mut prng = Prng::new(seed);
    let shape = Shape::draw(&mut prng);
    let mut life = Life::begin(&shape, seed);
    let mut generator = life.generator();
    for _ in 0..4 {
        life.load(&mut generator, 8, 4);
        life.checkpoint();
    }
    life.verify();
    let mut report = Report::default();
    let end = shape.disk.main_blocks;
    let losses: [&[u64]; 6] = [&[0], &[1], &[end - 2], &[end - 1], &[0, 1], &[end - 2, end - 1]];
    for lost in losses {
        let mut crashed = life.fork();
        crashed.is_damaged = true;
        for block in lost {
            let bit = prng.below(BLOCK as u64 * 8) as usize;
            crashed.disk.corrupt(Device::Main, *block, bit);
        }
        let mut life = crashed.recover();
        // The damaged copies are rewritten in turn.
        life.load(&mut generator.clone(), 4, 2);
        life.checkpoint();
        let mut life = life.crash().recover();
        life.verify();
        report += life.report;
        report.faults += 1;
    }
    report
}

/// Damages one block of an object, found by its content.
pub fn data_damage(seed: u64) -> Report {
    const PART: u64 = 5;
    let length = BLOCK as u64;
    let mut shape = Shape::new(64, 0);
    shape.store.deferred_blocks = 1;
    let mut life = Life::begin(&shape, seed);
    let mut data = vec![0; 40 * BLOCK];
    life.prng.fill(&mut data);
    let data = Bytes::from(data);
    let (pg, name) = (collection(0), object(1));
    let write = |offset: u64, data: Bytes| Change::Write { object: object(1), offset, data };
    let create =
        Transaction { changes: vec![(pg, Change::CreateCollection), (pg, write(0, data.clone()))] };
    assert!(life.commit(create));
    let wanted = data.slice((PART * length) as usize..((PART + 1) * length) as usize);
    let disk = life.driver.disk_mut();
    let holds =
        |disk: &FaultyDisk, block| disk.read_now(Device::Main, block, 1, View::Completed) == wanted;
    let blocks = disk.written_blocks(Device::Main);
    let block = blocks.into_iter().find(|block| holds(disk, *block)).expect("it was written");
    disk.corrupt(Device::Main, block, 1000);
    let read =
        |offset, length| RequestKind::Read { collection: pg, object: object(1), offset, length };
    let corrupt =
        || Err(StoreError::Corrupt { object: name.clone(), offset: PART * length, length });
    assert_eq!(life.execute(read(0, u64::MAX)), corrupt());
    assert_eq!(life.execute(read(PART * length + 9, 1)), corrupt());
    assert!(life.execute(read(0, PART * length)).is_ok());
    // A write of a part of the block must not make the damage look valid.
    let _ = life.execute(RequestKind::Commit(one(pg, write(PART * length + 1, data.slice(..7)))));
    assert!(life.execute(read(PART * length + 2000, 1)).is_err());
    assert!(life.commit(one(pg, write(PART * length, wanted.clone()))));
    life.verify();
    life = life.crash().recover();
    life.verify();
    life.report
}

#[derive(Debug)]
struct Harm {
    device: Device,
    block: u64,
    kind: HarmKind,
}

#[derive(Debug)]
enum HarmKind {
    FlippedBit(usize),
    Unreadable,
    Zeros,
    /// Content of another block, as after a misdirected write.
    CopyOf(u64),
}

impl Harm {
    fn draw(disk: &FaultyDisk, prng: &mut Prng) -> Harm {
        let fast = disk.has_device(Device::Fast) && prng.chance(1, 2);
        let device = if fast { Device::Fast } else { Device::Main };
        let written = disk.written_blocks(device);
        let block = *prng.choose(&written);
        let kind = match prng.below(6) {
            0 => HarmKind::Unreadable,
            1 => HarmKind::Zeros,
            2 => HarmKind::CopyOf(*prng.choose(&written)),
            _ => HarmKind::FlippedBit(prng.below(BLOCK as u64 * 8) as usize),
        };
        Harm { device, block, kind }
    }

    fn apply(&self, disk: &mut FaultyDisk) {
        match self.kind {
            HarmKind::FlippedBit(bit) => disk.corrupt(self.device, self.block, bit),
            HarmKind::Unreadable => disk.make_unreadable(self.device, self.block),
            HarmKind::Zeros => disk.overwrite(self.device, self.block, &[0; BLOCK]),
            HarmKind::CopyOf(other) => {
                let content = disk.read_now(self.device, other, 1, View::Completed);
                disk.overwrite(self.device, self.block, &content);
            }
        }
    }
}

/// One damaged copy of the devices.
struct DamagedCopy<'a> {
    driver: Driver<BlockStore>,
    shown: String,
    report: &'a mut Report,
}

impl DamagedCopy<'_> {
    fn run(mut self, state: &MemStore, generator: &mut Generator) {
        self.driver.run_until_ready();
        if self.has_failed() {
            return;
        }
        if !self.shows(state) {
            return;
        }
        let mut state = state.clone();
        self.repair_data(&mut state);
        for _ in 0..8 {
            if !self.commit(&mut state, generator.transaction()) {
                return;
            }
        }
        self.shows(&state);
    }

    fn has_failed(&self) -> bool {
        let Some(failure) = self.driver.store().failure() else { return false };
        assert!(!failure.to_string().is_empty());
        true
    }

    fn execute(&mut self, kind: &RequestKind) -> Result<Outcome, StoreError> {
        self.report.reads += 1;
        self.driver.execute(kind.clone())
    }

    /// Asserts that the store shows this state where it shows anything; false if it fails on the
    /// way.
    fn shows(&mut self, state: &MemStore) -> bool {
        let mut state = state.clone();
        for request in all_requests(&state) {
            let answer = self.execute(&request);
            let expected = state.execute(request.clone());
            let is_right = is_fault(&answer) || is_same(&answer, &expected, &request);
            assert!(is_right, "{}: {}: {}", self.shown, brief(&request), brief(&answer));
        }
        !self.has_failed()
    }

    /// False if the store has failed.
    fn commit(&mut self, state: &mut MemStore, transaction: Transaction) -> bool {
        self.report.transactions += 1;
        let expected = state.clone().apply(&transaction).map(|()| Outcome::Committed);
        let answer = self.execute(&RequestKind::Commit(transaction.clone()));
        if self.has_failed() {
            return false;
        }
        assert!(is_fault(&answer) || answer == expected, "{}: {answer:?}", self.shown);
        if answer.is_ok() {
            state.apply(&transaction).expect("it was expected");
        }
        true
    }

    /// Asserts that damage of data is reported exactly, and that a write of the whole range repairs
    /// it.
    fn repair_data(&mut self, state: &mut MemStore) {
        for request in all_requests(state) {
            let RequestKind::Read { collection, object, .. } = &request else { continue };
            let Err(StoreError::Corrupt { .. }) = self.execute(&request) else { continue };
            let size = state.object(*collection, object).expect("it is listed").data.size();
            for (offset, length) in self.damaged_ranges(&request, size, state) {
                let found = state.object(*collection, object).expect("it is listed");
                let data = found.read(offset, length).data;
                let write = Change::Write { object: object.clone(), offset, data };
                if !self.commit(state, one(*collection, write)) {
                    return;
                }
            }
            let expected = state.execute(request.clone());
            let repaired = self.execute(&request);
            assert!(is_same(&repaired, &expected, &request), "{}: {repaired:?}", self.shown);
        }
    }

    /// Reads block by block.
    fn damaged_ranges(
        &mut self,
        whole: &RequestKind,
        size: u64,
        state: &mut MemStore,
    ) -> Vec<(u64, u64)> {
        let RequestKind::Read { collection, object: name, .. } = whole else { return vec![] };
        let length = BLOCK as u64;
        let mut damaged = Vec::new();
        for offset in (0..size).step_by(BLOCK) {
            let (collection, object) = (*collection, name.clone());
            let read = RequestKind::Read { collection, object, offset, length };
            let expected = state.execute(read.clone());
            match self.execute(&read) {
                Err(StoreError::Corrupt { object, offset: from, length: count }) => {
                    self.check_range(name, &object, (from, count), offset);
                    damaged.push((offset, length.min(size - offset)));
                }
                answer => {
                    assert!(is_same(&answer, &expected, &read), "{}: {answer:?}", self.shown);
                }
            }
        }
        assert!(!damaged.is_empty(), "{}: damaged as a whole, sound in parts", self.shown);
        damaged
    }

    fn check_range(&self, asked: &HObject, reported: &HObject, range: (u64, u64), offset: u64) {
        let (from, count) = range;
        assert_eq!(asked, reported, "{}: damage of another object", self.shown);
        let meets = from < offset + BLOCK as u64 && offset < from + count;
        assert!(meets, "{}: damage at {from}+{count}, asked at {offset}", self.shown);
    }
}

fn is_fault(answer: &Result<Outcome, StoreError>) -> bool {
    matches!(answer, Err(StoreError::Corrupt { .. } | StoreError::Device(_)))
}
