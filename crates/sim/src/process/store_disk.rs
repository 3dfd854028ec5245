//! The disk of a simulated OSD.

use super::Disk;
use engine::Time;
use store::crash::{CrashOptions, CrashStore};
use store::mem::MemStore;
use store::{Completion, ObjectStore, Request};

pub struct StoreDisk {
    store: CrashStore,
}

impl StoreDisk {
    pub fn new(seed: u64, options: CrashOptions) -> Self {
        StoreDisk { store: CrashStore::new(seed, options) }
    }

    pub fn durable(&self) -> &MemStore {
        self.store.durable()
    }

    pub fn commits_pending(&self) -> usize {
        self.store.commits_pending()
    }
}

impl Disk for StoreDisk {
    type Request = Request;
    type Completion = Completion;

    fn submit(&mut self, now: Time, request: Request) {
        self.store.submit(now, request);
    }

    fn poll_completion(&mut self) -> Option<Completion> {
        self.store.poll_completion()
    }

    fn next_event(&self) -> Option<Time> {
        self.store.next_event()
    }

    fn advance(&mut self, now: Time) {
        self.store.advance(now);
    }

    fn crash(&mut self) {
        self.store.crash();
    }
}
