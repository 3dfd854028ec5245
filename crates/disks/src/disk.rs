//! The object store of an OSD on the core of its daemon.

use crate::devices::{Owner, StoreDevices};
use crate::kind::{StoreKind, fast_path, kind_of, main_path};
use anyhow::{Context, Result, bail};
use block::BlockStore;
use block::device::{BLOCK, Device, Io, IoDone, IoError, IoId};
use engine::{Storage, Time};
use files::{FileStore, Options};
use host::{AnyCore, DiskStorage, StorageIo};
use machine::disks_below;
use rt::{DiskRequest, DiskResult, FileId};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use store::ObjectStore;

/// For objects and database pages of each OSD that keeps files; data is cached by the kernel.
const FILES_MEMORY_DEFAULT: u64 = 32 << 20;
/// Memory of each block store, which bypasses the page cache; all OSDs together take at most half of the
/// machine's memory by default.
const BLOCK_MEMORY_DEFAULT: u64 = 1 << 30;
const BLOCK_MEMORY_MIN: u64 = 64 << 20;

/// How an OSD's store is opened.
#[derive(Debug)]
pub struct DiskOptions {
    /// A store of another OSD is refused.
    pub owner: Owner,
    /// Of its store.
    pub memory: u64,
    /// Where a store of files keeps its log, if not beside the data.
    pub log: Option<PathBuf>,
    /// Of a store of files that shares its file system.
    pub capacity: Option<u64>,
}

/// Default memory in bytes of an OSD's store on a machine with this many OSDs.
pub fn default_memory(directory: &Path, osds: u32) -> u64 {
    match kind_of(directory) {
        Ok(StoreKind::Files) => FILES_MEMORY_DEFAULT,
        _ => {
            let share = machine::total_memory() / 2 / u64::from(osds.max(1));
            share.clamp(BLOCK_MEMORY_MIN, BLOCK_MEMORY_DEFAULT)
        }
    }
}

/// Names of the disks of the store in an OSD's directory, for its metadata: those with data, and those with
/// the log if it lies elsewhere.
pub fn disk_facts(directory: &Path, log: Option<&Path>) -> BTreeMap<String, String> {
    let (data, log) = match kind_of(directory) {
        Ok(StoreKind::Block) => (main_path(directory), Some(fast_path(directory))),
        _ => (directory.to_owned(), log.map(Path::to_owned)),
    };
    let (data, log) = (disks_below(&data), log.map(|log| disks_below(&log)).unwrap_or_default());
    let named = [("devices", data), ("log_devices", log)].into_iter();
    let named = named.filter(|(_, names)| !names.is_empty());
    named.map(|(name, names)| (name.to_owned(), names.join(","))).collect()
}

/// The store of an OSD.
pub enum Disk {
    /// Objects as files; with threads of its own.
    Files(FileStore),
    /// A block device; served by the core's reactor.
    Block(Box<BlockDisk>),
}

impl Disk {
    /// Opens the store in an OSD's directory, on the core that the OSD lives on. A block store opens as the
    /// core turns.
    pub fn open(directory: &Path, options: &DiskOptions, core: &mut AnyCore) -> Result<Self> {
        let disk = kind_of(directory).and_then(|kind| match kind {
            StoreKind::Files => Ok(Disk::Files(file_store(directory, options, core)?)),
            StoreKind::Block => {
                Ok(Disk::Block(Box::new(BlockDisk::open(directory, options, core)?)))
            }
        });
        let path = directory.display();
        disk.with_context(|| format!("opening the store of osd.{} in {path}", options.owner.osd))
    }
}

fn file_store(directory: &Path, options: &DiskOptions, core: &AnyCore) -> Result<FileStore> {
    let waker = core.waker();
    let options = Options {
        log: options.log.clone(),
        capacity: options.capacity,
        cache_size: options.memory as usize,
        ..Options::default()
    };
    Ok(FileStore::open(directory, &options, Arc::new(move || waker.wake()))?)
}

impl Storage for Disk {
    type Request = store::Request;
    type Completion = store::Completion;

    fn submit(&mut self, now: Time, request: store::Request) {
        match self {
            Disk::Files(files) => files.submit(now, request),
            Disk::Block(block) => block.store.submit(now, request),
        }
    }

