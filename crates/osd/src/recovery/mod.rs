//! The order in which groups recover, and the reservations by which they are backfilled.

pub(crate) mod reservations;
pub(crate) mod scheduler;

use pg::Pg;
use reservations::Reservations;
use scheduler::{GroupRecovery, Scheduler};
use types::PgShard;

/// Recovery and backfill of all groups.
#[derive(Debug, Default)]
pub(crate) struct Recovery {
    pub scheduler: Scheduler,
    pub reservations: Reservations,
}

impl Recovery {
    /// Panics unless scheduler and reservations know exactly what these groups, all that there are, recover.
    pub fn check_invariants<'a>(
        &self,
        groups: impl Iterator<Item = (&'a Pg, &'a GroupRecovery)>,
        exists: impl Fn(PgShard) -> bool,
    ) {
        self.scheduler.check_invariants(groups);
        self.reservations.check_invariants(exists);
    }
}
