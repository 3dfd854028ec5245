//! The object store of an OSD as its storage.

use crate::store::StoreDevices;
use anyhow::{Result, bail};
use block::BlockStore;
use block::device::{BLOCK, Device, Io, IoDone, IoError, IoId};
use engine::{Storage, Time};
use files::FileStore;
use host::{AnyCore, DiskStorage, StorageIo};
use rt::{DiskRequest, DiskResult, FileId};
use std::path::PathBuf;
use store::ObjectStore;

pub enum Disk {
    /// Objects as files; with threads of its own.
    Files(FileStore),
    /// A block device; served by the core's reactor.
    Block(Box<BlockDisk>),
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
    /// Gives the devices to the core that the OSD lives on; the store opens as the core turns.
    pub fn open(
        name: String,
        directory: PathBuf,
        devices: StoreDevices,
        memory: u64,
        core: &mut AnyCore,
    ) -> Result<Self> {
        let store = BlockStore::open(devices.options(memory));
        let StoreDevices { main, fast } = devices;
        let main = core.add_file(main.file)?;
        let fast = fast.map(|fast| core.add_file(fast.file)).transpose()?;
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
        let result = result.map_err(|fault| IoError(fault.to_string()));
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
