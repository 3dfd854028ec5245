//! A block store over simulated devices, as the disk of a simulated OSD.

use super::disk::Disk;
use crate::stores::BlockShape;
use block::device::{BLOCK, Device, Io, IoId};
use block::disk::{Driver, Faults, FaultyDisk, ReadFault, View};
use block::superblock::all_slots;
use block::{BlockStore, StoreFailure};
use bytes::Bytes;
use engine::{Storage, Time};
use std::collections::VecDeque;
use stdx::{AlignedBuffer, Prng};
use store::{Completion, ObjectStore, Request};

/// One in so many crashes takes the process only: devices keep their caches.
const RESTART_ONE_IN: u64 = 4;
/// One in so many blocks with data is corrupted.
const ROT_ONE_IN: u64 = 3;
/// One in so many of these cannot be read until it is written again; the others return a wrong bit.
const UNREADABLE_ONE_IN: u64 = 4;
/// The store's invariants are checked after one in so many turns.
const CHECK_ONE_IN: u64 = 200;
const OWNER: &[u8] = b"simulated";
const DEVICES: [Device; 2] = [Device::Main, Device::Fast];

/// A block with content: device (0 main, 1 fast), number, and content without the zeros at its end.
pub type DeviceBlock = (u8, u64, Bytes);

/// A block store with its devices.
pub struct BlockDisk {
    shape: BlockShape,
    prng: Prng,
    disk: FaultyDisk,
    store: BlockStore,
    /// Set if a transaction was committed in this turn.
    has_commits: bool,
    completions: VecDeque<Completion>,
    /// Set once faults of the devices may make the store shut down.
    is_faulty: bool,
    /// Set while a read may fail once.
    fails_read: bool,
}

impl BlockDisk {
    /// Creates an empty store.
    pub fn new(seed: u64, shape: BlockShape) -> Self {
        let mut prng = Prng::new(seed);
        let mut disk = FaultyDisk::new(prng.next_u64(), shape.disk.clone());
        let mut id = [0; 16];
        prng.fill(&mut id);
        let writes = block::format(&shape.store, id, OWNER, shape.log_blocks);
        disk.perform(writes.expect("the devices are large enough"));
        let store = BlockStore::open(shape.store.clone());
        let completions = VecDeque::new();
        let (has_commits, is_faulty, fails_read) = (false, false, false);
        BlockDisk { shape, prng, disk, store, has_commits, completions, is_faulty, fails_read }
    }

    /// The reason of a shutdown that no device fault explains.
    pub fn failure(&self) -> Option<&StoreFailure> {
        self.store.failure().filter(|_| !self.is_faulty)
    }

    /// True if all requests and all background work of the store are done.
    pub fn is_idle(&self) -> bool {
        self.store.is_idle()
    }

    /// Panics if the state of the store contradicts itself.
    pub fn check_invariants(&self) {
        self.store.check_invariants();
    }

    /// Flips a bit in some blocks that hold data, and makes others unreadable. Log and metadata lie on
    /// the fast device. A checkpoint comes first, since damage at the end of the log cannot be
    /// distinguished from a torn write.
    pub fn rot(&mut self, now: Time) {
        assert!(self.disk.has_device(Device::Fast), "data lies among everything else");
        let mut driver = Driver::new(self.open(), self.disk.clone(), now);
        driver.run_until_ready();
        driver.with_store(BlockStore::request_checkpoint);
        driver.run_until_idle();
        assert!(driver.store().is_idle(), "a checkpoint comes to an end");
        self.disk = driver.into_disk();
        self.store = self.open();
        let superblocks = all_slots(self.shape.store.main_blocks);
        for block in self.disk.written_blocks(Device::Main) {
            if !superblocks.contains(&block) && self.prng.chance(1, ROT_ONE_IN) {
                let bit = self.prng.below(8 * BLOCK as u64) as usize;
                match self.prng.chance(1, UNREADABLE_ONE_IN) {
                    true => self.disk.make_unreadable(Device::Main, block),
                    false => self.disk.corrupt(Device::Main, block, bit),
                }
            }
        }
    }

    /// The device with log and metadata, or the one with data, fails all requests.
    pub fn kill(&mut self) {
        self.is_faulty = true;
        let devices =
            [Device::Main, Device::Fast].map(|device| (device, self.disk.has_device(device)));
        let present: Vec<Device> =
            devices.into_iter().filter(|(_, has)| *has).map(|(device, _)| device).collect();
        self.disk.kill(*self.prng.choose(&present));
    }

