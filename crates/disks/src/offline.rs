//! A block store without a cluster: asked one thing at a time, which is waited for.

use crate::devices::StoreDevices;
use crate::kind::{StoreKind, kind_of};
use anyhow::{Context, Result, bail};
use block::BlockStore;
use block::device::{Io, IoDone};
use block::fsck::Repairs;
use engine::Time;
use files::{FileStore, Options};
use std::error::Error;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use store::{DeviceFault, ObjectStore, Outcome, Request, RequestKind, StoreError};

/// The only request that is under way.
const TOKEN: u64 = 1;

/// Interval of looking at a store that has threads of its own.
const LOOK: Duration = Duration::from_millis(5);

/// The store wants nothing and has not answered: a defect of this program.
#[derive(Debug)]
struct NoAnswer;

impl fmt::Display for NoAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the store does not answer")
    }
}

impl Error for NoAnswer {}

/// A block store that is asked one thing at a time.
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
                return Err(StoreError::Device(DeviceFault::new(NoAnswer)));
            }
        }
    }

    /// Its devices, for work below the store.
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

/// Sends one request to the store in an OSD's directory, of whatever kind, and waits for the answer.
///
/// # Errors
///
/// The outer one if there is no store, or it does not open; the inner one is the store's answer.
pub fn request_once(
    directory: &Path,
    request: RequestKind,
    memory: u64,
) -> Result<Result<Outcome, StoreError>> {
    match kind_of(directory)? {
        StoreKind::Block => {
            let mut store = OfflineStore::open(directory, memory)?;
            let outcome = store.request(request);
            store.close()?;
            Ok(outcome)
        }
        StoreKind::Files => request_files(directory, request),
    }
}

fn request_files(directory: &Path, kind: RequestKind) -> Result<Result<Outcome, StoreError>> {
    if !directory.join(files::DATABASE).exists() {
        bail!("there is no store in {}", directory.display());
    }
    let mut store = FileStore::open(directory, &Options::default(), Arc::new(|| {}))?;
    store.submit(Time::ZERO, Request { token: TOKEN, kind });
    loop {
        if let Some(completion) = store.poll_completion() {
            return Ok(completion.outcome);
        }
        std::thread::park_timeout(LOOK);
    }
}
