//! Opening a store from its devices.
//!
//! ```text
//! superblocks ─ bitmap of pages ─ bitmap of the space ─ replay ─ large data of the tail
//!   ─ removed collections ─ flush ─ superblock of this mount
//! ```
//!
//! Nothing is written before everything is read and found valid, unless memory does not suffice for
//! the contents of the log (see `windows`).

use super::deferred::DeferredWrites;
use super::failure::{MetadataFault, StoreFailure, metadata};
use super::found::{Found, new_page_space};
use super::io::{IoQueue, READ_ATTEMPTS_MAX};
use super::meta::Meta;
use super::mounted::Mounted;
use super::tail::Tail;
use super::windows::Window;
use crate::checksum::crc32c;
use crate::device::{BLOCK, Device, Io, IoDone, IoError};
use crate::keys;
use crate::log::{Batch, LargeWrite, LogPoint, Replay, Replayed};
use crate::options::{Budget, Options};
use crate::space::Space;
use crate::superblock::{self, FastLabel};
use crate::tree::{Fault, PageFlaw, PageRead, PageSpace, Tree};
use bytes::{Bytes, BytesMut};
use codec::decode_all;
use std::ops::Bound;

/// Pairs of the space bitmap that are read in one step.
const CHUNKS_PER_STEP: usize = 256;

#[derive(Debug)]
enum Use {
    Copy(usize),
    Label,
    PageBitmap(usize),
    Page {
        read: PageRead,
        /// Attempts that did not return the page.
        failures: u32,
    },
    Log {
        block: u64,
    },
    /// Data of large writes that decides where the log ends: index of the run in [`Tail`].
    Large(usize),
    Flush,
    Superblock,
}

enum Step {
    Copies(Vec<Option<Bytes>>),
    Label,
    PageBitmap(Vec<Option<Bytes>>),
    Space { from: Bytes },
    Replay(Box<Replay>),
    Window(Window),
    Tail(Tail),
    Garbage { from: Bytes },
    Flushing,
    Recording,
}

/// Result of opening.
pub(crate) enum Opened {
    Store(Box<Mounted>),
    /// Memory did not suffice for the whole log. After a checkpoint of this prefix the store must
    /// be opened again.
    Window(Box<Mounted>),
}

pub(crate) struct Opening {
    options: Options,
    io: IoQueue<Use>,
    step: Step,
    /// Operations of this step in flight.
    left: usize,
    found: Option<Box<Found>>,
    failure: Option<StoreFailure>,
    /// Set if repairs follow, which may mark blocks as used.
    is_for_repair: bool,
}

impl Opening {
    /// Ids of operations begin at `next_io`.
    pub fn new(options: Options, next_io: u64, is_for_repair: bool) -> Self {
        let main_blocks = options.main_blocks;
        let is_too_small = main_blocks < superblock::MAIN_BLOCKS_MIN;
        let failure = is_too_small.then_some(StoreFailure::TooSmall { found: main_blocks });
        let slots = superblock::all_slots(main_blocks.max(superblock::MAIN_BLOCKS_MIN));
        let mut io = IoQueue::new(next_io);
        for (index, slot) in slots.into_iter().enumerate().filter(|_| !is_too_small) {
            io.read(Use::Copy(index), Device::Main, slot, 1);
        }
        let step = Step::Copies(vec![None; slots.len()]);
        Opening { options, io, step, left: slots.len(), found: None, failure, is_for_repair }
    }

    /// Next operation to submit.
    pub fn poll_io(&mut self) -> Option<Io> {
        self.io.poll()
    }

    /// Set once opening has failed; nothing follows then.
    pub fn failure(&self) -> Option<&StoreFailure> {
        self.failure.as_ref()
    }

    /// Bytes of changed metadata and of deferred writes that were replayed.
    pub fn buffered(&self) -> (usize, usize) {
        let sizes = |found: &Found| (found.meta.active_bytes(), found.deferred.len() * BLOCK);
        self.found.as_deref().map_or((0, 0), sizes)
    }

    /// Handles a completion; returns the store once it is open.
    pub fn handle_io(&mut self, done: IoDone) -> Option<Opened> {
        let what = self.io.finish(&done)?;
        if self.failure.is_some() {
            return None;
        }
        match self.advance(what, done.result) {
            Ok(opened) => opened,
            Err(failure) => {
                self.failure = Some(failure);
                None
            }
        }
    }

    fn found(&mut self) -> &mut Found {
        self.found.as_mut().expect("made from the superblock")
    }