    /// Makes so many of a million reads fail.
    pub fn misread(&mut self, per_million: u64) {
        self.is_faulty = true;
        let faults = Faults { read_errors_per_million: per_million, ..Faults::default() };
        self.disk.set_faults(faults);
    }

    /// Makes one read fail, after `after` others. Only a store that is being opened may shut down because
    /// of it.
    pub fn fail_read(&mut self, after: u64) {
        self.is_faulty |= !self.store.is_open();
        self.fails_read = true;
        self.disk.fail_read(after + 1, ReadFault::Error);
    }

    /// Cancels the read failure.
    pub fn heal_reads(&mut self) {
        self.fails_read = false;
        self.is_faulty &= !self.store.is_open() || self.disk.is_faulty();
        self.disk.heal();
    }

    /// Repairs the devices while their OSD is not up; the store is opened anew.
    pub fn heal(&mut self) {
        self.disk.heal();
        self.is_faulty = false;
    }

    /// A second store over copies of the devices as a power loss now would leave them.
    pub fn recovered(&self, now: Time) -> Driver<BlockStore> {
        let store = self.open();
        let mut driver = Driver::new(store, self.disk.durable_image(), now);
        driver.run_until_ready();
        driver
    }

    /// Blocks with content as a power loss now would leave them.
    pub fn durable_blocks(&self) -> Vec<DeviceBlock> {
        let image = self.disk.durable_image();
        let mut blocks = Vec::new();
        for (number, device) in
            DEVICES.into_iter().enumerate().filter(|(_, device)| image.has_device(*device))
        {
            for block in image.written_blocks(device) {
                let content = image.read_now(device, block, 1, View::Durable);
                let len = content.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
                if len > 0 {
                    blocks.push((number as u8, block, content.slice(..len)));
                }
            }
        }
        blocks
    }

    /// Replaces the content of all devices.
    pub fn replace_blocks(&mut self, blocks: &[DeviceBlock]) {
        self.disk = FaultyDisk::new(self.prng.next_u64(), self.shape.disk.clone());
        let write = |(device, block, content): &DeviceBlock| {
            let whole = AlignedBuffer::gathered([content], BLOCK);
            let (id, device) = (IoId(0), DEVICES[usize::from(*device)]);
            Io::Write { id, device, block: *block, data: vec![Bytes::from(whole)], durable: true }
        };
        self.disk.perform(blocks.iter().map(write).collect());
        self.store = self.open();
    }

    fn open(&self) -> BlockStore {
        BlockStore::open(self.shape.store.clone())
    }

    /// Submits the store's I/O to the devices, and collects its completions.
    fn pump(&mut self, now: Time) {
        while let Some(io) = self.store.poll_io() {
            self.disk.submit(now, io);
        }
        while let Some(completion) = self.store.poll_completion() {
            self.completions.push_back(completion);
        }
    }
}

impl Storage for BlockDisk {
    type Request = Request;
    type Completion = Completion;

    fn submit(&mut self, now: Time, request: Request) {
        self.has_commits |= request.kind.is_commit();
        self.store.submit(now, request);
    }

    fn poll_completion(&mut self) -> Option<Completion> {
        self.completions.pop_front()
    }

    fn poll_timeout(&self) -> Option<Time> {
        match self.completions.is_empty() {
            true => self.disk.next_event().into_iter().chain(self.store.poll_timeout()).min(),
            false => Some(Time::ZERO),
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        self.disk.advance(now);
        while let Some(done) = self.disk.poll() {
            self.store.handle_io(now, done);
        }
        if self.store.poll_timeout().is_some_and(|due| due <= now) {
            self.store.handle_timeout(now);
        }
        self.pump(now);
    }

    /// Transactions submitted in one turn share a batch of the log.
    fn end_turn(&mut self, now: Time) {
        let one_in = self.shape.checkpoint_one_in;
        if std::mem::take(&mut self.has_commits) && one_in > 0 && self.prng.chance(1, one_in) {
            self.store.request_checkpoint();
        }
        self.pump(now);
        if self.prng.chance(1, CHECK_ONE_IN) {
            self.check_invariants();
        }
    }
}

impl Disk for BlockDisk {
    fn crash(&mut self) {
        if !self.is_faulty {
            self.check_invariants();
        }
        match self.prng.chance(1, RESTART_ONE_IN) {
            true => self.disk.restart(),
            false => drop(self.disk.crash()),
        }
        self.store = self.open();
        self.is_faulty &= self.disk.is_faulty();
        // The next opening may meet the failing read.
        self.is_faulty |= self.fails_read;
        self.completions.clear();
    }
}
