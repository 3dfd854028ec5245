//! Scrubs of this OSD: their schedule, reservations, and the handling of findings.
//!
//! The comparison itself is in [`pg::scrub`]. This module passes messages and reads to the rounds,
//! limits the number of groups that are scrubbed at a time as primary and as replica, keeps
//! findings for clients ([`inconsistent`]), and passes what can be repaired to the group, whose
//! recovery does it.
//!
//! Invariants: a round belongs to one interval of its group and ends with it; a repaired object is
//! checked again before it counts as repaired.

mod handle;
mod inconsistent;
mod member;
pub(crate) mod orders;
mod round;
pub(crate) mod schedule;
mod stamps;
mod state;

pub(crate) use round::Found;
pub(crate) use state::{GroupScrub, Scrubbed, Scrubs};
