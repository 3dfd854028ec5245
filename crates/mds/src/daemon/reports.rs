//! Reports of the rank's counters to the monitor.

use engine::{CoreLoad, Duration, Time};
use wire::{MdsCounters, MdsReport};

/// Time between reports.
const INTERVAL: Duration = Duration::from_secs(2);

/// When the next report is due, and the load of the server's core.
#[derive(Debug, Default)]
pub(super) struct Reports {
    due: Option<Time>,
    load: CoreLoad,
}

impl Reports {
    /// Notes the load of the core.
    pub fn set_load(&mut self, load: CoreLoad) {
        self.load = load;
    }

    /// When a report is due; `None` before the server has a rank.
    pub fn due(&self) -> Option<Time> {
        self.due
    }

    /// The report of a server that has a rank, if one is due: the first one at once.
    pub fn report(
        &mut self,
        now: Time,
        gid: u64,
        counters: impl FnOnce() -> MdsCounters,
    ) -> Option<MdsReport> {
        if self.due.is_some_and(|due| now < due) {
            return None;
        }
        self.due = Some(now + INTERVAL);
        let cpu_ns = u64::try_from(self.load.cpu.as_nanos()).unwrap_or(u64::MAX);
        Some(MdsReport { gid, counters: MdsCounters { cpu_ns, ..counters() } })
    }
}
