//! Fault-injecting simulated devices: torn, lost, reordered, misdirected and corrupted writes.
//!
//! A [`FaultyDisk`] is one store's main device and, if there is one, its fast device:
//! * Operations take a while and overtake each other. A read shows each block as it was at some time
//!   between its submission and its completion.
//! * A write that completed is *volatile* until a flush that was submitted afterwards completes,
//!   unless it was asked to be durable or the device has no cache. In a crash each volatile block,
//!   and each block of the writes in flight, survives or not, independently of all others.
//! * On demand or by chance: blocks that are unreadable until rewritten, writes that fail
//!   half-done, flushes that fail and lose data, flipped bits, misdirected writes, dead devices.
//!
//! Misuse by the store fails an assertion: unaligned memory, addresses outside of the device, and
//! writes that overlap a write in flight (their order would be undefined).
//!
//! A run is a function of the seed and the calls. Only written blocks take memory, and clones share
//! them, so that a test may fork a disk at every operation.
//!
//! The host calls [`FaultyDisk::advance`] when [`FaultyDisk::next_event`] is due, then drains
//! [`FaultyDisk::poll`]. A [`Driver`] is such a host, for one store in virtual time.

mod blocks;
mod driver;
mod medium;
mod options;

pub use driver::{Driver, Hosted};
pub use options::{Counters, CrashPolicy, DiskOptions, Faults, ReadFault, Unwritten, View};

use crate::device::{BLOCK, Device, Io, IoDone, IoError, IoId};
use bytes::Bytes;
use engine::{Duration, Time};
use medium::Medium;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use stdx::{AlignedBuffer, Prng};
use thiserror::Error;

const MILLION: u64 = 1_000_000;

#[derive(Debug, Clone)]
struct Pending {
    io: Io,
    note: Note,
    fails: bool,
}

/// Outcome of an operation that was decided when it was submitted.
#[derive(Debug, Clone)]
enum Note {
    None,
    /// The read returns the content at its submission.
    Sampled(Bytes),
    /// The flush makes writes durable up to this completion.
    Covers(u64),
}

/// One or two simulated devices with their operations in flight, deterministic by seed. A clone
/// continues independently, with the same random numbers unless it is reseeded.
#[derive(Debug, Clone)]
pub struct FaultyDisk {
    prng: Prng,
    options: DiskOptions,
    main: Medium,
    fast: Option<Medium>,
    /// By due time, then by the number of the operation.
    pending: BTreeMap<(Time, u64), Pending>,
    ids: BTreeSet<IoId>,
    operations: u64,
    /// Numbers of the operations that will fail.
    failing: BTreeSet<u64>,
    reads: u64,
    /// Numbers of the reads that will fail, counted among reads only, and how they fail.
    failing_reads: BTreeMap<u64, ReadFault>,
    done: VecDeque<IoDone>,
}

impl FaultyDisk {
    /// Devices without content. `seed` determines latencies, faults, torn writes and unwritten
    /// bytes.
    pub fn new(seed: u64, options: DiskOptions) -> Self {
        let mut prng = Prng::new(seed);
        let mut medium = |blocks, cache| {
            let garbage = (options.unwritten == Unwritten::Garbage).then(|| prng.next_u64());
            Medium::new(blocks, cache, garbage)
        };
        FaultyDisk {
            main: medium(options.main_blocks, options.main_cache),
            fast: (options.fast_blocks > 0)
                .then(|| medium(options.fast_blocks, options.fast_cache)),
            prng,
            options,
            pending: BTreeMap::new(),
            ids: BTreeSet::new(),
            operations: 0,
            failing: BTreeSet::new(),
            reads: 0,
            failing_reads: BTreeMap::new(),
            done: VecDeque::new(),
        }
    }

    /// Replaces the random generator, so that clones diverge.
    pub fn reseed(&mut self, seed: u64) {
        self.prng = Prng::new(seed);
    }

