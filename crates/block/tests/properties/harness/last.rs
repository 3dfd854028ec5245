//! Damage in the data of the last batch of the log, which a replay must verify to find the end of
//! the log.

use super::Report;
use super::compare::{all_requests, brief, is_same, observe};
use super::generator::{collection, object, one};
use super::life::Life;
use super::shape::Shape;
use block::BlockStore;
use block::device::{BLOCK, Device, IoError};
use block::disk::{Driver, FaultyDisk, View};
use block::fsck::{CheckOptions, Image, ImageMut, check, repair};
use bytes::Bytes;
use engine::Time;
use stdx::Prng;
use store::mem::MemStore;
use store::{Change, StoreError, Transaction};
use types::HObject;

/// Number of an object that nothing else writes to.
const ALONE: u64 = 2000;
/// Small transactions on either side of the one whose data is damaged.
const BESIDE: u64 = 5;
const DATA_BLOCKS: usize = 16;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Harm {
    Unreadable,
    Flip,
}

pub fn damaged_last_batch(seed: u64) -> Report {
    let mut prng = Prng::new(seed);
    let harm = *prng.choose(&[Harm::Unreadable, Harm::Flip]);
    let is_marked = prng.chance(1, 2);
    last_run(seed, harm, is_marked)
}

/// Damages one block of a large write of the last batch. If the store was idle for a while before,
/// or was closed, all acknowledged transactions are there, but for the object with that block.
pub fn last_run(seed: u64, harm: Harm, is_marked: bool) -> Report {
    let mut prng = Prng::new(seed);
    let mut shape = Shape::draw(&mut prng);
    shape.store.deferred_blocks = shape.store.deferred_blocks.min(8);
    let mut life = Life::begin(&shape, seed);
    let mut generator = life.generator();
    life.load(&mut generator, 20, 4);
    assert!(life.commit(one(collection(ALONE), Change::CreateCollection)));
    // A batch of an ongoing cleanup would say that the last one is durable.
    while !life.driver.store().is_idle() {
        assert!(life.step(), "what the store does of its own accord comes to an end");
    }
    let before = life.history.state().clone();
    let mut data = vec![0; DATA_BLOCKS * BLOCK];
    prng.fill(&mut data);
    let blocks: Vec<Bytes> = data.chunks(BLOCK).map(Bytes::copy_from_slice).collect();
    let write = Change::Write { object: object(BESIDE), offset: 0, data: data.into() };
    let touch = |number| Change::Touch { object: object(number) };
    let changes = (0..BESIDE).map(touch).chain([write]).chain((BESIDE + 1..2 * BESIDE).map(touch));
    let mut all = Transaction::new();
    changes.for_each(|change| all.push(collection(ALONE), change));
    assert!(life.commit(all));
    let after = life.history.state().clone();
    match prng.chance(1, 2) {
        _ if !is_marked => {}
        true => life.quiesce(),
        false => life.close(),
    }
    let report = Report { faults: 1, ..life.report };
    let mut disk = life.driver.into_disk();
    disk.restart();
    damage(&mut disk, &blocks, harm, &mut prng);
    let mut copy = DamagedCopy { shape, victim: object(BESIDE), prng };
    match (is_marked, harm) {
        (true, _) => copy.expect_all_but_one(disk, &after),
        (false, Harm::Flip) => copy.expect(disk, &before),
        (false, Harm::Unreadable) => {
            let disk = copy.expect_refusal(disk);
            copy.expect_all_but_one(disk, &after);
        }
    }
    report
}

fn damage(disk: &mut FaultyDisk, blocks: &[Bytes], harm: Harm, prng: &mut Prng) {
    let wanted = prng.choose(blocks).clone();
    let holds = |block: &u64| disk.read_now(Device::Main, *block, 1, View::Durable) == wanted;
    let found = disk.written_blocks(Device::Main).into_iter().find(holds);
    let block = found.expect("what was acknowledged is durable");
    match harm {
        Harm::Unreadable => disk.make_unreadable(Device::Main, block),
        Harm::Flip => disk.corrupt(Device::Main, block, prng.below(8 * BLOCK as u64) as usize),
    }
}

struct DamagedCopy {
    shape: Shape,
    victim: HObject,
    prng: Prng,
}

impl DamagedCopy {
    fn open(&self, disk: FaultyDisk) -> Driver<BlockStore> {
        let mut driver = self.shape.start(disk, Time::ZERO);
        driver.run_until_ready();
        driver
    }

    fn expect(&mut self, disk: FaultyDisk, state: &MemStore) {
        let mut driver = self.open(disk);
        let observed = observe(&mut driver, &mut self.prng);
        assert_eq!(observed.difference(state), None);
    }

    /// Asserts that the error names the next step, and that a repair keeps the batch.
    fn expect_refusal(&self, disk: FaultyDisk) -> FaultyDisk {
        let driver = self.open(disk);
        let failure = driver.store().failure().expect("the last batch is in doubt");
        assert!(failure.to_string().contains("sepiola store fsck"), "{failure}");
        let mut disk = driver.into_disk();
        disk.restart();
        let mut image = Repaired { disk, shape: &self.shape };
        let report = check(&mut image, &CheckOptions::default());
        assert!(report.to_string().contains("log-unsure"), "\n{report}");
        repair(&report, &mut image).expect("it writes a superblock");
        let report = check(&mut image, &CheckOptions::default());
        assert!(report.is_clean(), "\n{report}");
        image.disk
    }

    /// Asserts that only reads of the data of one object fail.
    fn expect_all_but_one(&self, disk: FaultyDisk, state: &MemStore) {
        let mut driver = self.open(disk);
        assert_eq!(driver.store().failure(), None);
        let mut damaged = 0;
        let mut state = state.clone();
        for request in all_requests(&state) {
            let answer = driver.execute(request.clone());
            match &answer {
                Err(StoreError::Corrupt { object, .. }) if *object == self.victim => damaged += 1,
                _ => {
                    let expected = state.execute(request.clone());
                    let is_same = is_same(&answer, &expected, &request);
                    assert!(is_same, "{}: {}", brief(&request), brief(&answer));
                }
            }
        }
        assert!(damaged > 0, "the damaged block is read");
    }
}

struct Repaired<'a> {
    disk: FaultyDisk,
    shape: &'a Shape,
}

impl Image for Repaired<'_> {
    fn read(&mut self, device: Device, block: u64, blocks: u32) -> Result<Bytes, IoError> {
        match self.disk.is_unreadable(device, block, blocks) {
            true => Err(std::io::Error::other("medium error").into()),
            false => Ok(self.disk.read_now(device, block, blocks, View::Completed)),
        }
    }

    fn blocks(&self, device: Device) -> u64 {
        match device {
            Device::Main => self.shape.store.main_blocks,
            Device::Fast => self.shape.store.fast_blocks,
        }
    }
}

impl ImageMut for Repaired<'_> {
    fn write(&mut self, device: Device, block: u64, data: Bytes) -> Result<(), IoError> {
        let pieces = (block..).zip(data.chunks(BLOCK));
        pieces.for_each(|(block, piece)| self.disk.overwrite(device, block, piece));
        Ok(())
    }

    fn flush(&mut self, _: Device) -> Result<(), IoError> {
        Ok(())
    }
}