    fn advance(
        &mut self,
        what: Use,
        result: Result<Bytes, IoError>,
    ) -> Result<Option<Opened>, StoreFailure> {
        self.left -= 1;
        match (&mut self.step, what) {
            (Step::Copies(copies), Use::Copy(index)) => copies[index] = result.ok(),
            (Step::Label, Use::Label) => {
                self.check_label(&result.map_err(StoreFailure::Device)?)?
            }
            (Step::PageBitmap(parts), Use::PageBitmap(index)) => {
                parts[index] = Some(result.map_err(StoreFailure::Device)?);
            }
            (_, Use::Page { read, failures }) => self.page_read(read, failures, result),
            (Step::Replay(replay), Use::Log { block }) => supply(replay, block, result.ok()),
            (Step::Window(window), Use::Log { block }) => {
                supply(window.replay(), block, result.ok());
            }
            (Step::Tail(tail), Use::Large(run)) => {
                let next = tail.supply(run, result.ok());
                self.read_tail(next);
            }
            (_, Use::Flush | Use::Superblock) => {
                result.map_err(StoreFailure::Device)?;
            }
            // A read of the log that is not needed any more.
            (_, Use::Log { .. }) => {}
            (_, what) => unreachable!("{what:?} does not belong to this step"),
        }
        self.proceed()
    }

    fn proceed(&mut self) -> Result<Option<Opened>, StoreFailure> {
        // Replay continues with each completed read; other steps wait for all of them.
        if self.left > 0 && !matches!(self.step, Step::Replay(_) | Step::Window(_)) {
            return Ok(None);
        }
        match &self.step {
            Step::Copies(_) => self.choose_superblock()?,
            Step::Label => self.read_page_bitmap()?,
            Step::PageBitmap(_) => self.load_pages()?,
            Step::Space { .. } => self.load_space()?,
            Step::Replay(_) => self.replay()?,
            Step::Window(_) => return self.read_claims(),
            Step::Tail(_) => self.end_tail()?,
            Step::Garbage { .. } => self.find_garbage()?,
            Step::Flushing => self.record(),
            Step::Recording => return Ok(Some(Opened::Store(Box::new(self.finish())))),
        }
        // A step without reads ends at once.
        if self.left == 0 { self.proceed() } else { Ok(None) }
    }

    fn choose_superblock(&mut self) -> Result<(), StoreFailure> {
        let Step::Copies(copies) = &self.step else { unreachable!("called in this step") };
        let copies: Vec<Option<&[u8]>> = copies.iter().map(|copy| copy.as_deref()).collect();
        let superblock = superblock::choose(&copies)?;
        for (slot, fault) in superblock::bad_copies(&copies, &superblock, self.options.main_blocks)
        {
            tracing::warn!(
                block = slot,
                %fault,
                "a copy of the superblock is bad, the others suffice; `sepiola store fsck --repair DIR` \
                 writes it again, and so does one of the next checkpoints"
            );
        }
        superblock.check_owner(self.options.owner.as_ref())?;
        superblock.check_writable()?;
        let (main, fast) = (self.options.main_blocks, self.options.fast_blocks);
        superblock.geometry.check(main, fast).map_err(|error| StoreFailure::Geometry {
            made: superblock.geometry.main_blocks,
            found: main,
            why: error,
        })?;
        let space = Space::new(superblock.geometry.space);
        let budget = Budget::new(self.options.memory, space.map().memory() as u64);
        let root = match superblock.tree_root.is_empty() {
            true => None,
            false => Some(decode_all("tree root", &superblock.tree_root).map_err(metadata)?),
        };
        let found = Found {
            meta: Meta::new(Tree::new(root, budget.cache_pages), superblock.counters.next_id),
            pages: PageSpace::default(),
            space,
            deferred: DeferredWrites::default(),
            counters: superblock.counters,
            end: superblock.log,
            garbage: Vec::new(),
            superblock,
        };
        self.found = Some(Box::new(found));
        self.step = Step::Label;
        if fast > 0 {
            self.left += 1;
            self.io.read(Use::Label, Device::Fast, 0, 1);
        }
        Ok(())
    }

    fn check_label(&mut self, block: &[u8]) -> Result<(), StoreFailure> {
        let store = self.found().superblock.store;
        FastLabel::decode(block, store)?;
        Ok(())
    }

    fn read_page_bitmap(&mut self) -> Result<(), StoreFailure> {
        let metadata = self.found().superblock.metadata.clone();
        for (index, extent) in metadata.bitmap.extents.iter().enumerate() {
            self.left += 1;
            let what = Use::PageBitmap(index);
            self.io.read(what, metadata.device, extent.start, extent.count as u32);
        }
        self.step = Step::PageBitmap(vec![None; metadata.bitmap.extents.len()]);
        Ok(())
    }