    /// Submits an operation, which completes after its latency. Panics on misuse (see above).
    pub fn submit(&mut self, now: Time, io: Io) {
        let (id, device) = name(&io);
        assert!(self.ids.insert(id), "{:?} is in flight already", name(&io));
        self.operations += 1;
        let mut note = self.begin(&io);
        let fails = self.failing.remove(&self.operations) || self.draw_fault(&io);
        let mut fails = fails || self.medium(device).dead;
        if let Io::Read { block, blocks, .. } = io {
            self.reads += 1;
            match self.failing_reads.remove(&self.reads) {
                Some(ReadFault::Error) => fails = true,
                Some(ReadFault::Flip) => {
                    let mut bytes = self.read(device, block, blocks).to_vec();
                    let at = self.prng.below(bytes.len() as u64) as usize;
                    bytes[at] ^= 1 << self.prng.below(8);
                    note = Note::Sampled(AlignedBuffer::gathered([&bytes], bytes.len()).into());
                }
                None => {}
            }
        }
        let due = now + self.draw_delay(&io);
        self.pending.insert((due, self.operations), Pending { io, note, fails });
    }

    /// Time of the next completion; `now` if a completion waits to be polled.
    pub fn next_event(&self) -> Option<Time> {
        match self.done.is_empty() {
            true => self.pending.keys().next().map(|(due, _)| *due),
            false => Some(Time::ZERO),
        }
    }

    /// Performs the operations that are due, in order of their due times.
    pub fn advance(&mut self, now: Time) {
        while self.advance_one(now) {}
    }

    /// Performs the first operation that is due, if any.
    pub fn advance_one(&mut self, now: Time) -> bool {
        let Some(first) = self.pending.first_entry().filter(|first| first.key().0 <= now) else {
            return false;
        };
        let Pending { io, note, fails } = first.remove();
        let (id, device) = name(&io);
        let fails = fails || self.medium(device).dead;
        let result = self.finish(&io, note, fails);
        self.ids.remove(&id);
        self.done.push_back(IoDone { id, result });
        true
    }

    /// Next completion, in order of completion.
    pub fn poll(&mut self) -> Option<IoDone> {
        self.done.pop_front()
    }

    /// Number of operations submitted so far.
    pub fn operations(&self) -> u64 {
        self.operations
    }

    /// Number of operations that have not completed.
    pub fn in_flight(&self) -> usize {
        self.pending.len()
    }

    /// Performs the operations at once without delays and faults, and flushes. Used to format.
    pub fn perform(&mut self, operations: Vec<Io>) {
        for io in operations {
            self.operations += 1;
            let note = self.begin(&io);
            self.finish(&io, note, false).expect("faults are switched off");
        }
        for medium in self.media() {
            medium.flush(u64::MAX);
        }
    }

    // Crashes.

    /// A power failure and restart, with a random policy.
    pub fn crash(&mut self) -> CrashPolicy {
        // The first policy covers most cases.
        let policy = match self.prng.chance(1, 2) {
            true => CrashPolicy::ALL[0],
            false => *self.prng.choose(&CrashPolicy::ALL),
        };
        self.crash_with(policy);
        policy
    }

    /// A power failure and restart: operations in flight and completions not yet polled are lost,
    /// and the policy decides which volatile blocks survive.
    pub fn crash_with(&mut self, policy: CrashPolicy) {
        self.forget_operations();
        let writes: BTreeSet<u64> = self.media().flat_map(|medium| medium.unsettled()).collect();
        let writes: Vec<u64> = writes.into_iter().collect();
        let last = writes.last().copied();
        let one = (!writes.is_empty()).then(|| *self.prng.choose(&writes));
        let whole: BTreeSet<u64> = writes.into_iter().filter(|_| self.prng.chance(1, 2)).collect();
        let mut prng = self.prng.fork();
        // The share of surviving blocks varies from nearly none to nearly all.
        let chance = prng.range(1..8);
        for medium in self.media() {
            medium.crash(|write| match policy {
                CrashPolicy::KeepAll => true,
                CrashPolicy::KeepNone => false,
                CrashPolicy::Blocks => prng.chance(chance, 8),
                CrashPolicy::Writes => whole.contains(&write),
                CrashPolicy::OnlyOne => one == Some(write),
                CrashPolicy::OnlyLast => last == Some(write),
                CrashPolicy::AllButOne => one != Some(write),
            });
        }
    }

    /// The process dies but the machine does not: blocks of writes in flight are written or not,
    /// and volatile blocks stay volatile.
    pub fn restart(&mut self) {
        self.forget_operations();
        let mut prng = self.prng.fork();
        for medium in self.media() {
            medium.abandon(&mut prng);
        }
    }

    fn forget_operations(&mut self) {
        self.pending.clear();
        self.ids.clear();
        self.done.clear();
    }

    // Faults on demand.

    /// Sets the rates of faults by chance.
    pub fn set_faults(&mut self, faults: Faults) {
        self.options.faults = faults;
    }

