//! The failures of the control store: reported by health, and logged at a limited rate.

use crate::job::Job;
use crate::live::{RefusedChange, StoreTrouble, StoreTroubles, WentBack};
use crate::monitor::complaints::Complaints;
use crate::state::CorruptKey;
use engine::Time;

/// The present failures, and those that were logged.
#[derive(Debug, Default)]
pub(super) struct Failures {
    present: StoreTroubles,
    complaints: Complaints,
}

impl Failures {
    /// The failures, as health reports them.
    pub fn present(&self) -> &StoreTroubles {
        &self.present
    }

    /// Notes whether the store answers requests for the lease.
    pub fn set_unreachable(&mut self, trouble: Option<StoreTrouble>) {
        self.present.unreachable = trouble;
    }

    /// Notes whether the store cannot be read, although it answers otherwise.
    pub fn set_unread(&mut self, trouble: Option<StoreTrouble>) {
        self.present.unread = trouble;
    }

    /// Whether the store is older than the cluster.
    pub fn went_back(&self) -> bool {
        self.present.went_back.is_some()
    }

    /// Notes the evidence that the store is older than the cluster; the first one counts.
    pub fn note_went_back(&mut self, how: WentBack) {
        if self.went_back() {
            return;
        }
        tracing::error!(
            ?how,
            "the control store is older than the cluster: was it restored from a backup?"
        );
        self.present.went_back = Some(how);
    }

    /// Whether the last write failed.
    pub fn is_unwritable(&self) -> bool {
        self.present.unwritable.is_some()
    }

    /// Notes a failed write, for health.
    pub fn note_refused(&mut self, now: Time, reason: &str) {
        let reason = reason.to_owned();
        match &mut self.present.unwritable {
            Some(known) => known.reason = reason,
            none => *none = Some(StoreTrouble { since: now, reason }),
        }
        assert!(self.is_unwritable(), "a failed write is known until one succeeds");
    }

    /// Notes and logs a failed commit.
    pub fn note_commit_failed(&mut self, now: Time, reason: &str) {
        if self.complaints.is_due(now, "commit", reason) {
            tracing::error!(reason, "the control store failed");
        }
        self.note_refused(now, reason);
    }

    /// Notes a successful write.
    pub fn note_written(&mut self) {
        self.present.unwritable = None;
        if self.complaints.is_over("commit") {
            tracing::warn!("the control store takes changes again");
        }
    }

    /// Notes a change that the store will never take.
    pub fn note_refused_change(&mut self, now: Time, job: &Job, reason: String) {
        if self.complaints.is_due(now, "change", &reason) {
            tracing::error!(
                reason,
                ?job,
                "the control store does not take a change; it is dropped"
            );
        }
        self.present.refused_change = Some(RefusedChange { when: now, reason });
    }

    /// Notes entries that cannot be decoded.
    pub fn note_undecodable(&mut self, now: Time, errors: &[CorruptKey]) {
        assert!(!errors.is_empty(), "an entry that cannot be decoded is named");
        let reason = errors.iter().map(describe).collect::<Vec<_>>().join("; ");
        if self.complaints.is_due(now, "unreadable", &reason) {
            tracing::error!(reason, "the control store is unreadable");
        }
        let since = self.present.undecodable.as_ref().map_or(now, |known| known.since);
        self.present.undecodable = Some(StoreTrouble { since, reason });
    }

    /// Notes that all entries were decoded.
    pub fn note_decoded(&mut self) {
        self.present.undecodable = None;
        self.complaints.is_over("unreadable");
    }

    /// Logs a read of `subject` that was refused or not answered.
    pub fn log_unread(&mut self, now: Time, subject: &'static str, reason: &str) {
        if self.complaints.is_due(now, subject, reason) {
            tracing::error!(
                reason,
                "the control store cannot be read as it should; it is tried again"
            );
        }
    }

    /// Notes a successful load.
    pub fn note_read(&mut self) {
        if self.complaints.is_over("load") {
            tracing::warn!("the control store can be read again");
        }
        self.present.unread = None;
    }
}

/// `key x of the control store cannot be read: ...`
fn describe(error: &CorruptKey) -> String {
    error.source.as_ref().map_or_else(|| error.to_string(), |source| format!("{error}: {source}"))
}
