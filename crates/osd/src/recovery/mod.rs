//! The order in which groups recover, and the reservations by which they are backfilled.

mod reservations;
pub(crate) mod scheduler;

use engine::Time;
use reservations::Reservations;
use scheduler::{GroupRecovery, Scheduler};
use serde_json::Value;
use types::PgId;

/// Recovery and backfill of all groups.
#[derive(Debug, Default)]
pub(crate) struct Recovery {
    scheduler: Scheduler,
    reservations: Reservations,
}

impl Recovery {
    /// Whether no group has objects to recover.
    pub fn is_idle(&self) -> bool {
        self.scheduler.is_idle()
    }

    /// `dump_recovery_reservations`; `places` is `osd_max_backfills`.
    pub fn dump(&self, places: usize) -> Value {
        self.reservations.dump(places)
    }

    /// When recovery continues after a pause.
    pub fn due(&self) -> Option<Time> {
        self.scheduler.due()
    }

    /// Forgets a group that is gone, with the values that the scheduler knows of it.
    pub fn forget(&mut self, pg: PgId, known: &GroupRecovery) {
        self.scheduler.forget(pg, known);
    }
}