    fn poll_completion(&mut self) -> Option<store::Completion> {
        match self {
            Disk::Files(files) => files.poll_completion(),
            Disk::Block(block) => block.store.poll_completion(),
        }
    }

    fn poll_timeout(&self) -> Option<Time> {
        match self {
            Disk::Files(_) => None,
            Disk::Block(block) => block.store.poll_timeout(),
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        if let Disk::Block(block) = self {
            block.store.handle_timeout(now);
        }
    }
}

impl DiskStorage for Disk {
    fn poll_io(&mut self) -> Option<StorageIo> {
        match self {
            Disk::Files(_) => None,
            Disk::Block(block) => block.poll_io(),
        }
    }

    fn handle_io(&mut self, now: Time, token: u64, result: DiskResult) {
        match self {
            Disk::Files(_) => unreachable!("a file store has its own threads for that"),
            Disk::Block(block) => block.handle_io(now, token, result),
        }
    }

    fn is_open(&self) -> Result<bool> {
        match self {
            Disk::Files(_) => Ok(true),
            Disk::Block(block) => block.is_open(),
        }
    }

    /// A store of files closes when it is dropped.
    fn close(&mut self) {
        if let Disk::Block(block) = self {
            block.store.close();
        }
    }

    fn is_closed(&self) -> bool {
        match self {
            Disk::Files(_) => true,
            Disk::Block(block) => block.store.is_closed(),
        }
    }
}

/// A block store and its files.
pub struct BlockDisk {
    /// Of the OSD, for messages; so is its directory.
    name: String,
    directory: PathBuf,
    store: BlockStore,
    main: FileId,
    fast: Option<FileId>,
    has_failed: bool,
}

impl BlockDisk {
    fn open(directory: &Path, options: &DiskOptions, core: &mut AnyCore) -> Result<Self> {
        let devices = StoreDevices::open(directory)?;
        devices.check_owner(options.owner)?;
        let owner = Some(options.owner.to_bytes());
        let store = BlockStore::open(block::Options { owner, ..devices.options(options.memory) });
        let StoreDevices { main, fast } = devices;
        let main = core.add_file(main.file)?;
        let fast = fast.map(|fast| core.add_file(fast.file)).transpose()?;
        let (name, directory) = (format!("osd.{}", options.owner.osd), directory.to_owned());
        Ok(BlockDisk { name, directory, store, main, fast, has_failed: false })
    }

    fn file(&self, device: Device) -> FileId {
        match device {
            Device::Main => self.main,
            Device::Fast => self.fast.expect("a store asks for devices that it was given"),
        }
    }

    fn poll_io(&mut self) -> Option<StorageIo> {
        const BLOCK_LEN: u64 = BLOCK as u64;
        let (id, device, request) = match self.store.poll_io()? {
            Io::Read { id, device, block, blocks } => {
                let length = blocks as usize * BLOCK;
                (id, device, DiskRequest::Read { offset: block * BLOCK_LEN, length })
            }
            Io::Write { id, device, block, data: pieces, durable } => {
                let offset = block * BLOCK_LEN;
                (id, device, DiskRequest::Write { offset, pieces, durable })
            }
            Io::Flush { id, device } => (id, device, DiskRequest::Flush),
            Io::Discard { id, device, block, blocks } => {
                let (offset, length) = (block * BLOCK_LEN, blocks * BLOCK_LEN);
                (id, device, DiskRequest::Discard { offset, length })
            }
        };
        Some(StorageIo { file: self.file(device), token: id.0, request })
    }

    fn handle_io(&mut self, now: Time, token: u64, result: DiskResult) {
        let result = result.map_err(IoError::new);
        self.store.handle_io(now, IoDone { id: IoId(token), result });
        if !self.has_failed
            && let Some(failure) = self.store.failure()
        {
            self.has_failed = true;
            tracing::error!(osd = self.name, %failure, "the store has failed");
        }
    }

    fn is_open(&self) -> Result<bool> {
        if let Some(failure) = self.store.failure()
            && !self.store.is_open()
        {
            bail!("opening the store of {} in {}: {failure}", self.name, self.directory.display());
        }
        Ok(self.store.is_open())
    }
}
