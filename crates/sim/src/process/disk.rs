//! Interface of simulated disks, and how a daemon sees one.

use crate::digest::Digest;
use engine::{NodeOutput, Storage, Time};
use std::fmt::Debug;

/// Simulated storage of a daemon: its timers are the completions of disk operations.
pub trait Disk: Storage {
    /// Loses state that is not durable.
    fn crash(&mut self);
}

/// A disk whose completions come at timers only, as separate events, and whose requests enter the digest
/// of the daemon's outputs.
pub(super) struct Paced<S> {
    /// The disk itself.
    pub disk: S,
    /// Set by a timer until all of its completions are taken.
    is_due: bool,
    digest: Digest,
}

impl<S: Disk> Paced<S> {
    /// A disk that has no requests.
    pub fn new(disk: S) -> Self {
        Paced { disk, is_due: false, digest: Digest::default() }
    }

    /// Loses state that is not durable.
    pub fn crash(&mut self) {
        self.is_due = false;
        self.disk.crash();
    }

    /// Adds an output of the daemon to the digest.
    pub fn note_output(&mut self, output: &NodeOutput) {
        self.digest.output(output);
    }
}

impl<S> Paced<S> {
    /// Digest of all outputs so far.
    pub fn digest(&self) -> u64 {
        self.digest.value()
    }
}

impl<S: Disk> Storage for Paced<S>
where
    S::Request: Debug,
{
    type Request = S::Request;
    type Completion = S::Completion;

    fn submit(&mut self, now: Time, request: S::Request) {
        self.digest.request(&request);
        self.disk.submit(now, request);
    }

    fn poll_completion(&mut self) -> Option<S::Completion> {
        let completion = self.is_due.then(|| self.disk.poll_completion()).flatten();
        self.is_due = completion.is_some();
        completion
    }

    /// None while a timer is being handled, so that each timer moves the disk once.
    fn poll_timeout(&self) -> Option<Time> {
        (!self.is_due).then(|| self.disk.poll_timeout()).flatten()
    }

    fn handle_timeout(&mut self, now: Time) {
        self.is_due = true;
        self.disk.handle_timeout(now);
    }

    fn end_turn(&mut self, now: Time) {
        self.disk.end_turn(now);
    }
}
