//! The order in which groups recover, and the reservations by which they are backfilled.

pub(crate) mod reservations;
pub(crate) mod scheduler;

use reservations::Reservations;
use scheduler::Scheduler;

/// Recovery and backfill of all groups.
#[derive(Debug, Default)]
pub(crate) struct Recovery {
    pub scheduler: Scheduler,
    pub reservations: Reservations,
}
