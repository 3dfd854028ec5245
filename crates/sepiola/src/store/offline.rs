//! A block store without a cluster: asked one thing at a time, which is waited for.

use super::devices::StoreDevices;
use anyhow::{Context, Result, bail};
use block::BlockStore;
use block::device::{Io, IoDone};
use block::fsck::Repairs;
use engine::Time;
use std::path::Path;
use store::{ObjectStore, Outcome, Request, RequestKind, StoreError};

/// The only request that is under way.
const TOKEN: u64 = 1;

pub struct OfflineStore {
    devices: StoreDevices,
    store: BlockStore,
    /// There is no clock: time passes when the store waits for it.
    now: Time,
}

impl OfflineStore {
    /// Opens the store that `path` is or has: an OSD's directory or a device.
    pub fn open(path: &Path, memory: u64) -> Result<Self> {
        let devices = StoreDevices::open(path)?;
        let opened = OfflineStore::open_with(devices, memory, None);
        opened.with_context(|| format!("opening the store in {}", path.display()))
    }

    /// Mends the store first of all, if it is to be mended.
    pub fn open_with(devices: StoreDevices, memory: u64, repairs: Option<Repairs>) -> Result<Self> {
        let options = devices.options(memory);
        let store = match repairs {
            Some(repairs) => BlockStore::open_for_repair(options, repairs),
            None => BlockStore::open(options),
        };
        let mut this = OfflineStore { devices, store, now: Time::ZERO };
        while !this.store.is_open() {
            if let Some(failure) = this.store.failure() {
                bail!("{failure}");
            }
            if !this.step() {
                bail!("it does not open");
            }
        }
        Ok(this)
    }

    /// Waits for the answer.
    pub fn request(&mut self, kind: RequestKind) -> Result<Outcome, StoreError> {
        self.store.submit(self.now, Request { token: TOKEN, kind });
        loop {
            if let Some(completion) = self.store.poll_completion() {
                return completion.outcome;
            }
            if !self.step() {
                return Err(StoreError::Device("the store does not answer".to_owned()));
            }
        }
    }

    pub fn devices(&self) -> &StoreDevices {
        &self.devices
    }

    /// Lets the store end what it does in the background, and note that all of it is durable.
    pub fn close(mut self) -> Result<()> {
        self.store.close();
        while !self.store.is_closed() && self.step() {}
        loop {
            while let Some(io) = self.store.poll_io() {
                self.perform(&io);
            }
            if self.store.poll_timeout().is_none_or(|due| due > self.now) {
                break;
            }
            self.store.handle_timeout(self.now);
        }
        self.devices.flush().context("closing the store")
    }

    /// Does something for the store; false if it wants nothing.
    fn step(&mut self) -> bool {
        if let Some(io) = self.store.poll_io() {
            self.perform(&io);
            return true;
        }
        let Some(due) = self.store.poll_timeout() else { return false };
        self.now = self.now.max(due);
        self.store.handle_timeout(self.now);
        true
    }

    fn perform(&mut self, io: &Io) {
        let (Io::Read { id, .. }
        | Io::Write { id, .. }
        | Io::Flush { id, .. }
        | Io::Discard { id, .. }) = *io;
        let result = self.devices.perform(io);
        self.store.handle_io(self.now, IoDone { id, result });
    }
}
