//! The disk of a simulated OSD: the definition of a store with delays and crashes, or the block store.

use super::Disk;
use super::block_disk::BlockDisk;
use super::contents::{self, Contents};
use crate::stores::StoreKind;
use engine::Time;
use store::crash::CrashStore;
use store::{Completion, ObjectStore, Request};

pub enum StoreDisk {
    Crash(CrashStore),
    Block(Box<BlockDisk>),
}

impl StoreDisk {
    pub fn new(seed: u64, kind: StoreKind) -> Self {
        match kind {
            StoreKind::Crash(options) => StoreDisk::Crash(CrashStore::new(seed, options)),
            StoreKind::Block(shape) => StoreDisk::Block(Box::new(BlockDisk::new(seed, *shape))),
        }
    }

    /// What a restart would find if nothing in flight survived.
    pub fn durable(&self, now: Time) -> Result<Contents, String> {
        match self {
            StoreDisk::Crash(store) => {
                Ok(Contents { store: store.durable().clone(), ..Contents::default() })
            }
            StoreDisk::Block(disk) => contents::read(&mut disk.recovered(now)),
        }
    }

    /// What it still has to do, if anything.
    pub fn unfinished(&self) -> Option<String> {
        match self {
            StoreDisk::Crash(store) => {
                let pending = store.commits_pending();
                (pending > 0).then(|| format!("{pending} transactions"))
            }
            StoreDisk::Block(disk) => (!disk.is_idle()).then(|| "the block store".to_owned()),
        }
    }

    /// Bits of stored data flip, while nobody uses it. Only where data lies apart from everything else.
    pub fn rot(&mut self, now: Time) {
        if let StoreDisk::Block(disk) = self {
            disk.rot(now);
        }
    }

    /// From now on it answers nothing but errors.
    pub fn kill(&mut self) {
        match self {
            StoreDisk::Crash(store) => store.kill(),
            StoreDisk::Block(disk) => disk.kill(),
        }
    }

    /// From now on so many of a million reads fail.
    pub fn misread(&mut self, per_million: u64) {
        match self {
            StoreDisk::Crash(store) => store.set_read_errors(per_million),
            StoreDisk::Block(disk) => disk.misread(per_million),
        }
    }

    /// One read fails, after so many others.
    pub fn fail_read(&mut self, after: u64) {
        match self {
            StoreDisk::Crash(store) => store.fail_read(after),
            StoreDisk::Block(disk) => disk.fail_read(after),
        }
    }

    /// No read fails any more because of that.
    pub fn heal_reads(&mut self) {
        match self {
            StoreDisk::Crash(store) => store.heal_reads(),
            StoreDisk::Block(disk) => disk.heal_reads(),
        }
    }

    pub fn heal(&mut self) {
        match self {
            StoreDisk::Crash(store) => store.heal(),
            StoreDisk::Block(disk) => disk.heal(),
        }
    }

    /// Panics if the store has given up: nothing here gives it a reason.
    pub fn check_failure(&self) {
        if let StoreDisk::Block(disk) = self
            && let Some(failure) = disk.failure()
        {
            panic!("the block store fails: {failure}");
        }
    }

    pub fn check_invariants(&self) {
        match self {
            StoreDisk::Crash(store) => store.durable().check_invariants(),
            StoreDisk::Block(disk) => disk.check_invariants(),
        }
    }
}

impl Disk for StoreDisk {
    type Request = Request;
    type Completion = Completion;

    fn submit(&mut self, now: Time, request: Request) {
        match self {
            StoreDisk::Crash(store) => store.submit(now, request),
            StoreDisk::Block(disk) => disk.submit(now, request),
        }
    }

    fn end_turn(&mut self, now: Time) {
        if let StoreDisk::Block(disk) = self {
            disk.end_turn(now);
        }
    }

    fn poll_completion(&mut self) -> Option<Completion> {
        match self {
            StoreDisk::Crash(store) => store.poll_completion(),
            StoreDisk::Block(disk) => disk.poll_completion(),
        }
    }

    fn next_event(&self) -> Option<Time> {
        match self {
            StoreDisk::Crash(store) => store.next_event(),
            StoreDisk::Block(disk) => disk.next_event(),
        }
    }

    fn advance(&mut self, now: Time) {
        match self {
            StoreDisk::Crash(store) => store.advance(now),
            StoreDisk::Block(disk) => disk.advance(now),
        }
    }

    fn crash(&mut self) {
        match self {
            StoreDisk::Crash(store) => store.crash(),
            StoreDisk::Block(disk) => disk.crash(),
        }
    }
}
