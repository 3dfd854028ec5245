//! Reports of OSDs in the queue: they hold for a while, and for the leader.
//!
//! A report tells how things are, such as that an OSD does not answer another one. While the store does not
//! answer, or this monitor does not run, things change, and the withdrawal of the report waits behind it.

use super::Pipeline;
use super::sync::Sync;
use crate::job::Job;
use engine::Time;
use std::time::Duration;

/// Time without a decision after which the reports that wait are dropped. A transaction that takes so long
/// has failed: a store that is merely slow must not have all reports dropped.
const REPORTS_AGE_MAX: Duration = Duration::from_secs(15);

impl Pipeline {
    /// Whether operations may run: the state is current, and none waits for its transaction.
    pub(super) fn may_run(&self) -> bool {
        self.in_flight.is_none() && self.sync == Sync::Current
    }

    /// Drops the reports that wait, if operations may run for the first time in a while, or if another
    /// monitor leads. Returns whether OSDs are to be asked for them: the next leader asks them itself. Called
    /// before operations run.
    pub fn drop_reports(&mut self, now: Time, leads: bool) -> bool {
        if !self.may_run() {
            return false;
        }
        let before = std::mem::replace(&mut self.jobs.ran, now);
        if leads && now.since(before) <= REPORTS_AGE_MAX {
            return false;
        }
        let is_report = |job: &Job| matches!(job, Job::Of(job) if job.is_report());
        !self.jobs.take(is_report).is_empty() && leads
    }
}