    fn load_pages(&mut self) -> Result<(), StoreFailure> {
        let Step::PageBitmap(parts) = &self.step else { unreachable!("called in this step") };
        let mut bytes = BytesMut::new();
        parts.iter().flatten().for_each(|part| bytes.extend_from_slice(part));
        let metadata = self.found().superblock.metadata.clone();
        bytes.truncate(metadata.bitmap.bytes as usize);
        if !bytes.is_empty() && crc32c(&bytes) != metadata.bitmap.crc {
            return Err(StoreFailure::Metadata(MetadataFault::PageBitmap));
        }
        self.found().pages = match bytes.is_empty() {
            true => new_page_space(&metadata.runs),
            false => PageSpace::decode(&bytes).map_err(self::metadata)?,
        };
        self.step = Step::Space { from: keys::bitmap_range().start };
        Ok(())
    }

    /// Runs an operation on the tree, or reads the pages that it lacks.
    fn with_tree<T>(
        &mut self,
        act: impl FnOnce(&mut Found) -> Result<T, Fault>,
    ) -> Result<Option<T>, StoreFailure> {
        match act(self.found()) {
            Ok(value) => Ok(Some(value)),
            Err(Fault::Missing(pages)) => {
                let device = self.found().superblock.metadata.device;
                for read in pages.into_iter().filter(|read| !read.is_in_flight) {
                    self.left += 1;
                    let what = Use::Page { read, failures: 0 };
                    self.io.read(what, device, read.page, read.pages);
                }
                Ok(None)
            }
            Err(fault) => Err(metadata(fault)),
        }
    }

    /// Repeats the read of a page that is not as expected; in the end, damage fails the operation
    /// that needs the page.
    fn page_read(&mut self, read: PageRead, failures: u32, result: Result<Bytes, IoError>) {
        let found = self.found();
        let flaw = match result {
            Ok(bytes) => found.meta.supply(read.page, bytes).err(),
            Err(error) => Some(PageFlaw::Unreadable(error.into())),
        };
        let failures = failures + 1;
        match flaw {
            None => {}
            Some(PageFlaw::Checksum { .. }) if failures < READ_ATTEMPTS_MAX => {
                let device = found.superblock.metadata.device;
                self.left += 1;
                self.io.read(Use::Page { read, failures }, device, read.page, read.pages);
            }
            Some(flaw) => found.meta.supply_failed(read.page, flaw),
        }
    }

    fn load_space(&mut self) -> Result<(), StoreFailure> {
        let Step::Space { from } = &self.step else { unreachable!("called in this step") };
        let (from, end) = (from.clone(), keys::bitmap_range().end);
        let page = self.with_tree(|found| {
            found.meta.scan(None, Bound::Included(&from), &end, CHUNKS_PER_STEP, usize::MAX)
        })?;
        let Some(page) = page else { return Ok(()) };
        for (key, value) in &page.pairs {
            let chunk = keys::read_bitmap(key).map_err(metadata)?;
            self.found().space.load_chunk(chunk, value).map_err(metadata)?;
        }
        match page.pairs.last() {
            Some((last, _)) if page.more => {
                let next = keys::read_bitmap(last).map_err(metadata)? + 1;
                self.step = Step::Space { from: keys::bitmap(next) };
            }
            _ => self.begin_replay(),
        }
        Ok(())
    }

    fn begin_replay(&mut self) {
        let superblock = &self.found().superblock;
        let replay = Replay::new(
            superblock.geometry.log,
            superblock.store,
            superblock.log,
            superblock.resumed,
            superblock.generation,
        );
        self.step = Step::Replay(Box::new(replay));
    }

    fn replay(&mut self) -> Result<(), StoreFailure> {
        let device = self.found().superblock.geometry.log_device;
        let mut unsure = Vec::new();
        while let Some(replayed) = self.replaying().poll() {
            match replayed {
                Replayed::Batch(batch) if batch.durable => {
                    let found = self.found.as_mut().expect("made from the superblock");
                    found.replay(&batch)?;
                    if Window::is_needed(found, self.options.memory) {
                        self.begin_window(batch.end);
                        return Ok(());
                    }
                }
                Replayed::Batch(batch) => unsure.push(batch),
                Replayed::End { point, generation, stop } => {
                    tracing::debug!(?point, %stop, "the log ends");
                    return self.begin_tail(unsure, point, generation);
                }
                Replayed::Unreadable { block } => return Err(StoreFailure::unreadable(block)),
                Replayed::Damaged { block, damage } => {
                    return Err(StoreFailure::damaged(block, damage));
                }
            }
        }
        while let Some((block, blocks)) = self.replaying().next_read() {
            self.left += 1;
            self.io.read(Use::Log { block }, device, block, blocks as u32);
        }
        Ok(())
    }

