//! Disk of a simulated OSD: the reference store with delays and crashes, or the block store.

use super::block_disk::{BlockDisk, DeviceBlock};
use super::contents::{self, Contents};
use super::disk::Disk;
use crate::stores::StoreKind;
use engine::{Storage, Time};
use std::collections::VecDeque;
use store::crash::CrashStore;
use store::{Collection, Completion, ObjectStore, Request, RequestKind, StoreError};

/// A store of either kind.
pub struct StoreDisk {
    store: Store,
    /// The disk accepts requests and completes none.
    is_stopped: bool,
    /// The copy whose log cannot be read.
    unreadable: Option<Collection>,
    /// Reads of that log, with their times.
    failed: VecDeque<(Time, Completion)>,
    /// Set once a read of that log has failed.
    has_failed: bool,
}

enum Store {
    Crash(CrashStore),
    Block(Box<BlockDisk>),
}

impl StoreDisk {
    /// An empty store.
    pub fn new(seed: u64, kind: StoreKind) -> Self {
        let store = match kind {
            StoreKind::Crash(options) => Store::Crash(CrashStore::new(seed, options)),
            StoreKind::Block(shape) => Store::Block(Box::new(BlockDisk::new(seed, *shape))),
        };
        let failed = VecDeque::new();
        StoreDisk { store, is_stopped: false, unreadable: None, failed, has_failed: false }
    }

    /// Completes no requests until it resumes.
    pub fn stop(&mut self) {
        self.is_stopped = true;
    }

    /// Completes requests again.
    pub fn go_on(&mut self) {
        self.is_stopped = false;
    }

    /// The content that a restart would find if no request in flight survived.
    pub fn durable(&self, now: Time) -> Result<Contents, String> {
        match &self.store {
            Store::Crash(store) => {
                Ok(Contents { store: store.durable().clone(), ..Contents::default() })
            }
            Store::Block(disk) => contents::read(&mut disk.recovered(now)),
        }
    }

    /// Blocks of a block store as a power loss now would leave them.
    pub fn durable_blocks(&self) -> Vec<DeviceBlock> {
        match &self.store {
            Store::Crash(_) => Vec::new(),
            Store::Block(disk) => disk.durable_blocks(),
        }
    }

    /// Replaces the content of a block store. Its OSD may not run.
    pub fn replace_blocks(&mut self, blocks: &[DeviceBlock]) {
        if let Store::Block(disk) = &mut self.store {
            disk.replace_blocks(blocks);
        }
    }

    /// A description of unfinished work, if there is any.
    pub fn unfinished(&self) -> Option<String> {
        match &self.store {
            Store::Crash(store) => {
                let pending = store.commits_pending();
                (pending > 0).then(|| format!("{pending} transactions"))
            }
            Store::Block(disk) => (!disk.is_idle()).then(|| "the block store".to_owned()),
        }
    }

    /// Flips bits of stored data while no store uses it. Only for devices that hold nothing but data.
    pub fn rot(&mut self, now: Time) {
        if let Store::Block(disk) = &mut self.store {
            disk.rot(now);
        }
    }

    /// Fails all requests from now on.
    pub fn kill(&mut self) {
        match &mut self.store {
            Store::Crash(store) => store.kill(),
            Store::Block(disk) => disk.kill(),
        }
    }

    /// Makes so many of a million reads fail from now on.
    pub fn misread(&mut self, per_million: u64) {
        match &mut self.store {
            Store::Crash(store) => store.set_read_errors(per_million),
            Store::Block(disk) => disk.misread(per_million),
        }
    }

    /// Makes one read fail, after `after` others.
    pub fn fail_read(&mut self, after: u64) {
        match &mut self.store {
            Store::Crash(store) => store.fail_read(after),
            Store::Block(disk) => disk.fail_read(after),
        }
    }

    /// Cancels a read failure that is pending.
    pub fn heal_reads(&mut self) {
        match &mut self.store {
            Store::Crash(store) => store.heal_reads(),
            Store::Block(disk) => disk.heal_reads(),
        }
    }

    /// Makes the log of a copy unreadable.
    pub fn fail_copy(&mut self, copy: Collection) {
        self.unreadable = Some(copy);
    }

    /// All logs can be read again; true if a read has failed.
    pub fn heal_copy(&mut self) -> bool {
        self.unreadable = None;
        std::mem::take(&mut self.has_failed)
    }

    /// The failure of a request that reads an unreadable log.
    fn failure(&self, request: &Request) -> Option<Completion> {
        let RequestKind::OmapList { collection, object, prefix, .. } = &request.kind else {
            return None;
        };
        let is_log = pg::is_meta_object(object) && prefix.is_empty();
        (is_log && self.unreadable == Some(*collection)).then(|| {
            let error = StoreError::Corrupt { object: object.clone(), offset: 0, length: 0 };
            Completion { token: request.token, outcome: Err(error) }
        })
    }

    /// The disk works again.
    pub fn heal(&mut self) {
        match &mut self.store {
            Store::Crash(store) => store.heal(),
            Store::Block(disk) => disk.heal(),
        }
    }

    /// Panics if the store has shut down without a device fault.
    pub fn check_failure(&self) {
        if let Store::Block(disk) = &self.store
            && let Some(failure) = disk.failure()
        {
            panic!("the block store fails: {failure}");
        }
    }

    /// Panics if the state of the store contradicts itself.
    pub fn check_invariants(&self) {
        match &self.store {
            Store::Crash(store) => store.durable().check_invariants(),
            Store::Block(disk) => disk.check_invariants(),
        }
    }
}

impl Storage for StoreDisk {
    type Request = Request;
    type Completion = Completion;

    fn submit(&mut self, now: Time, request: Request) {
        if let Some(failure) = self.failure(&request) {
            self.has_failed = true;
            return self.failed.push_back((now, failure));
        }
        match &mut self.store {
            Store::Crash(store) => store.submit(now, request),
            Store::Block(disk) => disk.submit(now, request),
        }
    }

    fn poll_completion(&mut self) -> Option<Completion> {
        if self.is_stopped {
            return None;
        }
        if let Some((_, failure)) = self.failed.pop_front() {
            return Some(failure);
        }
        match &mut self.store {
            Store::Crash(store) => store.poll_completion(),
            Store::Block(disk) => disk.poll_completion(),
        }
    }

    fn poll_timeout(&self) -> Option<Time> {
        if self.is_stopped {
            return None;
        }
        let next = match &self.store {
            Store::Crash(store) => store.next_event(),
            Store::Block(disk) => disk.poll_timeout(),
        };
        let failure = self.failed.front().map(|(at, _)| *at);
        next.into_iter().chain(failure).min()
    }

    fn handle_timeout(&mut self, now: Time) {
        if self.is_stopped {
            return;
        }
        match &mut self.store {
            Store::Crash(store) => store.advance(now),
            Store::Block(disk) => disk.handle_timeout(now),
        }
    }

    fn end_turn(&mut self, now: Time) {
        if let Store::Block(disk) = &mut self.store
            && !self.is_stopped
        {
            disk.end_turn(now);
        }
    }
}

impl Disk for StoreDisk {
    fn crash(&mut self) {
        self.failed.clear();
        match &mut self.store {
            Store::Crash(store) => store.crash(),
            Store::Block(disk) => disk.crash(),
        }
    }
}
