//! A host for one store on simulated devices, in virtual time.
//!
//! The driver never waits: [`Driver::step`] performs the next due event (a completion of a device
//! or a timer of the store) and advances the clock to it. Operations that the store issues in
//! response are submitted to the devices before `step` returns.

use super::FaultyDisk;
use crate::BlockStore;
use crate::device::{Io, IoDone};
use engine::{RequestToken, Time};
use store::{Completion, ObjectStore, Outcome, Request, RequestKind, StoreError};

/// Steps after which a request counts as hung.
const STEPS_MAX: u64 = 2_000_000;

/// Calls of a host to a store besides requests and completions.
pub trait Hosted: ObjectStore {
    /// Next operation to submit; to be called until `None` after each other call.
    fn poll_io(&mut self) -> Option<Io>;
    /// Completes an operation that [`Hosted::poll_io`] returned.
    fn handle_io(&mut self, now: Time, done: IoDone);
    /// Time at which [`Hosted::handle_timeout`] is due; `None` without a timer.
    fn poll_timeout(&self) -> Option<Time>;
    /// Runs timers that are due at `now`.
    fn handle_timeout(&mut self, now: Time);
    /// Set once the store is open or has failed.
    fn is_ready(&self) -> bool;
}

impl Hosted for BlockStore {
    fn poll_io(&mut self) -> Option<Io> {
        BlockStore::poll_io(self)
    }

    fn handle_io(&mut self, now: Time, done: IoDone) {
        BlockStore::handle_io(self, now, done);
    }

    fn poll_timeout(&self) -> Option<Time> {
        BlockStore::poll_timeout(self)
    }

    fn handle_timeout(&mut self, now: Time) {
        BlockStore::handle_timeout(self, now);
    }

    fn is_ready(&self) -> bool {
        self.is_open() || self.failure().is_some()
    }
}

/// A store with its devices and their common clock, driven event by event. Panics if a request does
/// not complete within a fixed number of steps.
#[derive(Debug)]
pub struct Driver<S> {
    store: S,
    disk: FaultyDisk,
    now: Time,
    steps: u64,
    tokens: RequestToken,
}

impl<S: Hosted> Driver<S> {
    /// Drives a store that was just opened and has received no event yet.
    pub fn new(store: S, disk: FaultyDisk, now: Time) -> Self {
        let mut driver = Driver { store, disk, now, steps: 0, tokens: 0 };
        driver.submit_io();
        driver
    }

    /// For inspection; calls that change the store go through [`Driver::with_store`].
    pub fn store(&self) -> &S {
        &self.store
    }

    /// Calls the store directly, then submits its operations.
    pub fn with_store<R>(&mut self, action: impl FnOnce(&mut S) -> R) -> R {
        let result = action(&mut self.store);
        self.submit_io();
        result
    }

    /// For counters and content of the devices.
    pub fn disk(&self) -> &FaultyDisk {
        &self.disk
    }

    /// For fault injection; operations are submitted by the driver alone.
    pub fn disk_mut(&mut self) -> &mut FaultyDisk {
        &mut self.disk
    }

    /// Virtual time of the last event.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Number of completions and timers so far.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Submits a request without waiting.
    pub fn submit(&mut self, kind: RequestKind) -> RequestToken {
        self.tokens += 1;
        self.store.submit(self.now, Request { token: self.tokens, kind });
        self.submit_io();
        self.tokens
    }

    /// Next completion that is there already.
    pub fn poll_completion(&mut self) -> Option<Completion> {
        self.store.poll_completion()
    }

    /// Performs the next event; false if none is left.
    pub fn step(&mut self) -> bool {
        let operation = self.disk.next_event();
        let timer = self.store.poll_timeout();
        let Some(due) = operation.into_iter().chain(timer).min() else { return false };
        self.now = self.now.max(due);
        self.steps += 1;
        if operation.is_some_and(|operation| operation <= self.now) {
            self.disk.advance_one(self.now);
            while let Some(done) = self.disk.poll() {
                self.store.handle_io(self.now, done);
            }
        } else {
            self.store.handle_timeout(self.now);
        }
        self.submit_io();
        true
    }

    /// Waits until the store is open, or has failed.
    pub fn run_until_ready(&mut self) {
        self.run_until("open", |driver| driver.store.is_ready());
    }

    /// Runs until neither the devices nor the store have anything due.
    pub fn run_until_idle(&mut self) {
        self.run_until("become idle", |driver| {
            let is_due = driver.store.poll_timeout().is_some_and(|due| due <= driver.now);
            driver.disk.next_event().is_none() && !is_due
        });
    }

    /// Runs until the next completion.
    pub fn next_completion(&mut self) -> Completion {
        let mut next = None;
        self.run_until("answer", |driver| {
            next = driver.poll_completion();
            next.is_some()
        });
        next.expect("waited for it")
    }

    /// Performs one request; no other may be in flight.
    pub fn execute(&mut self, kind: RequestKind) -> Result<Outcome, StoreError> {
        let token = self.submit(kind);
        let completion = self.next_completion();
        assert_eq!(completion.token, token, "an answer to another request");
        completion.outcome
    }

    /// Drops the store and returns its devices, without a crash.
    pub fn into_disk(self) -> FaultyDisk {
        self.disk
    }

    fn run_until(&mut self, what: &str, mut condition: impl FnMut(&mut Self) -> bool) {
        for _ in 0..STEPS_MAX {
            if condition(self) {
                return;
            }
            assert!(self.step(), "the store does not {what}, and nothing is on its way");
        }
        panic!("the store does not {what} within {STEPS_MAX} steps");
    }

    fn submit_io(&mut self) {
        while let Some(io) = self.store.poll_io() {
            self.disk.submit(self.now, io);
        }
    }
}