    /// Fails the `number`th operation submitted from now on (1 is the next).
    pub fn fail_operation(&mut self, number: u64) {
        self.failing.insert(self.operations + number);
    }

    /// Fails the `number`th read submitted from now on (1 is the next), once.
    pub fn fail_read(&mut self, number: u64, fault: ReadFault) {
        self.failing_reads.insert(self.reads + number, fault);
    }

    /// Set while a read is still to fail.
    pub fn will_fail_read(&self) -> bool {
        !self.failing_reads.is_empty()
    }

    /// Number of reads submitted so far.
    pub fn reads(&self) -> u64 {
        self.reads
    }

    /// Every further operation on the device fails.
    pub fn kill(&mut self, device: Device) {
        self.medium(device).dead = true;
    }

    /// Set if operations may fail by chance.
    pub fn is_faulty(&self) -> bool {
        let is_dead = [Device::Main, Device::Fast]
            .map(|device| self.has_device(device) && self.medium_of(device).dead);
        is_dead.contains(&true) || self.options.faults != Faults::default()
    }

    /// Revives dead devices and stops injecting faults; damaged blocks stay damaged.
    pub fn heal(&mut self) {
        self.options.faults = Faults::default();
        self.failing.clear();
        self.failing_reads.clear();
        for medium in self.media() {
            medium.dead = false;
        }
    }

    /// Makes the block unreadable until it is written.
    pub fn make_unreadable(&mut self, device: Device, block: u64) {
        self.medium(device).unreadable.insert(block);
    }

    /// Flips a bit of the block, in its durable and its volatile versions.
    pub fn corrupt(&mut self, device: Device, block: u64, bit: usize) {
        assert!(bit < BLOCK * 8, "bit {bit} is not in a block");
        self.medium(device).change(block, |content| content[bit / 8] ^= 1 << (bit % 8));
    }

    /// Replaces the content of the block, as a misdirected write would.
    pub fn overwrite(&mut self, device: Device, block: u64, content: &[u8]) {
        assert_eq!(content.len(), BLOCK, "a block is written as a whole");
        self.medium(device).change(block, |old| old.copy_from_slice(content));
    }

    // Inspection.

    /// Bytes that a restart would read.
    pub fn read_now(&self, device: Device, block: u64, blocks: u32, view: View) -> Bytes {
        self.medium_of(device).read_now(block, blocks, view)
    }

    /// Set if a read of these blocks fails.
    pub fn is_unreadable(&self, device: Device, block: u64, blocks: u32) -> bool {
        self.medium_of(device).is_unreadable(block, blocks)
    }

    /// The disk after a crash that loses everything volatile.
    pub fn durable_image(&self) -> FaultyDisk {
        let mut image = self.clone();
        image.crash_with(CrashPolicy::KeepNone);
        image
    }

    /// Equal for devices with the same content. A block that was never written counts with its
    /// initial content.
    pub fn content_hash(&self, device: Device, view: View) -> u64 {
        self.medium_of(device).content_hash(view)
    }

    /// Blocks that were ever written, ascending.
    pub fn written_blocks(&self, device: Device) -> Vec<u64> {
        self.medium_of(device).written_blocks()
    }

    /// Operations of a device since the disk was made. Panics without that device.
    pub fn counters(&self, device: Device) -> Counters {
        self.medium_of(device).counters
    }

    /// Set for the main device, and for the fast one if its size is not 0.
    pub fn has_device(&self, device: Device) -> bool {
        device == Device::Main || self.fast.is_some()
    }

    // Effects of operations.

    fn begin(&mut self, io: &Io) -> Note {
        let number = self.operations;
        match io {
            Io::Read { device, block, blocks, .. } => {
                self.medium(*device).begin_read(*block, *blocks);
                match self.prng.chance(1, 2) {
                    true => Note::None,
                    false => Note::Sampled(self.read(*device, *block, *blocks)),
                }
            }
            Io::Write { device, block, data, .. } => {
                let rate = self.options.faults.misdirected_writes_per_million;
                let misdirected = rate > 0 && self.prng.chance(rate, MILLION);
                let drift = if misdirected { self.prng.next_u64() } else { 0 };
                self.medium(*device).begin_write(number, *block, data, drift);
                Note::None
            }
            Io::Flush { device, .. } => Note::Covers(self.medium(*device).begin_flush()),
            Io::Discard { device, block, blocks, .. } => {
                let mut prng = self.prng.fork();
                self.medium(*device).begin_discard(number, *block, *blocks, &mut prng);
                Note::None
            }
        }
    }

