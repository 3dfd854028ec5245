//! When the next report is due.

use crate::limits;
use engine::{Duration, Time};

/// Changes are gathered for so long before a report.
const GATHER: Duration = Duration::from_millis(50);
/// Minimum distance of reports that are only about states of groups: while many recover, each
/// report covers several.
const SPACING: Duration = Duration::from_millis(500);

/// The schedule of reports.
#[derive(Debug, Default)]
pub(crate) struct Schedule {
    due: Option<Time>,
    last: Time,
    is_asking: bool,
    sequence: u64,
}

impl Schedule {
    /// When the next report is due; `None` while the store's usage is requested for one.
    pub fn due(&self) -> Option<Time> {
        self.due.filter(|_| !self.is_asking)
    }

    /// Requests a report soon, because of a change.
    pub fn request(&mut self, now: Time) {
        let soon = now + GATHER;
        self.due = Some(self.due.map_or(soon, |due| due.min(soon)));
    }

    /// Requests a report of a group's state that is only of interest to people.
    pub fn request_soon(&mut self, now: Time) {
        self.request(now.max(self.last + SPACING));
    }

    /// A report begins: the store is asked for its usage.
    pub fn begin(&mut self, now: Time) {
        self.is_asking = true;
        self.last = now;
        self.due = Some(now + limits::REPORT_INTERVAL);
    }

    /// The store has told its usage, or has failed to: the next report may begin.
    pub fn end_query(&mut self) {
        self.is_asking = false;
    }

    /// The number of the latest report.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Counts a report that is sent now.
    pub fn count(&mut self) -> u64 {
        self.sequence += 1;
        self.sequence
    }

    /// Makes a report due now, and returns the number of the one that includes the present state.
    /// A report that is being prepared may have older usage.
    pub fn flush(&mut self, now: Time) -> u64 {
        self.due = Some(now);
        self.sequence + if self.is_asking { 2 } else { 1 }
    }
}