    fn begin_window(&mut self, point: LogPoint) {
        let Step::Replay(replay) = std::mem::replace(&mut self.step, Step::Flushing) else {
            unreachable!("called in this step")
        };
        self.step = Step::Window(Window::new(replay, point));
    }

    /// Reads the rest of the log; returns the store once no read is in flight.
    fn read_claims(&mut self) -> Result<Option<Opened>, StoreFailure> {
        let Step::Window(window) = &mut self.step else { unreachable!("called in this step") };
        let found = self.found.as_ref().expect("made from the superblock");
        window.claim(found)?;
        let device = found.superblock.geometry.log_device;
        while let Some((block, blocks)) = window.replay().next_read() {
            self.left += 1;
            self.io.read(Use::Log { block }, device, block, blocks as u32);
        }
        if !window.is_complete() || self.left > 0 {
            return Ok(None);
        }
        let found = *self.found.take().expect("looked at above");
        let mounted = window.mount(found, &self.options, self.io.next());
        Ok(Some(Opened::Window(Box::new(mounted))))
    }

    fn replaying(&mut self) -> &mut Replay {
        let Step::Replay(replay) = &mut self.step else { unreachable!("called in this step") };
        replay
    }

    fn begin_tail(
        &mut self,
        batches: Vec<Batch>,
        end: LogPoint,
        generation: u64,
    ) -> Result<(), StoreFailure> {
        let tail = Tail::new(batches, end, generation);
        let all = 0..tail.runs.len();
        self.step = Step::Tail(tail);
        self.read_tail(all);
        Ok(())
    }

    fn read_tail(&mut self, runs: std::ops::Range<usize>) {
        let Step::Tail(tail) = &self.step else { unreachable!("called in this step") };
        for index in runs {
            let LargeWrite { start, crcs } = &tail.runs[index].write;
            self.left += 1;
            self.io.read(Use::Large(index), Device::Main, *start, crcs.len() as u32);
        }
    }

    fn end_tail(&mut self) -> Result<(), StoreFailure> {
        let garbage = Step::Garbage { from: keys::garbage_range().start };
        let Step::Tail(tail) = std::mem::replace(&mut self.step, garbage) else {
            unreachable!("called in this step")
        };
        let valid = tail.valid()?;
        let is_for_repair = self.is_for_repair;
        let found = self.found();
        found.superblock.generation = tail.generation;
        found.end = tail.batches.get(valid).map_or(tail.end, |batch| batch.start);
        tail.batches[..valid].iter().try_for_each(|batch| found.replay(batch))?;
        // A record of the log may be a repair of the bitmap, so the check comes after all of them.
        if is_for_repair { Ok(()) } else { found.check_pages() }
    }

    fn find_garbage(&mut self) -> Result<(), StoreFailure> {
        let Step::Garbage { from } = &self.step else { unreachable!("called in this step") };
        let (from, end) = (from.clone(), keys::garbage_range().end);
        let page = self.with_tree(|found| {
            found.meta.scan(None, Bound::Included(&from), &end, usize::MAX, usize::MAX)
        })?;
        let Some(page) = page else { return Ok(()) };
        for (key, _) in &page.pairs {
            let slice = keys::read_garbage(key).map_err(metadata)?;
            self.found().garbage.push(slice);
        }
        self.flush();
        Ok(())
    }

    /// Replayed batches must be durable before this mount appends behind them.
    fn flush(&mut self) {
        self.step = Step::Flushing;
        for (device, blocks, is_needed) in [
            (Device::Main, self.options.main_blocks, self.options.flush_main),
            (Device::Fast, self.options.fast_blocks, self.options.flush_fast),
        ] {
            if blocks > 0 && is_needed {
                self.left += 1;
                self.io.flush(Use::Flush, device);
            }
        }
    }

    fn record(&mut self) {
        let main_blocks = self.options.main_blocks;
        let found = self.found();
        found.superblock.sequence += 1;
        found.superblock.generation += 1;
        found.superblock.resumed = found.end;
        let (block, sequence) = (found.superblock.encode(), found.superblock.sequence);
        self.step = Step::Recording;
        for slot in superblock::slots(main_blocks, sequence) {
            self.left += 1;
            let durable = self.options.flush_main;
            self.io.write(Use::Superblock, Device::Main, slot, vec![block.clone()], durable);
        }
    }

    fn finish(&mut self) -> Mounted {
        let found = *self.found.take().expect("made from the superblock");
        found.mount(&self.options, self.io.next())
    }
}

/// Passes on the result of a read of the log.
fn supply(replay: &mut Replay, block: u64, bytes: Option<Bytes>) {
    match bytes {
        Some(bytes) => replay.supply(block, bytes),
        None => replay.supply_failed(block),
    }
}