    fn finish(&mut self, io: &Io, note: Note, fails: bool) -> Result<Bytes, IoError> {
        let mut prng = self.prng.fork();
        let failure = || refused(io);
        match (io, note) {
            (Io::Read { device, block, blocks, .. }, note) => {
                if fails || self.medium(*device).is_unreadable(*block, *blocks) {
                    return Err(failure());
                }
                return Ok(match note {
                    Note::Sampled(sample) => sample,
                    _ => self.read(*device, *block, *blocks),
                });
            }
            (Io::Write { device, block, .. } | Io::Discard { device, block, .. }, _) if fails => {
                self.medium(*device).fail_write(*block, &mut prng)
            }
            (Io::Write { device, block, durable, .. }, _) => {
                self.medium(*device).finish_write(*block, *durable)
            }
            (Io::Discard { device, block, .. }, _) => {
                self.medium(*device).finish_write(*block, false)
            }
            (Io::Flush { device, .. }, Note::Covers(mark)) => match fails {
                true => self.medium(*device).fail_flush(mark, &mut prng),
                false => self.medium(*device).flush(mark),
            },
            (Io::Flush { .. }, _) => unreachable!("flushes know what they cover"),
        }
        if fails { Err(failure()) } else { Ok(Bytes::new()) }
    }

    fn read(&mut self, device: Device, block: u64, blocks: u32) -> Bytes {
        let mut prng = self.prng.fork();
        self.medium(device).read(block, blocks, &mut prng)
    }

    fn draw_fault(&mut self, io: &Io) -> bool {
        let faults = &self.options.faults;
        let rate = match io {
            Io::Read { .. } => faults.read_errors_per_million,
            Io::Write { .. } | Io::Discard { .. } => faults.write_errors_per_million,
            Io::Flush { .. } => faults.flush_errors_per_million,
        };
        rate > 0 && self.prng.chance(rate, MILLION)
    }

    fn draw_delay(&mut self, io: &Io) -> Duration {
        let range = match io {
            Io::Read { .. } => &self.options.read_delay,
            Io::Write { .. } | Io::Discard { .. } => &self.options.write_delay,
            Io::Flush { .. } => &self.options.flush_delay,
        };
        let (low, high) = (range.start().as_nanos() as u64, range.end().as_nanos() as u64);
        Duration::from_nanos(low + self.prng.below(high.saturating_sub(low) + 1))
    }

    fn media(&mut self) -> impl Iterator<Item = &mut Medium> {
        std::iter::once(&mut self.main).chain(self.fast.as_mut())
    }

    fn medium(&mut self, device: Device) -> &mut Medium {
        match device {
            Device::Main => &mut self.main,
            Device::Fast => self.fast.as_mut().expect("there is no fast device"),
        }
    }

    fn medium_of(&self, device: Device) -> &Medium {
        match device {
            Device::Main => &self.main,
            Device::Fast => self.fast.as_ref().expect("there is no fast device"),
        }
    }
}

fn name(io: &Io) -> (IoId, Device) {
    match *io {
        Io::Read { id, device, .. }
        | Io::Write { id, device, .. }
        | Io::Flush { id, device }
        | Io::Discard { id, device, .. } => (id, device),
    }
}

/// A fault that was drawn for an operation.
#[derive(Debug, Error)]
enum DrawnFault {
    #[error("read of {blocks} at {block} of {device:?} failed")]
    Read { device: Device, block: u64, blocks: u32 },
    #[error("write of {blocks} at {block} of {device:?} failed")]
    Write { device: Device, block: u64, blocks: usize },
    #[error("flush of {device:?} failed")]
    Flush { device: Device },
    #[error("discard of {blocks} at {block} of {device:?} failed")]
    Discard { device: Device, block: u64, blocks: u64 },
}

fn refused(io: &Io) -> IoError {
    let fault = match *io {
        Io::Read { device, block, blocks, .. } => DrawnFault::Read { device, block, blocks },
        Io::Write { device, block, ref data, .. } => {
            let blocks = data.iter().map(Bytes::len).sum::<usize>() / BLOCK;
            DrawnFault::Write { device, block, blocks }
        }
        Io::Flush { device, .. } => DrawnFault::Flush { device },
        Io::Discard { device, block, blocks, .. } => DrawnFault::Discard { device, block, blocks },
    };
    IoError::new(fault)
}

#[cfg(test)]
mod tests;
