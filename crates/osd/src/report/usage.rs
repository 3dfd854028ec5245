//! The space on the disk, as the store reports it and commits change it.

use crate::limits;
use store::Usage;

/// The space on the disk.
#[derive(Debug, Default)]
pub(crate) struct DiskUsage {
    usage: Usage,
    /// Bytes of commits in flight; of those completed since `usage` was requested; and of the
    /// latter when it was last requested.
    in_flight: u64,
    stored: u64,
    stored_before: u64,
    /// Whether the groups consider the disk full.
    was_full: bool,
    shortage: Shortfall,
    /// The usage set by `injectfull`.
    injected: Option<Injected>,
}

/// A simulated fill level, for so many reports; without limit if `None`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Injected {
    /// The used share, 0 to 1.
    pub used: f64,
    pub reports: Option<u64>,
}

/// Whether the store refused a write for lack of space, although its usage seemed to allow it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Shortfall {
    #[default]
    None,
    /// The available space at that time is not known yet.
    Noted,
    /// Lasts until more bytes than this are available.
    Until(u64),
}

impl DiskUsage {
    /// Whether so little is free that only deletions are safe.
    pub fn is_disk_full(&self) -> bool {
        self.shortage != Shortfall::None || self.is_less_free_than(limits::FAILSAFE_FREE_PERCENT)
    }

    /// The same if the groups do not know it yet; they are told now.
    pub fn take_change(&mut self) -> Option<bool> {
        let is_full = self.is_disk_full();
        let has_changed = is_full != self.was_full;
        self.was_full = is_full;
        has_changed.then_some(is_full)
    }

    /// Whether too little is free to be backfilled with more groups.
    pub fn is_backfill_full(&self) -> bool {
        self.is_less_free_than(limits::BACKFILL_FREE_PERCENT)
    }

    /// Sets or clears the simulated fill level.
    pub fn inject(&mut self, injected: Option<Injected>) {
        self.injected = injected;
    }

    /// The usage as the store reported it, or as injected.
    pub fn usage(&self) -> Usage {
        let mut usage = self.usage;
        if let Some(Injected { used, .. }) = self.injected {
            let free = (usage.bytes_total as f64 * (1.0 - used)).max(0.0) as u64;
            usage.bytes_available = usage.bytes_available.min(free);
            usage.bytes_used = usage.bytes_used.max(usage.bytes_total - usage.bytes_available);
        }
        usage
    }

    /// Ends an injected usage after its number of reports.
    pub fn count_injected(&mut self) {
        if let Some(Injected { reports: Some(left), .. }) = &mut self.injected {
            *left = left.saturating_sub(1);
            if *left == 0 {
                self.injected = None;
            }
        }
    }

    fn is_less_free_than(&self, percent: u64) -> bool {
        let Usage { bytes_total, bytes_available, .. } = self.usage();
        let taken = self.in_flight + self.stored;
        let free = bytes_available.saturating_sub(taken);
        bytes_total > 0 && free < bytes_total / 100 * percent
    }

    /// Counts a commit that adds `bytes`; [`DiskUsage::end_commit`] must follow.
    pub fn begin_commit(&mut self, bytes: u64) {
        self.in_flight += bytes;
    }

    /// Panics unless exactly the commits in progress, of so many bytes, are counted as such.
    pub fn check_invariants(&self, commit_bytes: u64) {
        assert_eq!(self.in_flight, commit_bytes, "each commit in progress is counted");
    }

    /// Counts a commit as completed, whatever its outcome.
    pub fn end_commit(&mut self, bytes: u64) {
        self.in_flight -= bytes;
        self.stored += bytes;
    }

    /// Notes that the store refused a write. Its available space is an estimate, and should be
    /// requested again.
    pub fn note_refusal(&mut self) {
        self.shortage = Shortfall::Noted;
    }

    /// The store is asked for its usage.
    pub fn begin_query(&mut self) {
        self.stored_before = self.stored;
    }

    /// The answer to the last query.
    pub fn take_usage(&mut self, usage: Usage) {
        self.usage = usage;
        self.stored -= self.stored_before;
        self.shortage = match self.shortage {
            // Otherwise the kind of the write was the cause, and another one may succeed.
            Shortfall::Noted if self.is_backfill_full() => Shortfall::Until(usage.bytes_available),
            Shortfall::Noted => Shortfall::None,
            Shortfall::Until(floor) if usage.bytes_available > floor => Shortfall::None,
            same => same,
        };
    }

    /// Whether commits may have used so much space that the usage should be requested again. They
    /// may overwrite data, so the known usage may be far too pessimistic.
    pub fn is_outdated(&self) -> bool {
        let Usage { bytes_total, bytes_available, .. } = self.usage;
        bytes_total > 0 && self.stored > bytes_available / 2
    }
}
