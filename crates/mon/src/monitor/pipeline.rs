//! The pipeline of operations: they wait in queues, and each becomes a transaction of the control store.
//!
//! [`Pipeline`] owns the queues and the tokens of all requests to the store. Tokens grow, so that a
//! completion tells whether its request is older than another one.

mod queue;
mod rejection;

pub(super) use queue::Load;
pub(super) use rejection::Rejection;

use crate::job::{Job, OsdJob};
use crate::live::Operation;
use engine::{ConnId, Time};
use queue::Jobs;
use std::time::Duration;

/// Longest time for which an operation of a client waits; then it is rejected as not executed.
pub const PATIENCE: Duration = Duration::from_secs(300);

/// The waiting operations, and the tokens of requests to the store.
#[derive(Debug, Default)]
pub(super) struct Pipeline {
    jobs: Jobs,
    newest_token: u64,
}

impl Pipeline {
    /// The token of a new request to the store.
    pub fn token(&mut self) -> u64 {
        self.newest_token += 1;
        self.newest_token
    }

    /// The token that was issued last.
    pub fn newest_token(&self) -> u64 {
        self.newest_token
    }

    /// Queues an operation; returns it if there is no room.
    pub fn push(&mut self, job: Job) -> Result<(), Job> {
        self.jobs.push(job)
    }

    /// Merges an operation of OSDs into a waiting one if possible, else queues it; returns it if there is no
    /// room.
    pub fn push_osd(&mut self, job: OsdJob) -> Result<(), Job> {
        self.jobs.push_osd(job)
    }

    /// Queues an operation before all others: it must run again, or first.
    pub fn push_first(&mut self, job: Job) {
        self.jobs.push_first(job);
    }

    /// Takes the next operation out.
    pub fn pop(&mut self) -> Option<Job> {
        self.jobs.pop()
    }

    /// Takes the operations of clients out that have waited for [`PATIENCE`].
    pub fn take_overdue(&mut self, now: Time) -> Vec<Job> {
        self.jobs.take(|job| is_overdue(now, job))
    }

    pub fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    /// Whether an operation of some kind waits.
    pub fn contains(&self, is_wanted: impl Fn(&Job) -> bool) -> bool {
        self.jobs.iter().any(is_wanted)
    }

    /// The waiting operations of clients, for `dump_ops_in_flight`.
    pub fn waiting(&self) -> impl Iterator<Item = Operation> {
        self.jobs.iter().filter_map(Job::summary)
    }

    /// A session's waiting operations.
    pub fn load(&self, conn: ConnId) -> Load {
        self.jobs.load(conn)
    }
}

/// Whether a client has waited for [`PATIENCE`].
pub(super) fn is_overdue(now: Time, job: &Job) -> bool {
    job.asked().is_some_and(|asked| now.since(asked) >= PATIENCE)
}
